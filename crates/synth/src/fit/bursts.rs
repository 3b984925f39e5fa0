//! The second pass: groups the operations of each process into bursts and measures how files are
//! reused.

use super::super::model::Operation;
use super::operations::{Burst, BurstOperation, OpenFile, Reuse, kind};
use super::population::{Classes, Observation};
use super::scripts::{Runs, Script, Scripts, StepKind, StepStats};
use super::sketch::Sketch;
use super::users::UserActivity;
use foldhash::fast::RandomState;
use spindle_cachesim::curve::Stack;
use spindle_trace::follow::{Access, Follow, Step};
use spindle_trace::{Batch, Event, FileId, Flags, Kind};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Pause, in ns, after which the next operation of a process begins a new burst.
const PAUSE: i64 = 5_000_000_000;
/// Maximum number of operations of a burst.
const MAX_OPERATIONS: usize = 64;
/// Number of events after which the bursts of idle processes are ended.
const SWEEP_INTERVAL: u64 = 1 << 14;
/// Maximum number of records of a file whose order of use is kept.
const MAX_RECORDS: usize = 1 << 12;

/// Statistics of reuse.
#[derive(Clone, Debug, Default)]
pub struct ReuseStats {
    /// Reuse distances.
    pub distances: Sketch,
    /// Number of uses of items that had not been used before.
    pub first_uses: u64,
}

impl ReuseStats {
    fn add(&mut self, reuse: Reuse) {
        match reuse {
            Reuse::Distance(distance) => self.distances.add(distance.into()),
            Reuse::First => self.first_uses += 1,
        }
    }

    /// Returns the number of uses counted.
    pub fn count(&self) -> u64 {
        self.distances.count() + self.first_uses
    }
}

/// Measurements of one class of files.
#[derive(Debug, Default)]
pub struct Usage {
    /// Number of files that existed before the trace.
    pub before: u64,
    /// Maximum number of files alive at once; `alive` is the current number.
    pub most: u64,
    alive: u64,
    /// Sizes of the files; of created files, the size at the close.
    pub sizes: Sketch,
    /// Reuse of files by opens and renames.
    pub used: ReuseStats,
    /// Reuse distances of the files that are removed.
    pub removed: ReuseStats,
    /// Reuse of records within files.
    pub records: ReuseStats,
    stack: Stack,
    keys: u32,
    free: Vec<u32>,
}

/// A file of the trace.
struct KnownFile {
    class: u32,
    /// Its number in the LRU stack of its class.
    key: u32,
    /// Unique number of the file; unlike an inode number it is never used again.
    serial: u64,
    /// Numbers of records, most recently used first.
    records: Vec<u64>,
}

/// Programs by number, with the sizes of their files.
#[derive(Debug, Default)]
pub struct Programs {
    numbers: HashMap<String, u32, RandomState>,
    /// Name, and size in bytes.
    pub all: Vec<(String, u64)>,
}

impl Programs {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = u32::try_from(self.all.len()).expect("programs are few");
        self.numbers.insert(name.into(), number);
        self.all.push((name.into(), 0));
        number
    }
}

/// The second pass.
pub struct Pass<'a> {
    classes: &'a Classes,
    /// By class; the second half has the same classes again, for files that a command creates and
    /// removes itself.
    pub usage: Vec<Usage>,
    files: HashMap<FileId, KnownFile, RandomState>,
    serial: u64,
    follow: Follow<OpenFile>,
    bursts: HashMap<u64, Burst, RandomState>,
    current: BTreeMap<(u32, u32), u64>,
    begun: u64,
    events: u64,
    /// Programs.
    pub programs: Programs,
    /// Scripts merged from the bursts.
    pub scripts: Scripts,
    /// Times at which users were active.
    pub activity: UserActivity,
}

impl<'a> Pass<'a> {
    /// Returns a pass that uses these classes.
    pub fn new(classes: &'a Classes) -> Self {
        Self {
            classes,
            usage: std::iter::repeat_with(Usage::default).take(2 * classes.infos.len()).collect(),
            files: HashMap::default(),
            serial: 0,
            follow: Follow::default(),
            bursts: HashMap::default(),
            current: BTreeMap::new(),
            begun: 0,
            events: 0,
            programs: Programs::default(),
            scripts: Scripts::default(),
            activity: UserActivity::default(),
        }
    }

    /// Processes an event.
    pub fn event(&mut self, event: &Event, batch: &Batch) {
        self.activity.time(event.time);
        self.events += 1;
        if self.events.is_multiple_of(SWEEP_INTERVAL) {
            self.sweep(event.time);
        }
        match event.kind {
            Kind::Open | Kind::Create if event.open != 0 => self.open(event, batch),
            Kind::Sync if event.is_sync_of_all() => {}
            Kind::Close | Kind::Seek | Kind::Run | Kind::Sync => self.run(event),
            Kind::Unlink if event.flags.has(Flags::LAST) => self.remove(event, batch),
            Kind::Truncate => {
                self.register(event, batch);
                let Some(seen) = self.files.get(&event.file) else { return };
                let kind = StepKind { whole: false, ..StepKind::of(Operation::Truncate, seen.class) };
                let mut operation = BurstOperation::at(event, Some(kind));
                (operation.serial, operation.class) = (seen.serial, Some(seen.class));
                operation.moved.first(event.size, true);
                self.push(event, batch, operation);
            }
            Kind::Exec => {
                let path = batch.names.word(event.path);
                let name = match batch.names.word(event.command) {
                    "" => path.rsplit_once('/').map_or(path, |parts| parts.1),
                    name => name,
                };
                let on = self.programs.number(name);
                self.programs.all[on as usize].1 = event.size;
                self.push(event, batch, BurstOperation::at(event, Some(StepKind::of(Operation::Exec, on))));
            }
            Kind::Rename => self.rename(event, batch),
            Kind::Mkdir => drop(self.push(
                event,
                batch,
                BurstOperation::at(event, Some(StepKind::of(Operation::Mkdir, 0))),
            )),
            Kind::Rmdir => drop(self.push(
                event,
                batch,
                BurstOperation::at(event, Some(StepKind::of(Operation::Rmdir, 0))),
            )),
            kind => {
                if let Some(act) = Operation::of_control_call(kind) {
                    self.control_call(act, event, batch);
                }
            }
        }
    }

    /// Adds a control call. It neither makes a file known nor counts as a use of it: the classes
    /// are those of files that are opened.
    fn control_call(&mut self, act: Operation, event: &Event, batch: &Batch) {
        let known = self.files.get(&event.file);
        let class =
            known.map_or_else(|| self.classes.near(Observation::new(event, batch)), |file| file.class);
        let mut operation = BurstOperation::at(event, Some(StepKind::of(act, class)));
        // Serial numbers are small: those of unknown files count from the other end.
        operation.serial = known.map_or(!event.file.inode, |file| file.serial);
        operation.class = Some(class);
        operation.failed = event.flags.has(Flags::FAILED);
        self.push(event, batch, operation);
    }

    /// Registers the file of an event if it is not known yet.
    fn register(&mut self, event: &Event, batch: &Batch) {
        let observation = Observation::new(event, batch);
        if observation.made {
            self.forget(event.file);
        } else if self.files.contains_key(&event.file) {
            return;
        }
        let class = self.classes.of(event.file, observation);
        let usage = &mut self.usage[class as usize];
        let key = usage.free.pop().unwrap_or_else(|| {
            usage.keys += 1;
            usage.keys - 1
        });
        if !observation.made {
            usage.before += 1;
            usage.sizes.add(if observation.is_directory { 0 } else { observation.size });
        }
        usage.alive += 1;
        usage.most = usage.most.max(usage.alive);
        self.serial += 1;
        self.files.insert(event.file, KnownFile { class, key, serial: self.serial, records: Vec::new() });
    }

    fn forget(&mut self, file: FileId) {
        let Some(seen) = self.files.remove(&file) else { return };
        let usage = &mut self.usage[seen.class as usize];
        usage.stack.forget(seen.key);
        usage.free.push(seen.key);
        usage.alive -= 1;
    }

    /// Returns the number of the current burst of an event's process; begins a burst if there is
    /// none.
    fn burst(&mut self, event: &Event, batch: &Batch) -> u64 {
        let who = (event.user, event.process);
        if let Some(&number) = self.current.get(&who) {
            let continues = |burst: &Burst| {
                event.time - burst.last <= PAUSE && burst.operations.len() < MAX_OPERATIONS && !burst.over
            };
            if self.bursts.get(&number).is_some_and(continues) {
                return number;
            }
            self.end_burst(number);
        }
        self.begun += 1;
        let program = self.programs.number(batch.names.word(event.command));
        let burst = Burst {
            program,
            account: event.user,
            begin: event.time,
            last: event.time,
            operations: Vec::new(),
            open: 0,
            over: false,
            made: Vec::new(),
            own: Vec::new(),
        };
        self.bursts.insert(self.begun, burst);
        self.current.insert(who, self.begun);
        self.activity.burst(event.user, event.time);
        self.begun
    }

    fn push(&mut self, event: &Event, batch: &Batch, operation: BurstOperation) -> (u64, usize) {
        let number = self.burst(event, batch);
        let burst = self.bursts.get_mut(&number).expect("the burst exists or was just begun");
        burst.last = burst.last.max(event.time);
        burst.operations.push(operation);
        (number, burst.operations.len() - 1)
    }

    fn open(&mut self, event: &Event, batch: &Batch) {
        self.register(event, batch);
        let Some(seen) = self.files.get(&event.file) else { return };
        let usage = &mut self.usage[seen.class as usize];
        let reuse = Reuse::of(usage.stack.access(seen.key));
        let made = event.kind == Kind::Create;
        let mut operation = BurstOperation::at(event, None);
        (operation.serial, operation.class, operation.reuse) =
            (seen.serial, Some(seen.class), (!made).then_some(reuse));
        let serial = seen.serial;
        let (burst, operation) = self.push(event, batch, operation);
        let working = self.bursts.get_mut(&burst).expect("the burst was just extended");
        working.open += 1;
        if made {
            working.made.push(serial);
        }
        let cut = made || event.flags.has(Flags::TRUNCATED);
        let size = if cut { 0 } else { event.size };
        if let Some(lost) = self.follow.take(event.open) {
            let size = lost.tag.size;
            self.finish(lost, size);
        }
        self.follow.event(event, || OpenFile {
            burst,
            operation,
            start: None,
            moved: Runs::default(),
            way: None,
            mixed: false,
            size,
            made,
        });
    }

    /// Processes an event that ends a run.
    fn run(&mut self, event: &Event) {
        match self.follow.event(event, || unreachable!("the event opens no file")) {
            Step::During(access) => access.tag.run(event),
            Step::Closed(mut access) => {
                access.tag.run(event);
                self.finish(access, event.size);
            }
            _ => return,
        }
        if event.bytes() > 0
            && (event.position > 0 || event.flags.has(Flags::WRITE | Flags::READ))
            && let Some(seen) = self.files.get_mut(&event.file)
        {
            let record = event.position / self.classes.infos[seen.class as usize].record;
            let position = seen.records.iter().position(|&known| known == record);
            let reuse = position.map_or(Reuse::First, |position| {
                Reuse::Distance(u32::try_from(position).unwrap_or(u32::MAX))
            });
            self.usage[seen.class as usize].records.add(reuse);
            if let Some(position) = position {
                seen.records[..=position].rotate_right(1);
            } else {
                seen.records.truncate(MAX_RECORDS - 1);
                seen.records.insert(0, record);
            }
        }
    }

    /// Completes the operation of an open file that was closed, or whose close is missing.
    fn finish(&mut self, access: Access<OpenFile>, size: u64) {
        let Some(burst) = self.bursts.get_mut(&access.tag.burst) else { return };
        let operation = &mut burst.operations[access.tag.operation];
        let kind = operation.class.map(|class| kind(&access, class, size));
        operation.kind = kind;
        operation.end = access.last;
        operation.runs = access.runs;
        operation.syncs = access.syncs;
        operation.size = size;
        operation.moved = access.tag.moved;
        if !kind.is_some_and(|kind| matches!(kind.act, Operation::Lookup | Operation::Update)) {
            operation.moved.keep(u64::MAX);
        }
        burst.last = burst.last.max(access.last);
        burst.open -= 1;
        if burst.over && burst.open == 0 {
            self.merge(access.tag.burst);
        }
    }

    fn remove(&mut self, event: &Event, batch: &Batch) {
        self.register(event, batch);
        let Some(seen) = self.files.get(&event.file) else { return };
        let (class, serial) = (seen.class, seen.serial);
        let reuse = Reuse::of(self.usage[class as usize].stack.depth(seen.key));
        let mut operation = BurstOperation::at(event, Some(StepKind::of(Operation::Remove, class)));
        (operation.serial, operation.class, operation.reuse) = (serial, Some(class), Some(reuse));
        let (number, _) = self.push(event, batch, operation);
        self.forget(event.file);
        let burst = self.bursts.get_mut(&number).expect("the burst was just extended");
        if let Some(at) = burst.made.iter().position(|&made| made == serial) {
            burst.made.swap_remove(at);
            burst.own.push(serial);
            // The files that the burst created for itself are gone. End it, so that a command that
            // repeats this becomes as many bursts.
            if burst.made.is_empty() {
                self.end_burst(number);
            }
        }
    }

    fn rename(&mut self, event: &Event, batch: &Batch) {
        self.register(event, batch);
        let Some(seen) = self.files.get(&event.file) else { return };
        let (class, serial) = (seen.class, seen.serial);
        let reuse = Reuse::of(self.usage[class as usize].stack.access(seen.key));
        let mut operation = BurstOperation::at(event, Some(StepKind::of(Operation::Rename, class)));
        (operation.serial, operation.class, operation.reuse) = (serial, Some(class), Some(reuse));
        self.push(event, batch, operation);
    }

    /// Ends a burst; it is merged when its last file is closed.
    fn end_burst(&mut self, number: u64) {
        let Some(burst) = self.bursts.get_mut(&number) else { return };
        burst.over = true;
        if burst.open == 0 {
            self.merge(number);
        }
    }

    /// Ends the bursts of idle processes.
    fn sweep(&mut self, now: i64) {
        let mut idle = Vec::new();
        let bursts = &self.bursts;
        self.current.retain(|_, number| {
            let stays = bursts.get(number).is_some_and(|burst| !burst.over && now - burst.last <= PAUSE);
            if !stays {
                idle.push(*number);
            }
            stays
        });
        for number in idle {
            self.end_burst(number);
        }
    }

    /// Merges a burst whose operations are all complete into the scripts.
    fn merge(&mut self, number: u64) {
        let Some(burst) = self.bursts.remove(&number) else { return };
        let mut script = Script {
            bursts: 1,
            account: Some(burst.account),
            span: (burst.begin, burst.begin),
            ..Script::default()
        };
        let mut times: BTreeMap<StepKind, u64> = BTreeMap::new();
        #[allow(clippy::cast_precision_loss)] // Small numbers.
        let all = burst.operations.len() as f64;
        let (mut seen, mut looked) = (HashSet::new(), HashSet::new());
        // The burst's own files with their classes, most recently used first.
        let mut used: Vec<(usize, u64)> = Vec::new();
        let begins: Vec<i64> = burst.operations.iter().skip(1).map(|operation| operation.begin).collect();
        for ((position, operation), next) in
            (0_u32..).zip(&burst.operations).zip(begins.iter().map(Some).chain([None]))
        {
            let Some(mut kind) = operation.kind else { continue };
            let own = burst.own.contains(&operation.serial);
            // What was only looked at before counts as used before by other looks alone.
            let is_look = kind.act.control_call().is_some();
            let before = seen.contains(&operation.serial) || is_look && looked.contains(&operation.serial);
            if is_look && !operation.failed {
                looked.insert(operation.serial);
            } else if !is_look {
                seen.insert(operation.serial);
            }
            let again = before
                && !operation.failed
                && !own
                && !matches!(kind.act, Operation::Create | Operation::Remove);
            if let Some(class) = operation.class {
                let usage = &mut self.usage[class as usize];
                match kind.act {
                    _ if own => {}
                    Operation::Remove => {
                        operation.reuse.into_iter().for_each(|reuse| usage.removed.add(reuse));
                    }
                    Operation::Truncate => {}
                    Operation::Create => usage.sizes.add(operation.size),
                    _ if again => {}
                    _ => operation.reuse.into_iter().for_each(|reuse| usage.used.add(reuse)),
                }
                if own && kind.act == Operation::Remove {
                    // Commands remove their own files when they end.
                    continue;
                }
                if own {
                    let class = class as usize + self.classes.infos.len();
                    kind.on = u32::try_from(class).expect("classes are few");
                }
                if own && kind.act.control_call().is_none() {
                    let class = kind.on as usize;
                    let usage = &mut self.usage[class];
                    usage.sizes.add(operation.size);
                    let same: Vec<_> = used.iter().filter(|used| used.0 == class).collect();
                    if let Some(distance) = same.iter().position(|used| used.1 == operation.serial) {
                        usage.used.distances.add(distance as u64);
                    }
                    used.retain(|used| used.1 != operation.serial);
                    used.insert(0, (class, operation.serial));
                }
            }
            let runs = operation.runs.max(1);
            let writes = matches!(kind.act, Operation::Create | Operation::Rewrite | Operation::Append);
            let stats = script.steps.entry(kind).or_insert_with(|| StepStats {
                bursts: 1,
                position: f64::from(position) / all,
                ..StepStats::default()
            });
            *times.entry(kind).or_default() += 1;
            stats.again += u64::from(again && operation.class.is_some());
            stats.failed += u64::from(operation.failed);
            stats.runs.add(runs);
            if operation.runs == 0 && kind.act != Operation::Truncate {
                stats.moved.first(0, writes);
            }
            stats.moved.merge(&operation.moved);
            stats.syncs.add(operation.syncs);
            stats.hold.add(u64::try_from(operation.end - operation.begin).unwrap_or(0) / runs);
            if let Some(next) = next {
                stats.gap.add(u64::try_from(next - operation.end).unwrap_or(0));
            }
        }
        for (kind, times) in times {
            script.steps.entry(kind).or_default().times.add(times);
        }
        if !script.steps.is_empty() {
            self.scripts.add(burst.program, &script);
        }
    }

    /// Ends the trace: completes the operations of files that are still open.
    pub fn end(&mut self) {
        let mut open: Vec<u64> = self.follow.still_open().map(|access| access.open).collect();
        open.sort_unstable();
        for number in open {
            if let Some(access) = self.follow.take(number) {
                let size = access.tag.size;
                self.finish(access, size);
            }
        }
        let mut left: Vec<u64> = self.bursts.keys().copied().collect();
        left.sort_unstable();
        for number in left {
            self.end_burst(number);
        }
    }
}
