//! A sink in front of the target of a copy: it leaves out what is there already, and names what is
//! copied.

use spindle::transfer::{Body, Node, Sink};
use spindle::{Error, Result};
use std::collections::HashSet;

/// Returns true if the target has a file of this path.
pub type Exists<'a> = &'a dyn Fn(&[u8]) -> Result<bool>;

/// Is called with the path of each file that was copied.
pub type Copied<'a> = &'a dyn Fn(&[u8]) -> Result<()>;

/// The sink.
pub struct Picked<'a> {
    inner: &'a mut dyn Sink,
    /// How to find what is there already, if that is kept.
    exists: Option<Exists<'a>>,
    copied: Option<Copied<'a>>,
    /// What was there already.
    kept: HashSet<Vec<u8>>,
}

impl<'a> Picked<'a> {
    /// Returns a sink that passes to `inner` what it does not leave out.
    pub fn new(inner: &'a mut dyn Sink, exists: Option<Exists<'a>>, copied: Option<Copied<'a>>) -> Self {
        Self { inner, exists, copied, kept: HashSet::new() }
    }
}

impl Sink for Picked<'_> {
    fn put(&mut self, node: Node<'_>) -> Result<()> {
        let path = node.path;
        if let Some(exists) = self.exists
            && !matches!(node.body, Body::Directory)
            && exists(path)?
        {
            self.kept.insert(path.to_vec());
            return Ok(());
        }
        if let Body::HardLink(first) = node.body
            && self.kept.contains(first)
        {
            let first = spindle::text::quoted(first);
            return Err(Error::new(format!("another name of {first}, which is kept; copy it by itself")));
        }
        self.inner.put(node)?;
        self.copied.map_or(Ok(()), |copied| copied(path))
    }

    fn finish(&mut self) -> Result<()> {
        self.inner.finish()
    }
}
