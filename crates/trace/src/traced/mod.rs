//! A trace of what goes through a mount of Spindle's own.
//!
//! The one idea: the front-end tells an [`Observer`] what it did for whom, and that is enough for
//! all events of the format but `exec`; [`Recorder`] folds it into runs and hands batches to a
//! thread of its own that writes the file. Nobody who uses the mount waits for that file: what the
//! thread cannot take in time is counted as lost, and when it cannot write any more the recording
//! ends and the mount goes on.
//!
//! What a front-end cannot see is not in the trace. Under FUSE the system keeps data in its cache:
//! a read that is answered there is not told, written data comes late, page by page, and through
//! whichever open file the system has at hand; seeks show only as jumps between accesses,
//! positional access looks like them, and directories are opened without a request.
//!
//! Invariants: an open file is told of from its opening to its closing; a name is known from when
//! the front-end told it until the front-end forgets the inode.

mod state;

use crate::format::Live;
use crate::{Batch, Error, Result};
use spindle_clock::{Clock, Mutex};
use spindle_vfs::{Action, Caller, Ino, Observer};
use state::State;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

/// Events handed to the writer at a time.
const BATCH: usize = 1 << 12;
/// Nanoseconds after which fewer are handed on, so that little is missing if the mount dies.
const LATE: i64 = 1_000_000_000;
/// Batches that may wait for the writer.
const WAITING: usize = 64;
/// Events that wait when the queue is full, before more are lost.
const MOST: usize = 1 << 16;

/// Records what it observes into a file.
pub struct Recorder {
    clock: Arc<dyn Clock>,
    recording: Mutex<Recording>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

struct Recording {
    state: State,
    batch: Batch,
    lost: u64,
    /// Gone when the recording is over.
    writer: Option<Thread>,
}

struct Thread {
    queue: SyncSender<Batch>,
    handle: JoinHandle<std::result::Result<Live, ()>>,
}

impl Recorder {
    /// Starts a recording into a new file. `source` says what is recorded, `mounted` where its root
    /// is and which inode that is; `failed` is called, at most once, when the file cannot be
    /// written any more.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be made, or there is no thread to be had.
    pub fn start(
        path: &Path,
        source: &str,
        mounted: (&str, Ino),
        clock: Arc<dyn Clock>,
        failed: impl FnOnce(&Error) + Send + 'static,
    ) -> Result<Self> {
        let file = Live::create(path, source)?;
        let (queue, batches) = sync_channel::<Batch>(WAITING);
        let write = move || write(file, &batches).map_err(|error| failed(&error));
        let handle =
            std::thread::Builder::new().name("trace".into()).spawn(write).map_err(|e| Error::io(path, e))?;
        let recording = Recording {
            state: State::new(mounted),
            batch: Batch::default(),
            lost: 0,
            writer: Some(Thread { queue, handle }),
        };
        Ok(Self { clock, recording: Mutex::new(recording) })
    }

    /// Ends the recording and completes the file; gives the number of events in it, nothing if
    /// writing it had failed before.
    ///
    /// # Errors
    /// [`Error::Io`] when the rest cannot be written.
    pub fn finish(&self) -> Result<Option<u64>> {
        let mut recording = self.recording.lock();
        let Some(Thread { queue, handle }) = recording.writer.take() else { return Ok(None) };
        let now = self.now();
        let Recording { state, batch, .. } = &mut *recording;
        state.end(now, batch);
        // Nobody waits for this lock any more but those who find the recording over.
        let _ = queue.send(std::mem::take(&mut recording.batch));
        drop(queue);
        let lost = recording.lost;
        drop(recording);
        match handle.join() {
            Ok(Ok(file)) => file.finish(lost, notes()).map(Some),
            _ => Ok(None),
        }
    }

    fn now(&self) -> i64 {
        let now = self.clock.now();
        now.secs.saturating_mul(1_000_000_000).saturating_add(now.nanos.into())
    }
}

fn write(mut file: Live, batches: &Receiver<Batch>) -> Result<Live> {
    while let Some(batch) = file.receive(batches)? {
        file.write(&batch)?;
    }
    Ok(file)
}

fn notes() -> Vec<String> {
    [
        "reads that the system answered from its cache are not in it; written data came when the system sent it",
        "a jump between accesses is told as a seek, so positional access is",
        "openings of directories and loading of programs are not in it",
    ]
    .map(str::to_owned)
    .into()
}

impl Observer for Recorder {
    fn observe(&self, by: Caller, action: &Action<'_>) {
        let mut recording = self.recording.lock();
        let Recording { state, batch, lost, writer, .. } = &mut *recording;
        let Some(thread) = writer else { return };
        let before = batch.events.len();
        // Under the lock, so that times are in order.
        let now = self.now();
        state.observe(now, by, action, batch);
        if batch.events.len() > MOST {
            *lost += (batch.events.len() - before) as u64;
            batch.events.truncate(before);
        }
        let Some(first) = batch.events.first().filter(|_| batch.events.len() > before) else { return };
        if batch.events.len() < BATCH && now - first.time < LATE {
            return;
        }
        match thread.queue.try_send(std::mem::take(batch)) {
            Ok(()) => {}
            Err(TrySendError::Full(full)) => *batch = full,
            // The writer has said why.
            Err(TrySendError::Disconnected(_)) => *writer = None,
        }
    }
}

#[cfg(test)]
mod tests;
