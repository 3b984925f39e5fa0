//! File systems of Solaris with a log.

use crate::images::{self, Image};
use crate::victim::{checked, clock};
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::newfs::{Format, Parameters};
use spindle_ffs::ondisk::{
    Delta, FsSun, LUFS_SECTOR, LUFS_USABLE, LUFS_VERSION, LufsExtent, LufsExtents, LufsHead, SectTrailer,
    delta_type,
};
use spindle_ffs::repair::{Journal, Recovery, journal};
use spindle_ffs::{Dialect, Ffs, Frag, LogUse, OpenOptions};
use spindle_ondisk::{Endian, Field};
use spindle_vfs::{FileKind, FileSystem, Ino, NewNode, Privilege};
use std::sync::Arc;

pub const BY: Privilege = Privilege::Root;
/// Blocks of the log.
const BLOCKS: usize = 12;
/// The number of the first sector of the log.
pub const IDENT: u32 = u32::MAX - 40;

/// A piece of a log.
#[derive(Clone)]
pub enum Piece {
    /// Bytes for a place on the disk.
    Data(u64, Vec<u8>),
    /// Zeros for a place on the disk.
    Zeros(u64, i32),
    /// What was written before for these bytes does not count.
    Cancel(u64, i32),
    Commit,
    /// A head of any content.
    Raw(Delta),
}

/// A file system with a log.
#[derive(Clone)]
pub struct Logged {
    pub image: Image,
    /// The same after the operations that are in the log.
    pub after: Image,
    /// Where the blocks of the log are, in bytes, in their order.
    blocks: Vec<u64>,
}

pub const DIALECTS: [Dialect; 2] = [Dialect::Sun { x86: true }, Dialect::Sun { x86: false }];

impl Logged {
    /// Returns one whose log is empty, with files `d/f0` to `d/f9`, and how it is after `change`.
    pub fn new(dialect: Dialect, change: impl FnOnce(&Ffs)) -> Self {
        let parameters =
            Parameters { format: Format::Ufs1, dialect: Some(dialect), ..Parameters::new(16 << 20) };
        let device = Arc::new(images::new(&parameters));
        with(&device, |fs| {
            let node = NewNode::new(FileKind::Directory, 0o755);
            let dir = fs.create(fs.root(), b"d", &node, BY).unwrap().ino;
            for n in 0..10_u8 {
                file(fs, dir, &format!("f{n}"), &vec![n + 1; 900 * usize::from(n + 1)]);
            }
            let bsize = usize::try_from(fs.layout().fs_bsize).unwrap();
            file(fs, fs.root(), "log", &vec![0; (BLOCKS - 1) * bsize]);
            file(fs, fs.root(), "list", &vec![0; bsize]);
        });
        let mut image = Image::new(&device);
        let (log, list) = (image.ino("log"), image.ino("list"));
        // In another order than on the disk, so that there are several extents.
        let mut blocks: Vec<u64> =
            (0..BLOCKS as u64 - 1).rev().map(|n| image.layout().byte(Frag(image.block(log, n)))).collect();
        let own = image.layout().byte(Frag(image.block(list, 0)));
        let after = Arc::new(device.branch());
        with(&after, change);
        let mut after = Image::new(&after);
        // Solaris gives the blocks of a log no file.
        for image in [&mut image, &mut after] {
            for name in ["log", "list"] {
                let (ino, at) = image.lookup(name);
                image.put(at, 0_u32);
                let at = usize::try_from(image.inode(ino)).unwrap();
                image.bytes[at..at + 128].fill(0);
            }
            let sb = image.sb();
            image.put(sb + 209, FsSun::FSLOG);
            image.put(sb + 1324, i32::try_from(own / 512).unwrap());
        }
        blocks.truncate(BLOCKS);
        let mut logged = Self { image, after, blocks };
        logged.list(own);
        logged.head(2 * LUFS_SECTOR, IDENT);
        logged
    }

    fn bsize(&self) -> usize {
        self.image.layout().fs_bsize as usize
    }

    /// Writes the list of extents.
    fn list(&mut self, at: u64) {
        let (endian, bsize) = (self.image.layout().endian, self.bsize());
        let sectors = u32::try_from(bsize / LUFS_SECTOR).unwrap();
        let mut block = vec![0; bsize];
        let nextents = u32::try_from(self.blocks.len()).unwrap();
        let nbytes = nextents * u32::try_from(bsize).unwrap();
        let head = LufsExtents { kind: 0, chksum: 0, nextents, nbytes, nextbno: 0 };
        head.encode(&mut block, endian);
        for ((n, &at), bytes) in (0..).zip(&self.blocks).zip(block[20..].chunks_exact_mut(12)) {
            let pbno = u32::try_from(at / 512).unwrap();
            LufsExtent { lbno: n * sectors, pbno, nbno: sectors }.encode(bytes, endian);
        }
        let words = block.chunks_exact(4).map(|word| u32::get(word, endian));
        let chksum = words.fold(0, u32::wrapping_add);
        LufsExtents { chksum, ..head }.encode(&mut block, endian);
        self.write(at, &block);
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        let at = usize::try_from(at).unwrap();
        self.image.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Writes a sector of the log.
    pub fn sector(&mut self, lof: usize, bytes: &[u8]) {
        let (block, within) = (lof / self.bsize(), lof % self.bsize());
        self.write(self.blocks[block] + within as u64, bytes);
    }

    /// Writes the head, which says that the first delta is at `lof`.
    pub fn head(&mut self, lof: usize, ident: u32) {
        let (end, endian) = (self.end(), self.image.layout().endian);
        let offset = |lof: usize| i32::try_from(lof).unwrap();
        let head = LufsHead {
            od_version: LUFS_VERSION,
            od_badlog: 0,
            od_devbsize: 512,
            od_bol_lof: 1024,
            od_eol_lof: offset(end),
            od_statesize: 1024,
            od_logsize: u32::try_from(end - 1024).unwrap(),
            od_head_lof: offset(lof),
            od_head_ident: ident,
            od_tail_lof: offset(lof),
            od_tail_ident: ident,
            od_chksum: ident.wrapping_add(ident),
            od_head_tid: 0,
        };
        self.put_head(&head, endian);
    }

    pub fn put_head(&mut self, head: &LufsHead, endian: Endian) {
        let mut sector = [0; LUFS_SECTOR];
        head.encode(&mut sector, endian);
        self.sector(0, &sector);
        self.sector(LUFS_SECTOR, &sector);
    }

    /// Returns the byte behind the log.
    pub fn end(&self) -> usize {
        self.blocks.len() * self.bsize()
    }

    /// Writes pieces into the log from byte `lof` on, the number of whose sector is `ident`.
    /// Returns the sectors that were written.
    pub fn pieces(&mut self, mut lof: usize, mut ident: u32, pieces: &[Piece]) -> usize {
        let endian = self.image.layout().endian;
        let mut stream = vec![0; lof % LUFS_SECTOR];
        for piece in pieces {
            let mut delta = |d_mof: u64, d_nb: i32, d_typ: i32| {
                let mut bytes = [0; Delta::SIZE];
                Delta { d_mof: d_mof.cast_signed(), d_nb, d_typ }.encode(&mut bytes, endian);
                stream.extend(bytes);
            };
            match piece {
                Piece::Data(at, bytes) => {
                    delta(*at, i32::try_from(bytes.len()).unwrap(), delta_type::DT_AB);
                    stream.extend(bytes);
                }
                Piece::Zeros(at, len) => delta(*at, *len, delta_type::DT_ABZERO),
                Piece::Cancel(at, len) => delta(*at, *len, delta_type::DT_CANCEL),
                Piece::Raw(Delta { d_mof, d_nb, d_typ }) => delta(d_mof.cast_unsigned(), *d_nb, *d_typ),
                Piece::Commit => {
                    delta(7, 0, delta_type::DT_COMMIT);
                    stream.resize(stream.len().next_multiple_of(LUFS_USABLE), 0);
                }
            }
        }
        lof -= lof % LUFS_SECTOR;
        let mut sectors = 0;
        for bytes in stream.chunks(LUFS_USABLE) {
            let mut sector = [0; LUFS_SECTOR];
            sector[..bytes.len()].copy_from_slice(bytes);
            // One that is not full gets its number with a commit.
            if bytes.len() == LUFS_USABLE {
                SectTrailer { st_tid: 1, st_ident: ident }.encode(&mut sector[LUFS_USABLE..], endian);
            }
            self.sector(lof, &sector);
            lof = if lof + LUFS_SECTOR == self.end() { 1024 } else { lof + LUFS_SECTOR };
            ident = ident.wrapping_add(1);
            sectors += 1;
        }
        sectors
    }

    /// Returns what the operations have changed.
    pub fn changes(&self) -> Vec<Piece> {
        let both = self.image.bytes.chunks(512).zip(self.after.bytes.chunks(512));
        let is_log = |at: u64| {
            let list = u64::from(self.image.get::<u32>(self.image.sb() + 1324)) * 512;
            let bsize = self.bsize() as u64;
            self.blocks.iter().chain([&list]).any(|&start| (start..start + bsize).contains(&at))
        };
        (0..)
            .step_by(512)
            .zip(both)
            .filter(|(at, (before, after))| before != after && !is_log(*at))
            .map(|(at, (_, after))| Piece::Data(at, after.to_vec()))
            .collect()
    }

    pub fn device(&self) -> MemoryDevice {
        MemoryDevice::from_bytes(&self.image.bytes)
    }
}

/// Runs operations on a file system.
fn with(device: &Arc<MemoryDevice>, change: impl FnOnce(&Ffs)) {
    let options = OpenOptions { seed: Some(1), log: LogUse::Never, ..OpenOptions::default() };
    let fs = Ffs::open(device.clone() as Arc<dyn Device>, clock(), &options).unwrap();
    assert!(!fs.read_only());
    change(&fs);
    fs.unmount().unwrap();
}

pub fn file(fs: &Ffs, dir: Ino, name: &str, bytes: &[u8]) {
    let node = NewNode::new(FileKind::Regular, 0o644);
    let ino = fs.create(dir, name.as_bytes(), &node, BY).unwrap().ino;
    fs.write(ino, 0, bytes, BY).unwrap();
}

/// Returns the recovery that is planned, or the reason why there is none.
pub fn planned(device: &MemoryDevice) -> Result<Recovery, String> {
    let device: Arc<dyn Device> = Arc::new(device.branch());
    match journal(&device, &clock()).unwrap() {
        Journal::Usable(recovery) => Ok(*recovery),
        Journal::Useless(_, reason) => Err(reason),
        Journal::None => panic!("there is no log"),
    }
}

/// Recovers. A full check finds nothing afterwards, the file system is clean, and has no log.
pub fn recover(device: &MemoryDevice) {
    planned(device).unwrap().plan.apply(device).unwrap();
    let report = checked(device);
    assert!(report.findings.is_empty() && report.marked_clean, "{:?}", report.findings);
    let image = Image::new(device);
    assert_eq!(image.get::<i32>(image.sb() + 1324), 0);
    assert!(image.superblock.is_clean() && image.superblock.objections(device).unwrap().is_empty());
}
