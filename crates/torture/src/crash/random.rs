//! Long random workloads: more files, several commits, a log that wraps around many times, and
//! disks that are nearly full.

use super::images;
use super::operation::{Driver, Op, Step, Sync};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use spindle_vfs::{FallocateMode, FileKind, Limits, RenameMode};

/// Directories of the files.
const DIRS: [&str; 6] = ["", "A/", "B/", "D/", "A/C/", "newdir/"];
const NAMES: [&str; 8] = ["foo", "bar", "x", "sparse", "new", "tmp", "C", "a-name-that-is-somewhat-longer"];
const XATTRS: [&str; 3] = ["user.a", "user.b", "user.longer-name"];
/// Offsets are often near these.
const BORDERS: [u64; 7] = [0, 512, 1024, 4096, 8192, 49_152, 98_304];
/// Bytes of the file that nearly fills the file system; it is written in pieces.
const BALLAST: std::ops::Range<u64> = 500_000..800_000;
const BALLAST_PIECE: u64 = 60_000;

/// What a random workload has besides operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing.
    Plain,
    /// A first file that nearly fills the file system.
    Full,
    /// Snapshots, at most two at a time, that are made and removed, some of them while they are
    /// open.
    Snapshots,
}

/// Makes random operations.
struct Generator {
    rng: SmallRng,
    /// The snapshots that there are, and how many have been made.
    snapshots: Vec<String>,
    made: usize,
}

impl Generator {
    fn path(&mut self) -> String {
        let dir = if self.rng.random_bool(0.5) { "" } else { DIRS.choose(&mut self.rng).expect("dirs") };
        let name = NAMES.choose(&mut self.rng).expect("names");
        format!("{dir}{name}")
    }

    fn dir(&mut self) -> String {
        let dirs = ["A", "B", "D", "A/C", "B/C", "newdir", "A/newdir"];
        (*dirs.choose(&mut self.rng).expect("dirs")).to_owned()
    }

    fn offset(&mut self) -> u64 {
        if self.rng.random_bool(0.2) {
            return self.rng.random_range(0..120_000);
        }
        let border = *BORDERS.choose(&mut self.rng).expect("borders");
        (border + self.rng.random_range(0..600)).saturating_sub(300)
    }

    fn len(&mut self) -> u64 {
        let most = *[200, 3000, 9000, 30_000].choose(&mut self.rng).expect("lengths");
        self.rng.random_range(1..most)
    }

    fn op(&mut self) -> Op {
        use FallocateMode::{Allocate, PunchHole, ZeroRange};
        let path = self.path();
        match self.rng.random_range(0..100) {
            0..14 => Op::Create(path, FileKind::Regular),
            14..20 => Op::Create(self.dir(), FileKind::Directory),
            20..23 => Op::Symlink(path, self.rng.random_range(1..900)),
            23..28 => Op::Link(path, self.path()),
            28..37 => Op::Unlink(path),
            37..40 => Op::Rmdir(self.dir()),
            40..46 => Op::Rename(path, self.path(), RenameMode::Replace),
            46..49 => Op::Rename(self.dir(), self.dir(), RenameMode::Replace),
            49..51 => Op::Rename(path, self.path(), RenameMode::Exchange),
            51 => Op::Rename(path, self.path(), RenameMode::Whiteout { uid: 7, gid: 8 }),
            52..60 => Op::Truncate(path, self.offset()),
            60..83 => Op::Write(path, self.offset(), usize::try_from(self.len()).unwrap_or(1)),
            83..88 => {
                let keep_size = false;
                let modes = [Allocate { keep_size }, PunchHole, ZeroRange { keep_size }];
                let mode = *modes.choose(&mut self.rng).expect("modes");
                Op::Fallocate(path, mode, self.offset(), self.len())
            }
            88..90 => Op::Chmod(path, self.rng.random_range(0..=0o777)),
            90..92 => Op::Chown(path, self.rng.random_range(0..99), self.rng.random_range(0..99)),
            92..95 => Op::SetXattr(
                path,
                XATTRS.choose(&mut self.rng).expect("names"),
                self.rng.random_range(0..400),
            ),
            95..97 => Op::RemoveXattr(path, XATTRS.choose(&mut self.rng).expect("names")),
            97 => Op::Open(path, "#h".into()),
            98 => Op::Trim,
            _ => Op::Close("#h".into()),
        }
    }

    /// Returns operations that make a snapshot or remove one.
    fn change_snapshots(&mut self) -> Vec<Op> {
        if self.snapshots.len() < 2 && (self.snapshots.is_empty() || self.rng.random()) {
            // Where nothing else moves it.
            let name = format!("snapshot{}", self.made);
            self.made += 1;
            self.snapshots.push(name.clone());
            return self.around(Op::MakeSnapshot(name));
        }
        let nth = self.rng.random_range(0..self.snapshots.len());
        let name = self.snapshots.remove(nth);
        if self.rng.random() {
            return vec![Op::Unlink(name)];
        }
        let held = || "#snapshot".to_owned();
        let mut ops = vec![Op::Open(name.clone(), held()), Op::Unlink(name)];
        ops.extend((0..3).map(|_| Op::Write("foo".into(), self.offset(), 5000)));
        ops.push(Op::Close(held()));
        ops
    }

    /// Returns the making of a snapshot, mostly of small files that share blocks, of which one is
    /// removed and others are written over afterwards.
    fn around(&mut self, make: Op) -> Vec<Op> {
        let names: Vec<_> = (0..4).map(|n| format!("small{}-{n}", self.made)).collect();
        let write = |name: &String| Op::Write(name.clone(), 0, 400);
        let mut ops = Vec::new();
        if self.rng.random_bool(0.7) {
            ops.extend(
                names.iter().flat_map(|name| [Op::Create(name.clone(), FileKind::Regular), write(name)]),
            );
        }
        ops.push(make);
        if self.rng.random_bool(0.7) {
            ops.push(Op::Unlink(names[self.rng.random_range(0..4)].clone()));
            ops.extend(names.iter().map(write));
        }
        ops
    }

    fn sync(&mut self) -> Sync {
        match self.rng.random_range(0..20) {
            0..9 => Sync::None,
            9..15 => Sync::Fsync,
            15..18 => Sync::Fdatasync,
            _ => Sync::All,
        }
    }
}

/// Returns the steps for a seed.
pub(super) fn steps(seed: u64, limits: &Limits, kind: Kind) -> Vec<Step> {
    let rng = SmallRng::seed_from_u64(seed);
    let mut generator = Generator { rng, snapshots: Vec::new(), made: 0 };
    let model = images::model(limits, images::clock());
    let mut driver = Driver::new(&model);
    let mut steps = Vec::new();
    if kind == Kind::Full {
        let size = generator.rng.random_range(BALLAST);
        steps.push(Op::Create("ballast".into(), FileKind::Regular));
        steps.extend((0..size).step_by(60_000).map(|at| {
            let len = usize::try_from(BALLAST_PIECE.min(size - at)).unwrap_or(0);
            Op::Write("ballast".into(), at, len)
        }));
    }
    let mut steps: Vec<Step> = steps.into_iter().map(|op| Step { op, sync: Sync::None }).collect();
    for step in &steps {
        driver.apply(&step.op, 0, usize::MAX).expect("the model has space");
    }
    let count = steps.len() + generator.rng.random_range(20..100);
    let mut open = false;
    while steps.len() < count {
        if kind == Kind::Snapshots && generator.rng.random_bool(0.15) {
            for op in generator.change_snapshots() {
                if driver.apply(&op, 0, usize::MAX).is_ok() {
                    steps.push(Step { op, sync: Sync::None });
                }
            }
            if let Some(last) = steps.last_mut() {
                last.sync = generator.sync();
            }
            continue;
        }
        let mut op = generator.op();
        if open
            && generator.rng.random_bool(0.3)
            && let Op::Write(path, ..) | Op::Truncate(path, _) = &mut op
        {
            *path = "#h".into();
        }
        let opens = matches!(op, Op::Open(..));
        // An operation that the model refuses tests nothing. The handle is opened once at a time.
        if (opens && open) || driver.apply(&op, 0, usize::MAX).is_err() {
            continue;
        }
        open = (open || opens) && !matches!(op, Op::Close(_));
        steps.push(Step { op, sync: generator.sync() });
    }
    steps
}
