//! `spindle trace synth`.

use crate::support::Bench;

/// Promise: a trace is made like another, and compared with it; its model is printed, and can be
/// given back.
#[test]
fn like_a_trace() {
    let bench = Bench::new();
    bench.ok("trace synth --like a5 --hours 1 -o a5.trace");
    let told = bench.ok("trace synth --like a5.trace --check -o more.trace");
    for wanted in ["Table III", "Table IV", "Table V", "Miss ratios", "target", "open events in an hour"] {
        assert!(told.contains(wanted), "{wanted}: {told}");
    }
    bench.write("mine.toml", bench.ok("trace synth --like a5.trace --print-model"));
    let told = bench.json("trace synth --model mine.toml --check=a5.trace --json -o again.trace");
    assert_eq!(told[0]["id"], "table-3");
    let [more, again] = ["more.trace", "again.trace"].map(|name| std::fs::read(bench.path(name)).unwrap());
    assert!(more == again, "the model that was printed makes what it made before");
}

/// Promise: what no model can be fitted to is refused with the reason, and so is a check without a
/// trace to check with.
#[test]
fn refused() {
    let bench = Bench::new();
    bench.fails("trace synth --like b5 -o x", 2, &["b5", "no such trace", "a5, e3, c4"]);
    bench.fails("trace synth --like a5 --check -o x", 2, &["--check=TRACE"]);
    bench.write(
        "disk.csv",
        "128166372003061629,hm,0,Read,383496192,32768,413\n128166372016382155,hm,0,Write,2822144,4096,4\n",
    );
    bench.fails("trace synth --like disk.csv -o x", 2, &["disk.csv: nothing is opened"]);
}
