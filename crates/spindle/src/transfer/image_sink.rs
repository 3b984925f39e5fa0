//! A directory of a file system as a sink.
//!
//! Existing files are replaced; existing directories are kept and filled. With `preserve`, a
//! directory gets its times after all its entries, and directories that are not part of the source
//! keep their times. Symbolic links to directories on a path are followed within the image. A file
//! that would be in the place of the image's log is left out, with a warning.

mod replacement;

use self::replacement::{Making, Need};
use super::{
    Asked, Body, CHUNK, Content, Failed, LeftOut, Meta, Node, Sink, acl, check_name, complete, names, split,
    time_misfit,
};
use crate::error::{Context, Error, Result};
use crate::flags;
use crate::path::{change, child, create, permit_name, resolve};
use crate::text::quoted;
use spindle_clock::Timestamp;
use spindle_ffs::LOG_NAME;
use spindle_vfs::Node as Held;
use spindle_vfs::acl::{NFS4_ACL, is_acl_name};
use spindle_vfs::{
    AclKind, Attr, Error as FsError, FileKind, FileSystem, Ino, NewNode, Privilege, Rdev, SetAttr, SetTime,
    Vfs, XattrMode,
};

/// Attributes of new files.
#[derive(Clone, Copy, Debug)]
pub struct NewFiles {
    /// Keep owners, permissions, times, flags and extended attributes of the source; otherwise
    /// use the fields below.
    pub preserve: bool,
    /// Owner of new files.
    pub uid: u32,
    /// Group of new files.
    pub gid: u32,
    /// Permission bits to clear.
    pub umask: u32,
}

impl NewFiles {
    /// Everything as in the source; files that are created without one belong to root.
    pub const PRESERVED: Self = Self { preserve: true, uid: 0, gid: 0, umask: 0o022 };
}

/// A sink that creates nodes below one directory of a file system.
pub struct ImageSink<'a> {
    vfs: &'a Vfs,
    fs: &'a dyn FileSystem,
    root: Ino,
    /// Path of the root in the image.
    root_path: Vec<u8>,
    stack: Vec<OpenDir<'a>>,
    root_final: Option<FinalAttrs>,
    new: NewFiles,
    xattrs: bool,
    /// It has access control lists.
    acls: AclKind,
    /// It makes no file of the name of a log ([`LOG_NAME`]) at its root.
    without_log: bool,
    /// What to call with an attribute that the format cannot store.
    failed: Option<Failed<'a>>,
    /// A time that the format cannot store ends the transfer.
    strict: bool,
    asked: Asked,
    left_out: LeftOut,
    buffer: Vec<u8>,
}

/// A directory below the root that is being filled.
struct OpenDir<'a> {
    name: Vec<u8>,
    dir: Held<'a>,
    attrs: Option<FinalAttrs>,
}

/// Attributes to set after the content of a file or directory is complete.
struct FinalAttrs {
    perm: u32,
    flags: u32,
    atime: Option<Timestamp>,
    mtime: Timestamp,
    birthtime: Option<Timestamp>,
}

impl FinalAttrs {
    fn of(attr: &Attr) -> Self {
        Self {
            perm: attr.perm,
            flags: attr.flags,
            atime: Some(attr.atime),
            mtime: attr.mtime,
            birthtime: attr.birthtime,
        }
    }

    fn of_meta(meta: &Meta) -> Self {
        let Meta { perm, flags, atime, mtime, birthtime, .. } = *meta;
        Self { perm, flags, atime, mtime, birthtime }
    }
}

impl<'a> ImageSink<'a> {
    /// Returns a sink below the directory `root`, whose path in the image is `root_path`. The
    /// caller keeps the reference to it.
    #[must_use]
    pub fn new(root: &Held<'a>, root_path: &[u8], new: NewFiles) -> Self {
        let vfs = root.vfs();
        let fs = &**vfs.fs();
        let (xattrs, acls) = (fs.limits().xattrs, fs.limits().acls);
        Self {
            vfs,
            fs,
            root: root.ino(),
            root_path: root_path.to_vec(),
            stack: Vec::new(),
            root_final: None,
            new,
            xattrs,
            acls,
            without_log: root.ino() == fs.root(),
            failed: None,
            strict: false,
            asked: Asked::default(),
            left_out: LeftOut::default(),
            buffer: vec![0; CHUNK],
        }
    }

    /// Returns a sink that calls `failed` with each file whose times the format cannot store, and
    /// the nearest take their place, or which loses an access control list.
    #[must_use]
    pub fn past_failures(self, failed: Failed<'a>) -> Self {
        Self { failed: Some(failed), ..self }
    }

    /// Returns a sink that fails with [`FsError::Overflow`] at a file whose times the format cannot
    /// store.
    #[must_use]
    pub fn strict(self, strict: bool) -> Self {
        Self { strict, ..self }
    }

    /// Returns a sink that also calls `failed` with each file that loses what was asked for.
    #[must_use]
    pub fn asking_for(self, asked: Asked) -> Self {
        Self { asked, ..self }
    }

    /// Returns a sink that also leaves out the log of a source that is a whole tree, wherever that
    /// tree goes; in the root directory of an image this is so in any case.
    #[must_use]
    pub fn without_log(self) -> Self {
        Self { without_log: true, ..self }
    }

    fn top(&self) -> Ino {
        self.stack.last().map_or(self.root, |open| open.dir.ino())
    }

    /// Leaves directories until the stack is a prefix of `dir`, then enters the rest of `dir`.
    /// Creates missing directories, because streams may omit them.
    fn enter(&mut self, dir: &[u8]) -> Result<()> {
        let common = self.stack.iter().zip(names(dir)).take_while(|(open, name)| open.name == *name).count();
        while self.stack.len() > common {
            self.leave()?;
        }
        for name in names(dir).skip(common) {
            check_name(name)?;
            self.remember_root()?;
            let dir = match self.lookup_dir(name) {
                Err(e) if e.is(&FsError::NotFound) => {
                    let node = self.node(FileKind::Directory, 0o755, self.new.uid, self.new.gid);
                    create(self.vfs, self.top(), name, &node).named(name)?
                }
                other => other.named(name)?,
            };
            let attrs = self.new.preserve.then(|| FinalAttrs::of(dir.attr()));
            self.stack.push(OpenDir { name: name.to_vec(), dir, attrs });
        }
        Ok(())
    }

    /// Returns the directory with this name; the name may be a symbolic link.
    fn lookup_dir(&self, name: &[u8]) -> Result<Held<'a>> {
        let found = child(self.vfs, self.top(), name)?;
        let found = if found.attr().kind == FileKind::Symlink {
            let names: Vec<&[u8]> = self.stack.iter().map(|open| &open.name[..]).chain([name]).collect();
            self.resolve(&names.join(&b'/'), true)?
        } else {
            found
        };
        if found.is_dir() { Ok(found) } else { Err(FsError::NotDirectory.into()) }
    }

    /// Resolves a path below the root.
    fn resolve(&self, path: &[u8], follow: bool) -> Result<Held<'a>> {
        resolve(self.vfs, &[&self.root_path[..], b"/", path].concat(), follow)
    }

    /// Saves the attributes of the root before the first change in it.
    fn remember_root(&mut self) -> Result<()> {
        if self.new.preserve && self.root_final.is_none() {
            self.root_final = Some(FinalAttrs::of(&self.fs.getattr(self.root)?));
        }
        Ok(())
    }

    fn leave(&mut self) -> Result<()> {
        let names: Vec<&[u8]> = self.stack.iter().map(|open| &open.name[..]).collect();
        let path = names.join(&b'/');
        if let Some(OpenDir { name, dir, attrs: Some(attrs) }) = self.stack.pop() {
            self.set_final(dir.ino(), &path, &attrs).named(&name)?;
        }
        Ok(())
    }

    fn set_final(&mut self, ino: Ino, path: &[u8], attrs: &FinalAttrs) -> Result<()> {
        let set = SetAttr {
            atime: Some(SetTime::At(self.in_range(attrs.atime.unwrap_or(attrs.mtime)))),
            mtime: Some(SetTime::At(self.in_range(attrs.mtime))),
            birthtime: attrs.birthtime.map(|time| self.in_range(time)),
            // Set again, because writing may have cleared the set-id bits.
            perm: Some(attrs.perm),
            ..SetAttr::default()
        };
        self.fs.setattr(ino, &set, Privilege::Root)?;
        let kept = attrs.flags & self.fs.limits().file_flags;
        let lost = attrs.flags & !kept;
        if lost != 0 {
            let failed = self.failed.filter(|_| self.asked.flags);
            let lost = || {
                let names = flags::names(lost);
                Error::new(format!("its file flags ({names}) are left out: the image has none"))
            };
            self.left_out.flags.lose(path, failed, lost)?;
        }
        if kept != 0 {
            // Set last, because some flags forbid all other changes.
            let set = SetAttr { flags: Some(kept), ..SetAttr::default() };
            self.fs.setattr(ino, &set, Privilege::Root)?;
        }
        Ok(())
    }

    /// Returns the nearest time that the format can store.
    fn in_range(&self, time: Timestamp) -> Timestamp {
        let (first, last) = self.fs.limits().time_range;
        if (first..=last).contains(&time.secs) {
            return time;
        }
        Timestamp::new(time.secs.clamp(first, last), 0)
    }

    fn node(&self, kind: FileKind, perm: u32, uid: u32, gid: u32) -> NewNode<'static> {
        let (perm, masked, uid, gid) = if self.new.preserve {
            (perm, 0, uid, gid)
        } else {
            let (perm, umask) = (perm & 0o777, self.new.umask);
            (perm & !umask, perm & umask, self.new.uid, self.new.gid)
        };
        NewNode { kind, perm, masked, uid, gid, rdev: Rdev::default(), target: b"" }
    }

    /// Sets the attributes that a new file keeps.
    fn finish_node(&mut self, ino: Ino, path: &[u8], meta: &Meta) -> Result<()> {
        if !self.new.preserve {
            return Ok(());
        }
        let perm = self.set_xattrs(ino, path, meta)?;
        self.set_final(ino, path, &FinalAttrs { perm, ..FinalAttrs::of_meta(meta) })
    }

    /// Sets the attributes of a file, in the place of lists that it has got from its directory.
    /// Returns its permissions, which are others if it loses its list.
    fn set_xattrs(&mut self, ino: Ino, path: &[u8], meta: &Meta) -> Result<u32> {
        let mut perm = meta.perm;
        let lists = if self.acls == AclKind::None { Vec::new() } else { self.fs.listxattr(ino)? };
        for name in lists.iter().filter(|name| self.acls.has(name)) {
            self.fs.removexattr(ino, name)?;
        }
        for (name, value) in &meta.xattrs {
            let list = spindle_ffs::acl::for_linux(name, value).filter(|(shown, _)| self.acls.has(shown));
            let (name, value) = list.as_ref().map_or((&name[..], value), |(name, value)| (name, value));
            let is_list = is_acl_name(name) || name == NFS4_ACL;
            let ours = if is_list { self.acls.has(name) } else { spindle_tree::xattr::split(name).is_some() };
            let can_be_set = self.xattrs && ours;
            let set = if can_be_set {
                self.fs.setxattr(ino, name, value, XattrMode::Set, Privilege::Root)
            } else {
                Err(FsError::NotSupported)
            };
            match set {
                Err(FsError::NotSupported) if acl::is_list(name) => {
                    if let Some(without) = acl::lost(name, value, perm) {
                        perm = without;
                        self.lose_list(path, name)?;
                    }
                }
                Err(FsError::NotSupported) => {
                    let failed = self.failed.filter(|_| self.asked.xattrs);
                    let lost = || {
                        let name = quoted(name);
                        Error::new(format!("its attribute {name} is left out: the image cannot store it"))
                    };
                    self.left_out.xattrs.lose(path, failed, lost)?;
                }
                set => set.named(name)?,
            }
        }
        Ok(perm)
    }

    /// Reports a list that the image cannot have.
    fn lose_list(&mut self, path: &[u8], name: &[u8]) -> Result<()> {
        let option = if name == NFS4_ACL { "-N" } else { "-a" };
        let none = format!("the image has none (on UFS2, tunefs {option} enable switches them on)");
        self.left_out.lists.lose(path, self.failed, || acl::left_out(name, &none))
    }

    fn put_directory(&mut self, path: &[u8], meta: &Meta) -> Result<()> {
        let name = split(path).1;
        let node = self.node(FileKind::Directory, meta.perm, meta.uid, meta.gid);
        let (dir, made) = match create(self.vfs, self.top(), name, &node) {
            Ok(dir) => (dir, true),
            Err(error) if error.is(&FsError::Exists) => match self.lookup_dir(name) {
                Ok(dir) => (dir, false),
                Err(e) if e.is(&FsError::NotDirectory) => (self.replace_by_directory(name, &node)?, true),
                Err(e) => return Err(e),
            },
            Err(e) => return Err(e),
        };
        let mut attrs = None;
        if self.new.preserve {
            if !made {
                self.set_owner(dir.ino(), meta)?;
            }
            let perm = self.set_xattrs(dir.ino(), path, meta)?;
            attrs = Some(FinalAttrs { perm, ..FinalAttrs::of_meta(meta) });
        }
        self.stack.push(OpenDir { name: name.to_vec(), dir, attrs });
        Ok(())
    }

    /// Leaves all directories, which gives them their attributes.
    pub(super) fn close(&mut self) -> Result<()> {
        let mut done = Ok(());
        while !self.stack.is_empty() {
            done = done.and(self.leave());
        }
        if let Some(attrs) = self.root_final.take() {
            done = done.and(self.set_final(self.root, b"", &attrs));
        }
        done
    }

    fn set_owner(&self, ino: Ino, meta: &Meta) -> Result<()> {
        let set = SetAttr { uid: Some(meta.uid), gid: Some(meta.gid), ..SetAttr::default() };
        change(self.vfs, ino, &set)
    }

    fn put_file(&mut self, path: &[u8], size: u64, content: &mut dyn Content, meta: &Meta) -> Result<()> {
        if size > self.fs.limits().file_size_max {
            return Err(FsError::TooBig.into());
        }
        let name = split(path).1;
        let node = self.node(FileKind::Regular, meta.perm, meta.uid, meta.gid);
        let mut making = self.begin(name, &node, || Need::of(size, content))?;
        let filled = self.fill(name, &mut making, size, content);
        let done = filled.and_then(|()| complete(meta, content));
        let done = done.and_then(|meta| self.finish_node(making.file.ino(), path, &meta));
        self.end(name, making, done).map(drop)
    }

    /// Writes the content of an empty file.
    fn fill(
        &mut self,
        name: &[u8],
        making: &mut Making<'a>,
        size: u64,
        content: &mut dyn Content,
    ) -> Result<()> {
        let ino = making.file.ino();
        let mut end = 0;
        while let Some((at, len)) = content.next(&mut self.buffer)? {
            let mut done = 0;
            while done < len {
                let offset = at + done as u64;
                match self.fs.write(ino, offset, &self.buffer[done..len], Privilege::Root) {
                    Ok(written) => done += written,
                    Err(FsError::NoSpace) if self.make_room(name, making, offset)? => {}
                    Err(error) => return Err(error.into()),
                }
            }
            end = at + len as u64;
        }
        if end != size {
            let set = SetAttr { size: Some(size), ..SetAttr::default() };
            self.fs.setattr(ino, &set, Privilege::Root)?;
        }
        Ok(())
    }

    fn put_link(&mut self, name: &[u8], first: &[u8]) -> Result<()> {
        let fs = self.fs;
        let first = self.resolve(first, false).context("link to")?;
        // The flags of the file itself, which was copied before, are not yet in force.
        let link = |name: &[u8]| {
            permit_name(self.vfs, self.top(), name)?;
            let linked = fs.link(first.ino(), self.top(), name, Privilege::Root)?;
            fs.forget(linked.ino, 1);
            Ok(())
        };
        match link(name) {
            Err(error) if Error::is(&error, &FsError::Exists) => {
                if child(self.vfs, self.top(), name)?.ino() == first.ino() {
                    return Ok(());
                }
                self.replace(name, link)
            }
            linked => linked,
        }
    }

    fn put_here(&mut self, path: &[u8], body: Body<'_>, meta: &Meta) -> Result<()> {
        let name = split(path).1;
        let kind = match body {
            Body::Directory => return self.put_directory(path, meta),
            Body::File { size, content } => return self.put_file(path, size, content, meta),
            Body::HardLink(first) => return self.put_link(name, first),
            Body::Symlink(_) => FileKind::Symlink,
            Body::Device { block: true, .. } => FileKind::BlockDevice,
            Body::Device { block: false, .. } => FileKind::CharDevice,
            Body::Fifo => FileKind::Fifo,
            Body::Socket => FileKind::Socket,
        };
        let mut node = self.node(kind, meta.perm, meta.uid, meta.gid);
        if let Body::Device { rdev, .. } = body {
            node.rdev = rdev;
        }
        if let Body::Symlink(target) = body {
            node.target = target;
        }
        let making = self.begin(name, &node, || Ok(Need::bytes(node.target.len())))?;
        let done = self.finish_node(making.file.ino(), path, meta);
        self.end(name, making, done).map(drop)
    }
}

impl Sink for ImageSink<'_> {
    fn put(&mut self, node: Node<'_>) -> Result<()> {
        if self.without_log && node.path == LOG_NAME && matches!(node.body, Body::File { .. }) {
            self.left_out.logs.add(node.path);
            return Ok(());
        }
        let (dir, name) = split(node.path);
        self.enter(dir)?;
        if self.new.preserve
            && !matches!(node.body, Body::HardLink(_))
            && let Some(error) = time_misfit(&self.fs.limits(), &node.meta)
        {
            match self.failed {
                _ if self.strict => return Err(Error::from(FsError::Overflow).within(error)),
                Some(failed) => failed(node.path, error.within("stored with the nearest time"))?,
                None => {}
            }
        }
        if name.is_empty() {
            if !matches!(node.body, Body::Directory) {
                return Err(Error::new("only a directory can become the root of a file system"));
            }
            if self.new.preserve {
                self.set_owner(self.root, &node.meta)?;
                let perm = self.set_xattrs(self.root, node.path, &node.meta)?;
                self.root_final = Some(FinalAttrs { perm, ..FinalAttrs::of_meta(&node.meta) });
            }
            return Ok(());
        }
        check_name(name)?;
        self.remember_root()?;
        self.put_here(node.path, node.body, &node.meta)
    }

    fn finish(&mut self) -> Result<()> {
        let done = self.close();
        self.left_out.warn();
        done
    }
}
