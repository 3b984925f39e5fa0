//! Common parts of the tests with mounts.

use nix::mount::{MntFlags, umount2};
use spindle_clock::{Condvar, Mutex};
use spindle_conformance::model::ModelOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Time after which a test counts as hanging.
const LIMIT: Duration = Duration::from_secs(120);

/// The mount options for the two modes of writing.
pub const WRITE_MODES: [&str; 2] = ["writethrough", "writeback"];

/// Aborts the test process and its mounts, unless it is dropped in time.
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

/// Returns true if tests with mounts can run: they need `/dev/fuse` and root. If `CI` is set, they
/// must be able to run.
pub fn can_mount() -> bool {
    let possible = Path::new("/dev/fuse").exists() && nix::unistd::geteuid().is_root();
    assert!(possible || std::env::var_os("CI").is_none(), "mounted tests need root and /dev/fuse");
    if !possible {
        eprintln!("skipped: mounted tests need root and /dev/fuse");
    }
    possible
}

/// Returns options of a model with enough space for these tests.
pub fn big_model() -> ModelOptions {
    ModelOptions { blocks: 65536, files: 20000, ..ModelOptions::default() }
}
