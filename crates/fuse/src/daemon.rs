//! Starting a daemon, and reporting when the mount is ready.
//!
//! `mount(8)`, fstab and systemd use the exit status of the command: 0 must mean that the mount is
//! ready. So the process forks first, before it starts threads, opens images or mounts anything.
//! The child does all the work. The parent waits on a pipe for the byte [`READY`], or for the text
//! of the error.
//!
//! The child closes the descriptors that it has inherited: a script may hold a lock with one, or
//! wait for the end of a pipe.

use crate::{Error, Result, Signals};
use nix::unistd::{ForkResult, dup2_stderr, dup2_stdin, dup2_stdout, fork, pipe2, setsid};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::process::ExitCode;

/// Exit status of a failed mount, the same as that of `mount(8)`.
const MOUNT_FAILED: u8 = 32;
/// The byte on the pipe that means success; no error text starts with it.
const READY: u8 = 0;

/// The process that serves a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In this process; systemd is notified through `NOTIFY_SOCKET`.
    Foreground,
    /// In a daemon; this process ends when the mount is ready or has failed.
    Daemon,
}

/// Reports once that the mount is ready.
#[derive(Debug)]
pub struct Ready(Announce);

#[derive(Debug)]
enum Announce {
    ToSystemd,
    ToParent(File),
}

impl Ready {
    /// Reports that the mount is ready. A daemon then leaves its terminal and its working
    /// directory.
    ///
    /// # Errors
    /// If the parent or systemd cannot be reached, or `/dev/null` cannot be opened.
    pub fn report(self) -> Result<()> {
        match self.0 {
            Announce::ToSystemd => notify_systemd(),
            Announce::ToParent(mut pipe) => {
                std::env::set_current_dir("/").map_err(|e| Error::system("cannot change to /", e))?;
                let null = null()?;
                let lost = |e: nix::Error| Error::system("cannot leave the terminal", e);
                dup2_stdout(&null).map_err(lost)?;
                dup2_stderr(&null).map_err(lost)?;
                pipe.write_all(&[READY]).map_err(|e| Error::system("cannot notify the parent process", e))
            }
        }
    }
}

/// Calls `run` in this process or in a daemon, according to `mode`. Returns the exit status for
/// `main`: in the daemon that of `run`; in its parent 0 when the mount is ready, otherwise 32, with
/// the message on standard error after `name`. Call it before starting threads.
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
            // After success the parent has ended; the error is in the system log.
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
    // SAFETY: this is the only thread, as checked above, so no other thread can hold a lock in
    // the child.
    match unsafe { fork() }.map_err(|e| failed(e.into()))? {
        ForkResult::Parent { .. } => Ok(Side::Parent(File::from(read))),
        ForkResult::Child => {
            drop(read);
            close_others(&write).map_err(failed)?;
            setsid().map_err(|e| failed(e.into()))?;
            dup2_stdin(null()?).map_err(|e| failed(e.into()))?;
            Ok(Side::Child(File::from(write)))
        }
    }
}

/// Closes all descriptors except the standard ones and `kept`. Nothing else here may own one.
fn close_others(kept: &OwnedFd) -> io::Result<()> {
    let open: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for fd in open.into_iter().filter(|&fd| fd > libc::STDERR_FILENO && fd != kept.as_raw_fd()) {
        // One of them was that of the directory, which is closed by now.
        let _ = nix::unistd::close(fd);
    }
    Ok(())
}

fn wait_for_child(mut pipe: File) -> Result<ExitCode> {
    let mut first = [0];
    let failed = |e| Error::system("cannot read from the daemon", e);
    if pipe.read(&mut first).map_err(failed)? == 0 {
        return Err(Error::State("the daemon died before the mount was ready".into()));
    }
    if first[0] == READY {
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

/// Notifies systemd as `sd_notify(3)` does: by a datagram to the socket that systemd names. `@`
/// starts an abstract name.
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
    send().map_err(|e| Error::system(format!("cannot notify {} that the mount is ready", name.display()), e))
}
