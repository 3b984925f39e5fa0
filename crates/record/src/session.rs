//! The threads of a recording: one empties the ring buffer, one writes.
//!
//! The ring buffer holds some hundred thousand messages, so polling it is enough, and the recorded
//! programs need not wake anyone. One thread only copies messages out; another one processes them
//! from a queue.

use crate::kernel::{Kernel, Missed};
use crate::mounts::Mounts;
use crate::selection::Selection;
use crate::translate::Translator;
use crate::wire::{Message, OpenAtEnd};
use crate::{Error, Filter, Result, Summary};
use rustix::fs::{Mode, OFlags};
use rustix::time::{ClockId, clock_gettime};
use spindle_clock::{Clock, SystemClock};
use spindle_trace::format::Live;
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

/// An item of the queue: messages, each preceded by its length, or the end.
enum QueueItem {
    Messages(Vec<u8>),
    End { left: Vec<OpenAtEnd>, time: u64 },
}

/// A running recording, until [`Recording::finish`].
#[derive(Debug)]
pub struct Recording {
    stop: Arc<AtomicBool>,
    control: SyncSender<bool>,
    drain: JoinHandle<Missed>,
    write: JoinHandle<Result<Written>>,
}

#[derive(Debug)]
struct Written {
    file: Live,
    open: usize,
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

    /// Records all that into an empty file, which errors call by its path; `source` names the
    /// program. Who waits for a recording to begin may look for the file, if it is new. If the file
    /// cannot be written any more, nothing more is collected, and `failed` is called at once;
    /// [`Recording::finish`] returns the error.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Trace`].
    pub fn record(
        self,
        (file, output): (File, &Path),
        source: &str,
        failed: impl FnOnce() + Send + 'static,
    ) -> Result<Recording> {
        let Self { kernel, selection } = self;
        let hidden = file
            .metadata()
            .map_err(|source| Error::Io { path: output.to_owned(), source })
            .map(|found| FileId { device: found.dev(), inode: found.ino() })?;
        let file = Live::new(file, output, source)?;
        let translator = Translator::new(epoch_offset(), selection, hidden, real_path);
        let (queue, items) = sync_channel(QUEUE);
        let (control, commands) = sync_channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let problem = |source| Error::Io { path: output.to_owned(), source };
        let drain = thread("record-drain").spawn(move || drain(kernel, &stopped, &commands, &queue));
        let drain = drain.map_err(problem)?;
        let stop_all = Arc::clone(&stop);
        let write = thread("record-write").spawn(move || {
            let written = write(translator, file, &items);
            if written.is_err() {
                stop_all.store(true, Ordering::Relaxed);
                failed();
            }
            written
        });
        let write = write.map_err(problem)?;
        Ok(Recording { stop, control, drain, write })
    }
}

impl Recording {
    /// Stops following processes that this process starts from now on, in a recording with
    /// [`Filter::children`]. Processes already followed, and their descendants, still are.
    ///
    /// # Errors
    /// [`Error::Kernel`] if the recording has failed.
    pub fn stop_following(&mut self) -> Result<()> {
        self.control.send(false).map_err(|_| Error::Kernel("the recording has ended early".into()))
    }

    /// Ends the recording and completes the file.
    ///
    /// # Errors
    /// [`Error::Trace`] if the file could not be written.
    pub fn finish(self) -> Result<Summary> {
        self.stop.store(true, Ordering::Relaxed);
        let broken = |_| Error::Kernel("a thread of the recorder has panicked".into());
        let missed = self.drain.join().map_err(broken)?;
        let Written { file, open } = self.write.join().map_err(broken)??;
        let mut notes = Vec::new();
        if open > 0 {
            notes.push(format!("{open} files were still open at the end"));
        }
        for (requests, what) in [(missed.uring, "io_uring"), (missed.aio, "io_submit (libaio)")] {
            if requests > 0 {
                notes.push(Info::gap(requests, what));
            }
        }
        if missed.foreign > 0 {
            notes.push(format!("{} calls of 32-bit programs are not recorded", missed.foreign));
        }
        let events = file.finish(missed.lost, notes.clone())?;
        Ok(Summary { events, lost: missed.lost, notes })
    }
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

fn drain(
    mut kernel: Kernel,
    stopped: &AtomicBool,
    commands: &Receiver<bool>,
    queue: &SyncSender<QueueItem>,
) -> Missed {
    let mut chunk = Vec::with_capacity(CHUNK + 8192);
    loop {
        let is_over = stopped.load(Ordering::Relaxed);
        if let Ok(follow) = commands.try_recv() {
            // It can only fail if it is already done.
            let _ = kernel.follow(follow);
        }
        if is_over {
            kernel.detach();
        }
        kernel.messages(|message| {
            let length = u32::try_from(message.len()).unwrap_or(0);
            chunk.extend_from_slice(&length.to_le_bytes());
            chunk.extend_from_slice(message);
            if chunk.len() >= CHUNK {
                let full = std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK + 8192));
                // Without a writer the messages are useless; it has reported its error.
                let _ = queue.send(QueueItem::Messages(full));
            }
        });
        if !chunk.is_empty() {
            let _ = queue.send(QueueItem::Messages(std::mem::take(&mut chunk)));
        }
        if is_over {
            let left = kernel.open_files().iter().map(OpenAtEnd::parse).collect();
            let _ = queue.send(QueueItem::End { left, time: since_boot() });
            return kernel.missed();
        }
        SystemClock.sleep(PAUSE);
    }
}

fn write(mut translator: Translator, mut file: Live, items: &Receiver<QueueItem>) -> Result<Written> {
    let mut batch = Batch::default();
    while let Some(item) = file.receive(items)? {
        batch.clear();
        match item {
            QueueItem::Messages(chunk) => {
                let mut rest = &chunk[..];
                while let Some((length, behind)) = rest.split_first_chunk::<4>() {
                    let length = u32::from_le_bytes(*length) as usize;
                    let (message, behind) = behind.split_at(length.min(behind.len()));
                    rest = behind;
                    if let Some(message) = Message::parse(message) {
                        translator.take(&message, &mut batch);
                    }
                }
                file.write(&batch)?;
            }
            QueueItem::End { left, time } => {
                for left in left {
                    translator.left(&left, time, &mut batch);
                }
                file.write(&batch)?;
            }
        }
    }
    Ok(Written { file, open: translator.open() })
}
