//! Prepares a model for running: resolves the names of classes and programs to numbers.

use super::model::{Class, Command, Daemon, Model, Operation, Owner, Step};
use std::collections::HashMap;
use std::sync::Arc;

/// A step with its resolved names.
#[derive(Debug)]
pub struct ResolvedStep {
    pub step: Step,
    /// Number of the class; `usize::MAX` if it has none.
    pub class: usize,
    /// Number of the program's file and its size in bytes, if the step loads a program.
    pub program: (u64, u64),
}

/// The script of a command or a daemon.
#[derive(Debug)]
pub struct Script {
    pub name: String,
    /// The account, if not the user's.
    pub account: Option<u32>,
    pub background: bool,
    pub weight: f64,
    pub steps: Vec<ResolvedStep>,
}

/// A model with resolved names.
#[derive(Debug)]
pub struct Plan {
    pub classes: Vec<Arc<Class>>,
    /// Scripts of commands, followed by those of daemons.
    pub scripts: Vec<Script>,
    /// Number of programs; their files have the inode numbers from 1 to this.
    pub programs: u64,
    /// Number of scripts that are commands.
    pub commands: usize,
    /// Number of the command with which sessions begin.
    pub login: Option<usize>,
}

impl Plan {
    /// Resolves the names of a checked model.
    pub fn new(model: &Model) -> Self {
        let numbers: HashMap<&str, usize> =
            model.class.keys().enumerate().map(|(n, name)| (name.as_str(), n)).collect();
        let program = |step: &Step| {
            let found = model.program.iter().zip(1..).find(|((name, _), _)| **name == step.on);
            found
                .filter(|_| step.act == Operation::Exec)
                .map_or((0, 0), |((_, program), n)| (n, program.size))
        };
        let resolve = |step: &Step| ResolvedStep {
            class: numbers.get(step.on.as_str()).copied().unwrap_or(usize::MAX),
            program: program(step),
            step: step.clone(),
        };
        let command = |command: &Command| Script {
            name: command.name.clone(),
            account: command.account,
            background: command.background,
            weight: command.weight,
            steps: command.steps.iter().map(resolve).collect(),
        };
        let daemon = |daemon: &Daemon| Script {
            name: daemon.name.clone(),
            account: Some(daemon.account),
            background: daemon.background,
            weight: 0.0,
            steps: daemon.steps.iter().map(resolve).collect(),
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

    /// Returns the directory of a class for a user.
    pub fn directory(&self, class: usize, user: u32) -> String {
        let class = &self.classes[class];
        match class.of {
            Owner::User => format!("/usr/u{user}/{}", class.path),
            Owner::System | Owner::Command => class.path.clone(),
        }
    }
}
