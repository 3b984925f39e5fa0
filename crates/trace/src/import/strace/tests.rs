//! Tests of the strace importer: a hand-made log, and logs of the real strace, compared with what
//! the program did.

use crate::import::mutations::{events, read};
use crate::{Batch, Event, Flags};
use std::path::Path;
use std::process::Command;

/// Two processes, threads, unfinished calls, inherited descriptors, and common irregular lines.
pub(crate) const SAMPLE: &str = r#"100  1700000000.000001 execve("/usr/bin/make", ["make"], 0x7ffc /* 9 vars */) = 0
100  1700000000.000002 getuid() = 1000
100  1700000000.000003 openat(AT_FDCWD</w>, "in", O_RDONLY|O_CLOEXEC) = 3</w/in>
100  1700000000.000004 newfstatat(3</w/in>, "", {st_mode=S_IFREG|0644, st_size=300, ...}, AT_EMPTY_PATH) = 0
100  1700000000.000005 read(3</w/in>, "aaa"..., 200) = 200
100  1700000000.000006 openat(AT_FDCWD</w>, "sub/new", O_RDWR|O_CREAT|O_EXCL, 0666) = 4</w/sub/new>
100  1700000000.000007 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD <unfinished ...>
101  1700000000.000008 write(4</w/sub/new>, "b"..., 10 <unfinished ...>
100  1700000000.000009 <... clone resumed>, child_tidptr=0x7f) = 101
101  1700000000.000010 <... write resumed>) = 10
101  1700000000.000011 write(1</dev/pts/0<char 136:0>>, "x", 1) = 1
101  1700000000.000012 execve("/bin/cc", ["cc"], 0x7ffc /* 9 vars */) = 0
101  1700000000.000013 pwrite64(4</w/sub/new>, "c", 1, 100) = 1
what is this line
101  1700000000.000014 exit_group(0 <unfinished ...>) = ?
101  1700000000.000015 +++ exited with 0 +++
100  1700000000.000016 --- SIGCHLD {si_signo=SIGCHLD, si_pid=101} ---
100  1700000000.000017 read(3</w/in>, "aaa"..., 200) = 100
100  1700000000.000018 read(3</w/in>, "", 200) = 0
100  1700000000.000019 lseek(4</w/sub/new>, 0, SEEK_SET) = 0
100  1700000000.000020 read(4</w/sub/new>, "b"..., 4) = 4
100  1700000000.000021 rename("sub/new", "in") = 0
100  1700000000.000022 unlink("gone") = -1 ENOENT (No such file or directory)
100  1700000000.000023 close(3</w/in>(deleted)) = 0
100  1700000000.000024 unlinkat(AT_FDCWD</w>, "in", 0) = 0
100  1700000000.000025 ftruncate(4</w/in>(deleted), 3) = 0
100  1700000000.000026 +++ killed by SIGKILL +++
"#;

/// Formats an event without time, process and user.
fn summary(batch: &Batch, event: &Event) -> String {
    let mut text = event.kind.name().to_owned();
    for (flag, name) in Flags::ALL {
        if event.flags.has(flag) {
            text += "+";
            text += name;
        }
    }
    for (name, value) in [
        ("size", event.size),
        ("at", event.position),
        ("read", event.read),
        ("written", event.written),
        ("to", event.new_position),
        ("calls", event.calls.into()),
    ] {
        if value != 0 {
            text.extend([" ", name, "=", &value.to_string()]);
        }
    }
    for word in [event.path, event.new_path] {
        if !batch.names.word(word).is_empty() {
            text += " ";
            text += batch.names.word(word);
        }
    }
    text
}

/// Promise: calls become the events of the format: runs are merged over both processes that share
/// an open file, closes by the end of a process or an exec are implicit, replaced and deleted files
/// are marked, and unknown lines are counted.
#[test]
fn a_hand_made_log() {
    let (batch, info) = events(SAMPLE, None).unwrap();
    let all: Vec<_> = batch.events.iter().map(|event| summary(&batch, event)).collect();
    assert_eq!(
        all,
        [
            "exec /usr/bin/make",
            "open+read size=300 /w/in",
            "stat size=300 /w/in",
            "create+read+write /w/sub/new",
            "exec /bin/cc",
            "seek+read+write written=10 calls=1 /w/sub/new",
            "unlink+last+replaced size=300 /w/in",
            "rename /w/sub/new /w/in",
            "close+read+last size=300 read=300 calls=3 /w/in",
            "unlink+last size=101 /w/in",
            "run+read+write+positional at=100 written=1 calls=1 /w/sub/new",
            "run+read+write read=4 calls=1 /w/sub/new",
            "truncate size=3 /w/sub/new",
            "close+read+write+implicit+last size=3 at=4 /w/sub/new",
        ]
    );
    let who = |at: usize| {
        let event = batch.events[at];
        (event.process, event.user, batch.names.word(event.command))
    };
    assert_eq!(who(0), (100, 0, "make"));
    assert_eq!(who(3), (100, 1000, "make"));
    assert_eq!(who(4), (101, 1000, "cc"));
    assert_eq!(batch.events[1].time, 1_700_000_000_000_003_000);
    let file = |at: usize| batch.events[at].file;
    assert_eq!((file(3), file(1)), (file(9), file(2)));
    assert_ne!(file(1), file(3));
    assert!(info.notes.iter().any(|note| note.contains("1 lines were not understood; the first is line 14")));
}

/// Promise: a child that ends before the call that made it returns, as with `vfork`, holds nothing
/// open afterwards.
#[test]
fn children_that_end_early() {
    let log = r#"100 1700000000.1 openat(AT_FDCWD</w>, "a", O_RDONLY) = 3</w/a>
100 1700000000.2 vfork( <unfinished ...>
101 1700000000.3 read(3</w/a>, "x"..., 7) = 7
101 1700000000.4 exit_group(1) = ?
101 1700000000.5 +++ exited with 1 +++
100 1700000000.6 <... vfork resumed>) = 101
100 1700000000.7 close(3</w/a>) = 0
"#;
    let (batch, _) = events(log, None).unwrap();
    let last = batch.events.last().unwrap();
    assert_eq!(summary(&batch, last), "close+read size=7 read=7 calls=1 /w/a");
}

/// Promise: calls that only look at a file, or change its attributes or names, become events of
/// their kinds, with size and kind of the file if the call returns them; those that only look are
/// events when they fail, too. Others that fail, and devices, are none.
#[test]
fn control_calls() {
    let log = "stat(\"/d\", {st_mode=S_IFDIR|0755, st_size=4096, ...}) = 0\n\
        newfstatat(AT_FDCWD</w>, \"f\", {st_mode=S_IFREG|0644, st_size=7, ...}, 0) = 0\n\
        statx(AT_FDCWD</w>, \"f\", 0, STATX_ALL, {stx_mode=S_IFREG|0644, stx_size=8, ...}) = 0\n\
        lstat(\"/n\", 0x7f) = -1 ENOENT (No such file or directory)\n\
        stat(\"/dev/tty\", {st_mode=S_IFCHR|0666, ...}) = 0\n\
        access(\"/w/f\", R_OK) = 0\n\
        faccessat2(AT_FDCWD</w>, \"g\", R_OK, 0) = -1 ENOENT (No such file or directory)\n\
        readlink(\"/w/f\", 0x7f, 100) = -1 EINVAL (Invalid argument)\n\
        chmod(\"/w/f\", 0600) = 0\n\
        chmod(\"/w/g\", 0600) = -1 ENOENT (No such file or directory)\n\
        fchownat(AT_FDCWD</w>, \"f\", 1, 2, 0) = 0\n\
        utimensat(AT_FDCWD</w>, \"f\", NULL, 0) = 0\n\
        linkat(AT_FDCWD</w>, \"f\", AT_FDCWD</w>, \"h\", 0) = 0\n\
        symlinkat(\"f\", AT_FDCWD</w>, \"s\") = 0\n\
        openat(AT_FDCWD</w>, \"f\", O_RDONLY) = 3</w/f>\n\
        fstat(3</w/f>, {st_mode=S_IFREG|0644, st_size=9, ...}) = 0\n\
        fchmod(3</w/f>, 0600) = 0\nutimensat(3</w/f>, NULL, NULL, 0) = 0\nclose(3</w/f>) = 0\n";
    let (batch, _) = events(log, None).unwrap();
    let all: Vec<_> = batch.events.iter().map(|event| summary(&batch, event)).collect();
    assert_eq!(
        all,
        [
            "stat+directory /d",
            "stat size=7 /w/f",
            "stat size=8 /w/f",
            "stat+failed /n",
            "access /w/f",
            "access+failed /w/g",
            "readlink+failed /w/f",
            "chmod /w/f",
            "chown /w/f",
            "utime /w/f",
            "link /w/f /w/h",
            "symlink /w/s",
            "open+read size=9 /w/f",
            "stat size=9 /w/f",
            "chmod /w/f",
            "utime /w/f",
            "close+read size=9 /w/f",
        ]
    );
    let files: std::collections::HashSet<_> = batch.events.iter().map(|event| event.file.inode).collect();
    assert_eq!(files.len(), 4, "the directory, two files, and none for those that failed");
}

/// Promise: every call that writes a file out is a sync, as in recordings, behind what was written
/// before: also ranges, writes to files that are open for it or that ask for it, and mappings;
/// `sync` and `syncfs` are syncs of no file.
#[test]
fn syncs() {
    let log = "1 openat(AT_FDCWD</w>, \"a\", O_RDWR|O_CREAT|O_EXCL|O_DSYNC, 0644) = 3</w/a>\n\
        1 write(3</w/a>, \"\", 5) = 5\n\
        1 write(3</w/a>, \"\", 0) = 0\n\
        1 openat(AT_FDCWD</w>, \"b\", O_RDWR|O_CREAT|O_EXCL, 0644) = 4</w/b>\n\
        1 copy_file_range(4</w/b>, NULL, 3</w/a>, NULL, 2, 0) = 2\n\
        1 pwritev2(4</w/b>, [{iov_base=\"\", iov_len=3}], 1, 0, RWF_DSYNC) = 3\n\
        1 write(4</w/b>, \"\", 7) = 7\n\
        1 sync_file_range(4</w/b>, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE) = 0\n\
        1 sync_file_range(4</w/b>, 0, 0, SYNC_FILE_RANGE_WRITE|SYNC_FILE_RANGE_WAIT_AFTER) = 0\n\
        1 fcntl(4</w/b>, F_SETFL, O_RDWR|O_APPEND) = 0\n\
        1 write(4</w/b>, \"\", 1) = 1\n\
        1 sync() = 0\n1 syncfs(3</w/a>) = 0\n\
        1 mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_SHARED, 3</w/a>, 0) = 0x7f0000001000\n\
        1 fork() = 2\n\
        1 msync(0x7f0000002000, 4096, MS_ASYNC) = 0\n1 msync(0x7f0000002000, 4096, MS_SYNC) = 0\n\
        1 msync(0x7f0000003000, 4096, MS_SYNC) = 0\n\
        1 munmap(0x7f0000001000, 8192) = 0\n1 msync(0x7f0000001000, 4096, MS_SYNC) = 0\n\
        2 msync(0x7f0000001000, 4096, MS_SYNC) = 0\n2 +++ exited with 0 +++\n";
    let (batch, _) = events(log, None).unwrap();
    let all: Vec<_> = batch.events.iter().map(|event| summary(&batch, event)).collect();
    assert_eq!(
        all,
        [
            "create+read+write /w/a",
            "run+read+write written=5 calls=1 /w/a",
            "sync /w/a",
            "create+read+write /w/b",
            "run+read+write at=5 written=2 calls=2 /w/a",
            "sync /w/a",
            "run+read+write+positional written=3 calls=1 /w/b",
            "run+read+write read=2 calls=1 /w/b",
            "sync /w/b",
            "run+read+write at=2 written=7 calls=1 /w/b",
            "sync /w/b",
            "run+read+write+append at=9 written=1 calls=1 /w/b",
            "sync",
            "sync",
            "run+read+write+mapped written=7 calls=1 /w/a",
            "sync /w/a",
            "sync /w/a",
        ]
    );
}

/// Promise: without times, processes and names, the importer still finds relative names and the
/// files that the log opens.
#[test]
fn a_minimal_log() {
    let log = "openat(AT_FDCWD, \"in\", O_RDONLY) = 3\nread(3, \"a\", 9) = 1\nread(9, \"a\", 9) = 1\n\
        chdir(\"/w\") = 0\nopen(\"x\", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 4\ndup2(4, 5) = 5\nclose(4) = 0\n\
        write(5, \"abc\", 3) = 3\nfcntl(5, F_SETFD, FD_CLOEXEC) = 0\nexecve(\"/bin/y\", [], []) = 0\n+++ exited with 0 +++\n";
    let (batch, info) = events(log, None).unwrap();
    let all: Vec<_> = batch.events.iter().map(|event| summary(&batch, event)).collect();
    assert_eq!(
        all,
        [
            "open+read in",
            "chdir /w",
            "create+write /w/x",
            "close+write+implicit size=3 written=3 calls=1 /w/x",
            "exec /bin/y",
            "close+read+implicit size=1 read=1 calls=1 in",
        ]
    );
    for part in ["no dates", "1 calls on descriptors", "1 names are relative", "1 files opened with O_CREAT"]
    {
        assert!(info.notes.iter().any(|note| note.contains(part)), "{part}: {:?}", info.notes);
    }
}

/// Promise: times of day continue over midnight, and relative ones are added up.
#[test]
fn times_without_a_date() {
    let call = "mkdir(\"/a\", 0777) = 0";
    for (log, expected) in [
        (format!("23:59:59.5 {call}\n00:00:00.5 {call}\n"), [86_399_500_000_000, 86_400_500_000_000]),
        (format!("     0.000000 {call}\n     2.000001 {call}\n"), [0, 2_000_001_000]),
        (
            format!("1700000000.0 {call} <0.000001>\n1700000000.5 {call}\n"),
            [1_700_000_000_000_001_000, 1_700_000_000_500_000_000],
        ),
    ] {
        let times: Vec<_> = events(log, None).unwrap().0.events.iter().map(|event| event.time).collect();
        assert_eq!(times, expected);
    }
}

/// The program of the test with the real strace; it works in the directory where it is started.
const PROGRAM: &str = "
import mmap, os
a = os.open('a', os.O_RDWR | os.O_CREAT, 0o644)
os.write(a, b'x' * 5000); os.write(a, b'y' * 1000)
os.lseek(a, 100, os.SEEK_SET)
os.read(a, 50); os.read(a, 50)
os.pread(a, 10, 4000); os.pwrite(a, b'zz', 10)
b = os.open('b', os.O_WRONLY | os.O_CREAT, 0o644)
os.copy_file_range(a, b, 70, 0)
os.sendfile(b, a, 200, 30)
os.fsync(b)
c = os.dup(b)
os.close(b)
os.write(c, b'w' * 7)
os.close(c)
os.truncate('b', 50)
os.rename('b', 'd')
if os.fork() == 0:
    os.read(a, 25)
    os._exit(0)
os.wait()
os.ftruncate(a, 4096)
m = mmap.mmap(a, 4096); m.close()
os.unlink('a')
os.close(a)
os.mkdir('e'); os.rmdir('e')
e = os.open('d', os.O_RDONLY)
os.read(e, 1000)
os.unlink('d')
";

/// Promise: a log of the real strace is imported as what the program did, in every way that strace
/// shows descriptors.
#[test]
fn logs_of_the_real_strace() {
    for show in [&["-y", "-T"][..], &["-yy"], &[]] {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("w");
        std::fs::create_dir(&inside).unwrap();
        let log = dir.path().join("log");
        let traced = Command::new("strace")
            .args(["-f", "-ttt", "-o"])
            .arg(&log)
            .args(show)
            .args(["/usr/bin/python3", "-I", "-S", "-c", PROGRAM])
            .current_dir(&inside)
            .status()
            .expect("strace is a Debian package that `make setup` installs");
        assert!(traced.success());
        check(&log, &inside, show.contains(&"-y") || show.contains(&"-yy"));
    }
}

fn check(log: &Path, inside: &Path, named: bool) {
    let (batch, info) = read(log, None).unwrap();
    assert_eq!(info.source, "import strace");
    assert!(!info.notes.iter().any(|note| note.contains("not understood")), "{:?}", info.notes);
    let prefix = if named { format!("{}/", inside.canonicalize().unwrap().display()) } else { String::new() };
    let ours = |word: &str| {
        let name = word.strip_prefix(&prefix).unwrap_or("");
        (name.len() == 1).then(|| name.to_owned())
    };
    let events: Vec<_> =
        batch.events.iter().filter(|event| ours(batch.names.word(event.path)).is_some()).collect();
    let all: Vec<_> = events.iter().map(|event| summary(&batch, event).replace(&prefix, "")).collect();
    assert_eq!(
        all,
        [
            "create+read+write a",
            "seek+read+write written=6000 to=100 calls=2 a",
            "run+read+write+positional at=4000 read=10 calls=1 a",
            "create+write b",
            "run+read+write+positional at=10 written=2 calls=1 a",
            "run+read+write+positional read=70 calls=1 a",
            "run+write written=100 calls=2 b",
            "sync b",
            "close+write size=107 at=100 written=7 calls=1 b",
            "truncate size=50 b",
            "rename b d",
            "run+read+write+positional at=200 read=30 calls=1 a",
            "run+read+write at=100 read=125 calls=3 a",
            "truncate size=4096 a",
            "stat size=4096 a",
            "run+read+write+mapped written=4096 calls=1 a",
            "unlink+last size=4096 a",
            "close+read+write+last size=4096 at=225 a",
            "mkdir+directory e",
            "rmdir+directory e",
            "open+read size=50 d",
            "unlink+last size=50 d",
            "close+read+implicit+last size=50 read=50 calls=1 d",
        ]
    );
    let processes: std::collections::BTreeSet<_> = events.iter().map(|event| event.process).collect();
    assert_eq!(processes.len(), 1);
    assert!(events.iter().all(|event| batch.names.word(event.command) == "python3"));
}
