//! A directory that a thread of its own reads ahead of the sink.
//!
//! The thread walks the directory and sends what it finds in batches: nodes, the data of a file
//! behind its node, and failures. The thread that called puts all that into the sink and calls what
//! is to be called, in the order of a walk without a thread. So two processors work, and a slow
//! disk reads while the target is written.
//!
//! Invariant: what was read and is not yet in the sink is a few megabytes at most.

use super::{LocalSource, Lost, Said};
use crate::error::{Context, Error, Result};
use crate::transfer::{Body, CHUNK, Content, Extents, Meta, Node, Sink, Source};
use spindle_vfs::Rdev;
use std::cell::RefCell;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Batches that wait for the sink.
const BATCHES: usize = 4;
/// Messages of a batch, at most.
const BATCH_LEN: usize = 256;
/// Bytes of data from which on a batch is sent.
const BATCH_BYTES: usize = 1 << 18;

/// A source that is read ahead.
pub struct Ahead<'a>(LocalSource<'a>);

impl<'a> LocalSource<'a> {
    /// Returns a source that another thread reads ahead of the sink. What the sink does not want is
    /// read in vain, and fails if it cannot be read.
    #[must_use]
    pub fn ahead(self) -> Ahead<'a> {
        Ahead(self)
    }
}

/// What the thread sends.
enum Message {
    Node(Vec<u8>, Owned, Meta),
    /// Data of the file whose node was sent last, and its offset.
    Data(u64, Vec<u8>),
    /// The end of the data of a file.
    DataEnd(Result<()>),
    /// What cannot be read.
    Lost(String, Error),
    /// A file that has changed.
    Changed(String, Error),
    /// What is left out.
    Said(String),
    /// The end of the walk.
    End(Result<()>),
}

/// Type and content of a node, as [`Body`].
enum Owned {
    File(u64, Result<Option<Extents>>),
    Directory,
    Symlink(Vec<u8>),
    Device(bool, Rdev),
    Fifo,
    Socket,
    HardLink(Vec<u8>),
}

type Batch = Vec<Message>;

/// Gathers messages, and sends them.
struct Outbox {
    batch: RefCell<(Batch, usize)>,
    queue: SyncSender<Batch>,
}

impl Outbox {
    /// Sends a message with its batch.
    ///
    /// # Errors
    /// If nobody receives any more: then nobody sees the error, either.
    fn send(&self, message: Message) -> Result<()> {
        let (batch, bytes) = &mut *self.batch.borrow_mut();
        if let Message::Data(_, data) = &message {
            *bytes += data.len();
        }
        let is_end = matches!(message, Message::End(_));
        batch.push(message);
        if is_end || *bytes >= BATCH_BYTES || batch.len() >= BATCH_LEN {
            *bytes = 0;
            let full = std::mem::take(batch);
            return self.queue.send(full).map_err(|_| Error::new("the transfer has ended"));
        }
        Ok(())
    }
}

impl Sink for &Outbox {
    fn put(&mut self, node: Node<'_>) -> Result<()> {
        let mut read = None;
        let body = match node.body {
            Body::File { size, content } => {
                let extents = content.extents();
                read = Some((size, content));
                Owned::File(size, extents)
            }
            Body::Directory => Owned::Directory,
            Body::Symlink(target) => Owned::Symlink(target.to_vec()),
            Body::Device { block, rdev } => Owned::Device(block, rdev),
            Body::Fifo => Owned::Fifo,
            Body::Socket => Owned::Socket,
            Body::HardLink(first) => Owned::HardLink(first.to_vec()),
        };
        self.send(Message::Node(node.path.to_vec(), body, node.meta))?;
        let Some((size, content)) = read else { return Ok(()) };
        let most = usize::try_from(size).unwrap_or(CHUNK).clamp(1, CHUNK);
        let end = loop {
            let mut data = vec![0; most];
            match content.next(&mut data) {
                Ok(Some((at, len))) => {
                    data.truncate(len);
                    self.send(Message::Data(at, data))?;
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.send(Message::DataEnd(end))
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Receives messages one by one.
struct Inbox {
    batch: std::vec::IntoIter<Message>,
    queue: Receiver<Batch>,
}

impl Inbox {
    /// Returns the next message; none if the thread has panicked.
    fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = self.batch.next() {
                return Some(message);
            }
            self.batch = self.queue.recv().ok()?.into_iter();
        }
    }
}

/// The content of a file, from the messages behind its node.
struct Arriving<'a> {
    inbox: &'a mut Inbox,
    extents: Option<Result<Option<Extents>>>,
    /// The data that was received last, its offset, and how much of it was read.
    data: (u64, Vec<u8>, usize),
    has_ended: bool,
}

impl Arriving<'_> {
    /// Receives the next data. Returns false at the end.
    fn receive(&mut self) -> Result<bool> {
        if self.has_ended {
            return Ok(false);
        }
        match self.inbox.next() {
            Some(Message::Data(at, data)) => {
                self.data = (at, data, 0);
                Ok(true)
            }
            Some(Message::DataEnd(end)) => {
                self.has_ended = true;
                end.map(|()| false)
            }
            _ => {
                self.has_ended = true;
                Err(Error::new("the thread that reads it has ended"))
            }
        }
    }

    /// Passes over what the sink has not read.
    fn pass(&mut self) {
        while matches!(self.receive(), Ok(true)) {}
    }
}

impl Content for Arriving<'_> {
    fn next(&mut self, buf: &mut [u8]) -> Result<Option<(u64, usize)>> {
        if self.data.2 == self.data.1.len() && !self.receive()? {
            return Ok(None);
        }
        let (at, data, read) = &mut self.data;
        let rest = &data[*read..];
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        let from = *at + *read as u64;
        *read += len;
        Ok(Some((from, len)))
    }

    fn extents(&mut self) -> Result<Option<Extents>> {
        self.extents.take().unwrap_or(Ok(None))
    }
}

impl Source for Ahead<'_> {
    fn walk(self, sink: &mut dyn Sink) -> Result<()> {
        let LocalSource { path, prefix, follow, lost, changed, copy, image } = self.0;
        let (has_lost, has_changed) = (lost.is_some(), changed.is_some());
        let id = image.map(|(id, _)| id);
        // For the messages of what the sink refuses.
        let place = LocalSource::new(&path).below(&prefix);
        let (queue, receive) = sync_channel(BATCHES);
        let (path, prefix) = (path.clone(), prefix.clone());
        thread::scope(|scope| {
            // It is dropped at the end of this closure, which ends the thread.
            let mut inbox = Inbox { batch: Vec::new().into_iter(), queue: receive };
            let walk = move || {
                let outbox = Outbox { batch: RefCell::default(), queue };
                let lost = |place: &str, error| outbox.send(Message::Lost(place.to_owned(), error));
                let changed = |place: &str, error| outbox.send(Message::Changed(place.to_owned(), error));
                let said = |place: &str| {
                    // Nobody receives it: the next message ends the walk.
                    let _ = outbox.send(Message::Said(place.to_owned()));
                };
                let source = LocalSource {
                    path,
                    prefix,
                    follow,
                    lost: has_lost.then_some(&lost),
                    changed: has_changed.then_some(&changed),
                    copy,
                    image: id.map(|id| (id, &said as Said<'_>)),
                };
                let walked = source.walk(&mut &outbox);
                let _ = outbox.send(Message::End(walked));
            };
            thread::Builder::new().name("reader".into()).spawn_scoped(scope, walk).context("a new thread")?;
            while let Some(message) = inbox.next() {
                let call = |called: Option<Lost<'_>>, place: &str, error| {
                    called.map_or(Ok(()), |called| called(place, error))
                };
                match message {
                    Message::Node(path, body, meta) => {
                        let is_wanted = sink.wants(&path);
                        put(&mut inbox, sink, (&path, body, meta), is_wanted).context(place.place(&path))?;
                    }
                    Message::Lost(place, error) => call(lost, &place, error)?,
                    Message::Changed(place, error) => call(changed, &place, error)?,
                    Message::Said(place) => {
                        if let Some((_, said)) = image {
                            said(&place);
                        }
                    }
                    Message::End(walked) => return walked,
                    Message::Data(..) | Message::DataEnd(_) => {}
                }
            }
            Err(Error::new("the thread that reads has ended"))
        })
    }
}

/// Puts a node that was received into the sink, if that wants it, and receives its data.
fn put(
    inbox: &mut Inbox,
    sink: &mut dyn Sink,
    (path, body, meta): (&[u8], Owned, Meta),
    is_wanted: bool,
) -> Result<()> {
    let put = |body| if is_wanted { sink.put(Node { path, body, meta }) } else { Ok(()) };
    match body {
        Owned::File(size, extents) => {
            let data = (0, Vec::new(), 0);
            let mut content = Arriving { inbox, extents: Some(extents), data, has_ended: false };
            let done = put(Body::File { size, content: &mut content });
            content.pass();
            done
        }
        Owned::Directory => put(Body::Directory),
        Owned::Symlink(target) => put(Body::Symlink(&target)),
        Owned::Device(block, rdev) => put(Body::Device { block, rdev }),
        Owned::Fifo => put(Body::Fifo),
        Owned::Socket => put(Body::Socket),
        Owned::HardLink(first) => put(Body::HardLink(&first)),
    }
}
