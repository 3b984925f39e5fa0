//! `strace` beside the recorder: the same run seen by both, and counted file by file.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use tempfile::{NamedTempFile, TempDir};

use crate::spindle::binary;
use crate::tool::{command, run};
use crate::{Failure, Result};

/// Counts from `strace`'s output: a program that shares nothing with the recorder.
const SCRIPT: &str = include_str!("strace.py");

/// Opens, bytes read, bytes written and deletions, by file; under the name of a kind in
/// parentheses, its calls that succeeded, and those that failed.
type Counts = BTreeMap<String, [u64; 4]>;

/// Kinds of calls that only look at files, or change their attributes or names.
const CONTROL_CALLS: [&str; 10] =
    ["stat", "access", "readlink", "list", "chdir", "chmod", "chown", "utime", "link", "symlink"];

/// Runs a shell script in an empty directory, under `strace` and the recorder, and gives how they
/// disagree.
///
/// # Errors
/// When one of the programs fails.
pub fn disagrees(script: &str) -> Result<Vec<String>> {
    let directory = TempDir::new().map_err(Failure::of("temporary directory"))?;
    let path = directory.path().canonicalize().map_err(Failure::of("temporary directory"))?;
    let (work, trace, log) = (path.join("work"), path.join("events.trace"), path.join("log"));
    fs::create_dir(&work).and_then(|()| fs::create_dir(&log)).map_err(Failure::of(path.display()))?;
    let mut both = command(binary());
    both.args(["trace", "record", "-o"]).arg(&trace).args(["--", "strace", "-ff", "-yy", "-qq", "-s", "0"]);
    both.arg("-o").arg(log.join("of")).args(["sh", "-ec", script]).current_dir(&work);
    run(&mut both)?;
    let (recorded, seen) = (recorded(&trace)?, seen(&log, &work)?);
    if seen.len() < 10 {
        return Err(Failure::new(format!("strace has seen {} files", seen.len())));
    }
    let names: std::collections::BTreeSet<_> = recorded.keys().chain(seen.keys()).collect();
    let none = [0; 4];
    let differs = names.into_iter().filter_map(|name| {
        let (ours, theirs) = (recorded.get(name).unwrap_or(&none), seen.get(name).unwrap_or(&none));
        let line = || format!("{name}: opens, read, written, unlinked: recorded {ours:?}, strace {theirs:?}");
        (ours != theirs).then(line)
    });
    Ok(differs.collect())
}

/// Returns what the recorder has, without what `strace` itself did.
fn recorded(trace: &Path) -> Result<Counts> {
    let lines = run(command(binary()).args(["trace", "show"]).arg(trace))?;
    let mut counts = Counts::new();
    for line in String::from_utf8_lossy(&lines).lines() {
        let mut words = line.split(' ').skip(1);
        let kind = words.next().unwrap_or_default();
        let fields: BTreeMap<_, _> = words.filter_map(|word| word.split_once('=')).collect();
        let field = |name: &str| fields.get(name).copied().unwrap_or_default();
        if field("command") == "\"strace\"" || kind.contains("+mapped") {
            continue;
        }
        let (kind, failed) = (kind.split('+').next().unwrap_or_default(), kind.contains("+failed"));
        if CONTROL_CALLS.contains(&kind) {
            counts.entry(format!("({kind})")).or_default()[usize::from(failed)] += 1;
            continue;
        }
        let entry = counts.entry(field("path").trim_matches('"').to_owned()).or_default();
        entry[0] += u64::from(matches!(kind, "open" | "create") && !line.contains("+before"));
        entry[1] += field("read").parse().unwrap_or(0);
        entry[2] += field("written").parse().unwrap_or(0);
        entry[3] += u64::from(kind == "unlink" && !line.contains("+replaced"));
    }
    counts.retain(|_, counts| *counts != [0; 4]);
    Ok(counts)
}

/// Returns what `strace` has, of programs that were started in `work`.
fn seen(log: &Path, work: &Path) -> Result<Counts> {
    let mut script = NamedTempFile::with_suffix(".py").map_err(Failure::of("temporary file"))?;
    script.write_all(SCRIPT.as_bytes()).map_err(Failure::of("temporary file"))?;
    let lines = run(command("/usr/bin/python3").arg(script.path()).arg(log).arg(work))?;
    let mut counts = Counts::new();
    for line in String::from_utf8_lossy(&lines).lines() {
        let mut fields = line.split('\t');
        let name = fields.next().unwrap_or_default().to_owned();
        let numbers: Vec<u64> =
            fields.map(str::parse).collect::<std::result::Result<_, _>>().map_err(Failure::of(line))?;
        let numbers =
            numbers.try_into().map_err(|_| Failure::new(format!("not a line of counts: {line}")))?;
        counts.insert(name, numbers);
    }
    Ok(counts)
}
