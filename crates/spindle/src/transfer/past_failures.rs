//! A sink that goes on where one file cannot be made in another sink, as cp(1) and tar(1) do.

use super::{Body, Content, Extents, Failed, Node, Sink, split};
use crate::error::{Error, Result};
use crate::text::quoted;
use rustix::io::Errno;
use std::cell::Cell;
use std::collections::HashSet;

/// Returns the place that a path in a transfer is.
pub type Place<'a> = &'a dyn Fn(&[u8]) -> String;

/// A sink that leaves out what another sink refuses, and what is below it.
pub struct PastFailures<'a, S> {
    inner: S,
    failed: Failed<'a>,
    /// Returns the place in the target for messages that a path in the transfer is.
    place: Option<Place<'a>>,
    /// Paths of what was left out.
    left_out: HashSet<Vec<u8>>,
}

impl<'a, S: Sink> PastFailures<'a, S> {
    /// Returns a sink that passes nodes on to `inner`, and calls `failed` with each that is left
    /// out. A full or failing target still ends the transfer.
    pub fn new(inner: S, failed: Failed<'a>) -> Self {
        Self { inner, failed, place: None, left_out: HashSet::new() }
    }

    /// Has a failure that ends the transfer name its place in the target, which `place` returns for
    /// a path: else it would look like one of the source.
    #[must_use]
    pub fn naming(mut self, place: Place<'a>) -> Self {
        self.place = Some(place);
        self
    }

    /// Returns true if a directory above `path` was left out.
    fn is_below_left_out(&self, path: &[u8]) -> bool {
        let mut dir = path;
        while !self.left_out.is_empty() && !dir.is_empty() {
            dir = split(dir).0;
            if self.left_out.contains(dir) {
                return true;
            }
        }
        false
    }
}

/// Returns true if the failure of one file will be that of all others.
fn ends_transfer(error: &Error) -> bool {
    let all = [
        Errno::NOSPC,
        Errno::DQUOT,
        Errno::ROFS,
        Errno::IO,
        Errno::UCLEAN,
        Errno::NODEV,
        Errno::PIPE,
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOMEM,
    ];
    error.errno().is_some_and(|errno| all.iter().any(|end| end.raw_os_error() == errno))
}

impl<S: Sink> Sink for PastFailures<'_, S> {
    fn put(&mut self, node: Node<'_>) -> Result<()> {
        let Node { path, body, meta } = node;
        if self.is_below_left_out(path) {
            return Ok(());
        }
        let unreadable = Cell::new(false);
        let done = match body {
            Body::HardLink(first) if self.left_out.contains(first) => {
                Err(Error::new(format!("another name of {}, which was left out", quoted(first))))
            }
            Body::File { size, content } => {
                let mut content = Watched { content, unreadable: &unreadable };
                self.inner.put(Node { path, body: Body::File { size, content: &mut content }, meta })
            }
            body => self.inner.put(Node { path, body, meta }),
        };
        match done {
            Err(error) if unreadable.get() || !ends_transfer(&error) => {
                (self.failed)(path, error)?;
                self.left_out.insert(path.to_vec());
                Ok(())
            }
            done => done.map_err(|error| match self.place {
                Some(place) if !unreadable.get() => error.within(place(path)),
                _ => error,
            }),
        }
    }

    fn wants(&self, path: &[u8]) -> bool {
        !self.is_below_left_out(path) && self.inner.wants(path)
    }

    fn finish(&mut self) -> Result<()> {
        self.inner.finish()
    }
}

/// The content of a file, which notes that it cannot be read: then the target has not failed.
struct Watched<'a> {
    content: &'a mut dyn Content,
    unreadable: &'a Cell<bool>,
}

impl Content for Watched<'_> {
    fn next(&mut self, buf: &mut [u8]) -> Result<Option<(u64, usize)>> {
        self.content.next(buf).inspect_err(|_| self.unreadable.set(true))
    }

    fn extents(&mut self) -> Result<Option<Extents>> {
        self.content.extents().inspect_err(|_| self.unreadable.set(true))
    }

    fn attributes_behind(&mut self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.content.attributes_behind().inspect_err(|_| self.unreadable.set(true))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LocalSink, Meta, TarWriter};
    use super::*;
    use spindle_clock::Timestamp;
    use spindle_vfs::Rdev;
    use std::cell::RefCell;
    use std::os::unix::fs::MetadataExt;

    /// Content whose first piece cannot be read.
    struct Unreadable;

    impl Content for Unreadable {
        fn next(&mut self, _: &mut [u8]) -> Result<Option<(u64, usize)>> {
            Err(Errno::IO.into())
        }
    }

    /// An empty file.
    struct Empty;

    impl Content for Empty {
        fn next(&mut self, _: &mut [u8]) -> Result<Option<(u64, usize)>> {
            Ok(None)
        }
    }

    fn meta(perm: u32) -> Meta {
        Meta { perm, mtime: Timestamp::new(1000, 0), ..Meta::default() }
    }

    const HUGE: Body<'_> = Body::Device { block: false, rdev: Rdev { major: 1 << 22, minor: 0 } };

    fn put<'n>(sink: &mut dyn Sink, path: &'n [u8], body: Body<'n>, meta: Meta) {
        sink.put(Node { path, body, meta }).unwrap();
    }

    /// Promise: what this machine cannot have is left out with what is below it and its other
    /// names, each with the reason; all else is made, and every directory gets its permissions and
    /// times. A file whose owner cannot be set stays, and is no set-id program.
    #[test]
    fn one_file_does_not_end_a_transfer() {
        let dir = tempfile::tempdir().unwrap();
        let said = RefCell::new(Vec::new());
        let failed = |path: &[u8], error: Error| {
            said.borrow_mut()
                .push(format!("{}: {error}", String::from_utf8_lossy(&path[..path.len().min(9)])));
            Ok(())
        };
        let mut local = LocalSink::new(dir.path(), true, 0).unwrap().past_failures(&failed);
        let mut sink = PastFailures::new(&mut local, &failed);
        let long = [b"d/", &[b'x'; 300][..]].concat();
        let below = [&long[..], b"/f"].concat();
        put(&mut sink, b"d", Body::Directory, meta(0o750));
        put(&mut sink, b"d/huge", HUGE, meta(0o600));
        put(&mut sink, b"d/same", Body::HardLink(b"d/huge"), meta(0o600));
        put(&mut sink, b"d/io", Body::File { size: 5, content: &mut Unreadable }, meta(0o600));
        put(
            &mut sink,
            b"d/owned",
            Body::File { size: 0, content: &mut Empty },
            Meta { uid: u32::MAX, ..meta(0o4755) },
        );
        put(&mut sink, &long, Body::Directory, meta(0o755));
        assert!(!sink.wants(&below));
        put(&mut sink, &below, Body::Fifo, meta(0o600));
        put(&mut sink, b"d/last", Body::Fifo, meta(0o640));
        sink.finish().unwrap();
        let said = said.into_inner();
        let expected = [
            "d/huge: cannot make a device node: invalid argument",
            "d/same: another name of d/huge, which was left out",
            "d/io: input/output error",
            "d/owned: owner 4294967295, group 0: invalid argument",
            "d/xxxxxxx: file name too long",
        ];
        assert_eq!(said, expected);
        let mode = |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().mode() & 0o7777;
        assert_eq!((mode("d"), mode("d/owned"), mode("d/last")), (0o750, 0o755, 0o640));
        assert_eq!(std::fs::metadata(dir.path().join("d")).unwrap().mtime(), 1000);
        assert_eq!(std::fs::read_dir(dir.path().join("d")).unwrap().count(), 2);
    }

    /// Promise: a full, failing or read-only target ends the transfer, and so does the caller.
    #[test]
    fn a_failing_target_ends_a_transfer() {
        struct Failing(Errno);
        impl Sink for Failing {
            fn put(&mut self, _: Node<'_>) -> Result<()> {
                Err(self.0.into())
            }
            fn finish(&mut self) -> Result<()> {
                Ok(())
            }
        }
        let node = || Node { path: b"a", body: Body::Fifo, meta: Meta::default() };
        let go_on = |_: &[u8], _: Error| Ok(());
        for errno in [Errno::NOSPC, Errno::IO, Errno::ROFS, Errno::DQUOT] {
            let ended = PastFailures::new(Failing(errno), &go_on).put(node()).unwrap_err();
            assert_eq!(ended.errno(), Some(errno.raw_os_error()));
        }
        PastFailures::new(Failing(Errno::PERM), &go_on).put(node()).unwrap();
        let stop = |_: &[u8], error: Error| Err(error);
        assert!(PastFailures::new(Failing(Errno::PERM), &stop).put(node()).is_err());
    }

    /// Promise: a device number that a tar stream cannot contain costs that device, not the stream.
    #[test]
    fn tar_leaves_out_a_device() {
        let said = Cell::new(0);
        let failed = |path: &[u8], error: Error| {
            assert!(path == b"huge" && error.to_string().contains("4194304:0 is too large"), "{error}");
            said.set(said.get() + 1);
            Ok(())
        };
        let mut bytes = Vec::new();
        let mut sink = TarWriter::new(&mut bytes, "tar").past_failures(&failed);
        sink.put(Node { path: b"huge", body: HUGE, meta: meta(0o600) }).unwrap();
        sink.put(Node { path: b"pipe", body: Body::Fifo, meta: meta(0o600) }).unwrap();
        sink.finish().unwrap();
        let entries = ::tar::Archive::new(&bytes[..]).entries().unwrap().count();
        assert_eq!((said.get(), entries), (1, 1));
        let mut strict = TarWriter::new(Vec::new(), "tar");
        assert!(strict.put(Node { path: b"huge", body: HUGE, meta: meta(0o600) }).is_err());
    }
}
