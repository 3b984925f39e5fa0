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

/// Imports three traces that are not alike.
fn bench_with_three() -> Bench {
    let bench = bench_with_trace();
    for (name, user, bytes) in [("y", 300, 70_000), ("z", 40, 9)] {
        let log = format!(
            "\
{user} 1700009000.000000 openat(AT_FDCWD, \"/{name}/a.c\", O_RDWR|O_CREAT|O_EXCL, 0644) = 3
{user} 1700009000.100000 write(3, \"\"..., {bytes}) = {bytes}
{user} 1700009{user}.200000 close(3) = 0
{user} 1700009{user}.500000 openat(AT_FDCWD, \"/tmp/a/x\", O_RDONLY) = 3
"
        );
        std::fs::write(bench.path("log.strace"), log).unwrap();
        bench.ok(&format!("trace import log.strace {name}.trace"));
    }
    bench
}

/// Promise: findings that were stored apart, in any groups, are shown as those of one process with
/// the same traces, to the byte, in every output and with every option.
#[test]
fn stored_apart() {
    let bench = bench_with_three();
    let all = "--by user,program,process,directory,file,ext --caches";
    for (to, from) in [("x", "x.trace"), ("y", "y.trace"), ("z", "z.trace"), ("yz", "y.found z.trace")] {
        assert_eq!(bench.ok(&format!("trace analyze --partial {to}.found {all} {from}")), "");
    }
    let grouped = ["x.found y.found z.found", "x.found yz.found", "x.trace y.found z.trace"];
    for options in [
        "",
        "--json",
        "--csv --no-paper",
        all,
        "--caches --json --by ext,file --sort opens --top 1",
        "--html -",
        "-o out --force",
    ] {
        let one = bench.ok(&format!("trace analyze {options} x.trace y.trace z.trace"));
        let files = || bench.shell("test ! -d out || { cat out/* | cksum; rm -r out; }");
        let written = files();
        for inputs in grouped {
            let other = bench.ok(&format!("trace analyze {options} {inputs}"));
            assert!(other == one, "{options} {inputs}:\n{one}\n{other}");
            assert_eq!(files(), written, "{options} {inputs}");
        }
    }
    let found = bench.json("trace analyze --json x.found yz.found");
    let totals = &found["findings"]["totals"];
    assert_eq!((&totals["traces"], &totals["written"]), (&3.into(), &(5000 + 70_000 + 9).into()));
    let page = bench.ok("trace analyze --html - x.trace yz.found");
    assert!(page.contains("<title>Traces x.trace, y.trace, z.trace</title>"), "{page}");
}

/// Promise: stored findings are refused if they lack what is asked for or are damaged, also when
/// they would be counted twice; and they overwrite nothing else.
#[test]
fn stored_findings_are_refused() {
    let bench = bench_with_trace();
    bench.ok("trace analyze --partial x.found --by file x.trace");
    bench.ok("trace analyze --partial x.found --by user x.trace");
    let lack = ["x.found: these findings were made without --by file --caches; make them again with it"];
    bench.fails("trace analyze --by file,user --caches x.found", 1, &lack);
    bench.fails("trace analyze --html x.html x.found", 1, &["--by program,directory,"]);
    bench.fails("trace analyze x.found ./x.found", 2, &["./x.found: this trace is named twice"]);
    bench.fails("trace analyze --partial x.trace x.trace", 1, &["would overwrite its own input"]);
    bench.fails("trace analyze --partial - --json x.trace", 2, &["--partial", "--json"]);
    bench.write("note", "keep");
    bench.fails("trace analyze --partial note x.trace", 1, &["note: contains", "--force"]);
    let mut bytes = std::fs::read(bench.path("x.found")).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    bench.write("bad.found", &bytes);
    bench.fails("trace analyze bad.found", 1, &["bad.found: byte 18: the checksum", "make it again"]);
}

/// Promise: missing traces and invalid options are refused.
#[test]
fn refused() {
    let bench = bench_with_trace();
    bench.fails("trace analyze none", 1, &["none: no such file or directory"]);
    bench.fails("trace analyze x.trace --by nobody", 2, &["nobody"]);
    bench.fails("trace analyze x.trace --json --csv", 2, &["--json", "--csv"]);
}
