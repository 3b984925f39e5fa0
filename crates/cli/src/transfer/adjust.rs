//! What is changed on the way from a source to a sink: owners, times, and the progress that is
//! shown.

use super::{Body, Content, Extents, Meta, Node, Sink};
use crate::error::Result;
use crate::interrupt;
use crate::progress::Progress;
use spindle_clock::Timestamp;

/// What to change in every node.
#[derive(Clone, Debug, Default)]
pub struct Adjust {
    /// Everything belongs to this user.
    pub uid: Option<u32>,
    /// Everything belongs to this group.
    pub gid: Option<u32>,
    /// Every time is this one.
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

/// A sink in front of another one that adjusts what passes, and shows how much.
pub struct Adjusted<'a, S> {
    inner: S,
    adjust: Adjust,
    progress: &'a Progress,
}

impl<'a, S: Sink> Adjusted<'a, S> {
    /// In front of `inner`.
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
