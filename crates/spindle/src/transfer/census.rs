//! A sink that only counts, to plan a file system that fits.

use super::{Body, Node, Sink, split};
use crate::error::Result;
use spindle_ffs::newfs::Census;

/// Counts the space that a tree needs. A directory is counted when all its names are known, so the
/// names of one directory must come together, as in all sources except unsorted streams.
pub struct CensusSink {
    census: Census,
    /// The directories on the path to the current node, with the lengths of the names in them.
    stack: Vec<(Vec<u8>, Vec<usize>)>,
    bytes: u64,
}

impl CensusSink {
    /// Returns a sink that counts into `census`.
    #[must_use]
    pub fn new(census: Census) -> Self {
        Self { census, stack: vec![(Vec::new(), Vec::new())], bytes: 0 }
    }

    /// Returns the counts, and the bytes of data.
    #[must_use]
    pub fn counted(mut self) -> (Census, u64) {
        while let Some((_, names)) = self.stack.pop() {
            self.census.add_dir(names);
        }
        (self.census, self.bytes)
    }
}

impl Sink for CensusSink {
    fn put(&mut self, node: Node<'_>) -> Result<()> {
        let (dir, name) = split(node.path);
        while self.stack.len() > 1 && self.stack.last().is_some_and(|(open, _)| open != dir) {
            if let Some((_, names)) = self.stack.pop() {
                self.census.add_dir(names);
            }
        }
        if !name.is_empty()
            && let Some((_, names)) = self.stack.last_mut()
        {
            names.push(name.len());
        }
        match node.body {
            Body::Directory if name.is_empty() => {}
            Body::Directory => self.stack.push((node.path.to_vec(), Vec::new())),
            Body::File { size, content } => {
                if let Some(extents) = content.extents()? {
                    self.bytes += extents.iter().map(|&(_, len)| len).sum::<u64>();
                    self.census.add_sparse_file(size, extents.iter().map(|&(at, len)| at..at + len));
                } else {
                    self.bytes += size;
                    self.census.add_file(size);
                }
            }
            Body::Symlink(target) => self.census.add_symlink(target.len() as u64),
            Body::Device { .. } | Body::Fifo | Body::Socket => self.census.add_special(),
            Body::HardLink(_) => return Ok(()),
        }
        let attributes: u64 = node.meta.xattrs.iter().map(|(name, value)| attribute_bytes(name, value)).sum();
        if attributes > 0 {
            self.census.add_extattr(attributes);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Returns the bytes of one attribute on disk: a header of 7 bytes with the name, and the value,
/// each padded to 8 bytes.
fn attribute_bytes(name: &[u8], value: &[u8]) -> u64 {
    ((7 + name.len()).next_multiple_of(8) + value.len().next_multiple_of(8)) as u64
}
