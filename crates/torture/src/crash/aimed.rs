//! Workloads for situations that short sequences of operations rarely reach.

use super::operation::{Op, Step, Sync};
use spindle_vfs::{FileKind, Limits};
use std::fmt;

/// The situation that a workload is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aim {
    /// The space of an indirect block becomes file data while the log still has the block's old
    /// content.
    IndirectReused,
    /// The same with the block of a directory.
    DirectoryReused,
    /// Epochs wrap around the end of the log, over records that the header on the medium still
    /// covers, while an unlinked file is open; then its inode is used for another file.
    LogWraps,
    /// Epochs change the same buffers, and the log has no room for one until those before are
    /// checkpointed.
    LogFull,
    /// The same bytes of a file are overwritten again and again, with large and small writes, each
    /// made durable.
    Overwritten,
}

impl Aim {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::IndirectReused, Self::DirectoryReused, Self::LogWraps, Self::LogFull, Self::Overwritten];

    /// Returns those that can occur on a file system with these limits.
    pub fn on(limits: &Limits) -> impl Iterator<Item = Self> {
        let xattrs = limits.xattrs;
        Self::ALL.into_iter().filter(move |aim| xattrs || *aim != Self::LogFull)
    }

    /// Returns the steps of the workload.
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
            Self::Overwritten => return overwritten(),
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
            Self::Overwritten => "overwritten",
        })
    }
}

fn create(path: &str) -> Op {
    Op::Create(path.into(), FileKind::Regular)
}

fn write(path: &str, offset: u64, len: usize) -> Op {
    Op::Write(path.into(), offset, len)
}

/// Returns lists of operations, each of which is made durable at its end. `made` makes metadata,
/// `gone` removes it; then the space is filled with file data.
fn reuse(made: Vec<Op>, gone: Vec<Op>) -> Vec<Vec<Op>> {
    // Files without an indirect block, in all cylinder groups: a file is put into the cylinder
    // group of its directory.
    let data = (0..12).map(|n| {
        let name = format!("{}data{n}", ["", "A/", "B/", "D/"][n % 4]);
        vec![create(&name), write(&name, 0, 45_000)]
    });
    [made, gone].into_iter().chain(data).collect()
}

/// Returns the names of `count` empty files.
fn files(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|n| format!("file{n:02}"))
}

/// Returns changes that need a sector of the log for every two or four of the files.
fn chmod(count: usize, perm: u32) -> Vec<Op> {
    files(count).map(|name| Op::Chmod(name, perm)).collect()
}

fn log_wraps() -> Vec<Vec<Op>> {
    let mut durable = vec![files(48).map(|name| create(&name)).collect()];
    durable.push(vec![Op::Open("foo".into(), "#foo".into()), Op::Unlink("foo".into())]);
    durable.extend((0..6).map(|n| chmod(48, 0o600 + n)));
    durable.push(vec![Op::Close("#foo".into())]);
    durable.push(vec![create("heir"), write("heir", 0, 3000)]);
    durable.push(vec![write("heir", 3000, 100)]);
    durable
}

fn log_full() -> Vec<Vec<Op>> {
    let mut durable = vec![files(96).map(|name| create(&name)).collect(), vec![Op::Chmod("B".into(), 0o700)]];
    durable.extend((0..4).map(|n| chmod(96, 0o600 + n)));
    durable
}

fn overwritten() -> Vec<Step> {
    let mut steps = Vec::new();
    let mut step = |op, sync| steps.push(Step { op, sync });
    step(create("large"), Sync::None);
    step(write("large", 0, 70_000), Sync::All);
    for (offset, len) in [(0, 65_536), (0, 65_536), (512, 3000), (0, 4096), (0, 65_536), (100, 50)] {
        for sync in [Sync::Fsync, Sync::Fdatasync] {
            step(write("large", offset, len), sync);
        }
    }
    steps
}
