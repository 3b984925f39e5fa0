//! A directory of this machine as a source.
//!
//! All files are opened relative to open directories, never through a symbolic link that is not to
//! be followed. So paths of any length work, and no other process can redirect the walk.

mod ahead;

pub use ahead::Ahead;

use super::links::Links;
use super::{Body, Content, Extents, Follow, Meta, Node, Sink, Source, extents_of, join};
use crate::error::{Context, Error, Result};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, SeekFrom, Stat, fgetxattr, flistxattr};
use rustix::io::Errno;
use spindle_clock::Timestamp;
use spindle_vfs::Rdev;
use spindle_vfs::acl::is_acl_name;
use std::ffi::OsStr;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A source that walks a file or directory of this machine.
pub struct LocalSource<'a> {
    path: PathBuf,
    prefix: Vec<u8>,
    follow: Follow,
    lost: Option<Lost<'a>>,
    changed: Option<Lost<'a>>,
    copy: Option<&'a Path>,
    image: Option<(Id, Said<'a>)>,
}

/// Is called with the path of what cannot be read, and the reason; an error ends the walk.
type Lost<'a> = &'a dyn Fn(&str, Error) -> Result<()>;

/// Is called with the path of what is left out.
type Said<'a> = &'a dyn Fn(&str);

/// Device and inode number.
type Id = (u64, u64);

/// A directory on the path to the current node.
struct Level {
    dir: OwnedFd,
    id: Id,
    path: Vec<u8>,
    names: std::vec::IntoIter<Vec<u8>>,
}

impl<'a> LocalSource<'a> {
    /// Returns a source of `path`, which may be a symbolic link, and of everything below it.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let (path, follow) = (path.to_owned(), Follow::Named);
        Self { path, prefix: Vec::new(), follow, lost: None, changed: None, copy: None, image: None }
    }

    /// Returns a source that follows these symbolic links.
    #[must_use]
    pub fn following(self, follow: Follow) -> Self {
        Self { follow, ..self }
    }

    /// Returns a source that leaves out what cannot be read below it, and calls `lost` with each;
    /// also symbolic links that are to be followed and lead nowhere, to each other or to a
    /// directory that they are in.
    #[must_use]
    pub fn past_failures(self, lost: Lost<'a>) -> Self {
        Self { lost: Some(lost), ..self }
    }

    /// Returns a source that calls `changed` with each file that changes while it is read, and goes
    /// on; what a file has lost meanwhile is zeros. Without this, a file that becomes shorter ends
    /// the walk, and other changes are not seen.
    #[must_use]
    pub fn noticing(self, changed: Lost<'a>) -> Self {
        Self { changed: Some(changed), ..self }
    }

    /// Returns a source without `image`, the file that it is copied to, if it comes upon that; it
    /// calls `said` then.
    #[must_use]
    pub fn without(self, image: &Path, said: Said<'a>) -> Self {
        let image = rustix::fs::stat(image).ok().map(|stat| (id_of(&stat), said));
        Self { image, ..self }
    }

    /// Returns a source that refuses to enter the directory `copy`, into which it is copied: that
    /// copy would never end.
    #[must_use]
    pub fn outside(self, copy: &'a Path) -> Self {
        Self { copy: Some(copy), ..self }
    }

    /// Refuses the directory with this status if it is where the copy goes.
    fn check_outside(&self, stat: &Stat) -> Result<()> {
        let Some(copy) = self.copy.and_then(|copy| rustix::fs::stat(copy).ok()) else { return Ok(()) };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory && id_of(&copy) == id_of(stat) {
            return Err(Error::new("a directory cannot be copied into itself"));
        }
        Ok(())
    }

    /// Returns a source with `prefix` as the path of the root of the transfer.
    #[must_use]
    pub fn below(self, prefix: &[u8]) -> Self {
        Self { prefix: prefix.to_vec(), ..self }
    }
}

impl LocalSource<'_> {
    /// Returns what shows the path of this machine of a path of the transfer.
    fn place<'p>(&'p self, path: &'p [u8]) -> Place<'p> {
        let below = path.strip_prefix(&self.prefix[..]).unwrap_or(path);
        Place { root: &self.path, below: below.strip_prefix(b"/").unwrap_or(below) }
    }

    /// Returns what was read from the file at `path`; nothing if it cannot be read and the walk
    /// goes on past that. The root is always wanted.
    fn read<T>(&self, path: &[u8], read: Result<T, impl Into<Error>>) -> Result<Option<T>> {
        match (read, self.lost) {
            (Err(error), Some(lost)) if path.len() > self.prefix.len() => {
                lost(&self.place(path).to_string(), error.into()).map(|()| None)
            }
            (read, _) => read.map(Some).context(self.place(path)),
        }
    }

    /// Passes one node to `sink`; `follow` are flags for opening it. Returns the level to enter if
    /// it is a directory.
    fn send(
        &self,
        (dir, name): (BorrowedFd<'_>, &OsStr),
        path: &[u8],
        stat: &Stat,
        follow: OFlags,
        links: &mut Links,
        sink: &mut dyn Sink,
    ) -> Result<Option<Level>> {
        let kind = FileType::from_raw_mode(stat.st_mode);
        if let Some((_, said)) = self.image.filter(|(image, _)| *image == id_of(stat)) {
            said(&self.place(path).to_string());
            return Ok(None);
        }
        let mut meta = meta_of(stat);
        let nlink = u32::try_from(stat.st_nlink).unwrap_or(u32::MAX);
        let mut put = |body, meta| sink.put(Node { path, body, meta }).context(self.place(path));
        if kind != FileType::Directory
            && follow.contains(OFlags::NOFOLLOW)
            && let Some(first) = links.add(id_of(stat), nlink, path)
        {
            put(Body::HardLink(&first), meta)?;
            return Ok(None);
        }
        let rdev = Rdev { major: rustix::fs::major(stat.st_rdev), minor: rustix::fs::minor(stat.st_rdev) };
        let target;
        let body = match kind {
            FileType::Directory => {
                let fd = self.read(path, open(dir, name, OFlags::DIRECTORY | follow))?;
                if let Some(fd) = &fd {
                    meta.xattrs = self.read(path, xattrs(fd))?.unwrap_or_default();
                }
                put(Body::Directory, meta)?;
                let Some(dir) = fd else { return Ok(None) };
                let names = self.read(path, sorted_names(&dir))?.unwrap_or_default().into_iter();
                return Ok(Some(Level { dir, id: id_of(stat), path: path.to_vec(), names }));
            }
            FileType::RegularFile => {
                let Some(fd) = self.read(path, open(dir, name, follow))? else { return Ok(None) };
                meta.xattrs = self.read(path, xattrs(&fd))?.unwrap_or_default();
                let mut content = content_of(fd, stat);
                content.may_shrink = self.changed.is_some();
                put(Body::File { size: content.size, content: &mut content }, meta)?;
                if let Some(changed) = self.changed
                    && content.has_changed(stat)?
                {
                    changed(&self.place(path).to_string(), Error::new("changed while it was read"))?;
                }
                return Ok(None);
            }
            FileType::Symlink => {
                let read = rustix::fs::readlinkat(dir, name, Vec::new());
                let Some(read) = self.read(path, read)? else { return Ok(None) };
                target = read;
                Body::Symlink(target.as_bytes())
            }
            FileType::BlockDevice => Body::Device { block: true, rdev },
            FileType::CharacterDevice => Body::Device { block: false, rdev },
            FileType::Fifo => Body::Fifo,
            FileType::Socket => Body::Socket,
            FileType::Unknown => {
                self.read(path, Err::<(), _>(Error::new("is a file of an unknown type")))?;
                return Ok(None);
            }
        };
        put(body, meta)?;
        Ok(None)
    }
}

impl Source for LocalSource<'_> {
    fn walk(self, sink: &mut dyn Sink) -> Result<()> {
        let mut links = Links::default();
        let name = self.path.as_os_str();
        let (look, open) = if self.follow == Follow::Never {
            (AtFlags::SYMLINK_NOFOLLOW, OFlags::NOFOLLOW)
        } else {
            (AtFlags::empty(), OFlags::empty())
        };
        let top = rustix::fs::statat(CWD, name, look).context(self.path.display())?;
        let mut levels: Vec<Level> = Vec::new();
        levels.extend(self.send((CWD, name), &self.prefix, &top, open, &mut links, sink)?);
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.names.next() else {
                levels.pop();
                continue;
            };
            let path = join(&level.path, &name);
            if !sink.wants(&path) {
                continue;
            }
            let name = OsStr::from_bytes(&name);
            let Some(Level { dir, .. }) = levels.last() else { break };
            let dir = dir.as_fd();
            let found = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
            let Some(mut stat) = self.read(&path, found)? else { continue };
            let mut open = OFlags::NOFOLLOW;
            if self.follow == Follow::All {
                if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
                    open = OFlags::empty();
                }
                let Some(found) = self.read(&path, reached(dir, name, &levels))? else { continue };
                stat = found;
            }
            if self.read(&path, self.check_outside(&stat))?.is_none() {
                continue;
            }
            let entered = self.send((dir, name), &path, &stat, open, &mut links, sink)?;
            levels.extend(entered);
        }
        Ok(())
    }
}

/// A path of this machine, which is put together only for a message.
struct Place<'a> {
    root: &'a Path,
    below: &'a [u8],
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.below.is_empty() {
            return self.root.display().fmt(f);
        }
        self.root.join(OsStr::from_bytes(self.below)).display().fmt(f)
    }
}

fn id_of(stat: &Stat) -> Id {
    (stat.st_dev, stat.st_ino)
}

/// Returns what the name leads to, where symbolic links are followed.
///
/// # Errors
/// Those of the system; ELOOP if it leads to a directory that it is in.
fn reached(dir: BorrowedFd<'_>, name: &OsStr, levels: &[Level]) -> Result<Stat> {
    let stat = rustix::fs::statat(dir, name, AtFlags::empty())?;
    let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    if is_dir && levels.iter().any(|level| level.id == id_of(&stat)) {
        return Err(Errno::LOOP.into());
    }
    Ok(stat)
}

/// Opens a regular file for its content. Returns its size in bytes and the time of its last change
/// besides.
pub(super) fn open_content(path: &Path) -> Result<(u64, Timestamp, LocalContent)> {
    let fd = open(CWD, path.as_os_str(), OFlags::empty())?;
    let stat = rustix::fs::fstat(&fd)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Error::new("is not a regular file"));
    }
    let content = content_of(fd, &stat);
    Ok((content.size, meta_of(&stat).mtime, content))
}

fn content_of(fd: OwnedFd, stat: &Stat) -> LocalContent {
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let stored = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
    let sparse = stored < size;
    LocalContent { fd, size, at: 0, data_end: if sparse { 0 } else { size }, may_shrink: false }
}

fn meta_of(stat: &Stat) -> Meta {
    let time = |secs: i64, nanos: i64| Timestamp::new(secs, u32::try_from(nanos).unwrap_or(0));
    Meta {
        perm: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        atime: Some(time(stat.st_atime, stat.st_atime_nsec)),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ..Meta::default()
    }
}

/// Opens a file for reading, without changing its access time if that is allowed.
fn open(dir: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> Result<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match rustix::fs::openat(dir, name, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => Ok(rustix::fs::openat(dir, name, flags, Mode::empty())?),
        other => Ok(other?),
    }
}

fn sorted_names(dir: &OwnedFd) -> Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(name.to_vec());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Returns the extended attributes of a file: those of users, access control lists, and those of
/// root, which an image cannot have; of the kernel's own, only capabilities. The labels of a policy
/// have a meaning only on this machine.
fn xattrs(fd: &OwnedFd) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let list = match with_growing_buffer(|buffer| flistxattr(fd, buffer)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(Vec::new()),
        other => other?,
    };
    let mut found = Vec::new();
    let taken = |name: &&[u8]| {
        let is_kept =
            [&b"user."[..], b"trusted.", b"security.capability"].iter().any(|of| name.starts_with(of));
        is_kept || is_acl_name(name)
    };
    for name in list.split(|&b| b == 0).filter(taken) {
        let value = with_growing_buffer(|buffer| fgetxattr(fd, OsStr::from_bytes(name), buffer))?;
        found.push((name.to_vec(), value));
    }
    found.sort_unstable();
    Ok(found)
}

/// Calls `ask` with larger and larger buffers until the result fits.
fn with_growing_buffer(
    mut ask: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>,
) -> rustix::io::Result<Vec<u8>> {
    let mut buffer = vec![0; 512];
    loop {
        match ask(&mut buffer) {
            Ok(len) => {
                buffer.truncate(len);
                return Ok(buffer);
            }
            // The kernel's own limit is 64 KiB.
            Err(Errno::RANGE) if buffer.len() < 1 << 17 => buffer.resize(buffer.len() * 8, 0),
            Err(e) => return Err(e),
        }
    }
}

/// The content of an open file, without its holes.
pub(super) struct LocalContent {
    fd: OwnedFd,
    size: u64,
    at: u64,
    /// End of the current run of data.
    data_end: u64,
    /// What is missing at the end reads as zeros.
    may_shrink: bool,
}

impl LocalContent {
    /// Returns true if size or time are no longer those that the file had before it was read.
    fn has_changed(&self, before: &Stat) -> Result<bool> {
        let now = rustix::fs::fstat(&self.fd)?;
        let state = |stat: &Stat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
        Ok(state(&now) != state(before))
    }

    /// Returns start and end of the first run of data at or after `offset`; an empty run at the end
    /// of the file if there is none.
    fn data_after(&self, offset: u64) -> Result<(u64, u64)> {
        let start = match rustix::fs::seek(&self.fd, SeekFrom::Data(offset)) {
            Err(Errno::NXIO) => self.size,
            // The file system does not support holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => offset,
            other => other?.min(self.size),
        };
        let end = match rustix::fs::seek(&self.fd, SeekFrom::Hole(start)) {
            Err(Errno::NXIO | Errno::INVAL | Errno::OPNOTSUPP) => self.size,
            other => other?.min(self.size),
        };
        Ok((start, end))
    }
}

impl Content for LocalContent {
    fn next(&mut self, buf: &mut [u8]) -> Result<Option<(u64, usize)>> {
        if self.at >= self.data_end && self.at < self.size {
            (self.at, self.data_end) = self.data_after(self.at)?;
        }
        let end = self.data_end.min(self.size);
        let want = usize::try_from(end.saturating_sub(self.at)).unwrap_or(usize::MAX).min(buf.len());
        if want == 0 {
            return Ok(None);
        }
        let mut got = 0;
        while got < want {
            match rustix::io::pread(&self.fd, &mut buf[got..want], self.at + got as u64) {
                Ok(0) if self.may_shrink => {
                    buf[got..want].fill(0);
                    got = want;
                }
                Ok(0) => return Err(Error::new("the file became shorter while it was read")),
                Ok(n) => got += n,
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        let at = self.at;
        self.at += got as u64;
        Ok(Some((at, got)))
    }

    fn extents(&mut self) -> Result<Option<Extents>> {
        if self.data_end == self.size {
            return Ok(None);
        }
        extents_of(self.size, |at| self.data_after(at)).map(Some)
    }
}
