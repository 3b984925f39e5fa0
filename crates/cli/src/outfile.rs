//! Output files of commands other than images: traces, findings, pages, tables, tar streams,
//! dumps, copies.
//!
//! One rule holds for all of them. An existing file is replaced only if it is empty or of the kind
//! that the command makes, else only with `--force`: a wrong name must not destroy a disk, an
//! archive or a text. A file gets its name when it is complete: until then it is written in the
//! same directory, without a name where the file system can do that, so that nothing is left of it
//! however the command ends, and what is replaced stays as it was. Symbolic links are followed;
//! devices and pipes are written as they are, and `-` is standard output.

use crate::error::{Context, Failure, Result};
use crate::interrupt;
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use spindle::detect::{contents, held_by};
use spindle::transfer::InPlace;
use spindle_device::FileDevice;
use std::fs::{File, Metadata, Permissions};
use std::io::{IsTerminal, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The option of commands that write an output file.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct OutArgs {
    /// Overwrite even a file of another kind, an image or a block device
    #[arg(long)]
    pub force: bool,
}

/// What an output is, and so which files it may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A tar archive.
    Tar,
    /// A stream of dump(8).
    Dump,
    /// A trace.
    Trace,
    /// Findings of traces.
    Findings,
    /// Requests of a trace, in records of libCacheSim.
    Requests,
    /// Requests of a trace, as a table.
    RequestTable,
    /// Accesses of a trace, as a log of fio.
    Iolog,
    /// An HTML page.
    Page,
    /// An SVG picture.
    Picture,
    /// A text, table or figure in a directory of results, whose name the command has chosen.
    Result,
    /// The contents of a file, which may be anything.
    Contents,
}

impl Kind {
    /// Returns true if a file of `len` bytes with these bytes at its start is of this kind.
    fn is_of(self, start: &[u8], len: u64) -> bool {
        let begins = |text: &[u8]| start.get(..text.len()).is_some_and(|s| s.eq_ignore_ascii_case(text));
        let has = |at: usize, bytes: &[u8]| start.get(at..).is_some_and(|rest| rest.starts_with(bytes));
        match self {
            Self::Tar => has(257, b"ustar"),
            Self::Dump => spindle::detect::is_dump(start),
            Self::Trace => has(0, b"PAR1"),
            Self::Findings => has(0, spindle_analyze::MAGIC),
            // The first request is for object 1.
            Self::Requests => len.is_multiple_of(24) && has(4, &1_u64.to_le_bytes()),
            Self::RequestTable => begins(b"time,object,size,op\n"),
            Self::Iolog => begins(b"fio version "),
            Self::Page => begins(b"<!doctype html"),
            Self::Picture => begins(b"<svg") || begins(b"<?xml"),
            Self::Result => !start.contains(&0),
            Self::Contents => false,
        }
    }
}

/// Returns true if an output of this name is standard output.
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Returns a description of the file system or partition table in the file or block device at
/// `path`, if there is one.
pub fn image_at(path: &Path) -> Result<Option<String>> {
    let options = spindle_device::OpenOptions::look();
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() || found.file_type().is_block_device() => {
            Ok(contents(&FileDevice::open(path, &options)?)?)
        }
        _ => Ok(None),
    }
}

/// Refuses to overwrite what is not of this kind unless `force` is set.
pub fn check(path: &Path, kind: Kind, force: bool) -> Result<()> {
    if force || is_stdout(path) { Ok(()) } else { refuse(path, kind, "; --force overwrites it") }
}

/// Refuses to overwrite what is not of this kind; `remedy` is added to the message.
pub fn refuse(path: &Path, kind: Kind, remedy: &str) -> Result<()> {
    let Ok(found) = std::fs::metadata(path) else { return Ok(()) };
    let state = if found.file_type().is_block_device() {
        match image_at(path).context(path.display())? {
            Some(holds) => format!("contains {holds}"),
            None => "is a block device".into(),
        }
    } else if found.is_file() && found.len() > 0 {
        let (start, holds) = held_by(path).context(path.display())?;
        if image_at(path).context(path.display())?.is_none() && kind.is_of(&start, found.len()) {
            return Ok(());
        }
        format!("contains {}", holds.unwrap_or_else(|| "nothing but zeros at its start and end".into()))
    } else {
        return Ok(());
    };
    Err(Failure::new(format!(
        "{}: {state}, which the output would overwrite; name another file{remedy}",
        path.display()
    )))
}

/// Refuses to overwrite the input of the command, even with `--force`.
pub fn refuse_input(path: &Path, input: &Path) -> Result<()> {
    let id =
        |path: &Path| path.metadata().ok().filter(Metadata::is_file).map(|found| (found.dev(), found.ino()));
    match (id(path), id(input)) {
        (Some(to), Some(from)) if to == from => Err(Failure::new(format!(
            "{}: the output would overwrite its own input; name another file",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// An output that is being written. Without [`Out::finish`] what was there before stays.
#[derive(Debug)]
pub struct Out {
    file: File,
    /// As messages call it.
    pub name: String,
    undo: Undo,
    /// It may take the place of a file: of the one that was there when it was begun, or with
    /// `--force` of any.
    replaces: bool,
}

/// What is to be done with an unfinished output.
#[derive(Debug)]
enum Undo {
    /// It goes to a device, a pipe or standard output, or is complete.
    Nothing,
    /// A file that was empty, and is reached by a symbolic link as `/dev/stdout` is, is to be empty
    /// again.
    Empty,
    /// The file in the first place is to be removed; it takes the second place when it is complete.
    Discard(PathBuf, PathBuf),
    /// A file without a name vanishes by itself; it takes this place when it is complete.
    Vanish(PathBuf),
}

impl Out {
    /// Begins an output.
    pub fn create(path: &Path, kind: Kind, force: bool) -> Result<Self> {
        if is_stdout(path) {
            let stdout = std::io::stdout();
            let is_text = matches!(kind, Kind::RequestTable | Kind::Iolog | Kind::Page | Kind::Picture);
            if stdout.is_terminal() && !is_text {
                return Err(Failure::usage(
                    "will not write this output to a terminal; redirect it to a file or a pipe",
                ));
            }
            let file = stdout.as_fd().try_clone_to_owned().context("standard output")?.into();
            return Ok(Self { file, name: "standard output".into(), undo: Undo::Nothing, replaces: false });
        }
        check(path, kind, force)?;
        let replaces = force || path.exists();
        let (file, undo) = open(path).context(path.display())?;
        Ok(Self { file, name: path.display().to_string(), undo, replaces })
    }

    /// Returns the file to write to. A regular file can be read, too.
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Returns the file as its own handle.
    pub fn handle(&self) -> Result<File> {
        self.file.try_clone().context(&self.name)
    }

    /// Returns true if it can only be written in order.
    pub fn is_stream(&self) -> bool {
        !self.file.metadata().is_ok_and(|found| found.is_file())
    }

    /// Returns what writes to it; a signal ends the writing to a pipe or device.
    pub fn writer(&self) -> Result<Box<dyn Write>> {
        let file = self.handle()?;
        Ok(if self.is_stream() { Box::new(interrupt::Writer(file)) } else { Box::new(file) })
    }

    /// Puts the complete output into its place.
    pub fn finish(mut self) -> Result<()> {
        if !matches!(self.undo, Undo::Nothing | Undo::Empty) {
            // After a crash what has the name must be whole.
            self.file.sync_data().context(&self.name)?;
        }
        if let Undo::Vanish(place) = &self.undo {
            let by_fd = path_of(&self.file);
            let link = |name: &Path| rustix::fs::linkat(CWD, &by_fd, CWD, name, AtFlags::SYMLINK_FOLLOW);
            match link(place) {
                Err(Errno::EXIST) if self.replaces => {
                    let (place, made) = (place.clone(), free_name_beside(place).context(&self.name)?);
                    link(&made).context(&self.name)?;
                    self.undo = Undo::Discard(made, place);
                }
                linked => linked.map_err(appeared).context(&self.name)?,
            }
        }
        if let Undo::Discard(made, place) = &self.undo {
            if self.replaces {
                std::fs::rename(made, place).context(&self.name)?;
            } else {
                rename_to_new(made, place).map_err(appeared).context(&self.name)?;
            }
        }
        self.undo = Undo::Nothing;
        Ok(())
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        // Errors are ignored, because the caller reports the failure that led here.
        let _ = match &self.undo {
            Undo::Nothing | Undo::Vanish(_) => Ok(()),
            Undo::Empty => self.file.set_len(0),
            Undo::Discard(path, _) => std::fs::remove_file(path),
        };
    }
}

/// Opens the file of an output.
fn open(path: &Path) -> Result<(File, Undo)> {
    let mut options = File::options();
    options.read(true).write(true);
    let found = match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => return Ok((overwrite(CWD, path)?.into(), Undo::Nothing)),
        Ok(found) => Some(found),
        Err(_) if path.is_symlink() => {
            return Err(Failure::new("a dangling symbolic link; remove it, or create its target"));
        }
        Err(_) => None,
    };
    if let Some(found) = &found {
        let old = options.open(path)?;
        refuse_used(&old)?;
        if found.len() == 0 && path.is_symlink() {
            return Ok((old, Undo::Empty));
        }
    }
    let place = if found.is_some() { path.canonicalize()? } else { new_place(path)? };
    let (file, undo) = if let Some(file) = without_name(place.parent().unwrap_or(&place)) {
        (file, Undo::Vanish(place))
    } else {
        let made = free_name_beside(&place)?;
        let file = options.create_new(true).open(&made).context("making a file beside it")?;
        (file, Undo::Discard(made, place))
    };
    if let Some(found) = found {
        // It keeps its owner as far as the system allows it.
        let _ = std::os::unix::fs::fchown(&file, Some(found.uid()), Some(found.gid()));
        file.set_permissions(Permissions::from_mode(found.mode() & 0o777))?;
    }
    Ok((file, undo))
}

/// Returns the place of a new file, which does not depend on the working directory.
fn new_place(path: &Path) -> Result<PathBuf> {
    let name = path.file_name().filter(|_| !path.as_os_str().as_encoded_bytes().ends_with(b"/"));
    let name = name.ok_or(Errno::ISDIR)?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(dir.canonicalize()?.join(name))
}

/// Gives a file a name that no file has, on any file system.
fn rename_to_new(made: &Path, place: &Path) -> rustix::io::Result<()> {
    match rustix::fs::renameat_with(CWD, made, CWD, place, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(CWD, made, CWD, place, AtFlags::empty())?;
            rustix::fs::unlinkat(CWD, made, AtFlags::empty())
        }
        renamed => renamed,
    }
}

/// Returns why an output has not got its place.
fn appeared(error: Errno) -> Failure {
    match error {
        Errno::EXIST => Failure::new(
            "a file of this name has appeared since the command began, and stays; name another file, or \
             --force overwrites it",
        ),
        error => error.into(),
    }
}

/// Returns a name beside a file that no file has.
fn free_name_beside(place: &Path) -> Result<PathBuf> {
    let beside = |n: u32| place.with_file_name(format!(".spindle-{}-{n}", std::process::id()));
    let free = (0..100).map(beside).find(|name| name.symlink_metadata().is_err());
    free.ok_or_else(|| Failure::new("no name is free for a temporary file beside it"))
}

/// Returns a new file without a name in a directory; none where it could not get a name later.
pub fn without_name(dir: &Path) -> Option<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    // The umask applies.
    let file = File::from(rustix::fs::open(dir, flags, Mode::from_raw_mode(0o666)).ok()?);
    path_of(&file).exists().then_some(file)
}

/// Returns the path under which this process can open a file that has no name.
pub fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Writes an output.
pub fn write(path: &Path, kind: Kind, content: impl AsRef<[u8]>, force: bool) -> Result<()> {
    let out = Out::create(path, kind, force)?;
    out.file().write_all(content.as_ref()).context(&out.name)?;
    out.finish()
}

/// Returns a file without a name, for an output that is needed in another order than it can be
/// written.
pub fn scratch() -> Result<File> {
    let dir = std::env::temp_dir();
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::open(&dir, flags, Mode::RUSR | Mode::WUSR).context(dir.display())?.into())
}

/// Opens a named pipe for writing when it has a reader.
fn open_pipe(dir: BorrowedFd<'_>, name: &Path, flags: OFlags) -> Result<OwnedFd> {
    loop {
        match rustix::fs::openat(dir, name, flags | OFlags::NONBLOCK, Mode::empty()) {
            Err(Errno::NXIO) => interrupt::pause()?,
            other => {
                let fd = other?;
                rustix::fs::fcntl_setfl(&fd, OFlags::empty())?;
                return Ok(fd);
            }
        }
    }
}

/// Opens an existing file for overwriting by a transfer.
pub fn overwrite_in_place(dir: BorrowedFd<'_>, name: &Path) -> spindle::Result<InPlace> {
    let fd = overwrite(dir, name).map_err(Failure::into_error)?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode);
    Ok(match kind {
        FileType::RegularFile => InPlace::File(fd),
        _ => InPlace::Stream(Box::new(interrupt::Writer(File::from(fd)))),
    })
}

/// Refuses a file that another program uses as an image. A file system without locks has no other
/// lock on the file.
fn refuse_used(file: impl AsFd) -> Result<()> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(Failure::new("another program uses it as an image; unmount it first")),
        _ => Ok(()),
    }
}

/// Opens an existing file for overwriting, through symbolic links, and truncates a regular file.
/// Refuses if another program uses it as an image, or the system uses the block device.
fn overwrite(dir: impl AsFd, name: &Path) -> Result<OwnedFd> {
    let found = rustix::fs::statat(&dir, name, AtFlags::empty())?;
    let kind = FileType::from_raw_mode(found.st_mode);
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    if kind == FileType::BlockDevice {
        return match rustix::fs::openat(dir, name, flags | OFlags::EXCL, Mode::empty()) {
            Err(Errno::BUSY) => Err(Failure::new("the system uses this block device; unmount it first")),
            other => Ok(other?),
        };
    }
    if kind == FileType::Fifo {
        return open_pipe(dir.as_fd(), name, flags);
    }
    let fd = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    if kind == FileType::RegularFile {
        refuse_used(&fd)?;
        rustix::fs::ftruncate(&fd, 0)?;
    }
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: until it is complete, an output has no name that a killed command could leave
    /// behind; then it takes its place, and the permissions of the file that it replaces.
    #[test]
    fn an_unfinished_output_has_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let names = || std::fs::read_dir(dir.path()).unwrap().count();
        for (n, (before, mode)) in
            [(None, None), (Some("old"), Some(0o640)), (Some(""), Some(0o604))].into_iter().enumerate()
        {
            let _ = std::fs::remove_file(&path);
            if let (Some(text), Some(mode)) = (before, mode) {
                std::fs::write(&path, text).unwrap();
                std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            }
            let was = || (names(), std::fs::read_to_string(&path).ok());
            let old = (usize::from(before.is_some()), before.map(str::to_owned));
            let out = Out::create(&path, Kind::Contents, true).unwrap();
            out.file().write_all(b"half").unwrap();
            assert_eq!(was(), old, "{n}");
            drop(out);
            assert_eq!(was(), old, "{n}");
            write(&path, Kind::Contents, b"new", true).unwrap();
            assert_eq!(was(), (1, Some("new".into())), "{n}");
            if let Some(mode) = mode {
                assert_eq!(path.metadata().unwrap().mode() & 0o777, mode, "{n}");
            }
        }
    }

    /// Promise: a file that appears while a new output is made stays as it is, whichever way the
    /// output gets its name; with `--force` it is replaced.
    #[test]
    fn what_appears_meanwhile_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let begin = |force| {
            let out = Out::create(&path, Kind::Contents, force).unwrap();
            out.file().write_all(b"new").unwrap();
            std::fs::write(&path, "theirs").unwrap();
            out
        };
        let error = begin(false).finish().unwrap_err().to_string();
        assert!(error.contains("has appeared") && error.contains("--force"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "theirs");
        std::fs::remove_file(&path).unwrap();
        begin(true).finish().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        let beside = dir.path().join("beside");
        std::fs::write(&beside, "b").unwrap();
        assert_eq!(rename_to_new(&beside, &path), Err(Errno::EXIST));
        std::fs::remove_file(&path).unwrap();
        rename_to_new(&beside, &path).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
