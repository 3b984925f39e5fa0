//! The threads of a recording: one empties the ring buffer, one writes.
//!
//! The ring buffer holds some hundred thousand messages, so polling it is enough, and the recorded
//! programs need not wake anyone. One thread only copies messages out; another one processes them
//! from a queue, and goes on in another file when it is time ([`Rotation`]).

use crate::kernel::{Kernel, Missed};
use crate::mounts::Mounts;
use crate::selection::Selection;
use crate::translate::Translator;
use crate::watch::Shown;
use crate::wire::{Message, OpenAtEnd};
use crate::{Error, Filter, Result, Rotation, Summary};
use rustix::fs::{Mode, OFlags};
use rustix::time::{ClockId, clock_gettime};
use spindle_clock::{Clock, SystemClock};
use spindle_trace::format::Live;
use spindle_trace::latency::Latencies;
use spindle_trace::{Batch, FileId, Info};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval between two polls of the ring buffer.
const PAUSE: Duration = Duration::from_millis(20);
/// Number of bytes of messages in a chunk for the queue.
const CHUNK: usize = 1 << 20;
/// Maximum number of chunks in the queue.
const QUEUE: usize = 256;

/// Counts of the kernel part.
#[derive(Clone, Debug, Default)]
struct Counts {
    missed: Missed,
    latencies: Latencies,
}

impl Counts {
    fn of(kernel: &Kernel) -> Self {
        Self { missed: kernel.missed(), latencies: kernel.latencies() }
    }

    /// Returns what a trace with these counts and notes has at its end.
    fn info(self, notes: Vec<String>) -> Info {
        Info { lost: self.missed.lost, notes, latencies: self.latencies, ..Info::default() }
    }

    fn since(&self, before: &Self) -> Self {
        let latencies = self.latencies.since(&before.latencies);
        Self { missed: self.missed.since(before.missed), latencies }
    }
}

/// An item of the queue.
enum QueueItem {
    /// Messages, each preceded by its length; there may be none. With the counts until then.
    Messages(Vec<u8>, Counts),
    /// The open files with their runs under way, at this time of the kernel.
    UnderWay(Vec<OpenAtEnd>, u64),
}

/// A command to the first thread.
#[derive(Debug)]
struct StopFollowing;

/// A running recording, until [`Recording::finish`].
#[derive(Debug)]
pub struct Recording {
    stop: Arc<AtomicBool>,
    control: SyncSender<StopFollowing>,
    drain: JoinHandle<()>,
    write: JoinHandle<Result<Summary>>,
}

/// The kernel's half of a recorder: from [`Probes::attach`] on it collects what happens.
pub struct Probes {
    kernel: Kernel,
    selection: Selection,
}

impl Probes {
    /// Has the kernel collect what `filter` selects.
    ///
    /// # Errors
    /// [`Error::Forbidden`], [`Error::Kernel`], [`Error::Io`].
    pub fn attach(filter: &Filter) -> Result<Self> {
        let on = |path: &PathBuf| {
            let mounts = Mounts::read()?;
            let device = mounts.device_of(path)?;
            Ok::<_, Error>((mounts, device))
        };
        let mount = filter.mount.as_ref().map(on).transpose()?;
        let kernel = Kernel::load(filter, mount.as_ref().map(|(_, device)| *device))?;
        Ok(Self { kernel, selection: Selection { prefix: filter.prefix.clone(), mount } })
    }

    /// Records all that into an empty file, which errors call by its path, and into further ones if
    /// a rotation is given; `source` names the program. Who waits for a recording to begin may look
    /// for the file, if it is new. If a file cannot be written any more, nothing more is collected,
    /// and `failed` is called at once; [`Recording::finish`] returns the error.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Trace`].
    pub fn record(
        self,
        (file, output): (File, &Path),
        rotation: Option<Rotation>,
        source: &str,
        failed: impl FnOnce() + Send + 'static,
    ) -> Result<Recording> {
        let Self { kernel, selection } = self;
        let hidden = id_of(&file, output)?;
        let file = Live::new(file, output, source)?;
        let translator = Translator::new(epoch_offset(), selection, hidden, real_path);
        let writer =
            Writer { translator, file, rotation, source: source.to_owned(), done: Summary::default() };
        Recording::start(kernel, None, move |items, stop| {
            let written = writer.run(items);
            if written.is_err() {
                stop.store(true, Ordering::Relaxed);
                failed();
            }
            written
        })
    }

    /// Calls `look` with what has happened since the call before, each time that `interval` has
    /// passed and at the end, until it returns false; what happens later is not shown. There is no
    /// file.
    ///
    /// # Errors
    /// [`Error::Refused`] if the system has no threads left.
    pub fn watch(
        self,
        interval: Duration,
        mut look: impl FnMut(&mut Batch) -> bool + Send + 'static,
    ) -> Result<Recording> {
        let Self { kernel, selection } = self;
        let mut translator = Translator::new(epoch_offset(), selection, FileId::default(), real_path);
        Recording::start(kernel, Some(interval), move |items, stop| {
            let (mut shown, mut batch, mut done) = (Shown::default(), Batch::default(), Summary::default());
            let mut has_ended = false;
            for item in items {
                match item {
                    QueueItem::Messages(chunk, counts) => {
                        let known = batch.events.len();
                        translate(&mut translator, &chunk, &mut batch);
                        shown.leave_out(&mut batch.events[known..]);
                        done.lost = counts.missed.lost;
                        done.notes = counts.missed.notes().collect();
                    }
                    QueueItem::UnderWay(open, time) => {
                        shown.add(&mut translator, &open, time, &mut batch);
                        done.events += batch.events.len() as u64;
                        if !has_ended && !look(&mut batch) {
                            has_ended = true;
                            stop.store(true, Ordering::Relaxed);
                        }
                        batch.clear();
                    }
                }
            }
            Ok(done)
        })
    }
}

impl Recording {
    /// Starts the thread that drains the kernel's messages, and one for `work` on the queue, which
    /// is also given what stops both.
    fn start(
        kernel: Kernel,
        looks: Option<Duration>,
        work: impl FnOnce(&Receiver<QueueItem>, &AtomicBool) -> Result<Summary> + Send + 'static,
    ) -> Result<Self> {
        let (queue, items) = sync_channel(QUEUE);
        let (control, commands) = sync_channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, stop_all) = (Arc::clone(&stop), Arc::clone(&stop));
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let problem = |error| Error::Refused(format!("a new thread: {error}"));
        let drain = thread("record-drain").spawn(move || drain(kernel, looks, &stopped, &commands, &queue));
        let drain = drain.map_err(problem)?;
        let write = thread("record-write").spawn(move || work(&items, &stop_all)).map_err(problem)?;
        Ok(Self { stop, control, drain, write })
    }

    /// Stops following processes that this process starts from now on, in a recording with
    /// [`Filter::children`]. Processes already followed, and their descendants, still are.
    ///
    /// # Errors
    /// [`Error::Kernel`] if the recording has failed.
    pub fn stop_following(&mut self) -> Result<()> {
        self.control.send(StopFollowing).map_err(|_| Error::Kernel("the recording has ended early".into()))
    }

    /// Ends the recording and completes the file.
    ///
    /// # Errors
    /// [`Error::Trace`] if the file could not be written.
    pub fn finish(self) -> Result<Summary> {
        self.stop.store(true, Ordering::Relaxed);
        let broken = |_| Error::Kernel("a thread of the recorder has panicked".into());
        self.drain.join().map_err(broken)?;
        self.write.join().map_err(broken)?
    }
}

/// Returns the device and inode of an open file, which errors call by its path.
fn id_of(file: &File, path: &Path) -> Result<FileId> {
    let found = file.metadata().map_err(|source| Error::Io { path: path.to_owned(), source })?;
    Ok(FileId { device: found.dev(), inode: found.ino() })
}

/// Returns the path of an existing directory without symbolic links. The kernel knows it in one
/// step; a walk (`canonicalize`) would take as many as there are directories above.
fn real_path(directory: &str) -> Option<String> {
    let opened = rustix::fs::open(directory, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).ok()?;
    let link = format!("/proc/self/fd/{}", opened.as_raw_fd());
    std::fs::read_link(link).ok()?.into_os_string().into_string().ok()
}

/// Returns the nanoseconds to add to the kernel's time since boot to get the time since 1970.
fn epoch_offset() -> i64 {
    let now = SystemClock.now();
    now.secs * 1_000_000_000 + i64::from(now.nanos) - i64::try_from(since_boot()).unwrap_or(i64::MAX)
}

/// Returns the kernel's time since boot, which dates the messages. It is not one of our `Clock`s.
fn since_boot() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}

/// Moves messages from the kernel to the queue, and the runs under way at the end, and before that
/// as often as `looks` says.
fn drain(
    mut kernel: Kernel,
    looks: Option<Duration>,
    stopped: &AtomicBool,
    commands: &Receiver<StopFollowing>,
    queue: &SyncSender<QueueItem>,
) {
    let mut chunk = Vec::with_capacity(CHUNK + 8192);
    let mut looked = SystemClock.monotonic();
    loop {
        let is_over = stopped.load(Ordering::Relaxed);
        if let Ok(StopFollowing) = commands.try_recv() {
            // It can only fail if it is already done.
            let _ = kernel.stop_following();
        }
        if is_over {
            kernel.detach();
        }
        let counts = Counts::of(&kernel);
        kernel.messages(|message| {
            let length = u32::try_from(message.len()).unwrap_or(0);
            chunk.extend_from_slice(&length.to_le_bytes());
            chunk.extend_from_slice(message);
            if chunk.len() >= CHUNK {
                let full = std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK + 8192));
                // Without a writer the messages are useless; it has reported its error.
                let _ = queue.send(QueueItem::Messages(full, counts.clone()));
            }
        });
        // Even without messages, so that a file does not grow too old.
        let _ = queue.send(QueueItem::Messages(std::mem::take(&mut chunk), counts));
        let now = SystemClock.monotonic();
        let is_due = looks.is_some_and(|looks| now.saturating_sub(looked) >= looks);
        if is_over || is_due {
            looked = now;
            let open = kernel.open_files().iter().map(OpenAtEnd::parse).collect();
            let _ = queue.send(QueueItem::UnderWay(open, since_boot()));
        }
        if is_over {
            return;
        }
        SystemClock.sleep(PAUSE);
    }
}

/// Adds the events of messages, each preceded by its length.
fn translate(translator: &mut Translator, chunk: &[u8], batch: &mut Batch) {
    let mut rest = chunk;
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let (message, behind) = behind.split_at(length.min(behind.len()));
        rest = behind;
        if let Some(message) = Message::parse(message) {
            translator.take(&message, batch);
        }
    }
}

/// Writes the events of messages, into one file or several.
struct Writer {
    translator: Translator,
    file: Live,
    rotation: Option<Rotation>,
    /// The program that makes the traces.
    source: String,
    /// What the files before have.
    done: Summary,
}

impl Writer {
    /// Writes all items of the queue, and completes the last file.
    fn run(mut self, items: &Receiver<QueueItem>) -> Result<Summary> {
        let mut batch = Batch::default();
        // The counts before the file that is written now.
        let mut before = Counts::default();
        let mut whole = Counts::default();
        while let Some(item) = self.file.receive(items)? {
            batch.clear();
            match item {
                QueueItem::Messages(chunk, counts) => {
                    whole = counts;
                    translate(&mut self.translator, &chunk, &mut batch);
                    self.file.write(&batch)?;
                    if self.is_full() {
                        self = self.go_on(whole.since(&before))?;
                        before = whole.clone();
                    }
                }
                QueueItem::UnderWay(open, time) => {
                    for open in open {
                        self.translator.left(&open, time, &mut batch);
                    }
                    self.file.write(&batch)?;
                }
            }
        }
        let open = self.translator.open();
        let lasting = (open > 0).then(|| format!("{open} files were still open at the end"));
        let notes = |missed: Missed| lasting.clone().into_iter().chain(missed.notes()).collect::<Vec<_>>();
        let last = whole.since(&before);
        let last_notes = notes(last.missed);
        let events = self.file.finish(last.info(last_notes))?;
        let (events, lost) = (self.done.events + events, whole.missed.lost);
        Ok(Summary { events, lost, notes: notes(whole.missed) })
    }

    fn is_full(&self) -> bool {
        self.rotation.as_ref().is_some_and(|rotation| {
            rotation.bytes.is_some_and(|bytes| self.file.bytes() >= bytes)
                || rotation.age.is_some_and(|age| self.file.age() >= age)
        })
    }

    /// Completes the file, of which these are the counts, and goes on in the next one, which begins
    /// with the files that are open.
    fn go_on(mut self, counts: Counts) -> Result<Self> {
        let Some(rotation) = &mut self.rotation else { return Ok(self) };
        let notes = counts.missed.notes().collect();
        self.done.events += self.file.finish(counts.info(notes))?;
        let (next, path) = (rotation.next)()?;
        self.translator.leave_out(id_of(&next, &path)?);
        self.file = Live::new(next, &path, &self.source)?;
        let mut batch = Batch::default();
        self.translator.reopen(&mut batch);
        self.file.write(&batch)?;
        Ok(self)
    }
}
