//! A set with all structures, and ways to damage it: structures are changed in the address space of
//! the set, so both copies of control storage get the same, and their checksums are put right.

use super::support::{Counting, clock};
use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_device::{Device, MemoryDevice};
use spindle_mfs::check::{Repaired, check, repair};
use spindle_mfs::newfs::{Member, NewArea, Wishes, make};
use spindle_mfs::{Class, Layout, Mfs, OpenOptions, Role, Set, Structure};
use spindle_vfs::{FileKind, FileSystem, Ino, NewNode, Privilege, Rdev, XattrMode};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

pub const BY: Privilege = Privilege::Root;
/// The bytes of a block of control storage, and the places of checksums.
pub const BLOCK: usize = 1024;
pub const HEADER_SUM: usize = 508;
pub const NODE_SUM: usize = 20;
pub const PAGE_SUM: usize = 4;
/// Byte at which data storage begins.
pub const DATA_BASE: u64 = 1 << 56;
/// Files in the root directory.
pub const FILES: usize = 150;

/// A file of a tree: its number, its kind, the bytes that are looked at, and its extended
/// attributes.
pub type Node = (u64, FileKind, Vec<u8>, Vec<(Vec<u8>, Vec<u8>)>);
/// All files by path.
pub type Tree = BTreeMap<String, Node>;

/// A set.
pub struct Victim {
    pub media: Vec<Arc<MemoryDevice>>,
}

fn create(fs: &Mfs, dir: Ino, name: &str, kind: FileKind, bytes: &[u8]) -> Ino {
    let target: &[u8] = if kind == FileKind::Symlink { b"somewhere" } else { b"" };
    let node = NewNode { kind, perm: 0o755, uid: 7, gid: 8, masked: 0, rdev: Rdev::default(), target };
    let ino = fs.create(dir, name.as_bytes(), &node, BY).unwrap().ino;
    if !bytes.is_empty() {
        fs.write(ino, 0, bytes, BY).unwrap();
    }
    fs.forget(ino, 1);
    ino
}

fn wishes() -> Wishes {
    let mut wishes = Wishes::new();
    wishes.parameters.block_bytes = u32::try_from(BLOCK).unwrap();
    wishes.parameters.cylinder_bytes = 32 << 10;
    wishes.parameters.track_blocks = 8;
    wishes.parameters.data_block_bytes = 1024;
    let structure = Structure { block_bytes: 1024, track_blocks: 16, stripe_bytes: 4096 };
    wishes.classes = vec![Class { name: "other".parse().unwrap(), structure }];
    wishes
}

/// Returns an area of the second class of data, whose parts come after `before` others.
const fn other(before: u32) -> NewArea {
    NewArea { class: 1, part: Some(before), share: 4, ..NewArea::of(Role::Data) }
}

impl Victim {
    /// Returns a set on one member or on several, that was unmounted or not.
    pub fn new(many: bool, clean: bool) -> Self {
        let roles = [
            (1536, Role::Control),
            (1536, Role::Control),
            (2048, Role::Data),
            (3072, Role::Data),
            // With the second class of data.
            (2560, Role::Log),
        ];
        let media: Vec<Arc<MemoryDevice>> = if many {
            roles.iter().map(|(kib, _)| Arc::new(MemoryDevice::new(kib << 10))).collect()
        } else {
            vec![Arc::new(MemoryDevice::new(10 << 20))]
        };
        let member = |(n, device): (usize, &Arc<MemoryDevice>)| {
            let device = device.clone() as Arc<dyn Device>;
            if many { Member::of(device, roles[n].1) } else { Member::with_all(device) }
        };
        let mut members: Vec<_> = media.iter().enumerate().map(member).collect();
        let last = members.last_mut().unwrap();
        last.areas.push(other(if many { 2 } else { 1 }));
        make(&members, &wishes(), &*clock(), &mut StdRng::seed_from_u64(5)).unwrap();
        let victim = Self { media };
        let devices = victim.devices();
        let fs = Mfs::open(&Set::open(&devices).unwrap(), clock(), &OpenOptions::default()).unwrap();
        Self::fill(&fs);
        fs.sync().unwrap();
        // An orphan, if the set is not unmounted.
        let gone = create(&fs, fs.root(), "gone", FileKind::Regular, &[5; 5000]);
        fs.setxattr(gone, b"user.first", &[6; 900], XattrMode::Set, BY).unwrap();
        fs.lookup(fs.root(), b"gone").unwrap();
        fs.unlink(fs.root(), b"gone").unwrap();
        fs.sync().unwrap();
        if clean {
            fs.forget(gone, 1);
            fs.unmount().unwrap();
        }
        drop(fs);
        victim
    }

    /// Returns an empty set of members with these KiB: two of control storage, one of data storage
    /// and one of log storage.
    pub fn empty(kib: &[u64; 4]) -> Self {
        let media = kib.map(|kib| Arc::new(MemoryDevice::new(kib << 10)));
        let roles = [Role::Control, Role::Control, Role::Data, Role::Log];
        let members = media.iter().zip(roles).map(|(device, role)| Member::of(device.clone(), role));
        let wishes = Wishes { classes: Vec::new(), ..wishes() };
        make(&members.collect::<Vec<_>>(), &wishes, &*clock(), &mut StdRng::seed_from_u64(5)).unwrap();
        Self { media: media.into() }
    }

    fn fill(fs: &Mfs) {
        let root = fs.root();
        for n in 0..FILES {
            // The first ones are the same.
            let fill = if n < 6 { 7 } else { u8::try_from(n).unwrap() + 1 };
            let bytes = vec![fill; if n % 3 == 0 { 1500 } else { n }];
            create(fs, root, &format!("file{n}{}", "y".repeat(n % 40)), FileKind::Regular, &bytes);
        }
        let dir = create(fs, root, "dir", FileKind::Directory, b"");
        let sub = create(fs, dir, "sub", FileKind::Directory, b"");
        create(fs, sub, "deep", FileKind::Directory, b"");
        create(fs, root, "other", FileKind::Directory, b"");
        create(fs, sub, "link", FileKind::Symlink, b"");
        create(fs, sub, "pipe", FileKind::Fifo, b"");
        let sparse = create(fs, sub, "sparse", FileKind::Regular, b"");
        for n in 0..90_u64 {
            if n == 45 {
                // Its blocks are in both classes of data.
                fs.setxattr(sparse, b"user.spindle.class", b"other", XattrMode::Set, BY).unwrap();
            }
            fs.write(sparse, n * 10_000, &[u8::try_from(n).unwrap() + 9; 700], BY).unwrap();
        }
        for (ino, len) in [(dir, 3000), (sparse, 1200), (sub, 20)] {
            fs.setxattr(ino, b"user.first", &vec![8; len], XattrMode::Set, BY).unwrap();
            fs.setxattr(ino, b"system.second", b"value", XattrMode::Set, BY).unwrap();
        }
        let short = create(fs, dir, "short", FileKind::Regular, &[1; 200]);
        fs.link(short, dir, b"hard", BY).unwrap();
        fs.forget(short, 1);
        for n in 0..40 {
            create(fs, dir, &format!("{n}{}", "z".repeat(40)), FileKind::Regular, &[n + 3; 30]);
        }
    }

    /// Returns a set on these members.
    pub fn of(media: Vec<MemoryDevice>) -> Self {
        Self { media: media.into_iter().map(Arc::new).collect() }
    }

    /// Returns copies of the members.
    pub fn branch(&self) -> Vec<MemoryDevice> {
        self.media.iter().map(|device| device.branch()).collect()
    }

    /// Returns the set on members that count the bytes that are read in `read`.
    pub fn counting(&self, read: &Arc<AtomicU64>) -> Set {
        let member = |device: &Arc<MemoryDevice>| {
            Arc::new(Counting { device: device.clone(), read: read.clone() }) as Arc<dyn Device>
        };
        Set::open(&self.media.iter().map(member).collect::<Vec<_>>()).unwrap()
    }

    fn devices(&self) -> Vec<Arc<dyn Device>> {
        self.media.iter().map(|device| device.clone() as Arc<dyn Device>).collect()
    }

    pub fn set(&self) -> Set {
        Set::open(&self.devices()).unwrap()
    }

    pub fn layout(&self) -> Layout {
        self.set().layout
    }

    pub fn findings(&self) -> Vec<String> {
        let report = check(&self.set(), 1000, &mut |_| ()).unwrap();
        report.findings.iter().map(ToString::to_string).collect()
    }

    pub fn repair(&self, harmless_only: bool) -> Repaired {
        repair(&self.set(), &*clock(), harmless_only, 1000, &mut |_| ()).unwrap()
    }

    /// Returns true if the members hold the same as these.
    pub fn holds(&self, media: &[MemoryDevice]) -> bool {
        self.media.iter().map(|device| &**device).eq(media)
    }

    /// Mounts the set for writing, and returns its tree.
    pub fn tree(&self) -> Tree {
        let fs = Mfs::open(&self.set(), clock(), &OpenOptions::default()).unwrap();
        assert!(!fs.read_only(), "{:?}", fs.read_only_reasons());
        let mut tree = Tree::new();
        walk(&fs, fs.root(), "", &mut tree);
        fs.unmount().unwrap();
        tree
    }

    /// Changes the bytes at an address of control or data storage; puts the checksum at byte `sum`
    /// right, if there is one.
    pub fn edit(&self, at: u64, len: usize, sum: Option<usize>, change: impl FnOnce(&mut [u8])) {
        let space = self.set().space;
        let mut bytes = vec![0; len];
        space.read_at(at, &mut bytes).unwrap();
        change(&mut bytes);
        if let Some(sum) = sum {
            seal(&mut bytes, sum);
        }
        space.write_at(at, &bytes).unwrap();
    }

    pub fn header(&self, ino: u64, change: impl FnOnce(&mut [u8])) {
        let (at, within) = self.layout().header_at(ino).unwrap();
        self.edit(at + within as u64, 512, Some(HEADER_SUM), change);
    }

    pub fn header_bytes(&self, ino: u64) -> Vec<u8> {
        let (at, within) = self.layout().header_at(ino).unwrap();
        let mut bytes = vec![0; 512];
        self.set().space.read_at(at + within as u64, &mut bytes).unwrap();
        bytes
    }

    pub fn cylinder(&self, number: u64, change: impl FnOnce(&mut [u8])) {
        self.edit(self.layout().cylinder_at(number), 512, Some(HEADER_SUM), change);
    }

    pub fn page(&self, number: u64, change: impl FnOnce(&mut [u8])) {
        self.edit(self.layout().classes[0].map_page_at(number), 4096, Some(PAGE_SUM), change);
    }

    /// Returns the block of the root of a name map.
    pub fn name_map(&self, dir: u64) -> u64 {
        word(&self.header_bytes(dir), 120)
    }

    pub fn node_bytes(&self, block: u64) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK];
        self.set().space.read_at(block * BLOCK as u64, &mut bytes).unwrap();
        bytes
    }

    pub fn node(&self, block: u64, change: impl FnOnce(&mut [u8])) {
        self.edit(block * BLOCK as u64, BLOCK, Some(NODE_SUM), change);
    }

    /// Returns the leaf that has a name, and the place of its entry.
    pub fn entry(&self, dir: u64, name: &[u8]) -> (u64, usize) {
        let mut rest = vec![self.name_map(dir)];
        while let Some(block) = rest.pop() {
            let bytes = self.node_bytes(block);
            let count = usize::from(bytes[6]) + 256 * usize::from(bytes[7]);
            if bytes[4] > 0 {
                rest.extend((0..count).map(|n| word(&bytes, 32 + n * 16 + 8)));
                continue;
            }
            let mut at = 32;
            for _ in 0..count {
                let len = usize::from(bytes[at + 17]);
                if &bytes[at + 18..at + 18 + len] == name {
                    return (block, at);
                }
                at += 18 + len;
            }
        }
        panic!("no such name");
    }

    /// Changes the entry of a name.
    pub fn rename(&self, dir: u64, name: &[u8], change: impl FnOnce(&mut [u8])) {
        let (block, at) = self.entry(dir, name);
        self.node(block, |bytes| change(&mut bytes[at..at + 18 + name.len()]));
    }

    /// Removes the entry of a name, and nothing else.
    pub fn remove(&self, dir: u64, name: &[u8]) {
        let (block, at) = self.entry(dir, name);
        self.node(block, |bytes| {
            bytes.copy_within(at + 18 + name.len().., at);
            let count = u16::from_le_bytes([bytes[6], bytes[7]]) - 1;
            bytes[6..8].copy_from_slice(&count.to_le_bytes());
        });
    }
}

pub fn seal(bytes: &mut [u8], sum: usize) {
    bytes[sum..sum + 4].fill(0);
    let crc = crc32c::crc32c(bytes);
    bytes[sum..sum + 4].copy_from_slice(&crc.to_le_bytes());
}

pub fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

pub fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Reads everything below a directory; of large files the first 2 MiB.
fn walk(fs: &Mfs, dir: Ino, path: &str, tree: &mut Tree) {
    let mut names = Vec::new();
    fs.readdir(dir, 0, &mut |entry| {
        if !matches!(entry.name, b"." | b"..") {
            names.push(entry.name.to_vec());
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    for name in names {
        let attr = fs.lookup(dir, &name).unwrap();
        let path = format!("{path}/{}", name.escape_ascii());
        let mut bytes = Vec::new();
        match attr.kind {
            FileKind::Regular => {
                bytes.resize(usize::try_from(attr.size.min(2 << 20)).unwrap(), 0);
                assert_eq!(fs.read(attr.ino, 0, &mut bytes).unwrap(), bytes.len());
            }
            FileKind::Symlink => bytes = fs.readlink(attr.ino).unwrap(),
            _ => {}
        }
        let value = |name: Vec<u8>| {
            let value = fs.getxattr(attr.ino, &name).unwrap();
            (name, value)
        };
        let attributes = fs.listxattr(attr.ino).unwrap().into_iter().map(value).collect();
        assert!(tree.insert(path.clone(), (attr.ino.0, attr.kind, bytes, attributes)).is_none(), "{path}");
        if attr.kind == FileKind::Directory {
            walk(fs, attr.ino, &path, tree);
        }
        fs.forget(attr.ino, 1);
    }
}
