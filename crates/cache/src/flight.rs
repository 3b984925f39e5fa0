//! A transfer in flight that several threads may wait for.

use spindle_clock::{Condvar, Mutex};
use spindle_device::{AlignedBuf, Device, Op, Request, Result, Ticket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

enum Progress {
    /// Its buffer is being put together.
    Gathering,
    Pending(Ticket),
    /// With what was read, if it was a read.
    Landed(Result<Option<Arc<AlignedBuf>>>),
}

/// A transfer. Each thread that needs it calls [`Self::land`]; the first one waits for the device,
/// the others wait for the first.
pub(crate) struct Flight {
    device: Arc<dyn Device>,
    progress: Mutex<Progress>,
    submitted: Condvar,
    landed: AtomicBool,
    op: Op,
}

impl Flight {
    /// Returns a transfer that the caller must submit.
    pub(crate) fn gathering(device: &Arc<dyn Device>, op: Op) -> Self {
        Self {
            device: device.clone(),
            progress: Mutex::new(Progress::Gathering),
            submitted: Condvar::new(),
            landed: AtomicBool::new(false),
            op,
        }
    }

    /// Submits it.
    ///
    /// # Errors
    /// When it cannot be started; every call of [`Self::land`] returns the error, too.
    pub(crate) fn submit(&self, offset: u64, buf: AlignedBuf) -> Result<()> {
        let submitted = self.device.submit(Request { op: self.op, offset, buf });
        let mut progress = self.progress.lock();
        let result = match submitted {
            Ok(ticket) => {
                *progress = Progress::Pending(ticket);
                Ok(())
            }
            Err(error) => {
                *progress = Progress::Landed(Err(error.clone()));
                self.landed.store(true, Ordering::Release);
                Err(error)
            }
        };
        drop(progress);
        self.submitted.notify_all();
        result
    }

    /// Returns true if a call of [`Self::land`] has seen its end.
    pub(crate) fn has_landed(&self) -> bool {
        self.landed.load(Ordering::Acquire)
    }

    /// Waits for its end and returns the bytes that were read; none after a write.
    ///
    /// # Errors
    /// When the transfer failed; every caller gets the error.
    pub(crate) fn land(&self) -> Result<Option<Arc<AlignedBuf>>> {
        let mut progress = self.progress.lock();
        while matches!(*progress, Progress::Gathering) {
            self.submitted.wait(&mut progress);
        }
        let result = match std::mem::replace(&mut *progress, Progress::Gathering) {
            Progress::Pending(ticket) => {
                self.device.wait(ticket).map(|buf| (self.op == Op::Read).then(|| Arc::new(buf)))
            }
            Progress::Landed(result) => result,
            Progress::Gathering => unreachable!("waited until it was submitted"),
        };
        *progress = Progress::Landed(result.clone());
        self.landed.store(true, Ordering::Release);
        result
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if let Progress::Pending(ticket) = std::mem::replace(self.progress.get_mut(), Progress::Gathering) {
            // The result is not needed, but each ticket must be waited for.
            let _ = self.device.wait(ticket);
        }
    }
}
