//! A model file system mounted on a temporary directory, which is always unmounted.

use crate::common::{WRITE_MODES, Watchdog, big_model, can_mount};
use spindle_clock::TickClock;
use spindle_conformance::model::{ModelFs, ModelOptions};
use spindle_fuse::{MountOptions, Session, mount};
use spindle_vfs::FileSystem;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// A mounted model.
pub struct Mounted {
    pub fs: Arc<ModelFs>,
    session: Option<Session>,
    options: MountOptions,
    dir: TempDir,
    _watchdog: Watchdog,
}

/// Runs a test on a mount with these options and each mode of writing.
pub fn in_both_modes(words: &str, test: impl Fn(Mounted)) {
    for mode in WRITE_MODES {
        if let Some(mounted) = Mounted::new(&format!("{words},{mode}")) {
            println!("{mode}");
            test(mounted);
        }
    }
}

impl Mounted {
    pub fn new(words: &str) -> Option<Self> {
        Self::with_model(words, big_model())
    }

    pub fn with_model(words: &str, model: ModelOptions) -> Option<Self> {
        let mut options = MountOptions::default();
        options.parse(words).unwrap();
        Self::with_options(options, model)
    }

    /// Mounts a model. The options in `SPINDLE_MOUNT_OPTIONS` count as well.
    pub fn with_options(mut options: MountOptions, model: ModelOptions) -> Option<Self> {
        if let Ok(words) = std::env::var("SPINDLE_MOUNT_OPTIONS") {
            options.parse(&words).unwrap();
        }
        if !can_mount() {
            return None;
        }
        let dir = tempfile::Builder::new().prefix("spindle-fuse").tempdir().unwrap();
        let watchdog = Watchdog::over(vec![dir.path().to_owned()]);
        let fs = Arc::new(ModelFs::new(model, Arc::new(TickClock)));
        let mut mounted = Self { fs, session: None, options, dir, _watchdog: watchdog };
        mounted.mount(Arc::clone(&mounted.fs) as _);
        Some(mounted)
    }

    /// Mounts `fs` in place of the model.
    pub fn replace(&mut self, fs: Arc<dyn FileSystem>) {
        self.unmount();
        self.mount(fs);
    }

    fn mount(&mut self, fs: Arc<dyn FileSystem>) {
        self.session = Some(mount(fs, self.dir.path(), "model", &self.options, None).unwrap());
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn session(&self) -> &Session {
        self.session.as_ref().unwrap()
    }

    pub fn unmount(&mut self) {
        self.end().unwrap();
    }

    /// Unmounts, and returns the result of the session.
    pub fn end(&mut self) -> spindle_fuse::Result<()> {
        let mut session = self.session.take().unwrap();
        end(&session);
        session.join()
    }

    /// Mounts again after [`Self::end`].
    pub fn remount_ended(&mut self) {
        self.mount(Arc::clone(&self.fs) as _);
    }

    /// Unmounts and mounts again, which empties the kernel's caches.
    pub fn remount(&mut self) {
        self.replace(Arc::clone(&self.fs) as _);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            end(&session);
        }
    }
}

/// Unmounts as soon as nothing is in use. Another test may be starting a program, which holds
/// copies of all open descriptors until it runs.
fn end(session: &Session) {
    while let Err(error) = session.unmount() {
        if !error.to_string().contains("busy") {
            eprintln!("{error}");
            return;
        }
        std::thread::yield_now();
    }
}
