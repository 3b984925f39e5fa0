//! Single random operations, applied to both file systems.

use super::{Feature, Pair, Run, compare, node};
use crate::suite::errnos::{
    EEXIST, EINVAL, EISDIR, EMLINK, ENAMETOOLONG, ENOENT, ENOSPC, ENOTDIR, ENOTEMPTY, EPERM, errno,
};
use rand::{Rng, RngCore};
use spindle_clock::Timestamp;
use spindle_vfs::{
    FallocateMode, FileKind, FileSystem, NewNode, Privilege, Rdev, RenameMode, Result, SetAttr, SetTime,
    XattrMode,
};
use std::fmt::Debug;

/// Sizes near which most offsets are.
const BORDERS: [u64; 9] = [0, 512, 1024, 4096, 8192, 32768, 65536, 98304, 393_216];
/// Upper limit of the free space that an operation here needs, with any block size and any
/// fragmentation.
const PLENTY_BYTES: u64 = 4 << 20;
/// Errors of which several can apply to one operation; any of them is accepted.
const AMBIGUOUS: [i32; 9] = [EPERM, ENOENT, EEXIST, ENOTDIR, EISDIR, EINVAL, EMLINK, ENAMETOOLONG, ENOTEMPTY];

impl Run<'_> {
    /// Panics unless both succeeded or both refused. Returns the results if both succeeded. If
    /// space ran out, returns `None` without calling `model`.
    fn agree<R: Debug, M: Debug>(
        &mut self,
        real: Result<R>,
        model: impl FnOnce(&mut Self) -> Result<M>,
    ) -> Option<(R, M)> {
        if errno(&real) == ENOSPC {
            self.record("  no space".to_owned());
            let stat = self.real.statfs().expect("statfs");
            if stat.bavail * u64::from(stat.frsize) > PLENTY_BYTES && stat.ffree > 0 {
                self.differ(&format!("no space, but {stat:?}"));
            }
            return None;
        }
        let model = model(self);
        let (ours, theirs) = (errno(&real), errno(&model));
        if ours != theirs && !(AMBIGUOUS.contains(&ours) && AMBIGUOUS.contains(&theirs)) {
            self.differ(&format!("{real:?} should be {model:?}"));
        }
        Some((real.ok()?, model.ok()?))
    }

    fn index(&mut self) -> usize {
        self.rng.random_range(0..self.known.len())
    }

    fn any(&mut self) -> Pair {
        let index = self.index();
        self.known[index]
    }

    /// Returns an inode, in most cases of this kind.
    fn mostly(&mut self, kind: FileKind) -> Pair {
        for _ in 0..20 {
            let pair = self.any();
            if self.model.getattr(pair.model).is_ok_and(|attr| attr.kind == kind) {
                return pair;
            }
        }
        self.any()
    }

    fn dir(&mut self) -> Pair {
        if self.rng.random_bool(0.3) { self.known[0] } else { self.mostly(FileKind::Directory) }
    }

    fn name(&mut self) -> Vec<u8> {
        if self.rng.random_bool(0.01) {
            return vec![b'x'; self.real.limits().name_max + 1];
        }
        self.names[self.rng.random_range(0..self.names.len())].clone()
    }

    fn privilege(&mut self) -> Privilege {
        if self.rng.random_bool(0.5) { Privilege::User } else { Privilege::Root }
    }

    /// Returns an offset: near a border, anywhere in the first megabyte, or, rarely, far away.
    fn offset(&mut self) -> u64 {
        let max = self.real.limits().file_size_max;
        let offset = match self.rng.random_range(0..20) {
            0 => {
                let power = self.rng.random_range(20..44);
                self.rng.random_range(0..1u64 << power)
            }
            1..6 => self.rng.random_range(0..1_000_000),
            _ => {
                let border = BORDERS[self.rng.random_range(0..BORDERS.len())];
                (border + self.rng.random_range(0..40)).saturating_sub(20)
            }
        };
        offset.min(max.saturating_sub(1 << 20))
    }

    fn len(&mut self) -> usize {
        let most = [20, 600, 5000, 70_000][self.rng.random_range(0..4)];
        self.rng.random_range(0..most)
    }

    /// Applies one operation.
    pub(super) fn step(&mut self) {
        match self.rng.random_range(0..1000) {
            0..130 => self.create(),
            130..140 => self.create_unnamed(),
            140..200 => self.link(),
            200..280 => self.remove(true),
            280..330 => self.remove(false),
            330..430 => self.rename(),
            430..500 => self.lookup(),
            500..550 => self.forget(),
            550..700 => self.write(),
            700..780 => self.read(),
            780..850 => self.resize(),
            850..900 => self.fallocate(),
            900..950 => self.setattr(),
            950..985 => self.xattr(),
            985..992 => self.sync(),
            992..998 => self.mount_again(false),
            _ => self.mount_again(true),
        }
    }

    fn create(&mut self) {
        let (dir, name, by) = (self.dir(), self.name(), self.privilege());
        let limits = self.real.limits();
        let kind = match self.rng.random_range(0..12) {
            0..5 => FileKind::Regular,
            5..9 => FileKind::Directory,
            9 if limits.symlink_max > 0 => FileKind::Symlink,
            10 if !self.lacks(Feature::FifosAndSockets) => FileKind::Fifo,
            _ => FileKind::CharDevice,
        };
        let target_max = limits.symlink_max.min(if self.rng.random_bool(0.5) { 130 } else { 2000 });
        let mut target =
            vec![0; if kind == FileKind::Symlink { self.rng.random_range(1..=target_max) } else { 0 }];
        for byte in &mut target {
            *byte = self.rng.random_range(1..=255);
        }
        let (major, minor) = (self.rng.random_range(0..256), self.rng.random_range(0..256));
        let new = NewNode {
            perm: self.rng.random_range(0..=0o7777),
            uid: self.rng.random_range(0..100.min(limits.id_max)),
            gid: self.rng.random_range(0..100.min(limits.id_max)),
            rdev: if kind == FileKind::CharDevice { Rdev { major, minor } } else { Rdev::default() },
            target: &target,
            ..node(kind)
        };
        self.record(format!("create {kind:?} {} in {dir:?}", name.escape_ascii()));
        let real = self.real.create(dir.real, &name, &new, by);
        if let Some((real, model)) = self.agree(real, |run| run.model.create(dir.model, &name, &new, by)) {
            self.add_reference(&real, &model);
        }
    }

    fn create_unnamed(&mut self) {
        let (dir, by) = (self.dir(), self.privilege());
        let new = NewNode { perm: self.rng.random_range(0..=0o7777), ..node(FileKind::Regular) };
        self.record(format!("create without a name in {dir:?}"));
        let real = self.real.create_unnamed(dir.real, &new, by);
        if let Some((real, model)) = self.agree(real, |run| run.model.create_unnamed(dir.model, &new, by)) {
            self.add_reference(&real, &model);
        }
    }

    fn link(&mut self) {
        let (pair, dir, name, by) = (self.any(), self.dir(), self.name(), self.privilege());
        self.record(format!("link {pair:?} as {} in {dir:?}", name.escape_ascii()));
        let real = self.real.link(pair.real, dir.real, &name, by);
        let model = |run: &mut Self| run.model.link(pair.model, dir.model, &name, by);
        if let Some((real, model)) = self.agree(real, model) {
            self.add_reference(&real, &model);
        }
    }

    fn remove(&mut self, unlink: bool) {
        let (dir, name) = (self.dir(), self.name());
        let call = move |fs: &dyn FileSystem, dir, name: &[u8]| {
            if unlink { fs.unlink(dir, name) } else { fs.rmdir(dir, name) }
        };
        self.record(format!(
            "{} {} in {dir:?}",
            if unlink { "unlink" } else { "rmdir" },
            name.escape_ascii()
        ));
        let real = call(&*self.real, dir.real, &name);
        self.agree(real, |run| call(&run.model, dir.model, &name));
    }

    fn rename(&mut self) {
        let (from_dir, from, to_dir, to) = (self.dir(), self.name(), self.dir(), self.name());
        let by = self.privilege();
        let mode = match self.rng.random_range(0..6) {
            0 if !self.lacks(Feature::Exchange) => RenameMode::Exchange,
            1 => RenameMode::NoReplace,
            2 => RenameMode::Whiteout { uid: self.rng.random_range(0..3), gid: self.rng.random_range(0..3) },
            _ => RenameMode::Replace,
        };
        let names = format!("{} in {from_dir:?} to {} in {to_dir:?}", from.escape_ascii(), to.escape_ascii());
        self.record(format!("rename {mode:?} {names}"));
        let real = self.real.rename(from_dir.real, &from, to_dir.real, &to, mode, by);
        self.agree(real, |run| run.model.rename(from_dir.model, &from, to_dir.model, &to, mode, by));
    }

    fn lookup(&mut self) {
        let (dir, name) = (self.dir(), self.name());
        self.record(format!("lookup {} in {dir:?}", name.escape_ascii()));
        let real = self.real.lookup(dir.real, &name);
        if let Some((real, model)) = self.agree(real, |run| run.model.lookup(dir.model, &name)) {
            self.add_reference(&real, &model);
        }
    }

    fn forget(&mut self) {
        let index = self.index();
        if index > 0 {
            self.record(format!("forget {:?}", self.known[index]));
            self.release(index);
        }
    }

    fn write(&mut self) {
        let (pair, offset, by) = (self.mostly(FileKind::Regular), self.offset(), self.privilege());
        let mut data = vec![0; self.len()];
        if self.rng.random_bool(0.9) {
            self.rng.fill_bytes(&mut data);
        }
        self.record(format!("write {} at {offset} to {pair:?}", data.len()));
        let real = self.real.write(pair.real, offset, &data, by);
        let done = *real.as_ref().unwrap_or(&data.len());
        if let Some((real, model)) =
            self.agree(real, |run| run.model.write(pair.model, offset, &data[..done], by))
            && real != model
        {
            self.differ(&format!("wrote {real} bytes instead of {model}"));
        }
    }

    fn read(&mut self) {
        let (pair, offset) = (self.mostly(FileKind::Regular), self.offset());
        let len = self.len();
        let (mut ours, mut theirs) = (vec![0xee; len], vec![0xee; len]);
        self.record(format!("read {len} at {offset} from {pair:?}"));
        let real = self.real.read(pair.real, offset, &mut ours);
        let same = self.agree(real, |run| run.model.read(pair.model, offset, &mut theirs));
        if let Some((real, model)) = same
            && (real != model || ours[..real] != theirs[..real])
        {
            let at = ours.iter().zip(&theirs).position(|(a, b)| a != b);
            self.differ(&format!("read {real} bytes instead of {model}, or others: first at {at:?}"));
        }
    }

    fn resize(&mut self) {
        let (pair, size) = (self.mostly(FileKind::Regular), self.offset());
        self.change(pair, &SetAttr { size: Some(size), ..SetAttr::default() });
    }

    fn setattr(&mut self) {
        let pair = self.any();
        let (first, last) = self.real.limits().time_range;
        let id_max = self.real.limits().id_max;
        let rng = &mut self.rng;
        let mut time = || {
            // Not the model's own time, and no time before the epoch if the format cannot store it.
            let secs = rng.random_range(10_000..2_000_000_000i64).clamp(first, last);
            rng.random_bool(0.4)
                .then(|| SetTime::At(Timestamp::new(secs, rng.random_range(0..1_000_000_000))))
        };
        let (atime, mtime) = (time(), time());
        let flags = !self.harness.lacks().contains(&Feature::Flags);
        let set = SetAttr {
            perm: rng.random_bool(0.5).then(|| rng.random_range(0..=0o7777)),
            uid: rng.random_bool(0.3).then(|| rng.random_range(0..=id_max.min(70_000))),
            gid: rng.random_bool(0.3).then(|| rng.random_range(0..=id_max.min(70_000))),
            atime,
            mtime,
            flags: (flags && rng.random_bool(0.1)).then(|| rng.random_range(0..8)),
            ..SetAttr::default()
        };
        self.change(pair, &set);
    }

    fn change(&mut self, pair: Pair, set: &SetAttr) {
        let by = self.privilege();
        self.record(format!("{set:?} on {pair:?}"));
        let real = self.real.setattr(pair.real, set, by);
        if let Some((real, model)) = self.agree(real, |run| run.model.setattr(pair.model, set, by)) {
            self.same_attr(&real, &model);
            if set.atime.is_some() && real.atime != model.atime {
                self.differ(&format!("access time {:?} instead of {:?}", real.atime, model.atime));
            }
        }
    }

    fn fallocate(&mut self) {
        if self.lacks(Feature::Fallocate) {
            return;
        }
        let (pair, offset, by) = (self.mostly(FileKind::Regular), self.offset(), self.privilege());
        let len = self.len() as u64;
        let keep_size = self.rng.random_bool(0.5) && !self.lacks(Feature::KeepSize);
        let mut mode = match self.rng.random_range(0..3) {
            0 => FallocateMode::Allocate { keep_size },
            1 => FallocateMode::ZeroRange { keep_size },
            _ => FallocateMode::PunchHole,
        };
        self.record(format!("{mode:?} {len} at {offset} of {pair:?}"));
        let mut real = self.real.fallocate(pair.real, mode, offset, len, by);
        if errno(&real) == ENOSPC && matches!(mode, FallocateMode::ZeroRange { .. }) {
            // A part may be zero already: an operation that needs no space zeroes the rest.
            self.record("  no space: punched instead".to_owned());
            mode = FallocateMode::PunchHole;
            real = self.real.fallocate(pair.real, mode, offset, len, by);
        }
        self.agree(real, |run| run.model.fallocate(pair.model, mode, offset, len, by));
    }

    fn xattr(&mut self) {
        if !self.real.limits().xattrs {
            return;
        }
        let (pair, by) = (self.any(), self.privilege());
        let names: [&[u8]; 5] = [b"user.a", b"user.longer-name", b"system.a", b"trusted.a", b"user.x"];
        let name = names[self.rng.random_range(0..names.len())];
        self.record(format!("extended attribute {} of {pair:?}", name.escape_ascii()));
        if self.rng.random_bool(0.3) {
            let real = self.real.removexattr(pair.real, name);
            self.agree(real, |run| run.model.removexattr(pair.model, name));
            return;
        }
        let mut value = vec![0; self.rng.random_range(0..300)];
        self.rng.fill_bytes(&mut value);
        let mode = [XattrMode::Set, XattrMode::Create, XattrMode::Replace][self.rng.random_range(0..3)];
        let real = self.real.setxattr(pair.real, name, &value, mode, by);
        self.agree(real, |run| run.model.setxattr(pair.model, name, &value, mode, by));
    }

    /// Makes one inode or everything durable, and lists a directory.
    fn sync(&mut self) {
        let pair = self.any();
        self.record(format!("fsync {pair:?}"));
        let done = if self.rng.random_bool(0.7) {
            self.real.fsync(pair.real, self.rng.random_bool(0.5))
        } else {
            self.real.sync()
        };
        if let Err(error) = done {
            self.differ(&format!("fsync: {error}"));
        }
        let dir = self.dir();
        let is_dir =
            self.model.getattr(dir.model).is_ok_and(|a| a.kind == FileKind::Directory && a.nlink > 0);
        if is_dir && compare::list(&*self.real, dir.real).len() != compare::list(&self.model, dir.model).len()
        {
            self.differ(&format!("{dir:?} has another number of names"));
        }
    }
}
