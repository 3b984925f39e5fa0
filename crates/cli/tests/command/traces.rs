//! `spindle trace filter`, `merge`, `diff` and `export`: what is made of traces.

use crate::support::Bench;
use std::process::Command;

/// Returns a bench with `day.trace`, an hour of the machine a5, and its events.
fn bench() -> (Bench, Vec<serde_json::Value>) {
    let bench = Bench::new();
    bench.ok("trace synth --like a5 --hours 1 -o day.trace");
    let events = events(&bench, "day.trace");
    (bench, events)
}

fn events(bench: &Bench, trace: &str) -> Vec<serde_json::Value> {
    let text = bench.ok(&format!("trace show --json {trace}"));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Promise: each option of `filter` keeps what has its values, and the analysis of the part counts
/// no more; what was open before the window is no new open; the trace says how it was filtered.
#[test]
fn parts() {
    let (bench, whole) = bench();
    let user = whole.iter().filter_map(|event| event["user"].as_u64()).max().unwrap();
    bench.ok(&format!("trace filter day.trace --uid {user} -o user.trace"));
    let part = events(&bench, "user.trace");
    let wanted: Vec<_> = whole.iter().filter(|event| event["user"] == user).collect();
    assert!(!part.is_empty() && part.iter().eq(wanted), "{} events", part.len());

    bench.ok("trace filter day.trace --time 600,1200 -o window.trace");
    let totals = |trace: &str| bench.json(&format!("trace analyze --json {trace}"))["findings"].clone();
    let (window, all) = (totals("window.trace"), totals("day.trace"));
    let opens = |kind: &str| {
        let start = whole[0]["time"].as_i64().unwrap();
        let of = |event: &&serde_json::Value| {
            let since = event["time"].as_i64().unwrap() - start;
            event["kind"] == kind && (600_000_000_000..1_200_000_000_000).contains(&since)
        };
        whole.iter().filter(of).count()
    };
    assert_eq!(window["totals"]["events"][0], opens("open"));
    assert_eq!(window["totals"]["events"][1], opens("create"));
    assert_eq!(window["totals"]["events"][2], opens("close"));
    assert!(window["totals"]["read"].as_u64() < all["totals"]["read"].as_u64());
    assert!(window["totals"]["notes"].to_string().contains("filtered by --time 600,1200"), "{window}");

    bench.write(
        "names.strace",
        "7 1700000005.0 mkdir(\"/a/b\", 0777) = 0\n7 1700000006.0 symlink(\"x\", \"/a/l\") = 0\n7 1700000007.0 unlink(\"/ab/f.o\") = 0\n",
    );
    for (options, kinds) in [
        ("--type d,l", vec!["mkdir", "symlink"]),
        ("--type f", vec!["unlink"]),
        ("--path /a", vec!["mkdir", "symlink"]),
        ("--path /a/b --path *.o", vec!["mkdir", "unlink"]),
        ("--pid 7 --time 0.5,2", vec!["symlink"]),
    ] {
        bench.ok(&format!("trace filter names.strace {options} -o names.trace"));
        let found = events(&bench, "names.trace");
        assert!(found.iter().map(|event| &event["kind"]).eq(kinds), "{options}: {found:?}");
    }
    let ran = bench.run("trace filter day.trace --comm nothing -o none.trace");
    assert_eq!((ran.code, ran.out.as_str()), (0, ""));
    assert!(ran.err.contains("no event has all of --comm nothing"), "{}", ran.err);
}

/// Promise: the windows of a trace, merged, are the trace again; merged hosts have all events; what
/// has no common order, or is named twice, is refused.
#[test]
fn merged() {
    let (bench, whole) = bench();
    bench.ok("trace filter day.trace --time ,1000 -o 1.trace");
    bench.ok("trace filter day.trace --time 1000,1500.5 -o 2.trace");
    bench.ok("trace filter day.trace --time 1500.5, -o 3.trace");
    bench.ok("trace merge --parts 3.trace 1.trace 2.trace -o again.trace");
    assert!(events(&bench, "again.trace") == whole, "the parts are not the whole");

    bench.ok("trace synth --like a5 --hours 1 --seed 2 -o other.trace");
    bench.ok("trace merge day.trace other.trace -o hosts.trace");
    let count = |trace: &str| events(&bench, trace).len();
    assert_eq!(count("hosts.trace"), whole.len() + count("other.trace"));
    let sums = bench.json("trace analyze --json hosts.trace");
    let parts = ["day.trace", "other.trace"].map(|t| bench.json(&format!("trace analyze --json {t}")));
    for what in ["read", "written"] {
        let of = |json: &serde_json::Value| json["findings"]["totals"][what].as_u64().unwrap();
        assert_eq!(of(&sums), parts.iter().map(of).sum::<u64>());
    }
    bench.fails("trace merge --parts day.trace other.trace -o x", 2, &["they are not parts of one"]);
    bench.fails("trace merge day.trace ./day.trace -o x", 2, &["named twice"]);
    bench.fails("trace merge day.trace -o x", 2, &["2"]);
    bench.write("early.strace", "1 5.0 unlink(\"/a\") = 0\n");
    bench.write("late.strace", "1 1700000000.0 unlink(\"/a\") = 0\n");
    bench.fails("trace merge early.strace late.strace -o x", 2, &["late.strace: its times count from 1970"]);
    assert!(!bench.path("x").exists());
}

/// Promise: what cannot be filtered is refused, and nothing is written.
#[test]
fn refused() {
    let bench = Bench::new();
    bench.write("x.strace", "1 5.0 unlink(\"/a\") = 0\n");
    bench.fails("trace filter x.strace -o x", 2, &["nothing is filtered"]);
    bench.fails("trace filter x.strace --time 5 -o x", 2, &["two moments"]);
    bench.fails("trace filter x.strace --pid 1 -o x.strace", 1, &["would overwrite its own input"]);
    bench.fails("trace filter none --pid 1 -o x", 1, &["none: no such file"]);
    bench.fails("trace diff x.strace none", 1, &["none: no such file"]);
    bench.fails("trace export --format fio-iolog x.strace x", 2, &["--directory"]);
    bench.fails("trace export --directory d x.strace x", 2, &["--format fio-iolog"]);
    bench.write("a b/c", "");
    let ran =
        bench.run_args(["trace", "export", "--format", "fio-iolog", "--directory", "a b", "x.strace", "x"]);
    assert!(ran.code == 2 && ran.err.contains("fio cannot read names that have blanks"), "{}", ran.err);
    assert!(!bench.path("x").exists());
}

/// Promise: two hours of one machine hardly differ, two machines do, in what they do and how; JSON
/// has all figures with their intervals.
#[test]
fn differences() {
    let bench = Bench::new();
    for (name, like, seed) in [("a", "a5", 1), ("b", "a5", 2), ("c", "c4", 3)] {
        bench.ok(&format!("trace synth --like {like} --hours 3 --seed {seed} -o {name}.trace"));
    }
    let differ = |one: &str, two: &str| {
        let json = bench.json(&format!("trace diff --json {one}.trace {two}.trace"));
        let figures = json["comparisons"].as_array().unwrap().iter();
        let figures: Vec<_> = figures.flat_map(|each| each["figures"].as_array().unwrap().clone()).collect();
        assert!(figures.iter().all(|figure| figure["name"].is_string() && figure["unit"].is_string()));
        let count = figures.iter().filter(|figure| figure["differs"] == true).count();
        (count, figures.len())
    };
    assert_eq!(differ("a", "a").0, 0);
    let ((same, all), (other, _)) = (differ("a", "b"), differ("a", "c"));
    assert!(same * 25 <= all && other >= 5 && other > 2 * same, "{same} and {other} of {all}");
    let text = bench.ok("trace diff a.trace c.trace");
    assert!(text.contains("a.trace: ") && text.contains("figures are within noise"), "{text}");
    assert!(bench.ok("trace diff --all a.trace a.trace").contains("beyond noise"));
}

/// Promise: the real fio repeats an exported trace: it reads and writes as many bytes as the trace
/// has, in the files that the export has made.
#[test]
fn fio_repeats_a_trace() {
    let (bench, _) = bench();
    bench.ok("trace filter day.trace --time 0,300 -o short.trace");
    bench.ok("trace export --format fio-iolog --directory d short.trace log");
    let found = bench.json("trace analyze --json short.trace");
    let totals = &found["findings"]["totals"];
    let mut fio = Command::new("fio");
    fio.args(["--name=j", "--read_iolog=log", "--ioengine=psync", "--replay_no_stall=1"]);
    let ran = fio.arg("--output-format=json").current_dir(bench.path("")).output();
    let ran = ran.expect("fio is a Debian package that `make setup` installs");
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{text}{}", String::from_utf8_lossy(&ran.stderr));
    let job = &serde_json::from_str::<serde_json::Value>(&text).unwrap()["jobs"][0];
    assert_eq!(job["error"], 0, "{text}");
    for (ours, fios) in [("read", "read"), ("written", "write")] {
        assert!(totals[ours].as_u64() > Some(0));
        assert_eq!(totals[ours], job[fios]["io_bytes"], "{ours}: {text}");
    }
    // What is there is kept, and is enough for the same log again.
    bench.ok("trace export --format fio-iolog --directory d short.trace log");
}
