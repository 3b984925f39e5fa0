//! Looking inside an old file system without a mount: inodes, directories with what was deleted
//! from them, the blocks of a file, what each block is used for, and what deleted inodes still
//! lead to.
//!
//! Everything is read from the disk as it is, also where it is damaged: what cannot be followed is
//! counted and left out. An indirect block is followed once, so that circles end.

use crate::format::dinode::Dinode;
use crate::format::entry::name_of;
use crate::format::free_list::walk;
use crate::format::layout::{Block, BlockMap, Layout, ROOT_INO};
use crate::format::ondisk::{ENTRY_SIZE, NADDR, NDIRECT};
use crate::format::superblock::{Detected, Superblock};
use spindle_clock::Timestamp;
use spindle_device::Device;
use spindle_ondisk::Field;
use spindle_vfs::{Error, FileKind, Result};

/// Levels of indirect blocks.
const LEVELS: usize = NADDR - NDIRECT;
/// Most bytes of a directory that are read: more than 65,535 names.
const DIRECTORY_MAX: u64 = 4 << 20;

/// What a block is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The boot block and the super-block.
    Metadata,
    /// Inodes.
    Inodes,
    /// A directory.
    Directory,
    /// Addresses of the blocks of a file.
    Indirect,
    /// The data of a file.
    Data,
    /// On the free list.
    Free,
    /// Neither on the free list nor in a file.
    Unknown,
}

impl Use {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Metadata,
        Self::Inodes,
        Self::Directory,
        Self::Indirect,
        Self::Data,
        Self::Free,
        Self::Unknown,
    ];
}

/// An inode, with the names of its fields on the disk.
#[derive(Clone, Debug)]
pub struct Inode {
    /// Its number.
    pub ino: u16,
    /// Kind and permissions; 0 when free.
    pub di_mode: u16,
    /// Names.
    pub di_nlink: u16,
    /// Owner.
    pub di_uid: u16,
    /// Group.
    pub di_gid: u16,
    /// Bytes.
    pub di_size: u64,
    /// Addresses: ten of data, and one each of single, double and triple indirect blocks.
    pub di_addr: [u32; NADDR],
    /// Last read.
    pub di_atime: Timestamp,
    /// Data changed.
    pub di_mtime: Timestamp,
    /// Inode changed.
    pub di_ctime: Timestamp,
    /// What it is; none if it is free or of no kind.
    pub kind: Option<FileKind>,
}

/// A pointer of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// Number of the first block of the file that it leads to.
    pub lbn: u64,
    /// 0 for data, 1 to 3 for an indirect block.
    pub level: usize,
    /// Block that it leads to.
    pub block: u32,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Byte of the entry in the directory.
    pub at: u64,
    /// The inode; 0 if the name was deleted.
    pub ino: u16,
    /// The name.
    pub name: Vec<u8>,
}

/// What is where.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The use of each block.
    pub uses: Vec<Use>,
    /// Regular files, and those that have more than one block.
    pub files: (u64, u64),
    /// Blocks of regular files besides the first of each, and how many of them follow the block
    /// before.
    pub following: (u64, u64),
    /// Blocks that several pointers lead to, or that are on the free list as well.
    pub shared_blocks: u64,
    /// Pointers outside the data.
    pub bad_pointers: u64,
    /// Blocks with inodes or pointers that cannot be read.
    pub unread_blocks: u64,
    /// What is wrong with the free list, from where on it is not known.
    pub free_list: Option<String>,
}

impl Survey {
    /// Returns the number of blocks of each use.
    #[must_use]
    pub fn counts(&self) -> Vec<(Use, u64)> {
        let count = |wanted| self.uses.iter().filter(|used| **used == wanted).count() as u64;
        Use::ALL.into_iter().map(|used| (used, count(used))).collect()
    }

    /// Returns the share of blocks that follow the block before (Smith and Seltzer 1996).
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // A share.
    pub fn layout_score(&self) -> Option<f64> {
        let (all, following) = self.following;
        (all > 0).then(|| following as f64 / all as f64)
    }
}

/// A free inode that has pointers.
#[derive(Clone, Debug)]
pub struct DeletedInode {
    /// The inode as it is.
    pub inode: Inode,
    /// Blocks that it leads to and that no file has.
    pub left: u64,
    /// Blocks that it leads to and that a file has now.
    pub used_again: u64,
}

/// What was deleted.
#[derive(Clone, Debug, Default)]
pub struct Deleted {
    /// Names by the directory, in its order.
    pub names: Vec<(u16, Entry)>,
    /// Free inodes that have pointers.
    pub inodes: Vec<DeletedInode>,
}

/// A file system that is looked at.
pub struct Inspector<'a> {
    device: &'a dyn Device,
    superblock: &'a Superblock,
    layout: Layout,
}

/// Indirect blocks that were followed, by their level.
struct Followed([BlockMap; LEVELS]);

impl Followed {
    fn new(layout: &Layout) -> Self {
        Self(std::array::from_fn(|_| BlockMap::new(layout)))
    }
}

/// What a walk through pointers meets.
enum Met {
    /// A pointer into the data.
    Pointer(Pointer),
    /// One that leads elsewhere.
    Bad,
    /// An indirect block that cannot be read.
    Unread,
}

impl<'a> Inspector<'a> {
    /// Begins to look at a file system.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the sizes in the super-block are impossible.
    pub fn new(device: &'a dyn Device, detected: &'a Detected) -> Result<Self> {
        let superblock = &detected.superblock;
        Ok(Self { device, superblock, layout: superblock.layout()? })
    }

    /// Returns where everything is.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the super-block.
    #[must_use]
    pub const fn superblock(&self) -> &Superblock {
        self.superblock
    }

    /// Reads a block.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is none of this number; those of the device.
    pub fn block(&self, block: u32) -> Result<Vec<u8>> {
        if block >= self.layout.s_fsize {
            return Err(Error::Invalid);
        }
        let mut bytes = vec![0; self.layout.bsize()];
        self.device.read_at(self.layout.byte(Block(block)), &mut bytes)?;
        Ok(bytes)
    }

    /// Reads an inode.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is none of this number; those of the device.
    pub fn inode(&self, ino: u16) -> Result<Inode> {
        if !(1..=self.layout.last_ino()).contains(&ino) {
            return Err(Error::Invalid);
        }
        let (block, at) = self.layout.inode_at(ino);
        Ok(self.decode(ino, &self.block(block.0)?[at..]))
    }

    fn decode(&self, ino: u16, bytes: &[u8]) -> Inode {
        let di = Dinode::decode(bytes, self.layout.format.endian);
        Inode {
            ino,
            di_mode: di.mode,
            di_nlink: di.nlink,
            di_uid: di.uid,
            di_gid: di.gid,
            di_size: di.size,
            di_addr: di.addr,
            di_atime: di.atime,
            di_mtime: di.mtime,
            di_ctime: di.ctime,
            kind: if di.mode == 0 { None } else { di.kind_in(self.layout.format) },
        }
    }

    /// Calls `met` with all pointers of an inode, in the order of the file, an indirect block
    /// before what it leads to.
    fn pointers(&self, inode: &Inode, followed: &mut Followed, met: &mut dyn FnMut(Met)) {
        for (n, &raw) in inode.di_addr.iter().enumerate() {
            let level = (n + 1).saturating_sub(NDIRECT);
            let lbn = if level == 0 { n as u64 } else { self.layout.first_behind(level).0 };
            self.follow(raw, level, lbn, followed, met);
        }
    }

    fn follow(&self, raw: u32, level: usize, lbn: u64, followed: &mut Followed, met: &mut dyn FnMut(Met)) {
        if raw == 0 {
            return;
        }
        let Some(block) = self.layout.data_block(raw) else {
            met(Met::Bad);
            return;
        };
        met(Met::Pointer(Pointer { lbn, level, block: raw }));
        if level == 0 || !followed.0[level - 1].enter(block) {
            return;
        }
        let Ok(bytes) = self.block(raw) else {
            met(Met::Unread);
            return;
        };
        let span = self.layout.span(level - 1);
        for (n, pointer) in (0..).zip(bytes.chunks_exact(u32::SIZE)) {
            let raw = u32::get(pointer, self.layout.format.endian);
            self.follow(raw, level - 1, lbn + n * span, followed, met);
        }
    }

    /// Returns true if the addresses of an inode are pointers.
    const fn has_pointers(inode: &Inode) -> bool {
        matches!(inode.kind, Some(FileKind::Regular | FileKind::Directory | FileKind::Symlink))
    }

    /// Returns the pointers of a file that lead to its data area, in the order of the file.
    ///
    /// # Errors
    /// Those of [`Self::inode`].
    pub fn blocks(&self, ino: u16) -> Result<Vec<Pointer>> {
        let inode = self.inode(ino)?;
        let mut found = Vec::new();
        if Self::has_pointers(&inode) || inode.di_mode == 0 {
            self.pointers(&inode, &mut Followed::new(&self.layout), &mut |met| {
                if let Met::Pointer(pointer) = met {
                    found.push(pointer);
                }
            });
        }
        Ok(found)
    }

    /// Returns the entries of a directory that have a name, also those that were deleted.
    ///
    /// # Errors
    /// [`Error::NotDirectory`]; those of [`Self::inode`] and of the device.
    pub fn entries(&self, ino: u16) -> Result<Vec<Entry>> {
        let inode = self.inode(ino)?;
        if inode.kind != Some(FileKind::Directory) {
            return Err(Error::NotDirectory);
        }
        let bsize = self.layout.bsize() as u64;
        let end = inode.di_size.min(DIRECTORY_MAX);
        let mut found = Vec::new();
        for pointer in self.blocks(ino)?.iter().filter(|pointer| pointer.level == 0) {
            let start = pointer.lbn * bsize;
            if start >= end {
                continue;
            }
            for (at, entry) in
                (start..end).step_by(ENTRY_SIZE).zip(self.block(pointer.block)?.chunks_exact(ENTRY_SIZE))
            {
                let name = name_of(&entry[2..]);
                if !name.is_empty() {
                    let ino = u16::get(entry, self.layout.format.endian);
                    found.push(Entry { at, ino, name: name.to_vec() });
                }
            }
        }
        Ok(found)
    }

    /// Returns the inode at a path from the root; symbolic links are not followed.
    ///
    /// # Errors
    /// [`Error::NotFound`]; those of [`Self::entries`].
    pub fn lookup(&self, path: &[u8]) -> Result<u16> {
        let mut ino = ROOT_INO;
        for name in path.split(|&b| b == b'/').filter(|name| !name.is_empty()) {
            let entries = self.entries(ino)?;
            let named = entries.into_iter().find(|entry| entry.ino != 0 && entry.name == name);
            ino = named.ok_or(Error::NotFound)?.ino;
        }
        Ok(ino)
    }

    /// Calls `seen` with each inode, and returns the number of blocks with inodes that cannot be
    /// read.
    fn inodes(&self, seen: &mut dyn FnMut(Inode)) -> u64 {
        let mut unread = 0;
        let mut held: Option<(Block, Option<Vec<u8>>)> = None;
        for ino in 1..=self.layout.last_ino() {
            let (block, at) = self.layout.inode_at(ino);
            if held.as_ref().is_none_or(|(known, _)| *known != block) {
                let bytes = self.block(block.0).ok();
                unread += u64::from(bytes.is_none());
                held = Some((block, bytes));
            }
            if let Some((_, Some(bytes))) = &held {
                seen(self.decode(ino, &bytes[at..]));
            }
        }
        unread
    }

    /// Finds out what each block is used for.
    #[must_use]
    pub fn survey(&self) -> Survey {
        let layout = &self.layout;
        let mut uses = vec![Use::Unknown; layout.s_fsize as usize];
        let (first, data) = (self.layout.inode_at(1).0.0 as usize, layout.s_isize as usize);
        uses[..first].fill(Use::Metadata);
        uses[first..data].fill(Use::Inodes);
        let mut survey = Survey {
            uses,
            files: (0, 0),
            following: (0, 0),
            shared_blocks: 0,
            bad_pointers: 0,
            unread_blocks: 0,
            free_list: None,
        };
        let mut followed = Followed::new(layout);
        let unread = self.inodes(&mut |inode| {
            if !Self::has_pointers(&inode) {
                return;
            }
            // Inode 1 has bad blocks, and no name.
            let is_file = inode.kind == Some(FileKind::Regular) && inode.ino >= ROOT_INO;
            let (mut before, mut count) = (None, 0_u64);
            self.pointers(&inode, &mut followed, &mut |met| match met {
                Met::Pointer(Pointer { level, block, .. }) => {
                    let used = &mut survey.uses[block as usize];
                    survey.shared_blocks += u64::from(*used != Use::Unknown);
                    *used = match inode.kind {
                        _ if level > 0 => Use::Indirect,
                        Some(FileKind::Directory) => Use::Directory,
                        _ => Use::Data,
                    };
                    if is_file && level == 0 {
                        count += 1;
                        if let Some(before) = before.replace(block) {
                            survey.following.0 += 1;
                            survey.following.1 += u64::from(before + 1 == block);
                        }
                    }
                }
                Met::Bad => survey.bad_pointers += 1,
                Met::Unread => survey.unread_blocks += 1,
            });
            survey.files.0 += u64::from(is_file);
            survey.files.1 += u64::from(is_file && count > 1);
        });
        survey.unread_blocks += unread;
        let (free, walked) = self.free_list();
        survey.free_list = walked.err().map(|error| error.problem());
        for block in (layout.s_isize..layout.s_fsize).map(Block).filter(|&block| free.has(block)) {
            let used = &mut survey.uses[block.0 as usize];
            if *used == Use::Unknown {
                *used = Use::Free;
            } else {
                survey.shared_blocks += 1;
            }
        }
        survey
    }

    fn free_list(&self) -> (BlockMap, Result<()>) {
        walk(&self.layout, &self.superblock.head, |block| {
            Ok(self.layout.format.decode_link(&self.block(block.0)?))
        })
    }

    /// Returns the number of blocks on the free list, and what is wrong with it.
    #[must_use]
    pub fn free_blocks(&self) -> (u32, Option<String>) {
        let (free, walked) = self.free_list();
        (free.len(), walked.err().map(|error| error.problem()))
    }

    /// Returns whether a block is on the free list, as far as that can be followed.
    #[must_use]
    pub fn is_free(&self, block: u32) -> bool {
        self.layout.data_block(block).is_some_and(|block| self.free_list().0.has(block))
    }

    /// Returns the inodes that have this block, and by which pointer. What several files share
    /// below one indirect block is found with the first of them.
    #[must_use]
    pub fn owners(&self, block: u32) -> Vec<(u16, Pointer)> {
        let mut found = Vec::new();
        let mut followed = Followed::new(&self.layout);
        self.inodes(&mut |inode| {
            if Self::has_pointers(&inode) {
                self.pointers(&inode, &mut followed, &mut |met| match met {
                    Met::Pointer(pointer) if pointer.block == block => found.push((inode.ino, pointer)),
                    _ => {}
                });
            }
        });
        found
    }

    /// Returns the names that directories still have although their inodes are 0, and the free
    /// inodes that still have pointers.
    #[must_use]
    pub fn deleted(&self) -> Deleted {
        let survey = self.survey();
        let mut found = Deleted::default();
        let mut directories = Vec::new();
        let mut followed = Followed::new(&self.layout);
        self.inodes(&mut |inode| {
            if inode.kind == Some(FileKind::Directory) {
                directories.push(inode.ino);
            }
            if inode.di_mode != 0 || inode.di_addr.iter().all(|&raw| raw == 0) {
                return;
            }
            let (mut left, mut used_again) = (0, 0);
            self.pointers(&inode, &mut followed, &mut |met| {
                if let Met::Pointer(pointer) = met {
                    match survey.uses[pointer.block as usize] {
                        Use::Free | Use::Unknown => left += 1,
                        _ => used_again += 1,
                    }
                }
            });
            if left + used_again > 0 {
                found.inodes.push(DeletedInode { inode, left, used_again });
            }
        });
        for dir in directories {
            let entries = self.entries(dir).unwrap_or_default();
            found.names.extend(entries.into_iter().filter(|entry| entry.ino == 0).map(|entry| (dir, entry)));
        }
        found
    }
}
