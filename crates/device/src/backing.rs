//! The open file behind a [`crate::FileDevice`]: complete transfers, and the latch.
//!
//! Invariants: a transfer is complete or fails, even if the system interrupts or shortens calls.
//! The first write or flush that fails closes the latch, and later writes are refused, because the
//! state of the device is unknown and more writes would build on it. Reads are still possible.

use crate::{Error, Info, Op, Result};
use std::fs::File;
use std::io::{Error as IoError, ErrorKind};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// An open file with its properties and its latch.
pub(crate) struct Backing {
    pub file: File,
    /// The file below a loop device, with locks.
    below: Option<File>,
    pub info: Info,
    latch: OnceLock<String>,
}

impl Backing {
    pub fn new(file: File, below: Option<File>, info: Info) -> Self {
        Self { file, below, info, latch: OnceLock::new() }
    }

    /// Checks a request with [`Info::check`], and the latch for a write.
    pub fn check(&self, op: Op, offset: u64, len: usize) -> Result<()> {
        self.info.check(op, offset, len)?;
        match self.latch.get() {
            Some(reason) if op == Op::Write => {
                Err(Error::Latched { device: self.info.name.clone(), reason: reason.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Returns the error of a failed `action`; closes the latch if the action was a write or a
    /// flush.
    pub fn failed(&self, op: Op, action: String, source: IoError) -> Error {
        let error = Error::io(&self.info.name, action, source);
        if op == Op::Write && self.latch.set(error.to_string()).is_ok() {
            log::error!("{error}; no more writes to this device");
        }
        error
    }

    /// Returns the error of a failed transfer of `len` bytes at `offset`.
    pub fn transfer_failed(&self, op: Op, offset: u64, len: usize, source: IoError) -> Error {
        let verb = match op {
            Op::Read => "reading",
            Op::Write => "writing",
        };
        self.failed(op, format!("{verb} {len} bytes at {offset}"), source)
    }

    /// Reads all of `buf`.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            match self.file.read_at(&mut buf[done..], at) {
                // The file became shorter after it was opened.
                Ok(0) => {
                    return Err(Error::OutOfRange {
                        device: self.info.name.clone(),
                        offset,
                        len: buf.len() as u64,
                        size: at,
                    });
                }
                Ok(n) => done += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(self.transfer_failed(Op::Read, offset, buf.len(), e)),
            }
        }
        Ok(())
    }

    /// Writes all of `buf`.
    pub fn write(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < buf.len() {
            match self.file.write_at(&buf[done..], offset + done as u64) {
                Ok(0) => {
                    return Err(self.transfer_failed(
                        Op::Write,
                        offset,
                        buf.len(),
                        ErrorKind::WriteZero.into(),
                    ));
                }
                Ok(n) => done += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(self.transfer_failed(Op::Write, offset, buf.len(), e)),
            }
        }
        Ok(())
    }

    /// Transfers all of `buf` in the direction of `op`.
    pub fn transfer(&self, op: Op, offset: u64, buf: &mut [u8]) -> Result<()> {
        match op {
            Op::Read => self.read(offset, buf),
            Op::Write => self.write(offset, buf),
        }
    }

    /// Fails if this is a file that has become shorter than the device.
    fn check_size(&self) -> Result<()> {
        let failed = |e| self.failed(Op::Write, "flushing".into(), e);
        let found = self.file.metadata().map_err(failed)?;
        if !found.is_file() || found.len() >= self.info.size_bytes {
            return Ok(());
        }
        let (len, size) = (found.len(), self.info.size_bytes);
        let shorter = format!("the file has {len} bytes now, and had {size} when it was opened");
        Err(self.failed(Op::Write, "flushing".into(), IoError::other(shorter)))
    }

    /// Makes earlier writes durable. Fails if the file has become shorter, because what was cut off
    /// is not durable.
    pub fn flush(&self) -> Result<()> {
        self.check(Op::Write, 0, 0)?;
        loop {
            match self.file.sync_data() {
                Ok(()) => return self.check_size(),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // The system forgets data that it could not write, so a second flush that succeeds
                // proves nothing.
                Err(e) => return Err(self.failed(Op::Write, "flushing".into(), e)),
            }
        }
    }
}

/// Releases the advisory lock explicitly. Closing alone would not release it while a child process
/// that another thread is starting has a copy of the descriptor, until it executes its program.
impl Drop for Backing {
    fn drop(&mut self) {
        for file in [&self.file].into_iter().chain(&self.below) {
            if let Err(e) = crate::lock::unlock(file) {
                log::debug!("{}: unlocking: {e}", self.info.name);
            }
        }
    }
}
