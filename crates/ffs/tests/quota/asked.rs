//! What the tests of quotas ask of a file system, in whatever form it keeps them.

use spindle_ffs::Ffs;
use spindle_ffs::quota::{Edit, Kind, Limits, Quota, Sheet, Task};
use spindle_vfs::{Error, FileKind, FileSystem, Ino, NewNode, Privilege, Result};
use std::ops::ControlFlow;

pub const USER: Privilege = Privilege::User;

/// Does what is asked about quotas.
pub fn ask(fs: &Ffs, task: &Task) -> Result<Vec<Sheet>> {
    fs.quota(task, &mut |_, _| ControlFlow::Continue(()))
}

pub fn create(fs: &Ffs, name: &str, kind: FileKind, owner: (u32, u32), by: Privilege) -> Result<Ino> {
    let target = [b't'; 200];
    let target = if kind == FileKind::Symlink { &target[..] } else { b"" };
    let node = NewNode { uid: owner.0, gid: owner.1, target, ..NewNode::new(kind, 0o755) };
    let made = fs.create(fs.root(), name.as_bytes(), &node, by)?;
    fs.forget(made.ino, 1);
    Ok(made.ino)
}

pub fn limit(fs: &Ffs, kind: Kind, id: u32, blocks: (u64, u64), inodes: (u64, u64)) {
    let limits = |(soft, hard)| Some(Limits { soft, hard });
    let (blocks, inodes) = (limits(blocks), limits(inodes));
    ask(fs, &Task::Edit(Edit { kind, ids: vec![id], blocks, inodes, prototype: None, grace: None })).unwrap();
}

pub fn quota(fs: &Ffs, kind: Kind, id: u32) -> Quota {
    let sheets = ask(fs, &Task::Report(vec![kind])).unwrap();
    sheets[0].rows.iter().find(|row| row.id == id).map(|row| row.quota).unwrap_or_default()
}

pub fn is_refused<T: std::fmt::Debug>(result: Result<T>) {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::QuotaExceeded), "{error}");
}
