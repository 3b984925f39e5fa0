//! What the process that serves a mount does when it is asked to.

use serde_json::Value;
use spindle::control::{Answering, Request};
use spindle::growfs::Resize;
use spindle::mounted::MountedImage;
use spindle::quota::QuotaFiles;
use spindle::set::Report;
use spindle::{Error, OpenOptions, Result};
use spindle_clock::{Clock, Mutex, SystemClock};
use spindle_fuse::{MountOptions, Remounter};
use spindle_vfs::Ino;
use std::sync::Arc;
use std::time::Duration;

/// How often, and how many times, one looks whether the kernel has let go of removed files.
const FORGET_LOOK: Duration = Duration::from_millis(50);
const FORGET_TRIES: u32 = 20;

/// A mount that this process serves.
pub struct Mount {
    image: Arc<MountedImage>,
    remounter: Remounter,
    options: Mutex<MountOptions>,
    /// The settings with which the image was opened.
    opened: OpenOptions,
}

impl Mount {
    /// Returns the mount of `image`, which was opened as `opened` says, with its options.
    pub fn new(
        image: Arc<MountedImage>,
        remounter: Remounter,
        options: MountOptions,
        opened: OpenOptions,
    ) -> Self {
        Self { image, remounter, options: Mutex::new(options), opened }
    }

    /// Changes the mount as these options of `-o` say. To make it read-only the kernel comes first:
    /// it refuses if files are open for writing, and sends all data that it has kept. To make it
    /// writable the image comes first.
    fn remount(&self, text: &str) -> Result<()> {
        let failed = |error: spindle_fuse::Error| {
            let why =
                if error.is_busy() { ": files are open for writing, or are open and removed" } else { "" };
            Error::new(format!("{error}{why}"))
        };
        let mut options = self.options.lock();
        let new = options.remounted(text).map_err(failed)?;
        if !rustix::process::geteuid().is_root() {
            return Err(Error::new("only a mount by root can be remounted; unmount it, and mount it again"));
        }
        match (options.read_only, new.read_only) {
            (false, true) => {
                self.remounter.remount(&new).map_err(failed)?;
                self.reopen(&new)?;
            }
            (true, false) => {
                self.reopen(&new)?;
                if let Err(error) = self.remounter.remount(&new).map_err(failed) {
                    self.reopen(&options)?;
                    return Err(error);
                }
            }
            _ => {
                self.remounter.remount(&new).map_err(failed)?;
                self.image.set_atime(new.atime);
                if quota_files(&new) != quota_files(&options)
                    && let Err(error) = self.reopen(&new)
                {
                    self.reopen(&options)?;
                    return Err(error);
                }
            }
        }
        *options = new;
        Ok(())
    }

    /// Makes the file system larger.
    fn grow(&self, size: Option<u64>, force: bool, report: &mut Report<'_>) -> Result<Resize> {
        let options = self.options.lock();
        if options.read_only {
            return Err(Error::new("it is mounted read-only; unmount it, or remount it with rw"));
        }
        let growing = self.image.plan_growth(size, force)?;
        if growing.growth.is_nothing() {
            return Ok(growing.growth);
        }
        let open = self.open_options(&options);
        self.while_paused(|references| self.image.grow(&growing, &open, references, report))
    }

    /// Makes a snapshot that has all that programs have written, and shows its name.
    fn make_snapshot(&self, path: &[u8]) -> Result<()> {
        if let Err(error) = self.remounter.write_back() {
            return Err(Error::new(format!(
                "no snapshot, because the kernel keeps what was written: {error}"
            )));
        }
        let dir = self.image.make_snapshot(path)?;
        self.show(dir, path);
        Ok(())
    }

    /// Has the kernel look again at the name of a snapshot in a directory.
    fn show(&self, dir: Ino, path: &[u8]) {
        let name = path.rsplit(|&byte| byte == b'/').find(|name| !name.is_empty()).unwrap_or_default();
        self.remounter.show_name(dir, name);
    }

    /// Opens the image again as the options say.
    fn reopen(&self, options: &MountOptions) -> Result<()> {
        let open = self.open_options(options);
        self.while_paused(|references| self.image.reopen(&open, references))
    }

    fn open_options(&self, options: &MountOptions) -> OpenOptions {
        OpenOptions {
            read_only: options.read_only,
            force: options.force,
            atime: options.atime,
            quotas: quota_files(options),
            ..self.opened.clone()
        }
    }

    /// Calls `work` while no request is served. Before, the kernel has let go of the files that
    /// were removed, unless they stay open.
    fn while_paused<T>(&self, work: impl FnOnce(&[(Ino, u64)]) -> T) -> T {
        let mut tries = 0;
        let is_ready = |references: &[(Ino, u64)]| !self.image.has_removed(references);
        while tries < FORGET_TRIES && !self.remounter.while_paused(is_ready) {
            SystemClock.sleep(FORGET_LOOK);
            tries += 1;
        }
        self.remounter.while_paused(work)
    }
}

/// Returns the quotas that the options turn on.
pub fn quota_files(options: &MountOptions) -> QuotaFiles {
    QuotaFiles { user: options.user_quota.clone(), group: options.group_quota.clone() }
}

impl Answering for Mount {
    fn answer(&self, request: &Request, report: &mut Report<'_>) -> Result<Value> {
        let done = match request {
            Request::Members(change) => serde_json::to_value(self.image.change_members(change, report)?),
            Request::Tune(tuning) => serde_json::to_value(self.image.tune(tuning)?),
            Request::Quota(task) => serde_json::to_value(self.image.quota(task, report)?),
            Request::Snapshot(path) => {
                self.make_snapshot(path)?;
                Ok(Value::Null)
            }
            Request::RemoveSnapshot(path) => {
                self.show(self.image.remove_snapshot(path)?, path);
                Ok(Value::Null)
            }
            Request::Snapshots => serde_json::to_value(self.image.snapshots(report)?),
            Request::Unmount => {
                self.remounter.unmount().map_err(|error| Error::new(error.to_string()))?;
                Ok(Value::Null)
            }
            Request::Grow { size, force } => serde_json::to_value(self.grow(*size, *force, report)?),
            Request::Describe => {
                let (dir, detached) = (self.remounter.mount_point(), self.remounter.is_detached());
                serde_json::to_value(self.image.describe(dir, &self.remounter.device(), detached)?)
            }
            Request::Remount(text) => {
                self.remount(text)?;
                Ok(Value::Null)
            }
        };
        done.map_err(|error| Error::new(error.to_string()))
    }

    fn has_ended(&self) -> bool {
        self.remounter.has_ended()
    }

    fn is_for_all(&self, request: &Request) -> bool {
        matches!(request, Request::Unmount) && self.options.lock().any_user_unmounts
    }
}
