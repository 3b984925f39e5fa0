//! What the options of the recorder choose, and how a recording ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use spindle_clock::{Clock, SystemClock};
use spindle_interop::spindle::binary;
use spindle_interop::tool::{command, output, run};
use tempfile::TempDir;

use crate::{record_with, shown};

/// What a file of one byte leaves in a trace.
const MADE: [&str; 2] = ["create+write path=\"a\"", "close+write size=1 written=1 calls=1 path=\"a\""];

/// Returns the events of a trace without what a shell looks at.
fn made(trace: &Path, work: &Path) -> Vec<String> {
    let looks = |event: &String| ["stat", "access", "chdir"].iter().any(|kind| event.starts_with(kind));
    shown(trace, work).into_iter().filter(|event| !looks(event)).collect()
}

/// Makes the file of [`MADE`].
const MAKE: &str = "f = os.open('a', os.O_WRONLY | os.O_CREAT); os.write(f, b'1'); os.close(f)\n";

/// Waits in a shell until the test has made the file `done`, or has failed and taken the directory
/// away.
const UNTIL_DONE: &str = "while [ ! -e done ] && [ -e ../work ]; do sleep 0.02; done";

/// Looks until it is so: as long as a test may last.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if is_so() {
            return;
        }
        SystemClock.sleep(Duration::from_millis(20));
    }
    panic!("waited in vain for {what}");
}

/// A recorder at work in a directory of its own.
struct Recorder {
    process: Child,
    work: PathBuf,
    trace: PathBuf,
    _directory: TempDir,
}

impl Recorder {
    /// Starts it with these words behind those that name the trace and the directory, and waits
    /// until it records.
    fn start(words: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path().canonicalize().unwrap();
        let (work, trace) = (path.join("work"), path.join("events.trace"));
        fs::create_dir(&work).unwrap();
        let mut recorder = Command::new(binary());
        recorder.args(["trace", "record", "--path"]).arg(&work).arg("-o").arg(&trace).args(words);
        let process = recorder.current_dir(&work).stderr(Stdio::null()).spawn().unwrap();
        let recorder = Self { process, work, trace, _directory: directory };
        // The file is made when the kernel's half is at work.
        wait_until("the trace", || recorder.trace.exists());
        recorder
    }

    /// Makes the file of [`MADE`] in a process of its own: a child of another thread of this one
    /// has its descriptors too until it runs its program, and then the last close is the child's.
    fn make_file(&self) {
        run(command("sh").args(["-c", "printf 1 | tee a >&2"]).current_dir(&self.work)).unwrap();
    }

    fn signal(&self, name: &str) {
        run(command("kill").arg(format!("-{name}")).arg(self.process.id().to_string())).unwrap();
    }

    fn end(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the end of the recorder", || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    fn events(&self) -> Vec<String> {
        made(&self.trace, &self.work)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Promise: with `--user` only what processes of that account do is recorded, whether it is given
/// by name or number.
#[test]
fn user() {
    let script = format!(
        "os.chmod('.', 0o777); os.close(os.open('root', os.O_WRONLY | os.O_CREAT))
if os.fork() == 0:
    os.setuid(65534)
    {MAKE}    os._exit(0)
os.wait(); os.close(os.open('again', os.O_WRONLY | os.O_CREAT))"
    );
    for account in ["nobody", "65534"] {
        assert_eq!(record_with(&["--user", account], &script), MADE);
    }
    let mut nobody = command(binary());
    let got =
        output(nobody.args(["trace", "record", "-o", "/dev/null", "--user", "no-such-account"])).unwrap();
    assert_eq!(got.status.code(), Some(2), "{}", String::from_utf8_lossy(&got.stderr));
}

/// A cgroup that goes in the end.
struct Cgroup(PathBuf);

impl Cgroup {
    fn make(name: &str) -> Self {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let mut lines = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let root = lines.find(|fields| fields[2] == "cgroup2").expect("a mounted hierarchy of cgroups");
        let group = Path::new(root[1]).join(name);
        fs::create_dir(&group).unwrap();
        Self(group)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Who was in it may be about to end.
        wait_until("an empty cgroup", || fs::remove_dir(&self.0).is_ok());
    }
}

/// Promise: with `--cgroup` only what processes in it do is recorded; what is no cgroup is refused.
#[test]
fn cgroup() {
    let group = Cgroup::make(&format!("spindle-test-{}", std::process::id()));
    let group = group.0.to_str().unwrap();
    let script = format!(
        "os.close(os.open('outside', os.O_WRONLY | os.O_CREAT))
if os.fork() == 0:
    with open('{group}/cgroup.procs', 'w') as f: f.write(str(os.getpid()))
    {MAKE}    os._exit(0)
os.wait(); os.close(os.open('again', os.O_WRONLY | os.O_CREAT))"
    );
    assert_eq!(record_with(&["--cgroup", group], &script), MADE);
    let mut nothing = command(binary());
    let got = output(nothing.args(["trace", "record", "-o", "/dev/null", "--cgroup", "/usr"])).unwrap();
    assert_eq!(got.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&got.stderr).contains("cgroup"), "{got:?}");
}

/// Promise: the cgroup of a container is found by the container's name.
#[test]
fn container() {
    let name = format!("spindle-box-{}", std::process::id());
    let group = Cgroup::make(&format!("lxc.payload.{name}"));
    let script = format!(
        "os.close(os.open('outside', os.O_WRONLY | os.O_CREAT))
if os.fork() == 0:
    with open('{}/cgroup.procs', 'w') as f: f.write(str(os.getpid()))
    {MAKE}    os._exit(0)
os.wait()",
        group.0.display()
    );
    assert_eq!(record_with(&["--cgroup", &name], &script), MADE);
    let got =
        output(command(binary()).args(["trace", "record", "-o", "/dev/null", "--cgroup", "no-such-box"]));
    let got = got.unwrap();
    assert!(
        String::from_utf8_lossy(&got.stderr).contains("no running container is called no-such-box"),
        "{got:?}"
    );
}

/// Promise: with `--pid` a process that runs already is recorded, with the processes that it starts
/// from then on; the recording ends when it has ended. What is no process is refused.
#[test]
fn pid() {
    let directory = TempDir::new().unwrap();
    let script =
        format!("until [ -e ../go ]; do sleep 0.02; done; echo 1; printf 1 | tee a >&2; {UNTIL_DONE}");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).stdout(Stdio::null()).stderr(Stdio::null());
    let work = directory.path().join("work");
    fs::create_dir(&work).unwrap();
    let mut shell = shell.current_dir(&work).spawn().unwrap();
    let trace = directory.path().join("events.trace");
    let mut recorder = Command::new(binary());
    recorder.args(["trace", "record", "-o"]).arg(&trace).args(["--pid", &shell.id().to_string()]);
    let mut recorder = recorder.stderr(Stdio::null()).spawn().unwrap();
    wait_until("the trace", || trace.exists());
    run(command("sh").args(["-c", "printf 1 > b"]).current_dir(&work)).unwrap();
    fs::write(directory.path().join("go"), "").unwrap();
    wait_until("the file", || work.join("a").exists());
    fs::write(work.join("done"), "").unwrap();
    assert!(shell.wait().unwrap().success());
    let mut status = None;
    wait_until("the end of the recorder", || {
        status = recorder.try_wait().unwrap();
        status.is_some()
    });
    assert!(status.unwrap().success());
    let of_files = |event: &String| ["path=\"a\"", "path=\"b\""].iter().any(|path| event.ends_with(path));
    let events: Vec<_> = made(&trace, &work.canonicalize().unwrap()).into_iter().filter(of_files).collect();
    assert_eq!(events, MADE);
    let nothing = output(command(binary()).args(["trace", "record", "-o", "/dev/null", "--pid", "4194303"]));
    assert!(String::from_utf8_lossy(&nothing.unwrap().stderr).contains("there is no process 4194303"));
}

/// Promise: with `--rotate-age` and `--rotate-size` the parts are traces, which together are the
/// one that there would have been; a file that is open over an end goes on in the next part; old
/// parts go.
#[test]
fn parts() {
    let script = "
import time
f = os.open('a', os.O_RDWR | os.O_CREAT)
os.write(f, b'x' * 10)
for n in range(3):
    os.lseek(f, 0, 0)
    os.read(f, 5)
    time.sleep(1.2)
g = os.open('b', os.O_WRONLY | os.O_CREAT); os.write(g, b'y'); os.close(g)
os.pread(f, 3, 2)
os.close(f)";
    let directory = TempDir::new().unwrap();
    let path = directory.path().canonicalize().unwrap();
    let work = path.join("work");
    fs::create_dir(&work).unwrap();
    let record = |options: &[&str], script: &str| {
        let mut python = command(binary());
        python
            .args(["trace", "record", "--path"])
            .arg(&work)
            .arg("-o")
            .arg(path.join("t.trace"))
            .args(options);
        python.args(["--", "/usr/bin/python3", "-I", "-c"]).arg(format!("import os\n{script}"));
        run(python.current_dir(&work)).unwrap();
        let names = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
        let mut parts: Vec<_> = names.filter(|path| path.extension().is_some()).collect();
        parts.sort();
        parts
    };
    let parts = record(&["--rotate-age", "1"], script);
    assert!(parts.len() >= 3, "{parts:?}");
    assert!(parts[0].ends_with("t-000001.trace"), "{parts:?}");
    // The program may begin late, or have ended when the last part begins.
    let first = |part| shown(part, &work).into_iter().next();
    let reopened = "open+read+write+before size=10 path=\"a\"";
    assert!(parts[1..].iter().any(|part| first(part).as_deref() == Some(reopened)), "{parts:?}");
    let whole = path.join("whole");
    run(command(binary()).args(["trace", "merge", "--parts", "-o"]).arg(&whole).args(&parts)).unwrap();
    assert_eq!(
        shown(&whole, &work),
        [
            "create+read+write path=\"a\"",
            "seek+read+write written=10 calls=1 path=\"a\"",
            "seek+read+write read=5 calls=1 path=\"a\"",
            "seek+read+write read=5 calls=1 path=\"a\"",
            "create+write path=\"b\"",
            "close+write size=1 written=1 calls=1 path=\"b\"",
            "run+read+write+positional position=2 read=3 calls=1 path=\"a\"",
            "close+read+write size=10 read=5 calls=1 path=\"a\"",
        ]
    );

    let storm = "for n in range(200000): os.close(os.open('c', os.O_WRONLY | os.O_CREAT))";
    let last = parts.len();
    let parts = record(&["--rotate-size", "64k", "--keep", "2"], storm);
    assert_eq!(parts.len(), 2, "{parts:?}");
    assert!(parts[0] > path.join(format!("t-{last:06}.trace")), "{parts:?}");
    assert!(fs::metadata(&parts[0]).unwrap().len() >= 64 << 10);
}

/// Promise: with `--mount` only files of that file system are recorded.
#[test]
fn mount() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().canonicalize().unwrap();
    fs::create_dir(path.join("work")).unwrap();
    // In a namespace of its own, so that nothing stays mounted.
    let script = "mount -t tmpfs none work && cd work && \
        exec \"$0\" trace record --mount . -o ../events.trace -- sh -c 'echo > ../outside; printf 1 | tee a >&2'";
    let mut shell = command("unshare");
    shell.args(["--mount", "sh", "-ec", script]).arg(binary()).current_dir(&path);
    run(&mut shell).unwrap();
    assert_eq!(made(&path.join("events.trace"), &path.join("work")), MADE);
}

/// Promise: `--path` is the name of a directory or file, and no mere beginning of names; a rename
/// from there or to there is recorded.
#[test]
fn path() {
    let script = format!(
        "{MAKE}os.close(os.open('../workshop', os.O_WRONLY | os.O_CREAT)); os.mkdir('../other')
os.rename('a', '../other/b'); os.rename('../other/b', '../other/c'); os.rename('../other/c', 'd')"
    );
    let events = record_with(&[], &script);
    assert_eq!(events[..2], MADE);
    assert_eq!(events.len(), 4, "{events:?}");
    assert!(events[2].starts_with("rename path=\"a\"") && events[2].ends_with("/other/b\""), "{}", events[2]);
    assert!(events[3].ends_with("/other/c\" new_path=\"d\""), "{}", events[3]);
}

/// Promise: without `--all` only the command and what it starts is recorded, with it everybody.
#[test]
fn all() {
    let waiting = ["--", "sh", "-c", UNTIL_DONE];
    for (options, events) in [(&[][..], &[][..]), (&["--all"], &MADE)] {
        let mut recorder = Recorder::start(&[options, &waiting].concat());
        recorder.make_file();
        fs::write(recorder.work.join("done"), "").unwrap();
        assert!(recorder.end().success());
        let got: Vec<_> = recorder.events().into_iter().filter(|event| event.contains("\"a\"")).collect();
        assert_eq!(got, events, "{options:?}");
    }
}

/// Promise: after `--duration` a recording ends, and a command that still runs is left alone.
#[test]
fn duration() {
    let mut recorder = Recorder::start(&["--duration", "1.5"]);
    recorder.make_file();
    assert!(recorder.end().success());
    assert_eq!(recorder.events(), MADE);

    let script = format!("{UNTIL_DONE}; echo > end");
    let mut recorder = Recorder::start(&["--duration", "0.3", "--", "sh", "-c", &script]);
    assert!(recorder.end().success());
    recorder.events();
    fs::write(recorder.work.join("done"), "").unwrap();
    wait_until("the command's end", || recorder.work.join("end").exists());
}

/// Promise: `SIGINT`, `SIGTERM` and `SIGHUP` end a recording, and its trace is whole.
#[test]
fn signals() {
    for name in ["INT", "TERM", "HUP"] {
        let mut recorder = Recorder::start(&[]);
        recorder.make_file();
        recorder.signal(name);
        assert!(recorder.end().success(), "{name}");
        assert_eq!(recorder.events(), MADE, "{name}");
    }
}

/// Promise: while a command runs `SIGINT` is its business, and the recording goes on; `SIGTERM`
/// ends the recording, not the command.
#[test]
fn signals_beside_a_command() {
    let script = format!("{UNTIL_DONE}; printf 1 | tee a >&2; exit 7");
    let mut recorder = Recorder::start(&["--", "sh", "-c", &script]);
    recorder.signal("INT");
    fs::write(recorder.work.join("done"), "").unwrap();
    assert_eq!(recorder.end().code(), Some(7));
    assert_eq!(recorder.events(), MADE);

    let mut recorder = Recorder::start(&["--", "sh", "-c", &script]);
    recorder.signal("TERM");
    assert!(recorder.end().success());
    recorder.events();
    fs::write(recorder.work.join("done"), "").unwrap();
    wait_until("the command's file", || recorder.work.join("a").exists());
}

/// Promise: what was recorded is readable some seconds later, while the recorder is at work and
/// when it has been killed, and its readers see that its end is missing.
#[test]
fn killed() {
    let mut recorder = Recorder::start(&[]);
    recorder.make_file();
    let show = || output(command(binary()).args(["trace", "show"]).arg(&recorder.trace)).unwrap();
    wait_until("both events", || show().stdout.split(|&byte| byte == b'\n').count() > MADE.len());
    let said = String::from_utf8(show().stderr).unwrap();
    assert!(said.contains("the end is missing"), "{said}");
    recorder.signal("KILL");
    recorder.end();
    assert_eq!(recorder.events(), MADE);
}

/// Promise: if the disk with the trace is full, the recorder says so while the command runs, which
/// goes on; its exit code is then 1, and what was recorded before can be read.
#[test]
fn full_disk() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().canonicalize().unwrap();
    for name in ["work", "full"] {
        fs::create_dir(path.join(name)).unwrap();
    }
    let script = "import os, sys, time
def make(name):
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT))
make('first')
end = time.monotonic() + 100
# Until the first checkpoint.
time.sleep(2)
n = 0
while 'no space left' not in open('../said').read():
    for _ in range(1000):
        n += 1
        make(f'a{n * 7919 % 100003}'); os.unlink(f'a{n * 7919 % 100003}')
    if time.monotonic() > end: sys.exit('nothing was said')
make('after')";
    let shell = "mount -t tmpfs -o size=400k none full; cd work; code=0
\"$0\" trace record -o ../full/events.trace --path \"$PWD\" -- /usr/bin/python3 -I -c \"$1\" 2>../said || code=$?
echo $code >> ../said; cat ../full/events.trace > ../events.trace";
    run(command("unshare")
        .args(["--mount", "sh", "-ec", shell])
        .arg(binary())
        .arg(script)
        .current_dir(&path))
    .unwrap();
    let said = fs::read_to_string(path.join("said")).unwrap();
    assert!(said.contains("full/events.trace: no space left on device"), "{said}");
    assert!(said.contains("the command goes on, unrecorded") && said.ends_with("\n1\n"), "{said}");
    assert!(path.join("work/after").exists());
    let events = shown(&path.join("events.trace"), &path.join("work"));
    assert_eq!(events[0], "create+write path=\"first\"");
}

/// Promise: with `--latency` a trace says how long opens, reads, writes and syncs took, by the size
/// of the file; each call that succeeded on a file is counted once, and its time is that of the
/// call.
#[test]
fn latency() {
    let directory = TempDir::new().unwrap();
    let trace = directory.path().join("events.trace");
    let script = "
import fcntl, os, threading, time
f = os.open('a', os.O_RDWR | os.O_CREAT)
for n in range(20): os.write(f, b'x' * 1000)
os.pwrite(f, b'x', 1 << 21)
os.fsync(f)
for n in range(30): os.pread(f, 1, 0)
try: os.open('none', os.O_RDONLY)
except OSError: pass
r, w = os.pipe(); os.write(w, b'1'); os.read(r, 1)
d = os.open('.', os.O_RDONLY | os.O_DIRECTORY); os.fsync(d)";
    let mut python = command(binary());
    python.args(["trace", "record", "--latency", "-o"]).arg(&trace).args([
        "--",
        "/usr/bin/python3",
        "-I",
        "-S",
        "-c",
    ]);
    run(python.arg(format!("import os\n{script}")).current_dir(directory.path())).unwrap();
    let shown = run(command(binary()).args(["trace", "analyze", "--json"]).arg(&trace)).unwrap();
    let shown: serde_json::Value = serde_json::from_slice(&shown).unwrap();
    let calls = |call: &str, from: Option<u64>| {
        let rows = shown["findings"]["latencies"].as_array().or(shown["latencies"].as_array()).unwrap();
        let row = rows.iter().find(|row| row["call"] == call && row["from_bytes"].as_u64() == from);
        let buckets = row.map_or(&[][..], |row| row["ns"].as_array().unwrap());
        buckets.iter().map(|bucket| bucket[1].as_u64().unwrap()).sum::<u64>()
    };
    let small = Some(0);
    assert_eq!(calls("write", small), 4, "{shown:#}");
    assert_eq!(calls("write", Some(4096)), 16);
    assert_eq!(calls("write", Some(1 << 20)), 1);
    assert_eq!((calls("sync", Some(1 << 20)), calls("sync", None)), (1, 1));
    assert!(calls("read", Some(1 << 20)) >= 30 && calls("open", small) >= 1 && calls("open", None) >= 1);
    let text = run(command(binary()).args(["trace", "analyze"]).arg(&trace)).unwrap();
    assert!(String::from_utf8(text).unwrap().contains("How long calls took"));
}

/// Promise: `trace top` shows in each table what has happened since the one before, also in the
/// middle of a long run, and each byte once; it ends after as many tables as it was asked for, and
/// with the processes that it looks at.
#[test]
fn top() {
    let directory = TempDir::new().unwrap();
    let work = directory.path().canonicalize().unwrap();
    let script = format!(
        "{UNTIL_DONE}
        exec /usr/bin/python3 -I -S -c '
import os, time
f = os.open(\"a\", os.O_WRONLY | os.O_CREAT)
for n in range(30): os.write(f, b\"x\" * 10000); time.sleep(0.05)
'"
    );
    let script = script.replace("../work", &work.display().to_string());
    let mut writer = Command::new("sh").args(["-c", &script]).current_dir(&work).spawn().unwrap();
    let mut top = Command::new(binary());
    top.args(["trace", "top", "--by", "file", "--interval", "0.3", "--json", "--path"]).arg(work.join("a"));
    top.args(["--pid", &writer.id().to_string()]).stdout(fs::File::create(work.join("tables")).unwrap());
    let mut top = top.spawn().unwrap();
    let tables = || fs::read_to_string(work.join("tables")).unwrap();
    wait_until("the first table", || !tables().is_empty());
    fs::write(work.join("done"), "").unwrap();
    assert!(writer.wait().unwrap().success());
    assert!(top.wait().unwrap().success());
    let written = |line: &str| {
        let table: serde_json::Value = serde_json::from_str(line).unwrap();
        table["group"]["totals"][2].as_u64().unwrap()
    };
    let written: Vec<_> = tables().lines().map(written).filter(|&bytes| bytes > 0).collect();
    assert!(written.len() >= 2 && written.iter().sum::<u64>() == 300_000, "{written:?}");

    let counted =
        run(command(binary()).args(["trace", "top", "--interval", "0.2", "--count", "3", "--json"]));
    assert_eq!(String::from_utf8(counted.unwrap()).unwrap().lines().count(), 3);
}
