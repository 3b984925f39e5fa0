//! What was deleted and is still there: names in directories, and inodes with their pointers.
//!
//! A system that removes a name adds its space to the entry before; the bytes stay until another
//! name needs them, except where Spindle has removed it. When the last name of a file goes,
//! FreeBSD, OpenBSD and illumos (and Spindle) clear the size and the pointers of the inode before
//! they free it, so that only its number can be seen in the old name.
//! Pointers stay where that did not get so far (a crash, a disk that was taken away), or where
//! other software freed the inode.
//!
//! An inode that is marked in use and has no kind is one, too: its kind was cleared, and neither it
//! nor its blocks were freed. Blocks that no other file has count as free there.
//!
//! Nothing here is certain: a block that is free now may have been used for something else in
//! between. What is known is counted ([`Remains`]), and no more is said.

use super::directories::Directories;
use super::extents::walk_pieces;
use super::names::stale_entries;
use super::{Inspector, Progress, Sink};
use crate::check::BlockPlace;
use crate::check::inodes::bad_address;
use crate::check::node::{Node, kind};
use crate::check::reader::Reader;
use crate::check::state::{BlockMap, mask};
use crate::check::walk::{Next, Piece, Step, Walker};
use crate::format::dinode::Dinode;
use crate::format::group::{Group, isset};
use crate::format::layout::{Layout, ROOT_INO};
use crate::format::ondisk::{NDADDR, NIADDR};
use crate::format::units::{Frag, index};
use serde::Serialize;
use spindle_clock::Timestamp;
use spindle_vfs::FileKind;
use std::collections::{HashMap, HashSet};

/// A name that was removed from a directory, and whose bytes are still there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedName {
    /// Inode of the directory.
    pub dir: u32,
    /// Path of the directory, if it has one.
    pub dir_path: Option<Vec<u8>>,
    /// Byte of the entry in the directory.
    pub at: u64,
    /// The name.
    pub name: Vec<u8>,
    /// Inode that it named; 0 if that was cleared.
    pub ino: u32,
    /// What became of that inode.
    pub inode: InodeNow,
}

/// What an inode is now that an old name speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InodeNow {
    /// The name does not say which inode it was.
    Unknown,
    /// Free, and nothing is left in it that leads to data.
    Cleared,
    /// Free or without a kind, with something left in it.
    Deleted,
    /// In use: by another file, or by this one under another name.
    InUse,
    /// In use by a file of another kind than the name says.
    UsedAgain,
}

/// An inode that is free and has pointers, or has no kind and is still marked in use.
#[derive(Clone, Debug)]
pub struct DeletedInode {
    /// Its number.
    pub ino: u32,
    /// What it was; none if that was cleared.
    pub kind: Option<FileKind>,
    /// Kind and permissions.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes; none if that was cleared or cannot be.
    pub size: Option<u64>,
    /// Data changed.
    pub mtime: Timestamp,
    /// Inode changed: when it was deleted, if the system says so.
    pub ctime: Timestamp,
    /// What is left of its data.
    pub remains: Remains,
    node: Node,
}

/// What is left of the data of a deleted inode, in fragments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Remains {
    /// Free, and claimed by no other deleted inode.
    pub free: u64,
    /// Free, and claimed by other deleted inodes as well: one at the most is right.
    pub shared: u64,
    /// In use again: they are not read.
    pub used_again: u64,
    /// Indirect blocks that are in use again or cannot be read: what they led to is lost.
    pub lost_indirect_blocks: u64,
    /// Pointers to where no block of a file can be.
    pub bad_pointers: u64,
}

impl Remains {
    /// Returns true if all of it is in free blocks that nothing else claims.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.shared == 0 && self.used_again == 0 && self.lost_indirect_blocks == 0 && self.bad_pointers == 0
    }
}

/// What was deleted.
pub struct Deleted {
    /// Names, by directory.
    pub names: Vec<DeletedName>,
    /// Inodes with pointers.
    pub inodes: Vec<DeletedInode>,
    /// Inodes in use that have no name by their own count: removed while they were open.
    pub unlinked: Vec<u32>,
    /// Inodes in use that have names by their own count, of which no directory has one: those of a
    /// directory that is lost.
    pub unnamed: Vec<u32>,
    /// Groups whose map cannot be read: nothing in them counts as free.
    pub unreadable_groups: u64,
    free: BlockMap,
    twice: BlockMap,
}

impl Inspector<'_> {
    /// Finds what was deleted.
    pub fn deleted(&mut self, progress: Progress<'_>) -> Deleted {
        let layout = self.layout;
        let mut found = Deleted {
            names: Vec::new(),
            inodes: Vec::new(),
            unlinked: Vec::new(),
            unnamed: Vec::new(),
            unreadable_groups: 0,
            free: BlockMap::new(layout.fs_size),
            twice: BlockMap::new(layout.fs_size),
        };
        let mut used_inodes: Vec<Option<Vec<u8>>> = Vec::new();
        for cgx in 0..layout.fs_ncg {
            let Ok((block, map)) = self.group(cgx) else {
                found.unreadable_groups += 1;
                used_inodes.push(None);
                continue;
            };
            let group = Group::new(layout, &map, &block);
            for n in (0..map.ndblk).filter(|&n| isset(group.blksfree(), n)) {
                found.free.set(layout.cgbase(cgx).0 + u64::from(n));
            }
            used_inodes.push(Some(group.inosused().to_vec()));
        }
        let log = self.superblock.log_place().and_then(|place| place.ino);
        let mut kinds = HashMap::new();
        let mut has_names = Vec::new();
        let mut not_freed = Vec::new();
        self.each_inode(progress, &mut |_, _, ino, bytes| {
            let map = used_inodes.get(layout.ino_to_cg(ino) as usize).and_then(Option::as_ref);
            let Some(map) = map else { return };
            let node = Node::decode(layout, bytes);
            if isset(map, ino % layout.fs_ipg) {
                if node.mode == 0 && (node.size != 0 || node.blocks != 0 || has_pointers(layout, &node)) {
                    not_freed.push(found.inodes.len());
                    found.inodes.push(deleted_inode(layout, ino, node, bytes));
                    return;
                }
                kinds.insert(ino, node.kind());
                if !node.known_kind(layout) || log == Some(ino) {
                    return;
                }
                if node.nlink == 0 {
                    found.unlinked.push(ino);
                } else if ino > ROOT_INO && node.kind() != kind::SHAD {
                    has_names.push(ino);
                }
            } else if has_pointers(layout, &node) {
                found.inodes.push(deleted_inode(layout, ino, node, bytes));
            }
        });
        self.free_what_no_file_has(&not_freed, &mut found);
        self.count_remains(&mut found);
        let directories = self.directories(&mut |_, _| ());
        let named = self.stale_names(&directories, &kinds, &mut found);
        found.unnamed = has_names.into_iter().filter(|&ino| !named.get(ino.into())).collect();
        found
    }

    /// Counts blocks of inodes that were not freed as free, if no file has them. `not_freed` are
    /// their places in the list.
    fn free_what_no_file_has(&mut self, not_freed: &[usize], found: &mut Deleted) {
        if not_freed.is_empty() {
            return;
        }
        let layout = self.layout;
        let (mut held, mut entered) = (BlockMap::new(layout.fs_size), HashSet::new());
        self.each_inode(&mut |_, _| (), &mut |reader, walker, _, bytes| {
            let node = Node::decode(layout, bytes);
            if node.known_kind(layout) {
                walk_pieces(layout, reader, walker, &node, &mut entered, &mut |piece| {
                    held.set_bits(piece.frag, piece.frags);
                });
            }
        });
        let mut all = BlockMap::new(layout.fs_size);
        all.set_run(0, layout.fs_size);
        let Deleted { inodes, free, .. } = found;
        for inode in not_freed.iter().filter_map(|&n| inodes.get(n)) {
            walk_remains(layout, &mut self.reader, &inode.node, &all, &mut |piece| {
                if held.bits(piece.frag, piece.frags) == 0 {
                    free.set_bits(piece.frag, piece.frags);
                }
            });
        }
    }

    /// Counts what is left of each deleted inode: first who claims what, then what nobody else
    /// does.
    fn count_remains(&mut self, found: &mut Deleted) {
        let layout = self.layout;
        let mut claimed = BlockMap::new(layout.fs_size);
        for inode in &found.inodes {
            walk_remains(layout, &mut self.reader, &inode.node, &found.free, &mut |piece| {
                for frag in piece.frag..piece.frag + u64::from(piece.frags) {
                    if claimed.get(frag) {
                        found.twice.set(frag);
                    }
                    claimed.set(frag);
                }
            });
        }
        for inode in &mut found.inodes {
            let mut shared = 0;
            let twice = &found.twice;
            let node = &inode.node;
            inode.remains = walk_remains(layout, &mut self.reader, node, &found.free, &mut |piece| {
                shared += u64::from(twice.bits(piece.frag, piece.frags).count_ones());
            });
            inode.remains.shared = shared;
            inode.remains.free -= shared;
        }
    }

    /// Finds the names behind the entries of all directories. Returns the inodes that entries in
    /// use name, but for `.` and `..`.
    fn stale_names(
        &mut self,
        directories: &Directories,
        kinds: &HashMap<u32, u8>,
        found: &mut Deleted,
    ) -> BlockMap {
        let layout = self.layout;
        let mut named = BlockMap::new(layout.inodes().into());
        let deleted: HashSet<u32> = found.inodes.iter().map(|inode| inode.ino).collect();
        for row in &directories.rows {
            let mut live = HashSet::new();
            let mut stale = Vec::new();
            for &block in &directories.blocks[row.blocks.clone()] {
                let Some(bytes) = self.directory_block(row.size, block) else { continue };
                stale_entries(layout, &bytes, &mut live, &mut |at, entry| {
                    stale.push((block.at + at as u64, entry));
                });
            }
            let names = live.iter().filter(|(_, name)| !matches!(&name[..], b"." | b".."));
            names.filter(|(ino, _)| *ino < layout.inodes()).for_each(|(ino, _)| named.set((*ino).into()));
            for (at, entry) in stale {
                // Where a directory was compacted, the old bytes of a name are still behind it.
                if live.contains(&(entry.ino, entry.name.clone())) {
                    continue;
                }
                let inode = match (entry.ino, kinds.get(&entry.ino)) {
                    (0, _) => InodeNow::Unknown,
                    (ino, None) if deleted.contains(&ino) => InodeNow::Deleted,
                    (_, None) => InodeNow::Cleared,
                    (_, Some(&now)) if entry.kind.is_some_and(|old| old != 0 && old != now) => {
                        InodeNow::UsedAgain
                    }
                    (_, Some(_)) => InodeNow::InUse,
                };
                let (ino, name) = (entry.ino, entry.name);
                found.names.push(DeletedName { dir: row.ino, dir_path: None, at, name, ino, inode });
            }
        }
        let wanted: HashSet<u32> = found.names.iter().map(|name| name.dir).collect();
        let paths = self.names_in(directories, &wanted);
        for name in &mut found.names {
            name.dir_path = paths.get(&name.dir).and_then(|paths| paths.first()).cloned();
        }
        named
    }

    /// Calls `visit` with the bytes of a deleted inode that stand in free blocks, in the order of
    /// the file, each with where it stood in the file. Returns the number of blocks that cannot be
    /// read.
    ///
    /// # Errors
    /// Those of `visit`.
    pub fn read_deleted<E>(
        &mut self,
        deleted: &Deleted,
        inode: &DeletedInode,
        visit: Sink<'_, E>,
    ) -> Result<u64, E> {
        let layout = self.layout;
        let mut pieces = Vec::new();
        walk_remains(layout, &mut self.reader, &inode.node, &deleted.free, &mut |piece| {
            if let BlockPlace::Data { lbn } = piece.place {
                pieces.push((lbn << layout.fs_bshift, piece));
            }
        });
        let mut unread = 0;
        for (at, piece) in pieces {
            let len = (u64::from(piece.frags) << layout.fs_fshift).min(inode.node.size.saturating_sub(at));
            match self.reader.read(layout.byte(Frag(piece.frag)), index(len), 0) {
                Ok(bytes) => visit(at, bytes)?,
                Err(_) => unread += 1,
            }
        }
        Ok(unread)
    }
}

/// Returns true if a free inode has something in it that leads to data.
fn has_pointers(layout: &Layout, node: &Node) -> bool {
    let kind = node.kind();
    let data = matches!(kind, 0 | kind::DIR | kind::REG | kind::LNK) && !node.is_short_link(layout);
    data && (node.db != [0; NDADDR] || node.ib != [0; NIADDR])
}

/// Returns a deleted inode. If its size was cleared, `node` gets one that reaches all its pointers.
fn deleted_inode(layout: &Layout, ino: u32, mut node: Node, bytes: &[u8]) -> DeletedInode {
    let d = Dinode::decode(bytes, layout);
    let size = Some(node.size).filter(|size| (1..=layout.fs_maxfilesize).contains(size));
    if node.kind() == 0 {
        node.mode |= u16::from(kind::REG) << 12;
    }
    if size.is_none() {
        let direct = node.db.iter().rposition(|&frag| frag != 0).map_or(0, |n| n as u64 + 1);
        let mut blocks = direct;
        let (mut reach, mut span) = (NDADDR as u64, 1_u64);
        for &frag in &node.ib {
            span = span.saturating_mul(layout.fs_nindir.into());
            reach = reach.saturating_add(span);
            if frag != 0 {
                blocks = reach;
            }
        }
        node.size = blocks.saturating_mul(layout.fs_bsize.into()).min(layout.fs_maxfilesize);
    }
    DeletedInode {
        ino,
        kind: d.kind(),
        mode: d.mode,
        uid: d.uid,
        gid: d.gid,
        size,
        mtime: d.mtime,
        ctime: d.ctime,
        remains: Remains::default(),
        node,
    }
}

/// Calls `visit` with the pieces of a deleted inode that are wholly free, and counts the others.
/// Indirect blocks that are not free are not followed.
fn walk_remains(
    layout: &Layout,
    reader: &mut Reader<'_>,
    node: &Node,
    free: &BlockMap,
    visit: &mut dyn FnMut(Piece),
) -> Remains {
    let mut remains = Remains::default();
    let mut entered = HashSet::new();
    let mut left = layout.fs_size;
    Walker::default().walk(layout, reader, node, &mut |step| {
        let piece = match step {
            Step::Block(piece) => piece,
            Step::Stray { .. } => return Next::Continue,
            Step::Unreadable { .. } => {
                remains.lost_indirect_blocks += 1;
                return Next::Continue;
            }
        };
        let is_indirect = matches!(piece.place, BlockPlace::Indirect { .. });
        if bad_address(layout, piece.frag, piece.frags).is_some() {
            remains.bad_pointers += 1;
            return Next::Skip;
        }
        let Some(rest) = left.checked_sub(piece.frags.into()) else { return Next::Stop };
        left = rest;
        if free.bits(piece.frag, piece.frags) != mask(piece.frags) {
            remains.used_again += u64::from(piece.frags);
            remains.lost_indirect_blocks += u64::from(is_indirect);
            return Next::Skip;
        }
        if is_indirect && !entered.insert(piece.frag) {
            remains.lost_indirect_blocks += 1;
            return Next::Skip;
        }
        remains.free += u64::from(piece.frags);
        visit(piece);
        Next::Continue
    });
    remains
}
