//! Tests of advice, on small traces for which the right advice is known.

use super::*;
use spindle_synth::{Length, Model, Synthesis};
use spindle_trace::{Batch, Event, FileId, Flags, Kind};

/// Events in memory.
#[derive(Clone, Default)]
struct World {
    events: Vec<Event>,
    now: i64,
    opens: u64,
}

const SECOND: i64 = 1_000_000_000;

impl World {
    fn event(&mut self, kind: Kind, inode: u64, event: Event) {
        self.now += SECOND / 100;
        self.events.push(Event { time: self.now, kind, file: FileId { device: 1, inode }, user: 1, ..event });
    }

    /// Opens a file of `size` bytes, does all of `runs` (position, read, written), makes it durable
    /// if asked to, and closes it with `after` bytes.
    fn access(&mut self, inode: u64, kind: Kind, sizes: (u64, u64), runs: &[(u64, u64, u64)], synced: bool) {
        self.opens += 1;
        let (open, flags) = (self.opens, Flags::READ | Flags::WRITE);
        self.event(kind, inode, Event { open, size: sizes.0, flags, ..Event::default() });
        for &(position, read, written) in runs {
            let calls = u32::try_from((read + written).div_ceil(65536)).unwrap();
            let run = Event { open, flags, position, read, written, calls, ..Event::default() };
            self.event(Kind::Run, inode, run);
        }
        if synced {
            self.event(Kind::Sync, inode, Event { open, ..Event::default() });
        }
        self.event(Kind::Close, inode, Event { open, size: sizes.1, flags, ..Event::default() });
    }

    fn read(&mut self, inode: u64, size: u64) {
        self.access(inode, Kind::Open, (size, size), &[(0, size, 0)], false);
    }

    fn make(&mut self, inode: u64, size: u64, synced: bool) {
        self.access(inode, Kind::Create, (0, size), &[(0, 0, size)], synced);
    }

    fn window(&self, bounds: Bounds) -> Result<Window> {
        Window::of(&|| self.source(), bounds, &|_| ())
    }

    #[allow(clippy::unnecessary_wraps)] // As the opening of a file.
    fn source(&self) -> spindle_trace::Result<Box<dyn Source>> {
        Ok(Box::new(Batch { events: self.events.clone(), ..Batch::default() }))
    }

    fn advice(&self, wanted: &Wanted) -> Advice {
        advise(wanted, &|| self.source(), &|_, _| ()).unwrap()
    }

    fn ranked(&self, wanted: &Wanted) -> Ranked {
        match self.advice(wanted).answer {
            Answer::Ranked(ranked) => *ranked,
            Answer::TooSmall(why) => panic!("{why}"),
        }
    }
}

/// Returns a wish for UFS on a disk.
fn on(disk: &str) -> Wanted {
    Wanted { disk: disk.into(), only_ufs: true, ..Wanted::default() }
}

/// Returns the layout that is advised: block, fragment and density in bytes.
fn layout(ranked: &Ranked) -> (u32, u32, u32) {
    match ranked.advised.candidate.layout {
        Layout::Ufs { block_bytes, fragment_bytes, density_bytes, .. } => {
            (block_bytes, fragment_bytes, density_bytes)
        }
        Layout::Mfs { .. } => panic!("{:?}", ranked.advised),
    }
}

fn names(ranked: &Ranked) -> Vec<&str> {
    ranked.ranking.iter().map(|tried| tried.name.as_str()).collect()
}

/// Promise: for many tiny files fragments are small and inodes dense, so that several times as many
/// fit as by default; an inode for every MiB cannot even carry the load.
#[test]
fn tiny_files() {
    let mut world = World::default();
    (1..=2000).for_each(|n| world.make(n, 700, false));
    let ranked = world.ranked(&on("nvme"));
    let (_, fragment, density) = layout(&ranked);
    assert!(fragment <= 1024 && density <= 2048, "{ranked:?}");
    let space = |tried: &Tried| tried.prediction.space.unwrap().fits_bytes;
    let usual = ranked.ranking.iter().find(|tried| tried.name == "default").unwrap();
    assert!(space(&ranked.advised) > 3 * space(usual), "{ranked:?}");
    assert!(ranked.failed.iter().any(|failed| failed.name.ends_with("-i 1m")), "{:?}", ranked.failed);
    assert!(ranked.commands.newfs.contains(&format!("-f {fragment} -i {density}")), "{:?}", ranked.commands);
}

/// Promise: for large files in sequence, a disk that turns wants clusters: without, all is slower,
/// and it is not advised; inodes are sparser than by default, as they would only take space.
#[test]
fn large_files() {
    let mut world = World::default();
    for _ in 0..4 {
        (1..=100).for_each(|n| world.read(n, 1 << 20));
    }
    let ranked = world.ranked(&Wanted { memory: 16 << 20, ..on("nearline-20tb") });
    assert!(ranked.advised.candidate.cluster_bytes >= 256 << 10, "{:?}", ranked.advised);
    let (_, _, density) = layout(&ranked);
    assert!(density > 8 << 10, "{:?}", ranked.advised);
    let single = |tried: &&Tried| tried.candidate.cluster_blocks() == 1;
    let single = ranked.ranking.iter().find(single).unwrap();
    assert!(single.times_default < 0.9 * ranked.advised.times_default, "{single:?}");
}

/// Promise: programs that make each file durable want the log: without it, and with synchronous
/// names, they are slower; what loses more in a crash is shown, and says so.
#[test]
fn durable_files() {
    let mut world = World::default();
    (1..=400).for_each(|n| world.make(n, 1000, true));
    let ranked = world.ranked(&on("nearline-20tb"));
    assert_eq!(ranked.advised.candidate.names, Names::Logged);
    for (names, is_advisable) in [(Names::Synchronous, true), (Names::Unordered, false)] {
        let tried = ranked.ranking.iter().find(|tried| tried.candidate.names == names).unwrap();
        assert!(tried.rank > ranked.advised.rank, "{tried:?}");
        assert_eq!(tried.but.is_none(), is_advisable, "{tried:?}");
    }
}

/// Promise: how much memory is enough is found: that of the files which are read again and again.
#[test]
fn memory_that_is_enough() {
    let mut world = World::default();
    for _ in 0..20 {
        (1..=24).for_each(|n| world.read(n, 1 << 20));
    }
    let ranked = world.ranked(&on("nearline-20tb"));
    let memory = ranked.verdicts.iter().find(|verdict| verdict.property == "memory").unwrap();
    assert_eq!(memory.advice, "64 MiB", "{memory:?}");
    assert!(memory.because.contains("speed relative to it: 4 MiB 0"), "{memory:?}");
}

/// Promise: a second disk is tried if there is one, and only then.
#[test]
fn second_disks() {
    let mut world = World::default();
    (1..=400).for_each(|n| world.make(n, 1000, true));
    let apart = |ranked: &Ranked| names(ranked).iter().filter(|name| name.contains("second disk")).count();
    assert_eq!(apart(&world.ranked(&on("nearline-20tb"))), 0);
    let ranked =
        world.ranked(&Wanted { second: Some("nvme".into()), only_ufs: false, ..on("nearline-20tb") });
    assert!(apart(&ranked) >= 2, "{:?}", names(&ranked));
    // The log alone decides how long a sync takes, so one on flash is best.
    assert!(ranked.advised.name.contains("second disk") && ranked.advised.times_default > 2.0, "{ranked:?}");
    assert!(ranked.commands.newfs.contains("--log SECOND"), "{:?}", ranked.commands);
}

/// Promise: a trace that is too small gets that answer, with how small, and no ranking.
#[test]
fn too_small() {
    let mut world = World::default();
    for events in [0, 100] {
        (0..events / 4).for_each(|n| world.make(n + 1, 1000, true));
        let advice = world.advice(&on("nvme"));
        let Answer::TooSmall(why) = &advice.answer else { panic!("{advice:?}") };
        assert!(why.contains(&format!("has {events} events")), "{why}");
        let section = section(&advice);
        assert!(section.outcome.tables.is_empty() && section.outcome.findings.len() == 1);
    }
}

/// Promise: what was only mapped into memory carries no advice, however much it was; it is said.
#[test]
fn mapped_bytes_advise_nothing() {
    let mut world = World::default();
    (1..=400).for_each(|n| world.make(n, 3000, false));
    let before = world.advice(&on("nvme"));
    let flags = Flags::READ | Flags::MAPPED;
    for _ in 0..3 {
        world.event(Kind::Run, 1, Event { flags, read: 300 << 30, ..Event::default() });
    }
    let after = world.advice(&on("nvme"));
    let name = |advice: &Advice| match &advice.answer {
        Answer::Ranked(ranked) => (ranked.advised.name.clone(), ranked.commands.clone()),
        Answer::TooSmall(why) => panic!("{why}"),
    };
    assert_eq!(name(&before), name(&after));
    assert_eq!((before.basis.bytes_mapped, after.basis.bytes_mapped), (0, 900 << 30));
}

/// Promise: the same trace gives the same advice to the byte.
#[test]
fn advice_repeats() {
    let open = || {
        let model = Model::parse(Model::built_in("a5").unwrap_or_default(), "a5")?;
        Ok::<Box<dyn Source>, _>(Box::new(Synthesis::new(model, Length::Events(3000), 5)))
    };
    let advice = || serde_json::to_string(&advise(&Wanted::default(), &open, &|_, _| ()).unwrap()).unwrap();
    assert_eq!(advice(), advice());
}

/// Promise: a window is the stretch that is like the whole, not the unusual one, and has no more
/// than its bounds.
#[test]
fn windows_are_like_the_whole() {
    let mut world = World::default();
    (1..=100).for_each(|n| world.make(n, 50 << 20, true));
    for _ in 0..10 {
        (1..=100).for_each(|n| world.read(200 + n, 5000));
    }
    let bounds = Bounds { events: 400, ..Bounds::default() };
    let window = world.window(bounds).unwrap();
    assert_eq!(window.events.len(), 400);
    assert!(window.basis.first_event >= 400, "{:?}", window.basis);
    assert!(window.events.iter().all(|event| event.kind != Kind::Create));
}

/// Promise: no trace makes advice panic or take forever: sizes, places, times, counts and kinds at
/// their extremes are cut to bounds, and requests of disks are refused.
#[test]
fn hostile_traces() {
    let extremes = [0, 1, 4095, 1 << 40, u64::MAX / 2, u64::MAX];
    let times = [i64::MIN, -1, 0, 1, i64::MAX];
    let mut world = World::default();
    let mut turn = 0_usize;
    let mut next = |of: usize| {
        turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (turn >> 33) % of
    };
    for _ in 0..4000 {
        let [size, position, bytes] = [(); 3].map(|()| extremes[next(extremes.len())]);
        let (read, written) = if next(2) == 0 { (bytes, 0) } else { (0, bytes) };
        let event = Event {
            size,
            position,
            read,
            written,
            calls: [0, 1, u32::MAX][next(3)],
            open: next(5) as u64,
            flags: Flags(u32::try_from(next(1 << 14)).unwrap()),
            ..Event::default()
        };
        let kind = Kind::ALL[next(Kind::ALL.len())];
        world.event(kind, next(30) as u64, event);
        world.events.last_mut().unwrap().time = times[next(times.len())];
    }
    let bounds = Bounds { files: 64 << 20, moved: 64 << 20, calls: 20_000, ..Bounds::default() };
    let window = world.window(bounds).unwrap();
    assert!(window.population.space() <= bounds.files.max(64 << 10) * 31, "{:?}", window.basis);
    // An error names what does not work; no more is asked of such a trace.
    let wanted = Wanted { bounds, ..on("nvme") };
    if let Ok(Advice { answer: Answer::Ranked(ranked), .. }) = advise(&wanted, &|| world.source(), &|_, _| ())
    {
        assert!(!ranked.ranking.is_empty());
    }
    let mut disk = World::default();
    for n in 0..2000 {
        disk.event(Kind::Run, 0, Event { position: n * 8192, written: 8192, ..Event::default() });
    }
    let refused = advise(&on("nvme"), &|| disk.source(), &|_, _| ()).unwrap_err();
    assert!(refused.to_string().contains("trace of disks"), "{refused}");
    let none = advise(&on("none"), &|| world.source(), &|_, _| ()).unwrap_err();
    assert!(none.to_string().contains("none"), "{none}");
}
