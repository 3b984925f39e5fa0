//! SIGINT, SIGTERM and SIGHUP end a recording, and its file is complete.
//!
//! They are blocked before any thread exists, so that all threads inherit that, and one thread waits for them.

use nix::sys::signal::{SigSet, Signal};

/// Proof that the signals are blocked.
#[derive(Clone, Copy, Debug)]
pub struct Signals(SigSet);

impl Signals {
    /// Blocks the three signals in this thread and in those that it starts from now on: to be called first of all.
    ///
    /// # Errors
    /// When the system refuses, which it has no reason to.
    pub fn block() -> std::io::Result<Self> {
        let mut set = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            set.add(signal);
        }
        set.thread_block()?;
        Ok(Self(set))
    }

    /// Does something with the signals as they were: starts a program, which inherits it.
    ///
    /// # Errors
    /// When the system refuses, which it has no reason to.
    pub fn unblocked<T>(&self, work: impl FnOnce() -> T) -> std::io::Result<T> {
        self.0.thread_unblock()?;
        let result = work();
        self.0.thread_block()?;
        Ok(result)
    }

    /// Waits for one; true if it is an interrupt from the terminal, which all programs there get.
    ///
    /// # Errors
    /// When the system refuses, which it has no reason to.
    pub fn wait(&self) -> std::io::Result<bool> {
        Ok(self.0.wait()? == Signal::SIGINT)
    }
}
