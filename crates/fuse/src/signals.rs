//! SIGTERM, SIGINT and SIGHUP, which end a mount cleanly.
//!
//! The signals are blocked before any thread is started, so that all threads inherit this, and one
//! thread waits for them. There is no signal handler, and no system call is interrupted.

use crate::{Error, Result, Unmounter};
use nix::sys::signal::{SigSet, Signal};

/// The blocked signals; a value of this type is the proof that they are blocked.
#[derive(Debug)]
pub struct Signals(SigSet);

impl Signals {
    /// Stops delivery of the three signals to this thread and all threads that it starts later.
    /// Call it before anything else.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn block() -> Result<Self> {
        let mut set = SigSet::empty();
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            set.add(signal);
        }
        set.thread_block().map_err(|e| Error::system("cannot block signals", e))?;
        Ok(Self(set))
    }

    /// Starts a thread that ends the session when one of the signals arrives.
    ///
    /// # Errors
    /// If the thread cannot be started.
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
