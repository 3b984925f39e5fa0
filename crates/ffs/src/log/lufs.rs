//! The log of Solaris: finding it, and reading what is not in its place.
//!
//! A log is a ring of sectors, each with its number at its end. From the head on, sectors with the
//! right numbers hold *deltas*, one behind the other: bytes, and where on the disk they belong. A
//! commit ends a transaction and its sector. What is behind the last commit has not happened. A
//! cancel takes earlier deltas back whose blocks were freed.

use crate::format::ondisk::{
    Delta, FsSun, LUFS_EXTENTS, LUFS_SECTOR, LUFS_USABLE, LUFS_VERSION, LufsExtent, LufsExtents, LufsHead,
    MAPBLOCKSIZE, SectTrailer, delta_type,
};
use crate::format::superblock::Superblock;
use crate::format::units::index;
use spindle_device::{CowDevice, Device};
use spindle_ondisk::Endian;
use spindle_vfs::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Most bytes of a log that is read; Solaris makes 64 MiB at the most unless it is asked to.
const LOG_MAX: u64 = 256 << 20;
const SECTOR: u64 = LUFS_SECTOR as u64;

/// Most bytes that are replayed, and most bytes for each of the log: zeros are not in it.
const REPLAYED_MAX: usize = 1 << 30;
const REPLAYED_SHARE: usize = 64;
/// Most deltas that are looked at for others that take their place.
const LOOKED_AT_MAX: usize = 1 << 27;

/// What a log holds that may not be in its place, by its address and by the number of its delta.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lufs {
    deltas: BTreeMap<(u64, usize), Content>,
    count: usize,
    bytes: usize,
    looked_at: usize,
}

/// What a delta puts into its place.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Zeros(usize),
    Bytes(Vec<u8>),
}

impl Content {
    const fn len(&self) -> usize {
        match self {
            Self::Zeros(len) => *len,
            Self::Bytes(bytes) => bytes.len(),
        }
    }
}

/// A log in memory.
struct Ring {
    endian: Endian,
    /// All bytes, with the head.
    bytes: Vec<u8>,
    head: LufsHead,
    /// The ring itself.
    range: Range<usize>,
}

/// Returns that the log is not believed.
fn useless(why: impl Into<String>) -> Error {
    Error::corrupt(why, "Solaris log")
}

impl Lufs {
    /// Reads the log of a file system that has one.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it cannot be believed; device errors.
    pub(crate) fn read(device: &dyn Device, superblock: &Superblock) -> Result<Self> {
        let endian = superblock.layout.endian;
        let sun = FsSun::decode(&superblock.raw, endian);
        let (extents, own) = extents(device, superblock, sun.fs_logbno)?;
        let mut bytes = Vec::new();
        for extent in &extents {
            bytes.extend(read_at(device, extent.start, index(extent.end - extent.start))?);
        }
        let ring = Ring::new(bytes, endian)?;
        let mut lufs = Self::default();
        let most = REPLAYED_MAX.min(ring.bytes.len().saturating_mul(REPLAYED_SHARE));
        ring.follow(&mut |delta, bytes| {
            lufs.take(delta, bytes);
            if lufs.bytes > most || lufs.looked_at > LOOKED_AT_MAX {
                return Err(useless("it has more changes than a log can have"));
            }
            Ok(())
        })?;
        let end = superblock.layout.fs_size << superblock.layout.fs_fshift;
        for (&(at, _), content) in &lufs.deltas {
            let range = at..at.saturating_add(content.len() as u64);
            let meets = |other: &Range<u64>| range.start < other.end && other.start < range.end;
            if range.end > end || meets(&own) || extents.iter().any(meets) {
                return Err(useless(format!("it has {} bytes for byte {at}", content.len())));
            }
        }
        Ok(lufs)
    }

    /// Returns the number of deltas that are not in their places.
    pub(crate) fn deltas(&self) -> usize {
        self.deltas.len()
    }

    /// Notes a delta of a transaction that is committed.
    fn take(&mut self, delta: &Delta, bytes: Vec<u8>) {
        let at = delta.d_mof.cast_unsigned();
        let len = index(u64::from(delta.d_nb.cast_unsigned()));
        let end = at.saturating_add(len as u64);
        // It takes the place of those that lie within it.
        let mut old = Vec::new();
        for (&(start, n), content) in self.deltas.range((at, 0)..(end, 0)) {
            self.looked_at += 1;
            if start + content.len() as u64 <= end {
                old.push((start, n));
            }
        }
        for key in old {
            let content = self.deltas.remove(&key);
            self.bytes -= content.map_or(0, |content| content.len());
        }
        self.count += 1;
        let content = match delta.d_typ {
            delta_type::DT_CANCEL => return,
            delta_type::DT_ABZERO => Content::Zeros(len),
            _ => Content::Bytes(bytes),
        };
        if len > 0 {
            self.bytes += len;
            self.deltas.insert((at, self.count), content);
        }
    }

    /// Writes everything to its place.
    ///
    /// # Errors
    /// Device errors.
    pub(crate) fn replay(&self, device: &dyn Device) -> Result<()> {
        let mut deltas: Vec<_> = self.deltas.iter().map(|(&(at, n), content)| (n, at, content)).collect();
        deltas.sort_unstable_by_key(|&(n, ..)| n);
        let sector = u64::from(device.info().sector_bytes);
        for (_, at, content) in deltas {
            let start = at / sector * sector;
            let end = (at + content.len() as u64).next_multiple_of(sector);
            let mut whole = vec![0; index(end - start)];
            device.read_at(start, &mut whole)?;
            let place = &mut whole[index(at - start)..][..content.len()];
            match content {
                Content::Zeros(_) => place.fill(0),
                Content::Bytes(bytes) => place.copy_from_slice(bytes),
            }
            device.write_at(start, &whole)?;
        }
        Ok(())
    }
}

/// Returns the device as it is after the replay of the log of Solaris, without a write, and the
/// number of deltas that this took; none if it has no such log. One that cannot be believed is left
/// alone, with a warning.
///
/// # Errors
/// Device errors.
pub(super) fn view(
    device: &Arc<dyn Device>,
    superblock: &Superblock,
) -> Result<Option<(Arc<dyn Device>, usize)>> {
    if superblock.salvaged.is_some() || !superblock.has_solaris_log() {
        return Ok(None);
    }
    match Lufs::read(&**device, superblock) {
        Ok(lufs) => {
            let trial = CowDevice::new(device.clone());
            lufs.replay(&trial)?;
            Ok(Some((Arc::new(trial.read_only()), lufs.deltas())))
        }
        Err(Error::Corrupt { what, .. }) => {
            log::warn!("{}: the Solaris log cannot be used: {what}", device.info().name);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Reads any bytes.
fn read_at(device: &dyn Device, at: u64, len: usize) -> Result<Vec<u8>> {
    let sector = u64::from(device.info().sector_bytes);
    let (start, end) = (at / sector * sector, (at + len as u64).next_multiple_of(sector));
    let mut bytes = vec![0; index(end - start)];
    device.read_at(start, &mut bytes)?;
    Ok(bytes[index(at - start)..][..len].to_vec())
}

/// Returns the extents of the log in bytes, in their order, and the block that lists them.
fn extents(
    device: &dyn Device,
    superblock: &Superblock,
    logbno: i32,
) -> Result<(Vec<Range<u64>>, Range<u64>)> {
    let layout = &superblock.layout;
    let end = layout.fs_size << layout.fs_fshift;
    let at = u64::try_from(logbno).unwrap_or(0) * SECTOR;
    let own = at..at + u64::from(layout.fs_bsize);
    if at == 0 || own.end > end {
        return Err(useless(format!("its log is at sector {logbno}, where none can be")));
    }
    let block = read_at(device, at, layout.fs_bsize as usize)?;
    let head = LufsExtents::decode(&block, layout.endian);
    let words = block.chunks_exact(4).map(|word| spindle_ondisk::Field::get(word, layout.endian));
    let sum = words.fold(0_u32, u32::wrapping_add).wrapping_sub(head.chksum);
    if head.kind != LUFS_EXTENTS || sum != head.chksum || head.nextents == 0 {
        return Err(useless("the list of its extents is damaged"));
    }
    let listed = block[LufsExtents::SIZE..].chunks_exact(LufsExtent::SIZE);
    if head.nextents as usize > listed.len() {
        return Err(useless(format!("it has {} extents", head.nextents)));
    }
    let (mut extents, mut total) = (Vec::new(), 0);
    for bytes in listed.take(head.nextents as usize) {
        let extent = LufsExtent::decode(bytes, layout.endian);
        let start = u64::from(extent.pbno) * SECTOR;
        let range = start..start + u64::from(extent.nbno) * SECTOR;
        if u64::from(extent.lbno) * SECTOR != total || range.is_empty() || range.end > end {
            return Err(useless("its extents are not one behind the other in the file system"));
        }
        total += range.end - range.start;
        extents.push(range);
    }
    if total > LOG_MAX {
        return Err(useless(format!("a log of {total} bytes")));
    }
    Ok((extents, own))
}

impl Ring {
    fn new(bytes: Vec<u8>, endian: Endian) -> Result<Self> {
        let sound = |head: &LufsHead| head.od_chksum == head.od_head_ident.wrapping_add(head.od_tail_ident);
        let heads = bytes.chunks_exact(LUFS_SECTOR).take(2).map(|sector| LufsHead::decode(sector, endian));
        let head = heads.into_iter().find(sound).ok_or_else(|| useless("its head is damaged"))?;
        if head.od_version != LUFS_VERSION {
            return Err(useless(format!("its log is of version {}", head.od_version)));
        }
        if head.od_badlog != 0 {
            return Err(useless("Solaris has marked it as bad"));
        }
        let byte = |lof: i32| usize::try_from(lof).unwrap_or(usize::MAX);
        let range = byte(head.od_bol_lof)..byte(head.od_eol_lof);
        let aligned = [range.start, range.end].iter().all(|lof| lof.is_multiple_of(LUFS_SECTOR));
        let within = range.contains(&byte(head.od_head_lof)) && range.end <= bytes.len();
        if !aligned || !within || byte(head.od_head_lof) % LUFS_SECTOR >= LUFS_USABLE {
            return Err(useless("its head says that it is where it cannot be"));
        }
        Ok(Self { endian, bytes, head, range })
    }

    /// Calls `take` with the deltas of all transactions that are committed, in their order, and
    /// their bytes.
    fn follow(&self, take: &mut dyn FnMut(&Delta, Vec<u8>) -> Result<()>) -> Result<()> {
        let mut place = Place::new(self);
        let mut open: Vec<(Delta, Vec<u8>)> = Vec::new();
        while let Some(head) = place.read(Delta::SIZE) {
            let delta = Delta::decode(&head, self.endian);
            let known = (1..delta_type::DT_MAX).contains(&delta.d_typ);
            if delta.d_typ == delta_type::DT_COMMIT && matches!(delta.d_nb, -1 | 0) {
                for (delta, bytes) in open.drain(..) {
                    take(&delta, bytes)?;
                }
                place.end_sector();
                continue;
            }
            if !known || !(0..=MAPBLOCKSIZE).contains(&delta.d_nb) || delta.d_mof < 0 {
                let Delta { d_mof, d_nb, d_typ } = delta;
                return Err(useless(format!("it has a delta of type {d_typ}, {d_nb} bytes at {d_mof}")));
            }
            let len = match delta.d_typ {
                delta_type::DT_CANCEL | delta_type::DT_ABZERO => 0,
                _ => index(u64::from(delta.d_nb.cast_unsigned())),
            };
            let Some(bytes) = place.read(len) else { break };
            open.push((delta, bytes));
        }
        Ok(())
    }
}

/// A place in a ring that moves on.
struct Place<'a> {
    ring: &'a Ring,
    /// The byte in the log.
    lof: usize,
    /// The number that its sector must have.
    ident: u32,
    /// Sectors that are left, this one included.
    left: usize,
}

impl<'a> Place<'a> {
    fn new(ring: &'a Ring) -> Self {
        let lof = usize::try_from(ring.head.od_head_lof).unwrap_or(0);
        // The sector before the head is never in use.
        let left = (ring.range.len() / LUFS_SECTOR).saturating_sub(1);
        Self { ring, lof, ident: ring.head.od_head_ident, left }
    }

    /// Returns the next `len` bytes; none if the log ends before them.
    fn read(&mut self, len: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let start = self.lof / LUFS_SECTOR * LUFS_SECTOR;
            let sector = &self.ring.bytes[start..start + LUFS_SECTOR];
            let trailer = SectTrailer::decode(&sector[LUFS_USABLE..], self.ring.endian);
            if self.left == 0 || trailer.st_ident != self.ident {
                return None;
            }
            let rest = &sector[self.lof - start..LUFS_USABLE];
            let part = rest.len().min(len - bytes.len());
            bytes.extend_from_slice(&rest[..part]);
            self.lof += part;
            if part == rest.len() {
                self.next_sector();
            }
        }
        Some(bytes)
    }

    fn next_sector(&mut self) {
        self.lof = (self.lof / LUFS_SECTOR + 1) * LUFS_SECTOR;
        if self.lof >= self.ring.range.end {
            self.lof = self.ring.range.start;
        }
        self.ident = self.ident.wrapping_add(1);
        self.left = self.left.saturating_sub(1);
    }

    /// Goes on to the next sector, unless it is at the beginning of one.
    fn end_sector(&mut self) {
        if !self.lof.is_multiple_of(LUFS_SECTOR) {
            self.next_sector();
        }
    }
}
