//! The manual pages: one for each command, in section 1, and one for each helper of mount(8),
//! umount(8), mkfs(8) and fsck(8), in section 8.
//!
//! Everything in them comes from the definitions of the commands, as their help does, except the
//! sections FILES and SEE ALSO, which are in [`related`].

mod command;
mod helpers;
mod related;
mod roff;
mod sections;
#[cfg(test)]
mod tests;

use crate::commands::Cli;
use clap::{Command, CommandFactory};
use spindle_clock::Timestamp;

/// A manual page.
#[derive(Debug)]
pub struct ManualPage {
    /// Name, such as `spindle-newfs`.
    pub name: String,
    /// Section of the manual.
    pub section: u8,
    /// Source in the macros of man(7).
    pub source: String,
}

/// Returns all pages. `date` is shown below each.
pub fn pages(date: Timestamp) -> Vec<ManualPage> {
    let date = crate::date::day(date);
    let mut cli = Cli::command();
    cli.build();
    let mut pages = Vec::new();
    add_commands(&mut pages, &[&cli], &date);
    let helpers = helpers::commands(&cli);
    pages.extend(helpers.iter().map(|helper| command::page(&[helper], 8, &date)));
    pages
}

/// Adds the pages of the last command in `path`, and of the commands below it.
fn add_commands(pages: &mut Vec<ManualPage>, path: &[&Command], date: &str) {
    pages.push(command::page(path, 1, date));
    for below in path.last().into_iter().flat_map(|command| shown_commands(command)) {
        add_commands(pages, &[path, &[below]].concat(), date);
    }
}

/// Returns the commands below a command, except `help` and those for packagers.
fn shown_commands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
}

/// Returns the name of the page of a command.
fn page_name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}
