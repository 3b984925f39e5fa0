//! The rules.

use spindle_tidy::{files, is, output, text};
use std::collections::BTreeSet;

/// Which crates of ours each crate may depend on, outside its tests.
const ARROWS: &[(&str, &[&str])] = &[
    ("spindle-ondisk", &[]),
    ("spindle-clock", &[]),
    ("spindle-device", &["clock", "ondisk"]),
    ("spindle-cache", &["clock", "device"]),
    ("spindle-vfs", &["clock", "device"]),
    ("spindle-conformance", &["clock", "device", "vfs"]),
    ("spindle-tree", &["clock", "cache", "vfs"]),
    ("spindle-ffs", &["clock", "ondisk", "device", "cache", "vfs", "tree"]),
    ("spindle-mfs", &["clock", "ondisk", "device", "cache", "vfs", "tree"]),
    ("spindle-v7", &["clock", "ondisk", "device", "cache", "vfs", "tree"]),
    ("spindle-dump", &["clock", "ondisk", "vfs", "tree", "ffs"]),
    ("spindle-fuse-uring", &["clock", "device"]),
    ("spindle-fuse", &["clock", "device", "fuse-uring", "vfs"]),
    ("spindle-sim", &["clock", "device"]),
    ("spindle-report", &[]),
    ("spindle-trace", &["clock", "vfs"]),
    ("spindle-cachesim", &["clock", "cache", "report", "trace"]),
    ("spindle-analyze", &["cachesim", "report", "trace"]),
    ("spindle-synth", &["analyze", "cachesim", "clock", "report", "trace"]),
    ("spindle-record", &["clock", "trace"]),
    (
        "spindle-lab",
        &[
            "spindle", "clock", "ondisk", "device", "cache", "vfs", "ffs", "mfs", "v7", "sim", "report",
            "trace", "analyze", "cachesim", "synth",
        ],
    ),
    ("spindle", &["clock", "device", "cache", "vfs", "tree", "ffs", "mfs", "v7", "dump"]),
    (
        "spindle-cli",
        &[
            "spindle", "clock", "ondisk", "device", "cache", "vfs", "ffs", "v7", "fuse", "lab", "report",
            "trace", "analyze", "cachesim", "synth", "record",
        ],
    ),
    ("spindle-python", &["spindle", "clock", "ondisk", "device", "vfs", "tree", "ffs", "v7", "fuse"]),
    ("spindle-tidy", &[]),
];

/// Crates that only test, and that the picture leaves out.
const NOT_DRAWN: &[&str] = &["conformance", "tidy"];

/// Crates that only test, and may use whatever they test.
const TESTERS: &[&str] =
    &["spindle-interop", "spindle-torture", "spindle-fuzz", "spindle-bench", "spindle-samples"];

/// Returns the lines of the picture in `docs/ARCHITECTURE.md`: the crates in each, from above.
fn picture() -> Vec<Vec<String>> {
    let document = text("docs/ARCHITECTURE.md");
    let lines = document.split("```").nth(1).expect("the picture").lines();
    let crates = lines.filter_map(|line| line.split("  ").next()).filter(|crates| !crates.is_empty());
    crates.map(|crates| crates.split(", ").map(ToOwned::to_owned).collect()).collect()
}

/// Promise: crates depend downwards only, as `docs/ARCHITECTURE.md` draws it.
#[test]
fn arrows_point_down() {
    let picture = picture();
    let line_of = |name: &str| picture.iter().position(|line| line.iter().any(|drawn| drawn == name));
    let metadata = output("cargo", &["metadata", "--format-version=1", "--no-deps", "--offline"]);
    let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    let mut seen = 0;
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        if TESTERS.contains(&name) {
            continue;
        }
        let (_, allowed) = ARROWS.iter().find(|(known, _)| *known == name).unwrap_or_else(|| {
            panic!("{name} is not in the picture: enter it here and in docs/ARCHITECTURE.md")
        });
        seen += 1;
        let short = name.strip_prefix("spindle-").unwrap_or(name);
        let line = line_of(short);
        assert!(line.is_some() || NOT_DRAWN.contains(&short), "{name} is not in docs/ARCHITECTURE.md");
        for dependency in package["dependencies"].as_array().unwrap() {
            let other = dependency["name"].as_str().unwrap();
            let ours = other.strip_prefix("spindle-").unwrap_or(other);
            let is_ours = ours != other || other == "spindle";
            if !is_ours || dependency["kind"] == "dev" {
                continue;
            }
            assert!(allowed.contains(&ours), "{name} must not depend on {other}");
            assert!(line_of(ours) > line, "{name} uses {other}, which is not below it in the picture");
        }
    }
    assert_eq!(seen, ARROWS.len(), "a crate of the picture is missing");
}

/// The folders of a file system, from below, and which of the others each may name.
const FOLDERS: &[(&str, &[&str])] = &[
    ("format", &["format"]),
    ("log", &["format", "log"]),
    ("set", &["format", "log", "set"]),
    ("quota", &["format", "quota"]),
    ("volume", &["format", "log", "quota", "volume"]),
    ("tree", &["format", "log", "set", "quota", "volume", "tree"]),
    ("newfs", &["format", "newfs"]),
    ("check", &["format", "log", "set", "quota", "check"]),
    ("tunefs", &["format", "log", "newfs", "tunefs"]),
    ("repair", &["format", "log", "quota", "volume", "tree", "check", "repair"]),
    ("growfs", &["format", "log", "newfs", "tree", "check", "repair", "growfs"]),
    ("inspect", &["format", "log", "check", "repair", "inspect"]),
];

/// Promise: inside a file system a folder names only those below it, so that it can be read and
/// tested without those above.
#[test]
fn folders_look_down() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for krate in ["crates/ffs/src/", "crates/mfs/src/", "crates/v7/src/"] {
        for file in files().iter().filter(|file| is(file, "rs")) {
            let Some(path) = file.strip_prefix(krate) else { continue };
            let folder = path.split('/').next().unwrap_or("");
            let Some((_, allowed)) = FOLDERS.iter().find(|(name, _)| *name == folder) else { continue };
            seen += 1;
            let code = code(file);
            let code = code.split("#[cfg(test)]").next().unwrap_or("");
            for named in code.split("crate::").skip(1) {
                let named = named.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
                let is_folder = FOLDERS.iter().any(|(name, _)| *name == named);
                if !is_folder || !allowed.contains(&named) {
                    wrong.push(format!("{file}: crate::{named}"));
                }
            }
        }
    }
    assert!(seen > 80, "the folders are not read");
    assert!(wrong.is_empty(), "these look up:\n{}", wrong.join("\n"));
}

/// A name that only some places may use, and why.
struct Reserved {
    names: &'static [&'static str],
    allowed: &'static [&'static str],
    reason: &'static str,
}

const RESERVED: &[Reserved] = &[
    Reserved {
        names: &["SystemTime::now", "std::time::Instant", "thread::sleep", "Instant::now"],
        allowed: &["crates/clock/"],
        reason: "time is asked of the Clock",
    },
    Reserved {
        names: &["std::sync::Mutex", "std::sync::RwLock", "std::sync::Condvar", "parking_lot"],
        allowed: &["crates/clock/", "crates/sim/src/scheduler"],
        reason: "locks are those of spindle-clock; the scheduler stands behind them",
    },
    Reserved {
        names: &["todo!(", "unimplemented!(", "dbg!(", "#[ignore", "FIXME", "XXX"],
        allowed: &[],
        reason: "what is not done is named in the README's status table",
    },
];

/// Returns the files that test or measure from outside: they may wait and take times.
fn is_test(file: &str) -> bool {
    let outside =
        ["/tests/", "/benches/", "crates/interop/", "crates/torture/", "crates/bench/", "crates/tidy/"];
    outside.iter().any(|part| file.contains(part)) || file.ends_with("tests.rs")
}

/// Returns a Rust file without its comments: what they say is not used.
fn code(file: &str) -> String {
    text(file).lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// Promise: time, locks and placeholders appear only where they are allowed.
#[test]
fn reserved_names() {
    let mut wrong = Vec::new();
    for file in files().iter().filter(|f| is(f, "rs") && !is_test(f)) {
        let code = code(file);
        for rule in RESERVED.iter().filter(|rule| !rule.allowed.iter().any(|dir| file.starts_with(dir))) {
            for name in rule.names.iter().filter(|name| code.contains(**name)) {
                wrong.push(format!("{file}: {name}: {}", rule.reason));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Promise: `unsafe` stands only beside its reason.
#[test]
fn unsafe_has_a_reason() {
    let mut wrong = Vec::new();
    for file in files().iter().filter(|f| is(f, "rs") && !is_test(f)) {
        let text = text(file);
        let lines: Vec<_> = text.lines().collect();
        for (n, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            let is_unsafe = code.contains("unsafe {") || code.contains("unsafe impl");
            let explained = lines[n.saturating_sub(8)..=n].iter().any(|near| near.contains("SAFETY:"));
            if is_unsafe && !explained {
                wrong.push(format!("{file}:{}", n + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "unsafe without SAFETY: {}", wrong.join(", "));
}

/// Promise: every file has a user: a Rust file is a module of another or a target of cargo, every
/// other file is named by one that is used, or is one of all of its kind in a directory that is.
#[test]
fn every_file_is_used() {
    let files = files();
    let all: BTreeSet<_> = files.iter().map(String::as_str).collect();
    let known = [
        "README.md",
        "Cargo.toml",
        "Cargo.lock",
        "LICENSE",
        "CHANGELOG.md",
        "Makefile",
        ".gitignore",
        ".ci/run",
    ];
    let by_name = ["rustfmt.toml", "deny.toml"];
    let mut unused = Vec::new();
    for file in &files {
        let name = file.rsplit('/').next().unwrap_or(file);
        let is_target = name == "lib.rs" || name == "main.rs" || name == "build.rs" || name == "Cargo.toml";
        let in_tests =
            file.split('/').rev().nth(1).is_some_and(|dir| matches!(dir, "tests" | "benches" | "bin"));
        if known.contains(&file.as_str()) || by_name.contains(&name) || is_target {
            continue;
        }
        let used = if is(file, "rs") {
            in_tests || declared_as_module(file, &all)
        } else {
            let (dir, extension) = (file.rsplit_once('/').map(|(dir, _)| dir), name.rsplit_once('.'));
            let among = |text: &str| match (dir, extension) {
                (Some(dir), Some((_, kind))) => text.contains(dir) && text.contains(&format!("/*.{kind}")),
                _ => false,
            };
            files
                .iter()
                .filter(|other| *other != file)
                .map(|other| text(other))
                .any(|t| t.contains(name) || among(&t))
        };
        if !used {
            unused.push(file.as_str());
        }
    }
    assert!(unused.is_empty(), "nobody uses {}", unused.join(", "));
}

/// Returns true if another file of the same crate has a `mod` line for this one.
fn declared_as_module(file: &str, all: &BTreeSet<&str>) -> bool {
    let parts: Vec<_> = file.split('/').collect();
    let krate = format!("{}/{}/", parts[0], parts[1]);
    let module = match parts[parts.len() - 1] {
        "mod.rs" => parts[parts.len() - 2],
        name => name.trim_end_matches(".rs"),
    };
    let line = format!("mod {module};");
    all.iter()
        .filter(|other| other.starts_with(&krate) && **other != file)
        .any(|other| text(other).contains(&line))
}

/// Promise: every document is reachable from the README, and every link between documents leads
/// somewhere.
#[test]
fn documents_are_linked() {
    let documents: Vec<_> = files().into_iter().filter(|f| is(f, "md")).collect();
    let readme = text("README.md");
    let mut wrong = Vec::new();
    for document in &documents {
        if document.starts_with("docs/") && !readme.contains(document.as_str()) {
            wrong.push(format!("the README does not name {document}"));
        }
        let dir = document.rsplit_once('/').map_or("", |(dir, _)| dir);
        for link in text(document).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap_or("");
            let is_local = !path.is_empty() && !path.contains("://");
            if is_local && !spindle_tidy::root().join(dir).join(path).exists() {
                wrong.push(format!("{document}: {link} leads nowhere"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Promise: each sentence of `docs/SECURITY.md` names a test that exists.
#[test]
fn security_is_tested() {
    let document = text("docs/SECURITY.md");
    let mut rows = 0;
    let mut wrong = Vec::new();
    for row in document.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| sentence")) {
        rows += 1;
        let named = row.trim_end_matches(" |").rsplit_once(" | ").map_or("", |(_, test)| test);
        let test = named.split('`').collect::<Vec<_>>();
        let [_, file, _, name, _] = test[..] else {
            wrong.push(format!("no test: {row}"));
            continue;
        };
        let code = text(file);
        // The tests of a program that is its own harness stand in a table.
        let is_test = |before: &str| before.trim_end().ends_with("#[test]");
        let declared = code.split_once(&format!("fn {name}()"));
        if !declared
            .is_some_and(|(before, _)| is_test(before) || code.contains(&format!("(\"{name}\", {name})")))
        {
            wrong.push(format!("{file} has no test {name}"));
        }
    }
    assert!(rows > 20, "the tables are not read");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Promise: each planted bug applies to the code as it is. One that does not, or only somewhere
/// else, shows nothing in `make torture-selftest`.
#[test]
fn planted_bugs_apply() {
    let patches: Vec<_> = files().into_iter().filter(|file| is(file, "patch")).collect();
    assert!(patches.len() > 100, "the patches are not read");
    let applies = |patch: &String| {
        let mut check = std::process::Command::new("git");
        check.args(["-c", "safe.directory=*", "apply", "--check", patch]).current_dir(spindle_tidy::root());
        check.output().is_ok_and(|out| out.status.success())
    };
    let stale: Vec<_> = patches.into_iter().filter(|patch| !applies(patch)).collect();
    assert!(stale.is_empty(), "do not apply any more: {}", stale.join(", "));
}
