//! The FUSE front-end: a [`FileSystem`](spindle_vfs::FileSystem) mounted on a directory of this
//! machine.
//!
//! From the outside in: [`launch`] makes a daemon or not; [`serve`] takes one mount from its making
//! to a complete image; [`mount`] is the part of it that a test or another program wants by itself;
//! [`umount`] ends a mount of another process and waits for its image. [`MountOptions`] are the
//! words of `-o`.
//!
//! ```no_run
//! # use std::{path::Path, process::ExitCode, sync::Arc};
//! # fn open_image(_: &str) -> Result<Arc<dyn spindle_vfs::FileSystem>, spindle_fuse::Error> {
//! #     Err(spindle_fuse::Error::State(String::new()))
//! # }
//! use spindle_fuse::{MountOptions, Mode, launch, serve};
//! fn main() -> ExitCode {
//!     launch(Mode::Daemon, "spindle mount", |signals, ready| {
//!         let mut options = MountOptions::default();
//!         options.parse("noatime,allow_other")?;
//!         let fs = open_image("disk.img")?; // Threads only from here on.
//!         serve(&fs, Path::new("/mnt"), "disk.img", &options, None, signals, ready)
//!     })
//! }
//! ```
//!
//! # What FUSE does not let us do
//!
//! - `sync(2)` and `syncfs(2)` are told of on mounts of block devices by root, from Linux 6.18 on.
//!   Elsewhere the kernel begins to write its pages back to us but does not tell us to make them
//!   durable: a timer does (`commit=`, 5 s). `fsync(2)` is honoured at once.
//! - A read from the kernel's cache does not reach us, so access times change only with reads that
//!   do.
//! - Pages that were changed through a mapping, and with `writeback` all data, come late and in the
//!   name of nobody. They do not get of the free-space reserve (unless root alone can use the
//!   mount), and that there is no room for them is heard from `msync`, `fsync` or `close`; if
//!   nobody asks, the log and the end of the mount tell what was lost.
//! - With `writeback` a write beyond the largest size of a file is refused as late, and the kernel
//!   shows the size that the file would have until it forgets the file.
//! - The kernel knows nothing of BSD's file flags. What they forbid is refused, but a late write to
//!   an immutable file only when the pages come back to us, so that `fsync` or `close` tells of it.
//! - Extended attributes of name spaces other than `user` and `system` do not exist.
//! - Without the statx and tmpfile requests there is no birth time in `statx`, and no `O_TMPFILE`.
//! - A file handle of an NFS client outlives the kernel's own memory of a file only if the file
//!   system answers a look-up of `.` in anything, directory or not.
//! - When root mounts for itself alone, the kernel does not check permissions: a process of root
//!   that gave up its capabilities is not held to them. `default_permissions` changes that.
//! - Device numbers have 12 bits of major and 20 bits of minor.

mod convert;
mod daemon;
mod ending;
mod error;
mod kernel;
mod later;
mod losses;
mod mountinfo;
mod nodes;
mod options;
mod protocol;
mod readdir;
mod record;
mod serve;
mod server;
mod session;
mod signals;

pub use daemon::{Mode, Ready, launch};
pub use ending::{is_held_by_ending, wait_for_ending};
pub use error::{Error, Result};
pub use options::{Access, MountOptions, WriteLimit};
pub use serve::{serve, umount};
pub use session::{Session, Unmounter, mount};
pub use signals::Signals;
