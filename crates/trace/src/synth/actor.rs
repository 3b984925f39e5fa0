//! Who carries out a script: one event after the other.
//!
//! An [`Actor`] is a process and the place where it is in its script. [`Stage::advance`] lets it do
//! what it does at one moment and tells when it goes on. What it does is decided when it does it,
//! because others have changed the files in the meantime.

use super::files::{File, Files, List};
use super::model::{Act, Owner, Piece, Timing, Way};
use super::plan::{Plan, Ready};
use crate::{Batch, Event, FileId, Flags, Kind};
use rand::Rng;
use rand::rngs::StdRng;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Returns the nanoseconds of so many seconds.
#[allow(clippy::cast_possible_truncation)] // Saturates, and is meant to.
pub fn nanos(seconds: f64) -> i64 {
    (seconds * 1e9) as i64
}

/// The device of all files.
const DEVICE: u64 = 1;

/// Where a run begins.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// Where the file is.
    Here,
    At(u64),
    End,
}

/// Bytes that will be moved in one direction.
#[derive(Clone, Copy, Debug)]
struct Run {
    place: Place,
    /// At most; what is read ends with the file.
    bytes: u64,
    write: bool,
    way: Way,
    seconds: f64,
}

impl Way {
    /// Returns what an event of such a run says, if it is one of its own and leaves the file's
    /// position where it is.
    const fn apart(self) -> Option<Flags> {
        match self {
            Self::Calls => None,
            Self::Positional => Some(Flags::POSITIONAL),
            Self::Mapped => Some(Flags::MAPPED),
        }
    }
}

/// An open file.
#[derive(Debug)]
struct Open {
    id: u64,
    file: File,
    flags: Flags,
    /// Where the file's position is now, and where the run began that the next event ends.
    position: u64,
    start: u64,
    written: bool,
    current: Option<Run>,
    /// Where the current run began, if it leaves the position where it is.
    apart: u64,
    runs: VecDeque<Run>,
    /// How often it is to be made durable.
    syncs: u64,
}

/// A process in its script.
#[derive(Debug)]
pub struct Actor {
    /// Number of the user whose files it uses.
    pub user: u32,
    /// Account.
    pub account: u32,
    /// Number of the process.
    pub process: u32,
    /// Name of the program.
    program: String,
    /// Which of a daemon's copies it is.
    copy: Option<u32>,
    script: usize,
    step: usize,
    /// Repetitions of the step that are done, and still to do if it has begun.
    done: usize,
    left: Option<usize>,
    own: Vec<(usize, List)>,
    /// Files that it has used: class, file and the file's number, as another may have got its
    /// place.
    used: VecDeque<(usize, File, u64)>,
    open: Option<Open>,
}

/// Files that a process remembers.
const REMEMBERED: usize = 32;

impl Actor {
    /// At the beginning of a script.
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

    fn own(&mut self, class: usize) -> &mut List {
        let at = self.own.iter().position(|own| own.0 == class).unwrap_or_else(|| {
            self.own.push((class, List::default()));
            self.own.len() - 1
        });
        &mut self.own[at].1
    }
}

/// What all actors share: files, chance, and the events that come out.
#[derive(Debug)]
pub struct Stage {
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
    system: HashMap<usize, List>,
    users: HashMap<(u32, usize), List>,
}

impl Lists {
    /// Returns the files of a class as an actor sees them, or nothing if they are to be made.
    fn get<'a>(&'a mut self, actor: &'a mut Actor, class: usize, owner: Owner) -> Option<&'a mut List> {
        match owner {
            Owner::Command => Some(actor.own(class)),
            Owner::System => self.system.get_mut(&class),
            Owner::User => self.users.get_mut(&(actor.user, class)),
        }
    }
}

impl Stage {
    /// Returns an empty one.
    pub fn new(plan: Plan, timing: Timing, random: StdRng) -> Self {
        let files = Files::new(plan.programs);
        Self { plan, random, files, out: Batch::default(), timing, lists: Lists::default(), opens: 0 }
    }

    /// Lets an actor do what it does now; gives when it goes on, or nothing if its script is over.
    pub fn advance(&mut self, actor: &mut Actor, now: i64) -> Option<i64> {
        if let Some(open) = actor.open.take() {
            return Some(now + nanos(self.go_on(actor, open, now)));
        }
        loop {
            let Some(ready) = self.plan.scripts[actor.script].steps.get(actor.step) else {
                return self.tidy_up(actor, now);
            };
            if actor.left.is_none() {
                let chance = ready.step.chance.unwrap_or(1.0);
                let times = ready.step.times.as_ref().map_or(1, |times| times.count(&mut self.random));
                let skipped = self.random.random::<f64>() >= chance;
                actor.left = Some(if skipped { 0 } else { usize::try_from(times).unwrap_or(usize::MAX) });
                actor.done = 0;
                if ready.step.all {
                    let class = ready.class;
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

    /// Removes what a command has left of its own.
    fn tidy_up(&mut self, actor: &mut Actor, now: i64) -> Option<i64> {
        let left = actor.own.iter_mut().find_map(|(_, list)| list.take_first());
        left.map(|file| {
            self.unlink(actor, file, now);
            now + nanos(self.timing.gap.draw(&mut self.random))
        })
    }

    fn ready(&self, actor: &Actor) -> &Ready {
        &self.plan.scripts[actor.script].steps[actor.step]
    }

    fn gap(&mut self, actor: &Actor) -> f64 {
        let step = &self.plan.scripts[actor.script].steps[actor.step].step;
        step.gap.as_ref().unwrap_or(&self.timing.gap).draw(&mut self.random)
    }

    /// Returns the files of a class as an actor sees them, and chance; the files are made when they
    /// are first needed.
    fn list<'a>(&'a mut self, actor: &'a mut Actor, class: usize) -> (&'a mut List, &'a mut StdRng) {
        let (owner, wanted) = (self.plan.classes[class].of, self.plan.classes[class].files);
        if self.lists.get(actor, class, owner).is_none() {
            let mut list = List::default();
            for _ in 0..wanted {
                list.add_behind(self.old_file(actor.user, class));
            }
            match owner {
                Owner::User => drop(self.lists.users.insert((actor.user, class), list)),
                _ => drop(self.lists.system.insert(class, list)),
            }
        }
        let list = self.lists.get(actor, class, owner).expect("they are there, or were made");
        (list, &mut self.random)
    }

    /// Makes sure that there is a file of the class, unless it is a command's own: one that was
    /// there all the time, and is looked for only now.
    fn fill(&mut self, actor: &mut Actor, class: usize) {
        if self.plan.classes[class].of != Owner::Command && self.list(actor, class).0.len() == 0 {
            let file = self.old_file(actor.user, class);
            self.list(actor, class).0.add_behind(file);
        }
    }

    /// Returns a file of a class that was there before, as large as such files are.
    fn old_file(&mut self, user: u32, class: usize) -> File {
        let directory = self.plan.directory(class, user);
        let size = self.plan.classes[class].size.count(&mut self.random);
        self.files.add(|n| format!("{directory}/{n}").into(), size)
    }

    /// Returns the file to which an actor's step is done.
    fn choose(&mut self, actor: &mut Actor) -> Option<File> {
        let ready = self.ready(actor);
        let (class, all, done, copy) = (ready.class, ready.step.all, actor.done, actor.copy);
        let again = ready.step.again;
        if again > 0.0
            && self.random.random::<f64>() < again
            && let Some(file) = self.again(actor, class)
        {
            return Some(file);
        }
        let shape = Arc::clone(&self.plan.classes[class]);
        self.fill(actor, class);
        let (list, random) = self.list(actor, class);
        match copy {
            Some(copy) if list.len() > 0 => list.nth(copy as usize % list.len()),
            _ if all => list.nth(done),
            _ => list.next(done, &shape.recency, random),
        }
    }

    /// Returns a file of a class that an actor has used before, if one is left.
    fn again(&mut self, actor: &mut Actor, class: usize) -> Option<File> {
        let files = &mut self.files;
        actor.used.retain(|&(_, file, inode)| files.at(file).inode == inode && !files.at(file).gone);
        let known: Vec<File> = actor.used.iter().filter(|used| used.0 == class).map(|used| used.1).collect();
        let file = *known.get(self.random.random_range(0..known.len().max(1)))?;
        self.list(actor, class).0.touch(file).then_some(file)
    }

    /// An actor uses a file.
    fn remember(&mut self, actor: &mut Actor, class: usize, file: File) {
        let inode = self.files.at(file).inode;
        if actor.used.iter().any(|used| used.2 == inode) {
            return;
        }
        actor.used.truncate(REMEMBERED - 1);
        actor.used.push_front((class, file, inode));
    }

    /// Does a step once; gives the seconds until it goes on, or nothing if there was nothing to do.
    fn perform(&mut self, actor: &mut Actor, now: i64) -> Option<f64> {
        let act = self.ready(actor).step.act;
        match act {
            Act::Pause => return Some(self.gap(actor)),
            Act::Exec => {
                let ready = self.ready(actor);
                let (inode, size) = ready.program;
                actor.program.clone_from(&ready.step.on);
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
            Act::Create => return Some(self.create(actor, now)),
            Act::Remove => {
                let class = self.ready(actor).class;
                let shape = Arc::clone(&self.plan.classes[class]);
                self.fill(actor, class);
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
            Act::Truncate => {
                let file = self.choose(actor)?;
                let bytes = self.ready(actor).step.bytes.clone();
                let size =
                    bytes.map_or(0, |bytes| bytes.count(&mut self.random)).min(self.files.at(file).size);
                self.files.at(file).size = size;
                let event = Event { kind: Kind::Truncate, size, ..self.about(file) };
                self.emit(actor, now, event);
                return Some(self.gap(actor));
            }
            Act::Rename => {
                let file = self.choose(actor)?;
                let event = Event { kind: Kind::Rename, ..self.about(file) };
                let class = self.ready(actor).class;
                let directory = self.plan.directory(class, actor.user);
                self.files.rename(file, |n| format!("{directory}/{n}").into());
                let new_path = self.about(file).path;
                self.emit(actor, now, Event { new_path, ..event });
                return Some(self.gap(actor));
            }
            Act::Mkdir | Act::Rmdir => {
                let made = act == Act::Mkdir;
                let path = self.files.directory(made);
                let kind = if made { Kind::Mkdir } else { Kind::Rmdir };
                let path = self.out.names.symbol(&path);
                self.emit(actor, now, Event { kind, flags: Flags::DIRECTORY, path, ..Event::default() });
                return Some(self.gap(actor));
            }
            Act::Read | Act::Lookup | Act::Append | Act::Update | Act::Rewrite => {}
        }
        let file = self.choose(actor)?;
        Some(self.open(actor, file, now))
    }

    /// Makes a file, and opens it.
    fn create(&mut self, actor: &mut Actor, now: i64) -> f64 {
        let class = self.ready(actor).class;
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

    /// Opens a file for a step, and plans what happens to it; gives the seconds until the next
    /// event.
    fn open(&mut self, actor: &mut Actor, file: File, now: i64) -> f64 {
        let Ready { step, class, .. } = self.ready(actor);
        let (class, act, both) = (*class, step.act, step.both);
        let size = self.files.at(file).size;
        let flags = match act {
            _ if both => Flags::READ | Flags::WRITE,
            Act::Read | Act::Lookup => Flags::READ,
            _ => Flags::WRITE,
        };
        let flags = if self.plan.classes[class].directories { flags | Flags::DIRECTORY } else { flags };
        let mut event = Event { flags, size, ..self.about(file) };
        match act {
            Act::Create => event.kind = Kind::Create,
            Act::Rewrite => event.flags |= Flags::TRUNCATED,
            Act::Append if self.plan.classes[class].limit.is_some_and(|limit| size > limit) => {
                self.files.at(file).size = 0;
                let cut = Event { kind: Kind::Truncate, flags: Flags::NONE, size: 0, ..event };
                self.emit(actor, now, cut);
                event.size = 0;
            }
            _ => {}
        }
        let runs = self.runs(actor, file);
        let syncs = self.ready(actor).step.syncs.clone().map_or(0, |syncs| syncs.count(&mut self.random));
        if matches!(act, Act::Rewrite | Act::Create) {
            self.files.at(file).size = 0;
        }
        self.remember(actor, class, file);
        self.opens += 1;
        event.open = self.opens;
        self.files.at(file).opens += 1;
        self.emit(actor, now, event);
        let mut open = Open {
            id: self.opens,
            file,
            flags,
            position: 0,
            start: 0,
            written: false,
            current: None,
            apart: 0,
            runs,
            syncs,
        };
        let mut seconds = self.timing.call;
        if matches!(open.runs.front(), Some(Run { place: Place::Here, .. })) {
            open.current = open.runs.pop_front();
            seconds = open.current.map_or(0.0, |run| run.seconds);
        }
        actor.open = Some(open);
        seconds
    }

    /// Returns what a step will do to its file.
    fn runs(&mut self, actor: &Actor, file: File) -> VecDeque<Run> {
        let ready = &self.plan.scripts[actor.script].steps[actor.step];
        let (step, class) = (&ready.step, &self.plan.classes[ready.class]);
        let random = &mut self.random;
        let state = self.files.at(file);
        let rate = self.timing.bytes_per_second;
        let hold = step.hold.as_ref().unwrap_or(&self.timing.hold);
        let count = step.runs.as_ref().map_or(1, |runs| runs.count(random));
        let mut runs = VecDeque::new();
        for n in 0..count {
            if let Some(piece) = piece(&step.pieces, n, count, random) {
                let Piece { at, bytes, writes: write, way, .. } = *piece;
                runs.push_back(Run { place: Place::At(at), bytes, write, way, seconds: hold.draw(random) });
                continue;
            }
            let given = step.bytes.as_ref().map(|bytes| bytes.count(random));
            let (place, bytes, write) = match step.act {
                Act::Read => (Place::Here, given.unwrap_or(u64::MAX), false),
                Act::Lookup => (Place::At(state.record(class, random)), given.unwrap_or(0), false),
                Act::Append => (Place::End, given.unwrap_or(0), true),
                Act::Rewrite => {
                    let again = || {
                        // Nine parts of what it was and one of what such files have: it changes,
                        // but does not wander.
                        (9 * state.size + class.size.count(random)).div_ceil(10)
                    };
                    (Place::Here, given.unwrap_or_else(again), true)
                }
                Act::Create if n == 0 => {
                    (Place::Here, given.unwrap_or_else(|| class.size.count(random)), true)
                }
                _ => {
                    let write = !step.both || random.random::<f64>() < step.writing;
                    let grow = write && random.random::<f64>() < step.growing;
                    let place = if grow { Place::End } else { Place::At(state.record(class, random)) };
                    let given = match &step.reading {
                        Some(reading) if !write => Some(reading.count(random)),
                        _ => given,
                    };
                    (place, given.unwrap_or(class.record), write)
                }
            };
            let moved = if write { bytes } else { bytes.min(state.size) };
            #[allow(clippy::cast_precision_loss)] // A time.
            let seconds = hold.draw(random) + moved as f64 / rate;
            if matches!(step.act, Act::Create) {
                state.size = state.size.max(if n == 0 { bytes } else { state.size });
            }
            let place = match place {
                // Where records were measured, so was what there is to read behind them.
                Place::At(at) if class.records.ranks.is_some() && !write => {
                    Place::At(at.min(state.size.saturating_sub(bytes)))
                }
                _ => place,
            };
            runs.push_back(Run { place, bytes, write, way: step.way, seconds });
        }
        runs
    }

    /// Ends the run that an open file is in, and begins the next or closes it; gives the seconds
    /// until the next event.
    fn go_on(&mut self, actor: &mut Actor, mut open: Open, now: i64) -> f64 {
        if let Some(run) = open.current.take() {
            let state = self.files.at(open.file);
            let begin = if run.way.apart().is_some() { open.apart } else { open.position };
            let bytes = if run.write { run.bytes } else { run.bytes.min(state.size.saturating_sub(begin)) };
            if run.write {
                state.size = state.size.max(begin + bytes);
            }
            if let Some(flags) = run.way.apart() {
                self.apart(actor, &open, now, (begin, bytes, run.write), flags);
            } else {
                open.position += bytes;
                open.written = run.write;
            }
        }
        let Open { id, file, flags, position, start, written, .. } = open;
        let bytes = position - start;
        let mut event = Event {
            open: id,
            flags,
            position: start,
            read: if written { 0 } else { bytes },
            written: if written { bytes } else { 0 },
            ..self.about(file)
        };
        let Some(run) = open.runs.pop_front() else {
            let about = self.about(file);
            for _ in 0..open.syncs {
                self.emit(actor, now, Event { kind: Kind::Sync, open: id, flags, ..about });
            }
            event.kind = Kind::Close;
            event.size = self.files.at(file).size;
            let path = self.files.at(file).path.clone();
            if self.files.close(file) {
                event.flags |= Flags::LAST;
            }
            event.path = self.out.names.symbol(&path);
            self.emit(actor, now, event);
            return self.gap(actor);
        };
        let target = match run.place {
            Place::Here => position,
            Place::At(place) => place,
            Place::End => self.files.at(file).size,
        };
        if run.way.apart().is_some() {
            open.apart = target;
        } else if target != position {
            event.kind = Kind::Seek;
            event.new_position = target;
            self.emit(actor, now, event);
            (open.position, open.start) = (target, target);
        } else if bytes > 0 && run.write != written {
            event.kind = Kind::Run;
            self.emit(actor, now, event);
            open.start = position;
        }
        open.current = Some(run);
        actor.open = Some(open);
        run.seconds
    }

    /// Tells a run that has a position of its own.
    fn apart(
        &mut self,
        actor: &Actor,
        open: &Open,
        now: i64,
        (position, bytes, write): (u64, u64, bool),
        flags: Flags,
    ) {
        if bytes > 0 {
            let (read, written) = if write { (0, bytes) } else { (bytes, 0) };
            let (kind, flags) = (Kind::Run, open.flags | flags);
            let about = self.about(open.file);
            self.emit(actor, now, Event { kind, flags, open: open.id, position, read, written, ..about });
        }
    }

    fn unlink(&mut self, actor: &Actor, file: File, now: i64) {
        let event = Event {
            kind: Kind::Unlink,
            flags: Flags::LAST,
            size: self.files.at(file).size,
            ..self.about(file)
        };
        self.files.remove(file);
        self.emit(actor, now, event);
    }

    /// Returns an event that names a file.
    fn about(&mut self, file: File) -> Event {
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

/// Returns which piece the run of this number out of `count` is, if it is one. Runs share the
/// pieces out among them, so that with as many of each the order is that of the model.
#[allow(clippy::cast_precision_loss)] // Small numbers.
fn piece<'a>(pieces: &'a [Piece], number: u64, count: u64, random: &mut impl Rng) -> Option<&'a Piece> {
    if pieces.is_empty() {
        return None;
    }
    let mut left = (number as f64 + random.random::<f64>()) / count as f64;
    pieces.iter().find(|piece| {
        left -= piece.share;
        left < 0.0
    })
}
