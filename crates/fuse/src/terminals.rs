//! Lines on the terminals of the processes that use a mount.
//!
//! A quota that refuses a process says so on its terminal, as by the kernels of BSD: a program
//! may not look at the error, or not know what it means. The process waits for its request, so its
//! controlling terminal is looked up at once, in `/proc`; but a terminal can keep who opens, writes
//! or closes it waiting, so that is done by a thread of its own.
//!
//! The daemon may be root, so it writes only where the kernel would: on the terminal whose number
//! the kernel has for the process, never on what the process has open. Number and device must
//! agree, and the process must have the mounts of the daemon: elsewhere a pseudo terminal of that
//! number may be somebody else's. `/proc` and `/dev` are opened before anything is served, because
//! a path could lead through the mount itself.

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, readlinkat};
use nix::sys::stat::{Mode, SFlag, fstat, major, minor};
use spindle_vfs::Terminals;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Maximum number of lines that wait for terminals; others are not shown.
const MAX_WAITING: usize = 8;

/// The terminals of the processes that use a mount.
#[derive(Debug)]
pub struct ProcessTerminals {
    /// How lines begin: the directory of the mount.
    dir: String,
    proc: OwnedFd,
    dev: Arc<OwnedFd>,
    /// The mounts that the daemon sees.
    own_mounts: OsString,
    waiting: Arc<AtomicUsize>,
}

impl ProcessTerminals {
    /// Returns the terminals for a mount on the directory `dir`. Call it before the mount is
    /// served.
    ///
    /// # Errors
    /// If there is no `/proc` or `/dev`.
    pub fn new(dir: &Path) -> io::Result<Self> {
        let open = |dir: &str| {
            nix::fcntl::open(dir, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
        };
        let (proc, dev) = (open("/proc")?, open("/dev")?);
        let own_mounts = readlinkat(&proc, "self/ns/mnt")?;
        // A directory can be named so that a terminal obeys it.
        let dir = dir.to_string_lossy().replace(char::is_control, "?");
        Ok(Self { dir, proc, dev: Arc::new(dev), own_mounts, waiting: Arc::default() })
    }

    /// Returns the terminal of a process, if it can be found.
    fn of_process(&self, process: u32) -> Option<Terminal> {
        let mounts = readlinkat(&self.proc, format!("{process}/ns/mnt").as_str()).ok()?;
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let stat = openat(&self.proc, format!("{process}/stat").as_str(), flags, Mode::empty()).ok()?;
        let mut text = Vec::new();
        File::from(stat).read_to_end(&mut text).ok()?;
        Terminal::of_stat(&text).filter(|_| mounts == self.own_mounts)
    }
}

impl Terminals for ProcessTerminals {
    fn show(&self, process: u32, line: &str) {
        let Some(terminal) = self.of_process(process) else { return };
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= MAX_WAITING {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let text = format!("\r\n{}: {line}\r\n", self.dir);
        let (dev, waiting) = (self.dev.clone(), self.waiting.clone());
        let write = move || {
            if let Err(error) = terminal.write(&dev, text.as_bytes()) {
                log::debug!("a warning cannot be shown on {}: {error}", terminal.name);
            }
            waiting.fetch_sub(1, Ordering::Relaxed);
        };
        if thread::Builder::new().name("terminal".into()).spawn(write).is_err() {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A terminal.
#[derive(Debug, PartialEq, Eq)]
struct Terminal {
    /// Its name below `/dev`.
    name: String,
    major: u64,
    minor: u64,
}

impl Terminal {
    /// Returns the controlling terminal that a `/proc/PID/stat` states, if it is a pseudo terminal,
    /// a virtual console or a serial line.
    fn of_stat(text: &[u8]) -> Option<Self> {
        // The name of the program, in parentheses, can contain anything.
        let end = text.iter().rposition(|&byte| byte == b')')?;
        let fields = std::str::from_utf8(&text[end + 1..]).ok()?;
        let number = fields.split_ascii_whitespace().nth(4)?.parse::<i32>().ok()?.cast_unsigned();
        let (major, minor) = (number >> 8 & 0xfff, number & 0xff | number >> 12 & 0xf_ff00);
        let name = match (major, minor) {
            (136, minor) => format!("pts/{minor}"),
            (4, minor @ 1..64) => format!("tty{minor}"),
            (4, minor @ 64..) => format!("ttyS{}", minor - 64),
            _ => return None,
        };
        Some(Self { name, major: major.into(), minor: minor.into() })
    }

    fn write(&self, dev: &OwnedFd, text: &[u8]) -> io::Result<()> {
        let flags = OFlag::O_WRONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let file = openat(dev, self.name.as_str(), flags | OFlag::O_NOFOLLOW, Mode::empty())?;
        let found = fstat(&file)?;
        let is_device = SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == SFlag::S_IFCHR;
        if !is_device || (major(found.st_rdev), minor(found.st_rdev)) != (self.major, self.minor) {
            return Err(Errno::ENODEV.into());
        }
        File::from(file).write_all(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the controlling terminal of a process is found whatever its program is called; a
    /// process without one, and a text that is cut, have none.
    #[test]
    fn terminals_of_processes() {
        let of = |number: &str| Terminal::of_stat(format!("9 (a) R 1) S 1 9 9 {number} 9 0").as_bytes());
        let name = |number: u32| of(&number.to_string()).map(|terminal| terminal.name);
        assert_eq!(name(136 << 8 | 3).as_deref(), Some("pts/3"));
        assert_eq!(name(136 << 8 | 0x2c | 1 << 20).as_deref(), Some("pts/300"));
        assert_eq!(name(4 << 8 | 1).as_deref(), Some("tty1"));
        assert_eq!(name(4 << 8 | 0x41).as_deref(), Some("ttyS1"));
        assert_eq!((name(0), name(5 << 8 | 1), of("x"), of("")), (None, None, None, None));
        assert_eq!(Terminal::of_stat(b"9 (a"), None);
    }

    /// Promise: only the terminal of that number is written to, not what has its name.
    #[test]
    fn other_devices_are_not_written() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tty1"), b"").unwrap();
        let dev = OwnedFd::from(File::open(dir.path()).unwrap());
        let terminal = Terminal { name: "tty1".into(), major: 4, minor: 1 };
        let refused = terminal.write(&dev, b"text").unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ENODEV));
        assert_eq!(std::fs::read(dir.path().join("tty1")).unwrap(), b"");
    }
}
