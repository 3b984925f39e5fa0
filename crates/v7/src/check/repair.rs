//! The repair of the findings, until a check finds nothing more that can be repaired.
//!
//! As little as possible is lost: an invalid pointer becomes a hole, a name without an inode is
//! removed, and a file without a name gets one in `lost+found`, which is made if it is missing. The
//! free list is rebuilt last, from the blocks that are not in use (`fsck -s`), so a repair takes
//! new blocks from these and not from the list.

use super::directories::{entry, size_by_blocks};
use super::{Checker, Finding, Options, Phase, Pointer, Report};
use crate::format::dinode::{Dinode, seconds};
use crate::format::entry::name_of;
use crate::format::free_list::interleaved;
use crate::format::layout::{Block, BlockMap, Layout, ROOT_INO};
use crate::format::ondisk::{Direct, ENTRY_SIZE, NADDR, NDIRECT};
use crate::format::superblock::{Detected, Superblock};
use spindle_clock::{Clock, Timestamp};
use spindle_device::Device;
use spindle_ondisk::Field;
use spindle_vfs::{Error, FileKind, Result};

/// Greatest number of rounds of a repair; each repairs all that a check has found.
const MOST_ROUNDS: usize = 16;

/// The outcome of a repair.
pub type Repaired = spindle_tree::check::Repaired<Report>;

/// Repairs the file system on `device`. With `harmless_only` nothing is changed if there is damage
/// whose repair may lose something. `progress` is called when a phase of a check begins.
///
/// # Errors
/// As [`super::check`]; [`Error::Unsupported`] if its format is not certain, the device ends
/// before the file system or cannot read a block, and errors of the device.
pub fn repair(
    device: &dyn Device,
    clock: &dyn Clock,
    options: &Options,
    harmless_only: bool,
    progress: &mut dyn FnMut(Phase),
) -> Result<Repaired> {
    let mut detected = super::found(device, options.format)?;
    let lost = detected.unusable.is_some();
    let found = Detected { unusable: None, ..detected.clone() };
    if let Some(objection) =
        found.objections_of_superblock(device).into_iter().find(|objection| !objection.overridable)
    {
        return Err(Error::unsupported(objection.reason, objection.remedy));
    }
    let (before, used) = Checker::run(device, &detected, options.limit, progress)?;
    let layout = detected.superblock.layout()?;
    let mut image = Image { device, layout, used, now: clock.now() };
    if let Some(found) =
        before.findings.iter().find(|found| matches!(found.finding, Finding::Unreadable { .. }))
    {
        let remedy = "copy what can be read to another device, and repair that";
        return Err(Error::unsupported(found.to_string(), remedy));
    }
    if harmless_only && before.serious > 0 {
        return Ok(Repaired { after: before.clone(), before, changed: false });
    }
    let mut after = before.clone();
    let mut changed = lost || before.findings.iter().any(|found| found.finding == Finding::BadMagic {});
    if changed {
        detected = found;
        detected.superblock.set_clean(false, seconds(image.now));
        image.put_superblock(&detected.superblock)?;
        (after, image.used) = Checker::run(device, &detected, options.limit, progress)?;
    }
    for _ in 0..MOST_ROUNDS {
        let mut fixed = false;
        for found in &after.findings {
            fixed |= image.fix(&found.finding)?;
            if fixed && found.finding == (Finding::NoRoot {}) {
                // With a root, fewer files are without a name.
                break;
            }
        }
        let is_done = |found: &super::Found| found.phase != Phase::FreeList;
        if !fixed && !after.findings.iter().all(is_done) {
            image.salvage(&mut detected.superblock, &after)?;
            fixed = true;
        }
        if !fixed {
            break;
        }
        changed = true;
        device.flush()?;
        (after, image.used) = Checker::run(device, &detected, options.limit, progress)?;
    }
    if after.is_clean() && (changed || !after.marked_clean) {
        detected.superblock.set_clean(true, seconds(image.now));
        image.put_superblock(&detected.superblock)?;
        device.flush()?;
        changed = true;
        after.marked_clean = true;
        after.findings.retain(|found| found.finding != Finding::NotClean {});
    }
    Ok(Repaired { before, after, changed })
}

/// The blocks of the device.
pub(super) struct Image<'a> {
    pub(super) device: &'a dyn Device,
    pub(super) layout: Layout,
    /// The blocks that files use.
    pub(super) used: BlockMap,
    pub(super) now: Timestamp,
}

impl Image<'_> {
    pub(super) fn read(&self, block: Block) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.layout.bsize()];
        self.device.read_at(self.layout.byte(block), &mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn change(&self, block: Block, change: impl FnOnce(&mut [u8])) -> Result<bool> {
        let mut bytes = self.read(block)?;
        change(&mut bytes);
        self.device.write_at(self.layout.byte(block), &bytes)?;
        Ok(true)
    }

    pub(super) fn inode(&self, ino: u16) -> Result<Dinode> {
        let (block, offset) = self.layout.inode_at(ino);
        Ok(Dinode::decode(&self.read(block)?[offset..], self.layout.format.endian))
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
    /// [`Self::salvage`].
    fn fix(&mut self, finding: &Finding) -> Result<bool> {
        match finding {
            Finding::NoRoot {} => self.remake_root(),
            Finding::BadSize { ino, .. } if self.inode(*ino)?.is_directory() => {
                let di = self.inode(*ino)?;
                self.put_inode(*ino, &Dinode { size: size_by_blocks(&self.layout, &di), ..di })
            }
            Finding::BadMode { ino, .. }
            | Finding::BadSize { ino, .. }
            | Finding::BadLink { ino }
            | Finding::Leftover { ino }
                if *ino != ROOT_INO =>
            {
                self.put_inode(*ino, &self.inode(*ino)?.freed())
            }
            Finding::OddDirectory { ino, size } => {
                let size = size - size % ENTRY_SIZE as u64;
                self.put_inode(*ino, &Dinode { size, ..self.inode(*ino)? })
            }
            Finding::NodeWithContents { ino, .. } => {
                let mut di = self.inode(*ino)?;
                di.size = 0;
                if di.kind() == Some(FileKind::Fifo) {
                    di.addr = [0; NADDR];
                }
                self.put_inode(*ino, &di)
            }
            Finding::BadBlock { ino, pointer, .. } | Finding::DupBlock { ino, pointer, .. } => match *pointer
            {
                Pointer::Inode { index } => {
                    let mut di = self.inode(*ino)?;
                    di.addr[index] = 0;
                    self.put_inode(*ino, &di)
                }
                Pointer::Indirect { block, index } => self.change(Block(block), |bytes| {
                    0_u32.put(&mut bytes[index * 4..], self.layout.format.endian);
                }),
            },
            Finding::BadEntry { entry, .. } => self.point(entry.block, entry.offset, 0),
            Finding::BadDots { entry, expected } => self.point(entry.block, entry.offset, *expected),
            Finding::MissingDots { dir, name, expected } => self.enter(*dir, name.as_bytes(), *expected),
            Finding::OrphanDirectory { ino } | Finding::OrphanFile { ino, .. } => {
                match self.lost_and_found()? {
                    Some(dir) if dir != *ino => self.enter(dir, format!("#{ino:05}").as_bytes(), *ino),
                    _ => Ok(false),
                }
            }
            Finding::LinkCount { ino, expected, .. } => {
                let di = Dinode { nlink: *expected, ..self.inode(*ino)? };
                self.put_inode(*ino, &di)
            }
            // The root's inode is left to `NoRoot`.
            Finding::BadMode { .. }
            | Finding::BadSize { .. }
            | Finding::BadLink { .. }
            | Finding::Leftover { .. }
            | Finding::NotClean {}
            | Finding::LostSuperblock { .. }
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
        let free = places.into_iter().find(|(_, _, direct)| direct.d_ino == 0);
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
