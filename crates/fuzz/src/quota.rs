//! Quota files of both forms, and the file in which NetBSD keeps quotas inside the file system.

use crate::image::{BASES, clock, repair};
use crate::{Target, number, seed};
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::inspect::Inspector;
use spindle_ffs::ondisk::FsNetBsd;
use spindle_ffs::quota::{Edit, Kind, Limits, Task};
use spindle_ffs::repair::switch_quotas;
use spindle_ffs::{Ffs, Frag, OpenOptions, QuotaFiles, ROOT_INO, Superblock};
use spindle_torture::exercise::{change, walk};
use spindle_torture::overlay::Overlay;
use spindle_vfs::{FileSystem, Privilege, SetAttr};
use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

/// Quotas.
pub const QUOTA: Target = Target {
    name: "quota",
    about: "the file of users' quotas, in files or inside",
    seeds: || QUOTAS.iter().enumerate().map(|(n, quotas)| seed(&[n], quotas.file())).collect(),
    run,
};

/// A file system with limits for a user.
struct Quotas {
    bytes: Arc<[u8]>,
    /// The byte of the image at which the users' quotas begin.
    at: usize,
    /// Bytes of them.
    len: usize,
    options: OpenOptions,
}

static QUOTAS: LazyLock<Vec<Quotas>> = LazyLock::new(|| {
    let kinds = [("ufs2-freebsd-le", false), ("ufs1-netbsd-be", false), ("ufs2-netbsd-le", true)];
    kinds.into_iter().map(|(name, inside)| Quotas::new(name, inside)).collect()
});

impl Quotas {
    /// Keeps quotas in a valid image, in files or inside.
    fn new(name: &str, inside: bool) -> Self {
        let base = BASES.iter().find(|base| base.name == name).expect("a base of this name");
        let memory = Arc::new(MemoryDevice::from_bytes(&base.bytes));
        let device: Arc<dyn Device> = memory.clone();
        let plain = OpenOptions { seed: Some(1), ..OpenOptions::default() };
        let options = if inside {
            switch_quotas(&device, &clock(), &Kind::ALL, true).expect("quotas can be inside");
            plain
        } else {
            let fs = Ffs::open(device.clone(), clock(), &plain).expect("a valid image");
            ask(&fs, &Task::Check(Kind::ALL.to_vec())).expect("usage can be counted");
            fs.unmount().expect("an unmount");
            let [user, group] = Kind::ALL.map(|kind| Some(kind.file_name().to_owned()));
            OpenOptions { quotas: QuotaFiles { user, group }, ..plain }
        };
        let fs = Ffs::open(device, clock(), &options).expect("a valid image");
        let limits = Some(Limits { soft: 100, hard: 200 });
        let (kind, ids) = (Kind::User, vec![7]);
        let edit = Edit { kind, ids, blocks: limits, inodes: limits, prototype: None, grace: None };
        ask(&fs, &Task::Edit(edit)).expect("limits can be set");
        fs.unmount().expect("an unmount");
        drop(fs);

        let superblock = Superblock::open(&*memory).expect("a valid image");
        let layout = &superblock.layout;
        let mut inspector = Inspector::new(&*memory, &superblock);
        let ino = if inside {
            let netbsd = FsNetBsd::decode(superblock.raw(), layout.endian);
            u32::try_from(netbsd.fs_quotafile[0]).expect("an inode")
        } else {
            inspector.lookup(ROOT_INO, Kind::User.file_name().as_bytes()).expect("a quota file")
        };
        let map = inspector.file_map(ino).expect("an inode in use");
        let first = map.runs.first().expect("a quota file has data");
        let at = usize::try_from(layout.byte(Frag(first.frag))).expect("a small image");
        let len = usize::try_from(map.size).expect("a small image").min(layout.fs_bsize as usize);
        Self { bytes: memory.to_bytes().into(), at, len, options }
    }

    fn file(&self) -> &[u8] {
        &self.bytes[self.at..self.at + self.len]
    }
}

fn ask(fs: &Ffs, task: &Task) -> spindle_vfs::Result<()> {
    fs.quota(task, &mut |_, _| ControlFlow::Continue(())).map(|_| ())
}

/// Puts an input in the place of users' quotas, and lets them be charged, reported, counted and
/// repaired.
fn run(mut data: &[u8]) {
    let quotas = &QUOTAS[number(&mut data) % QUOTAS.len()];
    let image = || {
        let device = Overlay::new(quotas.bytes.clone(), quotas.bytes.len());
        device.poke(quotas.at, &data[..data.len().min(quotas.len)]);
        device
    };
    if let Ok(fs) = Ffs::open(Arc::new(image()), clock(), &quotas.options) {
        let _ = ask(&fs, &Task::Report(Kind::ALL.to_vec()));
        let nodes = walk(&fs);
        let owner = SetAttr { uid: Some(7), ..SetAttr::default() };
        for name in [&b"empty"[..], b"all-levels"] {
            let Ok(attr) = fs.lookup(fs.root(), name) else { continue };
            let _ = fs.setattr(attr.ino, &owner, Privilege::Root);
            let _ = fs.write(attr.ino, 0, &vec![1; 20_000], Privilege::User);
            fs.forget(attr.ino, 1);
        }
        change(&fs, nodes, &mut rand::SeedableRng::seed_from_u64(1));
        let _ = ask(&fs, &Task::Check(Kind::ALL.to_vec()));
        let _ = fs.unmount();
    }
    repair(image());
}
