//! Tests of the recorder: reports actions as a front-end does, and reads the file back.

use super::*;
use crate::{Columns, Event, Flags, Info, Kind, open};
use spindle_clock::{ManualClock, Timestamp};
use spindle_vfs::{Attr, FileKind, Ino, OpenFlags, Rdev};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

fn attr(ino: u64, kind: FileKind, size: u64, nlink: u32) -> Attr {
    let time = Timestamp::default();
    Attr {
        ino: Ino(ino),
        generation: 0,
        kind,
        perm: 0o644,
        nlink,
        uid: 0,
        gid: 0,
        rdev: Rdev::default(),
        size,
        blocks512: 0,
        blksize: 4096,
        atime: time,
        mtime: time,
        ctime: time,
        birthtime: None,
        flags: 0,
    }
}

const BY: Caller = Caller { user: 1000, process: 0 };

fn recorder(path: &Path) -> Recorder {
    let clock = Arc::new(ManualClock::at(7));
    Recorder::start((File::create(path).unwrap(), path), "mount test", ("/mnt/", Ino(2)), clock, |error| {
        panic!("{error}")
    })
    .unwrap()
}

fn recorded(path: &Path) -> (Vec<(Event, String)>, Info) {
    let mut source = open(path, Columns::ALL).unwrap();
    let (mut all, mut batch) = (Vec::new(), Batch::default());
    while source.next(&mut batch).unwrap() {
        let words = |e: &Event| format!("{}{}", batch.names.word(e.path), batch.names.word(e.new_path));
        all.extend(batch.events.iter().map(|event| (*event, words(event))));
    }
    (all, source.info())
}

/// Promise: opens, runs, jumps, closes, names and deletions are recorded in the format.
#[test]
fn a_session_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let recorder = recorder(&path);
    let observe = |action: Action<'_>| recorder.observe(BY, &action);
    let (root, sub) = (Ino(2), Ino(3));
    let file = attr(7, FileKind::Regular, 0, 1);
    let read_write = OpenFlags::READ_WRITE;
    observe(Action::Named { dir: root, name: b"sub", ino: sub });
    observe(Action::MadeDirectory(sub));
    observe(Action::Named { dir: sub, name: b"f", ino: Ino(7) });
    observe(Action::Opened { handle: 1, attr: &file, flags: read_write, created: true });
    observe(Action::Written { handle: 1, ino: Ino(7), offset: 0, bytes: 4096 });
    observe(Action::Written { handle: 1, ino: Ino(7), offset: 4096, bytes: 904 });
    observe(Action::Read { handle: 1, ino: Ino(7), offset: 100, bytes: 10 });
    observe(Action::Written { handle: 1, ino: Ino(7), offset: 110, bytes: 5 });
    observe(Action::Written { handle: 99, ino: Ino(7), offset: 8192, bytes: 1 });
    observe(Action::Synced { handle: 1, ino: Ino(7) });
    let full = attr(7, FileKind::Regular, 5000, 1);
    let other = attr(8, FileKind::Regular, 70, 1);
    let moved = |replaced| Action::Renamed {
        from_dir: sub,
        from: b"f",
        to_dir: root,
        to: b"g",
        attr: &full,
        replaced,
        exchanged: false,
    };
    observe(moved(Some(&other)));
    observe(Action::Forgotten(Ino(8)));
    observe(Action::Removed { dir: root, name: b"g", attr: &full });
    observe(Action::Removed { dir: root, name: b"sub", attr: &attr(3, FileKind::Directory, 512, 2) });
    observe(Action::Closed { handle: 1, attr: Some(&attr(7, FileKind::Regular, 5000, 0)) });
    observe(Action::Opened { handle: 2, attr: &other, flags: OpenFlags::READ, created: false });
    observe(Action::Read { handle: 2, ino: Ino(8), offset: 0, bytes: 70 });
    assert_eq!(recorder.finish().unwrap(), Some(14));
    assert_eq!(recorder.finish().unwrap(), None);
    observe(Action::Resized(Ino(8), 0));

    let (all, info) = recorded(&path);
    let found: Vec<_> = all
        .iter()
        .map(|(e, path)| (e.kind, e.open, e.size, e.position, e.read, e.written, e.new_position, &**path))
        .collect();
    assert_eq!(
        found,
        [
            (Kind::Mkdir, 0, 0, 0, 0, 0, 0, "/mnt/sub"),
            (Kind::Create, 1, 0, 0, 0, 0, 0, "/mnt/sub/f"),
            (Kind::Seek, 1, 0, 0, 0, 5000, 100, "/mnt/sub/f"),
            (Kind::Run, 1, 0, 100, 10, 0, 0, "/mnt/sub/f"),
            (Kind::Run, 0, 0, 8192, 0, 1, 0, "/mnt/sub/f"),
            (Kind::Run, 1, 0, 110, 0, 5, 0, "/mnt/sub/f"),
            (Kind::Sync, 1, 0, 0, 0, 0, 0, "/mnt/sub/f"),
            (Kind::Unlink, 0, 70, 0, 0, 0, 0, "/mnt/g"),
            (Kind::Rename, 0, 0, 0, 0, 0, 0, "/mnt/sub/f/mnt/g"),
            (Kind::Unlink, 0, 5000, 0, 0, 0, 0, "/mnt/g"),
            (Kind::Rmdir, 0, 0, 0, 0, 0, 0, "/mnt/sub"),
            (Kind::Close, 1, 5000, 115, 0, 0, 0, "/mnt/g"),
            (Kind::Open, 2, 70, 0, 0, 0, 0, ""),
            (Kind::Run, 2, 0, 0, 70, 0, 0, ""),
        ]
    );
    assert_eq!(all[2].0.calls, 2);
    assert!(all[7].0.flags.has(Flags::REPLACED | Flags::LAST));
    assert!(all[11].0.flags.has(Flags::LAST | Flags::READ | Flags::WRITE));
    assert_eq!((info.source.as_str(), info.lost), ("mount test", 0));
}

/// Promise: when the file cannot be written any more, the caller is informed once, and observing
/// continues harmlessly.
#[test]
fn a_file_that_fails_ends_the_recording() {
    static FAILURES: AtomicU32 = AtomicU32::new(0);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    // Opening a pipe waits for its other end.
    let reader = std::thread::spawn({
        let path = path.clone();
        move || File::open(path).unwrap()
    });
    let failed = |error: &Error| {
        assert!(error.to_string().contains("pipe"), "{error}");
        FAILURES.fetch_add(1, Ordering::Relaxed);
    };
    let clock = Arc::new(ManualClock::at(7));
    let recorder =
        Recorder::start((File::create(&path).unwrap(), &path), "mount test", ("/mnt", Ino(2)), clock, failed)
            .unwrap();
    // The beginning of the file fits into the pipe; from now on nobody reads it.
    drop(reader.join().unwrap());
    // More than a row group, so that some events are written before the end.
    for n in 0..600_000 {
        recorder.observe(BY, &Action::Resized(Ino(n), n));
        if n % 50_000 == 0 {
            std::thread::yield_now();
        }
    }
    match recorder.finish() {
        // The writer was too slow: events were lost, and the end fails.
        Err(error) => assert!(error.to_string().contains("pipe"), "{error}"),
        Ok(events) => assert_eq!((events, FAILURES.load(Ordering::Relaxed)), (None, 1)),
    }
}

/// Promise: a recording whose file cannot be written is refused.
#[test]
fn a_full_disk_is_seen_at_once() {
    let clock = Arc::new(ManualClock::at(7));
    let full = Path::new("/dev/full");
    let file = File::options().write(true).open(full).unwrap();
    let error = Recorder::start((file, full), "mount test", ("/mnt", Ino(2)), clock, |_| ());
    assert!(error.unwrap_err().to_string().contains("/dev/full"));
}
