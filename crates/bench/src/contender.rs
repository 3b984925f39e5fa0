//! The file systems compared: how each is made, mounted and unmounted.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use spindle_interop::tool::{command, repository, run};
use spindle_interop::{Failure, Result};

/// Bytes of each image; sparse, so that only what is written takes room.
const SIZE_BYTES: u64 = 8 << 30;

/// Inodes of ext4, which makes fewer by itself than the largest directory has names.
const MOST_FILES: &str = "1200000";

/// A file system to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// The kernel's ext4 on a loop device: the measure of all.
    Ext4,
    /// `fuse2fs` of e2fsprogs: what users of FUSE have.
    Fuse2fs,
    /// Ours.
    Spindle,
}

impl Contender {
    /// All, the one that the others are compared with first.
    pub const ALL: [Self; 3] = [Self::Ext4, Self::Fuse2fs, Self::Spindle];

    /// As the table names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Fuse2fs => "fuse2fs",
            Self::Spindle => "spindle",
        }
    }

    fn make(self, image: &Path) -> Result<()> {
        let file = File::create(image).map_err(Failure::of(image.display()))?;
        file.set_len(SIZE_BYTES).map_err(Failure::of(image.display()))?;
        let mut make = match self {
            // Everything is initialised at once, so that no background thread works during a measurement.
            Self::Ext4 | Self::Fuse2fs => {
                let mut make = command("mkfs.ext4");
                make.args(["-q", "-F", "-N", MOST_FILES, "-E", "lazy_itable_init=0,lazy_journal_init=0"]);
                make
            }
            Self::Spindle => {
                let mut make = command(spindle());
                make.arg("newfs");
                make
            }
        };
        run(make.arg(image)).map(drop)
    }

    fn mount(self, image: &Path, directory: &Path) -> Result<()> {
        let mut mount = match self {
            Self::Ext4 => command("mount"),
            Self::Fuse2fs => command("fuse2fs"),
            Self::Spindle => command(spindle()),
        };
        match self {
            Self::Ext4 => mount.args(["-o", "loop"]),
            Self::Fuse2fs => &mut mount,
            Self::Spindle => mount.arg("mount"),
        };
        run(mount.arg(image).arg(directory)).map(drop)
    }
}

/// The optimised binary.
pub fn spindle() -> PathBuf {
    repository().join("target/release/spindle")
}

/// A mounted file system, unmounted and deleted with this value.
#[derive(Debug)]
pub struct Mounted {
    contender: Contender,
    image: PathBuf,
    directory: PathBuf,
}

impl Mounted {
    /// Makes a new file system below `at` and mounts it.
    pub fn new(contender: Contender, at: &Path) -> Result<Self> {
        let image = at.join(format!("{}.img", contender.name()));
        let directory = at.join(format!("{}.mnt", contender.name()));
        fs::create_dir_all(&directory).map_err(Failure::of(directory.display()))?;
        contender.make(&image)?;
        contender.mount(&image, &directory)?;
        Ok(Self { contender, image, directory })
    }

    /// Where it is mounted.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Unmounts and mounts again, and empties the kernel's caches in between: nothing of the file system is in
    /// memory then.
    pub fn make_cold(&self) -> Result<()> {
        run(command("umount").arg(&self.directory))?;
        // A daemon writes on after umount has returned, and holds its lock until it is done.
        run(command("flock").arg(&self.image).arg("true"))?;
        rustix::fs::sync();
        fs::write("/proc/sys/vm/drop_caches", "3").map_err(Failure::of("/proc/sys/vm/drop_caches"))?;
        self.contender.mount(&self.image, &self.directory)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        for way in [&[][..], &["--lazy"]] {
            if run(command("umount").args(way).arg(&self.directory)).is_ok() {
                break;
            }
        }
        // What cannot be deleted will be written over.
        let _ = fs::remove_file(&self.image);
    }
}
