//! SIGTERM, SIGINT and SIGHUP end a mount cleanly.
//!
//! The signals are blocked before any thread exists, so that all threads inherit that, and one
//! thread waits for them. No handler runs, and nothing is interrupted half-way.

use crate::{Error, Result, Unmounter};
use nix::sys::signal::{SigSet, Signal};

/// Proof that the signals are blocked.
#[derive(Debug)]
pub struct Signals(SigSet);

impl Signals {
    /// Returns the blocks the three signals in this thread and in those that it starts from now on:
    /// to be called first of all.
    ///
    /// # Errors
    /// When the system refuses, which it has no reason to.
    pub fn block() -> Result<Self> {
        let mut set = SigSet::empty();
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            set.add(signal);
        }
        set.thread_block().map_err(|e| Error::system("cannot block signals", e))?;
        Ok(Self(set))
    }

    /// Starts the thread that ends the session when one of the signals comes.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn stop_on_arrival(self, unmounter: Unmounter) -> Result<()> {
        let wait = move || {
            while let Ok(signal) = self.0.wait() {
                log::info!("{signal}: unmounting");
                unmounter.stop();
            }
        };
        std::thread::Builder::new()
            .name("fuse-signals".into())
            .spawn(wait)
            .map(drop)
            .map_err(|e| Error::system("cannot start the signal thread", e))
    }
}
