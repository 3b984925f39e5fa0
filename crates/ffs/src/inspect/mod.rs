//! Looking inside a file system without a mount: what is where, whose a block is, how an inode
//! reads on the disk, what was deleted.
//!
//! The readers are those of the check ([`crate::check`]), so damaged and hostile images are read as
//! it reads them: every number is checked before it is used, memory is bounded by the size of the
//! device, and each indirect block is entered once. Nothing is written, except by an [`Editor`].

mod blocks;
mod deleted;
mod directories;
mod edit;
mod extents;
mod fields;
mod grid;
mod names;
mod owners;
mod survey;

pub use crate::check::BlockPlace;
pub use blocks::Slot;
pub use deleted::{Deleted, DeletedInode, DeletedName, InodeNow, Remains};
pub use directories::{Listed, Names};
pub use edit::{Edited, Editor};
pub use extents::{Contiguity, Damage, FileMap, Run};
pub use fields::{Field, Form};
pub use grid::{Grid, GridRow, Use};
pub use owners::Owner;
pub use survey::{Fragmentation, FreeRuns, GroupUse, Survey};

use crate::check::node::Node;
use crate::check::reader::Reader;
use crate::check::scan::{InodeBlocks, initialised};
use crate::check::walk::Walker;
use crate::format::dinode::Dinode;
use crate::format::group::{Group, GroupMap, isset};
use crate::format::layout::Layout;
use crate::format::superblock::Superblock;
use crate::format::units::Frag;
use spindle_clock::Timestamp;
use spindle_device::Device;
use spindle_vfs::{Error, FileKind, Result};

/// A file system that is looked at.
pub struct Inspector<'a> {
    superblock: &'a Superblock,
    layout: &'a Layout,
    /// For single blocks.
    reader: Reader<'a>,
    /// For long runs of inodes.
    inode_reader: Reader<'a>,
}

/// How far a pass over all groups has come: groups done, and groups in all.
pub type Progress<'p> = &'p mut dyn FnMut(u32, u32);
/// What takes bytes of a file, each time with where in the file they stand.
pub type Sink<'s, E> = &'s mut dyn FnMut(u64, &[u8]) -> std::result::Result<(), E>;
/// What looks at an inode: its number and its bytes.
type VisitInode<'v, 'a> = &'v mut dyn FnMut(&mut Reader<'a>, &mut Walker, u32, &[u8]);

/// What an inode says of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Its number.
    pub ino: u32,
    /// Kind and permissions; 0 in a free inode.
    pub mode: u16,
    /// What it is; none if it is free or of no known kind.
    pub kind: Option<FileKind>,
    /// Names.
    pub nlink: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Data changed.
    pub mtime: Timestamp,
    /// Inode changed.
    pub ctime: Timestamp,
    /// The target of a symbolic link that stands in the inode.
    pub target: Option<Vec<u8>>,
}

impl<'a> Inspector<'a> {
    /// Looks at the file system of `superblock` on `device`.
    #[must_use]
    pub const fn new(device: &'a dyn Device, superblock: &'a Superblock) -> Self {
        Self {
            superblock,
            layout: &superblock.layout,
            reader: Reader::new(device),
            inode_reader: Reader::new(device),
        }
    }

    /// Returns the superblock.
    #[must_use]
    pub const fn superblock(&self) -> &'a Superblock {
        self.superblock
    }

    /// Checks that there can be an inode of this number.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with the numbers that there are.
    pub fn check_ino(&self, ino: u32) -> Result<()> {
        let last = self.layout.inodes() - 1;
        if (1..=last).contains(&ino) {
            return Ok(());
        }
        let remedy = format!("the inodes have the numbers 1 to {last}");
        Err(Error::unsupported(format!("there is no inode {ino}"), remedy))
    }

    /// Checks that there is a fragment at this address.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with the addresses that there are.
    pub fn check_frag(&self, frag: u64) -> Result<()> {
        if self.layout.contains(Frag(frag), 1) {
            return Ok(());
        }
        let remedy = format!("the fragments have the addresses 0 to {}", self.layout.fs_size - 1);
        Err(Error::unsupported(format!("there is no fragment {frag}"), remedy))
    }

    /// Checks that there is a cylinder group of this number.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with the numbers that there are.
    pub fn check_group(&self, cgx: u32) -> Result<()> {
        if cgx < self.layout.fs_ncg {
            return Ok(());
        }
        let remedy = format!("the last one is {}", self.layout.fs_ncg - 1);
        Err(Error::unsupported(format!("there is no cylinder group {cgx}"), remedy))
    }

    /// Returns the bytes of an inode.
    ///
    /// # Errors
    /// As [`Self::check_ino`]; device errors.
    pub fn inode_bytes(&mut self, ino: u32) -> Result<Vec<u8>> {
        self.check_ino(ino)?;
        let (block, offset) = self.layout.ino_to_fsba(ino);
        let at = self.layout.byte(block) + offset as u64;
        Ok(self.reader.read(at, self.layout.inode_size(), 0)?.to_vec())
    }

    /// Returns what an inode says of its file.
    ///
    /// # Errors
    /// As [`Self::inode_bytes`].
    pub fn inode(&mut self, ino: u32) -> Result<Inode> {
        let bytes = self.inode_bytes(ino)?;
        let d = Dinode::decode(&bytes, self.layout);
        Ok(Inode {
            ino,
            mode: d.mode,
            kind: d.kind(),
            nlink: d.nlink,
            uid: d.uid,
            gid: d.gid,
            size: d.size,
            mtime: d.mtime,
            ctime: d.ctime,
            target: d.inline_target,
        })
    }

    fn node(&mut self, ino: u32) -> Result<Node> {
        Ok(Node::decode(self.layout, &self.inode_bytes(ino)?))
    }

    /// Returns the bytes of `frags` fragments from `frag`.
    ///
    /// # Errors
    /// As [`Self::check_frag`]; device errors.
    pub fn block(&mut self, frag: u64, frags: u32) -> Result<Vec<u8>> {
        self.check_frag(frag)?;
        self.check_frag(frag + u64::from(frags.max(1)) - 1)?;
        let len = (frags << self.layout.fs_fshift) as usize;
        Ok(self.reader.read(self.layout.byte(Frag(frag)), len, 0)?.to_vec())
    }

    /// Returns the block of a cylinder group, and where its parts are.
    ///
    /// # Errors
    /// As [`Self::check_group`]; [`Error::Corrupt`] if its block cannot be used; device errors.
    pub fn group(&mut self, cgx: u32) -> Result<(Vec<u8>, GroupMap)> {
        self.check_group(cgx)?;
        let at = self.layout.byte(self.layout.cgtod(cgx));
        let block = self.reader.read(at, self.layout.fs_bsize as usize, 0)?.to_vec();
        let map = GroupMap::check(self.layout, &block, cgx)?;
        Ok((block, map))
    }

    /// Returns true if the map of its group says that a fragment is in use.
    ///
    /// # Errors
    /// As [`Self::check_frag`] and [`Self::group`].
    pub fn is_frag_used(&mut self, frag: u64) -> Result<bool> {
        self.check_frag(frag)?;
        let (block, map) = self.group(self.layout.dtog(Frag(frag)))?;
        Ok(!isset(Group::new(self.layout, &map, &block).blksfree(), self.layout.dtogd(Frag(frag))))
    }

    /// Returns true if the map of its group says that an inode is in use.
    ///
    /// # Errors
    /// As [`Self::check_ino`] and [`Self::group`].
    pub fn is_inode_used(&mut self, ino: u32) -> Result<bool> {
        self.check_ino(ino)?;
        let (block, map) = self.group(self.layout.ino_to_cg(ino))?;
        Ok(isset(Group::new(self.layout, &map, &block).inosused(), ino % self.layout.fs_ipg))
    }

    /// Calls `visit` with the number and the bytes of each inode that is not all zeros, in order.
    /// Returns the number of blocks of inodes that cannot be read.
    fn each_inode(&mut self, progress: Progress<'_>, visit: VisitInode<'_, 'a>) -> u64 {
        let layout = self.layout;
        let mut unread = 0;
        let mut walker = Walker::default();
        for cgx in 0..layout.fs_ncg {
            progress(cgx, layout.fs_ncg);
            let known = initialised(layout, &mut self.reader, cgx);
            let mut blocks = InodeBlocks::new(layout, cgx, known);
            while let Some(found) = blocks.next(&mut self.inode_reader) {
                let Ok((first, bytes)) = found else {
                    unread += 1;
                    continue;
                };
                for (ino, bytes) in (first..).zip(bytes.chunks_exact(layout.inode_size())) {
                    if ino > 1 && bytes.iter().any(|&byte| byte != 0) {
                        visit(&mut self.reader, &mut walker, ino, bytes);
                    }
                }
            }
        }
        progress(layout.fs_ncg, layout.fs_ncg);
        unread
    }
}
