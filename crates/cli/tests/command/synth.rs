//! `spindle trace synth`.

use crate::support::Bench;

/// Promise: a trace is synthesised from the model of another and compared with it; a printed model
/// gives the same trace.
#[test]
fn like_a_trace() {
    let bench = Bench::new();
    bench.ok("trace synth --like a5 --hours 1 -o a5.trace");
    let output = bench.ok("trace synth --like a5.trace --check -o more.trace");
    for wanted in ["Table III", "Table IV", "Table V", "Miss ratios", "target", "open events in an hour"] {
        assert!(output.contains(wanted), "{wanted}: {output}");
    }
    bench.write("mine.toml", bench.ok("trace synth --like a5.trace --print-model"));
    let output = bench.json("trace synth --model mine.toml --check=a5.trace --json -o again.trace");
    assert_eq!(output[0]["id"], "table-3");
    let [more, again] = ["more.trace", "again.trace"].map(|name| std::fs::read(bench.path(name)).unwrap());
    assert!(more == again, "the printed model gives another trace");
}

/// Promise: a trace without opens and a check without a trace are refused with the reason.
#[test]
fn refused() {
    let bench = Bench::new();
    bench.fails("trace synth --like b5 -o x", 2, &["b5", "no such trace", "a5, e3, c4"]);
    bench.fails("trace synth --like a5 --check -o x", 2, &["--check=TRACE"]);
    bench.write(
        "disk.csv",
        "128166372003061629,hm,0,Read,383496192,32768,413\n128166372016382155,hm,0,Write,2822144,4096,4\n",
    );
    bench.fails("trace synth --like disk.csv -o x", 2, &["disk.csv: no file is opened"]);
}
