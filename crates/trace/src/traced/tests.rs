//! Tests of the recorder: told what a front-end tells, and what it wrote read back.

use super::*;
use crate::{Columns, Event, Flags, Info, Kind, open};
use spindle_clock::{ManualClock, Timestamp};
use spindle_vfs::{Attr, FileKind, Ino, OpenFlags, Rdev};
use std::fs::File;
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
    Recorder::start(path, "mount test", ("/mnt/", Ino(2)), clock, |error| panic!("{error}")).unwrap()
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

/// Promise: opens, runs, jumps, closes, names and deletions are told as the format has them.
#[test]
fn a_session_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let recorder = recorder(&path);
    let tell = |action: Action<'_>| recorder.observe(BY, &action);
    let (root, sub) = (Ino(2), Ino(3));
    let file = attr(7, FileKind::Regular, 0, 1);
    let read_write = OpenFlags::READ_WRITE;
    tell(Action::Named { dir: root, name: b"sub", ino: sub });
    tell(Action::MadeDirectory(sub));
    tell(Action::Named { dir: sub, name: b"f", ino: Ino(7) });
    tell(Action::Opened { handle: 1, attr: &file, flags: read_write, created: true });
    tell(Action::Written { handle: 1, ino: Ino(7), offset: 0, bytes: 4096 });
    tell(Action::Written { handle: 1, ino: Ino(7), offset: 4096, bytes: 904 });
    tell(Action::Read { handle: 1, ino: Ino(7), offset: 100, bytes: 10 });
    tell(Action::Written { handle: 1, ino: Ino(7), offset: 110, bytes: 5 });
    tell(Action::Written { handle: 99, ino: Ino(7), offset: 8192, bytes: 1 });
    tell(Action::Synced { handle: 1, ino: Ino(7) });
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
    tell(moved(Some(&other)));
    tell(Action::Forgotten(Ino(8)));
    tell(Action::Removed { dir: root, name: b"g", attr: &full });
    tell(Action::Removed { dir: root, name: b"sub", attr: &attr(3, FileKind::Directory, 512, 2) });
    tell(Action::Closed { handle: 1, attr: Some(&attr(7, FileKind::Regular, 5000, 0)) });
    tell(Action::Opened { handle: 2, attr: &other, flags: OpenFlags::READ, created: false });
    tell(Action::Read { handle: 2, ino: Ino(8), offset: 0, bytes: 70 });
    assert_eq!(recorder.finish().unwrap(), Some(13));
    assert_eq!(recorder.finish().unwrap(), None);
    tell(Action::Resized(Ino(8), 0));

    let (all, info) = recorded(&path);
    let told: Vec<_> = all
        .iter()
        .map(|(e, path)| (e.kind, e.open, e.size, e.position, e.read, e.written, e.new_position, &**path))
        .collect();
    assert_eq!(
        told,
        [
            (Kind::Mkdir, 0, 0, 0, 0, 0, 0, "/mnt/sub"),
            (Kind::Create, 1, 0, 0, 0, 0, 0, "/mnt/sub/f"),
            (Kind::Seek, 1, 0, 0, 0, 5000, 100, "/mnt/sub/f"),
            (Kind::Run, 1, 0, 100, 10, 0, 0, "/mnt/sub/f"),
            (Kind::Run, 0, 0, 8192, 0, 1, 0, "/mnt/sub/f"),
            (Kind::Sync, 1, 0, 0, 0, 0, 0, "/mnt/sub/f"),
            (Kind::Unlink, 0, 70, 0, 0, 0, 0, "/mnt/g"),
            (Kind::Rename, 0, 0, 0, 0, 0, 0, "/mnt/sub/f/mnt/g"),
            (Kind::Unlink, 0, 5000, 0, 0, 0, 0, "/mnt/g"),
            (Kind::Rmdir, 0, 0, 0, 0, 0, 0, "/mnt/sub"),
            (Kind::Close, 1, 5000, 110, 0, 5, 0, "/mnt/g"),
            (Kind::Open, 2, 70, 0, 0, 0, 0, ""),
            (Kind::Run, 2, 0, 0, 70, 0, 0, ""),
        ]
    );
    assert_eq!(all[2].0.calls, 2);
    assert!(all[6].0.flags.has(Flags::REPLACED | Flags::LAST));
    assert!(all[10].0.flags.has(Flags::LAST | Flags::READ | Flags::WRITE));
    assert_eq!((info.source.as_str(), info.lost), ("mount test", 0));
}

/// Promise: when the file cannot be written any more its user is told, once, and observing goes on
/// without harm.
#[test]
fn a_file_that_fails_ends_the_recording() {
    static TOLD: AtomicU32 = AtomicU32::new(0);
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
        TOLD.fetch_add(1, Ordering::Relaxed);
    };
    let clock = Arc::new(ManualClock::at(7));
    let recorder = Recorder::start(&path, "mount test", ("/mnt", Ino(2)), clock, failed).unwrap();
    // The beginning of the file fits into the pipe; now nobody will read it.
    drop(reader.join().unwrap());
    // More than a group of rows, so that some are written before the end.
    for n in 0..600_000 {
        recorder.observe(BY, &Action::Resized(Ino(n), n));
        if n % 50_000 == 0 {
            std::thread::yield_now();
        }
    }
    match recorder.finish() {
        // Too fast for the writer: events were lost, and the end fails.
        Err(error) => assert!(error.to_string().contains("pipe"), "{error}"),
        Ok(events) => assert_eq!((events, TOLD.load(Ordering::Relaxed)), (None, 1)),
    }
}

/// Promise: a recording that cannot be begun is refused.
#[test]
fn a_full_disk_is_seen_at_once() {
    let clock = Arc::new(ManualClock::at(7));
    let error = Recorder::start(Path::new("/dev/full"), "mount test", ("/mnt", Ino(2)), clock, |_| ());
    assert!(error.unwrap_err().to_string().contains("/dev/full"));
}
