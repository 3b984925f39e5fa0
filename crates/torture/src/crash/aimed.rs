//! Workloads aimed at what short sequences of operations rarely come to.

use super::operation::{Op, Sync};
use super::workload::Step;
use spindle_vfs::{FileKind, Limits};
use std::fmt;

/// What a workload is aimed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aim {
    /// The space of an indirect block becomes file data while the log still holds what it was.
    IndirectReused,
    /// The same of directories.
    DirectoryReused,
    /// Large groups go around the log, over records that the header on the medium still tells of, while an unlinked file is
    /// open; then its inode becomes another file's.
    LogWraps,
    /// Groups that change the same buffers; there is no room for one in the log until those before have gone home. Only
    /// attributes are metadata of which one operation makes as much.
    LogFull,
    /// A file is freed in several transactions, and there are commits between them.
    FreedInSteps,
}

impl Aim {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::IndirectReused, Self::DirectoryReused, Self::LogWraps, Self::LogFull, Self::FreedInSteps];

    /// Those that show something on a file system with these limits.
    pub fn on(limits: &Limits) -> impl Iterator<Item = Self> {
        let xattrs = limits.xattrs;
        Self::ALL.into_iter().filter(move |aim| xattrs || *aim != Self::LogFull)
    }

    /// What is done.
    pub(super) fn steps(self) -> Vec<Step> {
        let durable = match self {
            Self::IndirectReused => {
                let made = vec![create("new"), write("new", 0, 90_000)];
                reuse(made, vec![Op::Unlink("new".into())])
            }
            Self::DirectoryReused => {
                let dirs: Vec<_> = (0..6).map(|n| format!("newdir{n}")).collect();
                let made = dirs.iter().map(|dir| Op::Create(dir.clone(), FileKind::Directory)).collect();
                reuse(made, dirs.iter().map(|dir| Op::Rmdir(dir.clone())).collect())
            }
            Self::LogWraps => log_wraps(),
            Self::LogFull => log_full(),
            Self::FreedInSteps => freed_in_steps(),
        };
        let mut steps = Vec::new();
        for ops in durable {
            steps.extend(ops.into_iter().map(|op| Step { op, sync: Sync::None }));
            if let Some(last) = steps.last_mut() {
                last.sync = Sync::All;
            }
        }
        steps
    }
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IndirectReused => "indirect-reused",
            Self::DirectoryReused => "directory-reused",
            Self::LogWraps => "log-wraps",
            Self::LogFull => "log-full",
            Self::FreedInSteps => "freed-in-steps",
        })
    }
}

fn create(path: &str) -> Op {
    Op::Create(path.into(), FileKind::Regular)
}

fn write(path: &str, offset: u64, len: usize) -> Op {
    Op::Write(path.into(), offset, len)
}

/// Operations that are made durable together, in turn: `made` makes metadata, `gone` takes it away.
fn reuse(made: Vec<Op>, gone: Vec<Op>) -> Vec<Vec<Op>> {
    // Without an indirect block of their own, all over what is free: a file's group is its directory's.
    let data = (0..12).map(|n| {
        let name = format!("{}data{n}", ["", "A/", "B/", "D/"][n % 4]);
        vec![create(&name), write(&name, 0, 45_000)]
    });
    [made, gone].into_iter().chain(data).collect()
}

/// Beyond what an inode points at itself, whatever the block size: a write there logs an indirect block whole.
const FAR: u64 = 100_000;

fn log_wraps() -> Vec<Vec<Op>> {
    let names: Vec<_> = (0..8).map(|n| format!("wide{n}")).collect();
    let mut durable = vec![names.iter().map(|name| create(name)).collect()];
    durable.push(vec![Op::Open("foo".into(), "#foo".into()), Op::Unlink("foo".into())]);
    durable.extend(names.chunks(2).map(|two| two.iter().map(|name| write(name, FAR, 100)).collect()));
    durable.push(vec![Op::Close("#foo".into())]);
    durable.push(vec![create("heir"), write("heir", 0, 3000)]);
    durable.push(vec![write("heir", 3000, 100)]);
    durable
}

fn log_full() -> Vec<Vec<Op>> {
    let attribute = |path: &str, len| Op::SetXattr(path.into(), "user.large", len);
    let mut durable = vec![vec![attribute("sparse", 7000)], vec![attribute("sym", 3000)]];
    durable.push(vec![Op::Chmod("B".into(), 0o700)]);
    durable.push(vec![attribute("foo", 5000), attribute("bar", 8000)]);
    durable.push(vec![attribute("A/foo", 5000), attribute("D/x", 8000)]);
    durable
}

fn freed_in_steps() -> Vec<Vec<Op>> {
    // A step is 1 MiB where blocks have 4 KiB.
    let made = [create("long")].into_iter().chain((0..6).map(|n| write("long", n << 20, 5000)));
    vec![made.collect(), vec![Op::Unlink("long".into())]]
}
