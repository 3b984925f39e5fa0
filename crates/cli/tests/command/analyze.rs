//! `spindle trace analyze`.

use crate::support::Bench;

/// Imports `x.trace` from a log of `strace`.
fn bench_with_trace() -> Bench {
    let bench = Bench::new();
    let log = "\
100 1700000000.000000 openat(AT_FDCWD, \"/tmp/a/x\", O_WRONLY|O_CREAT|O_EXCL, 0644) = 3
100 1700000000.100000 write(3, \"\"..., 5000) = 5000
100 1700000000.200000 close(3) = 0
100 1700000001.000000 openat(AT_FDCWD, \"/tmp/a/x\", O_RDONLY) = 3
100 1700000001.100000 read(3, \"\"..., 8192) = 5000
100 1700000001.200000 close(3) = 0
100 1700000002.000000 unlink(\"/tmp/a/x\") = 0
";
    std::fs::write(bench.path("x.strace"), log).unwrap();
    bench.ok("trace import x.strace x.trace");
    bench
}

/// Promise: an analysis is printed as text, JSON and CSV, and written as files, or instead as a
/// page; --no-paper omits the figures of 1985. The duration of a short trace is not 0.
#[test]
fn all_output_formats() {
    let bench = bench_with_trace();
    let text = bench.ok("trace analyze x.trace --by directory --caches -o out");
    assert_eq!(bench.ok("trace analyze x.trace --by directory --html x.html"), "");
    assert_eq!(bench.ok("trace report x.trace --html report.html"), "");
    assert!(bench.ok("trace report --brief --force x.trace --html report.html").lines().count() > 3);
    let duration = text.lines().find(|line| line.starts_with("duration")).unwrap();
    assert!(duration.contains(" 0.000") && !duration.contains(" 0.0000"), "{duration}");
    for wanted in
        ["Table III", "1985: A5", "whole-file transfers", "By directory", "/tmp/a", "A cache of 4 MB"]
    {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert_eq!(text, std::fs::read_to_string(bench.path("out/analysis.txt")).unwrap());
    let page = std::fs::read_to_string(bench.path("x.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg ") && page.contains("/tmp/a"));
    let csv = std::fs::read_to_string(bench.path("out/table-5.csv")).unwrap();
    assert!(csv.starts_with(",this trace,this trace share,1985: A5,"), "{csv}");
    assert!(bench.path("out/figure-4.svg").exists() && bench.path("out/figure-1.csv").exists());

    let output = bench.json("trace analyze --json x.trace");
    assert_eq!(output["findings"]["totals"]["read"], 5000);
    assert_eq!(output["findings"]["totals"]["written"], 5000);
    assert_eq!(output["sections"][1]["id"], "table-3");
    let alone = bench.ok("trace analyze --no-paper --csv x.trace");
    assert!(alone.contains("# table-3\r\n") && !alone.contains("1985"), "{alone}");
}

/// Promise: --by has a table for each criterion, in the order that is asked for, with a limit.
#[test]
fn largest_first() {
    let bench = bench_with_trace();
    let text = bench.ok("trace analyze x.trace --by file,process,ext,user --no-paper");
    for wanted in ["By file", "/tmp/a/x", "By process", "100", "By extension", "(none)", "By user"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let rows = |words: &str| {
        bench.json(&format!("trace analyze --json x.trace --by process {words}"))["findings"]["groups"][0]
            .clone()
    };
    let group = rows("--sort opens --top 1");
    assert_eq!((&group["by"], &group["order"]), (&"process".into(), &"opens".into()));
    assert_eq!(group["rows"][0]["amounts"][0], 2);
}

/// Promise: missing traces and invalid options are refused.
#[test]
fn refused() {
    let bench = bench_with_trace();
    bench.fails("trace analyze none", 1, &["none: no such file or directory"]);
    bench.fails("trace analyze x.trace --by nobody", 2, &["nobody"]);
    bench.fails("trace analyze x.trace --json --csv", 2, &["--json", "--csv"]);
}
