//! A model file system on a temporary directory, which is unmounted whatever happens.

use nix::mount::{MntFlags, umount2};
use spindle_clock::{Condvar, Mutex, SystemClock};
use spindle_fuse::{MountOptions, Session, mount};
use spindle_vfs::FileSystem;
use spindle_vfs::model::{ModelFs, ModelOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// After so long a test counts as hanging.
const LIMIT: Duration = Duration::from_secs(120);

/// Aborts the test process, and the mounts it would hang on, unless it is dropped in time.
pub struct Watchdog(Arc<(Mutex<bool>, Condvar)>);

impl Watchdog {
    pub fn over(mounts: Vec<PathBuf>) -> Self {
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        let state = Arc::clone(&shared);
        std::thread::spawn(move || {
            let mut done = state.0.lock();
            while !*done {
                if state.1.wait_for(&mut done, LIMIT) && !*done {
                    eprintln!("hanging: {mounts:?}");
                    for dir in &mounts {
                        let _ = umount2(dir, MntFlags::MNT_FORCE | MntFlags::MNT_DETACH);
                    }
                    std::process::abort();
                }
            }
        });
        Self(shared)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
    }
}

/// Whether mounted tests can run: not without `/dev/fuse` or root. Where `CI` is set that is a failure.
pub fn can_mount() -> bool {
    let possible = Path::new("/dev/fuse").exists() && nix::unistd::geteuid().is_root();
    assert!(possible || std::env::var_os("CI").is_none(), "mounted tests need root and /dev/fuse");
    if !possible {
        eprintln!("skipped: mounted tests need root and /dev/fuse");
    }
    possible
}

/// A mounted model.
pub struct Mounted {
    pub fs: Arc<ModelFs>,
    session: Option<Session>,
    options: MountOptions,
    dir: TempDir,
    _watchdog: Watchdog,
}

impl Mounted {
    pub fn new(words: &str) -> Option<Self> {
        Self::with_model(words, big_model())
    }

    pub fn with_model(words: &str, model: ModelOptions) -> Option<Self> {
        if !can_mount() {
            return None;
        }
        let mut options = MountOptions::default();
        options.parse(words).unwrap();
        let dir = tempfile::Builder::new().prefix("spindle-fuse").tempdir().unwrap();
        let watchdog = Watchdog::over(vec![dir.path().to_owned()]);
        let fs = Arc::new(ModelFs::new(model, Arc::new(SystemClock)));
        let mut mounted = Self { fs, session: None, options, dir, _watchdog: watchdog };
        mounted.mount();
        Some(mounted)
    }

    fn mount(&mut self) {
        let fs: Arc<dyn FileSystem> = Arc::clone(&self.fs) as _;
        self.session = Some(mount(fs, self.dir.path(), "model", &self.options).unwrap());
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn session(&self) -> &Session {
        self.session.as_ref().unwrap()
    }

    pub fn unmount(&mut self) {
        let session = self.session.take().unwrap();
        session.unmount().unwrap();
        session.join().unwrap();
    }

    /// Unmounts and mounts again: nothing is in the kernel's caches any more.
    pub fn remount(&mut self) {
        self.unmount();
        self.mount();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(session) = self.session.take()
            && let Err(error) = session.unmount()
        {
            eprintln!("{error}");
        }
    }
}

/// Room for everything that these tests do.
pub fn big_model() -> ModelOptions {
    ModelOptions { blocks: 65536, files: 20000, ..ModelOptions::default() }
}
