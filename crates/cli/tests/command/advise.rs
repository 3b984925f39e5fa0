//! `spindle advise`.

use crate::support::Bench;

/// Promise: the commands of the answer make and tune the file system that it says; the answer
/// begins with them, and the report with the answer.
#[test]
fn commands_work() {
    let bench = Bench::new();
    bench.ok("trace synth --like a5 --events 2000 -o a5.trace");
    let json = bench.json("advise --json --only-ufs a5.trace");
    let ranked = &json["ranked"];
    let commands = ["newfs", "tunefs"].map(|what| ranked["commands"][what].as_str().unwrap().to_owned());
    for command in &commands {
        bench.ok(&command.replace("spindle ", "").replace("IMAGE", "made.img"));
    }
    let layout = &ranked["advised"]["candidate"]["layout"]["ufs"];
    let settings = bench.json("info --json made.img");
    let made = settings.to_string();
    for field in ["block_bytes", "fragment_bytes"] {
        assert!(made.contains(&layout[field].to_string()), "{field} of {layout}: {made}");
    }
    assert!(ranked["commands"]["mount"].as_str().unwrap().starts_with("spindle mount "), "{ranked}");
    let text = bench.ok("advise --only-ufs a5.trace");
    assert!(text.starts_with("Advice\n") && text.contains(&commands[0]), "{text}");
    let report = bench.ok("trace report a5.trace");
    assert!(report.starts_with("Advice\n") && report.contains("Table III"), "{report}");
}

/// Promise: every set of members that can be advised is made by its command.
#[test]
fn sets_are_made() {
    use spindle_lab::advice::{Apart, Candidate, Layout};
    for apart in [Apart::Nothing, Apart::Log, Apart::Control] {
        let bench = Bench::new();
        let layout = Layout::Mfs { block_bytes: 4096, apart };
        let command = Candidate { layout, ..Candidate::usual(1 << 30) }.commands(256 << 20).newfs;
        let command =
            command.replace("spindle ", "").replace("IMAGE", "one.img").replace("SECOND", "two.img");
        bench.ok(&command);
        bench.ok("fsck -n one.img");
    }
}

/// Promise: a trace that is too small gets that answer, which is no failure; what cannot be
/// simulated is named.
#[test]
fn refusals() {
    let bench = Bench::new();
    bench.ok("trace synth --like a5 --events 500 -o small.trace");
    let text = bench.ok("advise small.trace");
    assert!(text.contains("too small: it has 500 events"), "{text}");
    assert!(bench.json("advise --json small.trace")["too_small"].is_string());
    bench.fails("advise none.trace", 1, &["none.trace"]);
    bench.fails("advise -", 2, &["name a file"]);
    bench.fails("advise --disk none small.trace", 1, &["small.trace", "none", "nvme"]);
    bench.fails("advise --events 10 small.trace", 2, &["at least 1000"]);
}
