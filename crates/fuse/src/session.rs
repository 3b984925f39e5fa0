//! A mount being served.
//!
//! Who does what: the worker threads of the connection answer requests; the *reaper* waits for them
//! to end, which they do when the kernel has unmounted; the *commit timer* makes changes durable
//! (`sync(2)` reaches mounts of block devices only). [`Session::join`] waits for the end. Nobody
//! but the caller calls [`FileSystem::unmount`], and only after `join`.
//!
//! Ending a mount from inside ([`Unmounter::stop`], for signals) must cope with users who do not
//! let go: late pages are asked for first, then the mount is taken out of sight, and if it is still
//! in use after a time of grace, `join` returns nevertheless; what the last users do then is
//! refused or fails with the daemon's end.

use crate::kernel::{self, KernelMount, Unmount};
use crate::later::Later;
use crate::mountinfo::{self, MountDevice};
use crate::protocol::{Connection, Handler};
use crate::server::{MAX_REQUEST_BYTES, PROBE, Server, Upkeep};
use crate::{Error, MountOptions, Result};
use spindle_clock::{Condvar, Mutex};
use spindle_vfs::{FileSystem, Observer};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long users may keep files open after a signal has asked for the end.
const GRACE: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct State {
    /// The worker threads have ended, so.
    ended: Option<io::Result<()>>,
    /// The time of grace is over.
    given_up: bool,
}

#[derive(Debug)]
struct Shared {
    mount_point: PathBuf,
    device: MountDevice,
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn is_over(state: &State) -> bool {
        state.ended.is_some() || state.given_up
    }
}

/// A mount being served. Dropping it unmounts, and waits for nothing.
pub struct Session {
    shared: Arc<Shared>,
    fs: Arc<dyn FileSystem>,
    upkeep: Arc<Upkeep>,
    /// Gives the first failure.
    commit_timer: Option<JoinHandle<spindle_vfs::Result<()>>>,
    /// The kernel has mounted a block device.
    is_block: bool,
    /// `fusermount3` unmounts when this closes.
    auto_unmount: Option<UnixStream>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("shared", &self.shared).finish_non_exhaustive()
    }
}

/// Ends a session from another thread.
#[derive(Clone, Debug)]
pub struct Unmounter(Arc<Shared>);

/// Mounts `fs` on the directory `mount_point` and serves it from threads of its own. `source` is
/// what `mount` and `df` show unless the options name something else. Whoever is to be told of what
/// is done with the files is `observer`; then each opening and closing takes a request.
///
/// # Errors
/// When the directory or the options do not allow it, or the kernel or `fusermount3` refuses.
pub fn mount(
    fs: Arc<dyn FileSystem>,
    mount_point: &Path,
    source: &str,
    options: &MountOptions,
    observer: Option<Arc<dyn Observer>>,
) -> Result<Session> {
    let mount_point =
        mountinfo::canonical(mount_point).map_err(|e| Error::mount("mount on", mount_point, e))?;
    if !mount_point.is_dir() {
        return Err(Error::mount("mount on", &mount_point, nix::errno::Errno::ENOTDIR));
    }
    let mut options = options.clone();
    options.read_only |= fs.read_only();
    let source = options.fsname.as_deref().unwrap_or(source);
    let KernelMount { fd, device, is_block, auto_unmount } = kernel::mount(&mount_point, source, &options)?;

    let upkeep = Arc::new(Upkeep::default());
    let is_observed = observer.is_some();
    let server = Server::new(Arc::clone(&fs), &options, Arc::clone(&upkeep), observer);
    let connection = match Connection::open(fd, |terms| server.agree(terms)) {
        Ok(connection) => connection,
        Err(source) => {
            let _ = kernel::unmount(&mount_point, device, Unmount::Detach);
            return Err(Error::mount("serve", &mount_point, source));
        }
    };
    let notifier = connection.notifier();
    upkeep.notifier.get_or_init(|| notifier.clone());
    let shared = Arc::new(Shared { mount_point, device, state: Mutex::default(), changed: Condvar::new() });
    let mut session = Session {
        shared: Arc::clone(&shared),
        fs: Arc::clone(&fs),
        upkeep: Arc::clone(&upkeep),
        commit_timer: None,
        is_block,
        auto_unmount,
    };
    for (name, queue) in
        [("fuse-seek", Upkeep::seeks as fn(&Upkeep) -> &Later), ("fuse-retry", Upkeep::retries)]
    {
        let (upkeep, notifier) = (Arc::clone(&upkeep), notifier.clone());
        spawn(name, move || queue(&upkeep).run(&notifier))?;
    }
    let (server, threads) = (Arc::new(server) as Arc<dyn Handler>, options.threads);
    let (ended, ended_upkeep) = (Arc::clone(&shared), Arc::clone(&upkeep));
    spawn("fuse-reaper", move || {
        let result = connection.serve(&server, threads);
        ended_upkeep.seeks().close();
        ended_upkeep.retries().close();
        ended.state.lock().ended = Some(result);
        ended.changed.notify_all();
    })?;
    if !options.read_only {
        let period = options.commit;
        let timer = move || commit(&*fs, &shared, &upkeep.changed, period);
        session.commit_timer = Some(spawn("fuse-commit", timer)?);
    }
    session.prepare_kernel(is_observed);
    Ok(session)
}

fn spawn<T: Send + 'static>(name: &str, run: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    let thread = thread::Builder::new().name(name.into());
    thread.spawn(run).map_err(|e| Error::system(format!("cannot start thread {name}"), e))
}

/// Makes changes durable every `period` until the session is over. Only the first failure is told,
/// here and to who waits for the end: what was reported done may be lost then, whatever comes
/// later.
fn commit(
    fs: &dyn FileSystem,
    shared: &Shared,
    changed: &AtomicBool,
    period: Duration,
) -> spindle_vfs::Result<()> {
    let mut outcome = Ok(());
    loop {
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
    /// Returns where it is mounted: absolute, without links.
    #[must_use]
    pub fn mount_point(&self) -> &Path {
        &self.shared.mount_point
    }

    pub(crate) fn device(&self) -> MountDevice {
        self.shared.device
    }

    /// For ending the session from elsewhere.
    #[must_use]
    pub fn unmounter(&self) -> Unmounter {
        Unmounter(Arc::clone(&self.shared))
    }

    /// Waits until it is unmounted, by whomever. Then the caller calls [`FileSystem::unmount`].
    ///
    /// # Errors
    /// When the connection with the kernel broke off otherwise than by unmounting, when changes
    /// could not be made durable in time, or when data that was written late could not be kept.
    pub fn join(mut self) -> Result<()> {
        let kept = |()| self.upkeep.losses.told_at_the_end(&*self.fs);
        let result = self.wait().and_then(kept);
        match self.commit_timer.take().map(JoinHandle::join) {
            Some(Err(_)) => Err(Error::State("the commit timer died".into())),
            Some(Ok(durable)) => result.and(durable.map_err(Error::from)),
            None => result,
        }
    }

    /// Unmounts and waits for the end. Then the caller calls [`FileSystem::unmount`].
    ///
    /// # Errors
    /// When it is in use; the mount then stays as it is.
    pub fn unmount(&self) -> Result<()> {
        self.unmounter().unmount()?;
        self.wait()
    }

    fn wait(&self) -> Result<()> {
        let mut state = self.shared.state.lock();
        while !Shared::is_over(&state) {
            self.shared.changed.wait(&mut state);
        }
        self.upkeep.nodes.give_back(&*self.fs);
        match &state.ended {
            Some(Err(error)) => Err(Error::Session {
                path: self.shared.mount_point.clone(),
                source: io::Error::new(error.kind(), error.to_string()),
            }),
            _ => Ok(()),
        }
    }

    /// What can be set up only through the mount. None of it is needed for anything but speed.
    fn prepare_kernel(&self, is_observed: bool) {
        // The kernel starts FUSE mounts at 128 KiB of read-ahead, and INIT can only lower it. Only
        // root may raise it.
        let read_ahead = (4 * MAX_REQUEST_BYTES / 1024).to_string();
        // A block device has an entry of its own beside that of its mount.
        let kind = if self.is_block { "-fuseblk" } else { "" };
        let path = format!("/sys/class/bdi/{}{kind}/read_ahead_kb", self.shared.device);
        if let Err(error) = std::fs::write(&path, read_ahead) {
            log::debug!("read-ahead stays small: {path}: {error}");
        }
        // An observer wants to hear of openings.
        if is_observed {
            return;
        }
        if let Err(error) = std::fs::File::open(self.shared.mount_point.join(PROBE)) {
            log::debug!("created files will be released with a request: {error}");
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !Shared::is_over(&self.shared.state.lock()) {
            let _ = kernel::unmount(&self.shared.mount_point, self.shared.device, Unmount::Detach);
        }
        drop(self.auto_unmount.take());
    }
}

impl Unmounter {
    /// Unmounts if nothing is in use.
    ///
    /// # Errors
    /// [`Error::Mount`] when it is in use.
    pub fn unmount(&self) -> Result<()> {
        kernel::unmount(&self.0.mount_point, self.0.device, Unmount::Unused)
    }

    /// Ends the session even if files are in use: see the head of this module. Must not be called
    /// while a request waits for the caller.
    pub fn stop(&self) {
        let shared = &self.0;
        if let Err(error) = write_back(&shared.mount_point) {
            log::warn!("{}: cannot write back: {error}", shared.mount_point.display());
        }
        if self.unmount().is_err() {
            log::warn!("{} is in use; taking it out of sight", shared.mount_point.display());
            if let Err(error) = kernel::unmount(&shared.mount_point, shared.device, Unmount::Detach) {
                log::error!("{error}");
            }
        }
        let mut state = shared.state.lock();
        if !Shared::is_over(&state) {
            shared.changed.wait_for(&mut state, GRACE);
        }
        if !Shared::is_over(&state) {
            log::warn!("{} is still in use; ending nevertheless", shared.mount_point.display());
            state.given_up = true;
            shared.changed.notify_all();
        }
    }
}

/// Has the kernel write back the late pages of files that stay open.
fn write_back(mount_point: &Path) -> io::Result<()> {
    let root = std::fs::File::open(mount_point)?;
    Ok(nix::unistd::syncfs(&root)?)
}
