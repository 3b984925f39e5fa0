//! A record of a tree, from which it is passed on again without another look at its files.

use super::unread::{Thing, Unread};
use super::{Meta, Node, Sink, Step};
use crate::error::Result;

/// Memory that a record may take, in bytes: that of about a million files. A larger tree is walked
/// again instead.
const MOST_BYTES: usize = 256 << 20;

/// Passes a tree to a sink; can be called again.
pub type Walk<'a> = &'a dyn Fn(&mut dyn Sink) -> Result<()>;

/// A tree that is to be imported.
#[derive(Clone, Copy)]
pub struct Original<'a> {
    /// Passes it to a sink.
    pub walk: Walk<'a>,
    /// Is called before each node that is passed on from memory.
    pub step: Step<'a>,
    /// Returns what a path of the transfer is called in messages.
    pub place: &'a dyn Fn(&[u8]) -> String,
}

/// What is known of a tree after one walk: its counts, and all its nodes if memory suffices.
pub(crate) struct Record<'a> {
    original: Original<'a>,
    /// Largest size in bytes of a file that counts.
    file_size_max: u64,
    /// Bytes of data in files.
    pub bytes: u64,
    /// Files of all kinds, without further names.
    pub files: u64,
    nodes: Option<Vec<Recorded>>,
    /// Memory that is left for more, in bytes.
    left: usize,
}

struct Recorded {
    path: Box<[u8]>,
    thing: Thing,
    meta: Meta,
}

impl<'a> Record<'a> {
    /// Walks a tree. Files larger than `file_size_max` do not count.
    ///
    /// # Errors
    /// Those of the walk.
    pub(crate) fn of(original: Original<'a>, file_size_max: u64) -> Result<Self> {
        Self::within(MOST_BYTES, original, file_size_max)
    }

    fn within(left: usize, original: Original<'a>, file_size_max: u64) -> Result<Self> {
        let mut record = Self { original, file_size_max, bytes: 0, files: 0, nodes: Some(Vec::new()), left };
        (original.walk)(&mut record)?;
        Ok(record)
    }

    /// Passes the tree on to a sink that does not read data.
    ///
    /// # Errors
    /// Those of the sink and, if the tree has to be walked again, of the walk.
    pub(crate) fn walk(&self, sink: &mut dyn Sink) -> Result<()> {
        let Some(nodes) = &self.nodes else { return (self.original.walk)(sink) };
        let mut unread = Unread::default();
        for Recorded { path, thing, meta } in nodes {
            (self.original.step)(0)?;
            let node = Node { path, body: thing.body(&mut unread), meta: meta.clone() };
            sink.put(node).map_err(|error| error.within((self.original.place)(path)))?;
        }
        Ok(())
    }

    fn remember(&mut self, path: &[u8], thing: Thing, meta: Meta) {
        let xattrs: usize = meta.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
        let bytes = size_of::<Recorded>() + path.len() + thing.bytes() + xattrs;
        match self.left.checked_sub(bytes) {
            Some(left) => self.left = left,
            None => self.nodes = None,
        }
        if let Some(nodes) = &mut self.nodes {
            nodes.push(Recorded { path: path.into(), thing, meta });
        }
    }
}

impl Sink for Record<'_> {
    fn put(&mut self, node: Node<'_>) -> Result<()> {
        let Node { path, body, meta } = node;
        let thing = Thing::of(body)?;
        match &thing {
            Thing::HardLink(_) => {}
            Thing::File(size, runs) if *size <= self.file_size_max => {
                let data = runs.as_ref().map_or(*size, |runs| runs.iter().map(|&(_, len)| len).sum());
                self.bytes = self.bytes.saturating_add(data);
                self.files += 1;
            }
            _ => self.files += 1,
        }
        self.remember(path, thing, meta);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::transfer::Body;
    use std::cell::Cell;

    /// A sink that notes what it gets, as text.
    #[derive(Default)]
    struct Notes(Vec<String>);

    impl Sink for Notes {
        fn put(&mut self, node: Node<'_>) -> Result<()> {
            let body = match node.body {
                Body::File { size, content } => format!("{size} {:?}", content.extents()?),
                Body::Directory => "directory".into(),
                Body::Symlink(target) => format!("to {target:?}"),
                Body::Device { block, rdev } => format!("{block} {rdev:?}"),
                Body::Fifo => "fifo".into(),
                Body::Socket => "socket".into(),
                Body::HardLink(first) => format!("same as {first:?}"),
            };
            self.0.push(format!("{:?} {body} {:?}", node.path, node.meta));
            Ok(())
        }

        fn finish(&mut self) -> Result<()> {
            Ok(())
        }
    }

    /// A sink that refuses one file.
    struct Refusing;

    impl Sink for Refusing {
        fn put(&mut self, node: Node<'_>) -> Result<()> {
            if node.path == b"whole" { Err(Error::new("is refused")) } else { Ok(()) }
        }

        fn finish(&mut self) -> Result<()> {
            Ok(())
        }
    }

    /// Passes a directory with something of each kind that keeps more than its type.
    fn pass(sink: &mut dyn Sink) -> Result<()> {
        let xattrs = vec![(b"user.a".to_vec(), b"b".to_vec())];
        let things = [
            (&b""[..], Thing::Directory),
            (b"sparse", Thing::File(1 << 20, Some(vec![(0, 4096), (65_536, 8192)]))),
            (b"whole", Thing::File(5000, None)),
            (b"link", Thing::Symlink(b"whole"[..].into())),
            (b"again", Thing::HardLink(b"whole"[..].into())),
        ];
        for (perm, (path, thing)) in (0..).zip(&things) {
            let meta = Meta { perm, xattrs: xattrs.clone(), ..Meta::default() };
            sink.put(Node { path, body: thing.body(&mut Unread::default()), meta })?;
        }
        Ok(())
    }

    /// Promise: a record passes on what the walk has passed, with all metadata and holes, and
    /// counts data and files; it walks again only if it may not take the memory.
    #[test]
    fn passes_on_what_it_has_seen() {
        let mut expected = Notes::default();
        pass(&mut expected).unwrap();
        for (memory, walks_in_all) in [(MOST_BYTES, 1), (size_of::<Recorded>() * 3, 3)] {
            let walks = Cell::new(0);
            let walk = |sink: &mut dyn Sink| {
                walks.set(walks.get() + 1);
                pass(sink)
            };
            let place = |_: &[u8]| String::new();
            let original = Original { walk: &walk, step: &|_| Ok(()), place: &place };
            let record = Record::within(memory, original, 1 << 30).unwrap();
            assert_eq!((record.bytes, record.files), (4096 + 8192 + 5000, 4));
            for _ in 0..2 {
                let mut found = Notes::default();
                record.walk(&mut found).unwrap();
                assert_eq!(found.0, expected.0);
            }
            assert_eq!(walks.get(), walks_in_all);
        }
    }

    /// Promise: a signal ends it, and the failure of a sink names the place of the file.
    #[test]
    fn ends_with_a_signal_and_names_failures() {
        let place = |path: &[u8]| format!("src/{}", String::from_utf8_lossy(path));
        let interrupted = Cell::new(false);
        let step = |_| if interrupted.get() { Err(Error::interrupted()) } else { Ok(()) };
        let original = Original { walk: &pass, step: &step, place: &place };
        let record = Record::of(original, 1 << 30).unwrap();
        assert_eq!(record.walk(&mut Refusing).unwrap_err().to_string(), "src/whole: is refused");
        interrupted.set(true);
        let mut found = Notes::default();
        assert!(record.walk(&mut found).is_err() && found.0.is_empty());
    }
}
