//! Make, open, read, fill and check BSD and old UNIX file systems in image files, on block devices
//! and in partitions, without root and without a mount.
//!
//! UFS1 and UFS2 of FreeBSD, NetBSD, OpenBSD, Solaris and 4.2BSD to 4.4BSD are read and written,
//! and so are V7, 32V, 4.1BSD and System V. What is not safe to write is opened read-only, with the
//! reason and the remedy.
//!
//! ```
//! use spindle::transfer::LocalSource;
//! use spindle::{Image, OpenOptions, Parameters, Spec, check, newfs};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let (tree, path) = (directory.path().join("tree"), directory.path().join("disk.img"));
//! # let path = path.to_str().ok_or("the directory has an unusual name")?;
//! std::fs::create_dir(&tree)?;
//! std::fs::write(tree.join("hello.txt"), "hello, world\n")?;
//!
//! // Make a UFS2 file system of 8 MiB in a new file.
//! let disk = Spec::parse(path)?;
//! newfs::newfs(&disk, &Parameters::new(8 << 20))?;
//!
//! // Fill it.
//! let image = Image::open(&disk, &OpenOptions::read_write())?;
//! image.import("/", LocalSource::new(&tree))?;
//! image.unmount()?;
//!
//! // Read it.
//! let image = Image::open(&disk, &OpenOptions::read_only())?;
//! assert_eq!(image.read("/hello.txt")?, b"hello, world\n");
//! image.unmount()?;
//!
//! // Check it.
//! let checked = check::check(&disk, &check::Options::default(), &mut |_| ())?;
//! assert!(checked.is_clean());
//! # Ok(())
//! # }
//! ```
//!
//! # Where to find what
//!
//! [`Image`] is an open file system: its contents by path, and below that the trait
//! [`FileSystem`](spindle_vfs::FileSystem), for everything that a kernel could ask. [`mod@newfs`]
//! makes file systems, [`mod@check`] checks them, [`mod@detect`] says what is on a device,
//! [`partition`] finds the partition that is meant, [`mod@search`] what is anywhere on a disk, and
//! [`transfer`] copies trees between directories, tar streams and images in any direction.
//! [`mod@dump`] and [`mod@restore`] write and read the streams of dump(8). [`walk`] goes through a
//! tree, [`mode`] reads permissions as `chmod` does, [`flags`] file flags as `chflags` does, and
//! [`pattern`] patterns of names. [`inspect`] opens a fast file system to be looked at inside,
//! without a mount, and [`mod@growfs`] makes one larger or smaller. The command line `spindle` is a
//! user of this crate and has nothing that it lacks, except mounts (crate `spindle_fuse`) and the
//! laboratory.
//!
//! # Stability
//!
//! The version follows Semantic Versioning; before 1.0 a new minor version may change the
//! interface, which the changelog then says. It covers what this crate defines and what it
//! re-exports by name ([`Spec`], [`Parameters`], …). The crates below it (`spindle_vfs`,
//! `spindle_ffs` …) can change with every minor version. A file system that one version has written
//! can be read and written by all later ones.

pub mod check;
pub mod control;
pub mod detect;
pub mod dump;
mod error;
mod fit;
pub mod flags;
mod foreign;
pub mod growfs;
pub mod image;
pub mod inspect;
pub mod mode;
pub mod mounted;
pub mod newfs;
mod occupied;
pub mod partition;
pub mod path;
pub mod pattern;
pub mod quota;
pub mod restore;
pub mod search;
pub mod set;
pub mod snapshot;
pub mod text;
pub mod transfer;
pub mod walk;

pub use error::{Context, Error, Result};
pub use image::{Image, LogNote, OpenOptions};
pub use newfs::Parameters;
pub use spindle_device::Spec;
