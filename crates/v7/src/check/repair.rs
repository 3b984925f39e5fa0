//! The repair of the findings, until a check finds nothing more that can be repaired.
//!
//! As little as possible is lost: an invalid pointer becomes a hole, a block of several files is
//! copied (`blocks`), a name without an inode is removed, and a file without a name gets one in
//! `lost+found`, which is made if it is missing. The free list is rebuilt last, from the blocks
//! that are not in use (`fsck -s`), so a repair takes new blocks from these and not from the list.
//!
//! Everything is done on a copy-on-write device first, and then written in an order in which it can
//! be cut anywhere, so that the next repair comes to the same files: the super-block, which says
//! that it is in use; blocks that no file had; all others; blocks that several files had, or that
//! no file has any more; at the end the super-block.

use super::blocks::COPIED_MAX;
use super::directories::entry;
use super::{Checker, Finding, Options, Phase, Report, Subject};
use crate::format::dinode::{Dinode, seconds};
use crate::format::entry::name_of;
use crate::format::free_list::interleaved;
use crate::format::layout::{Block, BlockMap, Layout, ROOT_INO, index};
use crate::format::ondisk::{Direct, ENTRY_SIZE, NADDR, NDIRECT, SECTOR};
use crate::format::superblock::{Detected, Superblock};
use spindle_clock::{Clock, Timestamp};
use spindle_device::{Change, CowDevice, Device, write_sectors};
use spindle_ondisk::Field;
use spindle_vfs::{Error, FileKind, Result};
use std::sync::Arc;

/// Greatest number of rounds of a repair; each repairs all that a check has found.
const MOST_ROUNDS: usize = 64;

/// The outcome of a repair.
pub type Repaired = spindle_tree::check::Repaired<Report>;

/// Repairs the file system on `device`. With `harmless_only` nothing is changed if there is damage
/// whose repair may lose something. `progress` is called when a phase of a check begins. Nothing is
/// written before it is known what the repair leaves.
///
/// # Errors
/// As [`super::check`]; [`Error::Unsupported`] if its format is not certain, the device ends
/// before the file system or cannot read a block, and errors of the device.
pub fn repair(
    device: &Arc<dyn Device>,
    clock: &dyn Clock,
    options: &Options,
    harmless_only: bool,
    progress: &mut dyn FnMut(Phase),
) -> Result<Repaired> {
    let found = Subject::find(&**device, options.format)?;
    let lost = found.detected.unusable.is_some() || found.wrong_sizes.is_some();
    let mut subject =
        Subject { detected: Detected { unusable: None, ..found.detected.clone() }, wrong_sizes: None };
    if let Some(objection) = subject
        .detected
        .objections_of_superblock(&**device)
        .into_iter()
        .find(|objection| !objection.overridable)
    {
        return Err(Error::unsupported(objection.reason, objection.remedy));
    }
    let (before, used_before) = Checker::run(&**device, &found, options.limit, progress)?;
    if let Some(found) =
        before.findings.iter().find(|found| matches!(found.finding, Finding::Unreadable { .. }))
    {
        let remedy = "copy what can be read to another device, and repair that";
        return Err(Error::unsupported(found.to_string(), remedy));
    }
    if harmless_only && before.serious > 0 {
        return Ok(Repaired { after: before.clone(), before, changed: false });
    }
    let overlay = CowDevice::new(device.clone());
    let layout = subject.detected.superblock.layout()?;
    let mut image = Image {
        device: &overlay,
        used: used_before.clone(),
        first_free: layout.s_isize,
        copied_max: COPIED_MAX,
        late: BlockMap::new(&layout),
        frozen: BlockMap::new(&layout),
        layout,
        now: clock.now(),
    };
    let mut after = before.clone();
    let mut changed = lost || before.findings.iter().any(|found| found.finding == Finding::BadMagic {});
    if changed {
        image.put_superblock(&subject.detected.superblock)?;
        after = image.check(&subject, options, progress)?;
    }
    for _ in 0..MOST_ROUNDS {
        if !image.round(&after, &mut subject.detected.superblock)? {
            break;
        }
        changed = true;
        after = image.check(&subject, options, progress)?;
    }
    let is_whole = after.is_clean();
    if changed || is_whole && !after.marked_clean {
        changed = true;
        subject.detected.superblock.set_clean(is_whole, seconds(image.now));
        image.put_superblock(&subject.detected.superblock)?;
        image.write_to(&**device, overlay.changes()?, &used_before)?;
        after.marked_clean = is_whole;
        after.findings.retain(|found| !is_whole || found.finding != Finding::NotClean {});
    }
    Ok(Repaired { before, after, changed })
}

/// The planned state of the device.
pub(super) struct Image<'a> {
    device: &'a dyn Device,
    pub(super) layout: Layout,
    /// The blocks that files use.
    pub(super) used: BlockMap,
    /// Before this block none is free.
    first_free: u32,
    /// Bytes that may still be copied.
    copied_max: u64,
    /// Blocks that several files have, or had before the repair: they are written late, so that the
    /// others have copies by then.
    pub(super) late: BlockMap,
    /// Blocks that several files still have, and which are not changed.
    pub(super) frozen: BlockMap,
    pub(super) now: Timestamp,
}

impl Image<'_> {
    /// Checks the planned state.
    fn check(
        &mut self,
        subject: &Subject,
        options: &Options,
        progress: &mut dyn FnMut(Phase),
    ) -> Result<Report> {
        let (report, used) = Checker::run(self.device, subject, options.limit, progress)?;
        (self.used, self.first_free) = (used, self.layout.s_isize);
        self.frozen = BlockMap::new(&self.layout);
        Ok(report)
    }

    /// Repairs what can be repaired next. Returns false if there is no such thing.
    fn round(&mut self, report: &Report, superblock: &mut Superblock) -> Result<bool> {
        let findings = || report.findings.iter().map(|found| &found.finding);
        // With a root, fewer files are without a name.
        if findings().any(|finding| *finding == Finding::NoRoot {}) && self.remake_root()? {
            return Ok(true);
        }
        let is_of_blocks = |finding: &Finding| {
            matches!(
                finding,
                Finding::BadBlock { .. } | Finding::DupBlock { .. } | Finding::EmptyIndirect { .. }
            )
        };
        if findings().any(is_of_blocks) && self.mend_blocks()? {
            return Ok(true);
        }
        let mut fixed = false;
        for finding in findings() {
            fixed |= self.fix(finding)?;
        }
        if !fixed && report.findings.iter().any(|found| found.phase == Phase::FreeList) {
            self.salvage(superblock, report)?;
            fixed = true;
        }
        Ok(fixed)
    }

    /// Writes the planned state, which differs by these changes from that on the device, in which
    /// the blocks in `used_before` had files.
    fn write_to(&self, device: &dyn Device, mut changes: Vec<Change>, used_before: &BlockMap) -> Result<()> {
        let block_of = |change: &Change| {
            let number = change.at / u64::from(self.layout.format.bsize);
            u32::try_from(number).ok().and_then(|number| self.layout.data_block(number))
        };
        let is_fresh = |change: &Change| block_of(change).is_some_and(|block| !used_before.has(block));
        let is_late = |change: &Change| {
            block_of(change).is_some_and(|block| self.late.has(block) || !self.used.has(block))
        };
        let sector = u64::from(device.info().sector_bytes);
        let superblock_byte = self.layout.format.superblock_byte();
        let at = superblock_byte / sector * sector;
        let mut planned = vec![0; index(sector)];
        self.device.read_at(at, &mut planned)?;
        let mut meanwhile = planned.clone();
        let bytes = &mut meanwhile[index(superblock_byte - at)..];
        let mut superblock = Superblock::decode(self.layout.format, bytes);
        superblock.set_clean(false, seconds(self.now));
        superblock.encode(bytes);

        changes.retain(|change| change.at != at);
        let (fresh, changes): (Vec<_>, Vec<_>) = changes.into_iter().partition(is_fresh);
        let (late, others): (Vec<_>, Vec<_>) = changes.into_iter().partition(is_late);
        let write_superblock = |bytes: &[u8]| write_sectors(device, std::iter::once((at, bytes)));
        write_superblock(&meanwhile)?;
        for changes in [&fresh, &others, &late] {
            write_sectors(device, changes.iter().map(|change| (change.at, &change.new[..])))?;
        }
        Ok(write_superblock(&planned)?)
    }

    pub(super) fn read(&self, block: Block) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.layout.bsize()];
        self.device.read_at(self.layout.byte(block), &mut bytes)?;
        Ok(bytes)
    }

    /// Changes a block. Returns false if it is one that is not to be changed.
    pub(super) fn change(&self, block: Block, change: impl FnOnce(&mut [u8])) -> Result<bool> {
        if self.frozen.has(block) {
            return Ok(false);
        }
        let mut bytes = self.read(block)?;
        change(&mut bytes);
        self.device.write_at(self.layout.byte(block), &bytes)?;
        Ok(true)
    }

    /// Returns a block that no file uses.
    fn take_block(&mut self) -> Option<Block> {
        let mut blocks = (self.first_free..self.layout.s_fsize).map(Block);
        let block = blocks.find(|block| !self.used.has(*block));
        self.first_free = block.map_or(self.layout.s_fsize, |block| block.0 + 1);
        self.used.enter(block?);
        block
    }

    /// Returns a block that no file uses, filled with zeros.
    pub(super) fn new_block(&mut self) -> Result<Option<Block>> {
        let Some(block) = self.take_block() else { return Ok(None) };
        self.change(block, |bytes| bytes.fill(0))?;
        Ok(Some(block))
    }

    /// Returns a block that no file uses for a copy, if another one may be made.
    pub(super) fn room_for_copy(&mut self) -> Option<Block> {
        self.copied_max = self.copied_max.checked_sub(self.layout.bsize() as u64)?;
        self.take_block()
    }

    pub(super) fn inode(&self, ino: u16) -> Result<Dinode> {
        let (block, offset) = self.layout.inode_at(ino);
        Ok(Dinode::decode(&self.read(block)?[offset..], self.layout.format.endian))
    }

    fn least_size(&self, ino: u16) -> Result<Option<u64>> {
        self.inode(ino)?.least_size(&self.layout, &mut |block| self.read(block))
    }

    pub(super) fn put_inode(&self, ino: u16, di: &Dinode) -> Result<bool> {
        let (block, offset) = self.layout.inode_at(ino);
        self.change(block, |bytes| di.encode(&mut bytes[offset..], self.layout.format.endian))
    }

    fn put_superblock(&self, superblock: &Superblock) -> Result<bool> {
        let (block, offset) = self.layout.superblock_at();
        self.change(block, |bytes| superblock.encode(&mut bytes[offset..]))
    }

    /// Points the entry at byte `offset` of a directory, which is in `block`, to another inode.
    fn point(&self, block: u32, offset: u64, ino: u16) -> Result<bool> {
        let (_, start) = self.layout.split(offset);
        self.change(Block(block), |bytes| ino.put(&mut bytes[start..], self.layout.format.endian))
    }

    /// Repairs a finding. Returns false if nothing can be done, or if it is left to
    /// [`Self::round`].
    fn fix(&mut self, finding: &Finding) -> Result<bool> {
        match finding {
            Finding::BadSize { ino, .. } if self.least_size(*ino)?.is_some() => {
                let size = self.least_size(*ino)?.unwrap_or_default();
                self.put_inode(*ino, &Dinode { size, ..self.inode(*ino)? })
            }
            Finding::BadMode { ino, .. }
            | Finding::BadSize { ino, .. }
            | Finding::BadLink { ino }
            | Finding::Leftover { ino }
                if *ino != ROOT_INO =>
            {
                self.put_inode(*ino, &self.inode(*ino)?.freed())
            }
            Finding::ShortDirectory { ino, expected, .. } => {
                self.put_inode(*ino, &Dinode { size: *expected, ..self.inode(*ino)? })
            }
            Finding::OddDirectory { ino, size } => {
                let size = size - size % ENTRY_SIZE as u64;
                self.put_inode(*ino, &Dinode { size, ..self.inode(*ino)? })
            }
            Finding::NodeWithContents { ino, .. } => {
                let mut di = self.inode(*ino)?;
                let is_pipe = di.kind() == Some(FileKind::Fifo);
                // The first address of a device is its number.
                let blocks = if is_pipe { &di.addr[..] } else { &di.addr[1..] };
                if di.size > 0 && blocks.iter().any(|&raw| raw != 0) {
                    di.mode = di.mode & 0o7777 | 0o100_000;
                } else {
                    di.size = 0;
                    if is_pipe {
                        di.addr = [0; NADDR];
                    }
                }
                self.put_inode(*ino, &di)
            }
            Finding::LostNames { offset, block, .. } => {
                let start = self.layout.split(*offset).1;
                self.change(Block(*block), |bytes| {
                    entry(b"#lost", 0).encode(&mut bytes[start..], self.layout.format.endian);
                })
            }
            Finding::DirectoryHole { dir, lbn } => self.fill_hole(*dir, *lbn),
            Finding::BadEntry { entry, .. } => self.point(entry.block, entry.offset, 0),
            Finding::BadDots { entry, expected } => self.point(entry.block, entry.offset, *expected),
            Finding::MissingDots { dir, name, expected } => self.enter(*dir, name.as_bytes(), *expected),
            Finding::OrphanDirectory { ino } | Finding::OrphanFile { ino, .. } => self.reconnect(*ino),
            Finding::LinkCount { ino, expected, .. } => {
                let di = Dinode { nlink: *expected, ..self.inode(*ino)? };
                self.put_inode(*ino, &di)
            }
            // The root's inode is left to `NoRoot`, and that to `round`, as blocks are.
            Finding::NoRoot {}
            | Finding::BadBlock { .. }
            | Finding::DupBlock { .. }
            | Finding::EmptyIndirect { .. }
            | Finding::NoRoomForCopies { .. }
            | Finding::BadMode { .. }
            | Finding::BadSize { .. }
            | Finding::BadLink { .. }
            | Finding::Leftover { .. }
            | Finding::NotClean {}
            | Finding::LostSuperblock { .. }
            | Finding::WrongSizes { .. }
            | Finding::BadMagic { .. }
            | Finding::Ambiguous { .. }
            | Finding::DeviceTooShort { .. }
            | Finding::Unreadable { .. }
            | Finding::BeyondSize { .. }
            | Finding::BadInodeList { .. }
            | Finding::BadFreeList { .. }
            | Finding::FreeInUse { .. }
            | Finding::Missing { .. }
            | Finding::WrongTotals { .. } => Ok(false),
        }
    }

    /// Returns the entries in the direct blocks of a directory, each with its block and offset;
    /// also those beyond its size.
    pub(super) fn places(&self, di: &Dinode) -> Result<Vec<(Block, u64, Direct)>> {
        let mut places = Vec::new();
        for (n, &raw) in di.addr[..NDIRECT].iter().enumerate() {
            let Some(block) = self.layout.data_block(raw) else { break };
            for (at, entry) in self.read(block)?.chunks_exact(ENTRY_SIZE).enumerate() {
                let offset = (n * self.layout.bsize() + at * ENTRY_SIZE) as u64;
                let mut direct = Direct::decode(entry, self.layout.format.endian);
                if offset >= di.size {
                    direct.d_ino = 0;
                }
                places.push((block, offset, direct));
            }
        }
        Ok(places)
    }

    /// Enters a name into a directory: in a free entry, or in a new block.
    pub(super) fn enter(&mut self, dir: u16, name: &[u8], ino: u16) -> Result<bool> {
        let mut di = self.inode(dir)?;
        let places = self.places(&di)?;
        if places.iter().any(|(_, _, direct)| direct.d_ino != 0 && name_of(&direct.d_name) == name) {
            return Ok(false);
        }
        let behind = places.len();
        let free =
            places.into_iter().find(|(block, _, direct)| direct.d_ino == 0 && !self.frozen.has(*block));
        let (block, offset) = if let Some((block, offset, _)) = free {
            (block, offset)
        } else {
            let n = behind * ENTRY_SIZE / self.layout.bsize();
            if n == NDIRECT {
                return Ok(false);
            }
            let Some(block) = self.new_block()? else { return Ok(false) };
            di.addr[n] = block.0;
            (block, (behind * ENTRY_SIZE) as u64)
        };
        let start = self.layout.split(offset).1;
        self.change(block, |bytes| {
            entry(name, ino).encode(&mut bytes[start..], self.layout.format.endian);
        })?;
        di.size = di.size.max(offset + ENTRY_SIZE as u64);
        self.put_inode(dir, &di)
    }

    /// Gives a directory a block with free entries in place of a hole, or ends it before a hole
    /// that an indirect block would have to lead to.
    fn fill_hole(&mut self, dir: u16, lbn: u64) -> Result<bool> {
        let mut di = self.inode(dir)?;
        let Some(raw) = di.addr[..NDIRECT].get_mut(index(lbn)) else {
            di.size = lbn * self.layout.bsize() as u64;
            return self.put_inode(dir, &di);
        };
        let Some(block) = self.new_block()? else { return Ok(false) };
        *raw = block.0;
        let endian = self.layout.format.endian;
        self.change(block, |bytes| {
            for sector in bytes.chunks_mut(SECTOR) {
                entry(b"#lost", 0).encode(sector, endian);
            }
        })?;
        self.put_inode(dir, &di)
    }

    /// Rebuilds the free list from all blocks that are not in use, in the order of the
    /// super-block's interleave.
    fn salvage(&self, superblock: &mut Superblock, report: &Report) -> Result<()> {
        let tail = &mut superblock.tail;
        let interleave = if (1..=500).contains(&tail.s_n) && (1..=tail.s_n).contains(&tail.s_m) {
            (tail.s_m, tail.s_n)
        } else {
            (3, 500)
        };
        let (list, count) = interleaved(
            &self.layout,
            interleave,
            |block| !self.used.has(block),
            |block, link| self.change(block, |bytes| self.layout.format.encode_link(link, bytes)).map(drop),
        )?;
        (superblock.head.s_nfree, superblock.head.s_free) = list;
        // The kernel searches the inodes when this list is empty.
        superblock.head.s_ninode = 0;
        tail.s_tfree = count;
        tail.s_tinode = u16::try_from(report.usage.free_inodes).unwrap_or(u16::MAX);
        self.put_superblock(superblock).map(drop)
    }
}
