//! Making the tree of a read-only area: the files that lie there in whole blocks keep their data on
//! it, and everything else is copied.

use crate::error::{Context, Result};
use crate::image::Image;
use crate::path::resolve;
use crate::transfer::{Body, Content, ImageSink, NewFiles, Node, Sink, join};
use spindle_mfs::Mfs;
use spindle_vfs::{Extent, Node as Held, Vfs};

/// A sink below a directory of a set, for the file system on a read-only area.
pub(super) struct AreaSink<'a> {
    sink: ImageSink<'a>,
    image: &'a Image,
    source: &'a Vfs,
    target: &'a Vfs,
    /// The path of the directory in the set.
    root: Vec<u8>,
    mfs: &'a Mfs,
    /// Bytes of the area.
    size: u64,
    /// The read-only class, and the one to which goes what is written.
    classes: (&'a [u8], Option<&'a [u8]>),
    /// Files whose data stays where it is, and their bytes.
    pub(super) placed: (u64, u64),
    /// Files whose data was copied, and their bytes.
    pub(super) copied: (u64, u64),
}

/// The content of a file that gets its data otherwise.
struct Nothing;

impl Content for Nothing {
    fn next(&mut self, _: &mut [u8]) -> Result<Option<(u64, usize)>> {
        Ok(None)
    }
}

impl<'a> AreaSink<'a> {
    /// Returns a sink for the tree of an image, which is an area of `size` bytes, below the
    /// directory `dir`, whose path is `root`.
    pub(super) fn new(
        (image, source): (&'a Image, &'a Vfs),
        (dir, root): (&Held<'a>, Vec<u8>),
        (mfs, size): (&'a Mfs, u64),
        classes: (&'a [u8], Option<&'a [u8]>),
    ) -> Self {
        let sink = ImageSink::new(dir, &root, NewFiles::PRESERVED);
        let (target, placed, copied) = (dir.vfs(), (0, 0), (0, 0));
        Self { sink, image, source, target, root, mfs, size, classes, placed, copied }
    }

    /// Returns where the data of a file is, in whole blocks of the class; none if it has to be
    /// copied.
    fn runs(&self, path: &[u8], size: u64) -> Result<Option<Vec<Extent>>> {
        let Some(unit) = self.image.unit().map(u64::from) else { return Ok(None) };
        let file = resolve(self.source, path, false)?;
        let Some(runs) = self.image.extents(file.ino())? else { return Ok(None) };
        let is_whole = |run: &Extent| {
            let end = run.at.checked_add(run.len.next_multiple_of(unit));
            run.offset.is_multiple_of(unit)
                && run.at.is_multiple_of(unit)
                && (run.len.is_multiple_of(unit) || run.offset + run.len == size)
                && end.is_some_and(|end| end <= self.size)
        };
        Ok(runs.iter().all(is_whole).then_some(runs))
    }
}

impl Sink for AreaSink<'_> {
    fn put(&mut self, node: Node<'_>) -> Result<()> {
        let Body::File { size, .. } = node.body else { return self.sink.put(node) };
        let runs = self.runs(node.path, size).named(node.path)?;
        let is_hole = runs.as_ref().is_some_and(Vec::is_empty);
        if let Some(runs) = runs.filter(|runs| !runs.is_empty()) {
            let Node { path, meta, .. } = node;
            let body = Body::File { size: 0, content: &mut Nothing };
            self.sink.put(Node { path, body, meta })?;
            let made = resolve(self.target, &join(&self.root, path), false)?;
            self.mfs.place(made.ino(), size, self.classes, &runs).named(path)?;
            self.placed = (self.placed.0 + 1, self.placed.1 + size);
            return Ok(());
        }
        if !is_hole {
            self.copied = (self.copied.0 + 1, self.copied.1 + size);
        }
        self.sink.put(node)
    }

    fn finish(&mut self) -> Result<()> {
        self.sink.finish()
    }
}
