//! The pages against the commands, and against a strict reader of manual pages.

use super::{ManualPage, page_name, pages, related, shown_commands};
use crate::commands::Cli;
use clap::{Arg, ArgAction, Command, CommandFactory};
use spindle_clock::Timestamp;
use std::collections::BTreeSet;
use std::io::Write;
use std::process::Stdio;

fn all() -> Vec<ManualPage> {
    pages(Timestamp::new(951_782_400, 0))
}

/// Returns a command and all below it, with those for packagers.
fn commands() -> Vec<Command> {
    fn collect(command: &Command, into: &mut Vec<Command>) {
        into.push(command.clone());
        for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
            collect(below, into);
        }
    }
    let mut cli = Cli::command();
    cli.build();
    let mut found = Vec::new();
    collect(&cli, &mut found);
    found
}

/// Runs mandoc on a page, and returns what it prints.
fn mandoc(page: &ManualPage, arguments: &[&str]) -> String {
    let mut command = std::process::Command::new("mandoc");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("mandoc is missing; scripts/setup installs it");
    let mut input = child.stdin.take().unwrap();
    let source = page.source.clone();
    let writer = std::thread::spawn(move || input.write_all(source.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Returns a page as a terminal of 80 columns shows it, without fonts.
fn shown(page: &ManualPage) -> String {
    let mut out = String::new();
    for c in mandoc(page, &["-T", "utf8", "-O", "width=80"]).chars() {
        match c {
            '\u{8}' => _ = out.pop(),
            c => out.push(c),
        }
    }
    out
}

/// Returns text with one blank between words.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Promise: every command and helper has a page and an entry in the table of related pages, and
/// what is referred to exists.
#[test]
fn related_pages_exist() {
    let pages = all();
    let names: BTreeSet<_> = pages.iter().map(|page| (page.name.clone(), page.section.to_string())).collect();
    assert_eq!(names.len(), pages.len(), "a page is there twice");
    assert!(names.len() > 40, "the commands are not walked");
    for page in &pages {
        let others = related::see_also(&page.name);
        assert!(
            others.iter().any(|other| other.name != "spindle"),
            "{}: add the command to SEE_ALSO in manual/related.rs",
            page.name
        );
        for other in others.into_iter().filter(|other| other.is_ours) {
            assert_ne!(other.name, page.name, "a page refers to itself");
            assert!(
                names.contains(&(other.name.clone(), other.section)),
                "{}: no page {}",
                page.name,
                other.name
            );
        }
    }
    for known in related::known_pages() {
        assert!(pages.iter().any(|page| page.name == known), "manual/related.rs: there is no page {known}");
    }
}

/// Promise: mandoc has nothing to say against any page.
#[test]
fn pages_are_sound() {
    let broken = ManualPage { name: "broken".into(), section: 1, source: ".SH\n.nonsense\n".into() };
    assert!(mandoc(&broken, &["-T", "lint"]).contains("missing"), "mandoc finds nothing at all");
    for page in all() {
        assert_eq!(mandoc(&page, &["-T", "lint"]), "", "{}", page.name);
    }
}

/// Promise: every command, option and argument says what it does, and only options stand below
/// headings of their own, the help never.
#[test]
fn everything_has_help() {
    for command in commands() {
        let name = page_name(&command);
        assert!(command.get_about().is_some_and(|about| !about.to_string().is_empty()), "{name}");
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            assert!(
                arg.get_help().is_some_and(|help| !help.to_string().is_empty()),
                "{name}: {}",
                arg.get_id()
            );
            let is_plain = arg.is_positional() || matches!(arg.get_action(), ArgAction::Help);
            assert!(!is_plain || arg.get_help_heading().is_none(), "{name}: {}", arg.get_id());
        }
    }
}

fn help_of(arg: &Arg) -> String {
    arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default()
}

/// Promise: a page says, in the same order and words, what the help of its command says; and
/// nothing is wider than a terminal of 80 columns.
#[test]
fn pages_say_what_the_help_says() {
    let pages = all();
    let mut cli = Cli::command();
    cli.build();
    let commands = commands();
    let more = |command: &Command| command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    for command in &commands {
        let name = page_name(command);
        let Some(page) = pages.iter().find(|page| page.name == name) else {
            assert!(command.is_hide_set(), "{name} has no page");
            continue;
        };
        let text = shown(page);
        let shown = words(&text);
        let wide = text.lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None, "{name}: wider than 80 columns");
        // The page has three dots, as the character is missing in some fonts.
        let dots = |wanted: &str| words(&wanted.replace('…', "..."));
        let says = |wanted: &str| assert!(shown.contains(&dots(wanted)), "{name}: {wanted}\n{text}");
        let about = command.get_about().unwrap().to_string();
        let long = command.get_long_about().map(ToString::to_string).unwrap_or_default();
        for paragraph in long.lines().filter(|paragraph| *paragraph != about) {
            says(paragraph);
        }
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            says(&help_of(arg));
            arg.get_short().into_iter().for_each(|letter| says(&format!("-{letter}")));
            arg.get_long().into_iter().for_each(|word| says(&format!("--{word}")));
            if arg.get_action().takes_values() {
                arg.get_value_names().unwrap_or_default().iter().for_each(|value| says(value));
            }
        }
        for below in shown_commands(command) {
            says(&format!("{}(1) {}", page_name(below), below.get_about().unwrap()));
        }
        for section in super::sections::sections(&more(command)) {
            says(&section.lines.join(" "));
        }
        assert!(text.contains("EXIT STATUS") && text.contains("SEE ALSO"), "{name}:\n{text}");
    }
}

/// Promise: the pages of the helpers have what their callers pass on, the exit codes, and lines of
/// /etc/fstab.
#[test]
fn helpers_have_pages() {
    let pages = all();
    for (name, wanted) in [
        (
            "mount.spindle",
            "mount.spindle [-fvsn] [-o OPTIONS] [-N NAMESPACE] [-t KIND] IMAGE DIR|32 could not be mounted|/etc/fstab",
        ),
        ("umount.spindle", "umount.spindle [-|32 the unmount failed"),
        ("mkfs.spindle", "mkfs.spindle [-N]|--block-size|2 invalid command line"),
        (
            "fsck.spindle",
            "fsck.spindle [-|-a, -p|4 problems remain|8 the file system could not be checked|/etc/fstab",
        ),
    ] {
        let page = pages.iter().find(|page| page.name == name).unwrap();
        assert_eq!(page.section, 8);
        let shown = words(&shown(page));
        for text in wanted.split('|') {
            assert!(shown.contains(text), "{name}: {text}\n{shown}");
        }
    }
}
