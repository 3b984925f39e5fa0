//! The options `-0` to `-9`.

use clap::builder::ArgAction;
use clap::{Arg, ArgMatches, Command, Error, FromArgMatches};

/// The names of the options, in the order of their levels.
const NAMES: [&str; 10] = [
    "level-0", "level-1", "level-2", "level-3", "level-4", "level-5", "level-6", "level-7", "level-8",
    "level-9",
];

/// The level of a dump.
#[derive(Debug)]
pub struct Level(i32);

impl Level {
    /// Returns the number.
    pub const fn number(&self) -> i32 {
        self.0
    }
}

impl clap::Args for Level {
    fn augment_args(command: Command) -> Command {
        NAMES.into_iter().zip('0'..='9').fold(command, |command, (name, digit)| {
            let help = match digit {
                '0' => "Dump everything (the default)",
                '1' => "Dump what has changed since the last dump of a lower level; -2 to -9 do the same",
                _ => "Dump what has changed since the last dump of a lower level",
            };
            let others = NAMES.into_iter().filter(|other| *other != name);
            let arg = Arg::new(name).short(digit).action(ArgAction::SetTrue).help(help).display_order(0);
            command.arg(arg.overrides_with_all(others).hide(digit > '1'))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Level {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = (0..).zip(NAMES).find(|(_, name)| matches.get_flag(name));
        Ok(Self(given.map_or(0, |(number, _)| number)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
