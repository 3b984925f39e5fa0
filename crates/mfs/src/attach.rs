//! Attaching and detaching read-only classes of data.
//!
//! Attaching is one change of the label; files get their blocks there afterwards
//! ([`Mfs::place`]). Detaching looks for files that still have some, and is one change of the label
//! too. The structures of a mounted set are those that it was opened with, so neither is done while
//! it is mounted.

use crate::format::class::ClassName;
use crate::format::extent::Extent;
use crate::format::label::{AREAS_MAX, Label};
use crate::format::layout::{DataBlock, Layout, index};
use crate::format::read_only::{ReadOnlyClass, enter, leave};
use crate::manage::{Progress, Report};
use crate::set::labels::is_member;
use crate::set::members::Set;
use crate::tree::mount::{Mfs, OpenOptions};
use spindle_clock::Clock;
use spindle_device::Device;
use spindle_tree::Operations;
use spindle_vfs::{Error, FileSystem, Ino, Privilege, Result};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes that are copied at once.
const PIECE: u64 = 1 << 20;
const BY: Privilege = Privilege::Root;

impl Set {
    /// Makes a read-only class of a device, whose fingerprint is the area of `class`. If it is one
    /// already, only its place is noted. The set has to be opened again to use it.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the set is mounted, the class or the device is used otherwise,
    /// there are too many classes, or the device is a member of a set; device errors.
    pub fn attach(&self, class: &ReadOnlyClass, device: &dyn Device) -> Result<()> {
        let _change = self.only_change()?;
        self.refuse_mounted()?;
        let (name, path) = (&class.name, &device.info().name);
        let Some(print) = class.area else {
            return Err(Error::unsupported(format!("class {name} without an area"), "name a device"));
        };
        if is_member(device)? {
            let what = format!("{path} is a member of a multi-structured file system");
            return Err(Error::unsupported(what, "copy its files"));
        }
        if device.info().sector_bytes > class.block_bytes {
            let what = format!("blocks of {} bytes on {path}", class.block_bytes);
            let remedy = format!("it takes whole sectors of {}", device.info().sector_bytes);
            return Err(Error::unsupported(what, remedy));
        }
        let label = self.labels.now();
        match label.read_only.iter().find(|other| other.area == Some(print)) {
            Some(own) if own == class => {}
            Some(other) => {
                let what = format!("{path} is attached already, as class {}", other.name);
                return Err(Error::unsupported(
                    what,
                    format!("name it, with blocks of {}", other.block_bytes),
                ));
            }
            None => {
                let read_only = with(&label, class)?;
                self.labels.note_read_only(print.id(), path);
                return self.record(read_only);
            }
        }
        self.labels.note_read_only(print.id(), path);
        self.labels.write_places();
        Ok(())
    }

    /// Detaches a read-only class, if no file has anything of it. Returns the numbers of the files
    /// that have; then nothing has changed.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the set is mounted or there is no such read-only class;
    /// [`Error::Corrupt`] if a file header is damaged, so that nobody knows; device errors.
    pub fn detach(&self, name: &ClassName, clock: Arc<dyn Clock>) -> Result<Vec<Ino>> {
        let _change = self.only_change()?;
        self.refuse_mounted()?;
        let label = self.labels.now();
        let is_it = |class: &&ReadOnlyClass| class.name == *name && class.area.is_some();
        let Some(class) = label.read_only.iter().find(is_it) else {
            let remedy = "name a class that \"spindle mfs status\" shows as read-only";
            return Err(Error::unsupported(format!("{name} is no read-only class of data"), remedy));
        };
        let id = class.area.map(|print| print.id());
        let mfs = Mfs::open(self, clock, &OpenOptions { read_only: true, ..OpenOptions::default() })?;
        let users = mfs.users_of(name)?;
        mfs.unmount()?;
        if users.is_empty() {
            let mut read_only = label.read_only.clone();
            leave(&mut read_only, name);
            if let Some(id) = id {
                self.labels.forget_read_only(id);
            }
            self.record(read_only)?;
        }
        Ok(users)
    }

    /// Reads the areas of all read-only classes. Returns the classes whose areas are not what they
    /// were when they were attached, or cannot be read.
    ///
    /// # Errors
    /// Those of `report`.
    pub fn verify_read_only(&self, report: &mut Report<'_>) -> Result<Vec<ClassName>> {
        let label = self.labels.now();
        let total = label.read_only.iter().filter_map(|class| class.area).map(|area| area.bytes).sum();
        let (mut before, mut wrong) = (0, Vec::new());
        for (class, area) in label.read_only.iter().zip(&self.read_only) {
            let Some(print) = class.area else { continue };
            let mut stopped = None;
            let mut report = |done| {
                let result = report(Progress { done: before + done, total });
                result.inspect_err(|error| stopped = Some(error.clone()))
            };
            let verified = match area.found() {
                Some(device) => print.is_of(&**device, &mut report),
                None => Ok(false),
            };
            match (verified, stopped) {
                (_, Some(error)) => return Err(error.into()),
                (Ok(true), None) => {}
                (Ok(false), None) => wrong.push(class.name.clone()),
                (Err(error), None) => {
                    log::error!("class {} of data: {error}", class.name);
                    wrong.push(class.name.clone());
                }
            }
            before += print.bytes;
        }
        Ok(wrong)
    }

    /// Records other read-only classes in the labels of all members.
    fn record(&self, read_only: Vec<ReadOnlyClass>) -> Result<()> {
        self.labels.change(|label| label.read_only = read_only)?;
        self.labels.write_places();
        Ok(())
    }

    fn refuse_mounted(&self) -> Result<()> {
        if self.is_mounted.load(Ordering::Acquire) {
            return Err(Error::unsupported(
                "read-only classes change while the set is mounted",
                "unmount it",
            ));
        }
        Ok(())
    }
}

/// Returns the read-only classes of a set with one more.
fn with(label: &Label, class: &ReadOnlyClass) -> Result<Vec<ReadOnlyClass>> {
    let read_only = label.read_only.iter().filter(|other| other.area.is_some()).map(|other| &other.name);
    let others = label.all_classes();
    if others.iter().map(|other| &other.name).chain(read_only).any(|other| *other == class.name) {
        let what = format!("the set has a class {} already", class.name);
        return Err(Error::unsupported(what, "choose another name"));
    }
    let mut label = label.clone();
    enter(&mut label.read_only, others.len(), class.clone())?;
    if label.entries() > AREAS_MAX {
        return Err(Error::unsupported("one more area", format!("a set has at most {AREAS_MAX}")));
    }
    Layout::of(&label)?;
    Ok(label.read_only)
}

impl Mfs {
    /// Copies what files have of a read-only class to the classes to which goes what is written
    /// over it. Returns the bytes that were copied. Files that cannot be written stay as they are.
    ///
    /// # Errors
    /// [`Error::NoSpace`], device errors, that of `report`; what was copied before stays copied.
    pub fn copy_from(&self, name: &ClassName, report: &mut Report<'_>) -> Result<u64> {
        let mut ranges = Vec::new();
        for ino in self.users_of(name)? {
            let inode = self.iget_ino(ino)?;
            let state = inode.state.read();
            let block = self.bsize(&state.di);
            let own = |extent: &&Extent| {
                let of = self.layout().class(DataBlock(extent.start).class());
                of.read_only && of.name == *name && !self.layout().is_read_only(state.di.class.into())
            };
            let bytes = |extent: &Extent| extent.lbn * block..(extent.end() * block).min(state.di.size);
            ranges.extend(state.di.extents().iter().filter(own).map(|extent| (ino, bytes(extent))));
        }
        let total = ranges.iter().map(|(_, range)| range.end - range.start).sum();
        let mut done = 0;
        for (ino, range) in ranges {
            done += self.write_again(ino, range)?;
            report(Progress { done, total })?;
        }
        Ok(done)
    }

    /// Writes what a range of a file has over itself: so blocks that are not written in their
    /// places move. Returns the bytes.
    fn write_again(&self, ino: Ino, range: Range<u64>) -> Result<u64> {
        let mut at = range.start;
        let mut bytes = vec![0; index((range.end - at).min(PIECE))];
        while at < range.end {
            let part = index((range.end - at).min(PIECE));
            let read = {
                let inode = self.iget_ino(ino)?;
                let state = inode.state.read();
                self.read_file(&inode.stream, &state.di, at, &mut bytes[..part])?
            };
            let written = if read == 0 { 0 } else { self.write_late(ino, at, &bytes[..read], BY)? };
            if written == 0 {
                break;
            }
            at += written as u64;
        }
        Ok(at - range.start)
    }

    /// Returns the files that have something of a class of data.
    fn users_of(&self, name: &ClassName) -> Result<Vec<Ino>> {
        let Some((number, _)) = self.layout().class_named(name.to_string().as_bytes()) else {
            return Ok(Vec::new());
        };
        let mut users = Vec::new();
        for cylinder in 0..self.layout().cylinders {
            if !self.volume.holds_headers(cylinder) {
                continue;
            }
            for slot in 0..u32::try_from(self.layout().headers_in_cylinder()).unwrap_or(u32::MAX) {
                let ino = self.layout().ino_of(cylinder, slot);
                let header = match self.volume.read_header(ino) {
                    Err(Error::Stale) => continue,
                    header => header?,
                };
                let is_there = |start| usize::from(number) == DataBlock(start).class();
                if header.mode != 0
                    && (header.class == number
                        || header.extents().iter().any(|extent| is_there(extent.start)))
                {
                    users.push(Ino(ino));
                }
            }
        }
        Ok(users)
    }
}
