//! The help, the manual pages and the completions.

use crate::support::Bench;
use std::collections::BTreeSet;

/// Promise: the help lists the commands and has examples; an unknown command or option is refused
/// with its name.
#[test]
fn help() {
    let bench = Bench::new();
    let help = bench.ok("--help");
    assert!(help.contains("newfs") && help.contains("EXAMPLES"), "{help}");
    assert!(!help.contains("  man ") && !help.contains("  completions "), "{help}");
    bench.fails("nonsense", 2, &["nonsense"]);
    bench.fails("--nonsense", 2, &["--nonsense"]);
}

/// Promise: there is a manual page for every command that the help lists, and "help COMMAND" and
/// "COMMAND --help" print the same for each.
#[test]
fn manual_pages_and_help() {
    let bench = Bench::new();
    bench.ok("man pages");
    let pages = bench.shell("cd pages; ls");
    let pages: BTreeSet<_> = pages.lines().collect();
    assert!(pages.contains("spindle.1") && pages.contains("mount.spindle.8"), "{pages:?}");
    let mut todo = vec![String::new()];
    let mut seen = 1;
    while let Some(command) = todo.pop() {
        let help = bench.ok(&format!("{command} --help"));
        assert_eq!(bench.ok(&format!("help {command}")), help, "{command}");
        let Some((_, below)) = help.split_once("\nCommands:\n") else { continue };
        let below = below.lines().take_while(|line| line.starts_with(' '));
        for name in below.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
            let command = format!("{command} {name}");
            let page = format!("spindle{}.1", command.replace(' ', "-"));
            assert!(pages.contains(page.as_str()), "no {page}");
            todo.push(command);
            seen += 1;
        }
    }
    assert_eq!(seen, pages.iter().filter(|page| page.ends_with(".1")).count(), "{pages:?}");
    assert!(seen > 35, "the commands are not listed");
}

/// Promise: manual pages show the day of `SOURCE_DATE_EPOCH`, so that packages are the same
/// every time.
#[test]
fn pages_have_the_day_of_the_package() {
    let bench = Bench::new();
    let program = env!("CARGO_BIN_EXE_spindle");
    bench.shell(&format!("SOURCE_DATE_EPOCH=951782400 {program} man pages"));
    let page = std::fs::read_to_string(bench.path("pages/spindle-mfs-add.1")).unwrap();
    assert!(page.contains("\n.TH SPINDLE\\-MFS\\-ADD 1 2000-02-29 \"Spindle "), "{page}");
    bench.shell(&format!(
        "! SOURCE_DATE_EPOCH=today {program} man wrong 2>error; grep 'SOURCE_DATE_EPOCH: today' error; test ! -e wrong"
    ));
}

/// Promise: each shell accepts its completions, and completes commands, options and files with
/// them.
#[test]
fn completions() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish"] {
        bench.write(shell, bench.ok(&format!("completions {shell}")));
        assert_eq!(bench.shell(&format!("{shell} -n {shell} 2>&1")), "", "{shell}");
    }
    bench.shell("echo 'if true' >wrong; for shell in bash zsh fish; do ! $shell -n wrong 2>/dev/null; done");
    bench.write("disk.img", "");

    let bash = |typed: &str| {
        let (words, last) = (typed.split(' ').count() - 1, typed.rsplit(' ').next().unwrap());
        bench.shell(&format!(
            "bash -c '. ./bash; COMP_WORDS=({typed}); COMP_CWORD={words}; _spindle spindle \"{last}\" x; echo ${{COMPREPLY[@]}}'"
        ))
    };
    assert_eq!(bash("spindle newf"), "newfs\n");
    assert_eq!(bash("spindle mfs sc"), "scrub\n");
    assert_eq!(bash("spindle newfs --block"), "--block-size --blocks-per-group\n");
    // With nothing to say, bash completes names of files.
    assert_eq!(bash("spindle info disk"), "\n");
    assert!(bench.shell("cat bash").contains("-o default"));

    let zsh = bench.shell("cat zsh");
    assert!(zsh.starts_with("#compdef spindle\n") && zsh.contains(":_files") && zsh.contains(":_default"));

    let fish = |typed: &str| bench.shell(&format!("HOME=$PWD fish -c '. ./fish; complete -C \"{typed}\"'"));
    assert!(fish("spindle newf").starts_with("newfs\t"));
    assert!(fish("spindle newfs --block").contains("--block-size\t"));
    assert!(fish("spindle info disk").contains("disk.img"));
}
