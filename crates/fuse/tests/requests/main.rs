//! How many requests the kernel makes for what programs do. Each is a trip to the daemon and back,
//! which is most of what an operation on a mount costs.

#[path = "../common/mod.rs"]
mod common;
#[path = "../mounted/harness.rs"]
#[allow(dead_code)] // Other tests use more of it.
mod harness;

use common::big_model;
use harness::Mounted;
use log::{LevelFilter, Log, Metadata, Record};
use nix::sys::stat::futimens;
use nix::sys::time::TimeSpec;
use spindle_clock::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt, fchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How often each work is done, on a file each time.
const FILES: usize = 50;
/// Bytes of each file that has any.
const BYTES: usize = 4096;
/// Where the table is.
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/PERFORMANCE.md");
/// How the table begins.
const HEADER: &str = "| operation | requests | with `nouser_xattr` |\n|---|---|---|\n";

/// Counts what the server logs, by the names of the requests.
struct Counter(Mutex<BTreeMap<String, usize>>);

static COUNTER: Counter = Counter(Mutex::new(BTreeMap::new()));

impl Log for Counter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "spindle_fuse::requests"
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            *self.0.lock().entry(record.args().to_string()).or_default() += 1;
        }
    }

    fn flush(&self) {}
}

impl Counter {
    /// Returns the requests since the last time, by name. FORGETs come at any time, many at once,
    /// and nobody waits for them.
    fn take(&self) -> BTreeMap<String, usize> {
        let mut counts = std::mem::take(&mut *self.0.lock());
        counts.retain(|name, _| !name.ends_with("FORGET"));
        counts
    }
}

/// The requests of one kind of work.
struct Row {
    name: &'static str,
    /// How often the work was done.
    times: usize,
    counts: BTreeMap<String, usize>,
}

impl Row {
    /// Returns how many requests the work takes, in hundredths rounded up.
    fn hundredths(&self) -> usize {
        (self.counts.values().sum::<usize>() * 100).div_ceil(self.times)
    }

    fn number(&self) -> String {
        match (self.hundredths() / 100, self.hundredths() % 100) {
            (whole, 0) => whole.to_string(),
            (whole, rest) => format!("{whole}.{rest:02}"),
        }
    }

    /// Returns the number and the names, as `2: CREATE, LOOKUP`.
    fn text(&self) -> String {
        let mut text = self.number();
        for (n, (name, &count)) in self.counts.iter().enumerate() {
            text += if n == 0 { ": " } else { ", " };
            text += name;
            match count.div_ceil(self.times) {
                1 => {}
                each => _ = write!(text, " {each}"),
            }
        }
        text
    }
}

/// Does all work on a mount, and counts.
fn rows(mut mounted: Mounted) -> Vec<Row> {
    let top = mounted.path("top");
    fs::create_dir(&top).unwrap();
    let files: Vec<PathBuf> = (0..FILES).map(|n| top.join(format!("file-{n}"))).collect();
    let beside = |end: &str| files.iter().map(|path| path.with_extension(end)).collect::<Vec<_>>();
    let content = vec![7; BYTES];
    let mut rows = Vec::new();
    let mut row = |name: &'static str, work: &dyn Fn(&Path) -> io::Result<()>, on: &[PathBuf]| {
        COUNTER.take();
        on.iter().try_for_each(|path| work(path)).unwrap();
        rows.push(Row { name, times: on.len(), counts: COUNTER.take() });
    };
    // What only the first work of a mount asks for: the first open, and the directory.
    let begin = |mounted: &Mounted| {
        fs::write(mounted.path("begin"), b"first").unwrap();
        fs::read(mounted.path("begin")).unwrap();
        fs::metadata(mounted.path("top")).unwrap();
    };
    let again = |mounted: &mut Mounted| {
        mounted.remount();
        begin(mounted);
    };
    begin(&mounted);
    let stat = |path: &Path| nix::sys::stat::lstat(path).map(drop).map_err(io::Error::from);
    let read = |path: &Path| File::open(path)?.read_exact(&mut [0; BYTES]);
    row("create an empty file", &|path| File::create_new(path).map(drop), &beside("empty"));
    row("create a file, write 4 KiB, close", &|path| File::create_new(path)?.write_all(&content), &files);
    row("stat of a new file", &stat, &files);
    row("open, read 4 KiB, close of a new file", &read, &files);
    again(&mut mounted);
    row("stat, cold", &stat, &files);
    row("stat, warm", &stat, &files);
    row("stat with the birth time, as `stat(1)`", &|path| path.symlink_metadata().map(drop), &files);
    again(&mut mounted);
    row("open, read 4 KiB, close: cold", &read, &files);
    row("open, read 4 KiB, close: warm", &read, &files);
    again(&mut mounted);
    let list = |options: &'static str| {
        let top = top.clone();
        move |path: &Path| {
            // Once, for all names.
            let is_first = path.ends_with("file-0");
            let listed = || Command::new("ls").arg(options).arg(&top).output();
            if is_first { listed().map(drop) } else { Ok(()) }
        }
    };
    // Half of the names are those of the empty files.
    let names: Vec<_> = files.iter().cloned().chain(beside("empty")).collect();
    row("a name of many, `ls -s`: cold", &list("-s"), &names);
    again(&mut mounted);
    row("a name of many, `ls -l`: cold", &list("-l"), &names);
    row("a name of many, `ls -l`: warm", &list("-l"), &names);
    let append = |path: &Path| OpenOptions::new().append(true).open(path)?.write_all(&content);
    row("open, append 4 KiB, close: the first time", &append, &files);
    row("open, append 4 KiB, close: again", &append, &files);
    let open = OpenOptions::new().write(true).open(&files[0]).unwrap();
    let overwrite = |_: &Path| open.write_all_at(&content, 4096);
    row("overwrite 4 KiB of an open file", &overwrite, &files);
    row("overwrite 4 KiB, fdatasync", &|path| overwrite(path).and_then(|()| open.sync_data()), &files);
    drop(open);
    row("chmod", &|path| fs::set_permissions(path, Permissions::from_mode(0o600)), &files);
    row("link", &|path| fs::hard_link(path, path.with_extension("link")), &files);
    row("symlink", &|path| symlink("target", path.with_extension("symbolic")), &files);
    row("rename", &|path| fs::rename(path, path.with_extension("renamed")), &files);
    row("unlink", &|path| fs::remove_file(path), &beside("renamed"));
    row("mkdir", &|path| fs::create_dir(path), &beside("dir"));
    row("rmdir", &|path| fs::remove_dir(path), &beside("dir"));
    row("extract a file of 4 KiB, as `tar`", &|path| extract(path, &content), &files);
    again(&mut mounted);
    row("readlink, cold", &|path| fs::read_link(path).map(drop), &beside("symbolic"));
    row("readlink, warm", &|path| fs::read_link(path).map(drop), &beside("symbolic"));
    again(&mut mounted);
    row("unlink, cold", &|path| fs::remove_file(path), &beside("link"));
    rows
}

/// Does what `tar -x` of root does: create, write, owner, mode and time.
fn extract(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(content)?;
    let time = TimeSpec::new(1_000_000_000, 0);
    futimens(&file, &time, &time)?;
    fchown(&file, Some(0), Some(0))?;
    file.set_permissions(Permissions::from_mode(0o644))
}

/// Returns the number with which a cell of the table begins.
fn hundredths(cell: &str) -> usize {
    let number = cell.trim().split(':').next().unwrap_or_default();
    let (whole, rest) = number.split_once('.').unwrap_or((number, "0"));
    whole.parse::<usize>().unwrap_or(0) * 100 + rest.parse::<usize>().unwrap_or(0)
}

/// Promise: what programs do takes no more requests than docs/PERFORMANCE.md says.
#[test]
fn requests_of_each_operation() {
    log::set_logger(&COUNTER).unwrap();
    log::set_max_level(LevelFilter::Trace);
    let modes = ["rw", "nouser_xattr"];
    let counted: Vec<_> =
        modes.iter().filter_map(|mode| Mounted::with_model(mode, big_model())).map(rows).collect();
    let [all, few] = &counted[..] else { return };
    let mut table = String::from(HEADER);
    let document = fs::read_to_string(DOCUMENT).unwrap();
    let (_, documented) = document.split_once(HEADER).unwrap();
    let mut more = Vec::new();
    for (all, few) in all.iter().zip(few) {
        let _ = writeln!(table, "| {} | {} | {} |", all.name, all.text(), few.number());
        let written = documented.lines().find_map(|line| line.strip_prefix(&format!("| {} | ", all.name)));
        let numbers = written.map(|text| text.split('|').map(hundredths).take(2).collect::<Vec<_>>());
        if !numbers
            .is_some_and(|numbers| [all, few].iter().zip(numbers).all(|(row, most)| row.hundredths() <= most))
        {
            more.push(all.name);
        }
    }
    assert!(more.is_empty(), "more than docs/PERFORMANCE.md says: {more:?}; counted:\n{table}");
}
