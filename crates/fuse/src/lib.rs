//! The FUSE front-end: mounts a [`FileSystem`](spindle_vfs::FileSystem) on a directory of this
//! machine.
//!
//! From the outside in: [`launch`] starts a daemon or runs in the foreground; [`Attachment`] is a
//! mount before it is served, so that a mount that is refused has changed nothing; [`serve`] serves
//! and unmounts a file system; [`mount`] is the part of it for tests and other programs;
//! [`umount`] unmounts a file system that another process serves, and waits until its image is
//! complete. [`MountOptions`] are the options of `-o`.
//!
//! ```no_run
//! # use std::{path::Path, process::ExitCode, sync::Arc};
//! # fn open_image(_: &str) -> Result<Arc<dyn spindle_vfs::FileSystem>, spindle_fuse::Error> {
//! #     Err(spindle_fuse::Error::State(String::new()))
//! # }
//! use spindle_fuse::{Attachment, MountOptions, Mode, launch, serve};
//! fn main() -> ExitCode {
//!     launch(Mode::Daemon, "spindle mount", |signals, ready| {
//!         let mut options = MountOptions::default();
//!         options.parse("noatime,allow_other")?;
//!         let attachment = Attachment::new(Path::new("/mnt"), "disk.img", &options)?;
//!         let fs = open_image("disk.img")?; // Start threads only from here on.
//!         serve(attachment, &fs, None, (signals, ready), |_| ())
//!     })
//! }
//! ```
//!
//! # Limits of FUSE
//!
//! - The kernel passes on `sync(2)` and `syncfs(2)` only on mounts of block devices by root, from
//!   Linux 6.18 on. On other mounts it starts to write back its pages, but does not ask for
//!   durability; a timer makes changes durable (`commit=`, 5 s). `fsync(2)` makes them durable at
//!   once.
//! - Reads from the kernel's cache do not reach this crate and do not change access times.
//! - Pages that were changed through a mapping, and with `writeback` all data, arrive late and
//!   without the ID of a user. They cannot use the free-space reserve (unless only root can use the
//!   mount). If there is no space for them, `msync`, `fsync` or `close` fails; if no program calls
//!   these, the system log and the unmount report the lost bytes.
//! - With `writeback`, a write beyond the largest file size is also refused late, and the kernel
//!   shows the size that the file would have until it forgets the file.
//! - The kernel does not know BSD's file flags; `lsattr` and `chattr` see some of them. Forbidden
//!   changes are refused; but a late write to an immutable file is refused when its pages arrive,
//!   so `fsync` or `close` fails.
//! - Only the name spaces `user`, `system` and `trusted` of extended attributes exist.
//! - `O_TMPFILE` needs Linux 6.1 or newer.
//! - A file handle of an NFS client stays valid after the kernel has forgotten the file only if the
//!   file system supports a lookup of `.` in any inode, not only in directories.
//! - If only root can use a mount, the kernel does not check permissions, not even for a process of
//!   root that gave up its capabilities. `default_permissions` changes that.
//! - Device numbers have 12 bits of major and 20 bits of minor.

mod convert;
mod daemon;
mod deferred;
mod error;
mod kernel;
mod lost_writes;
mod mountinfo;
mod nodes;
mod options;
mod processes;
mod protocol;
mod readdir;
mod record;
mod serve;
mod server;
mod session;
mod signals;
mod terminals;
mod utab;
mod waiting;

pub use daemon::{Mode, Ready, launch};
pub use error::{Error, Result};
pub use mountinfo::{FuseMount, fuse_mounts};
pub use options::{Access, MountOptions, WriteLimit};
pub use serve::{Umount, serve, umount};
pub use session::{Attachment, Remounter, Session, Unmounter, mount};
pub use signals::Signals;
pub use terminals::ProcessTerminals;
pub use waiting::{is_held_by_ending_daemon, wait_for_ending_daemon};
