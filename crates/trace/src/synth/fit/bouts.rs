//! The second pass: what each process does in a bout, and in which order files come back.

use super::super::model::{Act, Way};
use super::population::{Classes, Sight};
use super::scripts::{Deed, Manner, Run, Runs, Script, Scripts};
use super::sketch::Sketch;
use super::users::Watch;
use crate::curve::Stack;
use crate::follow::{Access, Follow, Mode, Pattern, Step};
use crate::{Batch, Event, FileId, Flags, Kind};
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A process that did nothing for so long, in ns, begins a new bout.
const PAUSE: i64 = 5_000_000_000;
/// Most deeds of a bout.
const LONGEST: usize = 64;
/// Events after which bouts of processes that are gone are looked for.
const SWEEP: u64 = 1 << 14;
/// Records of a file whose order is known.
const RECORDS: usize = 1 << 12;

/// Which one of some things was used: how many others since it was, or one that never was.
#[derive(Clone, Copy, Debug)]
enum Rank {
    Again(u32),
    Fresh,
}

impl Rank {
    /// By its depth in a [`Stack`], where the one that was used last has 1.
    fn of(depth: Option<u32>) -> Self {
        depth.map_or(Self::Fresh, |depth| Self::Again(depth - 1))
    }
}

/// How things come back.
#[derive(Clone, Debug, Default)]
pub struct Ranks {
    /// Of those that do.
    pub again: Sketch,
    /// Those that were not used before.
    pub fresh: u64,
}

impl Ranks {
    fn add(&mut self, rank: Rank) {
        match rank {
            Rank::Again(rank) => self.again.add(rank.into()),
            Rank::Fresh => self.fresh += 1,
        }
    }

    /// Returns how many uses were counted.
    pub fn count(&self) -> u64 {
        self.again.count() + self.fresh
    }
}

/// What is measured of a class.
#[derive(Debug, Default)]
pub struct Usage {
    /// Files that were there before.
    pub before: u64,
    /// The most that were there at once, and are now.
    pub most: u64,
    alive: u64,
    /// Their sizes; of those that were made, at the close.
    pub sizes: Sketch,
    /// Which is used next.
    pub used: Ranks,
    /// Which is removed next.
    pub removed: Ranks,
    /// Which record is used next.
    pub records: Ranks,
    stack: Stack,
    keys: u32,
    free: Vec<u32>,
}

/// A file of the trace.
struct Seen {
    class: u32,
    /// Its number in the stack of its class.
    key: u32,
    /// No other file ever has it.
    serial: u64,
    /// Records in the order of their last use.
    records: Vec<u64>,
}

/// An open file: the bout and the deed that it belongs to.
struct Tag {
    bout: u64,
    deed: usize,
    start: Option<u64>,
    moved: Runs,
    /// How bytes were reached; nothing as long as there are none.
    way: Option<Way>,
    /// In different ways.
    mixed: bool,
    size: u64,
    made: bool,
}

/// Something that a process did.
struct Done {
    /// What it was; not known while a file is open.
    deed: Option<Deed>,
    serial: u64,
    class: Option<u32>,
    rank: Option<Rank>,
    begin: i64,
    end: i64,
    moved: Runs,
    runs: u64,
    syncs: u64,
    /// Bytes of the file afterwards.
    size: u64,
}

/// What a process did without a pause.
struct Bout {
    program: u32,
    account: u32,
    begin: i64,
    last: i64,
    done: Vec<Done>,
    /// Files that are open still.
    open: usize,
    /// Nothing is added any more.
    over: bool,
    /// Files that it made, and that are there; and those that it removed again.
    made: Vec<u64>,
    own: Vec<u64>,
}

/// Programs by number, with the bytes of their files.
#[derive(Debug, Default)]
pub struct Programs {
    numbers: HashMap<String, u32, RandomState>,
    /// Name and bytes.
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
    /// By class; behind them again as many, of files that commands made for themselves.
    pub usage: Vec<Usage>,
    files: HashMap<FileId, Seen, RandomState>,
    serial: u64,
    follow: Follow<Tag>,
    bouts: HashMap<u64, Bout, RandomState>,
    current: BTreeMap<(u32, u32), u64>,
    begun: u64,
    events: u64,
    /// Programs.
    pub programs: Programs,
    /// What bouts did.
    pub scripts: Scripts,
    /// Who did it.
    pub watch: Watch,
}

impl<'a> Pass<'a> {
    /// Over these classes.
    pub fn new(classes: &'a Classes) -> Self {
        Self {
            classes,
            usage: std::iter::repeat_with(Usage::default).take(2 * classes.shapes.len()).collect(),
            files: HashMap::default(),
            serial: 0,
            follow: Follow::default(),
            bouts: HashMap::default(),
            current: BTreeMap::new(),
            begun: 0,
            events: 0,
            programs: Programs::default(),
            scripts: Scripts::default(),
            watch: Watch::default(),
        }
    }

    /// Takes an event.
    pub fn event(&mut self, event: &Event, batch: &Batch) {
        self.watch.time(event.time);
        self.events += 1;
        if self.events.is_multiple_of(SWEEP) {
            self.sweep(event.time);
        }
        match event.kind {
            Kind::Open | Kind::Create if event.open != 0 => self.opened(event, batch),
            Kind::Close | Kind::Seek | Kind::Run | Kind::Sync => self.run(event),
            Kind::Unlink if event.flags.has(Flags::LAST) => self.removed(event, batch),
            Kind::Truncate => {
                self.see(event, batch);
                let Some(seen) = self.files.get(&event.file) else { return };
                let deed = Deed { whole: false, ..Deed::of(Act::Truncate, seen.class) };
                let mut done = Done::at(event, Some(deed));
                (done.serial, done.class) = (seen.serial, Some(seen.class));
                done.moved.first(event.size, true);
                self.push(event, batch, done);
            }
            Kind::Exec => {
                let path = batch.names.word(event.path);
                let name = match batch.names.word(event.command) {
                    "" => path.rsplit_once('/').map_or(path, |parts| parts.1),
                    name => name,
                };
                let on = self.programs.number(name);
                self.programs.all[on as usize].1 = event.size;
                self.push(event, batch, Done::at(event, Some(Deed::of(Act::Exec, on))));
            }
            Kind::Rename => self.renamed(event, batch),
            Kind::Mkdir => drop(self.push(event, batch, Done::at(event, Some(Deed::of(Act::Mkdir, 0))))),
            Kind::Rmdir => drop(self.push(event, batch, Done::at(event, Some(Deed::of(Act::Rmdir, 0))))),
            _ => {}
        }
    }

    /// Makes sure that a file that an event names is known.
    fn see(&mut self, event: &Event, batch: &Batch) {
        let sight = Sight::new(event, batch);
        if sight.made {
            self.forget(event.file);
        } else if self.files.contains_key(&event.file) {
            return;
        }
        let class = self.classes.of(event.file, sight);
        let usage = &mut self.usage[class as usize];
        let key = usage.free.pop().unwrap_or_else(|| {
            usage.keys += 1;
            usage.keys - 1
        });
        if !sight.made {
            usage.before += 1;
            usage.sizes.add(if sight.folder { 0 } else { sight.size });
        }
        usage.alive += 1;
        usage.most = usage.most.max(usage.alive);
        self.serial += 1;
        self.files.insert(event.file, Seen { class, key, serial: self.serial, records: Vec::new() });
    }

    fn forget(&mut self, file: FileId) {
        let Some(seen) = self.files.remove(&file) else { return };
        let usage = &mut self.usage[seen.class as usize];
        usage.stack.forget(seen.key);
        usage.free.push(seen.key);
        usage.alive -= 1;
    }

    /// Returns the bout of an event's process.
    fn bout(&mut self, event: &Event, batch: &Batch) -> u64 {
        let who = (event.user, event.process);
        if let Some(&number) = self.current.get(&who) {
            let goes_on =
                |bout: &Bout| event.time - bout.last <= PAUSE && bout.done.len() < LONGEST && !bout.over;
            if self.bouts.get(&number).is_some_and(goes_on) {
                return number;
            }
            self.cut(number);
        }
        self.begun += 1;
        let program = self.programs.number(batch.names.word(event.command));
        let bout = Bout {
            program,
            account: event.user,
            begin: event.time,
            last: event.time,
            done: Vec::new(),
            open: 0,
            over: false,
            made: Vec::new(),
            own: Vec::new(),
        };
        self.bouts.insert(self.begun, bout);
        self.current.insert(who, self.begun);
        self.watch.bout(event.user, event.time);
        self.begun
    }

    fn push(&mut self, event: &Event, batch: &Batch, done: Done) -> (u64, usize) {
        let number = self.bout(event, batch);
        let bout = self.bouts.get_mut(&number).expect("it was found, or made");
        bout.last = bout.last.max(event.time);
        bout.done.push(done);
        (number, bout.done.len() - 1)
    }

    fn opened(&mut self, event: &Event, batch: &Batch) {
        self.see(event, batch);
        let Some(seen) = self.files.get(&event.file) else { return };
        let usage = &mut self.usage[seen.class as usize];
        let rank = Rank::of(usage.stack.access(seen.key));
        let made = event.kind == Kind::Create;
        let mut done = Done::at(event, None);
        (done.serial, done.class, done.rank) = (seen.serial, Some(seen.class), (!made).then_some(rank));
        let serial = seen.serial;
        let (bout, deed) = self.push(event, batch, done);
        let working = self.bouts.get_mut(&bout).expect("it was pushed to");
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
        self.follow.event(event, || Tag {
            bout,
            deed,
            start: None,
            moved: Runs::default(),
            way: None,
            mixed: false,
            size,
            made,
        });
    }

    /// Takes what ends a run.
    fn run(&mut self, event: &Event) {
        match self.follow.event(event, || unreachable!("nothing is opened")) {
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
            let record = event.position / self.classes.shapes[seen.class as usize].record;
            let place = seen.records.iter().position(|&known| known == record);
            let rank =
                place.map_or(Rank::Fresh, |place| Rank::Again(u32::try_from(place).unwrap_or(u32::MAX)));
            self.usage[seen.class as usize].records.add(rank);
            if let Some(place) = place {
                seen.records[..=place].rotate_right(1);
            } else {
                seen.records.truncate(RECORDS - 1);
                seen.records.insert(0, record);
            }
        }
    }

    /// A file is closed, or will not be.
    fn finish(&mut self, access: Access<Tag>, size: u64) {
        let Some(bout) = self.bouts.get_mut(&access.tag.bout) else { return };
        let done = &mut bout.done[access.tag.deed];
        let deed = done.class.map(|class| deed(&access, class, size));
        done.deed = deed;
        done.end = access.last;
        done.runs = access.runs;
        done.syncs = access.syncs;
        done.size = size;
        done.moved = access.tag.moved;
        if !deed.is_some_and(|deed| matches!(deed.act, Act::Lookup | Act::Update)) {
            done.moved.keep(u64::MAX);
        }
        bout.last = bout.last.max(access.last);
        bout.open -= 1;
        if bout.over && bout.open == 0 {
            self.close(access.tag.bout);
        }
    }

    fn removed(&mut self, event: &Event, batch: &Batch) {
        self.see(event, batch);
        let Some(seen) = self.files.get(&event.file) else { return };
        let (class, serial) = (seen.class, seen.serial);
        let rank = Rank::of(self.usage[class as usize].stack.depth(seen.key));
        let mut done = Done::at(event, Some(Deed::of(Act::Remove, class)));
        (done.serial, done.class, done.rank) = (serial, Some(class), Some(rank));
        let (number, _) = self.push(event, batch, done);
        self.forget(event.file);
        let bout = self.bouts.get_mut(&number).expect("it was pushed to");
        if let Some(at) = bout.made.iter().position(|&made| made == serial) {
            bout.made.swap_remove(at);
            bout.own.push(serial);
            // What it made for itself is gone: a command that does this again and again does it in
            // as many bouts.
            if bout.made.is_empty() {
                self.cut(number);
            }
        }
    }

    fn renamed(&mut self, event: &Event, batch: &Batch) {
        self.see(event, batch);
        let Some(seen) = self.files.get(&event.file) else { return };
        let (class, serial) = (seen.class, seen.serial);
        let rank = Rank::of(self.usage[class as usize].stack.access(seen.key));
        let mut done = Done::at(event, Some(Deed::of(Act::Rename, class)));
        (done.serial, done.class, done.rank) = (serial, Some(class), Some(rank));
        self.push(event, batch, done);
    }

    /// Ends a bout.
    fn cut(&mut self, number: u64) {
        let Some(bout) = self.bouts.get_mut(&number) else { return };
        bout.over = true;
        if bout.open == 0 {
            self.close(number);
        }
    }

    /// Cuts the bouts of processes that do nothing any more.
    fn sweep(&mut self, now: i64) {
        let mut idle = Vec::new();
        let bouts = &self.bouts;
        self.current.retain(|_, number| {
            let stays = bouts.get(number).is_some_and(|bout| !bout.over && now - bout.last <= PAUSE);
            if !stays {
                idle.push(*number);
            }
            stays
        });
        for number in idle {
            self.cut(number);
        }
    }

    /// Takes what a bout did, when all of it is known.
    fn close(&mut self, number: u64) {
        let Some(bout) = self.bouts.remove(&number) else { return };
        let mut script = Script {
            bouts: 1,
            account: Some(bout.account),
            span: (bout.begin, bout.begin),
            ..Script::default()
        };
        let mut times: BTreeMap<Deed, u64> = BTreeMap::new();
        #[allow(clippy::cast_precision_loss)] // Places are few.
        let all = bout.done.len() as f64;
        let mut seen = HashSet::new();
        // Its own files, the last used in front, with their classes.
        let mut used: Vec<(usize, u64)> = Vec::new();
        let begins: Vec<i64> = bout.done.iter().skip(1).map(|done| done.begin).collect();
        for ((place, done), next) in (0_u32..).zip(&bout.done).zip(begins.iter().map(Some).chain([None])) {
            let Some(mut deed) = done.deed else { continue };
            let own = bout.own.contains(&done.serial);
            let again = !seen.insert(done.serial) && !own && !matches!(deed.act, Act::Create | Act::Remove);
            if let Some(class) = done.class {
                let usage = &mut self.usage[class as usize];
                match deed.act {
                    _ if own => {}
                    Act::Remove => done.rank.into_iter().for_each(|rank| usage.removed.add(rank)),
                    Act::Truncate => {}
                    Act::Create => usage.sizes.add(done.size),
                    _ if again => {}
                    _ => done.rank.into_iter().for_each(|rank| usage.used.add(rank)),
                }
                if own && deed.act == Act::Remove {
                    // Commands remove what is their own when they end.
                    continue;
                }
                if own {
                    let class = class as usize + self.classes.shapes.len();
                    deed.on = u32::try_from(class).expect("classes are few");
                    let usage = &mut self.usage[class];
                    usage.sizes.add(done.size);
                    let same: Vec<_> = used.iter().filter(|used| used.0 == class).collect();
                    if let Some(rank) = same.iter().position(|used| used.1 == done.serial) {
                        usage.used.again.add(rank as u64);
                    }
                    used.retain(|used| used.1 != done.serial);
                    used.insert(0, (class, done.serial));
                }
            }
            let runs = done.runs.max(1);
            let writes = matches!(deed.act, Act::Create | Act::Rewrite | Act::Append);
            let manner = script.deeds.entry(deed).or_insert_with(|| Manner {
                bouts: 1,
                place: f64::from(place) / all,
                ..Manner::default()
            });
            *times.entry(deed).or_default() += 1;
            manner.again += u64::from(again && done.class.is_some());
            manner.runs.add(runs);
            if done.runs == 0 && deed.act != Act::Truncate {
                manner.moved.first(0, writes);
            }
            manner.moved.merge(&done.moved);
            manner.syncs.add(done.syncs);
            manner.hold.add(u64::try_from(done.end - done.begin).unwrap_or(0) / runs);
            if let Some(next) = next {
                manner.gap.add(u64::try_from(next - done.end).unwrap_or(0));
            }
        }
        for (deed, times) in times {
            script.deeds.entry(deed).or_default().times.add(times);
        }
        if !script.deeds.is_empty() {
            self.scripts.add(bout.program, &script);
        }
    }

    /// The trace is over: what is open is taken as it is.
    pub fn end(&mut self) {
        let mut open: Vec<u64> = self.follow.left().map(|access| access.open).collect();
        open.sort_unstable();
        for number in open {
            if let Some(access) = self.follow.take(number) {
                let size = access.tag.size;
                self.finish(access, size);
            }
        }
        let mut left: Vec<u64> = self.bouts.keys().copied().collect();
        left.sort_unstable();
        for number in left {
            self.cut(number);
        }
    }
}

impl Done {
    fn at(event: &Event, deed: Option<Deed>) -> Self {
        Self {
            deed,
            serial: 0,
            class: None,
            rank: None,
            begin: event.time,
            end: event.time,
            moved: Runs::default(),
            runs: 0,
            syncs: 0,
            size: 0,
        }
    }
}

impl Tag {
    fn run(&mut self, event: &Event) {
        if event.bytes() == 0 {
            return;
        }
        let way = match event.flags {
            flags if flags.has(Flags::MAPPED) => Way::Mapped,
            flags if flags.has(Flags::POSITIONAL) => Way::Positional,
            _ => Way::Calls,
        };
        self.mixed |= self.way.is_some_and(|known| known != way);
        self.way = Some(way);
        let writes = event.written > 0;
        let grows = writes && event.position >= self.size;
        let run = Run { at: event.position, bytes: event.bytes(), writes, grows, way };
        if self.start.is_none() && self.made {
            self.moved.first(event.bytes(), writes);
        } else {
            self.moved.add(run, 1, true);
        }
        self.start.get_or_insert(event.position);
        if writes {
            self.size = self.size.max(event.end());
        }
    }
}

/// Returns what was done with an open file of a class that had `size` bytes at its close.
fn deed(access: &Access<Tag>, class: u32, size: u64) -> Deed {
    let both = access.mode() == Mode::Both;
    let pattern = access.pattern(size);
    let start = access.tag.start.unwrap_or(0);
    let in_order = pattern != Pattern::Random;
    let (mut act, mut whole) = (Act::Read, false);
    if access.created {
        act = Act::Create;
    } else if access.flags.has(Flags::TRUNCATED) {
        act = Act::Rewrite;
    } else if access.flags.has(Flags::DIRECTORY) {
        whole = true;
    } else if access.written > 0 {
        let appends = access.read == 0 && in_order && start >= access.size;
        act = if appends { Act::Append } else { Act::Update };
    } else if access.runs > 0 && !(in_order && start == 0) {
        act = Act::Lookup;
    } else {
        whole = pattern == Pattern::Whole;
    }
    let way = access.tag.way.filter(|_| !access.tag.mixed).unwrap_or_default();
    Deed { act, on: class, both, whole, way }
}
