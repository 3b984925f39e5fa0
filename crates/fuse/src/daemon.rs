//! Becoming a daemon, and saying when the mount is live.
//!
//! `mount(8)`, fstab and systemd look at the exit status of the command: 0 must mean that the mount
//! is live. So the process forks first of all, before there are threads, open images or mounts to
//! be torn in two. The child does everything; the parent waits at a pipe for one byte that says
//! *live*, or for the text of the error.

use crate::{Error, Result, Signals};
use nix::unistd::{ForkResult, dup2_stderr, dup2_stdin, dup2_stdout, fork, pipe2, setsid};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::ExitCode;

/// `mount(8)`'s exit status for a failed mount.
const MOUNT_FAILED: u8 = 32;
/// The first byte through the pipe when all is well; no error text starts with it.
const LIVE: u8 = 0;

/// How to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In this process, telling systemd through `NOTIFY_SOCKET`.
    Foreground,
    /// In a daemon; this process ends when the mount is live or has failed.
    Daemon,
}

/// To be called once, when the mount is live.
#[derive(Debug)]
pub struct Ready(Announce);

#[derive(Debug)]
enum Announce {
    ToSystemd,
    ToParent(File),
}

impl Ready {
    /// Says that the mount is live. A daemon then lets go of its terminal and its working
    /// directory.
    ///
    /// # Errors
    /// When there is nobody to tell any more, or `/dev/null` cannot be opened.
    pub fn live(self) -> Result<()> {
        match self.0 {
            Announce::ToSystemd => notify_systemd(),
            Announce::ToParent(mut pipe) => {
                std::env::set_current_dir("/").map_err(|e| Error::system("cannot leave for /", e))?;
                let null = null()?;
                let lost = |e: nix::Error| Error::system("cannot let go of the terminal", e);
                dup2_stdout(&null).map_err(lost)?;
                dup2_stderr(&null).map_err(lost)?;
                pipe.write_all(&[LIVE]).map_err(|e| Error::system("nobody waits for the mount", e))
            }
        }
    }
}

/// Runs `run` as `mode` says and gives the exit status for `main` to return: in the daemon that of
/// `run`, in its parent 0 when the mount is live, else 32 with the message on standard error, after
/// `name`. Must be called before there are threads.
pub fn launch<E: Display>(
    mode: Mode,
    name: &str,
    run: impl FnOnce(Signals, Ready) -> std::result::Result<(), E>,
) -> ExitCode {
    let fail = |error: &dyn Display| {
        eprintln!("{name}: {error}");
        ExitCode::from(MOUNT_FAILED)
    };
    let pipe = match mode {
        Mode::Foreground => None,
        Mode::Daemon => match become_daemon() {
            Ok(Side::Parent(pipe)) => return wait_for_child(pipe).unwrap_or_else(|error| fail(&error)),
            Ok(Side::Child(pipe)) => Some(pipe),
            Err(error) => return fail(&error),
        },
    };
    let result = Signals::block().map_err(|e| e.to_string()).and_then(|signals| {
        let announce = match &pipe {
            Some(pipe) => Announce::ToParent(pipe.try_clone().map_err(|e| e.to_string())?),
            None => Announce::ToSystemd,
        };
        run(signals, Ready(announce)).map_err(|e| e.to_string())
    });
    match (result, pipe) {
        (Ok(()), _) => ExitCode::SUCCESS,
        (Err(error), None) => fail(&error),
        (Err(error), Some(mut pipe)) => {
            // Once live, the parent is gone and the text goes nowhere; the log has it.
            let _ = pipe.write_all(error.as_bytes());
            ExitCode::from(MOUNT_FAILED)
        }
    }
}

enum Side {
    Parent(File),
    Child(File),
}

#[allow(unsafe_code)]
fn become_daemon() -> Result<Side> {
    let failed = |e: io::Error| Error::system("cannot start a daemon", e);
    if std::fs::read_dir("/proc/self/task").map_err(failed)?.count() != 1 {
        return Err(Error::State("cannot start a daemon: this process has threads already".into()));
    }
    let (read, write) = pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(|e| failed(e.into()))?;
    // SAFETY: this is the only thread, as has just been seen, so that no lock can be held by
    // another in the child.
    match unsafe { fork() }.map_err(|e| failed(e.into()))? {
        ForkResult::Parent { .. } => Ok(Side::Parent(File::from(read))),
        ForkResult::Child => {
            setsid().map_err(|e| failed(e.into()))?;
            dup2_stdin(null()?).map_err(|e| failed(e.into()))?;
            Ok(Side::Child(File::from(write)))
        }
    }
}

fn wait_for_child(mut pipe: File) -> Result<ExitCode> {
    let mut first = [0];
    let failed = |e| Error::system("cannot hear from the daemon", e);
    if pipe.read(&mut first).map_err(failed)? == 0 {
        return Err(Error::State("the daemon died before the mount was live".into()));
    }
    if first[0] == LIVE {
        return Ok(ExitCode::SUCCESS);
    }
    let mut message = first.to_vec();
    pipe.read_to_end(&mut message).map_err(failed)?;
    Err(Error::State(String::from_utf8_lossy(&message).into_owned()))
}

fn null() -> Result<OwnedFd> {
    let null = File::options().read(true).write(true).open("/dev/null");
    null.map(OwnedFd::from).map_err(|e| Error::system("cannot open /dev/null", e))
}

/// `sd_notify(3)`: one datagram to the socket that systemd names; `@` starts an abstract name.
fn notify_systemd() -> Result<()> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::SocketAddr;
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let send = || {
        let address = match name.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(&name)?,
        };
        UnixDatagram::unbound()?.send_to_addr(b"READY=1\n", &address).map(drop)
    };
    send().map_err(|e| Error::system(format!("cannot tell {} that the mount is live", name.display()), e))
}
