//! A mount in the hands of a test: its daemon is a child process that can be killed or halted at
//! any moment.
//!
//! To kill the daemon leaves in the image every write that the system had taken, each whole but for
//! the last one of each thread: the order of writes is put to the test, not whether they were
//! flushed. An image that is copied while the daemon is halted is the same without an end.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use spindle_clock::{Clock, SystemClock};
use tempfile::TempDir;

use crate::spindle::{Watchdog, binary, cut_off, umount};
use crate::{Failure, Result};

/// How often a process is looked at that is waited for.
const GLANCE: Duration = Duration::from_millis(2);

/// A mount with its daemon. Dropping it kills the daemon.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    directory: TempDir,
    /// Where the daemon says that the mount is live.
    live: UnixDatagram,
    _watchdog: Watchdog,
}

impl Daemon {
    /// Mounts `image` on a directory of its own. A log is carried out first if the image needs it.
    ///
    /// # Errors
    /// What the daemon said.
    pub fn start(image: &Path, options: &str) -> Result<Self> {
        let mut daemon = Self::begin(image, options)?;
        let mut message = [0; 64];
        while daemon.live.recv(&mut message).is_err() {
            if let Some(status) = daemon.child.try_wait().map_err(Failure::of("spindle mount"))? {
                let said = fs::read_to_string(daemon.directory.path().join("said")).unwrap_or_default();
                return Err(Failure::new(format!("spindle mount: {status}: {}", said.trim_end())));
            }
        }
        Ok(daemon)
    }

    /// Starts to mount `image`, and does not wait until the mount is live.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn begin(image: &Path, options: &str) -> Result<Self> {
        let directory = TempDir::new().map_err(Failure::of("temporary directory"))?;
        let place = |name: &str| directory.path().join(name);
        fs::create_dir(place("mount")).map_err(Failure::of("mount point"))?;
        let said = fs::File::create(place("said")).map_err(Failure::of("messages"))?;
        let live = UnixDatagram::bind(place("live")).map_err(Failure::of("socket"))?;
        live.set_read_timeout(Some(GLANCE)).map_err(Failure::of("socket"))?;
        let mut command = Command::new(binary());
        command.args(["mount", "--foreground", "-o", options]).arg(image).arg(place("mount"));
        command.env("NOTIFY_SOCKET", place("live")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        let child = command.spawn().map_err(Failure::of("spindle mount"))?;
        let watchdog = Watchdog::new(&place("mount"));
        Ok(Self { child, directory, live, _watchdog: watchdog })
    }

    /// Returns where it is mounted.
    #[must_use]
    pub fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("mount")
    }

    /// Returns the process number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the daemon and takes its mount away. Processes that still work in it fail from now on.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn kill(mut self) -> Result<()> {
        self.end().map(drop)
    }

    fn end(&mut self) -> Result<ExitStatus> {
        // The daemon may have ended already, or not have mounted yet.
        let _ = self.child.kill();
        // One that waits for its own mount cannot end before that is taken away.
        let _ = cut_off(&self.path());
        let status = self.child.wait().map_err(Failure::of("spindle mount"))?;
        let _ = cut_off(&self.path());
        Ok(status)
    }

    /// Halts the daemon while `look` looks at its image, which does not change meanwhile.
    ///
    /// # Errors
    /// Those of `look`; when the daemon is no more.
    pub fn halted<T>(&self, look: impl FnOnce() -> Result<T>) -> Result<T> {
        self.signal(Signal::STOP)?;
        while !self.stands_still()? {
            SystemClock.sleep(GLANCE);
        }
        let seen = look();
        self.signal(Signal::CONT)?;
        seen
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Failure::new("no process"))?;
        kill_process(pid, signal).map_err(Failure::of("spindle mount"))
    }

    /// Returns true if all its threads are stopped: none is amid a write.
    fn stands_still(&self) -> Result<bool> {
        let fail = |error| Failure::new(format!("threads of the daemon: {error}"));
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id())).map_err(fail)? {
            // A thread that has ended since stands still.
            let Ok(stat) = fs::read_to_string(task.map_err(fail)?.path().join("stat")) else { continue };
            let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
            if state != Some('T') {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Unmounts as a user does, and waits for the daemon's end.
    ///
    /// # Errors
    /// What `spindle umount` or the daemon said; the image may then not be clean.
    pub fn unmount(mut self) -> Result<()> {
        umount(&self.path())?;
        let status = self.child.wait().map_err(Failure::of("spindle mount"))?;
        if status.success() {
            return Ok(());
        }
        let said = fs::read_to_string(self.directory.path().join("said")).unwrap_or_default();
        Err(Failure::new(format!("spindle mount: {status}: {}", said.trim_end())))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) || thread::panicking() {
            let _ = self.end();
        }
    }
}
