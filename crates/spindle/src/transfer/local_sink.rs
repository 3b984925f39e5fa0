//! A directory of this machine as a sink.
//!
//! Names come from images, which may be hostile: every name is checked, and nothing is written
//! through a symbolic link. Existing files are replaced; existing directories are kept and filled.
//! Only a target that the user has named is written in place, as by `cp`: through symbolic links,
//! and into devices and pipes. A directory gets its times and permissions after all its entries.
//!
//! Owners and permissions are set by functions of the C library that `fakeroot` replaces, and not
//! by those of `rustix`, some of which are system calls in any case.

use super::{
    Asked, Body, CHUNK, Content, Failed, LeftOut, Meta, Node, Sink, acl, check_name, complete, join, names,
    split,
};
use crate::error::{Context, Error, Result};
use crate::flags;
use crate::text::quoted;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timespec, Timestamps, XattrFlags, fsetxattr, setxattr};
use rustix::io::Errno;
use spindle_clock::Timestamp;
use spindle_vfs::acl::is_acl_name;
use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown, fchown};
use std::path::Path;

/// An existing file that was opened for writing in place.
pub enum InPlace {
    /// A regular file, which was truncated.
    File(OwnedFd),
    /// A pipe or a device, which is written in order, holes included.
    Stream(Box<dyn Write>),
}

/// Opens an existing file of this name in a directory for writing in place.
pub type OpenInPlace = fn(BorrowedFd<'_>, &Path) -> Result<InPlace>;

/// A sink that creates nodes below one directory of this machine.
pub struct LocalSink<'a> {
    root: OwnedFd,
    stack: Vec<OpenDir>,
    /// Metadata of the root, if it came as a node.
    root_meta: Option<Meta>,
    preserve: bool,
    /// How to open existing files at the root, if those are written in place.
    in_place: Option<OpenInPlace>,
    /// What to call when an attribute cannot be set, if the file stays without it.
    failed: Option<Failed<'a>>,
    asked: Asked,
    is_root: bool,
    umask: u32,
    left_out: LeftOut,
    buffer: Vec<u8>,
}

/// An open directory below the root, and the metadata to set after all its entries.
struct OpenDir {
    name: Vec<u8>,
    fd: OwnedFd,
    meta: Option<Meta>,
}

impl<'a> LocalSink<'a> {
    /// Returns a sink below the existing directory `root`. With `preserve`, owners (as root),
    /// permissions, times and extended attributes are kept; otherwise new files belong to the
    /// caller and lack the permissions in `umask`.
    ///
    /// # Errors
    /// If the directory cannot be opened.
    pub fn new(root: &Path, preserve: bool, umask: u32) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(root, flags, Mode::empty()).context(root.display())?;
        let is_root = rustix::process::geteuid().is_root();
        Ok(Self {
            root,
            stack: Vec::new(),
            root_meta: None,
            preserve,
            in_place: None,
            failed: None,
            asked: Asked::default(),
            is_root,
            umask,
            left_out: LeftOut::default(),
            buffer: vec![0; CHUNK],
        })
    }

    /// Returns a sink that writes existing files directly below the root in place, as `cp` does
    /// with names that the user gave: through symbolic links, and into devices and pipes.
    #[must_use]
    pub fn writing_in_place(self, open: OpenInPlace) -> Self {
        Self { in_place: Some(open), ..self }
    }

    /// Returns a sink that keeps a file of which an attribute cannot be set, and calls `failed`
    /// with it.
    #[must_use]
    pub fn past_failures(self, failed: Failed<'a>) -> Self {
        Self { failed: Some(failed), ..self }
    }

    /// Returns a sink that also calls `failed` with each file that loses what was asked for.
    #[must_use]
    pub fn asking_for(self, asked: Asked) -> Self {
        Self { asked, ..self }
    }

    /// Passes over a failure to set an attribute of the file at `path`, if that is wanted. Returns
    /// true if it was set.
    fn attribute(&self, path: &[u8], what: &str, done: Result<(), impl Into<Error>>) -> Result<bool> {
        match (done.context(what), self.failed) {
            (Err(error), Some(failed)) => failed(path, error).map(|()| false),
            (done, _) => done.map(|()| true),
        }
    }

    fn top(&self) -> BorrowedFd<'_> {
        self.stack.last().map_or(self.root.as_fd(), |open| open.fd.as_fd())
    }

    /// Leaves directories until the stack is a prefix of `dir`, then enters the rest of `dir`.
    fn enter(&mut self, dir: &[u8]) -> Result<()> {
        let common = self.stack.iter().zip(names(dir)).take_while(|(open, name)| open.name == *name).count();
        while self.stack.len() > common {
            self.leave()?;
        }
        for name in names(dir).skip(common) {
            check_name(name)?;
            let fd = open_dir(self.top(), name).named(name)?;
            self.stack.push(OpenDir { name: name.to_vec(), fd, meta: None });
        }
        Ok(())
    }

    fn leave(&mut self) -> Result<()> {
        let path = self.path_of(b"");
        let Some(OpenDir { fd, meta: Some(meta), .. }) = self.stack.pop() else { return Ok(()) };
        self.finish_fd(&File::from(fd), &path, &meta).named(&path)
    }

    /// Returns the path of a name in the current directory, or of that itself.
    fn path_of(&self, name: &[u8]) -> Vec<u8> {
        let names: Vec<&[u8]> = self.stack.iter().map(|open| &open.name[..]).collect();
        join(&names.join(&b'/'), name)
    }

    /// Sets attributes, owner, permissions and times of an open file, in an order in which none
    /// undoes another.
    fn finish_fd(&mut self, file: &File, path: &[u8], meta: &Meta) -> Result<()> {
        let set_mode = |perm| file.set_permissions(Permissions::from_mode(perm));
        if !self.preserve {
            let done = set_mode(meta.perm & 0o777 & !self.umask);
            self.attribute(path, "permissions", done)?;
            return Ok(());
        }
        let perm =
            self.set_xattrs(path, meta, |name, value| fsetxattr(file, name, value, XattrFlags::empty()))?;
        let owned = self.set_owner(path, meta, |uid, gid| fchown(file, Some(uid), Some(gid)))?;
        let perm = self.perm_of(path, perm, meta, owned, file.as_fd())?;
        self.attribute(path, "permissions", set_mode(perm))?;
        self.attribute(path, "times", rustix::fs::futimens(file, &times(meta)))?;
        Ok(())
    }

    /// Sets extended attributes and access control lists by `set`; file flags are lost. Returns the
    /// permissions of the file, which are others if it loses its list.
    fn set_xattrs(
        &mut self,
        path: &[u8],
        meta: &Meta,
        set: impl Fn(&OsStr, &[u8]) -> rustix::io::Result<()>,
    ) -> Result<u32> {
        let mut perm = meta.perm;
        if meta.flags != 0 {
            let failed = self.failed.filter(|_| self.asked.flags);
            let lost = || {
                let names = flags::names(meta.flags);
                Error::new(format!("its file flags ({names}) are left out: this system has none"))
            };
            self.left_out.flags.lose(path, failed, lost)?;
        }
        for (name, value) in &meta.xattrs {
            let list = spindle_ffs::acl::for_linux(name, value);
            let (name, value) = list.as_ref().map_or((&name[..], value), |(name, value)| (name, value));
            let done = if name.starts_with(b"user.") || is_acl_name(name) {
                set(OsStr::from_bytes(name), value)
            } else {
                Err(Errno::OPNOTSUPP)
            };
            match done {
                Err(_) if acl::is_list(name) => {
                    if let Some(without) = acl::lost(name, value, perm) {
                        perm = without;
                        self.lose_list(path, name)?;
                    }
                }
                Err(Errno::OPNOTSUPP | Errno::NOSPC | Errno::TOOBIG | Errno::RANGE) => {
                    let failed = self.failed.filter(|_| self.asked.xattrs);
                    let lost = || {
                        let name = quoted(name);
                        Error::new(format!("its attribute {name} is left out: it cannot be stored here"))
                    };
                    self.left_out.xattrs.lose(path, failed, lost)?;
                }
                done => {
                    self.attribute(path, "extended attributes", done)?;
                }
            }
        }
        Ok(perm)
    }

    /// Reports a list that the file system here cannot have.
    fn lose_list(&mut self, path: &[u8], name: &[u8]) -> Result<()> {
        let lost = || acl::left_out(name, "the file system does not take it");
        self.left_out.lists.lose(path, self.failed, lost)
    }

    /// Sets owner and group by `set`, which only root can do. Returns true if they were set.
    fn set_owner(
        &mut self,
        path: &[u8],
        meta: &Meta,
        set: impl FnOnce(u32, u32) -> io::Result<()>,
    ) -> Result<bool> {
        let Meta { uid, gid, .. } = *meta;
        if !self.is_root {
            if uid != rustix::process::geteuid().as_raw() {
                self.left_out.owners.add(path);
            }
            return Ok(false);
        }
        // This number means "as it is" to the system.
        let done = if uid == u32::MAX || gid == u32::MAX { Err(Errno::INVAL.into()) } else { set(uid, gid) };
        self.attribute(path, &format!("owner {uid}, group {gid}"), done)
    }

    /// Returns the permissions that a file gets: without the set-user-id bit if its owner is
    /// another one than in the source, because a program must not act for somebody who has not made
    /// it, and without the set-group-id bit if its owner or group is. With `owned` they were set.
    fn perm_of(&mut self, path: &[u8], perm: u32, meta: &Meta, owned: bool, made: BorrowedFd) -> Result<u32> {
        if owned || perm & 0o6000 == 0 {
            return Ok(perm);
        }
        let made = rustix::fs::fstat(made)?;
        let is_owner = made.st_uid == meta.uid;
        let is_group = is_owner && made.st_gid == meta.gid;
        let lost = perm & (if is_owner { 0 } else { 0o4000 } | if is_group { 0 } else { 0o2000 });
        if lost != 0 {
            self.left_out.set_ids.add(path);
        }
        Ok(perm & !lost)
    }

    /// Sets the metadata of a new file that cannot be opened for reading. All changes go
    /// through a descriptor, so that another user who can write to the directory cannot
    /// redirect them.
    fn finish_made(&mut self, name: &OsStr, kind: FileType, meta: &Meta) -> Result<()> {
        if !self.preserve {
            return Ok(());
        }
        let path = &self.path_of(name.as_bytes());
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(self.top(), name, flags, Mode::empty())?;
        let made = rustix::fs::fstat(&fd)?;
        let is_ours = made.st_uid == rustix::process::geteuid().as_raw() && made.st_nlink == 1;
        if FileType::from_raw_mode(made.st_mode) != kind || !is_ours {
            return Err(Error::new("another process has replaced the new file"));
        }
        // A descriptor opened with O_PATH does not allow fchown and fchmod.
        let by_fd = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let perm = self.set_xattrs(path, meta, |name, value| {
            // Through the descriptor of a symbolic link it would be that of another file.
            let can_have = kind != FileType::Symlink && is_acl_name(name.as_bytes());
            if can_have { setxattr(&by_fd, name, value, XattrFlags::empty()) } else { Err(Errno::OPNOTSUPP) }
        })?;
        let owned = self.set_owner(path, meta, |uid, gid| chown(&by_fd, Some(uid), Some(gid)))?;
        if kind != FileType::Symlink {
            let mode = Permissions::from_mode(self.perm_of(path, perm, meta, owned, fd.as_fd())?);
            self.attribute(path, "permissions", std::fs::set_permissions(&by_fd, mode))?;
        }
        let done = rustix::fs::utimensat(&fd, "", &times(meta), AtFlags::EMPTY_PATH);
        self.attribute(path, "times", done)?;
        Ok(())
    }

    /// Removes the file `name` if it exists; refuses to remove a directory.
    fn remove_existing(&self, name: &OsStr) -> Result<()> {
        match rustix::fs::unlinkat(self.top(), name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::ISDIR | Errno::PERM) if open_dir(self.top(), name.as_bytes()).is_ok() => {
                Err(Error::new("cannot replace a directory with a file"))
            }
            Err(e) => Err(e.into()),
        }
    }

    fn put_directory(&mut self, name: &[u8], meta: Meta) -> Result<()> {
        let key = OsStr::from_bytes(name);
        if self.is_written_in_place(key)? {
            return Err(Error::new("cannot replace a file with a directory"));
        }
        let mut made = true;
        match rustix::fs::mkdirat(self.top(), key, Mode::RWXU) {
            Ok(()) => {}
            Err(Errno::EXIST) if open_dir(self.top(), name).is_ok() => made = false,
            Err(Errno::EXIST) => {
                self.remove_existing(key)?;
                rustix::fs::mkdirat(self.top(), key, Mode::RWXU)?;
            }
            Err(e) => return Err(e.into()),
        }
        let fd = open_dir(self.top(), name)?;
        let meta = (self.preserve || made).then_some(meta);
        self.stack.push(OpenDir { name: name.to_vec(), fd, meta });
        Ok(())
    }

    /// Returns true if the existing file `name` is written in place instead of replaced.
    fn is_written_in_place(&self, name: &OsStr) -> Result<bool> {
        Ok(self.opens_in_place(name)?.is_some())
    }

    /// Returns how to open the existing file `name`, if it is written in place.
    fn opens_in_place(&self, name: &OsStr) -> Result<Option<OpenInPlace>> {
        let Some(open) = self.in_place.filter(|_| self.stack.is_empty()) else { return Ok(None) };
        let look = |flags| match rustix::fs::statat(self.top(), name, flags) {
            Err(Errno::NOENT) => Ok(None),
            other => other.map(Some),
        };
        match look(AtFlags::empty())? {
            Some(found) => {
                Ok((FileType::from_raw_mode(found.st_mode) != FileType::Directory).then_some(open))
            }
            None if look(AtFlags::SYMLINK_NOFOLLOW)?.is_some() => {
                Err(Error::new("a dangling symbolic link; remove it, or create its target"))
            }
            None => Ok(None),
        }
    }

    /// Writes an existing file, device or pipe; devices and pipes get zeros for holes.
    fn write_in_place(
        &mut self,
        name: &OsStr,
        file: InPlace,
        size: u64,
        content: &mut dyn Content,
        meta: &Meta,
    ) -> Result<()> {
        let mut out = match file {
            InPlace::File(fd) => {
                self.fill(&fd, size, content)?;
                if !self.preserve {
                    return Ok(());
                }
                let path = self.path_of(name.as_bytes());
                return self.finish_fd(&File::from(fd), &path, &complete(meta, content)?);
            }
            InPlace::Stream(out) => out,
        };
        let mut end = 0;
        while let Some((at, len)) = content.next(&mut self.buffer)? {
            write_zeros(&mut out, at - end)?;
            out.write_all(&self.buffer[..len])?;
            end = at + len as u64;
        }
        write_zeros(&mut out, size.saturating_sub(end))
    }

    fn put_file(&mut self, name: &OsStr, size: u64, content: &mut dyn Content, meta: &Meta) -> Result<()> {
        if let Some(open) = self.opens_in_place(name)? {
            let file = open(self.top(), Path::new(name))?;
            return self.write_in_place(name, file, size, content, meta);
        }
        self.remove_existing(name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(self.top(), name, flags, Mode::RUSR | Mode::WUSR)?;
        let path = self.path_of(name.as_bytes());
        let filled = self.fill(&fd, size, content).and_then(|()| complete(meta, content));
        let done = filled.and_then(|meta| self.finish_fd(&File::from(fd), &path, &meta));
        if done.is_err() {
            // Do not leave an incomplete file. The caller reports the first failure.
            let _ = rustix::fs::unlinkat(self.top(), name, AtFlags::empty());
        }
        done
    }

    /// Writes the content of an empty file.
    fn fill(&mut self, fd: &OwnedFd, size: u64, content: &mut dyn Content) -> Result<()> {
        let mut end = 0;
        while let Some((at, len)) = content.next(&mut self.buffer)? {
            let mut done = 0;
            while done < len {
                match rustix::io::pwrite(fd, &self.buffer[done..len], at + done as u64) {
                    Ok(n) => done += n,
                    Err(Errno::INTR) => {}
                    Err(e) => return Err(e.into()),
                }
            }
            end = at + len as u64;
        }
        if end != size {
            rustix::fs::ftruncate(fd, size)?;
        }
        Ok(())
    }

    /// Returns true for a regular file or a symbolic link to one.
    fn is_plain(&self, name: &OsStr) -> Result<bool> {
        let found = rustix::fs::statat(self.top(), name, AtFlags::empty())?;
        Ok(FileType::from_raw_mode(found.st_mode) == FileType::RegularFile)
    }

    fn put_here(&mut self, name: &[u8], body: Body<'_>, meta: Meta) -> Result<()> {
        let key = OsStr::from_bytes(name);
        let (file_type, rdev) = match body {
            Body::Directory => return self.put_directory(name, meta),
            Body::File { size, content } => return self.put_file(key, size, content, &meta),
            _ if self.is_written_in_place(key)? && !self.is_plain(key)? => {
                return Err(Error::new("exists and is not a regular file; remove it first"));
            }
            Body::Symlink(target) => {
                self.remove_existing(key)?;
                rustix::fs::symlinkat(OsStr::from_bytes(target), self.top(), key)?;
                return self.finish_made(key, FileType::Symlink, &meta);
            }
            Body::HardLink(first) => {
                self.remove_existing(key)?;
                let (dir, first) = split(first);
                let mut from = self.root.try_clone()?;
                for name in names(dir) {
                    from = open_dir(from.as_fd(), name)?;
                }
                let first = OsStr::from_bytes(first);
                return Ok(rustix::fs::linkat(&from, first, self.top(), key, AtFlags::empty())?);
            }
            Body::Device { block, rdev } => (
                if block { FileType::BlockDevice } else { FileType::CharacterDevice },
                rustix::fs::makedev(rdev.major, rdev.minor),
            ),
            Body::Fifo => (FileType::Fifo, 0),
            Body::Socket => (FileType::Socket, 0),
        };
        self.remove_existing(key)?;
        let made = rustix::fs::mknodat(self.top(), key, file_type, Mode::RUSR | Mode::WUSR, rdev);
        if file_type == FileType::BlockDevice || file_type == FileType::CharacterDevice {
            made.context("cannot make a device node")?;
        } else {
            made?;
        }
        self.finish_made(key, file_type, &meta)
    }
}

impl Sink for LocalSink<'_> {
    fn put(&mut self, node: Node<'_>) -> Result<()> {
        let (dir, name) = split(node.path);
        self.enter(dir)?;
        if name.is_empty() {
            if !matches!(node.body, Body::Directory) {
                return Err(Error::new("only a directory can become the root of a directory"));
            }
            self.root_meta = self.preserve.then_some(node.meta);
            return Ok(());
        }
        check_name(name)?;
        self.put_here(name, node.body, node.meta)
    }

    fn finish(&mut self) -> Result<()> {
        let mut done = Ok(());
        while !self.stack.is_empty() {
            done = done.and(self.leave());
        }
        if let Some(meta) = self.root_meta.take() {
            let root = self.root.try_clone()?;
            done = done.and(self.finish_fd(&File::from(root), b"", &meta));
        }
        self.left_out.warn();
        done
    }
}

/// Writes zeros for a hole.
fn write_zeros(out: &mut impl Write, len: u64) -> Result<()> {
    std::io::copy(&mut std::io::repeat(0).take(len), out)?;
    Ok(())
}

fn open_dir(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, OsStr::from_bytes(name), flags, Mode::empty())?)
}

fn times(meta: &Meta) -> Timestamps {
    let spec = |time: Timestamp| Timespec { tv_sec: time.secs, tv_nsec: time.nanos.into() };
    Timestamps { last_access: spec(meta.atime.unwrap_or(meta.mtime)), last_modification: spec(meta.mtime) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    /// Promise: a file keeps its set-user-id bit if its owner is that of the source, and its
    /// set-group-id bit if owner and group are; what is lost is counted. The sticky bit stays.
    #[test]
    fn set_id_bits_follow_owner_and_group() {
        let dir = tempfile::tempdir().unwrap();
        let mut sink = LocalSink::new(dir.path(), true, 0).unwrap();
        let file = tempfile::tempfile().unwrap();
        let made = file.metadata().unwrap();
        let (uid, gid) = (made.uid(), made.gid());
        for (uid, gid, owned, perm) in [
            (uid, gid, false, 0o7755),
            (uid, gid + 1, false, 0o5755),
            (uid + 1, gid, false, 0o1755),
            (uid + 1, gid + 1, false, 0o1755),
            // They were set: under fakeroot only the C library shows it.
            (uid + 1, gid + 1, true, 0o7755),
        ] {
            let meta = Meta { uid, gid, ..Meta::default() };
            assert_eq!(sink.perm_of(b"x", 0o7755, &meta, owned, file.as_fd()).unwrap(), perm);
            assert_eq!(sink.perm_of(b"x", 0o755, &meta, owned, file.as_fd()).unwrap(), 0o755);
        }
        assert_eq!(sink.left_out.set_ids.count, 3);
    }

    /// Promise: a process that replaces a new file with a symbolic link or another file cannot
    /// redirect the changes of mode, owner and times.
    #[test]
    fn replaced_files_are_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "").unwrap();
        std::fs::set_permissions(&victim, PermissionsExt::from_mode(0o600)).unwrap();
        symlink(&victim, dir.path().join("link")).unwrap();
        std::fs::hard_link(&victim, dir.path().join("second")).unwrap();
        let before = std::fs::metadata(&victim).unwrap();
        let mut sink = LocalSink::new(dir.path(), true, 0).unwrap();
        let meta = Meta { perm: 0o666, uid: 7, gid: 7, ..Meta::default() };
        for (name, kind) in [
            ("link", FileType::Fifo),
            ("link", FileType::RegularFile),
            ("victim", FileType::Fifo),
            ("second", FileType::RegularFile),
        ] {
            assert!(sink.finish_made(OsStr::new(name), kind, &meta).is_err(), "{name}");
            let after = std::fs::metadata(&victim).unwrap();
            let seen = |m: &std::fs::Metadata| (m.mode(), m.uid(), m.mtime(), m.ctime_nsec());
            assert_eq!(seen(&after), seen(&before), "{name}");
        }
        rustix::fs::mknodat(&sink.root, "fifo", FileType::Fifo, Mode::RUSR, 0).unwrap();
        sink.finish_made(OsStr::new("fifo"), FileType::Fifo, &meta).unwrap();
        let made = std::fs::symlink_metadata(dir.path().join("fifo")).unwrap();
        assert_eq!((made.mode() & 0o7777, made.uid(), made.mtime()), (0o666, 7, 0));
    }
}
