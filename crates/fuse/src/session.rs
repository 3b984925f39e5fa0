//! A session: a mount that is being served.
//!
//! Its threads: the worker threads of the connection answer requests; the *reaper* waits for them
//! to end, which happens when the kernel has unmounted; the *commit timer* makes changes durable
//! (`sync(2)` reaches only mounts of block devices). [`Session::join`] waits for the end. The
//! caller must call [`FileSystem::unmount`], and only after `join`. The end is the end of the
//! connection or, of a mount of a block device, DESTROY. Who has called umount(2) waits for the
//! reply to it, which comes when the session is dropped, and so after the image is complete.
//!
//! [`Unmounter::stop`], which signals call, must end a mount that is in use. It makes the kernel
//! write back late pages and detaches the mount. If the mount is still in use after [`GRACE`],
//! `join` returns nevertheless; later accesses are refused, or fail when the daemon ends.

use crate::convert::NodeIds;
use crate::deferred::DeferredRequests;
use crate::kernel::{self, KernelMount, Unmount};
use crate::mountinfo::{self, MountDevice};
use crate::processes::Processes;
use crate::protocol::{Connection, Handler, NodeId, Notifier, Operation, Reply, Request};
use crate::server::{MAX_REQUEST_BYTES, PROBE, Server, ServerState};
use crate::waiting::retry_while_busy;
use crate::{Error, MountOptions, Result};
use spindle_clock::{Condvar, Mutex, SystemClock};
use spindle_vfs::{FileSystem, Ino, Observer};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Time for which processes may keep files open after a signal.
const GRACE: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct State {
    /// Result of the worker threads, after they have ended.
    ended: Option<io::Result<()>>,
    /// The reply that umount(2) waits for.
    destroyed: Option<Reply>,
    /// Nobody has to wait for the image: DESTROY is answered at once.
    released: bool,
    /// [`GRACE`] is over.
    given_up: bool,
    /// What became of the image, or the reason why it is not complete.
    outcome: Option<std::result::Result<(), String>>,
}

#[derive(Debug)]
struct Shared {
    mount_point: PathBuf,
    device: MountDevice,
    state: Mutex<State>,
    changed: Condvar,
    /// Maximum time from a change until it is durable.
    commit_period: Mutex<Duration>,
}

impl Shared {
    fn is_over(state: &State) -> bool {
        state.ended.is_some() || state.destroyed.is_some() || state.given_up
    }
}

/// The server, and the session whose end it notices.
struct Served {
    server: Server,
    shared: Arc<Shared>,
}

impl Handler for Served {
    fn answer(&self, request: &Request, operation: Operation<'_>, reply: Reply) {
        self.server.answer(request, operation, reply);
    }

    fn forget(&self, node: NodeId, count: u64) {
        self.server.forget(node, count);
    }

    fn destroy(&self, reply: Reply) {
        let mut state = self.shared.state.lock();
        if state.released {
            return reply.ok();
        }
        state.destroyed = Some(reply);
        self.shared.changed.notify_all();
    }
}

/// A mount that is being served. Dropping it detaches the mount without waiting, and ends the wait
/// of who has unmounted it.
pub struct Session {
    shared: Arc<Shared>,
    fs: Arc<dyn FileSystem>,
    server_state: Arc<ServerState>,
    /// Thread that makes changes durable; returns the first failure.
    commit_timer: Option<JoinHandle<spindle_vfs::Result<()>>>,
    /// The mount has the type `fuseblk`.
    is_block: bool,
    /// Socket to `fusermount3`, which unmounts when it is closed.
    auto_unmount: Option<UnixStream>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("shared", &self.shared).finish_non_exhaustive()
    }
}

/// Handle that changes the options of a mount while it is served.
#[derive(Clone)]
pub struct Remounter {
    shared: Arc<Shared>,
    server_state: Arc<ServerState>,
    ids: NodeIds,
}

/// Handle that ends a session from another thread.
#[derive(Clone, Debug)]
pub struct Unmounter(Arc<Shared>);

/// A mount that the kernel has made and that nobody serves yet. Who uses it waits; so this process
/// must not, until [`serve`](Self::serve) has returned: whatever is needed is open by then.
/// Dropping it takes it back.
pub struct Attachment {
    mount_point: PathBuf,
    source: String,
    options: MountOptions,
    processes: Processes,
    /// None when it has been taken back, or is served.
    kernel: Option<KernelMount>,
}

impl Attachment {
    /// Mounts on the directory `mount_point`. `mount` and `df` show `source` unless an option gives
    /// another name.
    ///
    /// # Errors
    /// If the directory or the options are invalid, or the kernel or `fusermount3` refuses.
    pub fn new(mount_point: &Path, source: &str, options: &MountOptions) -> Result<Self> {
        let mount_point =
            mountinfo::canonical(mount_point).map_err(|e| Error::mount("mount on", mount_point, e))?;
        if !mount_point.is_dir() {
            return Err(Error::mount("mount on", &mount_point, nix::errno::Errno::ENOTDIR));
        }
        let source = options.fsname.as_deref().unwrap_or(source).to_owned();
        let processes = Processes::open();
        let mut attachment = Self { mount_point, source, options: options.clone(), processes, kernel: None };
        attachment.attach()?;
        Ok(attachment)
    }

    fn attach(&mut self) -> Result<()> {
        self.kernel = Some(kernel::mount(&self.mount_point, &self.source, &self.options)?);
        Ok(())
    }

    fn detach(&mut self) {
        let Some(KernelMount { fd, device, auto_unmount, .. }) = self.kernel.take() else { return };
        // Without a server no request waits for an answer.
        drop(fd);
        if let Err(error) = kernel::unmount(&self.mount_point, device, Unmount::Detach) {
            log::warn!("{error}");
        }
        drop(auto_unmount);
    }

    /// Serves `fs` on it from threads of their own. `observer` is notified of the use of files;
    /// with an observer each open and close takes a request.
    ///
    /// # Errors
    /// If the kernel or `fusermount3` refuses a file system that can only be read.
    pub fn serve(mut self, fs: Arc<dyn FileSystem>, observer: Option<Arc<dyn Observer>>) -> Result<Session> {
        if fs.read_only() && !self.options.read_only {
            self.detach();
            self.options.read_only = true;
            self.attach()?;
        }
        let Some(kernel) = self.kernel.take() else {
            return Err(Error::State("the mount is gone".into()));
        };
        let processes = std::mem::take(&mut self.processes);
        start(kernel, fs, self.mount_point.clone(), &self.options, processes, observer)
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.detach();
    }
}

/// Mounts `fs` on the directory `mount_point` and serves it: [`Attachment::new`] and
/// [`Attachment::serve`] in one.
///
/// # Errors
/// Those of both.
pub fn mount(
    fs: Arc<dyn FileSystem>,
    mount_point: &Path,
    source: &str,
    options: &MountOptions,
    observer: Option<Arc<dyn Observer>>,
) -> Result<Session> {
    let (read_only, acls) = (options.read_only || fs.read_only(), fs.limits().acls);
    let options = MountOptions { read_only, acls, ..options.clone() };
    Attachment::new(mount_point, source, &options)?.serve(fs, observer)
}

/// Starts to serve a mount.
fn start(
    KernelMount { fd, device, is_block, auto_unmount }: KernelMount,
    fs: Arc<dyn FileSystem>,
    mount_point: PathBuf,
    options: &MountOptions,
    processes: Processes,
    observer: Option<Arc<dyn Observer>>,
) -> Result<Session> {
    let server_state = Arc::new(ServerState::default());
    let is_observed = observer.is_some();
    let server = Server::new(Arc::clone(&fs), options, Arc::clone(&server_state), processes, observer);
    let connection = match Connection::open(fd, |negotiation| server.negotiate(negotiation)) {
        Ok(connection) => connection,
        Err(source) => {
            let _ = kernel::unmount(&mount_point, device, Unmount::Detach);
            return Err(Error::mount("serve", &mount_point, source));
        }
    };
    if options.io_uring != Some(false) && !connection.uses_rings() {
        let level = if options.io_uring.is_some() { log::Level::Warn } else { log::Level::Info };
        log_why_no_rings(level, options.auto_unmount);
    }
    let notifier = connection.notifier();
    server_state.notifier.get_or_init(|| notifier.clone());
    let shared = Arc::new(Shared {
        mount_point,
        device,
        state: Mutex::default(),
        changed: Condvar::new(),
        commit_period: Mutex::new(options.commit),
    });
    let mut session = Session {
        shared: Arc::clone(&shared),
        fs: Arc::clone(&fs),
        server_state: Arc::clone(&server_state),
        commit_timer: None,
        is_block,
        auto_unmount,
    };
    for (name, queue) in [
        ("fuse-seek", ServerState::seeks as fn(&ServerState) -> &DeferredRequests),
        ("fuse-retry", ServerState::retries),
    ] {
        let (server_state, notifier) = (Arc::clone(&server_state), notifier.clone());
        spawn(name, move || queue(&server_state).run(&notifier))?;
    }
    let served = Served { server, shared: Arc::clone(&shared) };
    let (server, threads) = (Arc::new(served) as Arc<dyn Handler>, options.threads);
    let (ended, ended_state) = (Arc::clone(&shared), Arc::clone(&server_state));
    spawn("fuse-reaper", move || {
        let result = connection.serve(&server, threads);
        ended_state.seeks().close();
        ended_state.retries().close();
        ended.state.lock().ended = Some(result);
        ended.changed.notify_all();
    })?;
    // Also of a read-only mount, which a remount may change.
    let timer = move || commit(&*fs, &shared, &server_state.changed);
    session.commit_timer = Some(spawn("fuse-commit", timer)?);
    session.prepare_kernel(is_observed || kernel::server_checks(options));
    Ok(session)
}

/// Logs why requests do not come through `io_uring`, which would be faster.
fn log_why_no_rings(level: log::Level, auto_unmount: bool) {
    let why = match spindle_fuse_uring::is_switched_on() {
        None => "this kernel has no FUSE over io_uring (Linux 6.14 and newer)".to_owned(),
        Some(false) => format!(
            "the kernel has it switched off; root switches it on for later mounts with: echo Y > {}",
            spindle_fuse_uring::SWITCH
        ),
        Some(true) if auto_unmount => "auto_unmount needs /dev/fuse".to_owned(),
        // The reason has been logged.
        Some(true) => return,
    };
    log::log!(level, "requests come through /dev/fuse, which is slower than io_uring: {why}");
}

fn spawn<T: Send + 'static>(name: &str, run: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    let thread = thread::Builder::new().name(name.into());
    thread.spawn(run).map_err(|e| Error::system(format!("cannot start thread {name}"), e))
}

/// Makes changes durable every [`Shared::commit_period`] until the session is over. Logs and
/// returns only the first failure: after it, changes that were reported as done may be lost.
fn commit(fs: &dyn FileSystem, shared: &Shared, changed: &AtomicBool) -> spindle_vfs::Result<()> {
    let mut outcome = Ok(());
    loop {
        let period = *shared.commit_period.lock();
        {
            let mut state = shared.state.lock();
            if !Shared::is_over(&state) {
                shared.changed.wait_for(&mut state, period);
            }
            if Shared::is_over(&state) {
                return outcome;
            }
        }
        if changed.swap(false, Ordering::AcqRel)
            && let Err(error) = fs.sync()
            && outcome.is_ok()
        {
            log::error!("{}: cannot make changes durable: {error}", shared.mount_point.display());
            outcome = Err(error);
        }
    }
}

impl Session {
    /// Returns the mount point, an absolute path without symbolic links.
    #[must_use]
    pub fn mount_point(&self) -> &Path {
        &self.shared.mount_point
    }

    pub(crate) fn device(&self) -> MountDevice {
        self.shared.device
    }

    /// Returns a handle that ends the session from another thread.
    #[must_use]
    pub fn unmounter(&self) -> Unmounter {
        Unmounter(Arc::clone(&self.shared))
    }

    /// Returns a handle that changes the mount while it is served.
    #[must_use]
    pub fn remounter(&self) -> Remounter {
        let (shared, server_state) = (Arc::clone(&self.shared), Arc::clone(&self.server_state));
        Remounter { shared, server_state, ids: NodeIds::new(self.fs.root()) }
    }

    /// Waits until the mount is unmounted. The caller must then call [`FileSystem::unmount`].
    ///
    /// # Errors
    /// If the connection with the kernel failed, if changes could not be made durable in time,
    /// or if late writes were lost.
    pub fn join(&mut self) -> Result<()> {
        let kept = |()| self.server_state.lost_writes.report_at_end(&*self.fs);
        let result = self.wait().and_then(kept);
        match self.commit_timer.take().map(JoinHandle::join) {
            Some(Err(_)) => Err(Error::State("the commit thread panicked".into())),
            Some(Ok(durable)) => result.and(durable.map_err(Error::from)),
            None => result,
        }
    }

    /// Unmounts and waits for the end. The caller must then call [`FileSystem::unmount`].
    ///
    /// # Errors
    /// If it is in use; the mount is then unchanged.
    pub fn unmount(&self) -> Result<()> {
        self.release();
        self.unmounter().unmount()?;
        self.wait()
    }

    /// Lets umount(2) return before the image is complete: for a thread that calls it itself.
    pub(crate) fn release(&self) {
        let mut state = self.shared.state.lock();
        state.released = true;
        if let Some(reply) = state.destroyed.take() {
            state.ended.get_or_insert(Ok(()));
            reply.ok();
        }
    }

    /// Lets [`Remounter::unmount`] return what became of the image.
    pub(crate) fn report(&self, outcome: std::result::Result<(), String>) {
        self.shared.state.lock().outcome = Some(outcome);
        self.shared.changed.notify_all();
    }

    fn wait(&self) -> Result<()> {
        let mut state = self.shared.state.lock();
        while !Shared::is_over(&state) {
            self.shared.changed.wait(&mut state);
        }
        self.server_state.nodes.release_all(&*self.fs);
        match &state.ended {
            Some(Err(error)) => Err(Error::Session {
                path: self.shared.mount_point.clone(),
                source: io::Error::new(error.kind(), error.to_string()),
            }),
            _ => Ok(()),
        }
    }

    /// Sets kernel parameters that need the mount. They only affect speed.
    fn prepare_kernel(&self, opens_are_requests: bool) {
        // The kernel starts FUSE mounts with 128 KiB of read-ahead, and INIT can only lower
        // it. Only root may raise it.
        let read_ahead = (4 * MAX_REQUEST_BYTES / 1024).to_string();
        // A block device has its own entry besides that of its mount.
        let kind = if self.is_block { "-fuseblk" } else { "" };
        let path = format!("/sys/class/bdi/{}{kind}/read_ahead_kb", self.shared.device);
        if let Err(error) = std::fs::write(&path, read_ahead) {
            log::debug!("read-ahead stays small: {path}: {error}");
        }
        if opens_are_requests {
            return;
        }
        if let Err(error) = std::fs::File::open(self.shared.mount_point.join(PROBE)) {
            log::debug!("new files will send a release request: {error}");
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.release();
        if !Shared::is_over(&self.shared.state.lock()) {
            let _ = kernel::unmount(&self.shared.mount_point, self.shared.device, Unmount::Detach);
        }
        drop(self.auto_unmount.take());
    }
}

impl Remounter {
    /// Returns the device number of the mount, `major:minor`.
    #[must_use]
    pub fn device(&self) -> String {
        self.shared.device.to_string()
    }

    /// Returns true if the kernel has unmounted it, and perhaps given its device number to another
    /// mount, although it is still being closed.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.server_state.notifier.get().is_some_and(Notifier::has_ended)
    }

    /// Returns the mount point, an absolute path without symbolic links.
    #[must_use]
    pub fn mount_point(&self) -> &Path {
        &self.shared.mount_point
    }

    /// Unmounts for another process if nothing is in use, and waits until the image is complete.
    ///
    /// # Errors
    /// If it is in use ([`Error::is_busy`]), or if the image may be incomplete.
    pub fn unmount(&self) -> Result<()> {
        // This process calls umount(2), which must not wait for it.
        self.shared.state.lock().released = true;
        let unmounter = Unmounter(Arc::clone(&self.shared));
        if let Err(error) = retry_while_busy(&SystemClock, || unmounter.unmount()) {
            self.shared.state.lock().released = false;
            return Err(error);
        }
        let mut state = self.shared.state.lock();
        loop {
            match &state.outcome {
                Some(outcome) => return outcome.clone().map_err(Error::State),
                None => self.shared.changed.wait(&mut state),
            }
        }
    }

    /// Returns true if the file system is mounted nowhere that this process sees, and only still in
    /// use.
    #[must_use]
    pub fn is_detached(&self) -> bool {
        mountinfo::is_mounted(self.shared.device).is_ok_and(|is_mounted| !is_mounted)
    }

    /// Gives the mount what of `options` concerns the kernel and the commits. Before it becomes
    /// read-only, the kernel sends all data that it has kept.
    ///
    /// # Errors
    /// If the user is not root, or if it is to become read-only and is in use for writing
    /// ([`Error::is_busy`]).
    pub fn remount(&self, options: &MountOptions) -> Result<()> {
        kernel::remount(&self.shared.mount_point, self.shared.device, options)?;
        *self.shared.commit_period.lock() = options.commit;
        Ok(())
    }

    /// Calls `work` while no request is served, with the inodes to which the kernel has references
    /// and their number.
    pub fn while_paused<T>(&self, work: impl FnOnce(&[(Ino, u64)]) -> T) -> T {
        let _paused = self.server_state.serving.write();
        work(&self.server_state.nodes.references())
    }

    /// Has the kernel send what programs have written, also through mappings, and it has kept. Do
    /// not call it while a request waits for the caller.
    ///
    /// # Errors
    /// System errors.
    pub fn write_back(&self) -> Result<()> {
        let failed = |source| Error::Session { path: self.shared.mount_point.clone(), source };
        write_back(&self.shared.mount_point).map_err(failed)
    }

    /// Has the kernel look at a name again that this process has made or removed in a directory: it
    /// may know what was there, and how the directory was.
    pub fn show_name(&self, dir: Ino, name: &[u8]) {
        const NO_PAGES: i64 = -1;
        let Some(notifier) = self.server_state.notifier.get() else { return };
        let dir = self.ids.node(dir);
        let sent = notifier.inval_entry(dir, name).and_then(|()| notifier.inval_inode(dir, NO_PAGES));
        if let Err(error) = sent {
            log::warn!("the kernel may not show {}: {error}", name.escape_ascii());
        }
    }
}

impl Unmounter {
    /// Unmounts if nothing is in use.
    ///
    /// # Errors
    /// [`Error::Mount`] if it is in use.
    pub fn unmount(&self) -> Result<()> {
        kernel::unmount(&self.0.mount_point, self.0.device, Unmount::Unused)
    }

    /// Ends the session even if files are in use; see the top of this module. Do not call it
    /// while a request waits for the caller.
    pub fn stop(&self) {
        let shared = &self.0;
        if let Err(error) = write_back(&shared.mount_point) {
            log::warn!("{}: cannot write back late pages: {error}", shared.mount_point.display());
        }
        if self.unmount().is_err() {
            log::warn!("{} is in use; detaching it", shared.mount_point.display());
            if let Err(error) = kernel::unmount(&shared.mount_point, shared.device, Unmount::Detach) {
                log::error!("{error}");
            }
        }
        let mut state = shared.state.lock();
        if !Shared::is_over(&state) {
            shared.changed.wait_for(&mut state, GRACE);
        }
        if !Shared::is_over(&state) {
            log::warn!("{} is still in use; stopping anyway", shared.mount_point.display());
            state.given_up = true;
            shared.changed.notify_all();
        }
    }
}

/// Makes the kernel write back the late pages of open files.
fn write_back(mount_point: &Path) -> io::Result<()> {
    let root = std::fs::File::open(mount_point)?;
    Ok(nix::unistd::syncfs(&root)?)
}
