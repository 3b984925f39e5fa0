//! Images for the tests of the check, beside those of real systems: what `makefs` makes, and what
//! is planted in them.

use rand::SeedableRng;
use rand::rngs::SmallRng;
use spindle_clock::ManualClock;
use spindle_device::{AlignedBuf, Device, Error, Info, MemoryDevice, Op, Request, Result, Ticket};
use spindle_ffs::check::{Options, Report, check};
use spindle_ffs::newfs::{Parameters, Plan, write};
use spindle_ffs::{Frag, InodeFormat, Layout, Superblock, Version, check_hash};
use spindle_ondisk::Field;
use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

/// Returns the bytes that a command writes.
pub fn run(command: &mut Command) -> Vec<u8> {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}: run the set-up script"));
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

/// Returns how many inodes the independent listing of a real image names.
pub fn listed(listing: &str) -> u64 {
    let inodes: HashSet<_> = listing.lines().skip(1).filter_map(|line| line.split('\t').nth(9)).collect();
    inodes.len() as u64
}

/// Returns an image that `makefs` makes of a directory.
pub fn makefs(tree: &Path, options: &[&str]) -> MemoryDevice {
    let out = tempfile::NamedTempFile::new().expect("a temporary file");
    run(Command::new("/usr/sbin/makefs").args(["-t", "ffs"]).args(options).arg(out.path()).arg(tree));
    MemoryDevice::from_bytes(&std::fs::read(out.path()).expect("makefs wrote it"))
}

/// Returns a new file system.
pub fn new(parameters: &Parameters) -> MemoryDevice {
    let device = MemoryDevice::new(parameters.size_bytes);
    let plan = Plan::new(parameters).unwrap_or_else(|e| panic!("{parameters:?}: {e}"));
    let mut random = SmallRng::seed_from_u64(5);
    write(&plan, &device, &ManualClock::at(1_700_000_000), &mut random, &mut |_, _| ()).expect("newfs works");
    device
}

/// An image in memory that damage can be planted in, with the means to find its parts.
#[derive(Clone)]
pub struct Image {
    pub bytes: Vec<u8>,
    pub superblock: Superblock,
    /// Bytes that the device cannot read.
    pub unreadable: Range<u64>,
}
impl Image {
    pub fn new(device: &MemoryDevice) -> Self {
        let superblock = Superblock::open(device).expect("a good image");
        Self { bytes: device.to_bytes(), superblock, unreadable: 0..0 }
    }

    pub fn layout(&self) -> &Layout {
        &self.superblock.layout
    }

    pub fn get<T: Field>(&self, at: u64) -> T {
        T::get(&self.bytes[index(at)..], self.layout().endian)
    }

    pub fn put<T: Field + Copy>(&mut self, at: u64, value: T) {
        value.put(&mut self.bytes[index(at)..], self.superblock.layout.endian);
    }

    /// Changes a number in its place.
    pub fn add(&mut self, at: u64, by: i32) {
        self.put(at, self.get::<i32>(at) + by);
    }

    /// Returns the byte of the standard superblock.
    pub fn sb(&self) -> u64 {
        self.layout().fs_sblockloc
    }

    /// Returns the byte of a replica.
    pub fn replica(&self, cgx: u32) -> u64 {
        self.layout().byte(self.layout().cgsblock(cgx))
    }

    /// Returns the byte of a group block.
    pub fn cg(&self, cgx: u32) -> u64 {
        self.layout().byte(self.layout().cgtod(cgx))
    }

    /// Returns the byte of an inode.
    pub fn inode(&self, ino: u32) -> u64 {
        let (block, offset) = self.layout().ino_to_fsba(ino);
        self.layout().byte(block) + offset as u64
    }

    pub fn is_ufs2(&self) -> bool {
        self.layout().version == Version::Ufs2
    }

    /// Returns the byte of direct pointer `n` (12 and up: indirect ones) of an inode, which is as
    /// wide as an address.
    pub fn pointer(&self, ino: u32, n: u64) -> u64 {
        self.inode(ino) + if self.is_ufs2() { 112 + 8 * n } else { 40 + 4 * n }
    }

    /// Returns what that pointer holds.
    pub fn block(&self, ino: u32, n: u64) -> u64 {
        let at = self.pointer(ino, n);
        if self.is_ufs2() { self.get(at) } else { self.get::<u32>(at).into() }
    }

    fn size(&self, ino: u32) -> u64 {
        self.get(self.inode(ino) + if self.is_ufs2() { 16 } else { 8 })
    }

    /// Returns the byte on the device of the entry `name` of a directory.
    pub fn entry_of(&self, dir: u32, name: &str) -> Option<u64> {
        let layout = self.layout();
        let bsize = u64::from(layout.fs_bsize);
        let mut at = 0;
        while at < self.size(dir) {
            let byte = layout.byte(Frag(self.block(dir, at / bsize))) + at % bsize;
            let namlen = if layout.inode_format == InodeFormat::New {
                u64::from(self.get::<u8>(byte + 7))
            } else {
                self.get::<u16>(byte + 6).into()
            };
            let found = &self.bytes[index(byte + 8)..index(byte + 8 + namlen)];
            if self.get::<u32>(byte) != 0 && found == name.as_bytes() {
                return Some(byte);
            }
            let reclen: u16 = self.get(byte + 4);
            assert!(reclen > 0 && at / bsize < 12, "a directory in direct blocks");
            at += u64::from(reclen);
        }
        None
    }

    /// Returns the inode and the place of the entry that a path leads to.
    pub fn lookup(&self, path: &str) -> (u32, u64) {
        path.split('/').fold((2, 0), |(dir, _), name| {
            let at = self.entry_of(dir, name).unwrap_or_else(|| panic!("{path}: no {name}"));
            (self.get(at), at)
        })
    }

    pub fn ino(&self, path: &str) -> u32 {
        self.lookup(path).0
    }

    pub fn entry(&self, path: &str) -> u64 {
        self.lookup(path).1
    }

    /// Sets the check-hash of an inode.
    pub fn hash_inode(&mut self, ino: u32) {
        let at = self.inode(ino);
        let hash = check_hash(&self.bytes[index(at)..index(at) + 256], 244);
        self.put(at + 244, hash);
    }

    /// Sets the check-hash of the superblock, if it has one.
    pub fn hash_superblock(&mut self) {
        if self.superblock.check_hashes().superblock {
            let sb = index(self.sb());
            let hash = check_hash(&self.bytes[sb..sb + self.layout().fs_sbsize as usize], 1304);
            self.put(self.sb() + 1304, hash);
        }
    }

    /// Returns the lowest inode from `from` on that satisfies `is`, given its byte.
    pub fn find_inode(&self, from: u32, is: impl Fn(&Self, u64) -> bool) -> u32 {
        (from..self.layout().inodes()).find(|&ino| is(self, self.inode(ino))).expect("there is one")
    }

    /// Returns a device with it.
    pub fn device(&self) -> impl Device + use<> {
        Faulty { inner: MemoryDevice::from_bytes(&self.bytes), unreadable: self.unreadable.clone() }
    }

    /// Returns what the check reports.
    pub fn check(&self) -> Report {
        check(&self.device(), &Options::default(), &mut |_| {}).expect("the check runs")
    }
}

fn index(n: u64) -> usize {
    usize::try_from(n).expect("in memory")
}

/// A device that cannot read some bytes.
struct Faulty {
    inner: MemoryDevice,
    unreadable: Range<u64>,
}

impl Device for Faulty {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    fn submit(&self, request: Request) -> Result<Ticket> {
        let (start, len) = (request.offset, request.buf.len() as u64);
        if request.op == Op::Read && start < self.unreadable.end && self.unreadable.start < start + len {
            return Err(Error::io("disk", "read", std::io::ErrorKind::Other.into()));
        }
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
