//! A model of a machine's users, programs and files: data, read from a file.
//!
//! A model is a list of [`Class`]es of files, a list of [`Command`]s that users give, each a script
//! of [`Step`]s over such classes, and a list of [`Daemon`]s. Every part says in `source` where its
//! figures are from.

use super::spread::Spread;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A whole model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// What it is a model of.
    pub title: String,
    /// Where its figures are from, in general.
    pub source: String,
    /// Hours that a trace has if nobody says otherwise.
    pub hours: f64,
    /// Who is there.
    pub users: Users,
    /// How long things take.
    pub timing: Timing,
    /// Programs by name.
    pub program: BTreeMap<String, Program>,
    /// Classes of files by name.
    pub class: BTreeMap<String, Class>,
    /// What users do.
    pub command: Vec<Command>,
    /// What goes on without users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub daemon: Vec<Daemon>,
}

/// The users.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Users {
    /// Where the figures are from.
    pub source: String,
    /// How many there are.
    pub count: u32,
    /// How unequal they are: the user of rank r comes with a weight of `(r + 1) ^ -inequality`.
    pub inequality: f64,
    /// Users who come in an hour when most come.
    pub arrivals_per_hour: f64,
    /// How many of these come in each hour of the day, from midnight; the largest is 1.
    pub day: Vec<f64>,
    /// Seconds that a user stays.
    pub session: Spread,
    /// Seconds from the end of a command to the next one.
    pub think: Spread,
    /// Name of the command with which a session begins.
    pub login: Option<String>,
}

/// Times that a step may override, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// Where the figures are from.
    pub source: String,
    /// How long a run takes besides its transfer.
    pub hold: Spread,
    /// From one step, or repetition of a step, to the next.
    pub gap: Spread,
    /// Bytes that are transferred in a second.
    pub bytes_per_second: f64,
    /// From the opening of a file to the first change of the position: two calls of a program.
    #[serde(default = "call")]
    pub call: f64,
}

const fn call() -> f64 {
    0.01
}

/// A program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Bytes of its file.
    pub size: u64,
}

/// Files of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Where the figures are from.
    pub source: String,
    /// The directory in which they are; for files of users, below the user's own.
    pub path: String,
    /// Who has such files.
    pub of: Owner,
    /// How many there are at the beginning; of each user, if they are users' files. A temporary
    /// file is made when needed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub files: usize,
    /// How many there may be: if there are more, the one that was not used longest goes. As many as
    /// at the beginning, if nothing is said.
    pub most: Option<usize>,
    /// They are directories: opened and closed, and nothing else.
    #[serde(default, skip_serializing_if = "is_default")]
    pub directories: bool,
    /// Bytes.
    pub size: Spread,
    /// Which one is used next.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recency: Recency,
    /// Which one is removed next, if not as they are used.
    pub removal: Option<Recency>,
    /// Bytes of a record: where accesses by position begin. They are at any byte, if 0.
    #[serde(default, skip_serializing_if = "is_default")]
    pub record: u64,
    /// Which record is used next.
    #[serde(default, skip_serializing_if = "is_default")]
    pub records: Recency,
    /// Bytes above which what is appended cuts the file to nothing before.
    pub limit: Option<u64>,
}

/// Whose files they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    /// One population for all.
    System,
    /// A population for each user.
    User,
    /// A population for each running command, gone with it.
    Command,
}

/// Which of some things is used next: by a law, the one that was used `r` others ago has a weight
/// of `(r + offset) ^ -exponent`; or as it was measured, which also knows loops, where the one that
/// was used longest ago comes next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recency {
    /// How flat the beginning is.
    #[serde(skip_serializing_if = "is_one")]
    pub offset: f64,
    /// How steep the rest.
    #[serde(skip_serializing_if = "is_one")]
    pub exponent: f64,
    /// Instead of the law: how many others were used since the next one was, of those that were
    /// used at all.
    pub ranks: Option<Spread>,
    /// With it: how likely the next one is one that was never used; if there is none, the one that
    /// was not used longest.
    #[serde(skip_serializing_if = "is_default")]
    pub fresh: f64,
}

#[allow(clippy::trivially_copy_pass_by_ref, clippy::float_cmp)] // As `serde` wants it; what was not changed is exactly 1.
fn is_one(value: &f64) -> bool {
    *value == 1.0
}

impl Default for Recency {
    fn default() -> Self {
        Self { offset: 1.0, exponent: 1.0, ranks: None, fresh: 0.0 }
    }
}

impl Recency {
    fn check(&self) -> std::result::Result<(), String> {
        if self.offset <= 0.0 || !self.exponent.is_finite() {
            return Err("the offset of a recency must be above 0".into());
        }
        if !(0.0..=1.0).contains(&self.fresh) {
            return Err("fresh must be from 0 to 1".into());
        }
        self.ranks.as_ref().map_or(Ok(()), Spread::check)
    }
}

/// Something that a user does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// What it is called.
    pub name: String,
    /// How often it is given, in proportion to the others.
    #[serde(default)]
    pub weight: f64,
    /// The user goes on while it runs.
    #[serde(default)]
    pub background: bool,
    /// Account under which it runs, if not the user's.
    pub account: Option<u32>,
    /// What it does.
    pub steps: Vec<Step>,
}

/// Something that goes on without users.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Daemon {
    /// What it is called.
    pub name: String,
    /// Where the figures are from.
    pub source: String,
    /// Its account.
    pub account: u32,
    /// Seconds from one round to the next.
    pub every: Spread,
    /// How many there are, each with its own file of each class.
    #[serde(default = "one")]
    pub copies: u32,
    /// Rounds begin when they begin, whether others are over or not; otherwise each begins after
    /// the one before.
    #[serde(default, skip_serializing_if = "is_default")]
    pub background: bool,
    /// What it does in a round.
    pub steps: Vec<Step>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

const fn one() -> u32 {
    1
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Act {
    /// Loads a program.
    Exec,
    /// Reads a file from its beginning: wholly, or `bytes`.
    Read,
    /// Reads `bytes` at the beginning of a record, so many `runs`.
    Lookup,
    /// Writes `bytes` at the end.
    Append,
    /// Writes, or reads and writes, `bytes` at a record, so many `runs`.
    Update,
    /// Cuts a file to nothing and writes it anew: as many bytes as it had, give or take some, or
    /// `bytes`.
    Rewrite,
    /// Makes a file of `bytes`, or as large as its class has them. If the class is full, the one
    /// that was not used longest goes.
    Create,
    /// Removes a file; of a command's own, the last that was used.
    Remove,
    /// Cuts a file to `bytes`.
    Truncate,
    /// Gives a file another name.
    Rename,
    /// Makes a directory.
    Mkdir,
    /// Removes one.
    Rmdir,
    /// Does nothing with files.
    Pause,
}

/// How bytes are reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// At the file's position, which moves.
    #[default]
    Calls,
    /// At a position of their own.
    Positional,
    /// Through memory.
    Mapped,
}

/// A run of which the place is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    /// Where it begins.
    pub at: u64,
    /// Bytes, as far as the file has them.
    pub bytes: u64,
    /// It writes them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub writes: bool,
    /// How.
    #[serde(default, skip_serializing_if = "is_default")]
    pub way: Way,
    /// What part of the runs it is.
    pub share: f64,
}

/// A step of a script.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What it does.
    pub act: Act,
    /// To a file of this class, or with this program.
    #[serde(default)]
    pub on: String,
    /// How often in succession, each time with another file.
    pub times: Option<Spread>,
    /// How likely it is done at all.
    pub chance: Option<f64>,
    /// How likely it is done to a file of the class that the script has used before, instead of
    /// what `recency` says.
    #[serde(default, skip_serializing_if = "is_default")]
    pub again: f64,
    /// With every file of the class.
    #[serde(default, skip_serializing_if = "is_default")]
    pub all: bool,
    /// Opens for both reading and writing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub both: bool,
    /// Bytes of a run.
    pub bytes: Option<Spread>,
    /// Bytes of a run that reads, if not those, where the file is open for both.
    pub reading: Option<Spread>,
    /// Runs.
    pub runs: Option<Spread>,
    /// Share of the runs that write, where the file is open for both.
    #[serde(default, skip_serializing_if = "is_default")]
    pub writing: f64,
    /// Share of the writing runs that go to the end of the file.
    #[serde(default, skip_serializing_if = "is_default")]
    pub growing: f64,
    /// What some runs of `lookup` and `update` are; the others are as the rest says.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pieces: Vec<Piece>,
    /// How bytes are reached.
    #[serde(default, skip_serializing_if = "is_default")]
    pub way: Way,
    /// How often the file is made durable before it is closed.
    pub syncs: Option<Spread>,
    /// Seconds that each run takes.
    pub hold: Option<Spread>,
    /// Seconds before.
    pub gap: Option<Spread>,
}

impl Model {
    /// The models that come with the program, by name: the three machines of the 1985 paper.
    pub const BUILT_IN: [(&'static str, &'static str); 3] = [
        ("a5", include_str!("models/a5.toml")),
        ("e3", include_str!("models/e3.toml")),
        ("c4", include_str!("models/c4.toml")),
    ];

    /// Returns the text of the built-in model of that name.
    #[must_use]
    pub fn built_in(name: &str) -> Option<&'static str> {
        Self::BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// Returns the model as a file: what [`Model::parse`] reads.
    ///
    /// # Errors
    /// [`Error::Refused`] for a number that a file cannot hold.
    pub fn text(&self) -> Result<String> {
        toml::to_string(self).map_err(|e| Error::Refused(format!("model: {e}")))
    }

    /// Reads a model, and checks that it can be carried out.
    ///
    /// # Errors
    /// [`Error::Refused`], with what is wrong where.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let refused = |what: String| Error::Refused(format!("model {name}: {what}"));
        let model: Self = toml::from_str(text).map_err(|e| refused(e.to_string()))?;
        model.check().map_err(refused)?;
        Ok(model)
    }

    pub(super) fn check(&self) -> std::result::Result<(), String> {
        let users = &self.users;
        if users.count == 0
            || users.day.len() != 24
            || users.day.iter().any(|part| !(0.0..=1.0).contains(part))
        {
            return Err("there must be users, and 24 parts of a day from 0 to 1".into());
        }
        if !(users.arrivals_per_hour > 0.0 && users.day.contains(&1.0) && self.timing.bytes_per_second > 0.0)
        {
            return Err(
                "arrivals_per_hour and bytes_per_second must be above 0, and a part of the day 1".into()
            );
        }
        for (what, spread) in [
            ("session", &users.session),
            ("think", &users.think),
            ("hold", &self.timing.hold),
            ("gap", &self.timing.gap),
        ] {
            spread.check().map_err(|e| format!("{what}: {e}"))?;
        }
        for (name, class) in &self.class {
            class.size.check().map_err(|e| format!("class {name}: size: {e}"))?;
            if class.of != Owner::Command && class.files == 0 && class.most.is_none_or(|most| most == 0) {
                return Err(format!("class {name}: has no files"));
            }
            for recency in [&class.recency, &class.records].into_iter().chain(&class.removal) {
                recency.check().map_err(|e| format!("class {name}: {e}"))?;
            }
        }
        if let Some(login) = &users.login
            && !self.command.iter().any(|command| command.name == *login)
        {
            return Err(format!("users: login: there is no command {login}"));
        }
        if self.command.iter().map(|command| command.weight).sum::<f64>() <= 0.0 {
            return Err("the weights of the commands add up to nothing".into());
        }
        for daemon in &self.daemon {
            daemon.every.check().map_err(|e| format!("daemon {}: every: {e}", daemon.name))?;
        }
        let commands = self.command.iter().map(|command| (&command.name, &command.steps));
        let scripts = commands.chain(self.daemon.iter().map(|daemon| (&daemon.name, &daemon.steps)));
        for (name, steps) in scripts {
            for (n, step) in steps.iter().enumerate() {
                self.check_step(step).map_err(|e| format!("{name}: step {}: {e}", n + 1))?;
            }
        }
        Ok(())
    }

    fn check_step(&self, step: &Step) -> std::result::Result<(), String> {
        let known = match step.act {
            Act::Exec => self.program.contains_key(&step.on),
            Act::Pause | Act::Mkdir | Act::Rmdir => true,
            _ => self.class.contains_key(&step.on),
        };
        if !known {
            return Err(format!("there is no class or program {:?}", step.on));
        }
        let spreads =
            [&step.times, &step.bytes, &step.reading, &step.runs, &step.syncs, &step.hold, &step.gap];
        for spread in spreads.into_iter().flatten() {
            spread.check()?;
        }
        let shares: f64 = step.pieces.iter().map(|piece| piece.share).sum();
        if step.pieces.iter().any(|piece| !(0.0..=1.0).contains(&piece.share)) || shares > 1.001 {
            return Err("shares of pieces must be from 0 to 1, and 1 together at most".into());
        }
        if !(0.0..=1.0).contains(&step.again) {
            return Err("again must be from 0 to 1".into());
        }
        let enough = step.bytes.is_some() || !step.pieces.is_empty();
        if matches!(step.act, Act::Lookup | Act::Append | Act::Update) && !enough {
            return Err("how many bytes?".into());
        }
        Ok(())
    }
}
