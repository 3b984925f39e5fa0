//! Makes SIGINT, SIGTERM and SIGHUP end a recording with a complete file.
//!
//! The signals are blocked before any other thread starts, so all threads inherit the mask, and one
//! thread waits for them.

use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Proof that the signals are blocked.
#[derive(Clone, Copy, Debug)]
pub struct Signals {
    ours: SigSet,
    before: SigSet,
}

/// A program started by [`Signals::spawn`].
#[derive(Debug)]
pub struct Child(Pid);

impl Signals {
    /// Masks the three signals in this thread and in those that it starts from now on; must be
    /// called before any other thread exists.
    ///
    /// # Errors
    /// Errors of the system, which are not expected.
    pub fn block() -> std::io::Result<Self> {
        let mut ours = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            ours.add(signal);
        }
        let before = ours.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        Ok(Self { ours, before })
    }

    /// Starts a program, looked up as in a shell, with the original signal mask; in this process
    /// the signals stay blocked. (The standard library's `Command` passes its own mask on, and
    /// unblocking the signals for a moment could kill this process.)
    ///
    /// # Errors
    /// Errors of the system, for example that there is no such program.
    pub fn spawn(&self, program: &OsStr, words: &[OsString]) -> std::io::Result<Child> {
        let text = |word: &OsStr| CString::new(word.as_bytes());
        let all = std::iter::once(program).chain(words.iter().map(OsString::as_os_str));
        let words = all.map(text).collect::<Result<Vec<_>, _>>()?;
        let environment = std::env::vars_os()
            .map(|(name, value)| text(&[name.as_os_str(), &value].join(OsStr::new("="))))
            .collect::<Result<Vec<_>, _>>()?;
        // Rust programs ignore SIGPIPE.
        let mut usual = SigSet::empty();
        usual.add(Signal::SIGPIPE);
        let mut how = PosixSpawnAttr::init()?;
        how.set_flags(PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF)?;
        how.set_sigmask(&self.before)?;
        how.set_sigdefault(&usual)?;
        Ok(Child(posix_spawnp(&words[0], &PosixSpawnFileActions::init()?, &how, &words, &environment)?))
    }

    /// Waits for a signal; returns true for an interrupt from the terminal, which all programs
    /// there get.
    ///
    /// # Errors
    /// Errors of the system, which are not expected.
    pub fn wait(&self) -> std::io::Result<bool> {
        Ok(self.ours.wait()? == Signal::SIGINT)
    }
}

impl Child {
    /// Waits for the end of the program.
    ///
    /// # Errors
    /// Errors of the system, which are not expected.
    pub fn wait(self) -> std::io::Result<ExitStatus> {
        loop {
            match waitpid(self.0, None)? {
                WaitStatus::Exited(_, code) => return Ok(ExitStatus::from_raw(code << 8)),
                WaitStatus::Signaled(_, signal, _) => return Ok(ExitStatus::from_raw(signal as i32)),
                _ => {}
            }
        }
    }
}
