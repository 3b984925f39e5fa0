//! Traces: what a mount records of programs, and what other people's tools read from a trace.

use spindle_clock::{Clock, SystemClock};
use spindle_interop::crash::daemon::Daemon;
use spindle_interop::spindle::{Mounted, spindle};
use spindle_interop::tool::{command, repository, run, tools};
use spindle_interop::{Failure, Result};
use spindle_trace::format::Writer;
use spindle_trace::{Batch, Columns, Event, FileId, Info, Kind, open};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Returns the events of a trace: kind, size, bytes read and written, and the name.
fn events_of(trace: &Path) -> Vec<(Kind, u64, u64, u64, String)> {
    let mut source = open(trace, Columns::ALL).unwrap();
    let (mut all, mut batch) = (Vec::new(), Batch::default());
    while source.next(&mut batch).unwrap() {
        let path = |e: &Event| batch.names.word(e.path).to_owned();
        all.extend(batch.events.iter().map(|e| (e.kind, e.size, e.read, e.written, path(e))));
    }
    all
}

/// Promise: a mount with `trace=` records who opened, wrote, renamed and removed what, with the
/// bytes that reached the file system, and its trace is complete when `spindle umount` has
/// returned.
#[test]
fn a_mount_records_its_use() -> Result<()> {
    let dir = tempfile::tempdir().map_err(Failure::of("temporary directory"))?;
    let (image, trace) = (dir.path().join("image"), dir.path().join("trace"));
    let place = image.to_str().expect("a path in UTF-8");
    spindle(["newfs", "-s", "32m", place])?;
    let mounted = Mounted::new(&image, &format!("trace={}", trace.display()))?;
    let at = mounted.path().canonicalize().unwrap();
    fs::create_dir(at.join("d")).unwrap();
    let wrote = Command::new("dd")
        .args(["if=/dev/zero", "bs=1000", "count=70", "status=none"])
        .arg(format!("of={}", at.join("d/a").display()))
        .status();
    assert!(wrote.unwrap().success());
    fs::rename(at.join("d/a"), at.join("b")).unwrap();
    mounted.unmount()?;

    let below = |path: &str| path.strip_prefix(&format!("{}/", at.display())).unwrap_or(path).to_owned();
    let (closed, others): (Vec<_>, Vec<_>) = events_of(&trace)
        .into_iter()
        .map(|(kind, size, _, written, path)| (kind, size, written, below(&path)))
        .partition(|(kind, ..)| *kind == Kind::Close);
    let expected = [(Kind::Mkdir, 0, 0, "d"), (Kind::Create, 0, 0, "d/a"), (Kind::Rename, 0, 0, "d/a")];
    assert_eq!(others, expected.map(|(kind, size, written, path)| (kind, size, written, path.to_owned())));
    // The kernel does not wait for the reply to a close, so a rename may overtake it.
    let names = ["d/a", "b"].map(|name| vec![(Kind::Close, 70_000, 70_000, name.to_owned())]);
    assert!(names.contains(&closed), "{closed:?}");

    // What is there already is read from the image, once.
    let mounted = Mounted::new(&image, &format!("trace={}", trace.display()))?;
    assert_eq!(fs::read(mounted.path().join("b")).unwrap().len(), 70_000);
    mounted.unmount()?;
    let all = events_of(&trace);
    let read: u64 = all.iter().map(|(_, _, read, ..)| read).sum();
    assert_eq!(read, 70_000, "{all:?}");
    assert_eq!(all.first().map(|(kind, size, ..)| (*kind, *size)), Some((Kind::Open, 70_000)));
    Ok(())
}

/// Promise: the trace of a mount whose daemon was killed is readable: of what was done some seconds
/// before nothing is missing.
#[test]
fn the_trace_of_a_killed_mount() -> Result<()> {
    let dir = tempfile::tempdir().map_err(Failure::of("temporary directory"))?;
    let (image, trace) = (dir.path().join("image"), dir.path().join("trace"));
    spindle(["newfs", "-s", "32m", image.to_str().expect("a path in UTF-8")])?;
    let daemon = Daemon::start(&image, &format!("trace={}", trace.display()))?;
    let made = |number: u32| daemon.path().join(format!("d{number}"));
    let (mut number, mut seen) = (0, Vec::new());
    while seen.is_empty() && number < 600 {
        fs::create_dir(made(number)).map_err(Failure::of("mkdir"))?;
        number += 1;
        SystemClock.sleep(Duration::from_millis(100));
        seen = events_of(&trace);
    }
    daemon.kill()?;
    let found = events_of(&trace);
    assert!(!seen.is_empty() && found.starts_with(&seen), "{seen:?} and then {found:?}");
    for (number, (kind, .., path)) in found.iter().enumerate() {
        assert_eq!((*kind, path.ends_with(&format!("/d{number}"))), (Kind::Mkdir, true), "{path}");
    }
    Ok(())
}

/// Promise: the query of `docs/SPEC-trace.md` runs as it stands there, and gives what we count
/// ourselves.
#[test]
fn duckdb_runs_the_documented_query() -> Result<()> {
    let dir = tempfile::tempdir().map_err(Failure::of("temporary directory"))?;
    let trace = dir.path().join("build.trace");
    let mut batch = Batch::default();
    let mut sums: BTreeMap<String, (u64, u64, std::collections::BTreeSet<FileId>)> = BTreeMap::new();
    for n in 0..400_000_u64 {
        let name = format!("program{}", n * n % 7);
        let file = FileId { device: n % 3, inode: n % 1000 };
        let (read, written) = if n % 2 == 0 { (n, 0) } else { (0, n << (n % 13)) };
        let sum = sums.entry(name.clone()).or_default();
        sum.0 += read;
        sum.1 += written;
        sum.2.insert(file);
        let command = batch.names.symbol(&name);
        batch.events.push(Event { kind: Kind::Run, file, read, written, command, ..Event::default() });
    }
    let mut writer = Writer::create(&trace).unwrap();
    writer.write(&batch).unwrap();
    writer.finish(&Info::default()).unwrap();

    let text =
        fs::read_to_string(repository().join("docs/SPEC-trace.md")).map_err(Failure::of("the document"))?;
    let query = text.split_once("```sql\n").and_then(|(_, rest)| rest.split_once("```")).expect("a query").0;
    let script = "import sys, duckdb\nfor row in duckdb.sql(sys.argv[1]).fetchall(): print(*row, sep='\\t')";
    let mut python = command(tools().join("python/bin/python"));
    let got = run(python.args(["-c", script, query]).current_dir(dir.path()))?;
    let mut expected: Vec<_> = sums.into_iter().collect();
    expected.sort_by_key(|(_, (_, written, _))| std::cmp::Reverse(*written));
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(name, (read, written, files))| format!("{name}\t{read}\t{written}\t{}", files.len()))
        .collect();
    assert_eq!(String::from_utf8_lossy(&got).lines().collect::<Vec<_>>(), expected);
    Ok(())
}
