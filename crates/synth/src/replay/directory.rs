//! Replays into a directory of the host.

use super::{Name, OpenMode, Target};
use spindle_trace::{Error, Result};
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// An empty directory for the files of a replay.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    made: HashSet<String>,
    buffer: Vec<u8>,
}

impl Directory {
    /// Returns the directory `path`; creates it if necessary.
    ///
    /// # Errors
    /// [`Error::Refused`] if it is not empty, so that no user's files are touched; [`Error::Io`].
    pub fn new(path: &Path) -> Result<Self> {
        let io = |e| Error::io(path, e);
        fs::create_dir_all(path).map_err(io)?;
        let left = fs::read_dir(path).map_err(io)?.filter_map(std::result::Result::ok);
        // A new file system contains this.
        if left.into_iter().any(|entry| entry.file_name() != "lost+found") {
            return Err(Error::Refused(format!("{}: the directory is not empty", path.display())));
        }
        Ok(Self { path: path.to_owned(), made: HashSet::new(), buffer: Vec::new() })
    }

    /// Returns the directory `path`, in which the files of a trace have been made before, under
    /// their names.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn made(path: &Path) -> Result<Self> {
        let io = |e| Error::io(path, e);
        let entries = fs::read_dir(path).map_err(io)?;
        let made = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let made = made.collect::<std::io::Result<_>>().map_err(io)?;
        Ok(Self { path: path.to_owned(), made, buffer: Vec::new() })
    }

    fn path(&mut self, name: Name) -> Result<PathBuf> {
        let directory = name.directory();
        let path = self.path.join(&directory);
        if self.made.insert(directory) {
            fs::create_dir(&path).map_err(|e| Error::io(&path, e))?;
        }
        Ok(path.join(name.leaf()))
    }

    fn grow(&mut self, bytes: usize) {
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, b'x');
        }
    }
}

/// A file with its path.
#[derive(Debug)]
pub struct OpenFile(File, PathBuf);

impl Target for Directory {
    type Open = OpenFile;

    fn open(&mut self, name: Name, mode: OpenMode) -> Result<OpenFile> {
        let path = self.path(name)?;
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .truncate(mode == OpenMode::Truncated)
            .create_new(mode == OpenMode::New);
        let file = options.open(&path).map_err(|e| Error::io(&path, e))?;
        Ok(OpenFile(file, path))
    }

    fn read(&mut self, open: &mut OpenFile, position: u64, bytes: usize) -> Result<usize> {
        self.grow(bytes);
        open.0.read_at(&mut self.buffer[..bytes], position).map_err(|e| Error::io(&open.1, e))
    }

    fn write(&mut self, open: &mut OpenFile, position: u64, bytes: usize) -> Result<()> {
        self.grow(bytes);
        open.0.write_all_at(&self.buffer[..bytes], position).map_err(|e| Error::io(&open.1, e))
    }

    fn sync(&mut self, open: &mut OpenFile) -> Result<()> {
        open.0.sync_all().map_err(|e| Error::io(&open.1, e))
    }

    fn close(&mut self, open: OpenFile) -> Result<()> {
        drop(open);
        Ok(())
    }

    fn truncate(&mut self, name: Name, size: u64) -> Result<()> {
        let path = self.path(name)?;
        let file = OpenOptions::new().write(true).open(&path);
        file.and_then(|file| file.set_len(size)).map_err(|e| Error::io(&path, e))
    }

    fn stat(&mut self, name: Name) -> Result<()> {
        let path = self.path(name)?;
        fs::symlink_metadata(&path).map(drop).map_err(|e| Error::io(&path, e))
    }

    fn change(&mut self, name: Name) -> Result<()> {
        let path = self.path(name)?;
        let permissions = fs::Permissions::from_mode(0o644);
        fs::set_permissions(&path, permissions).map_err(|e| Error::io(&path, e))
    }

    fn remove(&mut self, name: Name) -> Result<()> {
        let path = self.path(name)?;
        fs::remove_file(&path).map_err(|e| Error::io(&path, e))
    }

    fn rename(&mut self, from: Name, to: Name) -> Result<()> {
        let (old, new) = (self.path(from)?, self.path(to)?);
        fs::rename(&old, new).map_err(|e| Error::io(&old, e))
    }
}
