//! A sink that changes owners and times on the way from a source to another sink, and shows
//! progress.

use super::{Body, Content, Extents, Meta, Node, Sink};
use crate::error::Result;
use crate::interrupt;
use crate::progress::Progress;
use spindle_clock::Timestamp;

/// Changes to make to every node.
#[derive(Clone, Debug, Default)]
pub struct Adjust {
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New value of all times.
    pub time: Option<Timestamp>,
}

impl Adjust {
    fn apply(&self, meta: &mut Meta) {
        meta.uid = self.uid.unwrap_or(meta.uid);
        meta.gid = self.gid.unwrap_or(meta.gid);
        if let Some(time) = self.time {
            meta.mtime = time;
            meta.atime = Some(time);
            meta.birthtime = Some(time);
        }
    }
}

/// A sink that adjusts nodes, passes them on to another sink, and shows progress.
pub struct Adjusted<'a, S> {
    inner: S,
    adjust: Adjust,
    progress: &'a Progress,
}

impl<'a, S: Sink> Adjusted<'a, S> {
    /// Returns a sink that passes nodes on to `inner`.
    pub fn new(inner: S, adjust: Adjust, progress: &'a Progress) -> Self {
        Self { inner, adjust, progress }
    }
}

impl<S: Sink> Sink for Adjusted<'_, S> {
    fn put(&mut self, mut node: Node<'_>) -> Result<()> {
        interrupt::check()?;
        self.adjust.apply(&mut node.meta);
        let Body::File { size, content } = node.body else { return self.inner.put(node) };
        let mut content = Counted { content, progress: self.progress };
        self.inner.put(Node { body: Body::File { size, content: &mut content }, ..node })
    }

    fn finish(&mut self) -> Result<()> {
        self.inner.finish()
    }
}

struct Counted<'a> {
    content: &'a mut dyn Content,
    progress: &'a Progress,
}

impl Content for Counted<'_> {
    fn next(&mut self, buf: &mut [u8]) -> Result<Option<(u64, usize)>> {
        interrupt::check()?;
        let piece = self.content.next(buf)?;
        if let Some((_, len)) = piece {
            self.progress.add(len as u64);
        }
        Ok(piece)
    }

    fn extents(&mut self) -> Result<Option<Extents>> {
        self.content.extents()
    }
}
