//! Tests with several processes: daemons, signals, unmounting by another process, locks and
//! mappings. This program is also the helper: with `serve` it mounts a model (with `small` as the
//! first option, a small one), and after the unmount it writes a report of the content; with
//! `client` it executes commands on a file ([`client`]).

mod client;
#[path = "../common/mod.rs"]
mod common;
mod flags;
#[path = "../common/small.rs"]
mod small;

use client::Client;
use common::{WRITE_MODES, Watchdog, big_model, can_mount};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use small::{fill_but, small_model};
use spindle_clock::{Clock, SystemClock};
use spindle_conformance::model::ModelFs;
use spindle_fuse::{
    Attachment, Mode, MountOptions, Umount, is_held_by_ending_daemon, launch, serve, umount,
    wait_for_ending_daemon,
};
use spindle_vfs::FileSystem;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let [_, role, mode, dir, report, words] = &args[..]
        && role == "serve"
    {
        let mode = if mode == "daemon" { Mode::Daemon } else { Mode::Foreground };
        return launch(mode, "daemon-test", |signals, ready| {
            let small = words.strip_prefix("small,");
            let model = if small.is_some() { small_model() } else { big_model() };
            let mut options = MountOptions::default();
            options.parse(small.unwrap_or(words))?;
            let fs: Arc<dyn FileSystem> = Arc::new(ModelFs::new(model, Arc::new(SystemClock)));
            // Locks the image as a device of an image does.
            let image = Path::new(report).with_file_name("image");
            let locked = image.exists().then(|| lock(&image).expect("no other process holds the lock"));
            let attachment = Attachment::new(Path::new(dir), "a,b model", &options)?;
            let served = serve(attachment, &fs, None, (signals, ready), |_| ());
            while locked.is_some() && !image.with_file_name("complete").exists() {
                SystemClock.sleep(Duration::from_millis(1));
            }
            write_report(&*fs, report);
            served
        });
    }
    if let [_, role, path] = &args[..]
        && role == "client"
    {
        client::run(Path::new(path));
        return ExitCode::SUCCESS;
    }
    if let [_, role, path] = &args[..]
        && role == "umount"
    {
        return umount(Path::new(path), Umount::Unused).map_or_else(
            |error| {
                eprintln!("{error}");
                ExitCode::FAILURE
            },
            |()| ExitCode::SUCCESS,
        );
    }
    if args.iter().any(|arg| arg == "--list") {
        return ExitCode::SUCCESS;
    }
    if can_mount() {
        for (name, test) in TESTS {
            print!("test {name} ... ");
            std::io::stdout().flush().unwrap();
            test();
            println!("ok");
        }
    }
    ExitCode::SUCCESS
}

const TESTS: [(&str, fn()); 19] = [
    ("a_daemon_serves_when_its_parent_ends", a_daemon_serves_when_its_parent_ends),
    ("daemons_keep_no_descriptors", daemons_keep_no_descriptors),
    ("failed_mounts_are_reported", failed_mounts_are_reported),
    ("signals_lose_no_data", signals_lose_no_data),
    ("systemd_is_notified", systemd_is_notified),
    ("mounts_elsewhere_are_reported", mounts_elsewhere_are_reported),
    ("a_killed_daemon_is_reported", a_killed_daemon_is_reported),
    ("ending_daemons_are_waited_for", ending_daemons_are_waited_for),
    ("only_mounts_of_ours_are_unmounted", only_mounts_of_ours_are_unmounted),
    ("dead_mounts_can_be_unmounted", dead_mounts_can_be_unmounted),
    ("flock_between_processes", flock_between_processes),
    ("fcntl_between_processes", fcntl_between_processes),
    ("waiting_locks", waiting_locks),
    ("mappings", mappings),
    ("mappings_without_space", mappings_without_space),
    ("what_was_written_before_is_stored", flags::what_was_written_before_is_stored),
    ("forbidden_stores_are_reported", flags::forbidden_stores_are_reported),
    ("ordinary_users_mount", ordinary_users_mount),
    ("auto_unmount", auto_unmount),
];

/// Writes the names and contents of all files in the root directory to `report`, and which of them
/// count as last modified in 1970.
fn write_report(fs: &dyn FileSystem, report: &str) {
    let mut names = Vec::new();
    fs.readdir(fs.root(), 0, &mut |entry| {
        names.push((entry.name.to_vec(), entry.ino));
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    let mut file = File::create(report).unwrap();
    for (name, ino) in names {
        let mut data = [0; 10_000];
        if let Ok(len) = fs.read(ino, 0, &mut data) {
            let contents = String::from_utf8_lossy(&data[..len]);
            let age = if fs.getattr(ino).unwrap().mtime.secs == 0 { " of 1970" } else { "" };
            writeln!(file, "{}{age}={contents}", String::from_utf8_lossy(&name)).unwrap();
        }
    }
}

/// A mount point, and a directory for the report.
struct TestMount {
    dir: TempDir,
    mount_point: PathBuf,
    _watchdog: Watchdog,
}

impl TestMount {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("spindle-fuse").tempdir().unwrap();
        let mount_point = dir.path().join("a mount, point");
        fs::create_dir(&mount_point).unwrap();
        let watchdog = Watchdog::over(vec![mount_point.clone()]);
        Self { dir, mount_point, _watchdog: watchdog }
    }

    fn command(&self, mode: &str, words: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["serve", mode]).arg(&self.mount_point).arg(self.report()).arg(words);
        command
    }

    fn daemon(&self, words: &str) -> Output {
        self.command("daemon", words).output().unwrap()
    }

    /// Starts a server in the foreground and waits, like systemd, until the mount is ready.
    fn foreground(&self) -> Child {
        self.foreground_with("")
    }

    fn foreground_with(&self, words: &str) -> Child {
        let name = format!("spindle-test-{}", self.dir.path().display());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let child = self
            .command("foreground", words)
            .env("NOTIFY_SOCKET", format!("@{name}"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut message = [0; 100];
        let len = socket.recv(&mut message).unwrap();
        assert_eq!(&message[..len], b"READY=1\n");
        child
    }

    fn report(&self) -> PathBuf {
        self.dir.path().join("report")
    }

    fn is_mounted(&self) -> bool {
        let outside = fs::metadata(self.dir.path()).unwrap().dev();
        fs::metadata(&self.mount_point).map_or(true, |inside| inside.dev() != outside)
    }
}

impl Drop for TestMount {
    fn drop(&mut self) {
        if self.is_mounted() {
            let _ = nix::mount::umount2(&self.mount_point, nix::mount::MntFlags::MNT_DETACH);
        }
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

/// Promise: a daemon keeps none of the descriptors that a shell has open: who reads from a pipe of
/// theirs sees its end, and a lock of theirs is released.
fn daemons_keep_no_descriptors() {
    let mount_dir = TestMount::new();
    let lock_file = mount_dir.dir.path().join("lock");
    let script = "exec 3>&1 4>&1 5>&2 6>&1 7>&1 8>&1 9>\"$0\" && flock 9 && \"$@\"";
    let daemon = mount_dir.command("daemon", "");
    // This returns at the end of the pipes, descriptors 3 to 8.
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(&lock_file)
        .arg(daemon.get_program())
        .args(daemon.get_args())
        .output()
        .unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(mount_dir.is_mounted());
    lock(&lock_file).expect("the lock was released");
    umount(&mount_dir.mount_point, Umount::Unused).unwrap();
}

/// Promise: exit status 0 means that the mount is ready, the mount table shows the given name,
/// including commas, and `umount` returns when the daemon has ended.
fn a_daemon_serves_when_its_parent_ends() {
    let mount_dir = TestMount::new();
    let output = mount_dir.daemon("commit=1");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(mount_dir.is_mounted());
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = table.lines().find(|line| line.contains(mount_dir.dir.path().to_str().unwrap())).unwrap();
    assert!(line.contains(" - fuse.spindle a,b\\040model rw,user_id=0"), "{line}");
    assert!(line.contains("nosuid,nodev"), "{line}");
    fs::write(mount_dir.mount_point.join("f"), b"data").unwrap();
    umount(&mount_dir.mount_point, Umount::Unused).unwrap();
    // The daemon writes the report last.
    assert_eq!(fs::read_to_string(mount_dir.report()).unwrap(), "f=data\n");
    assert!(!mount_dir.is_mounted());
}

/// Promise: a failed mount exits with 32 and prints a message on standard error.
fn failed_mounts_are_reported() {
    let mount_dir = TestMount::new();
    for (mode, words, expected) in [
        ("daemon", "bogus", "mount option `bogus` is unknown"),
        ("foreground", "uid=x", "mount option `uid=x`"),
    ] {
        let output = mount_dir.command(mode, words).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(32), "{message}");
        assert!(message.starts_with("daemon-test: ") && message.contains(expected), "{message}");
    }
    fs::remove_dir(&mount_dir.mount_point).unwrap();
    let output = mount_dir.daemon("");
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(32) && message.contains("cannot mount on"), "{message}");
    fs::create_dir(&mount_dir.mount_point).unwrap();
}

/// Promise: after a signal the file system is unmounted and has all written data, even data of an
/// open file that was only in the kernel's cache.
fn signals_lose_no_data() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let mount_dir = TestMount::new();
        let mut child = mount_dir.foreground();
        fs::write(mount_dir.mount_point.join("closed"), b"one").unwrap();
        kill(pid(&child), signal).unwrap();
        let status = child.wait().unwrap();
        assert!(status.success(), "{status}");
        assert!(!mount_dir.is_mounted());
        assert_eq!(fs::read_to_string(mount_dir.report()).unwrap(), "closed=one\n");
    }
    let mount_dir = TestMount::new();
    let mut child = mount_dir.foreground();
    let mut open = File::create(mount_dir.mount_point.join("open")).unwrap();
    open.write_all(b"two").unwrap();
    kill(pid(&child), Signal::SIGTERM).unwrap();
    // The mount is detached at once, and served until the file is closed or the grace period is
    // over.
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    assert!(!mount_dir.is_mounted());
    assert_eq!(fs::read_to_string(mount_dir.report()).unwrap(), "open=two\n");
    assert!(open.write_all(b"three").and_then(|()| open.sync_all()).is_err());
}

/// Promise: in the foreground systemd is notified that the mount is ready, and `umount` waits for
/// that process, too.
fn systemd_is_notified() {
    let mount_dir = TestMount::new();
    let mut child = mount_dir.foreground();
    assert!(mount_dir.is_mounted());
    umount(&mount_dir.mount_point, Umount::Unused).unwrap();
    assert!(child.wait().unwrap().success());
}

/// Promise: if the daemon dies before the image is complete, `umount` fails.
fn a_killed_daemon_is_reported() {
    let mount_dir = TestMount::new();
    let mut child = mount_dir.foreground();
    kill(pid(&child), Signal::SIGKILL).unwrap();
    child.wait().unwrap();
    let error = umount(&mount_dir.mount_point, Umount::Unused).unwrap_err().to_string();
    assert!(error.contains("died before the image was complete"), "{error}");
    assert!(!mount_dir.is_mounted());
}

/// Locks an image.
fn lock(image: &Path) -> Result<Flock<File>, nix::Error> {
    let file = File::options().write(true).open(image).unwrap();
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| error)
}

/// A mount of tmpfs on a directory.
struct OtherMount(PathBuf);

impl OtherMount {
    fn new(dir: PathBuf) -> Self {
        fs::create_dir(&dir).unwrap();
        let none = None::<&str>;
        nix::mount::mount(none, &dir, Some("tmpfs"), nix::mount::MsFlags::empty(), none).unwrap();
        Self(dir)
    }
}

impl Drop for OtherMount {
    fn drop(&mut self) {
        nix::mount::umount(&self.0).unwrap();
    }
}

/// Promise: after `umount(8)` without our helper, an image counts as held by an ending daemon, and
/// a wait for it succeeds, even if another mount has the device number by then; an image that is
/// mounted does not.
fn ending_daemons_are_waited_for() {
    let mount_dir = TestMount::new();
    let image = mount_dir.report().with_file_name("image");
    fs::write(&image, b"").unwrap();
    assert!(mount_dir.daemon("").status.success());
    assert!(lock(&image).is_err() && !is_held_by_ending_daemon(&image));
    wait_for_ending_daemon::<()>(&image, &SystemClock, &mut || Ok(())).unwrap();
    let number = fs::metadata(&mount_dir.mount_point).unwrap().dev();
    let holders = spindle_device::lock_holders(&image);
    let [daemon] = holders[..] else { panic!("one daemon has locked it, not {holders:?}") };
    let daemon = Pid::from_raw(daemon.try_into().unwrap());
    kill(daemon, Signal::SIGSTOP).unwrap();
    nix::mount::umount(&mount_dir.mount_point).unwrap();
    assert!(lock(&image).is_err() && is_held_by_ending_daemon(&image));
    // The kernel takes the lowest number that is free.
    let others: Vec<_> =
        (0..8).map(|n| OtherMount::new(image.with_file_name(format!("other-{n}")))).collect();
    let has_number = |other: &OtherMount| fs::metadata(&other.0).unwrap().dev() == number;
    assert!(others.iter().any(has_number), "no mount has taken the number {number:#x}");
    assert!(lock(&image).is_err() && is_held_by_ending_daemon(&image));
    let complete = image.with_file_name("complete");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            kill(daemon, Signal::SIGCONT).unwrap();
            fs::write(complete, b"").unwrap();
        });
        wait_for_ending_daemon::<()>(&image, &SystemClock, &mut || Ok(())).unwrap();
        lock(&image).expect("the daemon has released it");
    });
}

/// Promise: `umount` refuses a directory that is not a mount point, a mount that is not FUSE, and a
/// mount in use.
fn only_mounts_of_ours_are_unmounted() {
    let mount_dir = TestMount::new();
    let error = umount(&mount_dir.mount_point, Umount::Unused).unwrap_err().to_string();
    assert!(error.contains("nothing is mounted"), "{error}");
    let error = umount(Path::new("/proc"), Umount::Unused).unwrap_err().to_string();
    assert!(error.contains("not of Spindle"), "{error}");
    assert!(mount_dir.daemon("").status.success());
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(mount_dir.mount_point.join("f"))
        .unwrap();
    let error = umount(&mount_dir.mount_point, Umount::Unused).unwrap_err().to_string();
    assert!(error.contains("busy"), "{error}");
    file.write_all(b"x").unwrap();
    assert_eq!(file.read(&mut [0]).unwrap(), 0);
    drop(file);
    umount(&mount_dir.mount_point, Umount::Unused).unwrap();
}

/// Promise: the unmount of the first of two mounts of a file system reports that it is mounted
/// elsewhere; the unmount of the last one waits for the image.
fn mounts_elsewhere_are_reported() {
    use nix::mount::{MsFlags, mount};
    let (mount_dir, elsewhere) = (TestMount::new(), TestMount::new());
    assert!(mount_dir.daemon("").status.success());
    let nothing = None::<&str>;
    mount(Some(&mount_dir.mount_point), &elsewhere.mount_point, nothing, MsFlags::MS_BIND, nothing).unwrap();
    let error = umount(&mount_dir.mount_point, Umount::Unused).unwrap_err().to_string();
    assert!(error.contains("also mounted elsewhere"), "{error}");
    assert!(!mount_dir.is_mounted() && elsewhere.is_mounted());
    umount(&elsewhere.mount_point, Umount::Unused).unwrap();
    assert!(mount_dir.report().exists());
}

/// Promise: accesses to a mount with a dead daemon fail, and the mount can be replaced.
fn dead_mounts_can_be_unmounted() {
    let mount_dir = TestMount::new();
    let mut child = mount_dir.foreground();
    kill(pid(&child), Signal::SIGKILL).unwrap();
    child.wait().unwrap();
    // With `io_uring` the system ends the connection a moment after the process.
    loop {
        match fs::metadata(&mount_dir.mount_point).unwrap_err().raw_os_error() {
            Some(libc::ENOTCONN) => break,
            Some(libc::ECONNABORTED | libc::ECANCELED) => std::thread::yield_now(),
            other => panic!("a dead mount answers with error {other:?}"),
        }
    }
    assert!(umount(&mount_dir.mount_point, Umount::Unused).is_err());
    assert!(mount_dir.daemon("").status.success());
    umount(&mount_dir.mount_point, Umount::Unused).unwrap();
}

/// Promise: `flock` is shared or exclusive, can be converted, belongs to the open file, and ends
/// with its process.
fn flock_between_processes() {
    let mount_dir = TestMount::new();
    assert!(mount_dir.daemon("").status.success());
    let path = mount_dir.mount_point.join("f");
    let (mut a, mut b) = (Client::start(&path), Client::start(&path));
    assert_eq!(a.ask("flock sh nb"), "ok");
    assert_eq!(b.ask("flock sh nb"), "ok");
    assert_eq!(a.ask("flock ex nb"), "EAGAIN");
    assert_eq!(b.ask("flock un"), "ok");
    assert_eq!(a.ask("flock ex nb"), "ok");
    assert_eq!(b.ask("flock sh nb"), "EAGAIN");
    // The two kinds of locks are independent.
    assert_eq!(a.ask("fcntl wr 0 0"), "ok");
    assert_eq!(b.ask("fcntl rd 0 0"), "EAGAIN");
    a.kill();
    assert_eq!(b.ask("flock ex nb"), "ok");
    assert_eq!(b.ask("fcntl wr 0 0"), "ok");
    drop(b);
    umount(&mount_dir.mount_point, Umount::Unused).unwrap();
}

/// Promise: `fcntl` locks cover byte ranges, can be split and converted by their owner, and end
/// with any close or with the process.
fn fcntl_between_processes() {
    let mount_dir = TestMount::new();
    assert!(mount_dir.daemon("").status.success());
    let path = mount_dir.mount_point.join("f");
    let (mut a, mut b) = (Client::start(&path), Client::start(&path));
    assert_eq!(a.ask("fcntl wr 0 100"), "ok");
    assert_eq!(b.ask("fcntl wr 100 100"), "ok");
    assert_eq!(b.ask("fcntl rd 50 1"), "EAGAIN");
    assert_eq!(a.ask("fcntl un 40 20"), "ok");
    assert_eq!(b.ask("fcntl rd 50 1"), "ok");
    assert_eq!(b.ask("fcntl rd 39 1"), "EAGAIN");
    assert_eq!(a.ask("fcntl rd 0 40"), "ok");
    assert_eq!(b.ask("fcntl rd 39 1"), "ok");
    assert_eq!(a.ask("reopen"), "ok");
    assert_eq!(b.ask("fcntl wr 0 0"), "ok");
    b.kill();
    assert_eq!(a.ask("fcntl wr 0 0"), "ok");
    drop(a);
    umount(&mount_dir.mount_point, Umount::Unused).unwrap();
}

/// Promise: a waiting process gets a lock when it is free, not before; a deadlock is an error; a
/// waiting process can be killed; and the mount serves other requests while many processes wait.
fn waiting_locks() {
    let mount_dir = TestMount::new();
    assert!(mount_dir.daemon("threads=1").status.success());
    let path = mount_dir.mount_point.join("f");
    let mut holder = Client::start(&path);
    assert_eq!(holder.ask("fcntl wr 0 1"), "ok");
    assert_eq!(holder.ask("flock ex nb"), "ok");
    let mut waiting: Vec<Client> = (0..4).map(|_| Client::start(&path)).collect();
    for (i, client) in waiting.iter_mut().enumerate() {
        client.send(if i % 2 == 0 { "fcntl wr 0 1 wait turn" } else { "flock ex turn" });
    }
    let mut killed = Client::start(&path);
    killed.send("fcntl wr 0 1 wait");
    killed.kill();
    fs::write(mount_dir.mount_point.join("other"), b"served").unwrap();
    assert_eq!(holder.ask("write 0 released"), "ok");
    assert_eq!(holder.ask("fcntl un 0 1"), "ok");
    assert_eq!(holder.ask("flock un"), "ok");
    for client in &mut waiting {
        assert_eq!(client.receive(), "released");
    }
    let (mut a, mut b) = (Client::start(&path), Client::start(&path));
    assert_eq!(a.ask("fcntl wr 0 1"), "ok");
    assert_eq!(b.ask("fcntl wr 1 1"), "ok");
    a.send("fcntl wr 1 1 wait turn");
    b.send("fcntl wr 0 1 wait turn");
    // The second request failed with a deadlock, and its process released its lock to the first.
    let mut answers = [a.receive(), b.receive()];
    answers.sort();
    assert_eq!(answers, ["EDEADLK", "released"]);
    drop((a, b, holder, waiting));
    umount(&mount_dir.mount_point, Umount::Unused).unwrap();
}

/// Promise: a shared mapping and `read` see the same bytes in different processes.
fn mappings() {
    let mount_dir = TestMount::new();
    assert!(mount_dir.daemon("").status.success());
    let path = mount_dir.mount_point.join("f");
    fs::write(&path, [b'.'; 10_000]).unwrap();
    let (mut a, mut b) = (Client::start(&path), Client::start(&path));
    assert_eq!(a.ask("map"), "ok");
    assert_eq!(b.ask("map"), "ok");
    assert_eq!(a.ask("map-write 5000 mapped"), "ok");
    assert_eq!(b.ask("map-read 5000 6"), "mapped");
    let text = fs::read(&path).unwrap();
    assert_eq!(&text[4999..5007], b".mapped.");
    assert_eq!(b.ask("write 0 beginning"), "ok");
    assert_eq!(a.ask("map-read 0 9"), "beginning");
    drop((a, b));
    umount(&mount_dir.mount_point, Umount::Unused).unwrap();
}

/// Promise: if there is no space for the pages of a mapping, `msync`, `fsync` or `close` fails, and
/// if none of them is called, the unmount fails.
fn mappings_without_space() {
    for (mode, ask) in
        WRITE_MODES.into_iter().flat_map(|mode| ["msync", "fsync", "close", "unmap"].map(|ask| (mode, ask)))
    {
        let mount_dir = TestMount::new();
        let mut server = mount_dir.foreground_with(&format!("small,{mode}"));
        let path = mount_dir.mount_point.join("f");
        let mut client = Client::start(&path);
        File::options().write(true).open(&path).unwrap().set_len(10_000).unwrap();
        fill_but(&mount_dir.mount_point, 2);
        for command in ["map", "map-write 0 x", "map-write 5000 x", "map-write 9000 x"] {
            assert_eq!(client.ask(command), "ok", "{mode}, {ask}: {command}");
        }
        let expected = if ask == "unmap" { "ok" } else { "ENOSPC" };
        assert_eq!(client.ask(ask), expected, "{mode}, {ask}");
        drop(client);
        let lost = lost_at_unmount(&mount_dir, &mut server);
        assert!(lost.contains(" of /f (no space left)"), "{mode}, {ask}: {lost}");
    }
}

/// Unmounts, and returns what the server says about lost writes, with which it fails.
fn lost_at_unmount(mount_dir: &TestMount, server: &mut Child) -> String {
    // The server reports the loss as well.
    let _ = umount(&mount_dir.mount_point, Umount::Unused);
    let mut lost = String::new();
    server.stderr.take().unwrap().read_to_string(&mut lost).unwrap();
    assert!(!server.wait().unwrap().success(), "{lost}");
    lost
}

/// Returns true if `fusermount3` is installed. If `CI` is set, it must be.
fn has_fusermount() -> bool {
    let found = Command::new("fusermount3").arg("-V").output().is_ok();
    assert!(found || std::env::var_os("CI").is_none(), "this needs fusermount3");
    found
}

/// Promise: a user without privilege can mount, use and unmount through `fusermount3`; a name that
/// looks like options gives no privilege; options that are only for root are refused.
fn ordinary_users_mount() {
    if !has_fusermount() {
        return;
    }
    let mount_dir = TestMount::new();
    let dir = mount_dir.dir.path().join("user");
    fs::create_dir_all(dir.join("m")).unwrap();
    fs::copy(std::env::current_exe().unwrap(), dir.join("program")).unwrap();
    for path in [dir.as_path(), &dir.join("m")] {
        std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
    }
    fs::set_permissions(mount_dir.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // In a separate mount namespace, /dev/fuse is accessible to everyone, as in distributions.
    let as_root = "mknod -m 666 $D/fuse c 10 229 && mount --bind $D/fuse /dev/fuse && \
        exec setpriv --reuid 65534 --regid 65534 --clear-groups sh -ec \"$AS_USER\"";
    let as_user = r#"cd $D
        ./program serve daemon m report 'uid=65534,fsname=x\,suid\,y'
        grep "$D/m rw,nosuid,nodev.* - fuse.spindle x,suid,y rw,user_id=65534.*default_permissions" /proc/self/mountinfo
        echo text > m/f
        test "$(cat m/f)" = text
        ! ./program umount m < m/f
        ./program umount m
        test ! -e m/f
        ! ./program serve daemon m report suid
        ! ./program serve daemon m report allow_root"#;
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", as_root])
        .env("D", &dir)
        .env("AS_USER", as_user)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{output:?}");
    assert!(stderr.contains("busy") && stderr.contains("`suid` is for root only"), "{stderr}");
    assert!(stderr.contains("`allow_root` cannot be enforced"), "{stderr}");
}

/// Promise: with `auto_unmount` a killed daemon leaves no dead mount.
fn auto_unmount() {
    if !has_fusermount() {
        return;
    }
    let mount_dir = TestMount::new();
    let mut child = mount_dir.foreground_with("auto_unmount");
    assert!(mount_dir.is_mounted());
    kill(pid(&child), Signal::SIGKILL).unwrap();
    child.wait().unwrap();
    while mount_dir.is_mounted() {
        std::thread::yield_now();
    }
    let mut child = mount_dir.foreground_with("auto_unmount");
    fs::write(mount_dir.mount_point.join("f"), b"x").unwrap();
    umount(&mount_dir.mount_point, Umount::Unused).unwrap();
    assert!(child.wait().unwrap().success());
}
