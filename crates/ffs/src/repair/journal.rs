//! Recovery with the journal of FreeBSD's soft updates, and with the log of Solaris.
//!
//! The journal decides what only it can know: which files have lost their last name, and which were
//! being cut. Whatever can be computed from the inodes and the names (counts of names and of
//! blocks, maps, summaries) is computed from them by the rounds of the repair. So a journal can
//! free no file that has a name, and no block of one. The log of Solaris is replayed, and then
//! given up: its blocks are freed as blocks that nobody has.
//!
//! A planned state in which a check finds what a crash cannot have left behind, and the journal
//! does not explain, is not believed; then the journal is not, either. Until all is written
//! the journal of soft updates stays as it is, so a recovery that was cut is made again, here or by
//! FreeBSD, and comes to the same end. The log of Solaris stays until it is replayed; what is left
//! then is space that nobody has, for which a repair comes to the same end.

use super::chunk;
use super::{Image, Meanwhile, Plan, Settled, Wanted, settled};
use crate::check::inodes::bad_address;
use crate::check::node::{Node, kind};
use crate::check::reader::Reader;
use crate::check::walk::{Next, Piece, Step, Walker};
use crate::check::{BlockPlace, Finding, Options};
use crate::format::entries::Entries;
use crate::format::layout::{Layout, ROOT_INO, Version};
use crate::format::ondisk::{Dinode2, NDADDR, NIADDR, SF_IMMUTABLE, SF_NOUNLINK, SUJ_FILE, SUJ_MIN, flags};
use crate::format::superblock::Superblock;
use crate::format::units::{Frag, index};
use crate::log::JournalKind;
use crate::log::lufs::Lufs;
use crate::log::suj::Journal as Records;
use spindle_clock::Clock;
use spindle_device::{CowDevice, Device};
use spindle_tree::check::{Finding as _, Severity};
use spindle_vfs::{Error, Result};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// Most bytes of a journal. FreeBSD makes 32 MiB at the most unless it is asked to.
const JOURNAL_MAX: u64 = 256 << 20;
/// Blocks of files that are looked at for a recovery, for each fragment of the file system.
const BLOCKS_SHARE: u64 = 4;
/// Byte offset of `di_freelink` in a UFS1 inode.
const DI_FREELINK1: usize = 4;
/// Byte offset of `di_modrev` in a UFS1 inode.
const DI_MODREV1: usize = 120;
/// `di_mode` of the journal: a regular file that its owner can read.
const JOURNAL_MODE: u16 = 0o100_400;

/// A journal of another system, as it was found.
pub enum Journal {
    /// There is none, or the file system was unmounted.
    None,
    /// It cannot be used, for this reason: a full check is needed.
    Useless(JournalKind, String),
    /// It says how to put the file system right.
    Usable(Box<Recovery>),
}

/// A recovery that was planned. Nothing of it is written yet.
pub struct Recovery {
    /// Whose journal it is.
    pub kind: JournalKind,
    /// Records of the journal.
    pub records: usize,
    /// What is to be written; its reports are those of a check afterwards.
    pub plan: Plan,
}

/// Reads the journal of the file system on `device`, and plans the recovery.
///
/// # Errors
/// Errors of the device.
pub fn journal(device: &Arc<dyn Device>, clock: &Arc<dyn Clock>) -> Result<Journal> {
    let Ok(superblock) = Superblock::open(&**device) else { return Ok(Journal::None) };
    let Some(kind) = superblock.pending_journal() else { return Ok(Journal::None) };
    let found = || {
        if let Some(objection) = superblock.as_checked(clock.now()).objections(&**device)?.first() {
            return Err(useless(objection.reason.clone()));
        }
        let overlay = Arc::new(CowDevice::new(device.clone()));
        match kind {
            JournalKind::SoftUpdates => soft_updates(&overlay, clock, &superblock),
            JournalKind::Solaris => solaris(&overlay, clock, &superblock),
            JournalKind::Gjournal => Err(useless("FreeBSD has to bring it into place")),
        }
    };
    match found() {
        Ok(recovery) => Ok(Journal::Usable(Box::new(recovery))),
        Err(Error::Corrupt { what, .. } | Error::Unsupported { what, .. }) => {
            Ok(Journal::Useless(kind, what))
        }
        Err(error) => Err(error),
    }
}

/// Returns that the journal is not believed.
fn useless(why: impl Into<String>) -> Error {
    Error::corrupt(why, "journal")
}

fn solaris(overlay: &Arc<CowDevice>, clock: &Arc<dyn Clock>, superblock: &Superblock) -> Result<Recovery> {
    let lufs = Lufs::read(&**overlay, superblock)?;
    lufs.replay(&**overlay)?;
    let explains = |finding: &Finding| match finding {
        Finding::UnreferencedFile { nlink, .. } => *nlink == 0,
        Finding::UnreferencedDirectory { .. } => false,
        other => other.severity() == Severity::Harmless,
    };
    // Solaris goes on with the log of a file system that names one: its blocks are not freed before
    // the superblock says that there is none, and that a check is needed.
    let replayed: Arc<dyn Device> = overlay.clone();
    let rest = Arc::new(CowDevice::new(replayed));
    let plan = planned(&rest, clock, BTreeSet::new(), Meanwhile::NotClean, &explains)?;
    let plan = plan.after_replay(overlay.changes()?);
    Ok(Recovery { kind: JournalKind::Solaris, records: lufs.deltas(), plan })
}

fn soft_updates(
    overlay: &Arc<CowDevice>,
    clock: &Arc<dyn Clock>,
    superblock: &Superblock,
) -> Result<Recovery> {
    if superblock.flags() & (flags::FS_NEEDSFSCK | flags::FS_UNCLEAN) != 0 {
        return Err(useless("its system asks for a full check"));
    }
    let layout = &superblock.layout;
    let image = Image { device: &**overlay, layout, hashes: superblock.check_hashes() };
    let files = Files { image, layout, left: Cell::new(BLOCKS_SHARE * layout.fs_size) };
    let records = files.records(superblock.fs.fs_mtime)?;
    files.cut(&records)?;
    files.drop_names(&records)?;
    let mut removed: BTreeSet<u32> = records.names.keys().copied().collect();
    removed.extend(files.unlinked(superblock.fs.fs_sujfree)?);
    let plan = planned(overlay, clock, removed.clone(), Meanwhile::Unchanged, &|finding| {
        explains(&records, &removed, finding)
    })?;
    Ok(Recovery { kind: JournalKind::SoftUpdates, records: records.records, plan })
}

/// Returns the plan of a recovery of which the planned state has the beginning: nothing may be
/// found in it that is not explained. Inodes in `removed` are freed if they have no name.
fn planned(
    overlay: &Arc<CowDevice>,
    clock: &Arc<dyn Clock>,
    removed: BTreeSet<u32>,
    meanwhile: Meanwhile<'_>,
    explains: &dyn Fn(&Finding) -> bool,
) -> Result<Plan> {
    let mut why = None;
    let mut agree = |finding: &Finding| {
        let explains = explains(finding);
        if !explains {
            why = Some(finding.to_string());
        }
        explains
    };
    let options = Options::default();
    let wanted = Wanted { removed, meanwhile, ..Wanted::of(&options) };
    match settled(overlay, clock, &wanted, &mut agree)? {
        Settled::Ready { after, used, .. } => {
            Plan::of((*after).clone(), *after, overlay, &used, meanwhile, clock.now())
        }
        Settled::Refused(reason) => Err(useless(format!("it does not explain: {}", why.unwrap_or(reason)))),
    }
}

/// Returns true if soft updates can have left that behind, given what the journal says and which
/// inodes have lost names.
fn explains(records: &Records, removed: &BTreeSet<u32>, finding: &Finding) -> bool {
    match finding {
        Finding::UnreferencedFile { nlink: 0, .. } | Finding::GroupCheckHash { .. } => true,
        Finding::UnreferencedFile { ino, .. } | Finding::UnreferencedDirectory { ino, .. } => {
            removed.contains(ino)
        }
        Finding::PartialInode { ino }
        | Finding::PartlyTruncated { ino, .. }
        | Finding::EndsInHole { ino, .. }
        | Finding::DirectoryShort { ino, .. }
        | Finding::BadDotdot { ino, .. } => records.inodes.contains(ino),
        other => other.severity() == Severity::Harmless,
    }
}

/// The files of the planned state.
struct Files<'a> {
    image: Image<'a>,
    layout: &'a Layout,
    /// Blocks of files that may still be looked at.
    left: Cell<u64>,
}

impl Files<'_> {
    fn node(&self, ino: u32) -> Result<Node> {
        Ok(Node::decode(self.layout, &self.image.inode(ino)?))
    }

    /// Returns the blocks of data of a file in their order, each where a file can have one.
    fn blocks(&self, node: &Node) -> Result<Vec<(u64, Piece)>> {
        let (layout, mut bad, mut left) = (self.layout, false, self.left.get());
        let (mut blocks, mut entered) = (Vec::new(), HashSet::new());
        Walker::default().walk(layout, &mut Reader::new(self.image.device), node, &mut |step| {
            let Step::Block(piece) = step else { return Next::Continue };
            bad |= left == 0 || bad_address(layout, piece.frag, piece.frags).is_some();
            left = left.saturating_sub(1);
            match piece.place {
                BlockPlace::Data { lbn } => blocks.push((lbn, piece)),
                BlockPlace::Indirect { .. } => bad |= !entered.insert(piece.frag),
                BlockPlace::Extattr { .. } => {}
            }
            if bad { Next::Stop } else { Next::Continue }
        });
        self.left.set(left);
        if bad { Err(useless("a file that it names has a bad pointer")) } else { Ok(blocks) }
    }

    /// Reads the journal, written since the mount at `mtime`.
    fn records(&self, mtime: i64) -> Result<Records> {
        let ino = self.file(SUJ_FILE)?.ok_or_else(|| useless("there is no file /.sujournal"))?;
        let bytes = self.image.inode(ino)?;
        let node = Node::decode(self.layout, &bytes);
        let wanted = SF_IMMUTABLE | SF_NOUNLINK;
        if (node.mode, node.nlink, node.flags & wanted) != (JOURNAL_MODE, 1, wanted) {
            return Err(useless("the file /.sujournal is not one that FreeBSD has made"));
        }
        if !(SUJ_MIN..=JOURNAL_MAX).contains(&node.size) {
            return Err(useless(format!("a journal of {} bytes", node.size)));
        }
        if modrev(self.layout, &bytes) != mtime.cast_unsigned() {
            return Err(useless("it was written since by a system that does not keep the journal"));
        }
        let mut extents: Vec<Vec<u8>> = Vec::new();
        let (mut wanted, mut end) = (0, 0);
        for (lbn, piece) in self.blocks(&node)? {
            if lbn != wanted {
                break;
            }
            let bytes = self.image.read(
                self.layout.byte(Frag(piece.frag)),
                index(u64::from(piece.frags) << self.layout.fs_fshift),
            )?;
            match extents.last_mut() {
                Some(extent) if piece.frag == end => extent.extend(bytes),
                _ => extents.push(bytes),
            }
            end = piece.frag + u64::from(piece.frags);
            wanted += 1;
        }
        if wanted != node.size.div_ceil(self.layout.fs_bsize.into()) {
            return Err(useless("the file /.sujournal has holes"));
        }
        let records = Records::read(&extents, mtime, self.layout).map_err(useless)?;
        if records.inodes.contains(&ino) {
            return Err(useless("it names itself"));
        }
        Ok(records)
    }

    /// Returns the inode of a name in the root directory.
    fn file(&self, name: &[u8]) -> Result<Option<u32>> {
        let root = self.node(ROOT_INO)?;
        if root.kind() != kind::DIR {
            return Err(useless("the root directory is damaged"));
        }
        for (_, piece) in self.blocks(&root)? {
            let len = index(u64::from(piece.frags) << self.layout.fs_fshift);
            let bytes = self.image.read(self.layout.byte(Frag(piece.frag)), len)?;
            let found = Entries::new(self.layout, &bytes)
                .flatten()
                .find(|entry| (2..self.layout.inodes()).contains(&entry.ino) && entry.name == name);
            if let Some(entry) = found {
                return Ok(Some(entry.ino));
            }
        }
        Ok(None)
    }

    /// Finishes what was being cut: sets the sizes, and clears what is behind them in the last
    /// blocks. Files that the journal names lose the pointers that their sizes do not reach; what
    /// is left in indirect blocks the repair finds.
    fn cut(&self, records: &Records) -> Result<()> {
        for &ino in &records.inodes {
            let mut node = self.node(ino)?;
            if !node.has_blocks(self.layout) {
                continue;
            }
            let cut = records.cuts.get(&ino).map(|&bytes| bytes.min(node.size));
            node.size = cut.unwrap_or(node.size);
            let chunk = u64::from(self.layout.dirblksiz);
            if node.kind() == kind::DIR && !node.size.is_multiple_of(chunk) {
                return Err(useless(format!("directory {ino} has {} bytes", node.size)));
            }
            let pointers = node.db.iter_mut().chain(&mut node.ib).enumerate();
            let reached = reached_pointers(self.layout, node.size);
            let strays: Vec<usize> = pointers
                .skip(reached)
                .filter(|(_, pointer)| **pointer != 0)
                .map(|(n, pointer)| {
                    *pointer = 0;
                    n
                })
                .collect();
            if cut.is_some() || !strays.is_empty() {
                self.image.change_inode(ino, |fields| {
                    fields.set_size(node.size);
                    for &n in &strays {
                        fields.set_pointer(n, 0);
                    }
                })?;
            }
            if cut.is_some() && node.kind() == kind::REG {
                self.clear_tail(&node)?;
            }
        }
        Ok(())
    }

    /// Clears what is behind the end of a file in its last block.
    fn clear_tail(&self, node: &Node) -> Result<()> {
        let within = self.layout.blkoff(node.size);
        let last = node.size >> self.layout.fs_bshift;
        let piece = self.blocks(node)?.into_iter().find(|&(lbn, _)| lbn == last);
        if let (true, Some((_, piece))) = (within > 0, piece) {
            let len = index(u64::from(piece.frags) << self.layout.fs_fshift);
            let at = self.layout.byte(Frag(piece.frag));
            self.image.change(at, len, |bytes| bytes[within..].fill(0))?;
        }
        Ok(())
    }

    /// Takes out the names of files that are gone, and of directories that have lost all their
    /// blocks before their names.
    fn drop_names(&self, records: &Records) -> Result<()> {
        let mut dropped: BTreeMap<u32, Vec<(u64, u32)>> = BTreeMap::new();
        let mut empty = Vec::new();
        for (&ino, places) in &records.names {
            let node = self.node(ino)?;
            if node.kind() == kind::DIR && node.size == 0 {
                empty.push(ino);
            } else if node.mode != 0 {
                continue;
            }
            for &(dir, offset) in places {
                dropped.entry(dir).or_default().push((offset, ino));
            }
        }
        for (dir, names) in dropped {
            let node = self.node(dir)?;
            if node.kind() != kind::DIR {
                continue;
            }
            let blocks: BTreeMap<u64, Piece> = self.blocks(&node)?.into_iter().collect();
            for (offset, ino) in names {
                let piece = blocks.get(&(offset >> self.layout.fs_bshift));
                if let Some(piece) = piece.filter(|_| offset < node.size) {
                    self.drop_name(piece, offset, ino)?;
                }
            }
        }
        for ino in empty {
            self.image.clear_inode(ino)?;
        }
        Ok(())
    }

    /// Takes the entry at byte `offset` of a directory, in this block of it, out, if it is one of
    /// this inode.
    fn drop_name(&self, piece: &Piece, offset: u64, ino: u32) -> Result<()> {
        let layout = self.layout;
        let len = layout.dirblksiz as usize;
        let at = layout.byte(Frag(piece.frag)) + layout.blkoff(offset) as u64;
        let within = index(at % u64::from(layout.dirblksiz));
        self.image.change(at - within as u64, len, |bytes| {
            let is_it = Entries::new(layout, bytes)
                .flatten()
                .any(|entry| entry.at == within && entry.ino == ino && !matches!(entry.name, b"." | b".."));
            if is_it {
                chunk::remove(layout, bytes, within);
            }
        })?;
        Ok(())
    }

    /// Returns the files that were removed while they were open: the superblock names the first of
    /// them, each the next.
    fn unlinked(&self, first: i32) -> Result<BTreeSet<u32>> {
        let (mut unlinked, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let mut next = first.cast_unsigned();
        while next != 0 {
            if !(ROOT_INO + 1..self.layout.inodes()).contains(&next) || !seen.insert(next) {
                return Err(useless(format!("its list of removed files has inode {next}")));
            }
            let bytes = self.image.inode(next)?;
            if Node::decode(self.layout, &bytes).nlink == 0 {
                unlinked.insert(next);
            }
            next = freelink(self.layout, &bytes);
        }
        Ok(unlinked)
    }
}

/// Returns how many of the pointers in an inode lead to what a file of `size` bytes has.
fn reached_pointers(layout: &Layout, size: u64) -> usize {
    let blocks = size.div_ceil(layout.fs_bsize.into());
    let (mut reached, mut first, mut span) = (index(blocks.min(NDADDR as u64)), NDADDR as u64, 1_u64);
    for _ in 0..NIADDR {
        reached += usize::from(blocks > first);
        span = span.saturating_mul(layout.fs_nindir.into());
        first = first.saturating_add(span);
    }
    reached
}

/// Returns the modification count of an inode, which is the time of the mount in that of a journal.
fn modrev(layout: &Layout, bytes: &[u8]) -> u64 {
    match layout.version {
        Version::Ufs1 => spindle_ondisk::Field::get(&bytes[DI_MODREV1..], layout.endian),
        Version::Ufs2 => Dinode2::decode(bytes, layout.endian).di_modrev,
    }
}

/// Returns the next file that was removed while it was open.
fn freelink(layout: &Layout, bytes: &[u8]) -> u32 {
    match layout.version {
        Version::Ufs1 => spindle_ondisk::Field::get(&bytes[DI_FREELINK1..], layout.endian),
        Version::Ufs2 => Dinode2::decode(bytes, layout.endian).di_freelink,
    }
}
