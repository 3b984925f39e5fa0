//! Workloads like those of ACE (Mohan et al., "Finding Crash-Consistency Bugs with Bounded
//! Black-Box Crash Testing", OSDI 2018): all short sequences of operations on a small tree, with
//! every way to make each of them durable, and a sample of longer ones.
//!
//! If an operation needs a file that an earlier one has removed, the file is made first; if
//! something is in the way, it is renamed. The name of a workload determines it.

use super::aimed::Aim;
use super::images;
use super::operation::{Driver, Op, Step, Sync, split};
use super::random::{self, Kind};
use spindle_conformance::model::ModelFs;
use spindle_vfs::{FallocateMode, FileKind, FileSystem, Limits, RenameMode};
use std::fmt;

/// The name of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Name {
    /// Entries of the catalogue, each with the way to make it durable.
    Sequence(Vec<(usize, usize)>),
    /// The first mount, which makes a log; then an entry of the catalogue with the way to make it
    /// durable.
    FirstMount(usize, usize),
    /// A workload for a certain situation.
    Aimed(Aim),
    /// A long random workload, with its seed.
    Long(u64),
    /// The same on a file system that is nearly full.
    Full(u64),
    /// A long one that makes and removes snapshots.
    Snapshots(u64),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sequence(entries) => {
                for (n, (entry, sync)) in entries.iter().enumerate() {
                    write!(f, "{}{entry}.{sync}", if n == 0 { "" } else { "-" })?;
                }
                Ok(())
            }
            Self::FirstMount(entry, sync) => write!(f, "mount-{entry}.{sync}"),
            Self::Aimed(aim) => aim.fmt(f),
            Self::Long(seed) => write!(f, "long-{seed}"),
            Self::Full(seed) => write!(f, "full-{seed}"),
            Self::Snapshots(seed) => write!(f, "snapshots-{seed}"),
        }
    }
}

impl std::str::FromStr for Name {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text} is not the name of a workload");
        let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
        let entry = |text: &str| -> Result<(usize, usize), String> {
            let (entry, sync) = text.split_once('.').ok_or_else(wrong)?;
            Ok((entry.parse().map_err(|_| wrong())?, sync.parse().map_err(|_| wrong())?))
        };
        if let Some(&aim) = Aim::ALL.iter().find(|aim| aim.to_string() == text) {
            return Ok(Self::Aimed(aim));
        }
        match text.split_once('-') {
            Some(("mount", rest)) => entry(rest).map(|(entry, sync)| Self::FirstMount(entry, sync)),
            Some(("long", rest)) => number(rest).map(Self::Long),
            Some(("full", rest)) => number(rest).map(Self::Full),
            Some(("snapshots", rest)) => number(rest).map(Self::Snapshots),
            _ => text.split('-').map(entry).collect::<Result<_, _>>().map(Self::Sequence),
        }
    }
}

/// A workload.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Its name.
    pub name: Name,
    /// The steps.
    pub steps: Vec<Step>,
}

/// Returns the entries of the catalogue: short lists of operations, from which sequences are made.
#[must_use]
pub fn catalogue(limits: &Limits) -> Vec<Vec<Op>> {
    use FallocateMode::{Allocate, PunchHole, ZeroRange};
    use RenameMode::{Exchange, Replace};
    let p = |path: &str| path.to_owned();
    let create = |path: &str, kind| Op::Create(p(path), kind);
    let rename = |from: &str, to: &str, mode| Op::Rename(p(from), p(to), mode);
    let write = |path: &str, offset, len| Op::Write(p(path), offset, len);
    let fallocate = |path: &str, mode, offset, len| Op::Fallocate(p(path), mode, offset, len);
    let keep_size = false;
    let mut entries = vec![
        vec![create("new", FileKind::Regular)],
        vec![create("A/new", FileKind::Regular)],
        vec![create("newdir", FileKind::Directory)],
        vec![create("A/newdir", FileKind::Directory)],
        vec![create("node", FileKind::CharDevice)],
        vec![Op::Symlink(p("A/newsym"), 20)],
        vec![Op::Symlink(p("newsym"), 400)],
        vec![Op::Link(p("foo"), p("new"))],
        vec![Op::Link(p("A/foo"), p("B/new"))],
        vec![Op::Unlink(p("foo"))],
        vec![Op::Unlink(p("bar"))],
        vec![Op::Unlink(p("A/foo"))],
        vec![Op::Unlink(p("sparse"))],
        vec![Op::Unlink(p("sym"))],
        vec![Op::Rmdir(p("B"))],
        vec![Op::Rmdir(p("A/C"))],
        vec![rename("foo", "new", Replace)],
        vec![rename("foo", "bar", Replace)],
        vec![rename("foo", "A/foo", Replace)],
        vec![rename("A/foo", "B/new", Replace)],
        vec![rename("A", "B", Replace)],
        vec![rename("A/C", "B/C", Replace)],
        vec![rename("D", "A/D", Replace)],
        vec![rename("foo", "A/foo", Exchange)],
        vec![rename("D", "A/foo", Exchange)],
        vec![Op::Truncate(p("foo"), 0)],
        vec![Op::Truncate(p("foo"), 5000)],
        vec![Op::Truncate(p("foo"), 30_000)],
        vec![Op::Truncate(p("sparse"), 700)],
        vec![Op::Truncate(p("bar"), 2000)],
        vec![write("foo", 10_000, 3000)],
        vec![write("foo", 0, 4096)],
        vec![write("foo", 3000, 2500)],
        vec![write("bar", 300, 200)],
        vec![write("bar", 300, 5000)],
        vec![write("sparse", 20_000, 3000)],
        vec![write("foo", 50_100, 1000)],
        vec![write("A/foo", 100, 20_000)],
        vec![create("new", FileKind::Regular), write("new", 0, 2500)],
        vec![create("new", FileKind::Regular), write("new", 0, 6000), rename("new", "foo", Replace)],
        vec![
            Op::Open(p("foo"), p("#foo")),
            Op::Unlink(p("foo")),
            write("#foo", 2000, 9500),
            Op::Truncate(p("#foo"), 3000),
        ],
        vec![fallocate("foo", Allocate { keep_size }, 9000, 12_000)],
        vec![fallocate("sparse", Allocate { keep_size }, 16_384, 9000)],
        vec![fallocate("foo", PunchHole, 1000, 8000)],
        vec![fallocate("foo", ZeroRange { keep_size }, 2000, 3500)],
        vec![Op::Chmod(p("foo"), 0o600)],
        vec![Op::Chown(p("A"), 10, 20)],
        vec![Op::Unlink(p("A/foo")), Op::Trim],
    ];
    if limits.xattrs {
        entries.extend([
            vec![Op::SetXattr(p("foo"), "user.new", 50)],
            vec![Op::SetXattr(p("foo"), "user.large", 600)],
            vec![Op::SetXattr(p("A/foo"), "user.a", 90)],
            vec![Op::RemoveXattr(p("A/foo"), "user.a")],
        ]);
    }
    let unnamed = |dir: &str| Op::OpenUnnamed(p(dir), p("#new"));
    entries.extend([
        vec![unnamed("A"), write("#new", 0, 2500)],
        vec![unnamed("A"), write("#new", 0, 6000), Op::Link(p("#new"), p("A/new"))],
    ]);
    entries
}

impl Workload {
    /// Returns the workload of this name on a file system with these limits.
    ///
    /// # Panics
    /// If the name has entries that the catalogue does not have.
    #[must_use]
    pub fn new(name: Name, limits: &Limits) -> Self {
        let steps = match &name {
            Name::Sequence(entries) => sequence(entries, limits),
            Name::FirstMount(entry, sync) => sequence(&[(*entry, *sync)], limits),
            Name::Aimed(aim) => aim.steps(),
            Name::Long(seed) => random::steps(*seed, limits, Kind::Plain),
            Name::Full(seed) => random::steps(*seed, limits, Kind::Full),
            Name::Snapshots(seed) => random::steps(*seed, limits, Kind::Snapshots),
        };
        Self { name, steps }
    }
}

fn sequence(entries: &[(usize, usize)], limits: &Limits) -> Vec<Step> {
    let catalogue = catalogue(limits);
    let model = images::model(limits, images::clock());
    let mut script = Script { model: &model, driver: Driver::new(&model), steps: Vec::new(), renamed: 0 };
    for &(entry, sync) in entries {
        for op in &catalogue[entry] {
            script.enable(op);
            script.push(op.clone());
        }
        if let Some(last) = script.steps.last_mut() {
            last.sync = Sync::ALL[sync];
        }
    }
    script.steps
}

/// The kind of file that an operation needs at a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Nothing,
    /// Anything but a directory.
    Name,
    Regular,
    Directory,
    EmptyDirectory,
}

/// A sequence that is being made, and the state of the model after it.
struct Script<'a> {
    model: &'a ModelFs,
    driver: Driver<'a>,
    steps: Vec<Step>,
    renamed: usize,
}

impl Script<'_> {
    fn push(&mut self, op: Op) {
        self.driver.apply(&op, 0, usize::MAX).unwrap_or_else(|e| panic!("{op}: {e}"));
        self.steps.push(Step { op, sync: Sync::None });
    }

    /// Adds steps that make the files that an operation needs.
    fn enable(&mut self, op: &Op) {
        match op {
            Op::Create(path, _) | Op::Symlink(path, _) | Op::MakeSnapshot(path) => {
                self.ensure(path, Need::Nothing);
            }
            Op::Link(from, to) => {
                self.ensure(from, Need::Regular);
                self.ensure(to, Need::Nothing);
            }
            Op::Unlink(path) => self.ensure(path, Need::Name),
            Op::Rmdir(path) => self.ensure(path, Need::EmptyDirectory),
            Op::Rename(from, to, mode) => {
                let source = match usual(from) {
                    Need::Nothing => Need::Name,
                    other => other,
                };
                self.ensure(from, source);
                let target = match usual(to) {
                    Need::Directory if *mode != RenameMode::Exchange => Need::EmptyDirectory,
                    other => other,
                };
                self.ensure(to, target);
            }
            Op::Truncate(path, _)
            | Op::Write(path, ..)
            | Op::Fallocate(path, ..)
            | Op::Open(path, _)
            | Op::SetXattr(path, ..) => self.ensure(path, Need::Regular),
            Op::Chmod(path, _) | Op::Chown(path, ..) => self.ensure(path, usual(path)),
            Op::RemoveXattr(path, name) => {
                self.ensure(path, Need::Regular);
                let ino = self.driver.resolve(path).expect("it was just ensured");
                if self.model.getxattr(ino, name.as_bytes()).is_err() {
                    self.push(Op::SetXattr(path.clone(), name, 20));
                }
            }
            Op::OpenUnnamed(path, _) => self.ensure(path, Need::Directory),
            Op::Close(_) | Op::Trim => {}
        }
    }

    fn ensure(&mut self, path: &str, need: Need) {
        if path.starts_with('#') {
            return;
        }
        let (dir, _) = split(path);
        if !dir.is_empty() {
            self.ensure(dir, Need::Directory);
        }
        let there = self.driver.resolve(path).ok().and_then(|ino| self.model.getattr(ino).ok());
        let fits = match (&there, need) {
            (None, Need::Nothing) => true,
            (None, _) | (Some(_), Need::Nothing) => false,
            (Some(attr), Need::Name) => attr.kind != FileKind::Directory,
            (Some(attr), Need::Regular) => attr.kind == FileKind::Regular,
            (Some(attr), Need::Directory) => attr.kind == FileKind::Directory,
            (Some(attr), Need::EmptyDirectory) => {
                let mut names = 0;
                let counted = self.model.readdir(attr.ino, 0, &mut |_| {
                    names += 1;
                    std::ops::ControlFlow::Continue(())
                });
                counted.is_ok() && names == 2
            }
        };
        if fits {
            return;
        }
        if there.is_some() {
            self.renamed += 1;
            self.push(Op::Rename(path.into(), format!("aside{}", self.renamed), RenameMode::Replace));
        }
        match need {
            Need::Nothing => {}
            Need::Name | Need::Regular => {
                self.push(Op::Create(path.into(), FileKind::Regular));
                self.push(Op::Write(path.into(), 0, 3000));
            }
            Need::Directory | Need::EmptyDirectory => {
                self.push(Op::Create(path.into(), FileKind::Directory));
            }
        }
    }
}

/// Returns the kind of file that a path of the catalogue has in the tree.
fn usual(path: &str) -> Need {
    match path {
        "A" | "B" | "D" | "A/C" => Need::Directory,
        "foo" | "bar" | "A/foo" => Need::Regular,
        _ => Need::Nothing,
    }
}
