//! File systems with a journal, and what a crash of FreeBSD leaves in them.

use crate::images::{self, Image};
use crate::victim::{checked, clock};
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::newfs::{Format, Parameters};
use spindle_ffs::ondisk::{JREC_SIZE, JblkRec, JmvRec, JrefRec, JsegRec, JtrncRec, flags, jop};
use spindle_ffs::repair::{Journal, Recovery, journal};
use spindle_ffs::{Dialect, Ffs, Frag, LogUse, OpenOptions};
use spindle_ondisk::{Endian, Field};
use spindle_vfs::{FileKind, FileSystem, Ino, NewNode, Privilege};
use std::sync::Arc;

pub const BY: Privilege = Privilege::Root;
/// The time of the mount that has written the journal.
pub const MOUNTED: i64 = 1_750_000_000;
/// Bytes of the journal.
pub const BYTES: u64 = 4 << 20;

/// A record of a journal.
#[derive(Clone, Copy)]
pub enum Rec {
    Ref(JrefRec),
    Move(JmvRec),
    Block(JblkRec),
    Cut(JtrncRec),
    /// Of a type that there is not.
    Unknown(u32),
}

impl Rec {
    fn encode(&self, bytes: &mut [u8], endian: Endian) {
        match self {
            Self::Ref(record) => record.encode(bytes, endian),
            Self::Move(record) => record.encode(bytes, endian),
            Self::Block(record) => record.encode(bytes, endian),
            Self::Cut(record) => record.encode(bytes, endian),
            Self::Unknown(op) => {
                op.put(bytes, endian);
                2_u32.put(&mut bytes[4..], endian);
            }
        }
    }
}

fn name(jr_op: u32, ino: u32, parent: u32, offset: u64) -> Rec {
    let jr_diroff = offset.cast_signed();
    Rec::Ref(JrefRec {
        jr_op,
        jr_ino: ino,
        jr_parent: parent,
        jr_nlink: 0,
        jr_mode: 0,
        jr_diroff,
        jr_unused: 0,
    })
}

pub fn add(ino: u32, parent: u32, offset: u64) -> Rec {
    name(jop::ADDREF, ino, parent, offset)
}

pub fn remove(ino: u32, parent: u32, offset: u64) -> Rec {
    name(jop::REMREF, ino, parent, offset)
}

pub fn moved(ino: u32, parent: u32, old: u64, new: u64) -> Rec {
    let (jm_oldoff, jm_newoff) = (old.cast_signed(), new.cast_signed());
    Rec::Move(JmvRec {
        jm_op: jop::MVREF,
        jm_ino: ino,
        jm_parent: parent,
        jm_unused: 0,
        jm_oldoff,
        jm_newoff,
    })
}

pub fn block(jb_op: u32, ino: u32, frag: u64, lbn: i64, frags: u16) -> Rec {
    let jb_blkno = frag.cast_signed();
    Rec::Block(JblkRec {
        jb_op,
        jb_ino: ino,
        jb_blkno,
        jb_lbn: lbn,
        jb_frags: frags,
        jb_oldfrags: 0,
        jb_unused: 0,
    })
}

pub fn cut(ino: u32, bytes: u64) -> Rec {
    let jt_size = bytes.cast_signed();
    Rec::Cut(JtrncRec { jt_op: jop::TRUNC, jt_ino: ino, jt_size, jt_extsize: 0, jt_pad: [0; 3] })
}

pub fn synced(ino: u32) -> Rec {
    Rec::Cut(JtrncRec { jt_op: jop::SYNC, jt_ino: ino, jt_size: 0, jt_extsize: 0, jt_pad: [0; 3] })
}

/// A segment to write.
#[derive(Clone)]
pub struct Segment {
    pub seq: u64,
    pub oldest: u64,
    pub time: i64,
    pub records: Vec<Rec>,
}

impl Segment {
    pub fn new(seq: u64, records: &[Rec]) -> Self {
        Self { seq, oldest: 1, time: MOUNTED, records: records.to_vec() }
    }

    /// Returns its bytes on a disk with such sectors.
    pub fn bytes(&self, sector: usize, endian: Endian) -> Vec<u8> {
        let room = sector / JREC_SIZE - 1;
        let blocks = self.records.len().div_ceil(room).max(1);
        let head = JsegRec {
            jsr_seq: self.seq,
            jsr_oldest: self.oldest,
            jsr_cnt: u16::try_from(self.records.len()).unwrap(),
            jsr_blocks: u16::try_from(blocks).unwrap(),
            jsr_crc: 0,
            jsr_time: self.time,
        };
        let mut bytes = vec![0; blocks * sector];
        for (n, sector) in bytes.chunks_exact_mut(sector).enumerate() {
            head.encode(sector, endian);
            let records = self.records.iter().skip(n * room).take(room);
            for (at, record) in sector.chunks_exact_mut(JREC_SIZE).skip(1).zip(records) {
                record.encode(at, endian);
            }
        }
        bytes
    }
}

/// A kind of file system that FreeBSD keeps a journal in.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub format: Format,
    pub endian: Endian,
    pub hashes: bool,
}

pub const KINDS: [Kind; 5] = [
    Kind { format: Format::Ufs2, endian: Endian::Little, hashes: true },
    Kind { format: Format::Ufs2, endian: Endian::Little, hashes: false },
    Kind { format: Format::Ufs2, endian: Endian::Big, hashes: true },
    Kind { format: Format::Ufs1, endian: Endian::Little, hashes: false },
    Kind { format: Format::Ufs1, endian: Endian::Big, hashes: false },
];

/// A file system that was in use when the machine stopped.
#[derive(Clone)]
pub struct Crashed {
    pub image: Image,
    /// Where the blocks of the journal are, in bytes.
    blocks: Vec<u64>,
    pub journal: u32,
}

/// Bytes of the large file.
pub const LARGE: u64 = 1_500_000;

impl Crashed {
    /// Returns one with files `d/f0` to `d/f9`, an empty directory `e`, and a file `large`, of
    /// which everything has reached the disk.
    pub fn new(kind: Kind) -> Self {
        let parameters = Parameters {
            format: kind.format,
            endian: Some(kind.endian),
            dialect: Some(Dialect::FreeBsd),
            check_hashes: kind.hashes,
            ..Parameters::new(24 << 20)
        };
        let device = Arc::new(images::new(&parameters));
        let options = OpenOptions { seed: Some(1), log: LogUse::Never, ..OpenOptions::default() };
        let fs = Ffs::open(device.clone(), clock(), &options).unwrap();
        let file = |dir: Ino, name: &str, perm: u32, bytes: &[u8]| {
            let node = NewNode::new(FileKind::Regular, perm);
            let ino = fs.create(dir, name.as_bytes(), &node, BY).unwrap().ino;
            fs.write(ino, 0, bytes, BY).unwrap();
        };
        file(fs.root(), ".sujournal", 0o400, &vec![0; usize::try_from(BYTES).unwrap()]);
        let node = NewNode::new(FileKind::Directory, 0o755);
        let dir = fs.create(fs.root(), b"d", &node, BY).unwrap().ino;
        fs.create(fs.root(), b"e", &node, BY).unwrap();
        for n in 0..10_u8 {
            file(dir, &format!("f{n}"), 0o644, &vec![n + 1; 700 * usize::from(n + 1)]);
        }
        file(fs.root(), "large", 0o644, &vec![7; usize::try_from(LARGE).unwrap()]);
        fs.unmount().unwrap();
        drop(fs);
        let device = Arc::into_inner(device).unwrap();
        let mut image = Image::new(&device);
        let journal = image.ino(".sujournal");
        let at = image.inode(journal);
        let (flags_at, modrev) = if image.is_ufs2() { (88, 232) } else { (100, 120) };
        image.put(at + flags_at, 0x12_0000_u32);
        image.put(at + modrev, MOUNTED.cast_unsigned());
        let mut crashed = Self { blocks: blocks(&image, journal), image, journal };
        crashed.hash(journal);
        let sb = crashed.image.sb();
        crashed.image.put(sb + 209, 0_u8);
        crashed.flags(flags::FS_SUJ | flags::FS_DOSOFTDEP);
        crashed.image.put(sb + 1208, MOUNTED);
        crashed.hash_superblock();
        crashed
    }

    /// Adds to `fs_flags`.
    pub fn flags(&mut self, bits: u32) {
        let at = self.image.sb() + 1312;
        self.image.put(at, self.image.get::<u32>(at) | bits);
    }

    pub fn hash(&mut self, ino: u32) {
        if self.image.superblock.check_hashes().inodes {
            self.image.hash_inode(ino);
        }
    }

    pub fn hash_superblock(&mut self) {
        self.image.hash_superblock();
    }

    /// Writes bytes into the journal.
    pub fn put(&mut self, at: u64, bytes: &[u8]) {
        let bsize = u64::from(self.image.layout().fs_bsize);
        for (offset, &byte) in (at..).zip(bytes) {
            let place = self.blocks[usize::try_from(offset / bsize).unwrap()] + offset % bsize;
            self.image.bytes[usize::try_from(place).unwrap()] = byte;
        }
    }

    /// Writes segments one after the other, from byte `at` on.
    pub fn segments(&mut self, mut at: u64, sector: usize, segments: &[Segment]) {
        for segment in segments {
            let bytes = segment.bytes(sector, self.image.layout().endian);
            self.put(at, &bytes);
            at += bytes.len() as u64;
        }
    }

    /// Writes a journal of one segment.
    pub fn records(&mut self, records: &[Rec]) {
        self.segments(0, 512, &[Segment::new(1, records)]);
    }

    /// Returns the inode of a path, and its directory and place.
    pub fn name(&self, path: &str) -> (u32, u32, u64) {
        let (dir, last) = path.rsplit_once('/').map_or((2, path), |(dir, last)| (self.image.ino(dir), last));
        let at = self.image.entry_of(dir, last).unwrap();
        (self.image.get(at), dir, at - self.image.layout().byte(Frag(self.image.block(dir, 0))))
    }

    /// Takes a name off the disk, as the write of its directory does.
    pub fn unname(&mut self, path: &str) {
        let at = self.image.entry(path);
        self.image.put(at, 0_u32);
    }

    /// Sets the number of names in an inode.
    pub fn names(&mut self, ino: u32, names: u16) {
        let at = self.image.inode(ino);
        self.image.put(at + 2, names);
        self.hash(ino);
    }

    /// Sets the bytes of a file in its inode.
    pub fn size(&mut self, ino: u32, bytes: u64) {
        let at = self.image.inode(ino) + if self.image.is_ufs2() { 16 } else { 8 };
        self.image.put(at, bytes);
        self.hash(ino);
    }

    /// Sets pointer `n` of an inode.
    pub fn pointer(&mut self, ino: u32, n: u64, frag: u64) {
        let at = self.image.pointer(ino, n);
        if self.image.is_ufs2() {
            self.image.put(at, frag);
        } else {
            self.image.put(at, u32::try_from(frag).unwrap());
        }
        self.hash(ino);
    }

    /// Clears an inode, as the write of its block does.
    pub fn clear(&mut self, ino: u32) {
        let at = usize::try_from(self.image.inode(ino)).unwrap();
        let len = self.image.layout().inode_size();
        self.image.bytes[at..at + len].fill(0);
    }

    pub fn device(&self) -> MemoryDevice {
        MemoryDevice::from_bytes(&self.image.bytes)
    }
}

/// Returns where the blocks of a file are, in bytes.
fn blocks(image: &Image, ino: u32) -> Vec<u64> {
    let layout = image.layout();
    let mut frags: Vec<u64> = (0..12).map(|n| image.block(ino, n)).collect();
    let indirect = layout.byte(Frag(image.block(ino, 12)));
    let width = layout.pointer_size() as u64;
    let pointer = |n: u64| {
        let at = indirect + n * width;
        if width == 8 { image.get::<u64>(at) } else { image.get::<u32>(at).into() }
    };
    frags.extend((0..u64::from(layout.fs_nindir)).map(pointer));
    let count = usize::try_from(BYTES.div_ceil(layout.fs_bsize.into())).unwrap();
    frags.truncate(count);
    assert!(frags.len() == count && frags.iter().all(|&frag| frag != 0), "one indirect block is enough");
    frags.into_iter().map(|frag| layout.byte(Frag(frag))).collect()
}

/// Returns the journal as it is found.
pub fn found(device: &MemoryDevice) -> Journal {
    let device: Arc<dyn Device> = Arc::new(device.branch());
    journal(&device, &clock()).unwrap()
}

/// Returns the recovery that is planned.
pub fn planned(device: &MemoryDevice) -> Recovery {
    match found(device) {
        Journal::Usable(recovery) => *recovery,
        Journal::Useless(_, reason) => panic!("the journal is not used: {reason}"),
        Journal::None => panic!("there is no journal"),
    }
}

/// Returns the reason why the journal is not used.
pub fn refused(device: &MemoryDevice) -> String {
    match found(device) {
        Journal::Useless(_, reason) => reason,
        Journal::Usable(_) => panic!("the journal is used"),
        Journal::None => panic!("there is no journal"),
    }
}

/// Recovers. A full check finds nothing afterwards, and the file system is marked clean.
pub fn recover(device: &MemoryDevice) {
    planned(device).plan.apply(device).unwrap();
    let report = checked(device);
    assert!(report.findings.is_empty() && report.marked_clean, "{:?}", report.findings);
}
