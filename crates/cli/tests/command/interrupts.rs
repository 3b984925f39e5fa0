//! Signals: unfinished files are removed, existing images stay usable, and the exit code is that of
//! the signal.
//!
//! A signal is sent before the program starts (it is blocked until the program checks for it), or
//! while the program waits for the rest of a stream: so the point of the interruption is known.

use crate::support::Bench;
use std::io::Write;
use std::process::{Child, Command, Stdio};

impl Bench {
    /// Runs `spindle` with a signal that is pending from the start, and returns the exit code.
    fn interrupted(&self, signal: &str, words: &str) -> i32 {
        let script = format!("kill -{signal} $$; exec {} {words}", env!("CARGO_BIN_EXE_spindle"));
        let mut command = Command::new("env");
        command.arg(format!("--default-signal={signal}")).arg(format!("--block-signal={signal}"));
        command.args(["sh", "-c", &script]);
        let status = command.current_dir(self.path("")).stderr(Stdio::null()).stdin(Stdio::null()).status();
        status.unwrap().code().unwrap_or(-1)
    }

    fn start(&self, words: &str, stdin: Stdio) -> Child {
        // Tests that run in the background may have inherited signals that are ignored.
        let mut command = Command::new("env");
        command.args(["--default-signal=HUP,INT,TERM", env!("CARGO_BIN_EXE_spindle")]);
        command.args(words.split_whitespace()).current_dir(self.path("")).stdin(stdin);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }
}

fn signal(child: &Child, name: &str) {
    let done = Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status();
    assert!(done.unwrap().success());
}

/// Returns a bench with a tree, and a tar stream of it that ends in the middle of its last file.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.write("src/a", "a");
    bench.write("src/b", vec![b'b'; 3 << 20]);
    bench.shell("tar -C src -cf whole.tar a b; head -c 2000000 whole.tar >part.tar");
    bench
}

/// Promise: an interrupted `newfs`, `import`, `cp` or `export` leaves no file behind, and exits
/// with the code of the signal.
#[test]
fn unfinished_files_are_removed() {
    let bench = bench();
    bench.ok("import src full.img");
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        for words in [
            "newfs -s 64m new.img",
            "newfs -s 4m -t v7 new.img",
            "import src new.img",
            "import -s 64m src new.img",
            "import whole.tar new.img",
            "export full.img new.tar",
            "cp full.img:/b new",
        ] {
            assert_eq!(bench.interrupted(name, words), code, "{name}: {words}");
            bench.shell("ls; test ! -e new.img; test ! -e new.tar; test ! -e new");
        }
        assert_eq!(bench.interrupted(name, "export full.img out"), code);
        assert_eq!(bench.shell("ls out"), "");
    }
    bench.check("full.img");
}

/// Promise: a killed command leaves an output file complete or absent, and nothing else, whether it
/// watches for signals or not: even SIGKILL, which none can watch for, leaves nothing.
#[test]
fn killed_commands_leave_no_half_output() {
    let bench = Bench::new();
    bench.shell("mkdir out");
    let line = |n| format!("1 1.{n:06} openat(AT_FDCWD, \"/f{n}\", O_RDONLY) = 3\n");
    let lines = (0..2000).map(line).collect::<Vec<_>>().concat();
    for name in ["INT", "TERM", "HUP", "KILL"] {
        let mut child = bench.start("trace import --format strace - out/new.trace", Stdio::piped());
        let mut stdin = child.stdin.take().unwrap();
        // It has begun when more is read than fits into the pipe.
        for _ in 0..10 {
            stdin.write_all(lines.as_bytes()).unwrap();
        }
        assert_eq!(bench.shell("ls -A out"), "", "{name}");
        signal(&child, name);
        drop(stdin);
        child.wait().unwrap();
        assert_eq!(bench.shell("ls -A out"), "", "{name}");
    }
    let mut child = bench.start("trace import --format strace - out/new.trace", Stdio::piped());
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(bench.shell("ls -A out"), "new.trace\n");
}

/// Promise: interrupted counting of quotas ends with the code of the signal, and leaves the image
/// clean.
#[test]
fn counting_is_interrupted() {
    let bench = Bench::new();
    bench.ok("newfs -s 16m a.img");
    for words in ["quota check a.img", "quota report a.img", "quota edit a.img -u 7 --inodes 1:2"] {
        assert_eq!(bench.interrupted("INT", words), 130, "{words}");
        bench.check("a.img");
    }
}

/// Promise: an interrupted command leaves an existing image clean and without damage: the
/// unfinished file is not in it, the earlier ones are.
#[test]
fn existing_images_stay_usable() {
    let bench = bench();
    bench.ok("newfs -s 16m x.img");
    bench.write("old", "old");
    bench.ok("cp old x.img:/");
    for (words, fifo) in [("import - x.img:/", false), ("import fifo x.img:/", true)] {
        bench.shell("rm -f fifo; mkfifo fifo");
        let mut child = bench.start(words, if fifo { Stdio::null() } else { Stdio::piped() });
        let part = std::fs::read(bench.path("part.tar")).unwrap();
        // This is more than a pipe holds: when it is written, the program is in the middle
        // of the last file.
        let mut pipe: Box<dyn Write> = match child.stdin.take() {
            Some(stdin) => Box::new(stdin),
            None => Box::new(std::fs::File::options().write(true).open(bench.path("fifo")).unwrap()),
        };
        pipe.write_all(&part).unwrap();
        signal(&child, "INT");
        assert_eq!(child.wait().unwrap().code(), Some(130), "{words}");
        drop(pipe);
        bench.check("x.img");
        assert_eq!(bench.ok("ls x.img"), "a\nold\n");
        assert_eq!(bench.ok("cat x.img:/old"), "old");
        bench.ok("rm x.img:/a");
    }
    for words in
        ["cp src/b x.img:/", "cp -r src x.img:/", "rm -r x.img:/old x.img:/.snap", "import src x.img:/"]
    {
        bench.interrupted("TERM", words);
        bench.check("x.img");
    }
}

/// Promise: an interrupted import into a new file system leaves none that could be taken for
/// complete, in a new or an existing file; a signal also ends the wait for a pipe without a writer.
#[test]
fn unfinished_file_systems_are_not_valid() {
    let bench = bench();
    bench.ok("newfs -s 16m x.img");
    bench.shell("mkfifo fifo");
    for words in ["import -s 16m - new.img", "import --force -s 16m - x.img"] {
        let mut child = bench.start(words, Stdio::piped());
        let mut pipe = child.stdin.take().unwrap();
        pipe.write_all(&std::fs::read(bench.path("part.tar")).unwrap()).unwrap();
        signal(&child, "TERM");
        assert_eq!(child.wait().unwrap().code(), Some(143), "{words}");
    }
    bench.shell("test ! -e new.img");
    bench.fails("ls x.img", 1, &["newfs did not finish"]);
    let mut child = bench.start("import -s 16m fifo new.img", Stdio::null());
    // It watches for signals by then, also where they are ignored, as in the background of a shell.
    bench.shell("for n in $(seq 300); do test ! -e new.img || exit 0; sleep 0.1; done; exit 1");
    signal(&child, "INT");
    assert_ne!(child.wait().unwrap().code(), Some(0));
    bench.shell("test ! -e new.img");
}
