//! Runs scripts: each call does the next event of one process.
//!
//! An [`Actor`] is a process with its position in its script. [`Machine::advance`] does what an
//! actor does at one moment and returns the time of its next event. Choices are made as late as
//! possible, because other actors may have changed the files in the meantime.

mod access;

use super::files::{File, Files, LruList};
use super::model::{Operation, Owner, Timing};
use super::plan::{Plan, ResolvedStep};
use access::Open;
use rand::Rng;
use rand::rngs::StdRng;
use spindle_trace::{Batch, Event, FileId, Flags, Kind};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Converts seconds to nanoseconds.
#[allow(clippy::cast_possible_truncation)] // Saturation is intended.
pub fn nanos(seconds: f64) -> i64 {
    (seconds * 1e9) as i64
}

/// Device number of all files.
const DEVICE: u64 = 1;

/// A process that runs a script.
#[derive(Debug)]
pub struct Actor {
    /// Number of the user whose files it uses.
    pub user: u32,
    /// Account number.
    pub account: u32,
    /// Process number.
    pub process: u32,
    /// Name of the program.
    program: String,
    /// Number of the daemon's copy.
    copy: Option<u32>,
    script: usize,
    step: usize,
    /// Repetitions of the current step that are done; and those still to do, once it has begun.
    done: usize,
    left: Option<usize>,
    own: Vec<(usize, LruList)>,
    /// Files that it has used: class, file and inode number (because the [`File`] number may be
    /// reused).
    used: VecDeque<(usize, File, u64)>,
    open: Option<Open>,
}

/// Maximum number of used files that a process remembers.
const REMEMBERED: usize = 32;

impl Actor {
    /// Returns an actor at the beginning of a script.
    pub fn new(plan: &Plan, script: usize, user: u32, copy: Option<u32>, account: u32, process: u32) -> Self {
        Self {
            user,
            account: plan.scripts[script].account.unwrap_or(account),
            process,
            program: plan.scripts[script].name.clone(),
            copy,
            script,
            step: 0,
            done: 0,
            left: None,
            own: Vec::new(),
            used: VecDeque::new(),
            open: None,
        }
    }

    fn own(&mut self, class: usize) -> &mut LruList {
        let at = self.own.iter().position(|own| own.0 == class).unwrap_or_else(|| {
            self.own.push((class, LruList::default()));
            self.own.len() - 1
        });
        &mut self.own[at].1
    }
}

/// The state that all actors share: files, random numbers, and the events produced.
#[derive(Debug)]
pub struct Machine {
    pub plan: Plan,
    pub random: StdRng,
    pub files: Files,
    pub out: Batch,
    timing: Timing,
    lists: Lists,
    opens: u64,
}

/// The files that outlive commands.
#[derive(Debug, Default)]
struct Lists {
    system: HashMap<usize, LruList>,
    users: HashMap<(u32, usize), LruList>,
}

impl Lists {
    /// Returns the files of a class that an actor uses, or `None` if they have not been created
    /// yet.
    fn get<'a>(&'a mut self, actor: &'a mut Actor, class: usize, owner: Owner) -> Option<&'a mut LruList> {
        match owner {
            Owner::Command => Some(actor.own(class)),
            Owner::System => self.system.get_mut(&class),
            Owner::User => self.users.get_mut(&(actor.user, class)),
        }
    }
}

impl Machine {
    /// Returns a machine without files.
    pub fn new(plan: Plan, timing: Timing, random: StdRng) -> Self {
        let files = Files::new(plan.programs);
        Self { plan, random, files, out: Batch::default(), timing, lists: Lists::default(), opens: 0 }
    }

    /// Does the next event of an actor; returns the time of its next one, or `None` when its script
    /// has ended.
    pub fn advance(&mut self, actor: &mut Actor, now: i64) -> Option<i64> {
        if let Some(open) = actor.open.take() {
            return Some(now + nanos(self.next_run(actor, open, now)));
        }
        loop {
            let Some(resolved) = self.plan.scripts[actor.script].steps.get(actor.step) else {
                return self.remove_leftovers(actor, now);
            };
            if actor.left.is_none() {
                let chance = resolved.step.chance.unwrap_or(1.0);
                let times =
                    resolved.step.times.as_ref().map_or(1, |times| times.draw_whole(&mut self.random));
                let skipped = self.random.random::<f64>() >= chance;
                actor.left = Some(if skipped { 0 } else { usize::try_from(times).unwrap_or(usize::MAX) });
                actor.done = 0;
                if resolved.step.all {
                    let class = resolved.class;
                    actor.left = actor.left.map(|left| left.min(1) * self.list(actor, class).0.len());
                }
            }
            if actor.left == Some(0) {
                actor.left = None;
                actor.step += 1;
                continue;
            }
            actor.left = actor.left.map(|left| left - 1);
            let seconds = self.perform(actor, now);
            actor.done += 1;
            if let Some(seconds) = seconds {
                return Some(now + nanos(seconds));
            }
        }
    }

    /// Removes one of the files that a command leaves behind.
    fn remove_leftovers(&mut self, actor: &mut Actor, now: i64) -> Option<i64> {
        let left = actor.own.iter_mut().find_map(|(_, list)| list.take_first());
        left.map(|file| {
            self.unlink(actor, file, now);
            now + nanos(self.timing.gap.draw(&mut self.random))
        })
    }

    fn resolved(&self, actor: &Actor) -> &ResolvedStep {
        &self.plan.scripts[actor.script].steps[actor.step]
    }

    fn gap(&mut self, actor: &Actor) -> f64 {
        let step = &self.plan.scripts[actor.script].steps[actor.step].step;
        step.gap.as_ref().unwrap_or(&self.timing.gap).draw(&mut self.random)
    }

    /// Returns the files of a class that an actor uses, and the random numbers; creates the files
    /// when they are first needed.
    fn list<'a>(&'a mut self, actor: &'a mut Actor, class: usize) -> (&'a mut LruList, &'a mut StdRng) {
        let (owner, wanted) = (self.plan.classes[class].of, self.plan.classes[class].files);
        if self.lists.get(actor, class, owner).is_none() {
            let mut list = LruList::default();
            for _ in 0..wanted {
                list.add_unused(self.preexisting_file(actor.user, class));
            }
            match owner {
                Owner::User => drop(self.lists.users.insert((actor.user, class), list)),
                _ => drop(self.lists.system.insert(class, list)),
            }
        }
        let list = self.lists.get(actor, class, owner).expect("the files exist or were just created");
        (list, &mut self.random)
    }

    /// Makes sure that a class has a file, unless the class belongs to commands; the new file
    /// counts as one that existed before the trace.
    fn ensure_file(&mut self, actor: &mut Actor, class: usize) {
        if self.plan.classes[class].of != Owner::Command && self.list(actor, class).0.len() == 0 {
            let file = self.preexisting_file(actor.user, class);
            self.list(actor, class).0.add_unused(file);
        }
    }

    /// Creates a file of a class as if it had existed before the trace, with a size drawn from the
    /// class.
    fn preexisting_file(&mut self, user: u32, class: usize) -> File {
        let directory = self.plan.directory(class, user);
        let size = self.plan.classes[class].size.draw_whole(&mut self.random);
        self.files.add(|n| format!("{directory}/{n}").into(), size)
    }

    /// Chooses the file for an actor's current step. It counts as used unless the step only makes a
    /// control call.
    fn choose(&mut self, actor: &mut Actor) -> Option<File> {
        let resolved = self.resolved(actor);
        let (class, all, done, copy) = (resolved.class, resolved.step.all, actor.done, actor.copy);
        let (again, uses) = (resolved.step.again, resolved.step.act.control_call().is_none());
        if again > 0.0
            && self.random.random::<f64>() < again
            && let Some(file) = self.used_before(actor, class)
        {
            if uses {
                self.list(actor, class).0.touch(file);
            }
            return Some(file);
        }
        let shape = Arc::clone(&self.plan.classes[class]);
        self.ensure_file(actor, class);
        let (list, random) = self.list(actor, class);
        match copy {
            Some(copy) if list.len() > 0 => list.nth(copy as usize % list.len()),
            _ if all => list.nth(done),
            _ if !uses => list.peek(done, &shape.recency, random),
            _ => list.next(done, &shape.recency, random),
        }
    }

    /// Returns a random file of a class that an actor has used before, if one still exists.
    fn used_before(&mut self, actor: &mut Actor, class: usize) -> Option<File> {
        let files = &mut self.files;
        actor.used.retain(|&(_, file, inode)| files.at(file).inode == inode && !files.at(file).removed);
        let known: Vec<File> = actor.used.iter().filter(|used| used.0 == class).map(|used| used.1).collect();
        let file = *known.get(self.random.random_range(0..known.len().max(1)))?;
        self.list(actor, class).0.contains(file).then_some(file)
    }

    /// Records that an actor uses a file.
    fn remember(&mut self, actor: &mut Actor, class: usize, file: File) {
        let inode = self.files.at(file).inode;
        if actor.used.iter().any(|used| used.2 == inode) {
            return;
        }
        actor.used.truncate(REMEMBERED - 1);
        actor.used.push_front((class, file, inode));
    }

    /// Does a step once; returns the seconds until the next event, or `None` if there was nothing
    /// to do.
    fn perform(&mut self, actor: &mut Actor, now: i64) -> Option<f64> {
        let act = self.resolved(actor).step.act;
        match act {
            Operation::Pause => return Some(self.gap(actor)),
            Operation::Exec => {
                let resolved = self.resolved(actor);
                let (inode, size) = resolved.program;
                actor.program.clone_from(&resolved.step.on);
                let path = format!("/bin/{}", actor.program);
                let event = Event {
                    kind: Kind::Exec,
                    size,
                    file: FileId { device: DEVICE, inode },
                    path: self.out.names.symbol(&path),
                    ..Event::default()
                };
                self.emit(actor, now, event);
                return Some(self.gap(actor));
            }
            Operation::Create => return Some(self.create(actor, now)),
            Operation::Remove => {
                let class = self.resolved(actor).class;
                let shape = Arc::clone(&self.plan.classes[class]);
                self.ensure_file(actor, class);
                let (list, random) = self.list(actor, class);
                let taken = match shape.of {
                    Owner::Command => list.take_first(),
                    Owner::System | Owner::User => {
                        list.take(shape.removal.as_ref().unwrap_or(&shape.recency), random)
                    }
                };
                self.unlink(actor, taken?, now);
                return Some(self.gap(actor));
            }
            Operation::Truncate => {
                let file = self.choose(actor)?;
                let bytes = self.resolved(actor).step.bytes.clone();
                let size =
                    bytes.map_or(0, |bytes| bytes.draw_whole(&mut self.random)).min(self.files.at(file).size);
                self.files.at(file).size = size;
                let event = Event { kind: Kind::Truncate, size, ..self.event_of(file) };
                self.emit(actor, now, event);
                return Some(self.gap(actor));
            }
            Operation::Rename => {
                let file = self.choose(actor)?;
                let event = Event { kind: Kind::Rename, ..self.event_of(file) };
                let class = self.resolved(actor).class;
                let directory = self.plan.directory(class, actor.user);
                self.files.rename(file, |n| format!("{directory}/{n}").into());
                let new_path = self.event_of(file).path;
                self.emit(actor, now, Event { new_path, ..event });
                return Some(self.gap(actor));
            }
            Operation::Mkdir | Operation::Rmdir => {
                let made = act == Operation::Mkdir;
                let path = self.files.directory(made);
                let kind = if made { Kind::Mkdir } else { Kind::Rmdir };
                let path = self.out.names.symbol(&path);
                self.emit(actor, now, Event { kind, flags: Flags::DIRECTORY, path, ..Event::default() });
                return Some(self.gap(actor));
            }
            Operation::Read
            | Operation::Lookup
            | Operation::Append
            | Operation::Update
            | Operation::Rewrite => {}
            Operation::Stat
            | Operation::Access
            | Operation::Readlink
            | Operation::List
            | Operation::Chdir
            | Operation::Chmod
            | Operation::Chown
            | Operation::Utime => return self.control_call(actor, now),
        }
        let file = self.choose(actor)?;
        Some(self.open(actor, file, now))
    }

    /// Makes a control call: on a file of the class, or on one that there is not.
    fn control_call(&mut self, actor: &mut Actor, now: i64) -> Option<f64> {
        let ResolvedStep { step, class, .. } = self.resolved(actor);
        let (kind, class, failing) = (step.act.control_call()?, *class, step.failing);
        let event = if failing > 0.0 && self.random.random::<f64>() < failing {
            let path = format!("{}/missing", self.plan.directory(class, actor.user));
            Event { kind, flags: Flags::FAILED, path: self.out.names.symbol(&path), ..Event::default() }
        } else {
            let file = self.choose(actor)?;
            self.remember(actor, class, file);
            let flags = if self.plan.classes[class].directories { Flags::DIRECTORY } else { Flags::NONE };
            let size = if kind == Kind::Stat { self.files.at(file).size } else { 0 };
            Event { kind, flags, size, ..self.event_of(file) }
        };
        self.emit(actor, now, event);
        Some(self.gap(actor))
    }

    /// Creates a file and opens it.
    fn create(&mut self, actor: &mut Actor, now: i64) -> f64 {
        let class = self.resolved(actor).class;
        let shape = &self.plan.classes[class];
        let (owner, most) = (shape.of, shape.most.unwrap_or(shape.files));
        if owner != Owner::Command
            && self.list(actor, class).0.len() >= most
            && let Some(oldest) = self.list(actor, class).0.take_last()
        {
            self.unlink(actor, oldest, now);
        }
        let directory = self.plan.directory(class, actor.user);
        let file = self.files.add(|n| format!("{directory}/{n}").into(), 0);
        self.list(actor, class).0.add(file);
        self.open(actor, file, now)
    }

    fn unlink(&mut self, actor: &Actor, file: File, now: i64) {
        let event = Event {
            kind: Kind::Unlink,
            flags: Flags::LAST,
            size: self.files.at(file).size,
            ..self.event_of(file)
        };
        self.files.remove(file);
        self.emit(actor, now, event);
    }

    /// Returns an empty event with the id and the path of a file.
    fn event_of(&mut self, file: File) -> Event {
        let state = self.files.at(file);
        let file = FileId { device: DEVICE, inode: state.inode };
        let path = self.out.names.symbol(&state.path);
        Event { file, path, ..Event::default() }
    }

    fn emit(&mut self, actor: &Actor, time: i64, event: Event) {
        let command = self.out.names.symbol(&actor.program);
        self.out.events.push(Event { time, user: actor.account, process: actor.process, command, ..event });
    }
}
