//! A model made ready to be carried out: names of classes and programs become numbers.

use super::model::{Act, Class, Command, Daemon, Model, Owner, Step};
use std::collections::HashMap;
use std::sync::Arc;

/// A step that knows its class.
#[derive(Debug)]
pub struct Ready {
    pub step: Step,
    /// Number of the class; meaningless without one.
    pub class: usize,
    /// Number and bytes of the program's file, if the step loads one.
    pub program: (u64, u64),
}

/// A script of a command or a daemon.
#[derive(Debug)]
pub struct Script {
    pub name: String,
    /// The account, if it is not the user's.
    pub account: Option<u32>,
    pub background: bool,
    pub weight: f64,
    pub steps: Vec<Ready>,
}

/// What a machine carries out.
#[derive(Debug)]
pub struct Plan {
    pub classes: Vec<Arc<Class>>,
    /// Commands, and behind them daemons.
    pub scripts: Vec<Script>,
    /// Programs have the numbers from 1 to this one.
    pub programs: u64,
    /// How many of them are commands.
    pub commands: usize,
    /// Number of the command with which sessions begin.
    pub login: Option<usize>,
}

impl Plan {
    /// Resolves the names of a model that was checked.
    pub fn new(model: &Model) -> Self {
        let numbers: HashMap<&str, usize> =
            model.class.keys().enumerate().map(|(n, name)| (name.as_str(), n)).collect();
        let program = |step: &Step| {
            let found = model.program.iter().zip(1..).find(|((name, _), _)| **name == step.on);
            found.filter(|_| step.act == Act::Exec).map_or((0, 0), |((_, program), n)| (n, program.size))
        };
        let ready = |step: &Step| Ready {
            class: numbers.get(step.on.as_str()).copied().unwrap_or(usize::MAX),
            program: program(step),
            step: step.clone(),
        };
        let command = |command: &Command| Script {
            name: command.name.clone(),
            account: command.account,
            background: command.background,
            weight: command.weight,
            steps: command.steps.iter().map(ready).collect(),
        };
        let daemon = |daemon: &Daemon| Script {
            name: daemon.name.clone(),
            account: Some(daemon.account),
            background: daemon.background,
            weight: 0.0,
            steps: daemon.steps.iter().map(ready).collect(),
        };
        let login = model.users.login.as_ref();
        Self {
            classes: model.class.values().cloned().map(Arc::new).collect(),
            programs: model.program.len() as u64,
            commands: model.command.len(),
            login: login.and_then(|login| model.command.iter().position(|command| command.name == *login)),
            scripts: model.command.iter().map(command).chain(model.daemon.iter().map(daemon)).collect(),
        }
    }

    /// Returns the directory of a class, for a user.
    pub fn directory(&self, class: usize, user: u32) -> String {
        let class = &self.classes[class];
        match class.of {
            Owner::User => format!("/usr/u{user}/{}", class.path),
            Owner::System | Owner::Command => class.path.clone(),
        }
    }
}
