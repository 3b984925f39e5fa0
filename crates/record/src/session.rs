//! A recording: who empties the ring, and who writes.
//!
//! The ring holds some hundred thousand messages, so it is enough to look in from time to time, and
//! nobody need be woken by the programs that are recorded. One thread only copies messages out; the
//! work is done by another one, behind a queue.

use crate::kernel::{Kernel, Missed};
use crate::translate::Translator;
use crate::wire::{Left, Wire};
use crate::{Done, Error, Result, Wanted};
use rustix::time::{ClockId, clock_gettime};
use spindle_clock::{Clock, SystemClock};
use spindle_trace::format::Live;
use spindle_trace::{Batch, FileId};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the ring is left alone.
const PAUSE: Duration = Duration::from_millis(20);
/// Messages are handed on in chunks of this many bytes.
const CHUNK: usize = 1 << 20;
/// So many chunks may wait for the writer.
const QUEUE: usize = 256;

/// Messages, each behind its length; or the end.
enum Parcel {
    Messages(Vec<u8>),
    End { left: Vec<Left>, time: u64 },
}

/// A recording that goes on until [`Recording::finish`].
#[derive(Debug)]
pub struct Recording {
    stop: Arc<AtomicBool>,
    tell: SyncSender<bool>,
    drain: JoinHandle<Missed>,
    write: JoinHandle<Result<Written>>,
}

#[derive(Debug)]
struct Written {
    file: Live,
    open: usize,
}

impl Recording {
    /// Starts recording what is `wanted` into the file `output`; `source` says what makes it.
    ///
    /// # Errors
    /// [`Error::Forbidden`], [`Error::Kernel`], [`Error::Io`], [`Error::Trace`].
    pub fn start(wanted: &Wanted, output: &Path, source: &str) -> Result<Self> {
        let kernel = Kernel::load(wanted)?;
        let file = Live::create(output, source)?;
        let hidden = std::fs::metadata(output)
            .map_err(|source| Error::Io { path: output.to_owned(), source })
            .map(|found| FileId { device: found.dev(), inode: found.ino() })?;
        let translator = Translator::new(since_1970(), wanted.prefix.as_deref(), hidden);
        let (give, take) = sync_channel(QUEUE);
        let (tell, told) = sync_channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let problem = |source| Error::Io { path: output.to_owned(), source };
        let drain = thread("record-drain").spawn(move || drain(kernel, &stopped, &told, &give));
        let drain = drain.map_err(problem)?;
        let write = thread("record-write").spawn(move || write(translator, file, &take)).map_err(problem)?;
        Ok(Self { stop, tell, drain, write })
    }

    /// With [`Wanted::children`]: processes that this one starts from now on are not followed any
    /// more. Those that are, and theirs, still are.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the recording has broken down.
    pub fn follow_no_more(&mut self) -> Result<()> {
        self.tell.send(false).map_err(|_| Error::Kernel("the recording has ended early".into()))
    }

    /// Ends the recording, and completes the file.
    ///
    /// # Errors
    /// [`Error::Trace`]: the file could not be written.
    pub fn finish(self) -> Result<Done> {
        self.stop.store(true, Ordering::Relaxed);
        let broken = |_| Error::Kernel("a thread of the recorder has panicked".into());
        let missed = self.drain.join().map_err(broken)?;
        let Written { file, open } = self.write.join().map_err(broken)??;
        let mut notes = Vec::new();
        if open > 0 {
            notes.push(format!("{open} files were still open at the end"));
        }
        if missed.uring > 0 {
            notes.push(format!("{} calls of io_uring_enter: what they did is not recorded", missed.uring));
        }
        if missed.foreign > 0 {
            notes.push(format!("{} calls of 32-bit programs are not recorded", missed.foreign));
        }
        let events = file.finish(missed.lost, notes.clone())?;
        Ok(Done { events, lost: missed.lost, notes })
    }
}

/// Returns the nanoseconds that are added to the time since the machine was started, in which the
/// kernel's half counts.
fn since_1970() -> i64 {
    let now = SystemClock.now();
    now.secs * 1_000_000_000 + i64::from(now.nanos) - i64::try_from(since_boot()).unwrap_or(i64::MAX)
}

/// Returns the kernel's own time. It is no `Clock` of ours, but what the messages are dated in.
fn since_boot() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}

fn drain(
    mut kernel: Kernel,
    stopped: &AtomicBool,
    told: &Receiver<bool>,
    give: &SyncSender<Parcel>,
) -> Missed {
    let mut chunk = Vec::with_capacity(CHUNK + 8192);
    loop {
        let is_over = stopped.load(Ordering::Relaxed);
        if let Ok(follow) = told.try_recv() {
            // It can only fail if it is done already.
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
                // Without a writer nothing can be done with messages; its error is told in the end.
                let _ = give.send(Parcel::Messages(full));
            }
        });
        if !chunk.is_empty() {
            let _ = give.send(Parcel::Messages(std::mem::take(&mut chunk)));
        }
        if is_over {
            let left = kernel.open_files().iter().map(Left::parse).collect();
            let _ = give.send(Parcel::End { left, time: since_boot() });
            return kernel.missed();
        }
        SystemClock.sleep(PAUSE);
    }
}

fn write(mut translator: Translator, mut file: Live, take: &Receiver<Parcel>) -> Result<Written> {
    let mut batch = Batch::default();
    while let Some(parcel) = file.receive(take)? {
        batch.clear();
        match parcel {
            Parcel::Messages(chunk) => {
                let mut rest = &chunk[..];
                while let Some((length, behind)) = rest.split_first_chunk::<4>() {
                    let length = u32::from_le_bytes(*length) as usize;
                    let (message, behind) = behind.split_at(length.min(behind.len()));
                    rest = behind;
                    if let Some(wire) = Wire::parse(message) {
                        translator.take(&wire, &mut batch);
                    }
                }
                file.write(&batch)?;
            }
            Parcel::End { left, time } => {
                for left in left {
                    translator.left(&left, time, &mut batch);
                }
                file.write(&batch)?;
            }
        }
    }
    Ok(Written { file, open: translator.open() })
}
