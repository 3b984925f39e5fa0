//! Requests of `io_uring` and libaio: what they do with files, and what is not recorded of them.

use spindle_interop::spindle::binary;
use spindle_interop::tool::{command, output};
use tempfile::TempDir;

use crate::{expect, plain, record, shown};

/// A ring for scripts, as [`Ring`](../ring.py).
const RING: &str = include_str!("ring.py");

/// Promise: requests of `io_uring` are recorded as the calls that do the same: opens, reads and
/// writes at the file's own position and at others, appends, writes that are written out, syncs,
/// truncations and closes; also where a thread of the kernel takes them, whose name is not that of
/// the program.
#[test]
fn uring() {
    for flags in ["0", "SQPOLL"] {
        let script = format!(
            "{RING}
r = Ring({flags})
f = r.open('a', os.O_RDWR | os.O_CREAT)
r.write(f, 10); r.write(f, 20)
r(FSYNC, f)
r.read(f, 7, 5); r.read(f, 3, 12); r.read(f, 9, 100)
r.write(f, 4, 0, flags=2)
r(FTRUNCATE, f, 25)
os.lseek(f, 1, 0); r.read(f, 2); os.read(f, 3)
assert r(CLOSE, f) == 0
f = r.open('a', os.O_WRONLY | os.O_APPEND)
r.write(f, 5, 0); r.write(f, 6)
g = os.dup(f); r(CLOSE, f); os.close(g)
assert r.open('none', os.O_RDONLY) == -2"
        );
        expect(
            &script,
            &[
                "create+read+write path=\"a\"",
                "run+read+write written=30 calls=2 path=\"a\"",
                "sync+read+write path=\"a\"",
                "run+read+write+positional position=5 read=10 calls=2 path=\"a\"",
                "run+read+write+positional written=4 calls=1 path=\"a\"",
                "sync+read+write path=\"a\"",
                "truncate+read+write size=25 path=\"a\"",
                "seek+read+write position=30 new_position=1 path=\"a\"",
                "close+read+write size=25 position=1 read=5 calls=2 path=\"a\"",
                "open+write+append size=25 position=25 path=\"a\"",
                "run+write+append+positional position=25 written=5 calls=1 path=\"a\"",
                "close+write+append size=36 position=30 written=6 calls=1 path=\"a\"",
            ],
        );
        let program = record(&format!("{RING}\nRing({flags}).open('a', os.O_CREAT)"));
        assert_eq!(program[0], "create+read path=\"a\"");
    }
}

/// Promise: a file that `io_uring` opens into its own table is recorded from its first use on.
#[test]
fn fixed_files() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().canonicalize().unwrap();
    let trace = path.join("events.trace");
    let mut fio = command(binary());
    fio.args(["trace", "record", "-o"]).arg(&trace).args(["--", "fio", "--name=a", "--size=64k", "--bs=4k"]);
    fio.args(["--ioengine=io_uring", "--registerfiles=1", "--iodepth=4", "--rw=randwrite"]);
    let got = output(fio.args(["--fallocate=none", "--fsync=8"]).current_dir(&path)).unwrap();
    let said = String::from_utf8_lossy(&got.stderr);
    assert!(got.status.success() && !said.contains("io_uring"), "{said}");
    let events = shown(&trace, &path);
    let (written, syncs) = totals(&events, "a.0.0");
    assert!(written == 65536 && syncs > 0, "{written} {syncs}\n{}", events.join("\n"));
}

/// Returns the bytes written to a file, and the number of its syncs.
fn totals(events: &[String], name: &str) -> (u64, usize) {
    let path = format!("path=\"{name}\"");
    let of_file = || events.iter().filter(|event| event.contains(&path));
    let written = |event: &String| {
        let words = event.split(' ').find_map(|word| word.strip_prefix("written="));
        words.map_or(0, |bytes| bytes.parse().unwrap())
    };
    (of_file().map(written).sum(), of_file().filter(|event| event.starts_with("sync")).count())
}

/// Promise: requests of libaio are recorded when they are submitted, with the bytes that they ask
/// for and that the file has; and that it is so is noted.
#[test]
fn libaio() {
    let submit = "
import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
context = ctypes.c_uint64(0)
assert libc.syscall(206, 8, ctypes.byref(context)) == 0
kept = []
def submit(*requests):
    blocks = []
    for code, fd, length, offset, flags in requests:
        buffer = ctypes.create_string_buffer(max(length, 1))
        address, parts = ctypes.addressof(buffer) if length else 0, length
        if code in (7, 8):
            vector = ctypes.create_string_buffer(struct.pack('QQQQ', address, length - 1, address, 1))
            address, parts = ctypes.addressof(vector), 2
            kept.append(vector)
        block = ctypes.create_string_buffer(
            struct.pack('QIIHhIQQqQII', 0, 0, flags, code, 0, fd, address, parts, offset, 0, 0, 0), 64)
        kept.extend((buffer, block)); blocks.append(ctypes.addressof(block))
    array = (ctypes.c_uint64 * len(blocks))(*blocks)
    assert libc.syscall(209, context, len(blocks), array) == len(blocks)
    events = ctypes.create_string_buffer(32 * 8)
    done = libc.syscall(208, context, len(blocks), 8, events, 0)
    assert done == len(blocks)
f = os.open('a', os.O_RDWR | os.O_CREAT)
submit((1, f, 100, 0, 0), (8, f, 50, 100, 0), (2, f, 0, 0, 0))
submit((0, f, 60, 120, 0), (7, f, 10, 500, 0))
submit((1, f, 5, 0, 2))
os.close(f)";
    expect(
        submit,
        &[
            "create+read+write path=\"a\"",
            "run+read+write+positional written=150 calls=2 path=\"a\"",
            "sync+read+write path=\"a\"",
            "run+read+write+positional position=120 read=30 calls=1 path=\"a\"",
            "run+read+write+positional written=5 calls=1 path=\"a\"",
            "sync+read+write path=\"a\"",
            "close+read+write size=150 path=\"a\"",
        ],
    );
    let directory = TempDir::new().unwrap();
    let trace = directory.path().join("events.trace");
    let mut python = command(binary());
    python.args(["trace", "record", "-o"]).arg(&trace).args(["--", "/usr/bin/python3", "-I", "-c"]);
    let got = output(python.arg(format!("import os\n{submit}")).current_dir(directory.path())).unwrap();
    let said = String::from_utf8_lossy(&got.stderr);
    assert!(said.contains("6 requests of io_submit (libaio) are recorded as they began"), "{said}");
}

/// Promise: how many requests of `io_uring` are missing is noted by the recorder and every command
/// that reads the trace: those that only name a file, and those whose completion is not reported.
#[test]
fn what_is_missing_is_noted() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().canonicalize().unwrap();
    let trace = path.join("events.trace");
    let script = format!(
        "import time\n{RING}\nr = Ring()\nf = r.open('a', os.O_RDWR | os.O_CREAT)
assert r.stat('a') == 0
for n in range(3): r.write(f, 10, how=SKIP)
r.write(f, 10)"
    );
    let mut python = command(binary());
    python.args(["trace", "record", "-o"]).arg(&trace).args(["--", "/usr/bin/python3", "-I", "-c"]);
    let got = output(python.arg(script).current_dir(&path)).unwrap();
    let said = String::from_utf8_lossy(&got.stderr);
    let what = "4 requests of io_uring are not counted";
    assert!(got.status.success() && said.contains(what), "{said}");
    for reads in [&["show"][..], &["analyze"], &["cachesim"], &["report"]] {
        let got = output(command(binary()).arg("trace").args(reads).arg(&trace)).unwrap();
        let said = String::from_utf8_lossy(&got.stderr);
        assert_eq!(said.matches(what).count(), 1, "{reads:?}: {said}");
    }
    let shown = output(command(binary()).args(["trace", "show"]).arg(&trace)).unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.lines().map(plain).any(|line| line.contains("written=10")), "{shown}");
}
