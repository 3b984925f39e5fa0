//! A program: calls to a file system, with the processor time that the host needs to enter the
//! system and to move bytes.

use crate::Result;
use spindle_clock::{Clock, Work};
use spindle_vfs::{FileKind, FileSystem, Ino, NewNode, Privilege, SetAttr};

/// Bytes of a page.
const PAGE: u64 = 4096;

/// A program on a host.
pub struct Process<'a> {
    fs: &'a dyn FileSystem,
    clock: &'a dyn Clock,
    by: Privilege,
    buffer: Vec<u8>,
}

impl<'a> Process<'a> {
    /// Returns a user's program, which moves `request` bytes with each call.
    pub fn new(fs: &'a dyn FileSystem, clock: &'a dyn Clock, request: usize) -> Self {
        Self { fs, clock, by: Privilege::User, buffer: vec![b'x'; request] }
    }

    /// Returns the same as root, who may use the reserve.
    pub const fn with_reserve(mut self) -> Self {
        self.by = Privilege::Root;
        self
    }

    /// Makes a file or directory.
    ///
    /// # Errors
    /// As the file system.
    pub fn create(&self, dir: Ino, name: &str, kind: FileKind) -> Result<Ino> {
        self.clock.work(Work::Call);
        let node = NewNode::new(kind, 0o755);
        let ino = self.fs.create(dir, name.as_bytes(), &node, self.by)?.ino;
        self.fs.forget(ino, 1);
        Ok(ino)
    }

    /// Removes the name of a file.
    ///
    /// # Errors
    /// As the file system.
    pub fn unlink(&self, dir: Ino, name: &str) -> Result<()> {
        self.clock.work(Work::Call);
        Ok(self.fs.unlink(dir, name.as_bytes())?)
    }

    /// Truncates a file to zero bytes.
    ///
    /// # Errors
    /// As the file system.
    pub fn truncate(&self, ino: Ino) -> Result<()> {
        self.clock.work(Work::Call);
        self.fs.setattr(ino, &SetAttr { size: Some(0), ..SetAttr::default() }, self.by)?;
        Ok(())
    }

    /// Writes one request, or less of it, at `offset`.
    ///
    /// # Errors
    /// As the file system; no space also when only a part was written.
    pub fn write(&self, ino: Ino, offset: u64, bytes: u64) -> Result<()> {
        let data = &self.buffer[..self.buffer.len().min(usize::try_from(bytes).unwrap_or(usize::MAX))];
        self.clock.work(Work::Call);
        self.clock.work(Work::Copy { bytes: data.len() as u64 });
        match self.fs.write(ino, offset, data, self.by)? {
            n if n == data.len() => Ok(()),
            _ => Err(spindle_vfs::Error::NoSpace.into()),
        }
    }

    /// Reads one request at `offset` and returns the number of bytes read.
    ///
    /// # Errors
    /// As the file system.
    pub fn read(&mut self, ino: Ino, offset: u64) -> Result<u64> {
        self.clock.work(Work::Call);
        let n = self.fs.read(ino, offset, &mut self.buffer)? as u64;
        self.clock.work(Work::Copy { bytes: n });
        Ok(n)
    }

    /// Waits until a file's data is on the disk.
    ///
    /// # Errors
    /// As the file system.
    pub fn fsync(&self, ino: Ino) -> Result<()> {
        self.clock.work(Work::Call);
        Ok(self.fs.fsync(ino, true)?)
    }

    /// Touches all pages of a request's length at `offset` in a mapped file and returns
    /// the number of bytes touched.
    ///
    /// # Errors
    /// As the file system.
    pub fn fault(&mut self, ino: Ino, offset: u64) -> Result<u64> {
        let n = self.fs.read(ino, offset, &mut self.buffer)? as u64;
        for _ in 0..n.div_ceil(PAGE) {
            self.clock.work(Work::Fault);
        }
        Ok(n)
    }

    /// Writes `bytes` from the start of a file, request after request.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn write_all(&self, ino: Ino, bytes: u64) -> Result<()> {
        let step = self.buffer.len() as u64;
        (0..bytes.div_ceil(step)).try_for_each(|n| self.write(ino, n * step, bytes - n * step))
    }

    /// Reads a file from its start to its end, request after request.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_all(&mut self, ino: Ino) -> Result<u64> {
        let mut done = 0;
        loop {
            match self.read(ino, done)? {
                0 => return Ok(done),
                n => done += n,
            }
        }
    }
}
