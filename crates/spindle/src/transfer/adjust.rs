//! A sink that changes owners and times on the way from a source to another sink, and reports each
//! step, so that the caller can show progress or stop the transfer.

use super::{Body, Content, Extents, Meta, Node, Sink};
use crate::error::Result;
use spindle_clock::Timestamp;

/// Changes to make to every node.
#[derive(Clone, Debug, Default)]
pub struct Adjust {
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New times.
    pub times: Times,
}

/// The times of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Times {
    /// Those of the source.
    #[default]
    Kept,
    /// This time for all.
    All(Timestamp),
    /// At most this time. The time of the last read is that of the last change, because it would
    /// not be the same a second time.
    Latest(Timestamp),
}

impl Adjust {
    fn apply(&self, meta: &mut Meta) {
        meta.uid = self.uid.unwrap_or(meta.uid);
        meta.gid = self.gid.unwrap_or(meta.gid);
        match self.times {
            Times::Kept => {}
            Times::All(time) => {
                meta.mtime = time;
                meta.atime = Some(time);
                meta.birthtime = Some(time);
            }
            Times::Latest(time) => {
                meta.mtime = meta.mtime.min(time);
                meta.atime = Some(meta.mtime);
                meta.birthtime = Some(meta.birthtime.map_or(meta.mtime, |birth| birth.min(meta.mtime)));
            }
        }
    }
}

/// Called before each node and each piece of a file's data, with the bytes of data that were copied
/// since the last call. An error ends the transfer.
pub type Step<'a> = &'a dyn Fn(u64) -> Result<()>;

/// A sink that adjusts nodes, passes them on to another sink, and reports each step.
pub struct Adjusted<'a, S> {
    inner: S,
    adjust: Adjust,
    step: Step<'a>,
}

impl<'a, S: Sink> Adjusted<'a, S> {
    /// Returns a sink that passes nodes on to `inner`.
    pub fn new(inner: S, adjust: Adjust, step: Step<'a>) -> Self {
        Self { inner, adjust, step }
    }
}

impl<S: Sink> Sink for Adjusted<'_, S> {
    fn put(&mut self, mut node: Node<'_>) -> Result<()> {
        (self.step)(0)?;
        self.adjust.apply(&mut node.meta);
        let Body::File { size, content } = node.body else { return self.inner.put(node) };
        let mut content = Counted { content, copied: 0, step: self.step };
        self.inner.put(Node { body: Body::File { size, content: &mut content }, ..node })
    }

    fn wants(&self, path: &[u8]) -> bool {
        self.inner.wants(path)
    }

    fn finish(&mut self) -> Result<()> {
        self.inner.finish()
    }
}

struct Counted<'a> {
    content: &'a mut dyn Content,
    /// Bytes of data of the last piece.
    copied: u64,
    step: Step<'a>,
}

impl Content for Counted<'_> {
    fn next(&mut self, buf: &mut [u8]) -> Result<Option<(u64, usize)>> {
        (self.step)(std::mem::take(&mut self.copied))?;
        let piece = self.content.next(buf)?;
        self.copied = piece.map_or(0, |(_, len)| len as u64);
        Ok(piece)
    }

    fn extents(&mut self) -> Result<Option<Extents>> {
        self.content.extents()
    }

    fn attributes_behind(&mut self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.content.attributes_behind()
    }
}
