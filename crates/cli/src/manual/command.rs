//! The page of one command, from the definition that its help comes from.

use super::roff::{Inline, Page};
use super::sections::{Part, Section, sections};
use super::{ManualPage, page_name, related, shown_commands};
use clap::builder::PossibleValue;
use clap::{Arg, ArgAction, Command};

/// Returns the page of the last command in `path`, which has the commands above it.
///
/// # Panics
/// If `path` is empty.
pub fn page(path: &[&Command], section: u8, date: &str) -> ManualPage {
    let (&command, above) = path.split_last().expect("the command itself");
    let name = page_name(command);
    let mut page = Page::new(name, section, date);
    page.section("NAME");
    page.text(&format!("{name} - {}", uncapitalised(&about(command))));
    page.section("SYNOPSIS");
    page.synopsis(invocation(command), &synopsis(command));
    page.section("DESCRIPTION");
    page.text(&description(command));
    arguments(&mut page, command);
    options(&mut page, command);
    commands(&mut page, command);

    let help = |command: &Command| command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let (own, inherited) = (help(command), above.iter().rev().map(|above| help(above)).collect::<Vec<_>>());
    let (last, first): (Vec<_>, Vec<_>) = sections(&own)
        .into_iter()
        .filter(|section| !section.is_exit_codes() && !section.is_examples())
        .partition(|section| section.title == "NOTES");
    for section in &first {
        write(&mut page, section.title, section);
    }
    exit_status(&mut page, &own, &inherited);
    files(&mut page, name);
    for section in &last {
        write(&mut page, section.title, section);
    }
    examples(&mut page, invocation(command), &own, &inherited);
    see_also(&mut page, name);
    ManualPage { name: name.to_owned(), section, source: page.finish() }
}

/// Returns what is typed to run a command: `spindle mfs add`.
fn invocation(command: &Command) -> &str {
    command.get_bin_name().unwrap_or_else(|| command.get_name())
}

/// Returns the line that says what a command does.
fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

/// Returns a sentence as it stands after a dash.
fn uncapitalised(sentence: &str) -> String {
    let mut chars = sentence.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

/// Returns what the help says about a command below its first line, or that line if there is no
/// more.
fn description(command: &Command) -> String {
    let about = about(command);
    let long = command.get_long_about().map(ToString::to_string).unwrap_or_default();
    let more = long.strip_prefix(&about).unwrap_or(&long).trim();
    let mut paragraphs = vec![if more.is_empty() { about + "." } else { more.to_owned() }];
    let names = command.get_visible_aliases();
    paragraphs.extend(names.map(|alias| format!("Another name of the command is \"{alias}\".")));
    paragraphs.join("\n\n")
}

/// Returns the options and arguments of a command as its synopsis shows them.
fn synopsis(command: &Command) -> Vec<Inline> {
    let is_everywhere =
        |arg: &Arg| arg.is_global_set() || matches!(arg.get_action(), ArgAction::Help | ArgAction::Version);
    let (plain, headed): (Vec<_>, Vec<_>) = shown_options(command)
        .filter(|arg| !is_everywhere(arg))
        .partition(|arg| arg.get_help_heading().is_none());
    let mut pieces = Vec::new();
    let letters: String =
        plain.iter().filter(|arg| !takes_values(arg)).filter_map(|arg| arg.get_short()).collect();
    if !letters.is_empty() {
        pieces.push(bracketed([Inline::bold(&format!("-{letters}"))]));
    }
    for option in plain.iter().filter(|arg| takes_values(arg) || arg.get_short().is_none()) {
        let flag = option.get_short().map_or_else(|| long(option), |letter| format!("-{letter}"));
        let term = [Inline::bold(&flag), values(option)];
        pieces.push(if option.is_required_set() { Inline::unbroken(term) } else { bracketed(term) });
    }
    for heading in headings(&headed) {
        let heading = format!("{} options", uncapitalised(heading));
        pieces.push(bracketed([Inline::italic(&heading)]));
    }
    for argument in shown_arguments(command) {
        let term = [argument_term(argument)];
        pieces.push(if argument.is_required_set() { Inline::unbroken(term) } else { bracketed(term) });
    }
    if shown_commands(command).next().is_some() {
        pieces.push(Inline::italic("COMMAND"));
        pieces.push(bracketed([Inline::italic("ARGUMENT"), Inline::roman("...")]));
    }
    pieces
}

fn bracketed(pieces: impl IntoIterator<Item = Inline>) -> Inline {
    let pieces = pieces.into_iter();
    Inline::unbroken([Inline::roman("[")].into_iter().chain(pieces).chain([Inline::roman("]")]))
}

fn shown_options(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_positional() && !arg.is_hide_set())
}

fn shown_arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_positionals().filter(|arg| !arg.is_hide_set())
}

/// Returns the headings of options, each once.
fn headings<'a>(options: &[&'a Arg]) -> Vec<&'a str> {
    let mut headings = Vec::new();
    for heading in options.iter().filter_map(|arg| arg.get_help_heading()) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    headings
}

fn takes_values(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

fn long(option: &Arg) -> String {
    option.get_long().map(|long| format!("--{long}")).unwrap_or_default()
}

/// Returns all ways to write an option, short ones first.
fn flags(option: &Arg) -> Vec<String> {
    let letters = option.get_short_and_visible_aliases().unwrap_or_default();
    let words = option.get_long_and_visible_aliases().unwrap_or_default();
    let letters = letters.into_iter().map(|letter| format!("-{letter}"));
    letters.chain(words.into_iter().map(|word| format!("--{word}"))).collect()
}

/// Returns the names of the values of an option, with what separates them from it.
fn values(option: &Arg) -> Inline {
    if !takes_values(option) {
        return Inline::default();
    }
    let is_optional = option.get_num_args().is_some_and(|number| number.min_values() == 0);
    let before = if option.is_require_equals_set() { "=" } else { " " };
    let (open, close) = if is_optional { ("[", "]") } else { ("", "") };
    let (open, names) = (format!("{open}{before}"), value_names(option));
    Inline::unbroken([Inline::roman(&open), Inline::italic(&names), Inline::roman(close)])
}

fn value_names(arg: &Arg) -> String {
    arg.get_value_names().unwrap_or_default().join(" ")
}

fn argument_term(argument: &Arg) -> Inline {
    let dashes = if argument.is_last_set() { "-- " } else { "" };
    let is_many = argument.get_num_args().is_some_and(|number| number.max_values() > 1);
    let more = if is_many { " ..." } else { "" };
    Inline::unbroken([Inline::roman(dashes), Inline::italic(&value_names(argument)), Inline::roman(more)])
}

fn arguments(page: &mut Page, command: &Command) {
    if shown_arguments(command).next().is_some() {
        page.section("ARGUMENTS");
    }
    for argument in shown_arguments(command) {
        entry(page, argument, &argument_term(argument));
    }
}

fn options(page: &mut Page, command: &Command) {
    let options: Vec<_> = shown_options(command).collect();
    if options.is_empty() {
        return;
    }
    page.section("OPTIONS");
    let mut list = |heading: Option<&str>| {
        if let Some(heading) = heading {
            page.subsection(heading);
        }
        for option in options.iter().filter(|option| option.get_help_heading() == heading) {
            let flags = flags(option);
            entry(page, option, &Inline::unbroken([Inline::bold(&flags.join(", ")), values(option)]));
        }
    };
    list(None);
    for heading in headings(&options) {
        list(Some(heading));
    }
}

/// Writes the entry of an option or an argument.
fn entry(page: &mut Page, arg: &Arg, term: &Inline) {
    let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let possible: Vec<PossibleValue> = if arg.is_hide_possible_values_set() || !takes_values(arg) {
        Vec::new()
    } else {
        arg.get_possible_values().into_iter().filter(|value| !value.is_hide_set()).collect()
    };
    let explained = possible.iter().any(|value| value.get_help().is_some());
    let mut said = vec![help];
    if takes_values(arg) && !arg.is_hide_default_value_set() && !arg.get_default_values().is_empty() {
        let values: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        said.push(format!("[default: {}]", values.join(" ")));
    }
    if !explained && !possible.is_empty() {
        let names: Vec<_> = possible.iter().map(PossibleValue::get_name).collect();
        said.push(format!("[possible values: {}]", names.join(", ")));
    }
    page.item(term, &said.join(" "));
    if explained {
        let meaning = |value: &PossibleValue| value.get_help().map(ToString::to_string).unwrap_or_default();
        page.inner_items(possible.iter().map(|value| (value.get_name(), meaning(value))));
    }
}

fn commands(page: &mut Page, command: &Command) {
    if shown_commands(command).next().is_some() {
        page.section("COMMANDS");
    }
    for below in shown_commands(command) {
        let term = Inline::unbroken([Inline::bold(page_name(below)), Inline::roman("(1)")]);
        page.item(&term, &about(below));
    }
}

/// Writes a section of the help.
fn write(page: &mut Page, title: &str, section: &Section) {
    page.section(title);
    let Some(parts) = section.parts() else { return page.verbatim(&section.lines) };
    for part in parts {
        match part {
            Part::Item(term, meaning) => page.item(&Inline::bold(&term), &meaning),
            Part::Text(text) => page.text(&text),
        }
    }
}

/// Writes the exit codes, or those of the next command above that has a table of them.
fn exit_status(page: &mut Page, own: &str, inherited: &[String]) {
    let of = |help| sections(help).into_iter().find(Section::is_exit_codes);
    if let Some(section) = of(own) {
        write(page, "EXIT STATUS", &section);
    } else if let Some(parts) = inherited.iter().find_map(|help| of(help)).and_then(|section| section.parts())
    {
        page.section("EXIT STATUS");
        for part in parts {
            // The words below the table are about other commands.
            if let Part::Item(code, meaning) = part {
                page.item(&Inline::bold(&code), &meaning);
            }
        }
    }
}

/// Writes the examples, or those of the commands above that show this one.
fn examples(page: &mut Page, invocation: &str, own: &str, inherited: &[String]) {
    let mut examples = lines_of_examples(own);
    if examples.is_empty() {
        let start = format!("{invocation} ");
        let shown = inherited.iter().flat_map(|help| lines_of_examples(help));
        examples = shown.filter(|line| line.starts_with(&start)).collect();
    }
    if !examples.is_empty() {
        page.section("EXAMPLES");
        page.verbatim(&examples);
    }
}

fn lines_of_examples(help: &str) -> Vec<&str> {
    sections(help).into_iter().filter(Section::is_examples).flat_map(|section| section.lines).collect()
}

fn files(page: &mut Page, name: &str) {
    let files = related::files(name);
    if !files.is_empty() {
        page.section("FILES");
    }
    for (path, meaning) in files {
        page.item(&Inline::italic(path), meaning);
    }
}

fn see_also(page: &mut Page, name: &str) {
    let others = related::see_also(name);
    if !others.is_empty() {
        page.section("SEE ALSO");
    }
    let references: Vec<_> = others
        .iter()
        .map(|other| {
            Inline::unbroken([Inline::bold(&other.name), Inline::roman(&format!("({})", other.section))])
        })
        .collect();
    page.enumeration(&references);
}
