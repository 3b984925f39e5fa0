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

/// Makes random operations.
struct Generator {
    rng: SmallRng,
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
            49..52 => Op::Rename(path, self.path(), RenameMode::Exchange),
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

    fn sync(&mut self) -> Sync {
        match self.rng.random_range(0..20) {
            0..9 => Sync::None,
            9..15 => Sync::Fsync,
            15..18 => Sync::Fdatasync,
            _ => Sync::All,
        }
    }
}

/// Returns the steps for a seed. If `full`, a first file nearly fills the file system.
pub(super) fn steps(seed: u64, limits: &Limits, full: bool) -> Vec<Step> {
    let mut generator = Generator { rng: SmallRng::seed_from_u64(seed) };
    let model = images::model(limits, images::clock());
    let mut driver = Driver::new(&model);
    let mut steps = Vec::new();
    if full {
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
