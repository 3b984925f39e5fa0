//! Nodes without the data of files, of which copies can be made.

use super::{Body, Content, Extents};
use crate::error::Result;
use spindle_vfs::Rdev;
use std::collections::VecDeque;

/// The body of a node.
pub(super) enum Thing {
    /// With its size, and its runs of data if there are holes.
    File(u64, Option<Extents>),
    Directory,
    Symlink(Box<[u8]>),
    Device {
        block: bool,
        rdev: Rdev,
    },
    Fifo,
    Socket,
    HardLink(Box<[u8]>),
}

impl Thing {
    pub(super) fn of(body: Body<'_>) -> Result<Self> {
        Ok(match body {
            Body::File { size, content } => Self::File(size, content.extents()?),
            Body::Directory => Self::Directory,
            Body::Symlink(target) => Self::Symlink(target.into()),
            Body::Device { block, rdev } => Self::Device { block, rdev },
            Body::Fifo => Self::Fifo,
            Body::Socket => Self::Socket,
            Body::HardLink(first) => Self::HardLink(first.into()),
        })
    }

    /// Returns the body again; of a file, `unread` becomes the content.
    pub(super) fn body<'a>(&'a self, unread: &'a mut Unread) -> Body<'a> {
        match self {
            Self::File(size, runs) => {
                *unread = Unread::of(*size, runs.as_ref());
                Body::File { size: *size, content: unread }
            }
            Self::Directory => Body::Directory,
            Self::Symlink(target) => Body::Symlink(target),
            Self::Device { block, rdev } => Body::Device { block: *block, rdev: *rdev },
            Self::Fifo => Body::Fifo,
            Self::Socket => Body::Socket,
            Self::HardLink(first) => Body::HardLink(first),
        }
    }

    /// Returns the bytes of memory that it takes besides itself.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::File(_, Some(runs)) => size_of_val(&runs[..]),
            Self::Symlink(path) | Self::HardLink(path) => path.len(),
            _ => 0,
        }
    }
}

/// Zeros in place of the data of a file.
#[derive(Default)]
pub(super) struct Unread {
    holes: bool,
    runs: VecDeque<(u64, u64)>,
}

impl Unread {
    fn of(size: u64, runs: Option<&Extents>) -> Self {
        let holes = runs.is_some();
        let runs = runs.map_or_else(|| [(0, size)].into(), |runs| runs.iter().copied().collect());
        Self { holes, runs }
    }
}

impl Content for Unread {
    fn next(&mut self, buf: &mut [u8]) -> Result<Option<(u64, usize)>> {
        let Some((at, left)) = self.runs.front_mut() else { return Ok(None) };
        let from = *at;
        let len = usize::try_from(*left).unwrap_or(usize::MAX).min(buf.len());
        buf[..len].fill(0);
        *at += len as u64;
        *left -= len as u64;
        if *left == 0 {
            self.runs.pop_front();
        }
        Ok((len > 0).then_some((from, len)))
    }

    fn extents(&mut self) -> Result<Option<Extents>> {
        Ok(self.holes.then(|| self.runs.iter().copied().collect()))
    }
}
