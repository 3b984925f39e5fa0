//! Spindle's own command line, as its users call it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use spindle_clock::{Clock, Condvar, Mutex, SystemClock};
use tempfile::TempDir;

use crate::record::{Kind, Listing, differences};
use crate::tool::{command, repository, run};
use crate::{Failure, Result, host};

/// After so long a mount counts as hanging.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// How often a busy mount is tried to be unmounted, a tenth of a second apart.
const PATIENCE: u32 = 100;

/// Returns the binary, built from the same sources as the caller, once in a process.
///
/// # Panics
/// If it cannot be built.
#[must_use]
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let (profile, release) =
            if cfg!(debug_assertions) { ("debug", None) } else { ("release", Some("--release")) };
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--bin", "spindle"]).args(release).current_dir(repository());
        assert!(cargo.status().is_ok_and(|status| status.success()), "{cargo:?} failed");
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
        target.join(profile).join("spindle")
    })
}

/// Runs `spindle` with these words and gives what it printed.
///
/// # Errors
/// What it said when it failed.
pub fn spindle<I: AsRef<OsStr>>(words: impl IntoIterator<Item = I>) -> Result<Vec<u8>> {
    run(command(binary()).args(words))
}

/// Checks the image.
///
/// # Errors
/// The damage found.
pub fn fsck(image: &Path) -> Result<()> {
    let mut fsck = command(binary());
    let got = crate::tool::output(fsck.args(["fsck", "-n"]).arg(image))?;
    if got.status.success() {
        return Ok(());
    }
    let text = [got.stdout, got.stderr].concat();
    Err(crate::tool::failed(&fsck, format!("{}:\n{}", got.status, String::from_utf8_lossy(&text))))
}

/// Exports the image to the directory `target`. That attributes do not fit into the file system of
/// `target` is no failure here: nobody's do.
///
/// # Errors
/// What `spindle export` said.
pub fn export(image: &Path, target: &Path) -> Result<()> {
    let mut export = command(binary());
    let got = crate::tool::output(export.arg("export").arg(image).arg(target))?;
    let said = String::from_utf8_lossy(&got.stderr);
    let is_attribute = |line: &str| {
        line.ends_with("is left out: it cannot be stored here")
            || line.starts_with("spindle: warning: left out: ")
    };
    if got.status.success() || got.status.code() == Some(1) && said.lines().all(is_attribute) {
        return Ok(());
    }
    Err(crate::tool::failed(&export, format!("{}: {said}", got.status)))
}

/// Lists what is in the image, by exporting it to a directory. Modes of symbolic links are not
/// known: Linux has none.
///
/// # Errors
/// What `spindle export` said.
pub fn list(image: &Path) -> Result<Listing> {
    let directory = TempDir::new().map_err(Failure::of("temporary directory"))?;
    let target = directory.path().join("exported");
    export(image, &target)?;
    let mut listing = host::list(&target)?;
    for record in listing.values_mut().filter(|record| record.kind == Some(Kind::Symlink)) {
        record.mode = None;
    }
    Ok(listing)
}

/// Returns how what `spindle export` gets out of `image` differs from `expected`.
///
/// # Errors
/// Those of [`list`].
pub fn disagrees(image: &Path, expected: &Listing) -> Result<Vec<String>> {
    Ok(differences(expected, &list(image)?, |_| true))
}

/// A mounted image, unmounted with this value at the latest.
#[derive(Debug)]
pub struct Mounted {
    directory: TempDir,
    over: bool,
    _watchdog: Watchdog,
}

impl Mounted {
    /// Mounts the image on a directory of its own with these options.
    ///
    /// # Errors
    /// What `spindle mount` said.
    pub fn new(image: &Path, options: &str) -> Result<Self> {
        let directory = TempDir::new().map_err(Failure::of("temporary directory"))?;
        let words = [OsStr::new("mount"), OsStr::new("-o"), OsStr::new(options)];
        spindle(words.into_iter().chain([image.as_ref(), directory.path().as_ref()]))?;
        let watchdog = Watchdog::new(directory.path());
        Ok(Self { directory, over: false, _watchdog: watchdog })
    }

    /// Returns where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Unmounts as a user does.
    ///
    /// # Errors
    /// What `spindle umount` said; the image may then not be clean.
    pub fn unmount(mut self) -> Result<()> {
        umount(self.path())?;
        self.over = true;
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if !self.over {
            let _ = cut_off(self.directory.path());
        }
    }
}

/// Unmounts what is mounted on `path`, as a user does.
///
/// # Errors
/// What `spindle umount` said.
pub(crate) fn umount(path: &Path) -> Result<()> {
    let umount = || spindle([OsStr::new("umount"), path.as_ref()]);
    // A process that another test is starting holds all descriptors of this one until it runs its
    // program.
    let mut result = umount();
    for _ in 0..PATIENCE {
        match &result {
            Err(Failure(said)) if said.contains("busy") => SystemClock.sleep(Duration::from_millis(100)),
            _ => break,
        }
        result = umount();
    }
    result.map(drop)
}

/// Unmounts `path` even if it is in use.
pub(crate) fn cut_off(path: &Path) -> Result<()> {
    run(command("umount").args(["--force", "--lazy"]).arg(path)).map(drop)
}

/// Cuts a mount off that hangs, so that processes that wait for it get an error.
#[derive(Debug)]
pub(crate) struct Watchdog {
    /// True when it need not watch any more.
    done: Arc<(Mutex<bool>, Condvar)>,
}

impl Watchdog {
    /// Watches the mount on `path` as long as this value lives.
    pub(crate) fn new(path: &Path) -> Self {
        let watchdog = Self { done: Arc::default() };
        let (done, path) = (Arc::clone(&watchdog.done), path.to_path_buf());
        thread::spawn(move || {
            let mut over = done.0.lock();
            while !*over {
                if done.1.wait_for(&mut over, LIMIT) && !*over {
                    eprintln!("{} hangs and is cut off", path.display());
                    let _ = cut_off(&path);
                    return;
                }
            }
        });
        watchdog
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        *self.done.0.lock() = true;
        self.done.1.notify_all();
    }
}
