//! Changes of a set that is mounted: the process that serves the mount makes them, and others ask
//! it to on a socket.
//!
//! The socket has an abstract name (unix(7)) with the identity of the set, so that it is found by
//! any member and goes with the process. A request is a [`Change`] as a line of JSON; the answers
//! are lines too: progress, and at the end the outcome or an error. If the other end closes its
//! half of the connection, the change is interrupted. Only root and the user of the mount are
//! served; and another user who has taken the name is not asked.

use super::change::{Change, Outcome, Report};
use super::open::OpenSet;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use spindle_mfs::Progress;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Most bytes of a request.
const REQUEST_MAX: u64 = 64 << 10;
/// How long a request may take to come, and how often a client looks whether it is interrupted.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(200);

/// A line of an answer.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// Bytes that are done, of how many.
    Progress(u64, u64),
    Done(Outcome),
    Failed(String),
}

/// Makes changes of a mounted set for other processes, until it is dropped; a change that is under
/// way then is interrupted.
pub struct Service {
    stop: Arc<AtomicBool>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    /// Starts to serve a set.
    ///
    /// # Errors
    /// System errors.
    pub(crate) fn start(set: Arc<OpenSet>) -> io::Result<Self> {
        let address = address(set.set.label.set_id)?;
        let listener = UnixListener::bind_addr(&address)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("set".into()).spawn(move || {
            let mut clients = Vec::new();
            while let Ok((stream, _)) = listener.accept() {
                if stopped.load(Ordering::Acquire) {
                    break;
                }
                clients.retain(|client: &JoinHandle<()>| !client.is_finished());
                let (set, stopped) = (set.clone(), stopped.clone());
                clients.push(std::thread::spawn(move || {
                    if let Err(error) = serve(&stream, &set, &stopped) {
                        log::info!("a request to change the set: {error}");
                    }
                }));
            }
            for client in clients {
                let _ = client.join();
            }
        })?;
        Ok(Self { stop, address, thread: Some(thread) })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // The thread waits for a connection.
        let _ = UnixStream::connect_addr(&self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns the address at which the mount of a set is asked.
#[cfg(target_os = "linux")]
fn address(set_id: [u8; 16]) -> io::Result<SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    SocketAddr::from_abstract_name(format!("spindle-set-{:032x}", u128::from_be_bytes(set_id)))
}

/// Fails: without FUSE there is no mount.
#[cfg(not(target_os = "linux"))]
fn address(_: [u8; 16]) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns true if the process at the other end belongs to root or to the user of this one.
#[cfg(target_os = "linux")]
fn is_trusted(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    rustix::net::sockopt::socket_peercred(stream).is_ok_and(|peer| peer.uid.is_root() || peer.uid == own)
}

/// Returns false: nobody can be known.
#[cfg(not(target_os = "linux"))]
fn is_trusted(_: &UnixStream) -> bool {
    false
}

/// Returns true if the other end has closed its half of the connection.
fn has_hung_up(stream: &UnixStream) -> bool {
    use rustix::net::RecvFlags;
    let found = rustix::net::recv(stream, &mut [0_u8; 1][..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    found.is_ok_and(|(_, bytes)| bytes == 0)
}

fn send(mut stream: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Serves one client.
fn serve(stream: &UnixStream, set: &OpenSet, stop: &AtomicBool) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(REQUEST_MAX)).read_line(&mut line)?;
    if !is_trusted(stream) {
        let refused = "only root and the user of the mount can change the set";
        return send(stream, &Answer::Failed(refused.into()));
    }
    let change: Change = serde_json::from_str(&line)?;
    log::info!("changing the set: {change:?}");
    let mut report = |Progress { done, total }| {
        if stop.load(Ordering::Acquire) {
            return Err(Error::new("the set is being unmounted"));
        }
        if has_hung_up(stream) || send(stream, &Answer::Progress(done, total)).is_err() {
            return Err(Error::new("interrupted"));
        }
        Ok(())
    };
    let answer = match set.apply(&change, &mut report) {
        Ok(outcome) => Answer::Done(Outcome { mounted: true, ..outcome }),
        Err(error) => Answer::Failed(error.to_string()),
    };
    send(stream, &answer)
}

/// Asks the process that has mounted a set to change it. Returns none if it is not mounted.
pub(super) fn request(set_id: [u8; 16], change: &Change, report: &mut Report<'_>) -> Result<Option<Outcome>> {
    let Ok(stream) = address(set_id).and_then(|address| UnixStream::connect_addr(&address)) else {
        return Ok(None);
    };
    if !is_trusted(&stream) {
        return Ok(None);
    }
    let failed = |error: io::Error| Error::new(format!("the process that serves the mount: {error}"));
    stream.set_read_timeout(Some(LOOK)).map_err(failed)?;
    send(&stream, change).map_err(failed)?;
    let mut reader = BufReader::new(&stream);
    let (mut line, mut last, mut interrupted) = (Vec::new(), Progress::default(), None);
    loop {
        match reader.read_until(b'\n', &mut line) {
            Ok(_) if line.ends_with(b"\n") => {
                let answer = serde_json::from_slice(&line).map_err(|error| failed(error.into()))?;
                line.clear();
                match answer {
                    Answer::Progress(done, total) => last = Progress { done, total },
                    Answer::Done(outcome) => return Ok(Some(outcome)),
                    Answer::Failed(reason) => return Err(interrupted.unwrap_or_else(|| Error::new(reason))),
                }
            }
            Ok(_) => {
                let ended = || failed(io::ErrorKind::UnexpectedEof.into());
                return Err(interrupted.unwrap_or_else(ended));
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(error) => return Err(failed(error)),
        }
        if interrupted.is_none()
            && let Err(error) = report(last)
        {
            // It ends when the other process has stopped.
            interrupted = Some(error);
            stream.shutdown(Shutdown::Write).map_err(failed)?;
        }
    }
}
