//! Requests to the process that serves a mount: it alone can change what is mounted.
//!
//! It listens on sockets with abstract names (unix(7)), which go with the process: one of the
//! mount, and one of what is mounted, the set or the image; either leads to it. A request is a
//! [`Request`] as a line of JSON; the answers are lines too: progress, and at the end the outcome
//! or an error. If the other end closes its half of the connection, the work is interrupted. Only
//! root and the user of the mount are served, but for what a mount allows to all
//! ([`Answering::is_for_all`]); and a process that has taken a name, but does not serve the mount,
//! is not asked: see [`Name`].

use crate::error::{Error, Result};
use crate::set::{Change, Report};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use spindle_device::Spec;
use spindle_ffs::quota::Task;
use spindle_ffs::tunefs::Tuning;
use spindle_mfs::Progress;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Most bytes of a request.
const REQUEST_MAX: u64 = 64 << 10;
/// How long a request may take to come, and how often a client looks whether it is interrupted.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(200);
/// How often a name is tried that another mount has.
const NAME_LOOK: Duration = Duration::from_secs(1);

/// What can be asked of a mount.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Change the members of the set; the answer is an [`Outcome`](crate::set::Outcome).
    Members(Change),
    /// Tune the file system; the answer is a [`Tuned`](spindle_ffs::tunefs::Tuned).
    Tune(Tuning),
    /// Check, edit or report quotas; the answer is a list of [`Sheet`](crate::quota::Sheet)s.
    Quota(Task),
    /// Make a snapshot under this path.
    Snapshot(Vec<u8>),
    /// Remove the snapshot with this path.
    RemoveSnapshot(Vec<u8>),
    /// List the snapshots; the answer is a list of [`Snapshot`](crate::snapshot::Snapshot)s.
    Snapshots,
    /// Make the file system larger: to this number of bytes, or to the end of its file, partition
    /// or device; over another file system, too, with `force`. The answer is a
    /// [`Resize`](crate::growfs::Resize).
    Grow {
        /// Bytes.
        size: Option<u64>,
        /// Over another file system, too.
        force: bool,
    },
    /// Change the mount as these options of `-o` say.
    Remount(String),
    /// Unmount it; any user may ask for that if the mount allows it. The answer comes when the
    /// image is complete.
    Unmount,
    /// Say what is mounted where; the answer is a [`Description`](crate::mounted::Description).
    Describe,
}

/// What answers the requests to a mount.
pub trait Answering: Send + Sync {
    /// Does what is asked and returns the outcome as JSON. An error of `report` ends the work.
    ///
    /// # Errors
    /// Why it was not done.
    fn answer(&self, request: &Request, report: &mut Report<'_>) -> Result<Value>;

    /// Returns true if any user may ask for this.
    fn is_for_all(&self, request: &Request) -> bool;

    /// Returns true if the system has unmounted it. What is asked then may be meant for another
    /// mount, which has its device number now.
    fn has_ended(&self) -> bool;
}

/// A name under which a mount is asked. Any user can take any name that is free; so who asks
/// believes root, its own user, and who is known to serve the mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    name: String,
    server: Server,
}

/// What the process that serves a mount is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Server {
    /// Its user, as the table of mounts says.
    User(u32),
    /// That it has locked this file or block device for writing.
    Writer(PathBuf),
}

impl Server {
    /// Returns true if it is the process at the other end.
    #[cfg(target_os = "linux")]
    fn is(&self, peer: &rustix::net::UCred) -> bool {
        match self {
            Self::User(uid) => peer.uid.as_raw() == *uid,
            Self::Writer(path) => u32::try_from(peer.pid.as_raw_nonzero().get())
                .is_ok_and(|pid| spindle_device::is_writer(pid, path)),
        }
    }
}

impl Name {
    /// Returns the name of the mounted set with this identity; `member` is one of its members.
    ///
    /// # Errors
    /// If there is no such partition.
    pub fn of_set(set_id: [u8; 16], member: &Spec) -> Result<Self> {
        let name = format!("spindle-set-{:032x}", u128::from_be_bytes(set_id));
        Ok(Self { name, server: Server::Writer(member.place()?.path) })
    }

    /// Returns the name of a mount by its device number, `major:minor`, and its user.
    #[must_use]
    pub fn of_mount(device: &str, user: u32) -> Self {
        Self { name: format!("spindle-mount-{device}"), server: Server::User(user) }
    }

    /// Returns the name of the mounted file system in an image: by the file or the block device,
    /// and the byte at which it begins.
    ///
    /// # Errors
    /// If there is no such file or partition.
    pub fn of_image(spec: &Spec) -> Result<Self> {
        let place = spec.place()?;
        let found = std::fs::metadata(&place.path)?;
        let disk = if found.file_type().is_block_device() {
            format!("block-{:x}", found.rdev())
        } else {
            format!("file-{:x}-{:x}", found.dev(), found.ino())
        };
        let name = format!("spindle-{disk}-{:x}", place.bytes.map_or(0, |part| part.start));
        Ok(Self { name, server: Server::Writer(place.path) })
    }

    /// Returns true if a mount that has not ended is asked under this name.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        !matches!(request::<Value>(self, &Request::Describe, &mut |_| Ok(())), Ok(None))
    }

    #[cfg(target_os = "linux")]
    fn address(&self) -> io::Result<SocketAddr> {
        use std::os::linux::net::SocketAddrExt;
        SocketAddr::from_abstract_name(&self.name)
    }

    /// Fails: without FUSE there is no mount.
    #[cfg(not(target_os = "linux"))]
    fn address(&self) -> io::Result<SocketAddr> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A line of an answer.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// Bytes that are done, of how many.
    Progress(u64, u64),
    Done(Value),
    Failed(String),
    /// The mount has ended.
    Ended,
}

/// Answers requests until it is dropped; what is under way then is interrupted.
pub struct Service {
    stop: Arc<AtomicBool>,
    listeners: Vec<(SocketAddr, JoinHandle<()>)>,
}

impl Service {
    /// Starts to serve under each of `names` that no other mount has; under that of the mount
    /// itself in any case, once it is free: a mount can get the device number of one whose process
    /// has not ended yet.
    ///
    /// # Errors
    /// System errors.
    pub fn start(names: &[Name], answering: &Arc<dyn Answering>) -> Result<Self> {
        let mut service = Self { stop: Arc::default(), listeners: Vec::new() };
        for name in names {
            let address = name.address()?;
            let bound = bind(&address)?;
            if bound.is_none() {
                log::info!("another mount is asked as {}", name.name);
                // Several mounts can read one image, and the end of the one that has its name shows
                // in the name's being free.
                if !matches!(name.server, Server::User(_)) {
                    continue;
                }
            }
            let (answering, stop, at) = (answering.clone(), service.stop.clone(), address.clone());
            let thread = std::thread::Builder::new().name("control".into());
            let thread = thread.spawn(move || {
                if let Some(listener) = bound.or_else(|| wait_for(&at, &stop)) {
                    listen(&listener, &answering, &stop);
                }
            })?;
            service.listeners.push((address, thread));
        }
        Ok(service)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for (address, thread) in self.listeners.drain(..) {
            // The thread waits for a connection, or for the name.
            thread.thread().unpark();
            let _ = UnixStream::connect_addr(&address);
            let _ = thread.join();
        }
    }
}

/// Takes a name; none if somebody has it.
fn bind(address: &SocketAddr) -> io::Result<Option<UnixListener>> {
    match UnixListener::bind_addr(address) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
        bound => bound.map(Some),
    }
}

/// Takes a name as soon as nobody has it; none if it has to stop before.
fn wait_for(address: &SocketAddr, stop: &AtomicBool) -> Option<UnixListener> {
    while !stop.load(Ordering::Acquire) {
        std::thread::park_timeout(NAME_LOOK);
        if let Some(listener) = bind(address).ok()? {
            return Some(listener);
        }
    }
    None
}

/// Answers everybody who connects, until it has to stop. The connection that wakes it for that may
/// have gone to another mount, which had the name a moment before.
fn listen(listener: &UnixListener, answering: &Arc<dyn Answering>, stop: &Arc<AtomicBool>) {
    let mut clients = Vec::new();
    while !stop.load(Ordering::Acquire) {
        let Ok((stream, _)) = listener.accept() else { break };
        if stop.load(Ordering::Acquire) {
            break;
        }
        clients.retain(|client: &JoinHandle<()>| !client.is_finished());
        let (answering, stop) = (answering.clone(), stop.clone());
        clients.push(std::thread::spawn(move || {
            if let Err(error) = serve(&stream, &*answering, &stop) {
                log::info!("a request to the mount: {error}");
            }
        }));
    }
    for client in clients {
        let _ = client.join();
    }
}

/// Returns true if the process at the other end belongs to root or to the user of this one, or is
/// `server`.
#[cfg(target_os = "linux")]
fn is_trusted(stream: &UnixStream, server: Option<&Server>) -> bool {
    let own = rustix::process::geteuid();
    rustix::net::sockopt::socket_peercred(stream).is_ok_and(|peer| {
        peer.uid.is_root() || peer.uid == own || server.is_some_and(|server| server.is(&peer))
    })
}

/// Returns false: nobody can be known.
#[cfg(not(target_os = "linux"))]
fn is_trusted(_: &UnixStream, _: Option<&Server>) -> bool {
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
fn serve(stream: &UnixStream, answering: &dyn Answering, stop: &AtomicBool) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(REQUEST_MAX)).read_line(&mut line)?;
    let request: Request = serde_json::from_str(&line)?;
    if answering.has_ended() {
        return send(stream, &Answer::Ended);
    }
    if !is_trusted(stream, None) && !answering.is_for_all(&request) {
        let refused = match request {
            Request::Unmount => {
                "another user has mounted it; only that user and root can unmount it, unless it was mounted \
                 with the option users"
            }
            _ => "only root and the user of the mount can change it or ask about it",
        };
        return send(stream, &Answer::Failed(refused.into()));
    }
    log::info!("asked of the mount: {request:?}");
    let mut report = |Progress { done, total }| {
        if stop.load(Ordering::Acquire) {
            return Err(Error::new("it is being unmounted"));
        }
        if has_hung_up(stream) || send(stream, &Answer::Progress(done, total)).is_err() {
            return Err(Error::new("interrupted"));
        }
        Ok(())
    };
    let answer = match answering.answer(&request, &mut report) {
        Ok(outcome) => Answer::Done(outcome),
        Err(error) => Answer::Failed(error.to_string()),
    };
    send(stream, &answer)
}

/// Returns true if an error says that the other end has closed the connection without reading the
/// whole request: at a reset there was something left to read (unix(7)). So nothing was done.
fn is_unread(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

/// Asks the process that serves a mount. Returns none if there is no such mount, or it has ended,
/// also if it ends before it reads the request.
///
/// # Errors
/// Why it was not done; that of `report`, which interrupts the work.
pub fn request<T: DeserializeOwned>(
    name: &Name,
    request: &Request,
    report: &mut Report<'_>,
) -> Result<Option<T>> {
    let Ok(stream) = name.address().and_then(|address| UnixStream::connect_addr(&address)) else {
        return Ok(None);
    };
    if !is_trusted(&stream, Some(&name.server)) {
        return Ok(None);
    }
    let failed = |error: io::Error| Error::new(format!("the process that serves the mount: {error}"));
    stream.set_read_timeout(Some(LOOK)).map_err(failed)?;
    match send(&stream, request) {
        Err(error) if is_unread(&error) => return Ok(None),
        sent => sent.map_err(failed)?,
    }
    let mut reader = BufReader::new(&stream);
    let (mut line, mut last, mut interrupted) = (Vec::new(), Progress::default(), None);
    loop {
        match reader.read_until(b'\n', &mut line) {
            Ok(_) if line.ends_with(b"\n") => {
                let answer = serde_json::from_slice(&line).map_err(|error| failed(error.into()))?;
                line.clear();
                match answer {
                    Answer::Progress(done, total) => last = Progress { done, total },
                    Answer::Done(outcome) => {
                        return serde_json::from_value(outcome)
                            .map(Some)
                            .map_err(|error| failed(error.into()));
                    }
                    Answer::Ended => return interrupted.map_or(Ok(None), Err),
                    Answer::Failed(reason) => return Err(interrupted.unwrap_or_else(|| Error::new(reason))),
                }
            }
            Ok(_) => {
                let ended = || failed(io::ErrorKind::UnexpectedEof.into());
                return Err(interrupted.unwrap_or_else(ended));
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(error) if is_unread(&error) => return interrupted.map_or(Ok(None), Err),
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Answers with a number; it has ended if that is 0.
    struct Numbered(u64);

    impl Answering for Numbered {
        fn answer(&self, _request: &Request, _report: &mut Report<'_>) -> Result<Value> {
            Ok(self.0.into())
        }

        fn is_for_all(&self, _request: &Request) -> bool {
            false
        }

        fn has_ended(&self) -> bool {
            self.0 == 0
        }
    }

    /// Promise: a mount that gets its name only when it has to end already ends all the same: what
    /// wakes it went to the mount that had the name before.
    #[test]
    fn a_name_that_comes_too_late() {
        let name = Name::of_mount(&format!("test-late-{}", std::process::id()), 0);
        let listener = bind(&name.address().unwrap()).unwrap().unwrap();
        let (ended, end) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let answering: Arc<dyn Answering> = Arc::new(Numbered(1));
            listen(&listener, &answering, &Arc::new(AtomicBool::new(true)));
            let _ = ended.send(());
        });
        assert!(end.recv_timeout(Duration::from_secs(60)).is_ok(), "it waits for a connection");
    }

    /// Promise: a mount whose name another one still has is asked under it once that is gone, and
    /// ends at once also while it waits. One that has ended does not answer any more.
    #[test]
    fn a_name_is_taken_over() {
        let user = rustix::process::geteuid().as_raw();
        let name = Name::of_mount(&format!("test-{}", std::process::id()), user);
        let start = |number| {
            let answering: Arc<dyn Answering> = Arc::new(Numbered(number));
            Service::start(std::slice::from_ref(&name), &answering).unwrap()
        };
        let ask = || request::<u64>(&name, &Request::Describe, &mut |_| Ok(())).unwrap();
        assert_eq!(ask(), None);
        let (first, second, third) = (start(1), start(2), start(3));
        assert_eq!(ask(), Some(1));
        assert!(name.is_taken());
        drop(third);
        drop(first);
        while ask().is_none() {
            std::thread::yield_now();
        }
        assert_eq!(ask(), Some(2));
        drop(second);
        assert_eq!(ask(), None);
        let ended = start(0);
        assert!(!name.is_taken());
        assert_eq!(ask(), None, "it does not answer for the next one");
        drop(ended);
    }

    /// Promise: a request that nobody has read is one that nobody carries out, so it counts as if
    /// there were no mount; one that was read, and never answered, is an error.
    #[test]
    fn requests_to_a_mount_that_ends_were_read_or_not() {
        let user = rustix::process::geteuid().as_raw();
        let name = Name::of_mount(&format!("test-ends-{}", std::process::id()), user);
        let ask = || request::<u64>(&name, &Request::Describe, &mut |_| Ok(()));
        for _ in 0..100 {
            let listener = bind(&name.address().unwrap()).unwrap().expect("a free name");
            let accepting = std::thread::spawn(move || drop(listener.accept().unwrap()));
            assert_eq!(ask().unwrap(), None);
            accepting.join().unwrap();
        }
        let listener = bind(&name.address().unwrap()).unwrap().expect("a free name");
        let reading = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            BufReader::new(stream).read_line(&mut String::new()).unwrap();
        });
        ask().unwrap_err();
        reading.join().unwrap();
    }
}
