//! The file systems compared: how each is made, mounted and unmounted.

use std::cell::RefCell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use spindle_fuse_uring::SWITCH;
use spindle_interop::tool::{command, repository, run};
use spindle_interop::{Failure, Result};

use crate::nothing::Server;

/// A file system to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Contender {
    /// The kernel's ext4: the measure of all. In an image file it is mounted over a loop device.
    Ext4,
    /// The kernel's XFS. In an image file it is mounted over a loop device.
    Xfs,
    /// `fuse2fs` of e2fsprogs: what users of FUSE have.
    Fuse2fs,
    /// Ours, which passes writes through.
    Spindle,
    /// Ours, with writes that the kernel keeps.
    #[value(name = "writeback")]
    SpindleWriteback,
    /// Ours, which passes writes through, over `io_uring`.
    #[value(name = "io_uring")]
    SpindleUring,
    /// A file system that does nothing ([`crate::nothing`]).
    Nothing,
    /// The same, over `io_uring`.
    #[value(name = "nothing-io_uring")]
    NothingUring,
}

impl Contender {
    /// Returns those that this system has, the one that the others are compared with first.
    pub fn all() -> impl Iterator<Item = Self> {
        let has_uring = spindle_fuse_uring::is_switched_on().is_some();
        let has_xfs = run(command("mkfs.xfs").arg("-V")).is_ok();
        Self::value_variants().iter().copied().filter(move |contender| match contender {
            Self::Xfs => has_xfs,
            contender => has_uring || !contender.is_over_uring(),
        })
    }

    const fn is_over_uring(self) -> bool {
        matches!(self, Self::SpindleUring | Self::NothingUring)
    }

    /// Returns the name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Fuse2fs => "fuse2fs",
            Self::Spindle => "spindle",
            Self::SpindleWriteback => "writeback",
            Self::SpindleUring => "io_uring",
            Self::Nothing => "nothing",
            Self::NothingUring => "nothing, io_uring",
        }
    }

    /// Options of `-o` for a mount as its users have it.
    pub fn options(self) -> &'static str {
        match self {
            Self::Ext4 | Self::Xfs | Self::Fuse2fs => "rw",
            Self::Spindle | Self::Nothing => "noio_uring",
            Self::SpindleWriteback => "writeback,noio_uring",
            Self::SpindleUring | Self::NothingUring => "io_uring",
        }
    }

    fn make(self, device: &Path) -> Result<()> {
        let mut make = match self {
            Self::Ext4 | Self::Fuse2fs => {
                let mut make = command("mkfs.ext4");
                // Everything is initialised at once, so that no background thread works during a
                // measurement; what has been written of an image stays so; and there are more
                // inodes than usual, for a million names in 8 GiB.
                let extended = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
                make.args(["-q", "-F", "-i", "7168", "-E", extended]);
                make
            }
            Self::Xfs => {
                let mut make = command("mkfs.xfs");
                make.args(["-q", "-f", "-K"]);
                make
            }
            Self::Nothing | Self::NothingUring => return Ok(()),
            Self::Spindle | Self::SpindleWriteback | Self::SpindleUring => {
                let mut make = command(spindle());
                make.args(["newfs", "--force"]);
                make
            }
        };
        run(make.arg(device)).map(drop)
    }
}

/// Returns the program to measure: the one that `SPINDLE_PROGRAM` names, or the optimised binary.
pub fn spindle() -> PathBuf {
    let named = std::env::var_os("SPINDLE_PROGRAM").map(PathBuf::from);
    named.unwrap_or_else(|| repository().join("target/release/spindle"))
}

/// FUSE over `io_uring`, switched on for new mounts until this value is dropped.
struct Switch {
    was_on: bool,
}

impl Switch {
    fn on() -> Result<Self> {
        let was_on = spindle_fuse_uring::is_switched_on() == Some(true);
        fs::write(SWITCH, "Y").map_err(Failure::of(SWITCH))?;
        Ok(Self { was_on })
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if !self.was_on {
            let _ = fs::write(SWITCH, "N");
        }
    }
}

/// Where a file system lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// In an image file.
    File,
    /// On a loop device over an image file, which it reads and writes past the page cache.
    Loop,
}

impl Medium {
    /// Both.
    pub const ALL: [Self; 2] = [Self::File, Self::Loop];

    /// Returns the name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Loop => "loop device",
        }
    }
}

/// A file to make a file system in, deleted with this value.
#[derive(Debug)]
pub struct Image(PathBuf);

impl Image {
    /// Returns a new one of `bytes`, without blocks of its own: only what is written takes room.
    pub fn sparse(path: PathBuf, bytes: u64) -> Result<Self> {
        let made = File::create(&path).and_then(|file| file.set_len(bytes));
        made.map_err(Failure::of(path.display()))?;
        Ok(Self(path))
    }

    /// Returns a new one of `bytes` that are all written: that its own blocks must be found is no
    /// part of any measurement.
    pub fn written(path: PathBuf, bytes: u64) -> Result<Self> {
        let zeros = vec![0; 1 << 20];
        let image = Self::sparse(path, bytes)?;
        let write = || {
            let mut file = OpenOptions::new().write(true).open(&image.0)?;
            (0..bytes).step_by(zeros.len()).try_for_each(|_| file.write_all(&zeros))?;
            file.sync_all()
        };
        write().map_err(Failure::of(image.0.display()))?;
        Ok(image)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // What cannot be deleted will be written over.
        let _ = fs::remove_file(&self.0);
    }
}

/// A mounted file system, unmounted with this value.
#[derive(Debug)]
pub struct Mounted<'a> {
    contender: Contender,
    options: &'static str,
    image: &'a Image,
    /// The loop device, or the image itself.
    device: PathBuf,
    directory: PathBuf,
    /// Serves [`Contender::Nothing`].
    server: Option<RefCell<Server>>,
}

impl<'a> Mounted<'a> {
    /// Makes a new file system in the image and mounts it beside it, with `options` as `-o` takes
    /// them.
    pub fn new(
        contender: Contender,
        options: &'static str,
        image: &'a Image,
        medium: Medium,
    ) -> Result<Self> {
        let directory = image.0.with_extension("mnt");
        fs::create_dir_all(&directory).map_err(Failure::of(directory.display()))?;
        let device = match medium {
            Medium::File => image.0.clone(),
            Medium::Loop => {
                let mut setup = command("losetup");
                let shown = run(setup.args(["--find", "--show", "--direct-io=on"]).arg(&image.0))?;
                PathBuf::from(String::from_utf8_lossy(&shown).trim())
            }
        };
        let server = matches!(contender, Contender::Nothing | Contender::NothingUring)
            .then(|| Server::start(&directory, options).map(RefCell::new))
            .transpose()?;
        let mounted = Self { contender, options, image, device, directory, server };
        contender.make(&mounted.device)?;
        mounted.mount()?;
        Ok(mounted)
    }

    /// Returns where it is mounted.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Mounts it again after [`Self::unmount`].
    pub fn mount(&self) -> Result<()> {
        let _switch = self.contender.is_over_uring().then(Switch::on).transpose()?;
        if let Some(server) = &self.server {
            return server.borrow_mut().mount();
        }
        let mut mount = match self.contender {
            Contender::Ext4 | Contender::Xfs => command("mount"),
            Contender::Fuse2fs => command("fuse2fs"),
            _ => command(spindle()),
        };
        match self.contender {
            Contender::Ext4 | Contender::Xfs if self.device == self.image.0 => mount.args(["-o", "loop"]),
            Contender::Ext4 | Contender::Xfs | Contender::Fuse2fs => &mut mount,
            _ => mount.arg("mount"),
        };
        run(mount.args(["-o", self.options]).arg(&self.device).arg(&self.directory)).map(drop)
    }

    /// Unmounts it; everything is in the image then.
    pub fn unmount(&self) -> Result<()> {
        match self.contender {
            Contender::Spindle | Contender::SpindleWriteback | Contender::SpindleUring => {
                run(command(spindle()).arg("umount").arg(&self.directory))?;
            }
            _ => {
                run(command("umount").arg(&self.directory))?;
            }
        }
        if self.contender == Contender::Fuse2fs {
            // A daemon writes on after umount has returned, and holds its lock until it is done.
            run(command("flock").arg(&self.device).arg("true"))?;
        }
        Ok(())
    }

    /// Unmounts and mounts again, and empties the kernel's caches in between: nothing of the file
    /// system is in memory then.
    pub fn make_cold(&self) -> Result<()> {
        self.unmount()?;
        rustix::fs::sync();
        fs::write("/proc/sys/vm/drop_caches", "3").map_err(Failure::of("/proc/sys/vm/drop_caches"))?;
        self.mount()
    }

    /// Makes everything durable that was done in it: `syncfs`, and `fsync` of the top directory,
    /// which is what a daemon hears of.
    pub fn sync(&self) -> io::Result<()> {
        let top = File::open(&self.directory)?;
        rustix::fs::syncfs(&top)?;
        top.sync_all()
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        if self.unmount().is_err() {
            let _ = run(command("umount").arg("--lazy").arg(&self.directory));
        }
        if self.device != self.image.0 {
            let _ = run(command("losetup").arg("--detach").arg(&self.device));
        }
    }
}
