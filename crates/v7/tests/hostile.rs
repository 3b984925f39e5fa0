//! Images with random damage: every operation ends, nothing panics, and a repair leaves no finding
//! but those that it cannot repair.

mod support;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_conformance::random::seed;
use spindle_device::{AlignedBuf, Device, Info, MemoryDevice, Request, Result, Ticket};
use spindle_ondisk::Endian;
use spindle_v7::check::{Options, check, repair};
use spindle_v7::inspect::Inspector;
use spindle_v7::{Block, Detected, Format, OpenOptions, Superblock, V7};
use spindle_vfs::{
    FallocateMode, FileKind, FileSystem, Ino, NewNode, Privilege, Rdev, RenameMode, Seek, SetAttr,
};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use support::Victim;

/// Greatest number of requests in one phase, on a device of a megabyte.
const MOST_REQUESTS: u64 = 40_000;
const CASES: u64 = 300;

/// A device that counts requests.
struct Counting {
    inner: Arc<MemoryDevice>,
    requests: AtomicU64,
}

impl Counting {
    /// Checks the number of requests at the end of a phase.
    fn within_bounds(&self, phase: &str) {
        let requests = self.requests.swap(0, Ordering::Relaxed);
        assert!(requests < MOST_REQUESTS, "{phase} made {requests} requests");
    }
}

impl Device for Counting {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    fn submit(&self, request: Request) -> Result<Ticket> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.inner.submit(request)
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        self.inner.wait(ticket)
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.discard(offset, len)
    }
}

/// Damages a few words, mostly in blocks of metadata, mostly with numbers that are nearly valid.
fn damage(victim: &Victim, rng: &mut StdRng) {
    let layout = &victim.layout;
    let mut blocks = vec![layout.superblock_at().0, layout.inode_at(2).0, layout.inode_at(9).0];
    blocks.extend(
        [(2, 0), (victim.dir, 0), (victim.sub, 0), (victim.file, 10)]
            .map(|(ino, n)| Block(victim.addr(ino, n))),
    );
    for _ in 0..rng.random_range(1..6) {
        let block = blocks[rng.random_range(0..blocks.len())];
        let word = rng.random_range(0..layout.bsize() / 2) * 2;
        let interesting =
            [0, 1, 2, 3, 0xffff, 0x7fff, 0x8000, u16::try_from(victim.addr(victim.file, 10)).unwrap()];
        let value: u16 = match rng.random_range(0..3) {
            0 => rng.random(),
            1 => rng.random_range(0..2048),
            _ => interesting[rng.random_range(0..interesting.len())],
        };
        let bytes = if rng.random() { value.to_le_bytes() } else { value.to_be_bytes() };
        victim.change(block, |block| block[word..word + 2].copy_from_slice(&bytes));
    }
}

fn walk(fs: &V7, dir: Ino, depth: u32) {
    let mut entries = Vec::new();
    let _ = fs.readdir(dir, 0, &mut |entry| {
        entries.push(entry.name.to_vec());
        if entries.len() < 100 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    for name in entries.into_iter().filter(|name| name != b"." && name != b"..") {
        let Ok(attr) = fs.lookup(dir, &name) else { continue };
        match attr.kind {
            FileKind::Directory if depth < 4 => walk(fs, attr.ino, depth + 1),
            FileKind::Regular => {
                let _ = fs.read(attr.ino, 0, &mut vec![0; 40_000]);
                let _ = fs.read(attr.ino, attr.size.saturating_sub(5000), &mut [0; 5000]);
                let _ = fs.seek(attr.ino, 0, Seek::Hole).and_then(|hole| fs.seek(attr.ino, hole, Seek::Data));
            }
            _ => {}
        }
        fs.forget(attr.ino, 1);
    }
}

fn work(fs: &V7, victim: &Victim) {
    let by = Privilege::Root;
    let root = fs.root();
    let [dir, sub, file, other] =
        [victim.dir, victim.sub, victim.file, victim.other].map(|ino| Ino(ino.into()));
    let node =
        |kind| NewNode { kind, perm: 0o644, uid: 1, gid: 1, masked: 0, rdev: Rdev::default(), target: b"" };
    let _ = fs
        .create(dir, b"new", &node(FileKind::Regular), by)
        .map(|new| fs.write(new.ino, 100, &[1; 10_000], by));
    let _ = fs.create(sub, b"newdir", &node(FileKind::Directory), by);
    let _ = fs.write(file, 1000, &[2; 3000], by);
    let _ = fs.write(other, 100_000, &[3; 3000], by);
    let _ = fs.fallocate(other, FallocateMode::PunchHole, 0, 1000, by);
    let _ = fs.fallocate(other, FallocateMode::Allocate { keep_size: false }, 0, 90_000, by);
    let _ = fs.rename(root, b"other", dir, b"file", RenameMode::Replace, by);
    let _ = fs.rename(dir, b"sub", root, b"moved", RenameMode::Replace, by);
    let _ = fs.rename(root, b"moved", sub, b"below", RenameMode::Exchange, by);
    let _ = fs.setattr(file, &SetAttr { size: Some(10), ..SetAttr::default() }, by);
    let _ = fs.unlink(dir, b"file");
    let _ = fs.rmdir(root, b"lost+found");
    fs.forget(file, 10);
}

/// Asks everything that there is to ask about an image. Each question is bounded by itself.
fn look(device: &Counting, detected: &Detected, victim: &Victim) {
    let Ok(inspector) = Inspector::new(device, detected) else { return };
    let survey = inspector.survey();
    device.within_bounds("survey");
    assert_eq!(survey.uses.len(), inspector.layout().s_fsize as usize);
    let _ = inspector.deleted();
    device.within_bounds("deleted");
    for ino in [0, 1, 2, victim.dir, victim.file, victim.other, u16::MAX] {
        let _ = (inspector.inode(ino), inspector.blocks(ino), inspector.entries(ino));
        device.within_bounds("an inode");
    }
    let _ = inspector.lookup(b"/dir/../dir/./file");
    for block in [0, inspector.layout().s_isize, inspector.layout().s_fsize, u32::MAX] {
        let _ = (inspector.block(block), inspector.owners(block), inspector.is_free(block));
        device.within_bounds("a block");
    }
}

/// Promise: no damage causes a panic or an endless loop; reading writes nothing; what a check calls
/// undamaged is recognised and can be written; after a repair the only findings are those that it
/// cannot repair.
#[test]
fn damaged_at_random() {
    let seed = seed();
    for case in 0..CASES {
        println!("case {case}; SPINDLE_SEED={seed} repeats all");
        let mut rng = StdRng::seed_from_u64(seed.wrapping_add(case));
        let sysv = Format::sysv(if rng.random() { Endian::Big } else { Endian::Little });
        let victim = Victim::new([Format::V7, Format::BSD41, sysv][rng.random_range(0..3)]);
        damage(&victim, &mut rng);
        let device = Arc::new(Counting { inner: victim.device.clone(), requests: AtomicU64::new(0) });
        let format = Some(victim.layout.format);
        let before = victim.device.to_bytes();
        let reading = OpenOptions { read_only: true, ..OpenOptions::default() };
        for options in [reading.clone(), OpenOptions { format, ..reading }] {
            if let Ok(fs) = V7::open(device.clone(), victim.clock.clone(), &options) {
                walk(&fs, fs.root(), 0);
                fs.unmount().unwrap();
            }
            device.within_bounds("reading");
        }
        if let Ok(detected) = Superblock::open(&*device, format) {
            look(&device, &detected, &victim);
        }
        let options = Options { format, ..Options::default() };
        let checked = check(&*device, &options, &mut |_| ());
        device.within_bounds("check");
        let (is_clean, checked) =
            (checked.as_ref().is_ok_and(|report| report.is_clean() && report.marked_clean), checked.is_ok());
        if is_clean {
            let fs = V7::open(device.clone(), victim.clock.clone(), &OpenOptions::default());
            let fs = fs.unwrap_or_else(|error| panic!("case {case}, {format:?}: {error}"));
            assert!(!fs.read_only(), "case {case}: {:?}", fs.read_only_reasons());
            device.within_bounds("opening");
        }
        assert!(victim.device.to_bytes() == before, "reading has written");

        let options = OpenOptions { force: true, format, ..OpenOptions::default() };
        if let Ok(fs) = V7::open(device.clone(), victim.clock.clone(), &options) {
            walk(&fs, fs.root(), 0);
            work(&fs, &victim);
            let _ = fs.unmount();
        }
        device.within_bounds("writing");
        let options = Options { format, ..Options::default() };
        if !checked {
            continue;
        }
        let shared: Arc<dyn Device> = device.clone();
        match repair(&shared, &*victim.clock, &options, false, &mut |_| ()) {
            Ok(repaired) => {
                let left = repaired.after.findings;
                let mended = left.iter().all(|found| {
                    let text = found.to_string();
                    let known = ["UNREF DIR", "UNREF FILE", "ROOT INODE", "MISSING '", "POSSIBLE FILE SIZE"];
                    known.iter().any(|known| text.starts_with(known)) || text.contains("NOT UNMOUNTED")
                });
                assert!(mended, "case {case}: {left:#?}");
            }
            Err(error) => println!("not repaired: {error}"),
        }
        device.requests.store(0, Ordering::Relaxed);
    }
}

/// Promise: a file can be made although the superblock's number of free inodes exceeds its array.
#[test]
fn a_damaged_count_of_free_inodes() {
    // After `s_isize`, `s_fsize`, `s_nfree` and `s_free`.
    const S_NINODE: usize = 2 + 4 + 2 + 50 * 4;
    for count in [-1, 101, 1421, i16::MAX] {
        let victim = Victim::new(Format::V7);
        let superblock = victim.layout.superblock_at().0;
        victim.change(superblock, |block| {
            block[S_NINODE..S_NINODE + 2].copy_from_slice(&count.to_le_bytes());
        });
        let options =
            OpenOptions { force: true, format: Some(victim.layout.format), ..OpenOptions::default() };
        let fs = V7::open(victim.device.clone(), victim.clock.clone(), &options).unwrap();
        let node = NewNode {
            kind: FileKind::Regular,
            perm: 0o644,
            uid: 1,
            gid: 1,
            masked: 0,
            rdev: Rdev::default(),
            target: b"",
        };
        fs.create(Ino(victim.dir.into()), b"new", &node, Privilege::Root).unwrap();
        fs.unmount().unwrap();
    }
}

/// Promise: an i-list with more inodes than numbers can name is read, and counted.
#[test]
fn an_ilist_beyond_the_last_number() {
    let victim = Victim::new(Format::V7);
    // `s_isize`, and `s_fsize` with the more significant word first, as a PDP-11 has it.
    let (s_isize, s_fsize) = (u16::try_from(65_536 / 8 + 2).unwrap(), 0x2_0000_u32);
    victim.change(victim.layout.superblock_at().0, |block| {
        block[..2].copy_from_slice(&s_isize.to_le_bytes());
        block[2..4].copy_from_slice(&u16::try_from(s_fsize >> 16).unwrap().to_le_bytes());
        block[4..6].copy_from_slice(&[0; 2]);
    });
    let format = Some(victim.layout.format);
    let options = OpenOptions { read_only: true, format, ..OpenOptions::default() };
    let fs = V7::open(victim.device.clone(), victim.clock.clone(), &options).unwrap();
    assert_eq!(fs.statfs().unwrap().files, 65_534, "all numbers but 0 and 1");
    fs.unmount().unwrap();
}
