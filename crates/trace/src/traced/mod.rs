//! Records a trace of all operations on a mount.
//!
//! The one idea: the front-end reports every operation and its caller to an [`Observer`], which is
//! enough for all events of the format except `exec`. [`Recorder`] merges them into runs and hands
//! batches to a thread of its own that writes the file. Users of the mount never wait for that
//! file: events that the thread cannot accept in time are counted as lost, and when it cannot write
//! any more the recording ends and the mount continues.
//!
//! The trace lacks what a front-end cannot see. Under FUSE the system has its own cache: reads
//! answered from it are missing, written data arrives late, page by page, and through any open file
//! of the system; seeks appear only as jumps between accesses, positional accesses look like seeks,
//! and directories are opened without a request.
//!
//! Invariants: an open file has events from its open to its close; a name is known from when the
//! front-end reports it until the front-end forgets the inode.

mod state;

use crate::format::Live;
use crate::{Batch, Error, Info, Result};
use spindle_clock::{Clock, Mutex};
use spindle_vfs::{Action, Caller, Ino, Observer};
use state::State;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

/// Number of events handed to the writer at a time.
const BATCH: usize = 1 << 12;
/// Age in ns at which fewer events are handed over, so that little is missing if the mount dies.
const LATE: i64 = 1_000_000_000;
/// Maximum number of batches that wait for the writer.
const WAITING: usize = 64;
/// Maximum number of events that wait when the queue is full; further ones are lost.
const MOST: usize = 1 << 16;

/// Records the observed operations in a file.
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
    /// The thread that writes the file; `None` when the recording has ended.
    writer: Option<Thread>,
}

struct Thread {
    queue: SyncSender<Batch>,
    handle: JoinHandle<std::result::Result<Live, ()>>,
}

impl Recorder {
    /// Starts a recording into an empty file, which errors call by its path. `source` describes
    /// what is recorded, `mounted` is the path and inode of the root; `failed` is called at most
    /// once, when the file cannot be written any more.
    ///
    /// # Errors
    /// [`Error::Io`] if the file or the thread cannot be created.
    pub fn start(
        (file, path): (File, &Path),
        source: &str,
        mounted: (&str, Ino),
        clock: Arc<dyn Clock>,
        failed: impl FnOnce(&Error) + Send + 'static,
    ) -> Result<Self> {
        let file = Live::new(file, path, source)?;
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

    /// Ends the recording and completes the file; returns the number of events in it, or `None` if
    /// writing had failed before.
    ///
    /// # Errors
    /// [`Error::Io`] if the rest cannot be written.
    pub fn finish(&self) -> Result<Option<u64>> {
        let mut recording = self.recording.lock();
        let Some(Thread { queue, handle }) = recording.writer.take() else { return Ok(None) };
        let now = self.now();
        let Recording { state, batch, .. } = &mut *recording;
        state.end(now, batch);
        // Other threads that wait for this lock find that the recording has ended.
        let _ = queue.send(std::mem::take(&mut recording.batch));
        drop(queue);
        let lost = recording.lost;
        drop(recording);
        match handle.join() {
            Ok(Ok(file)) => file.finish(Info { lost, notes: notes(), ..Info::default() }).map(Some),
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
        "reads answered from the system's cache are missing; written data appears when the system sent it",
        "a jump between accesses is recorded as a seek, and so is a positional access",
        "opens of directories, loads of programs, and calls such as stat and chmod are missing",
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
        // Taken under the lock, so that times are in order.
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
            // The writer has reported the error.
            Err(TrySendError::Disconnected(_)) => *writer = None,
        }
    }
}

#[cfg(test)]
mod tests;
