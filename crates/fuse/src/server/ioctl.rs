//! Calls of `ioctl` that the kernel passes on: file flags, and the declaration of free space.
//!
//! Constants: Linux `include/uapi/linux/fs.h`.

use super::file_flags::{Form, from_linux, known, to_linux};
use super::{Inner, Server, cred, errno_of};
use crate::protocol::{NodeId, Reply, Request};
use spindle_vfs::{Error, Ino, Result};
use std::sync::Arc;

/// `FS_IOC_GETFLAGS` and `FS_IOC_SETFLAGS`: file flags as a word.
const GETFLAGS: u32 = 0x8008_6601;
const SETFLAGS: u32 = 0x4008_6602;
/// `FS_IOC_FSGETXATTR` and `FS_IOC_FSSETXATTR`: a `struct fsxattr` that begins with the file flags.
const FSGETXATTR: u32 = 0x801c_581f;
const FSSETXATTR: u32 = 0x401c_5820;
/// Size of a `struct fsxattr` in bytes.
const FSXATTR_BYTES: usize = 28;
/// `FITRIM`: a `struct fstrim_range`, three 64-bit numbers.
const FITRIM: u32 = 0xc018_5879;

impl Server {
    pub(super) fn ioctl(
        &self,
        req: &Request,
        node: NodeId,
        (command, input): (u32, &[u8]),
        output: u32,
        reply: Reply,
    ) {
        let ino = self.ino(node);
        let has_flags = self.fs.limits().file_flags != 0;
        let done = match command {
            GETFLAGS if has_flags => self.flags_in_form(ino, |flag| flag.word, output as usize),
            FSGETXATTR if has_flags => self.flags_in_form(ino, |flag| flag.fsxattr, FSXATTR_BYTES),
            SETFLAGS if has_flags => return self.set_flags_later(req, node, |flag| flag.word, input, reply),
            FSSETXATTR if has_flags => {
                return self.set_flags_later(req, node, |flag| flag.fsxattr, input, reply);
            }
            FITRIM => self.trim(req, input),
            _ => return reply.error(libc::ENOTTY),
        };
        reply_ioctl(done, reply);
    }

    /// Sets the flags of a file once the kernel has written back its pages: what was written before
    /// must not be refused because of the flags.
    fn set_flags_later(&self, req: &Request, node: NodeId, form: Form, input: &[u8], reply: Reply) {
        let (inner, req, input) = (Arc::clone(&self.0), *req, input.to_vec());
        self.state.seeks.push(Box::new(move |notifier| {
            let ino = inner.ino(node);
            if let Err(error) = notifier.inval_inode(node, 0) {
                log::debug!("cannot write back inode {}: {error}", ino.0);
            }
            let _serving = inner.state.serving.read();
            reply_ioctl(inner.set_flags(&req, ino, form, &input), reply);
        }));
    }
}

impl Inner {
    /// Returns the flags of a file, followed by zeros up to this size in bytes.
    fn flags_in_form(&self, ino: Ino, form: Form, size: usize) -> Result<Vec<u8>> {
        let mut bytes = to_linux(self.fs.getattr(ino)?.flags, form).to_ne_bytes().to_vec();
        bytes.resize(size.min(FSXATTR_BYTES), 0);
        Ok(bytes)
    }

    /// Sets the flags of a file. All that follows them must be 0: nothing of it exists here.
    fn set_flags(&self, req: &Request, ino: Ino, form: Form, input: &[u8]) -> Result<Vec<u8>> {
        let (word, rest) = input.split_first_chunk().ok_or(Error::Invalid)?;
        let wanted = u32::from_ne_bytes(*word);
        if wanted & !known(form) != 0 || rest.iter().any(|&byte| byte != 0) {
            return Err(Error::NotSupported);
        }
        let attr = self.vfs.chflags(&cred(req), ino, |flags| from_linux(flags, wanted, form))?;
        self.state.nodes.set_flags(&attr);
        self.note_change();
        // The change has set the ctime.
        self.invalidate_attributes(ino);
        Ok(Vec::new())
    }

    /// Declares free space unused to the device. Returns the range, with the bytes of that as its
    /// length.
    fn trim(&self, req: &Request, input: &[u8]) -> Result<Vec<u8>> {
        if req.uid() != 0 {
            return Err(Error::NotPermitted);
        }
        let (numbers, []) = input.as_chunks::<8>() else { return Err(Error::Invalid) };
        let &[start, len, min] = numbers else { return Err(Error::Invalid) };
        let [start, len, min] = [start, len, min].map(u64::from_ne_bytes);
        let trimmed = self.fs.trim(start..start.saturating_add(len), min)?;
        Ok([start, trimmed, min].iter().flat_map(|number| number.to_ne_bytes()).collect())
    }
}

fn reply_ioctl(done: Result<Vec<u8>>, reply: Reply) {
    match done {
        Ok(bytes) => reply.ioctl(&bytes),
        Err(error) => reply.error(errno_of(&error)),
    }
}
