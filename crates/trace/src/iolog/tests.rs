//! Tests of iologs: their lines, and that an import has the accesses again.

use super::*;
use crate::invented::{anything, source};
use crate::{Columns, Symbol, open};
use std::collections::BTreeMap;

fn exported(events: Vec<Event>) -> Result<(String, Exported)> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut given = source(&Batch { events, ..Batch::default() }, 2);
    let made = export(&mut *given, "/d", 4096, (File::create(&path).unwrap(), &path), |_| ())?;
    Ok((std::fs::read_to_string(&path).unwrap(), made))
}

fn event(micros: i64, kind: Kind, open: u64, inode: u64) -> Event {
    let file = FileId { device: 1, inode };
    Event { time: 7_000_000_000 + micros * 1000, kind, open, file, ..Event::default() }
}

/// Promise: files are added before they are opened, opened once however many have them open, and
/// closed by the last; a run has as many requests as calls, or requests of the block; a file whose
/// numbers are used again is another one; what is mapped, directories and syncs of all are left
/// out.
#[test]
fn lines() {
    let (log, made) = exported(vec![
        event(0, Kind::Create, 1, 5),
        event(5, Kind::Open, 2, 5),
        Event { written: 1000, calls: 3, ..event(10, Kind::Seek, 1, 5) },
        event(11, Kind::Sync, 1, 5),
        event(12, Kind::Sync, 0, 0),
        event(13, Kind::Unlink, 0, 5),
        Event { flags: Flags::MAPPED, read: 99, ..event(14, Kind::Run, 2, 5) },
        event(3, Kind::Close, 1, 5),
        Event { flags: Flags::LAST, position: 1000, read: 5000, ..event(20, Kind::Close, 2, 5) },
        Event { read: 10, ..event(21, Kind::Run, 0, 5) },
        Event { flags: Flags::DIRECTORY, ..event(22, Kind::Open, 3, 9) },
    ])
    .unwrap();
    let wanted = "fio version 3 iolog\n1 /d/file-1 add\n1 /d/file-1 open\n11 /d/file-1 write 0 334\n\
        11 /d/file-1 write 334 334\n11 /d/file-1 write 668 332\n12 /d/file-1 sync 0 0\n\
        21 /d/file-1 read 1000 4096\n21 /d/file-1 read 5096 904\n21 /d/file-1 close\n\
        22 /d/file-2 add\n22 /d/file-2 open\n22 /d/file-2 read 0 10\n22 /d/file-2 close\n";
    assert_eq!(log, wanted);
    assert_eq!(made, Exported { requests: 6, sizes: vec![6000, 10], mapped: 99, syncs: 1 });
}

/// Promise: a disk is opened once, and stays open.
#[test]
fn disks_stay_open() {
    let run = |micros| Event { read: 512, ..event(micros, Kind::Run, 0, 0) };
    let (log, _) = exported(vec![run(0), run(1)]).unwrap();
    assert_eq!(log.matches("open").count(), 1, "{log}");
    assert_eq!(log.matches("close").count(), 0, "{log}");
}

/// Promise: an import of the log has the bytes of each file in the same order of accesses.
#[test]
fn an_import_has_the_accesses() {
    let run = |n: u64| Event { position: n * 8192, written: 4096, calls: 1, ..event(0, Kind::Run, 1, 5) };
    let mut events = vec![event(0, Kind::Open, 1, 5)];
    events.extend((0..2000).map(|n| run(n * 7919 % 1999)));
    events.push(event(9, Kind::Close, 1, 5));
    let wanted: Vec<_> = events.iter().filter(|e| e.written > 0).map(|e| (e.position, e.written)).collect();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    std::fs::write(&path, exported(events).unwrap().0).unwrap();
    let mut source = open(&path, Columns::ALL).unwrap();
    assert_eq!(source.info().source, "import fio-iolog");
    let (mut found, mut batch) = (Vec::new(), Batch::default());
    while source.next(&mut batch).unwrap() {
        found.extend(batch.events.iter().filter(|e| e.written > 0).map(|e| (e.position, e.written)));
    }
    assert_eq!(found, wanted);
}

/// Promise: what fio cannot read or do is refused before it is written.
#[test]
fn what_fio_cannot_do_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let long = format!("/{}", "d".repeat(240));
    let refused = BTreeMap::from([("/a b", 4096), (long.as_str(), 4096), ("/d", 0), ("/e", 1 << 30)]);
    for (directory, block) in refused {
        let mut none = Batch::default();
        let done = export(&mut none, directory, block, (File::create(&path).unwrap(), &path), |_| ());
        assert!(matches!(done, Err(Error::Refused(_))), "{directory} {block}");
    }
    for (position, read, calls) in [(u64::MAX, 10, 1), (0, u64::MAX, 1), (0, 1 << 62, 0), (1 << 63, 1, 0)] {
        let refused = exported(vec![Event { position, read, calls, ..event(0, Kind::Run, 0, 5) }]);
        let text = refused.unwrap_err().to_string();
        assert!(text.contains(&format!("a run of {read} bytes from {position}")), "{text}");
    }
}

/// Promise: whatever the events are, they are exported, or refused, without a panic.
#[test]
fn anything_is_exported_or_refused() {
    for seed in 0..20 {
        let mut events = anything(300, seed).events;
        // Runs that are possible, but for all else.
        for event in &mut events {
            [event.command, event.path, event.new_path] = [Symbol::default(); 3];
            (event.read, event.written) = (event.read % 9, event.written % 9);
            event.position %= 1 << (seed + 40);
        }
        match exported(events) {
            Ok((log, made)) => assert!(log.lines().count() as u64 > made.requests),
            Err(error) => assert!(error.to_string().starts_with("a run of"), "{error}"),
        }
    }
}
