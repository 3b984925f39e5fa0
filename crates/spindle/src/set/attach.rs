//! Read-only classes: the files of a device that is not written come into the name space of a set,
//! without a copy of their bytes.
//!
//! Attaching changes the label first. Then the files are made below a name that only this uses, and
//! at last they get the name that was asked for. So a crash leaves all of them or none; what it
//! leaves of the class is used when the command is given again.

use super::area_sink::AreaSink;
use super::change::{Report, open, open_again};
use super::find::label;
use super::open::{OpenSet, open_area};
use crate::control::Name;
use crate::error::{Context, Error, Result};
use crate::image::{Image, OpenOptions, open_device_unlocked, reasons};
use crate::path::{child, create, resolve, resolve_parent};
use crate::text::{counted, quoted};
use crate::transfer::{CHUNK, ImageSource, Sink, Source, check_name, join, split};
use crate::walk::{Walk, When};
use spindle_cache::Settings;
use spindle_clock::TickClock;
use spindle_device::{Device, Spec};
use spindle_mfs::{BytesRead, ClassName, Fingerprint, Layout, Mfs, Progress, ReadOnlyClass, is_member};
use spindle_vfs::{
    Error as FsError, Extent, FileKind, FileSystem, Ino, NewNode, Node, Privilege, RenameMode, Vfs,
};
use std::sync::Arc;

/// Files that are named when a class cannot be detached.
const NAMED: usize = 5;

/// A device to attach.
#[derive(Clone, Debug)]
pub struct Attach {
    /// The file, block device or partition.
    pub device: Spec,
    /// The name of the class that it becomes.
    pub class: ClassName,
    /// The path in the set of the directory that gets its files. It must not exist, unless the
    /// device was attached before: then only its place is recorded.
    pub at: Vec<u8>,
    /// What is on the device.
    pub brought: Brought,
    /// The class to which goes what is written over the files. If none is given: the first one with
    /// blocks of the same size.
    pub write_class: Option<ClassName>,
}

/// What a device brings.
#[derive(Clone, Debug)]
pub enum Brought {
    /// The tree of a file system that Spindle reads.
    Tree,
    /// Ranges of its bytes, as files.
    Raw(Vec<RawFile>),
}

/// A range of a device that becomes a file.
#[derive(Clone, Debug)]
pub struct RawFile {
    /// The name of the file.
    pub name: Vec<u8>,
    /// Its first byte, and its length in bytes; none for the whole device.
    pub range: Option<(u64, u64)>,
}

/// What was attached.
#[derive(Clone, Debug, Default)]
pub struct Attached {
    /// Bytes of a block of the class.
    pub block_bytes: u32,
    /// The class to which goes what is written over the files; none if nothing can be written.
    pub write_class: Option<String>,
    /// True if the files are there already; then only the place of the device was recorded.
    pub was_there: bool,
    /// Files whose data stays on the device, and their bytes.
    pub placed: (u64, u64),
    /// Files whose data had to be copied, as they do not lie there in whole blocks, and the bytes.
    pub copied: (u64, u64),
}

/// What was detached.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detached {
    /// Bytes that were copied to other classes.
    pub copied: u64,
}

/// Attaches a device to the set that `spec` is a member of, which must not be mounted. If this was
/// interrupted, calling it again begins anew.
///
/// # Errors
/// If the set is mounted or not whole enough; the device cannot be read, is attached as something
/// else, or has no file system that can be read; a path or a class is in the way; or there is no
/// room for the headers of the files.
pub fn attach(spec: &Spec, attach: &Attach, report: &mut Report<'_>) -> Result<Attached> {
    let at = attach.at.strip_suffix(b"/").unwrap_or(&attach.at).to_vec();
    let attach = &Attach { at, ..attach.clone() };
    let (device_spec, class_name) = (&attach.device, &attach.class);
    refuse_mounted(spec)?;
    let set = open(spec, false)?;
    if is_member(&*open_device_unlocked(device_spec)?)? {
        return Err(Error::new("a member of a set cannot be attached; copy its files").within(device_spec));
    }
    let device = open_area(device_spec)?;
    let tree = match &attach.brought {
        Brought::Tree => Some(source(device_spec, &device)?),
        Brought::Raw(_) => None,
    };
    let layout = &set.set.layout;
    let (block_bytes, write_class) = match (&attach.brought, &tree) {
        (Brought::Raw(files), _) => {
            raw_classes(layout, attach, &ranges(files, &*device)?, device.info().size_bytes)?
        }
        (Brought::Tree, tree) => {
            let unit = tree.as_ref().and_then(Image::unit).unwrap_or(0);
            (unit, write_class(layout, attach, |block| block == unit)?)
        }
    };
    let exists = path_exists(&set, &attach.at)?;
    let in_the_way = || Err(FsError::Exists).named(&attach.at).context(spec);
    if exists && !set.set.label_now().read_only.iter().any(|class| class.name == *class_name) {
        return in_the_way();
    }
    let mut read = reading(device.info().size_bytes, report);
    let print = Fingerprint::read(&*device, &mut *read).context(device_spec)?;
    drop(read);
    let class = ReadOnlyClass { name: class_name.clone(), block_bytes, area: Some(print) };
    let is_new = !set.set.label_now().read_only.contains(&class);
    if is_new && exists {
        return in_the_way();
    }
    set.set.attach(&class, &*device).context(spec)?;
    drop(set);
    let mut attached = Attached { block_bytes, write_class, was_there: exists, ..Attached::default() };
    if exists {
        return Ok(attached);
    }
    let made = with_files(spec, |vfs, mfs| {
        let maker = Maker { vfs, mfs, attach, device: &*device, tree: tree.as_ref(), is_new };
        maker.make(&mut attached)
    });
    if made.is_err() && is_new {
        // The caller reports the first failure.
        let undone = open(spec, false).and_then(|set| Ok(set.set.detach(class_name, Arc::new(TickClock))?));
        match undone {
            Ok(_) => log::info!("the class {class_name} is detached again"),
            Err(error) => log::warn!("the class {class_name} cannot be detached again: {error}"),
        }
    }
    made.context(spec)?;
    Ok(attached)
}

/// Detaches a read-only class of the set that `spec` is a member of, which must not be mounted.
/// With `copy`, what files have on it is copied to the classes to which goes what is written over
/// them.
///
/// # Errors
/// If files have something on it that is not copied, the set is mounted or not whole enough, or a
/// device fails.
pub fn detach(spec: &Spec, class: &ClassName, copy: bool, report: &mut Report<'_>) -> Result<Detached> {
    refuse_mounted(spec)?;
    let mut detached = Detached::default();
    let mut set = open(spec, false)?;
    if copy {
        // Copies of other bytes would pass for the files' own.
        let mut report = |progress| report(progress).map_err(|error| stopped(&error));
        let changed = set.set.verify_read_only(&mut report).context(spec)?;
        if changed.contains(class) {
            let class = quoted(class.to_string().as_bytes());
            return Err(Error::new(format!(
                "the device of class {class} is not what it was when it was attached, or cannot be read; copy what is good of \
                 its files, remove them, and detach it without --copy"
            ))
            .within(spec));
        }
        drop(set);
        detached.copied = with_files(spec, |_, mfs| Ok(mfs.copy_from(class, &mut report)?)).context(spec)?;
        set = open_again(spec)?;
    }
    let users = set.set.detach(class, Arc::new(TickClock)).context(spec)?;
    if users.is_empty() {
        return Ok(detached);
    }
    let named = names_of(&set, &users)?;
    let (count, class) = (users.len(), quoted(class.to_string().as_bytes()));
    let more = if count > named.len() { ", …" } else { "" };
    let remedy = if copy {
        "no class with blocks of the same size can be written; copy them elsewhere and remove them"
    } else {
        "remove them, or have their data copied with --copy"
    };
    let what = format!(
        "{} with data of class {class}: {}{more}; {remedy}",
        counted(count as u64, "file"),
        named.join(", ")
    );
    Err(Error::new(what).within(spec))
}

/// Refuses a set that is mounted: a mount has the classes with which it was opened.
fn refuse_mounted(spec: &Spec) -> Result<()> {
    if Name::of_set(label(spec)?.set_id, spec)?.is_taken() {
        return Err(Error::new("the set is mounted; unmount it first").within(spec));
    }
    Ok(())
}

fn stopped(error: &Error) -> spindle_device::Error {
    spindle_device::Error::io("the change", "going on", std::io::Error::other(error.to_string()))
}

/// Returns what reports the bytes of `total` that were read.
fn reading<'a>(total: u64, report: &'a mut Report<'_>) -> Box<BytesRead<'a>> {
    Box::new(move |done| report(Progress { done, total }).map_err(|error| stopped(&error)))
}

/// Opens the file system on a device that is attached.
fn source(spec: &Spec, device: &Arc<dyn Device>) -> Result<Image> {
    let image = Image::open_device(spec, device.clone(), Settings::default(), &OpenOptions::read_only());
    image.map_err(|error| {
        Error::new(format!("{error}; --raw NAME makes a file of what is on it")).within(spec)
    })
}

/// Returns the ranges of files.
fn ranges(files: &[RawFile], device: &dyn Device) -> Result<Vec<(u64, u64)>> {
    let size = device.info().size_bytes;
    let range = |file: &RawFile| {
        check_name(&file.name)?;
        let (offset, len) = file.range.unwrap_or((0, size));
        if len == 0 || offset.checked_add(len).is_none_or(|end| end > size) {
            let what = format!("{len} bytes at byte {offset} are not on the device of {size} bytes");
            return Err(Error::new(what)).named(&file.name);
        }
        Ok((offset, len))
    };
    files.iter().map(range).collect()
}

/// Returns the size of the blocks of a class of which each range begins with a block, and the class
/// to which goes what is written over them.
fn raw_classes(
    layout: &Layout,
    attach: &Attach,
    ranges: &[(u64, u64)],
    size: u64,
) -> Result<(u32, Option<String>)> {
    let begins = |block: u32| ranges.iter().all(|(offset, _)| offset.is_multiple_of(block.into()));
    if let Some(name) = write_class(layout, attach, begins)? {
        let class = layout.class_named(name.as_bytes()).map(|(_, class)| class.structure.block_bytes);
        return Ok((class.unwrap_or(0), Some(name)));
    }
    // Then the end of a file cannot be copied either.
    let has = |block: u32| {
        let whole = size / u64::from(block) * u64::from(block);
        ranges.iter().all(|(offset, len)| offset + len <= whole)
    };
    match (9..=20).rev().map(|shift| 1 << shift).find(|&block| begins(block) && has(block)) {
        Some(block) => Ok((block, None)),
        None => Err(Error::new("a file begins within a sector of 512 bytes").within(&attach.device)),
    }
}

/// Returns the class to which goes what is written: the one that was asked for, or the first one
/// with `usable` blocks.
fn write_class(layout: &Layout, attach: &Attach, usable: impl Fn(u32) -> bool) -> Result<Option<String>> {
    let Some(wanted) = &attach.write_class else {
        let class = layout.writable().find(|class| usable(class.structure.block_bytes));
        return Ok(class.map(|class| class.name.to_string()));
    };
    match layout.writable().find(|class| class.name == *wanted) {
        None => Err(Error::new(format!("no class {wanted} of data can be written"))),
        Some(class) if !usable(class.structure.block_bytes) => Err(Error::new(format!(
            "class {wanted} has blocks of {} bytes, in which the files do not lie",
            class.structure.block_bytes
        ))),
        Some(_) => Ok(Some(wanted.to_string())),
    }
}

/// Returns the files of a set that is not mounted, to read.
fn files(set: &OpenSet) -> Result<Vfs> {
    let options = spindle_mfs::OpenOptions { read_only: true, ..spindle_mfs::OpenOptions::default() };
    Ok(vfs(Arc::new(Mfs::open(&set.set, Arc::new(TickClock), &options)?)))
}

/// Returns true if there is something at a path of a set that is not mounted; its directory must
/// be there.
fn path_exists(set: &OpenSet, path: &[u8]) -> Result<bool> {
    let vfs = files(set)?;
    let (dir, name) = resolve_parent(&vfs, path)?;
    match child(&vfs, dir.ino(), name) {
        Ok(_) => Ok(true),
        Err(FsError::NotFound) => Ok(false),
        Err(error) => Err(error).named(path),
    }
}

fn vfs(mfs: Arc<Mfs>) -> Vfs {
    Vfs::new(mfs, spindle_vfs::Options::default())
}

/// Opens the file system of a set again, has `change` change it, and unmounts it, also after a
/// failure.
fn with_files<T>(spec: &Spec, change: impl FnOnce(&Vfs, &Mfs) -> Result<T>) -> Result<T> {
    let set = OpenSet::open_as(spec, &OpenOptions::read_write(), false)?;
    let mfs = Arc::new(Mfs::open(&set.set, Arc::new(TickClock), &spindle_mfs::OpenOptions::default())?);
    if mfs.read_only() {
        return Err(Error::new(reasons(mfs.read_only_reasons())));
    }
    let changed = change(&vfs(mfs.clone()), &mfs);
    let unmounted = mfs.unmount();
    let value = changed?;
    unmounted?;
    Ok(value)
}

/// Returns the paths of some of these files.
fn names_of(set: &OpenSet, users: &[Ino]) -> Result<Vec<String>> {
    let vfs = files(set)?;
    let mut names = Vec::new();
    for visit in Walk::new(b"/", vfs.root_node()?) {
        let visit = visit?;
        if visit.when != When::After && users.contains(&visit.attr.ino) {
            names.push(quoted(&visit.path));
        }
        if names.len() == NAMED {
            break;
        }
    }
    Ok(names)
}

/// Makes the files of a device that is attached.
struct Maker<'a> {
    vfs: &'a Vfs,
    mfs: &'a Mfs,
    attach: &'a Attach,
    device: &'a dyn Device,
    /// The file system on it, if its tree is wanted.
    tree: Option<&'a Image>,
    /// True if the class was made now, so that no earlier attempt can have left anything.
    is_new: bool,
}

impl Maker<'_> {
    fn make(&self, attached: &mut Attached) -> Result<()> {
        let fs = self.vfs.fs();
        let (parent, name) = resolve_parent(self.vfs, &self.attach.at)?;
        let unfinished = format!(".{}.attach", self.attach.class).into_bytes();
        if !self.is_new {
            self.remove(parent.ino(), &unfinished)?;
        }
        let dir = NewNode::new(FileKind::Directory, 0o755);
        let root = create(self.vfs, parent.ino(), &unfinished, &dir).named(&unfinished)?;
        let made = self.fill(&root, &unfinished, attached).and_then(|()| {
            let (from, to) = ((parent.ino(), &unfinished[..]), (parent.ino(), name));
            Ok(fs.rename(from.0, from.1, to.0, to.1, RenameMode::NoReplace, Privilege::Root)?)
        });
        drop(root);
        if made.is_err() {
            // The caller reports the first failure.
            let _ = self.remove(parent.ino(), &unfinished);
        }
        made
    }

    /// Makes all files in the directory `root`, which is called `name` meanwhile.
    fn fill(&self, root: &Node<'_>, name: &[u8], attached: &mut Attached) -> Result<()> {
        match (&self.attach.brought, self.tree) {
            (Brought::Raw(files), _) => {
                for (file, range) in files.iter().zip(ranges(files, self.device)?) {
                    let new = NewNode::new(FileKind::Regular, 0o644);
                    let made = create(self.vfs, root.ino(), &file.name, &new).named(&file.name)?;
                    self.place_raw(made.ino(), range, attached).named(&file.name)?;
                }
                Ok(())
            }
            (Brought::Tree, Some(image)) => {
                let source = image.vfs();
                let classes = self.classes(attached);
                let classes = (&classes.0[..], classes.1.as_deref());
                let size = self.device.info().size_bytes;
                let path = join(split(&self.attach.at).0, name);
                let mut sink = AreaSink::new((image, &source), (root, path), (self.mfs, size), classes);
                ImageSource::new(&source, resolve(&source, b"/", true)?).walk(&mut sink)?;
                sink.finish()?;
                (attached.placed, attached.copied) = (sink.placed, sink.copied);
                Ok(())
            }
            (Brought::Tree, None) => Ok(()),
        }
    }

    /// Returns the names of the read-only class and of the one that is written.
    fn classes(&self, attached: &Attached) -> (Vec<u8>, Option<Vec<u8>>) {
        (self.attach.class.to_string().into_bytes(), attached.write_class.clone().map(String::into_bytes))
    }

    /// Gives a file its bytes of the device. Those of a block that is not all there are copied.
    fn place_raw(&self, ino: Ino, (offset, len): (u64, u64), attached: &mut Attached) -> Result<()> {
        let block = u64::from(attached.block_bytes);
        let whole = self.device.info().size_bytes / block * block;
        let placed = len.min(whole.saturating_sub(offset));
        let classes = self.classes(attached);
        if placed > 0 {
            let run = Extent { offset: 0, at: offset, len: placed };
            self.mfs.place(ino, placed, (&classes.0, classes.1.as_deref()), &[run])?;
        }
        attached.placed = (attached.placed.0 + 1, attached.placed.1 + placed);
        let mut at = placed;
        while at < len {
            let mut bytes = vec![0; usize::try_from(len - at).unwrap_or(CHUNK).min(CHUNK)];
            // The device has whole sectors.
            let sectors = bytes.len().next_multiple_of(self.device.info().sector_bytes as usize);
            let mut read = vec![0; sectors];
            self.device.read_at(offset + at, &mut read)?;
            let count = bytes.len();
            bytes.copy_from_slice(&read[..count]);
            at += self.vfs.fs().write(ino, at, &bytes, Privilege::Root)? as u64;
        }
        attached.copied.1 += len - placed;
        Ok(())
    }

    /// Removes what an earlier attempt has left.
    fn remove(&self, parent: Ino, name: &[u8]) -> Result<()> {
        let fs = self.vfs.fs();
        let root = match child(self.vfs, parent, name) {
            Err(FsError::NotFound) => return Ok(()),
            root => root.named(name)?,
        };
        for visit in Walk::new(name, root) {
            let visit = visit?;
            let dir = visit.dir.unwrap_or(parent);
            match visit.when {
                When::Before => Ok(()),
                When::Once => fs.unlink(dir, visit.name()),
                When::After => fs.rmdir(dir, visit.name()),
            }
            .named(&visit.path)?;
        }
        Ok(())
    }
}
