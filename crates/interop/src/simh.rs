//! The Seventh Edition itself: the real root disk, booted on a PDP-11/70 as SIMH simulates it, with
//! a second disk beside it.
//!
//! The machine is operated through its console as in 1979. What it is to do is put into its root
//! beforehand, by Spindle, and what it says is taken out afterwards.

use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use spindle_clock::{Clock, Condvar, Mutex, SystemClock};
use tempfile::TempDir;

use crate::spindle::{Mounted, spindle};
use crate::tool::command;
use crate::{Failure, Result};

/// Bytes of an RP06: SIMH wants its disks whole.
const RP06_BYTES: u64 = 340_670 * 512;
/// Longest time that the machine may take for a command.
const PATIENCE: Duration = Duration::from_secs(120);

/// Boots the Seventh Edition from `root`, a copy of its root disk, and has its shell run `job`. The
/// disk in `disk` is its `/dev/disk` and, for the checkers, `/dev/rdisk`, of at most 9614 blocks.
/// Gives what the job has printed.
///
/// # Errors
/// When it does not boot or takes too long, or the simulator is not there.
pub fn run(root: &Path, disk: &Path, job: &str) -> Result<String> {
    let file = OpenOptions::new().write(true).open(root).map_err(Failure::of(root.display()))?;
    file.set_len(RP06_BYTES).map_err(Failure::of(root.display()))?;
    let mounted = Mounted::new(root, "rw")?;
    // Minor number: the second drive's first partition.
    for (name, kind, major) in
        [("dev/disk", FileType::BlockDevice, 6), ("dev/rdisk", FileType::CharacterDevice, 14)]
    {
        let path = mounted.path().join(name);
        mknodat(CWD, &path, kind, Mode::from_raw_mode(0o600), makedev(major, 8))
            .map_err(Failure::of(path.display()))?;
    }
    let job = format!("exec >/output 2>&1\n{job}\nsync\n");
    fs::write(mounted.path().join("job"), job).map_err(Failure::of("job"))?;
    mounted.unmount()?;

    let mut console = Console::switch_on(root, disk)?;
    console.wait("Disabling XQ")?;
    console.type_in("boot\r", "Boot\n\r: ")?;
    console.type_in("hp(0,0)unix\r", "# ")?;
    // The terminal shows capitals only, and the quotes are in its echo.
    console.type_in("sh /job; echo f'i'n\r", "\nFIN")?;
    console.type_in("sync\r", "# ")?;
    console.type_in("\u{5}", "sim> ")?;
    console.type_in("quit\r", "")?;
    console.child.wait().map_err(Failure::of("the simulator"))?;

    let said = spindle(["cat", &format!("{}:/output", root.display())])?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// The console of the machine.
struct Console {
    child: Child,
    keys: ChildStdin,
    /// What it has printed so far, and whether it goes on.
    paper: Arc<(Mutex<Vec<u8>>, Condvar)>,
    /// How far it was read.
    read: usize,
    /// Holds the simulator's commands.
    _directory: TempDir,
}

impl Console {
    fn switch_on(root: &Path, disk: &Path) -> Result<Self> {
        let directory = TempDir::new().map_err(Failure::of("temporary directory"))?;
        let commands = directory.path().join("pdp11.ini");
        let (root, disk) = (root.display(), disk.display());
        let text = format!(
            "set cpu 11/70\nset cpu 2M\nset rp0 rp06\nattach rp0 {root}\nset rp1 rp06\nattach rp1 {disk}\nboot rp0\n"
        );
        fs::write(&commands, text).map_err(Failure::of("commands"))?;
        // The simulator wants a terminal.
        let simulator = format!("pdp11 {}", commands.display());
        let mut child = command("script")
            .args(["--quiet", "--flush", "--command", &simulator, "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(Failure::of("script"))?;
        let lost = || Failure::new("the simulator has no console");
        let keys = child.stdin.take().ok_or_else(lost)?;
        let mut printer = child.stdout.take().ok_or_else(lost)?;
        let paper: Arc<(Mutex<Vec<u8>>, Condvar)> = Arc::default();
        let printed = Arc::clone(&paper);
        thread::spawn(move || {
            let mut line = [0; 1024];
            while let Ok(count @ 1..) = printer.read(&mut line) {
                printed.0.lock().extend_from_slice(&line[..count]);
                printed.1.notify_all();
            }
        });
        Ok(Self { child, keys, paper, read: 0, _directory: directory })
    }

    /// Waits until it has printed `text`.
    fn wait(&mut self, text: &str) -> Result<()> {
        let start = SystemClock.monotonic();
        let mut paper = self.paper.0.lock();
        loop {
            let new = &paper[self.read..];
            if let Some(at) = new.windows(text.len().max(1)).position(|seen| seen == text.as_bytes()) {
                self.read += at + text.len();
                return Ok(());
            }
            if SystemClock.monotonic() > start + PATIENCE {
                let printed = String::from_utf8_lossy(&paper).into_owned();
                return Err(Failure::new(format!("the machine does not say {text:?}, but:\n{printed}")));
            }
            self.paper.1.wait_for(&mut paper, Duration::from_millis(100));
        }
    }

    /// Types something, slowly enough for a bootstrap without interrupts, and waits for the answer.
    fn type_in(&mut self, keys: &str, answer: &str) -> Result<()> {
        SystemClock.sleep(Duration::from_millis(500));
        for key in keys.as_bytes() {
            self.keys.write_all(&[*key]).and_then(|()| self.keys.flush()).map_err(Failure::of("console"))?;
            SystemClock.sleep(Duration::from_millis(5));
        }
        if answer.is_empty() { Ok(()) } else { self.wait(answer) }
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        // Without effect where it has ended as it should.
        let _ = self.keys.write_all(b"\x05").and_then(|()| self.keys.write_all(b"quit\r"));
        SystemClock.sleep(Duration::from_millis(200));
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
