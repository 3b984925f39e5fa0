//! Traces: what a mount records of programs, and what other people's tools read from a trace.

use spindle_clock::{Clock, SystemClock};
use spindle_interop::crash::daemon::Daemon;
use spindle_interop::spindle::{Mounted, binary, spindle};
use spindle_interop::tool::{command, output, repository, run, tools};
use spindle_interop::{Failure, Result};
use spindle_trace::format::Writer;
use spindle_trace::{Batch, Columns, Event, FileId, Flags, Info, Kind, Symbol, open};
use std::collections::BTreeMap;
use std::ffi::OsStr;
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

/// Writes a trace anew with `DuckDB` and with `pyarrow`, in the ways that these have: missing
/// values, other orders of columns, compressions and pages.
const WRITE_ANEW: &str = "
import sys, duckdb, pyarrow as pa, pyarrow.parquet as pq
trace = sys.argv[1]
duckdb.sql(f\"copy (from read_parquet('{trace}')) to 'duckdb.parquet' (format parquet)\")
duckdb.sql(f\"\"\"copy (select 7 as more, new_path, path, nullif(command, '') as command, calls, new_position, written, read,
    position, size, process::bigint as process, user, inode, nullif(device, 0) as device, open, flags, kind, time
    from read_parquet('{trace}')) to 'duckdb2.parquet' (format parquet, parquet_version v2, compression snappy,
    row_group_size 2048)\"\"\")
table = pq.read_table(trace)
pq.write_table(table, 'arrow.parquet')
fields = [field.with_nullable(True) for field in reversed(list(table.schema))]
nullable = pa.schema(fields, metadata=table.schema.metadata)
table = table.select(nullable.names).cast(nullable)
for codec in ['snappy', 'gzip', 'lz4', 'zstd', 'none']:
    pq.write_table(table, f'arrow-{codec}.parquet', compression=codec, data_page_version='2.0', row_group_size=1000)
pq.write_table(table, 'arrow-plain.parquet', use_dictionary=False, data_page_size=512, write_batch_size=64)
";

/// Promise: what `DuckDB` and `pyarrow` write of a trace is that trace.
#[test]
fn traces_that_others_write() -> Result<()> {
    let dir = tempfile::tempdir().map_err(Failure::of("temporary directory"))?;
    let trace = dir.path().join("x.trace");
    let mut batch = Batch::default();
    for n in 0..5000_u64 {
        let [command, path] = [n % 7, n % 1000].map(|word| match word {
            0 => String::new(),
            word => format!("/wörd{word}"),
        });
        batch.events.push(Event {
            time: 1_700_000_000_000_000_000 + i64::try_from(n).unwrap() * 1_234_567_000,
            kind: Kind::ALL[usize::try_from(n).unwrap() % Kind::ALL.len()],
            flags: Flags(u32::try_from(n).unwrap() % (1 << 14)),
            open: n << 40,
            file: FileId { device: n % 3, inode: u64::MAX - n },
            user: u32::MAX,
            process: u32::try_from(n).unwrap() * 800_000,
            size: n * n,
            position: n << 30,
            read: n,
            calls: 1 << 31,
            command: batch.names.symbol(&command),
            path: batch.names.symbol(&path),
            ..Event::default()
        });
    }
    let mut writer = Writer::create(&trace).unwrap();
    writer.write(&batch).unwrap();
    writer.finish(&Info { source: "the test".into(), ..Info::default() }).unwrap();

    let read = |path: &Path| {
        let mut source = open(path, Columns::ALL).unwrap();
        let (mut all, mut batch) = (Vec::new(), Batch::default());
        while source.next(&mut batch).unwrap() {
            all.extend(batch.events.iter().map(|event| {
                let words = [event.command, event.path].map(|word| batch.names.word(word).to_owned());
                (Event { command: Symbol::default(), path: Symbol::default(), ..*event }, words)
            }));
        }
        (all, source.info())
    };
    let wanted = read(&trace).0;
    let mut python = command(tools().join("python/bin/python"));
    run(python.args(["-c", WRITE_ANEW]).arg(&trace).current_dir(dir.path()))?;
    let written = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let written: Vec<_> = written.filter(|path| path.extension().is_some_and(|e| e == "parquet")).collect();
    assert_eq!(written.len(), 9);
    for path in written {
        let (events, info) = read(&path);
        assert!(events == wanted, "{}", path.display());
        let is_kept = path.file_name().unwrap().to_string_lossy().starts_with("arrow");
        let source = if is_kept { info.source == "the test" } else { info.source.contains("DuckDB") };
        assert!(source, "{}: {info:?}", path.display());
    }
    Ok(())
}

/// Promise: the script of docs/USAGE.md, with workers of Dask on this machine, prints the bytes
/// that one process prints; a trace that cannot be read fails it.
#[test]
fn dask_prints_what_one_process_prints() -> Result<()> {
    let dir = tempfile::tempdir().map_err(Failure::of("temporary directory"))?;
    let text = fs::read_to_string(repository().join("docs/USAGE.md")).map_err(Failure::of("the document"))?;
    let script =
        text.split_once("```python\n").and_then(|(_, rest)| rest.split_once("```")).expect("a script").0;
    fs::write(dir.path().join("many.py"), script).unwrap();
    let mut traces = Vec::new();
    for seed in ["1", "2", "3", "4", "5"] {
        let trace = format!("{seed}.trace");
        let path = dir.path().join(&trace);
        let words = ["trace", "synth", "--like", "a5", "--hours", "0.2", "--seed", seed, "-o"];
        spindle(words.map(OsStr::new).into_iter().chain([path.as_os_str()]))?;
        traces.push(trace);
    }
    let programs = binary().parent().expect("a directory").display().to_string();
    let with_dask = |traces: &[String]| {
        let mut python = command("env");
        let path = std::env::var("PATH").unwrap_or_default();
        python.arg(format!("PATH={programs}:{path}")).arg(tools().join("python/bin/python")).arg("many.py");
        output(python.args(traces).current_dir(dir.path()))
    };
    let mut one = command(binary());
    one.args(["trace", "analyze", "--by", "program"]).args(&traces).current_dir(dir.path());
    let (one, many) = (run(&mut one)?, with_dask(&traces)?);
    assert!(many.status.success(), "{}", String::from_utf8_lossy(&many.stderr));
    assert_eq!(String::from_utf8_lossy(&many.stdout), String::from_utf8_lossy(&one));
    assert!(String::from_utf8_lossy(&one).contains("These are 5 traces"));

    traces.push("none.trace".into());
    let failed = with_dask(&traces)?;
    assert!(!failed.status.success() && failed.stdout.is_empty());
    let said = String::from_utf8_lossy(&failed.stderr);
    assert!(said.contains("none.trace: no such file or directory"), "{said}");
    Ok(())
}
