//! `spindle trace record`: every way in which a program can use a file, whole programs beside
//! `strace`, and every way to choose what is recorded and to end it.

mod asynchronous;
mod identity;
mod options;

use std::fs;
use std::path::Path;

use spindle_interop::spindle::{binary, spindle};
use spindle_interop::strace;
use spindle_interop::tool::{command, output, repository, run};
use tempfile::TempDir;

/// Records a Python script in a directory of its own, and gives the events of what is below it:
/// without time and numbers that differ between runs, and with names from there.
fn record(script: &str) -> Vec<String> {
    record_with(&[], script)
}

/// Returns the same, with options of the recorder.
fn record_with(options: &[&str], script: &str) -> Vec<String> {
    let directory = TempDir::new().unwrap();
    let path = directory.path().canonicalize().unwrap();
    let (work, trace) = (path.join("work"), path.join("events.trace"));
    fs::create_dir(&work).unwrap();
    let mut python = command(binary());
    python.args(["trace", "record", "--path"]).arg(&work).arg("-o").arg(&trace).args(options).arg("--");
    python.args(["/usr/bin/python3", "-I", "-c"]).arg(format!("import os\n{script}")).current_dir(&work);
    run(&mut python).unwrap();
    shown(&trace, &work)
}

/// Returns the events of a trace, of files below `work`.
fn shown(trace: &Path, work: &Path) -> Vec<String> {
    let text = String::from_utf8(spindle([Path::new("trace"), Path::new("show"), trace]).unwrap()).unwrap();
    let below = format!("{}/", work.display());
    let itself = format!("{:?}", work.display().to_string());
    text.lines().map(|line| plain(line).replace(&below, "").replace(&itself, "\".\"")).collect()
}

/// Returns a line of `trace show` without what is not the same each time.
fn plain(line: &str) -> String {
    let changing = ["open=", "device=", "inode=", "user=", "process=", "command="];
    let words = line.split(' ').skip(1);
    words.filter(|word| !changing.iter().any(|name| word.starts_with(name))).collect::<Vec<_>>().join(" ")
}

fn expect(script: &str, events: &[&str]) {
    let got = record(script);
    assert!(got == events, "{script}\nexpected:\n{}\ngot:\n{}", events.join("\n"), got.join("\n"));
}

/// Promise: a run goes on through reads or writes, and a seek, a change of direction, a sync or the
/// close ends it; a seek that moves nothing is none.
#[test]
fn runs() {
    expect(
        "f = os.open('a', os.O_RDWR | os.O_CREAT)
os.write(f, b'x' * 10); os.write(f, b'y' * 20)
os.lseek(f, 0, 1)
os.lseek(f, 5, 0)
os.read(f, 3); os.read(f, 4); os.write(f, b'z'); os.read(f, 100)
os.fsync(f)
os.close(f)",
        &[
            "create+read+write path=\"a\"",
            "seek+read+write written=30 new_position=5 calls=2 path=\"a\"",
            "run+read+write position=5 read=7 calls=2 path=\"a\"",
            "run+read+write position=12 written=1 calls=1 path=\"a\"",
            "run+read+write position=13 read=17 calls=1 path=\"a\"",
            "sync+read+write path=\"a\"",
            "close+read+write size=30 position=30 path=\"a\"",
        ],
    );
}

/// Promise: every call that writes a file out is recorded as a sync, and what came before it ends
/// before it: `fsync`, `fdatasync`, `sync_file_range`, and each write with `O_SYNC` or `O_DSYNC`;
/// `ftruncate` ends runs as well.
#[test]
fn syncs() {
    let wrote = "run+read+write written=10 calls=1 path=\"a\"";
    let range = "import ctypes; ctypes.CDLL(None).sync_file_range(f, ctypes.c_long(0), ctypes.c_long(0), 2)";
    for sync in ["os.fsync(f)", "os.fdatasync(f)", range] {
        let script = format!(
            "f = os.open('a', os.O_RDWR | os.O_CREAT)
os.write(f, b'x' * 10)
{sync}
os.write(f, b'y' * 20)
os.close(f)"
        );
        let close = "close+read+write size=30 position=10 written=20 calls=1 path=\"a\"";
        expect(&script, &["create+read+write path=\"a\"", wrote, "sync+read+write path=\"a\"", close]);
    }
    for flag in ["O_SYNC", "O_DSYNC"] {
        let script = format!(
            "f = os.open('a', os.O_RDWR | os.O_CREAT | os.{flag})
os.write(f, b'x' * 10)
os.pwrite(f, b'z', 5)
os.pread(f, 3, 0)
os.close(f)"
        );
        expect(
            &script,
            &[
                "create+read+write path=\"a\"",
                wrote,
                "sync+read+write path=\"a\"",
                "run+read+write+positional position=5 written=1 calls=1 path=\"a\"",
                "sync+read+write path=\"a\"",
                "run+read+write+positional read=3 calls=1 path=\"a\"",
                "close+read+write size=10 position=10 path=\"a\"",
            ],
        );
    }
    expect(
        "f = os.open('a', os.O_RDWR | os.O_CREAT)
os.write(f, b'x' * 10)
os.ftruncate(f, 4)
os.close(f)",
        &[
            "create+read+write path=\"a\"",
            wrote,
            "truncate+read+write size=4 path=\"a\"",
            "close+read+write size=4 position=10 path=\"a\"",
        ],
    );
}

/// Promise: `sync` and `syncfs` are syncs of all files, behind what the process wrote before; a
/// write with `RWF_DSYNC` or `RWF_SYNC` is one of its file.
#[test]
fn syncs_of_all_files() {
    for sync in ["os.sync()", "import ctypes; ctypes.CDLL(None).syncfs(f)"] {
        let script = format!(
            "f = os.open('a', os.O_RDWR | os.O_CREAT)
os.write(f, b'x' * 10); {sync}
os.write(f, b'y' * 20); os.close(f)"
        );
        let close = "close+read+write size=30 position=10 written=20 calls=1 path=\"a\"";
        let wrote = "run+read+write written=10 calls=1 path=\"a\"";
        expect(&script, &["create+read+write path=\"a\"", wrote, "sync", close]);
    }
    for flag in ["RWF_DSYNC", "RWF_SYNC"] {
        expect(
            &format!(
                "f = os.open('a', os.O_RDWR | os.O_CREAT)
os.pwritev(f, [b'x' * 10], 5, os.{flag}); os.pwritev(f, [b'x'], 0); os.close(f)"
            ),
            &[
                "create+read+write path=\"a\"",
                "run+read+write+positional position=5 written=10 calls=1 path=\"a\"",
                "sync+read+write path=\"a\"",
                "run+read+write+positional written=1 calls=1 path=\"a\"",
                "close+read+write size=15 path=\"a\"",
            ],
        );
    }
}

/// Promise: an open file is closed once, by the last descriptor, however there came to be several.
#[test]
fn shared_descriptors() {
    let ends = "close+write size=3 written=3 calls=3 path=\"a\"";
    for share in [
        "g = os.dup(f)",
        "g = os.dup2(f, 9)",
        "g = os.dup2(f, 9, inheritable=False)",
        "import fcntl; g = fcntl.fcntl(f, fcntl.F_DUPFD_CLOEXEC, 20)",
    ] {
        let script = format!(
            "f = os.open('a', os.O_WRONLY | os.O_CREAT); os.write(f, b'1')
{share}
os.write(g, b'2'); os.close(f); os.write(g, b'3'); os.close(g)"
        );
        expect(&script, &["create+write path=\"a\"", ends]);
    }
    expect(
        "f = os.open('a', os.O_WRONLY | os.O_CREAT); os.write(f, b'1')
if os.fork() == 0:
    os.write(f, b'2')
    os._exit(0)
os.wait()
os.write(f, b'3')
os.close(f)",
        &["create+write path=\"a\"", ends],
    );
}

/// Promise: what closes a file without being asked is seen, and recorded as implicit: another
/// descriptor over it, the end of the process, another program. `close_range` is asked.
#[test]
fn implicit_closes() {
    let open = "f = os.open('a', os.O_WRONLY | os.O_CREAT); os.write(f, b'1')\n";
    let implicit = "close+write+implicit size=1 written=1 calls=1 path=\"a\"";
    for end in [
        "os.dup2(os.open('/dev/null', 0), f)",
        "os._exit(0)",
        "import signal; os.fork() or os.kill(os.getpid(), signal.SIGKILL); os.wait()",
        "os.execv('/bin/true', ['true'])",
    ] {
        let end = if end.contains("SIGKILL") {
            end.replace("os.wait()", "os.close(f); os.wait()")
        } else {
            end.into()
        };
        let last = if end.contains("SIGKILL") { implicit.replace("+implicit", "") } else { implicit.into() };
        let events = record(&(open.to_owned() + &end));
        if end.contains("SIGKILL") {
            // Whichever of the two processes is the last.
            let is_closed_once = events.len() == 2 && events[1].replace("+implicit", "") == last;
            assert!(is_closed_once, "{events:?}");
        } else {
            assert_eq!(events, ["create+write path=\"a\"", &last]);
        }
    }
    expect(
        &(open.to_owned() + "os.closerange(f, 1000); os.write(os.open('b', 65), b'22')"),
        &[
            "create+write path=\"a\"",
            "close+write size=1 written=1 calls=1 path=\"a\"",
            "create+write path=\"b\"",
            "close+write+implicit size=2 written=2 calls=1 path=\"b\"",
        ],
    );
}

/// Promise: positional accesses that follow each other are one run, which leaves the file's own
/// position alone.
#[test]
fn positional() {
    expect(
        "f = os.open('a', os.O_RDWR | os.O_CREAT)
os.pwrite(f, b'x' * 100, 50); os.pwrite(f, b'x' * 50, 150); os.pwrite(f, b'y', 0)
os.preadv(f, [bytearray(20), bytearray(10)], 60); os.pread(f, 10, 90)
os.read(f, 4)
os.close(f)",
        &[
            "create+read+write path=\"a\"",
            "run+read+write+positional position=50 written=150 calls=2 path=\"a\"",
            "run+read+write+positional written=1 calls=1 path=\"a\"",
            "run+read+write+positional position=60 read=40 calls=2 path=\"a\"",
            "close+read+write size=200 read=4 calls=1 path=\"a\"",
        ],
    );
}

/// Promise: a mapping is a run of what it covers of the file, read or written as it allows.
#[test]
fn mapped() {
    expect(
        "import mmap
f = os.open('a', os.O_RDWR | os.O_CREAT); os.ftruncate(f, 10000)
m = mmap.mmap(f, 10000); m[0] = 1; m.close()
m = mmap.mmap(f, 5904, mmap.MAP_PRIVATE, mmap.PROT_READ, offset=4096); m.close()
os.close(f)",
        &[
            "create+read+write path=\"a\"",
            "truncate+read+write size=10000 path=\"a\"",
            "stat+read+write size=10000 path=\"a\"",
            "stat+read+write size=10000 path=\"a\"",
            "run+read+write+mapped written=10000 calls=1 path=\"a\"",
            "run+read+write+mapped position=4096 read=5904 calls=1 path=\"a\"",
            "close+read+write size=10000 path=\"a\"",
        ],
    );
}

/// Promise: `msync` is a sync of the file that is mapped there, also of one that is closed, unless
/// it only begins to write.
#[test]
fn synced_mappings() {
    expect(
        "import ctypes; libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p
f = os.open('a', os.O_RDWR | os.O_CREAT); os.ftruncate(f, 8192)
m = ctypes.c_void_p(libc.mmap(None, ctypes.c_long(8192), 3, 1, f, ctypes.c_long(0)))
libc.msync(m, ctypes.c_long(8192), 1); libc.msync(m, ctypes.c_long(8192), 4)
os.close(f)
libc.msync(ctypes.c_void_p(m.value + 4096), ctypes.c_long(4096), 4)",
        &[
            "create+read+write path=\"a\"",
            "truncate+read+write size=8192 path=\"a\"",
            "run+read+write+mapped written=8192 calls=1 path=\"a\"",
            "sync+read+write path=\"a\"",
            "close+read+write size=8192 path=\"a\"",
            "sync path=\"a\"",
        ],
    );
}

/// Promise: what the kernel copies is read here and written there, at the file's position or the
/// one that was given.
#[test]
fn copied_in_the_kernel() {
    expect(
        "a = os.open('a', os.O_RDWR | os.O_CREAT); os.write(a, b'x' * 1000); os.lseek(a, 0, 0)
b = os.open('b', os.O_RDWR | os.O_CREAT)
os.copy_file_range(a, b, 300); os.copy_file_range(a, b, 200, 500, 600)
os.sendfile(b, a, 700, 100)
os.close(a); os.close(b)",
        &[
            "create+read+write path=\"a\"",
            "seek+read+write written=1000 calls=1 path=\"a\"",
            "create+read+write path=\"b\"",
            "run+read+write+positional position=500 read=300 calls=2 path=\"a\"",
            "close+read+write size=1000 read=300 calls=1 path=\"a\"",
            "run+read+write+positional position=600 written=200 calls=1 path=\"b\"",
            "close+read+write size=800 written=400 calls=2 path=\"b\"",
        ],
    );
}

/// Promise: where appended bytes went is known, with several who append too.
#[test]
fn appended() {
    expect(
        "os.close(os.open('a', os.O_WRONLY | os.O_CREAT))
a, b = (os.open('a', os.O_WRONLY | os.O_APPEND) for _ in 'ab')
os.write(a, b'1' * 10); os.write(a, b'2' * 10); os.write(b, b'3' * 5); os.write(a, b'4' * 7)
os.close(a); os.close(b)",
        &[
            "create+write path=\"a\"",
            "close+write path=\"a\"",
            "open+write+append path=\"a\"",
            "open+write+append path=\"a\"",
            "run+write+append written=20 calls=2 path=\"a\"",
            "close+write+append size=32 position=25 written=7 calls=1 path=\"a\"",
            "close+write+append size=32 position=20 written=5 calls=1 path=\"a\"",
        ],
    );
}

/// Promise: a file that is changed to be appended to while it is open is recorded as such from then
/// on, and where its bytes went.
#[test]
fn appended_from_now_on() {
    expect(
        "import fcntl
f = os.open('a', os.O_WRONLY | os.O_CREAT); os.write(f, b'1' * 10)
fcntl.fcntl(f, fcntl.F_SETFL, os.O_APPEND); os.lseek(f, 0, 0); os.write(f, b'2' * 5)
fcntl.fcntl(f, fcntl.F_SETFL, 0); os.lseek(f, 0, 0); os.write(f, b'3' * 4); os.close(f)",
        &[
            "create+write path=\"a\"",
            "seek+write+append written=10 calls=1 path=\"a\"",
            "seek+write position=10 written=5 calls=1 path=\"a\"",
            "close+write size=15 written=4 calls=1 path=\"a\"",
        ],
    );
}

/// Promise: the end of names and of data is recorded: with the size, and whether it was the last
/// name; a replaced file first of all; an open file's data goes with its last close.
#[test]
fn names_that_go() {
    expect(
        "def make(name, n):
    f = os.open(name, os.O_WRONLY | os.O_CREAT); os.write(f, b'x' * n); os.close(f)
make('a', 3); os.link('a', 'b'); os.unlink('a'); os.unlink('b')
make('c', 4); make('d', 5); os.rename('c', 'd')
f = os.open('d', os.O_RDONLY); os.unlink('d'); os.close(f)
os.mkdir('e'); os.rename('e', 'g'); os.rmdir('g')",
        &[
            "create+write path=\"a\"",
            "close+write size=3 written=3 calls=1 path=\"a\"",
            "link path=\"a\" new_path=\"b\"",
            "unlink size=3 path=\"a\"",
            "unlink+last size=3 path=\"b\"",
            "create+write path=\"c\"",
            "close+write size=4 written=4 calls=1 path=\"c\"",
            "create+write path=\"d\"",
            "close+write size=5 written=5 calls=1 path=\"d\"",
            "unlink+last+replaced size=5 path=\"d\"",
            "rename path=\"c\" new_path=\"d\"",
            "open+read size=4 path=\"d\"",
            "unlink+last size=4 path=\"d\"",
            "close+read+last size=4 path=\"d\"",
            "mkdir+directory path=\"e\"",
            "rename path=\"e\" new_path=\"g\"",
            "rmdir+directory path=\"g\"",
        ],
    );
}

/// Promise: a file without a name is recorded as such; an open that truncates records the former
/// size; `truncate` by name and by descriptor; directories; names relative to a descriptor.
#[test]
fn kinds_of_open() {
    expect(
        "f = os.open('.', os.O_RDWR | os.O_TMPFILE); os.write(f, b'12'); os.close(f)
d = os.open('.', os.O_RDONLY)
f = os.open('../work/./a', os.O_WRONLY | os.O_CREAT, dir_fd=d); os.write(f, b'12345'); os.close(f)
os.close(os.open('a', os.O_WRONLY | os.O_TRUNC)); os.truncate('a', 7); os.unlink('a', dir_fd=d)",
        &[
            "create+read+write+nameless",
            "close+read+write+last size=2 written=2 calls=1",
            "open+read+directory size=4096 path=\".\"",
            "create+write path=\"a\"",
            "close+write size=5 written=5 calls=1 path=\"a\"",
            "open+write+truncated size=5 path=\"a\"",
            "close+write path=\"a\"",
            "truncate size=7 path=\"a\"",
            "unlink+last size=7 path=\"a\"",
            "close+read+directory+implicit size=4096 path=\".\"",
        ],
    );
}

/// Promise: threads that share a descriptor lose no byte.
#[test]
fn threads() {
    let events = record(
        "import threading
f = os.open('a', os.O_RDWR | os.O_CREAT); os.ftruncate(f, 1 << 20)
def work(n):
    for i in range(200):
        os.read(f, 7)
        os.pread(f, 11, n * 5000 + i * 11)
workers = [threading.Thread(target=work, args=(n,)) for n in range(8)]
for worker in workers: worker.start()
for worker in workers: worker.join()
os.close(f)",
    );
    let field = |line: &str, name: &str| {
        line.split(' ')
            .find_map(|word| word.strip_prefix(name))
            .map_or(0, |number| number.parse::<u64>().unwrap())
    };
    let (own, shared): (Vec<_>, Vec<_>) = events.iter().partition(|line| line.contains("+positional"));
    assert_eq!(own.iter().map(|line| field(line, "read=")).sum::<u64>(), 8 * 200 * 11);
    assert_eq!(own.iter().map(|line| field(line, "calls=")).sum::<u64>(), 8 * 200);
    assert_eq!(shared.last().map(|line| field(line, "read=")), Some(8 * 200 * 7));
    assert_eq!(shared.len(), 3, "{shared:?}");
}

/// Promise: a file that was open when the command began is recorded as such, from where it stood,
/// and what was done with it, too.
#[test]
fn open_before() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().canonicalize().unwrap();
    let (out, trace) = (path.join("out"), path.join("events.trace"));
    let script = "exec > \"$1\"; echo abc; \"$2\" trace record --path \"$3\" -o \"$4\" -- echo defgh";
    let mut shell = command("sh");
    shell.args(["-c", script, "sh"]).arg(&out).arg(binary()).arg(&path).arg(&trace);
    run(&mut shell).unwrap();
    let text = String::from_utf8(spindle([Path::new("trace"), Path::new("show"), &trace]).unwrap()).unwrap();
    let events: Vec<_> = text.lines().map(plain).collect();
    let name = format!("path={out:?}");
    assert_eq!(
        events,
        [
            format!("open+write+before size=4 position=4 {name}"),
            format!("stat+write size=4 {name}"),
            format!("run+write position=4 written=6 calls=1 {name}")
        ]
    );
}

/// Promise: the exit code is the command's; a signal's is that of a shell; a command that is not
/// there is 127.
#[test]
fn exit_codes() {
    let directory = TempDir::new().unwrap();
    let trace = directory.path().join("events.trace");
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 128 + 15)] {
        let mut shell = command(binary());
        shell.args(["trace", "record", "-o"]).arg(&trace).args(["--", "sh", "-c", script]);
        assert_eq!(output(&mut shell).unwrap().status.code(), Some(code));
    }
    let mut nothing = std::process::Command::new(binary());
    nothing.args(["trace", "record", "-o"]).arg(&trace).args(["--", "/no/such/program"]);
    let got = nothing.output().unwrap();
    assert_eq!(got.status.code(), Some(127), "{}", String::from_utf8_lossy(&got.stderr));
}

/// Promise: the object that is kept is the one that its sources make (with the clang of Debian 12).
#[test]
fn object_is_of_its_sources() {
    let directory = TempDir::new().unwrap();
    let made = directory.path().join("recorder.bpf.o");
    run(command(repository().join("scripts/build-bpf")).arg(&made)).unwrap();
    let kept = fs::read(repository().join("crates/record/src/bpf/recorder.bpf.o")).unwrap();
    assert!(fs::read(&made).unwrap() == kept, "run scripts/build-bpf, and commit the object");
}

/// Promise: calls that only look at a file, or change its attributes or names, are recorded, with
/// the file where the call says which it is; those that only look are recorded when they fail, too.
#[test]
fn control_calls() {
    expect(
        "f = os.open('a', os.O_RDWR | os.O_CREAT); os.write(f, b'123')
os.fstat(f); os.fchmod(f, 0o600); os.fchown(f, -1, -1); os.utime(f)
os.close(f)
os.stat('a'); os.lstat('a'); os.access('a', os.R_OK); os.chmod('a', 0o640); os.chown('a', -1, -1); os.utime('a')
os.symlink('a', 'l'); os.readlink('l'); os.link('a', 'b')
os.mkdir('d'); os.chdir('d'); os.stat('../a'); os.listdir('..'); os.chdir('..')
for call in (os.stat, os.readlink, lambda name: os.chmod(name, 0)):
    try: call('none')
    except OSError: pass
os.access('none', os.R_OK)",
        &[
            "create+read+write path=\"a\"",
            "stat+read+write size=3 path=\"a\"",
            "chmod+read+write path=\"a\"",
            "chown+read+write path=\"a\"",
            "utime+read+write path=\"a\"",
            "close+read+write size=3 written=3 calls=1 path=\"a\"",
            "stat size=3 path=\"a\"",
            "stat size=3 path=\"a\"",
            "access path=\"a\"",
            "chmod path=\"a\"",
            "chown path=\"a\"",
            "utime path=\"a\"",
            "symlink path=\"l\"",
            "readlink path=\"l\"",
            "link path=\"a\" new_path=\"b\"",
            "mkdir+directory path=\"d\"",
            "chdir+directory path=\"d\"",
            "stat size=3 path=\"a\"",
            "open+read+directory size=4096 path=\".\"",
            "stat+read+directory size=4096 path=\".\"",
            "list+read+directory path=\".\"",
            "list+read+directory path=\".\"",
            "close+read+directory size=4096 path=\".\"",
            "chdir+directory path=\".\"",
            "stat+failed path=\"none\"",
            "readlink+failed path=\"none\"",
            "access+failed path=\"none\"",
        ],
    );
}

/// Promise: with `--no-looks` no call is recorded that only looks at a file or changes its
/// attributes, and everything else is.
#[test]
fn without_looks() {
    let script = "f = os.open('a', os.O_RDWR | os.O_CREAT); os.write(f, b'123')
os.fstat(f); os.fchmod(f, 0o600); os.fchown(f, -1, -1); os.utime(f); os.close(f)
os.stat('a'); os.lstat('a'); os.access('a', os.R_OK); os.chmod('a', 0o640); os.chown('a', -1, -1); os.utime('a')
os.symlink('a', 'l'); os.readlink('l'); os.link('a', 'b')
os.mkdir('d'); os.chdir('d'); os.listdir('..'); os.chdir('..'); os.unlink('b')";
    let events = record_with(&["--no-looks"], script);
    let plain = |event: &String| !event.contains("directory");
    assert_eq!(
        events.into_iter().filter(plain).collect::<Vec<_>>(),
        [
            "create+read+write path=\"a\"",
            "close+read+write size=3 written=3 calls=1 path=\"a\"",
            "symlink path=\"l\"",
            "link path=\"a\" new_path=\"b\"",
            "unlink size=3 path=\"b\"",
        ]
    );
}

/// Promise: for whole programs the recorder and `strace` agree, file by file, in opens, bytes read
/// and written, and deletions, and in the numbers of other calls of each kind.
#[test]
fn agrees_with_strace() {
    for script in [
        "for n in 1 2 3; do echo \"int f$n(void) { return $n; }\" > f$n.c; gcc -O -c f$n.c; done
         echo 'int main(void) { return 0; }' > m.c; gcc -o m m.c f1.o f2.o f3.o && ./m && ar rc l.a *.o && rm *.o",
        "git init -q . && for n in $(seq 30); do seq $n > $n; done && git add . && git -c user.name=a -c user.email=a@b commit -qm x
         rm 7 && git mv 8 9a && git status >/dev/null && git gc -q",
        "sqlite3 a.db 'create table t (a, b); create index i on t (b)' &&
         seq 300 | sed 's/.*/insert into t values (&, hex(randomblob(20)));/' | sqlite3 a.db &&
         sqlite3 a.db 'pragma journal_mode = wal; delete from t where a % 3 = 0; vacuum; select count(*) from t'",
        "mkdir s && for n in $(seq 40); do head -c $((n * 300)) /dev/zero > s/$n; done && tar czf s.tgz s && rm -r s && tar xzf s.tgz &&
         cp -r s t && cat s/* > all && sort -R all | tail -c 100 > /dev/null && mv s/1 s/2",
    ] {
        let differences = strace::disagrees(script).unwrap();
        assert!(differences.is_empty(), "{script}:\n{}", differences.join("\n"));
    }
}
