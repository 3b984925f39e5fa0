//! A model of a machine's users, programs and files, read from a TOML file.
//!
//! A model is a list of [`Class`]es of files, a list of [`Command`]s that users start, each a
//! script of [`Step`]s over such classes, and a list of [`Daemon`]s. Every part names the source of
//! its figures in `source`.

use super::distribution::Distribution;
use serde::{Deserialize, Serialize};
use spindle_trace::{Error, Kind, Result};
use std::collections::BTreeMap;

/// A whole model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The machine that is modelled.
    pub title: String,
    /// Source of most figures.
    pub source: String,
    /// Length of a trace in hours if none is given.
    pub hours: f64,
    /// The users.
    pub users: Users,
    /// Durations.
    pub timing: Timing,
    /// Programs by name.
    pub program: BTreeMap<String, Program>,
    /// Classes of files by name.
    pub class: BTreeMap<String, Class>,
    /// Commands that users start.
    pub command: Vec<Command>,
    /// Programs that run without users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub daemon: Vec<Daemon>,
}

/// The users.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Users {
    /// Source of the figures.
    pub source: String,
    /// Number of users.
    pub count: u32,
    /// Inequality of users: the user of rank r logs in with a weight of `(r + 1) ^ -inequality`.
    pub inequality: f64,
    /// Logins per hour at the busiest time.
    pub arrivals_per_hour: f64,
    /// Share of these logins in each hour of the day, from midnight; the largest is 1.
    pub day: Vec<f64>,
    /// Length of a session in seconds.
    pub session: Distribution,
    /// Seconds from the end of a command to the next one.
    pub think: Distribution,
    /// Name of the command with which a session begins.
    pub login: Option<String>,
}

/// Default times of steps, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// Source of the figures.
    pub source: String,
    /// Time of a run without its transfer.
    pub hold: Distribution,
    /// Time from one step, or repetition of a step, to the next.
    pub gap: Distribution,
    /// Transfer rate in bytes per second.
    pub bytes_per_second: f64,
    /// Time from opening a file to the first change of its position.
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
    /// Size of its file in bytes.
    pub size: u64,
}

/// Files of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Source of the figures.
    pub source: String,
    /// The directory of the files; for files of users, relative to the user's own.
    pub path: String,
    /// Owner of the files.
    pub of: Owner,
    /// Number of files at the beginning, per user if users own them. Files of commands are created
    /// when needed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub files: usize,
    /// Maximum number of files; a file beyond it replaces the least recently used one. The default
    /// is the number at the beginning.
    pub most: Option<usize>,
    /// The files are directories, which are only opened and closed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub directories: bool,
    /// Size of a file in bytes.
    pub size: Distribution,
    /// Order in which files are used.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recency: Recency,
    /// Order in which files are removed, if not that of `recency`.
    pub removal: Option<Recency>,
    /// Size of a record in bytes; accesses by position begin at a multiple of it, or anywhere if 0.
    #[serde(default, skip_serializing_if = "is_default")]
    pub record: u64,
    /// Order in which records are used.
    #[serde(default, skip_serializing_if = "is_default")]
    pub records: Recency,
    /// Size in bytes above which the file is truncated to 0 before an append.
    pub limit: Option<u64>,
}

/// Owner of the files of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    /// One set of files for the whole system.
    System,
    /// One set of files for each user.
    User,
    /// One set of files for each running command, removed when it ends.
    Command,
}

/// The choice of the next item. Either a law: the item with `r` others used since has a weight of
/// `(r + offset) ^ -exponent`. Or measured ranks, which also describe loops, in which the least
/// recently used item comes next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recency {
    /// Offset of the law: flattens its beginning.
    #[serde(skip_serializing_if = "is_one")]
    pub offset: f64,
    /// Exponent of the law.
    #[serde(skip_serializing_if = "is_one")]
    pub exponent: f64,
    /// Instead of the law: the number of other items used since the next one was, among items that
    /// were used before.
    pub ranks: Option<Distribution>,
    /// With `ranks`: probability that the next item is one that was never used; if there is none,
    /// the least recently used one is taken.
    #[serde(skip_serializing_if = "is_default")]
    pub fresh: f64,
}

#[allow(clippy::trivially_copy_pass_by_ref, clippy::float_cmp)] // The signature is serde's; an unset value is exactly 1.
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
        self.ranks.as_ref().map_or(Ok(()), Distribution::check)
    }
}

/// A command that users start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// Name of the program.
    pub name: String,
    /// Weight of the command among all commands.
    #[serde(default)]
    pub weight: f64,
    /// The user continues while it runs.
    #[serde(default)]
    pub background: bool,
    /// Account under which it runs, if not the user's.
    pub account: Option<u32>,
    /// Its steps.
    pub steps: Vec<Step>,
}

/// A program that runs without users.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Daemon {
    /// Name of the program.
    pub name: String,
    /// Source of the figures.
    pub source: String,
    /// Its account.
    pub account: u32,
    /// Seconds from one round to the next.
    pub every: Distribution,
    /// Number of copies, each with its own file of each class.
    #[serde(default = "one")]
    pub copies: u32,
    /// Rounds begin independently of earlier ones; otherwise each begins after the one before.
    #[serde(default, skip_serializing_if = "is_default")]
    pub background: bool,
    /// Steps of a round.
    pub steps: Vec<Step>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

const fn one() -> u32 {
    1
}

/// The operation of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Loads a program.
    Exec,
    /// Reads a file from its beginning: all of it, or `bytes`.
    Read,
    /// Reads `bytes` at the beginning of a record, `runs` times.
    Lookup,
    /// Writes `bytes` at the end.
    Append,
    /// Writes, or reads and writes, `bytes` at a record, `runs` times.
    Update,
    /// Truncates a file to 0 and writes it again: `bytes`, or about its old size.
    Rewrite,
    /// Creates a file of `bytes`, or of a size drawn from its class. If the class is full, the
    /// least recently used file is removed.
    Create,
    /// Removes a file; of a command's own files, the most recently used one.
    Remove,
    /// Truncates a file to `bytes`.
    Truncate,
    /// Renames a file.
    Rename,
    /// Creates a directory.
    Mkdir,
    /// Removes a directory.
    Rmdir,
    /// Asks for the attributes of a file.
    Stat,
    /// Asks for the permission to use a file.
    Access,
    /// Reads the target of a symbolic link.
    Readlink,
    /// Reads the entries of a directory.
    List,
    /// Makes a directory the working directory.
    Chdir,
    /// Changes the permissions of a file.
    Chmod,
    /// Changes the owner of a file.
    Chown,
    /// Sets the times of a file.
    Utime,
    /// Only waits.
    Pause,
}

impl Operation {
    /// The operations that are one call on a name, which opens nothing and leaves the order in
    /// which files are used as it is. (Links are not modelled.)
    const CONTROL_CALLS: [(Self, Kind); 8] = [
        (Self::Stat, Kind::Stat),
        (Self::Access, Kind::Access),
        (Self::Readlink, Kind::Readlink),
        (Self::List, Kind::List),
        (Self::Chdir, Kind::Chdir),
        (Self::Chmod, Kind::Chmod),
        (Self::Chown, Kind::Chown),
        (Self::Utime, Kind::Utime),
    ];

    /// Returns the kind of event of a control call; none for other operations.
    #[must_use]
    pub fn control_call(self) -> Option<Kind> {
        Self::CONTROL_CALLS.iter().find(|(act, _)| *act == self).map(|(_, kind)| *kind)
    }

    /// Returns the operation that is a control call of this kind.
    #[must_use]
    pub fn of_control_call(kind: Kind) -> Option<Self> {
        Self::CONTROL_CALLS.iter().find(|(_, call)| *call == kind).map(|(act, _)| *act)
    }

    /// Returns true if calls of this kind that fail are recorded.
    #[must_use]
    pub const fn may_fail(self) -> bool {
        matches!(self, Self::Stat | Self::Access | Self::Readlink)
    }
}

/// Access method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessMethod {
    /// By calls at the file's position, which moves.
    #[default]
    Calls,
    /// By calls with a position of their own (`pread`, `pwrite`).
    Positional,
    /// Through a memory mapping.
    Mapped,
}

/// A run at a fixed position.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedRun {
    /// Position of its first byte.
    pub at: u64,
    /// Number of bytes, as far as the file has them.
    pub bytes: u64,
    /// Set if it writes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub writes: bool,
    /// Access method.
    #[serde(default, skip_serializing_if = "is_default")]
    pub way: AccessMethod,
    /// Its share of the runs of the step.
    pub share: f64,
}

/// A step of a script.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The operation.
    pub act: Operation,
    /// The class of its file, or the program.
    #[serde(default)]
    pub on: String,
    /// Number of repetitions, each with another file.
    pub times: Option<Distribution>,
    /// Probability that the step is done at all.
    pub chance: Option<f64>,
    /// Probability that it uses a file of the class that the script has used before, instead of one
    /// chosen by `recency`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub again: f64,
    /// Share of the calls that fail because there is no such file; of `stat`, `access` and
    /// `readlink`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failing: f64,
    /// Repeats the step for every file of the class.
    #[serde(default, skip_serializing_if = "is_default")]
    pub all: bool,
    /// Opens the file for both reading and writing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub both: bool,
    /// Number of bytes of a run.
    pub bytes: Option<Distribution>,
    /// Number of bytes of a run that reads, if different and the file is open for both.
    pub reading: Option<Distribution>,
    /// Number of runs.
    pub runs: Option<Distribution>,
    /// Share of the runs that write, if the file is open for both.
    #[serde(default, skip_serializing_if = "is_default")]
    pub writing: f64,
    /// Share of the writing runs that begin at the end of the file.
    #[serde(default, skip_serializing_if = "is_default")]
    pub growing: f64,
    /// Runs of `lookup` and `update` at fixed positions; the other runs follow the other fields.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pieces: Vec<FixedRun>,
    /// Access method.
    #[serde(default, skip_serializing_if = "is_default")]
    pub way: AccessMethod,
    /// Number of syncs of the file before it is closed.
    pub syncs: Option<Distribution>,
    /// Time of each run in seconds.
    pub hold: Option<Distribution>,
    /// Time from the end of the step to the next one, in seconds.
    pub gap: Option<Distribution>,
}

impl Model {
    /// The built-in models by name: the three machines of the 1985 paper.
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

    /// Returns the model as TOML, as [`Model::parse`] reads it.
    ///
    /// # Errors
    /// [`Error::Refused`] if a number cannot be written in TOML.
    pub fn text(&self) -> Result<String> {
        toml::to_string(self).map_err(|e| Error::Refused(format!("model: {e}")))
    }

    /// Parses a model and checks that it can be run.
    ///
    /// # Errors
    /// [`Error::Refused`] with the problem and its place.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let refused = |what: String| Error::Refused(format!("model {name}: {what}"));
        let syntax = |error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let problem = error.message().lines().collect::<Vec<_>>().join("; ");
            refused(format!("line {}: {problem}", before.matches('\n').count() + 1))
        };
        let model: Self = toml::from_str(text).map_err(syntax)?;
        model.check().map_err(refused)?;
        Ok(model)
    }

    pub(super) fn check(&self) -> std::result::Result<(), String> {
        let users = &self.users;
        if users.count == 0
            || users.day.len() != 24
            || users.day.iter().any(|part| !(0.0..=1.0).contains(part))
        {
            return Err("users: count must be at least 1, and day must have 24 numbers from 0 to 1".into());
        }
        if !(users.arrivals_per_hour > 0.0 && users.day.contains(&1.0) && self.timing.bytes_per_second > 0.0)
        {
            return Err(
                "arrivals_per_hour and bytes_per_second must be above 0, and the largest number of day must be 1".into()
            );
        }
        for (what, distribution) in [
            ("session", &users.session),
            ("think", &users.think),
            ("hold", &self.timing.hold),
            ("gap", &self.timing.gap),
        ] {
            distribution.check().map_err(|e| format!("{what}: {e}"))?;
        }
        for (name, class) in &self.class {
            class.size.check().map_err(|e| format!("class {name}: size: {e}"))?;
            if class.of != Owner::Command && class.files == 0 && class.most.is_none_or(|most| most == 0) {
                return Err(format!("class {name}: files or most must be at least 1"));
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
            return Err("the sum of the weights of the commands is 0".into());
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
            Operation::Exec => self.program.contains_key(&step.on),
            Operation::Pause | Operation::Mkdir | Operation::Rmdir => true,
            _ => self.class.contains_key(&step.on),
        };
        if !known {
            return Err(format!("there is no class or program {:?}", step.on));
        }
        let distributions =
            [&step.times, &step.bytes, &step.reading, &step.runs, &step.syncs, &step.hold, &step.gap];
        for distribution in distributions.into_iter().flatten() {
            distribution.check()?;
        }
        let shares: f64 = step.pieces.iter().map(|piece| piece.share).sum();
        if step.pieces.iter().any(|piece| !(0.0..=1.0).contains(&piece.share)) || shares > 1.001 {
            return Err("the shares of pieces must be from 0 to 1, with a sum of at most 1".into());
        }
        if !(0.0..=1.0).contains(&step.again) || !(0.0..=1.0).contains(&step.failing) {
            return Err("again and failing must be from 0 to 1".into());
        }
        if step.failing > 0.0 && !step.act.may_fail() {
            return Err("failing is only for stat, access and readlink".into());
        }
        let enough = step.bytes.is_some() || !step.pieces.is_empty();
        if matches!(step.act, Operation::Lookup | Operation::Append | Operation::Update) && !enough {
            return Err("bytes or pieces must be given".into());
        }
        Ok(())
    }
}
