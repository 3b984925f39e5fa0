//! What takes several processes: daemons, signals, unmounting from outside, locks and mappings.
//! This program is its own helper: started with `serve` it mounts a model, and when that has ended
//! it writes down what was in it; started with `client` it does to a file what it is told
//! ([`client`]).

mod client;
#[path = "../common/mod.rs"]
mod common;

use client::Client;
use common::{Watchdog, big_model, can_mount};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use spindle_clock::{Clock, SystemClock};
use spindle_fuse::{Mode, MountOptions, is_held_by_ending, launch, serve, umount, wait_for_ending};
use spindle_vfs::FileSystem;
use spindle_vfs::model::ModelFs;
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
            let mut options = MountOptions::default();
            options.parse(words)?;
            let fs: Arc<dyn FileSystem> = Arc::new(ModelFs::new(big_model(), Arc::new(SystemClock)));
            // As the devices of images do.
            let image = Path::new(report).with_file_name("image");
            let locked = image.exists().then(|| lock(&image).expect("nobody else has it"));
            serve(&fs, Path::new(dir), "a,b model", &options, None, signals, ready)?;
            while locked.is_some() && !image.with_file_name("complete").exists() {
                SystemClock.sleep(Duration::from_millis(1));
            }
            write_report(&*fs, report);
            Ok::<(), spindle_fuse::Error>(())
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
        return umount(Path::new(path)).map_or_else(
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

const TESTS: [(&str, fn()); 15] = [
    ("a_daemon_is_live_when_its_parent_ends", a_daemon_is_live_when_its_parent_ends),
    ("failure_is_told", failure_is_told),
    ("sigterm_leaves_everything_written", sigterm_leaves_everything_written),
    ("systemd_is_told", systemd_is_told),
    ("mounts_elsewhere_are_told", mounts_elsewhere_are_told),
    ("a_killed_daemon_is_noticed", a_killed_daemon_is_noticed),
    ("daemons_that_end_are_waited_for", daemons_that_end_are_waited_for),
    ("only_mounts_of_ours_are_unmounted", only_mounts_of_ours_are_unmounted),
    ("dead_mounts_can_be_unmounted", dead_mounts_can_be_unmounted),
    ("flock_between_processes", flock_between_processes),
    ("fcntl_between_processes", fcntl_between_processes),
    ("waiting_locks", waiting_locks),
    ("mappings", mappings),
    ("ordinary_users_mount", ordinary_users_mount),
    ("auto_unmount", auto_unmount),
];

/// Each file of the root directory and its contents, as an unmounted file system still tells them.
fn write_report(fs: &dyn FileSystem, report: &str) {
    let mut names = Vec::new();
    fs.readdir(fs.root(), 0, &mut |entry| {
        names.push((entry.name.to_vec(), entry.ino));
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    let mut file = File::create(report).unwrap();
    for (name, ino) in names {
        let mut data = [0; 100];
        if let Ok(len) = fs.read(ino, 0, &mut data) {
            let contents = String::from_utf8_lossy(&data[..len]);
            writeln!(file, "{}={contents}", String::from_utf8_lossy(&name)).unwrap();
        }
    }
}

/// A directory to mount on and a place for the report.
struct Place {
    dir: TempDir,
    mount_point: PathBuf,
    _watchdog: Watchdog,
}

impl Place {
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

    /// Starts in the foreground and waits, as systemd would, until the mount is live.
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

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_mounted() {
            let _ = nix::mount::umount2(&self.mount_point, nix::mount::MntFlags::MNT_DETACH);
        }
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

/// Promise: exit status 0 means live, the name in the mount table is the one given, commas and all,
/// and `umount` returns when the daemon has done everything.
fn a_daemon_is_live_when_its_parent_ends() {
    let place = Place::new();
    let output = place.daemon("commit=1");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(place.is_mounted());
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = table.lines().find(|line| line.contains(place.dir.path().to_str().unwrap())).unwrap();
    assert!(line.contains(" - fuse.spindle a,b\\040model rw,user_id=0"), "{line}");
    assert!(line.contains("nosuid,nodev"), "{line}");
    fs::write(place.mount_point.join("f"), b"data").unwrap();
    umount(&place.mount_point).unwrap();
    // The daemon writes the report last of all.
    assert_eq!(fs::read_to_string(place.report()).unwrap(), "f=data\n");
    assert!(!place.is_mounted());
}

/// Promise: exit status 32 and a message on standard error when there can be no mount.
fn failure_is_told() {
    let place = Place::new();
    for (mode, words, expected) in [
        ("daemon", "bogus", "mount option `bogus` is unknown"),
        ("foreground", "uid=x", "mount option `uid=x`"),
    ] {
        let output = place.command(mode, words).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(32), "{message}");
        assert!(message.starts_with("daemon-test: ") && message.contains(expected), "{message}");
    }
    fs::remove_dir(&place.mount_point).unwrap();
    let output = place.daemon("");
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(32) && message.contains("cannot mount on"), "{message}");
    fs::create_dir(&place.mount_point).unwrap();
}

/// Promise: after SIGTERM the mount is gone and everything written has arrived, even what a file
/// still open holds only in the kernel's cache.
fn sigterm_leaves_everything_written() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let place = Place::new();
        let mut child = place.foreground();
        fs::write(place.mount_point.join("closed"), b"one").unwrap();
        kill(pid(&child), signal).unwrap();
        let status = child.wait().unwrap();
        assert!(status.success(), "{status}");
        assert!(!place.is_mounted());
        assert_eq!(fs::read_to_string(place.report()).unwrap(), "closed=one\n");
    }
    let place = Place::new();
    let mut child = place.foreground();
    let mut open = File::create(place.mount_point.join("open")).unwrap();
    open.write_all(b"two").unwrap();
    kill(pid(&child), Signal::SIGTERM).unwrap();
    // Out of sight at once, served until it is closed or the time of grace is over.
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    assert!(!place.is_mounted());
    assert_eq!(fs::read_to_string(place.report()).unwrap(), "open=two\n");
    assert!(open.write_all(b"three").and_then(|()| open.sync_all()).is_err());
}

/// Promise: in the foreground systemd hears that the mount is live, and `umount` waits for that
/// process, too.
fn systemd_is_told() {
    let place = Place::new();
    let mut child = place.foreground();
    assert!(place.is_mounted());
    umount(&place.mount_point).unwrap();
    assert!(child.wait().unwrap().success());
}

/// Promise: when the daemon dies before the image is complete, `umount` does not say that all is
/// well.
fn a_killed_daemon_is_noticed() {
    let place = Place::new();
    let mut child = place.foreground();
    kill(pid(&child), Signal::SIGKILL).unwrap();
    child.wait().unwrap();
    let error = umount(&place.mount_point).unwrap_err().to_string();
    assert!(error.contains("died before the image was complete"), "{error}");
    assert!(!place.is_mounted());
}

/// Returns the lock of an image.
fn lock(image: &Path) -> Result<Flock<File>, nix::Error> {
    let file = File::options().write(true).open(image).unwrap();
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| error)
}

/// Promise: after `umount(8)` without our helper an image is known to be free soon, and who waits
/// gets it; one with a live mount is not waited for.
fn daemons_that_end_are_waited_for() {
    let place = Place::new();
    let image = place.report().with_file_name("image");
    fs::write(&image, b"").unwrap();
    assert!(place.daemon("").status.success());
    assert!(lock(&image).is_err() && !is_held_by_ending(&image));
    wait_for_ending(&image, &SystemClock);
    nix::mount::umount(&place.mount_point).unwrap();
    assert!(lock(&image).is_err() && is_held_by_ending(&image));
    let complete = image.with_file_name("complete");
    std::thread::scope(|scope| {
        scope.spawn(|| fs::write(complete, b"").unwrap());
        wait_for_ending(&image, &SystemClock);
        lock(&image).expect("the daemon has let go of it");
    });
}

/// Promise: what is not mounted, is no FUSE mount, or is in use stays as it is.
fn only_mounts_of_ours_are_unmounted() {
    let place = Place::new();
    let error = umount(&place.mount_point).unwrap_err().to_string();
    assert!(error.contains("nothing is mounted"), "{error}");
    let error = umount(Path::new("/proc")).unwrap_err().to_string();
    assert!(error.contains("not ours"), "{error}");
    assert!(place.daemon("").status.success());
    let mut file =
        OpenOptions::new().read(true).write(true).create_new(true).open(place.mount_point.join("f")).unwrap();
    let error = umount(&place.mount_point).unwrap_err().to_string();
    assert!(error.contains("busy"), "{error}");
    file.write_all(b"x").unwrap();
    assert_eq!(file.read(&mut [0]).unwrap(), 0);
    drop(file);
    umount(&place.mount_point).unwrap();
}

/// Promise: one of two mounts of a file system goes, and `umount` says that the image is still in
/// use; the last one waits for it.
fn mounts_elsewhere_are_told() {
    use nix::mount::{MsFlags, mount};
    let (place, elsewhere) = (Place::new(), Place::new());
    assert!(place.daemon("").status.success());
    let nothing = None::<&str>;
    mount(Some(&place.mount_point), &elsewhere.mount_point, nothing, MsFlags::MS_BIND, nothing).unwrap();
    let error = umount(&place.mount_point).unwrap_err().to_string();
    assert!(error.contains("mounted elsewhere as well"), "{error}");
    assert!(!place.is_mounted() && elsewhere.is_mounted());
    umount(&elsewhere.mount_point).unwrap();
    assert!(place.report().exists());
}

/// Promise: a mount whose daemon is dead answers nothing, but can be replaced.
fn dead_mounts_can_be_unmounted() {
    let place = Place::new();
    let mut child = place.foreground();
    kill(pid(&child), Signal::SIGKILL).unwrap();
    child.wait().unwrap();
    assert_eq!(fs::metadata(&place.mount_point).unwrap_err().raw_os_error(), Some(libc::ENOTCONN));
    assert!(umount(&place.mount_point).is_err());
    assert!(place.daemon("").status.success());
    umount(&place.mount_point).unwrap();
}

/// Promise: `flock` is shared or exclusive, can be changed into the other, belongs to the open file
/// and ends with its process.
fn flock_between_processes() {
    let place = Place::new();
    assert!(place.daemon("").status.success());
    let path = place.mount_point.join("f");
    let (mut a, mut b) = (Client::start(&path), Client::start(&path));
    assert_eq!(a.ask("flock sh nb"), "ok");
    assert_eq!(b.ask("flock sh nb"), "ok");
    assert_eq!(a.ask("flock ex nb"), "EAGAIN");
    assert_eq!(b.ask("flock un"), "ok");
    assert_eq!(a.ask("flock ex nb"), "ok");
    assert_eq!(b.ask("flock sh nb"), "EAGAIN");
    // The other kind of lock knows nothing of it, whoever asks.
    assert_eq!(a.ask("fcntl wr 0 0"), "ok");
    assert_eq!(b.ask("fcntl rd 0 0"), "EAGAIN");
    a.kill();
    assert_eq!(b.ask("flock ex nb"), "ok");
    assert_eq!(b.ask("fcntl wr 0 0"), "ok");
    drop(b);
    umount(&place.mount_point).unwrap();
}

/// Promise: `fcntl` locks cover bytes, are split and changed by their owner, and end with any close
/// or the process.
fn fcntl_between_processes() {
    let place = Place::new();
    assert!(place.daemon("").status.success());
    let path = place.mount_point.join("f");
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
    umount(&place.mount_point).unwrap();
}

/// Promise: who waits for a lock gets it when it is free, not before; who would wait in a circle is
/// told; who waits can be killed; and meanwhile the mount serves others, however many wait.
fn waiting_locks() {
    let place = Place::new();
    assert!(place.daemon("threads=1").status.success());
    let path = place.mount_point.join("f");
    let mut holder = Client::start(&path);
    assert_eq!(holder.ask("fcntl wr 0 1"), "ok");
    assert_eq!(holder.ask("flock ex nb"), "ok");
    let mut waiting: Vec<Client> = (0..4).map(|_| Client::start(&path)).collect();
    for (i, client) in waiting.iter_mut().enumerate() {
        client.tell(if i % 2 == 0 { "fcntl wr 0 1 wait turn" } else { "flock ex turn" });
    }
    let mut killed = Client::start(&path);
    killed.tell("fcntl wr 0 1 wait");
    killed.kill();
    fs::write(place.mount_point.join("other"), b"served").unwrap();
    assert_eq!(holder.ask("write released"), "ok");
    assert_eq!(holder.ask("fcntl un 0 1"), "ok");
    assert_eq!(holder.ask("flock un"), "ok");
    for client in &mut waiting {
        assert_eq!(client.hear(), "released");
    }
    let (mut a, mut b) = (Client::start(&path), Client::start(&path));
    assert_eq!(a.ask("fcntl wr 0 1"), "ok");
    assert_eq!(b.ask("fcntl wr 1 1"), "ok");
    a.tell("fcntl wr 1 1 wait turn");
    b.tell("fcntl wr 0 1 wait turn");
    // Whoever came second closed the circle and let go, so that the other got what it waited for.
    let mut heard = [a.hear(), b.hear()];
    heard.sort();
    assert_eq!(heard, ["EDEADLK", "released"]);
    drop((a, b, holder, waiting));
    umount(&place.mount_point).unwrap();
}

/// Promise: a shared mapping and `read` see the same bytes, between processes and after the mount
/// was replaced.
fn mappings() {
    let place = Place::new();
    assert!(place.daemon("").status.success());
    let path = place.mount_point.join("f");
    fs::write(&path, [b'.'; 10_000]).unwrap();
    let (mut a, mut b) = (Client::start(&path), Client::start(&path));
    assert_eq!(a.ask("map"), "ok");
    assert_eq!(b.ask("map"), "ok");
    assert_eq!(a.ask("map-write 5000 mapped"), "ok");
    assert_eq!(b.ask("map-read 5000 6"), "mapped");
    let text = fs::read(&path).unwrap();
    assert_eq!(&text[4999..5007], b".mapped.");
    assert_eq!(b.ask("write beginning"), "ok");
    assert_eq!(a.ask("map-read 0 9"), "beginning");
    drop((a, b));
    umount(&place.mount_point).unwrap();
}

/// Returns whether `fusermount3` is there. Where `CI` is set it must be.
fn has_fusermount() -> bool {
    let found = Command::new("fusermount3").arg("-V").output().is_ok();
    assert!(found || std::env::var_os("CI").is_none(), "this needs fusermount3");
    found
}

/// Promise: a user without privilege mounts, uses and unmounts through `fusermount3`, under a name
/// that looks like options and gives no privilege, and is told what is not for them.
fn ordinary_users_mount() {
    if !has_fusermount() {
        return;
    }
    let place = Place::new();
    let dir = place.dir.path().join("user");
    fs::create_dir_all(dir.join("m")).unwrap();
    fs::copy(std::env::current_exe().unwrap(), dir.join("program")).unwrap();
    for path in [dir.as_path(), &dir.join("m")] {
        std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
    }
    fs::set_permissions(place.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // In a mount namespace of its own, /dev/fuse is open to everyone, as distributions have it.
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
    let heard = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{output:?}");
    assert!(heard.contains("busy") && heard.contains("`suid` is for root only"), "{heard}");
    assert!(heard.contains("`allow_root` cannot be kept"), "{heard}");
}

/// Promise: with `auto_unmount` not even a killed daemon leaves a dead mount behind.
fn auto_unmount() {
    if !has_fusermount() {
        return;
    }
    let place = Place::new();
    let mut child = place.foreground_with("auto_unmount");
    assert!(place.is_mounted());
    kill(pid(&child), Signal::SIGKILL).unwrap();
    child.wait().unwrap();
    while place.is_mounted() {
        std::thread::yield_now();
    }
    let mut child = place.foreground_with("auto_unmount");
    fs::write(place.mount_point.join("f"), b"x").unwrap();
    umount(&place.mount_point).unwrap();
    assert!(child.wait().unwrap().success());
}
