//! Small file systems in memory that can be damaged between two mounts.

#![allow(dead_code, reason = "each of the tests uses some of it")]

use spindle_clock::ManualClock;
use spindle_device::{Device, MemoryDevice};
use spindle_v7::newfs::{self, Parameters, Plan};
use spindle_v7::ondisk::{Direct, DiskInode, ENTRY_SIZE, get_addr, put_addr};
use spindle_v7::{Block, Format, Layout, OpenOptions, V7};
use spindle_vfs::{FileKind, FileSystem, Ino, NewNode, Privilege};
use std::sync::Arc;

/// A file system with these files, whose inodes are known by number.
pub struct Victim {
    pub device: Arc<MemoryDevice>,
    pub clock: Arc<ManualClock>,
    pub layout: Layout,
    /// `/lost+found`.
    pub lost: u16,
    /// `/dir`.
    pub dir: u16,
    /// `/dir/sub`.
    pub sub: u16,
    /// `/dir/file`, which has indirect blocks.
    pub file: u16,
    /// `/other`, of three blocks.
    pub other: u16,
}

/// Returns the bytes of `/dir/file`.
pub fn contents() -> Vec<u8> {
    (0..=250).cycle().take(200_000).collect()
}

pub fn make(fs: &V7, dir: Ino, name: &[u8], kind: FileKind) -> Ino {
    let node = NewNode::new(kind, 0o755);
    fs.create(dir, name, &node, Privilege::Root).unwrap().ino
}

fn number(ino: Ino) -> u16 {
    u16::try_from(ino.0).unwrap()
}

impl Victim {
    pub fn new(format: Format) -> Self {
        let device = Arc::new(MemoryDevice::new(1 << 20));
        let clock = Arc::new(ManualClock::at(500_000_000));
        let plan = Plan::new(&Parameters::new(format, 1 << 20)).unwrap();
        newfs::write(&plan, &*device, &*clock).unwrap();
        let fs = V7::open(device.clone(), clock.clone(), &OpenOptions::default()).unwrap();
        let (root, by) = (fs.root(), Privilege::Root);
        let lost = make(&fs, root, b"lost+found", FileKind::Directory);
        let dir = make(&fs, root, b"dir", FileKind::Directory);
        let sub = make(&fs, dir, b"sub", FileKind::Directory);
        let file = make(&fs, dir, b"file", FileKind::Regular);
        let other = make(&fs, root, b"other", FileKind::Regular);
        make(&fs, sub, b"deep", FileKind::Regular);
        fs.write(file, 0, &contents(), by).unwrap();
        fs.write(other, 0, &vec![7; 3 * format.bsize as usize], by).unwrap();
        fs.unmount().unwrap();
        let [lost, dir, sub, file, other] = [lost, dir, sub, file, other].map(number);
        Self { device, clock, layout: plan.layout, lost, dir, sub, file, other }
    }

    /// Returns the device, for those who share it.
    pub fn shared(&self) -> Arc<dyn Device> {
        self.device.clone()
    }

    pub fn open(&self) -> V7 {
        V7::open(self.device.clone(), self.clock.clone(), &OpenOptions::default()).unwrap()
    }

    pub fn block(&self, block: Block) -> Vec<u8> {
        let mut bytes = vec![0; self.layout.bsize()];
        self.device.read_at(self.layout.byte(block), &mut bytes).unwrap();
        bytes
    }

    pub fn change(&self, block: Block, change: impl FnOnce(&mut [u8])) {
        let mut bytes = self.block(block);
        change(&mut bytes);
        self.device.write_at(self.layout.byte(block), &bytes).unwrap();
    }

    pub fn inode(&self, ino: u16) -> DiskInode {
        let (block, offset) = self.layout.inode_at(ino);
        DiskInode::decode(&self.block(block)[offset..], self.layout.format.endian)
    }

    pub fn change_inode(&self, ino: u16, change: impl FnOnce(&mut DiskInode)) {
        let mut inode = self.inode(ino);
        change(&mut inode);
        let (block, offset) = self.layout.inode_at(ino);
        self.change(block, |bytes| inode.encode(&mut bytes[offset..], self.layout.format.endian));
    }

    pub fn addr(&self, ino: u16, n: usize) -> u32 {
        get_addr(&self.inode(ino).di_addr[n * 3..], self.layout.format.endian)
    }

    pub fn set_addr(&self, ino: u16, n: usize, addr: u32) {
        self.change_inode(ino, |inode| {
            put_addr(addr, &mut inode.di_addr[n * 3..], self.layout.format.endian);
        });
    }

    /// Changes entry `n` of a directory; its name stays if `name` is `None`.
    pub fn set_entry(&self, dir: u16, n: usize, d_ino: u16, name: Option<&[u8]>) {
        let endian = self.layout.format.endian;
        self.change(Block(self.addr(dir, 0)), |bytes| {
            let mut entry = Direct::decode(&bytes[n * ENTRY_SIZE..], endian);
            entry.d_ino = d_ino;
            if let Some(name) = name {
                entry.d_name = [0; 14];
                entry.d_name[..name.len()].copy_from_slice(name);
            }
            entry.encode(&mut bytes[n * ENTRY_SIZE..], endian);
        });
        let end = i32::try_from((n + 1) * ENTRY_SIZE).unwrap();
        self.change_inode(dir, |inode| inode.di_size = inode.di_size.max(end));
    }

    /// Changes the super-block.
    pub fn change_superblock(&self, change: impl FnOnce(&mut spindle_v7::Superblock)) {
        let format = self.layout.format;
        let (block, offset) = self.layout.superblock_at();
        self.change(block, |bytes| {
            let mut superblock = spindle_v7::Superblock::decode(format, &bytes[offset..]);
            change(&mut superblock);
            superblock.encode(&mut bytes[offset..]);
        });
    }
}
