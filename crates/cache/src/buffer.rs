//! One buffer: bytes of the device in memory, and their state.
//!
//! A slot is *empty* until it is loaded or filled, then *clean*; writing makes it *dirty* (it is
//! entered in the cache's list), a flush takes a copy and makes it *in flight* until the copy has
//! reached the device. Writing while in flight makes it dirty again; the copy is not affected. With
//! a log, nothing dirty goes to the device: see [`crate::commit`].

use crate::log::Change;
use crate::{Cache, Tx};
use spindle_clock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use spindle_device::{AlignedBuf, Device, Result};
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Puts the checksums of a buffer right before it is written to the device.
pub trait Seal: Send + Sync {
    /// Changes `bytes`, a copy of the whole buffer.
    fn seal(&self, bytes: &mut [u8]);
}

struct Data {
    bytes: AlignedBuf,
    before: Before,
    /// The pieces of the buffer that the present epoch has changed, a bit for each.
    changed: u128,
    /// The pieces that earlier epochs have changed since the buffer was last written to its place.
    logged: u128,
}

/// The contents of a buffer before the present epoch changed it; used only with a log.
#[derive(Default)]
enum Before {
    /// Same as now: the epoch has not changed it.
    #[default]
    Same,
    /// None: the epoch has made the buffer in space that was free.
    Nothing,
    /// These bytes.
    Bytes(AlignedBuf),
}

impl Data {
    /// Saves the bytes before the epoch changes them.
    fn keep(&mut self) {
        if let Before::Same = self.before {
            self.before = Before::Bytes(AlignedBuf::from(&self.bytes[..]));
        }
    }
}

pub(crate) struct Slot {
    at: u64,
    len: usize,
    /// Bytes of a piece: whole sectors, and no more pieces in the buffer than [`Data::changed`] has
    /// bits.
    piece: usize,
    data: RwLock<Data>,
    seal: Option<Arc<dyn Seal>>,
    /// The bytes are here; set with the data locked.
    loaded: AtomicBool,
    touched: AtomicBool,
    /// It is among the changed slots of the cache; set with those locked, so that who changes it
    /// again need not lock them.
    noted: AtomicBool,
    in_flight: AtomicBool,
}

/// Returns the bytes of a piece of a buffer of `len` bytes.
fn piece_bytes(len: usize, sector: usize) -> usize {
    len.div_ceil(u128::BITS as usize).next_multiple_of(sector).max(sector)
}

impl Slot {
    pub(crate) fn new(at: u64, len: usize, sector: usize, seal: Option<Arc<dyn Seal>>) -> Self {
        let bytes = AlignedBuf::zeroed(len);
        let data = Data { bytes, before: Before::Same, changed: 0, logged: 0 };
        Self::with(at, sector, data, false, seal)
    }

    fn with(at: u64, sector: usize, data: Data, loaded: bool, seal: Option<Arc<dyn Seal>>) -> Self {
        Self {
            at,
            len: data.bytes.len(),
            piece: piece_bytes(data.bytes.len(), sector),
            data: RwLock::new(data),
            seal,
            loaded: loaded.into(),
            touched: AtomicBool::new(true),
            noted: AtomicBool::new(false),
            in_flight: AtomicBool::new(false),
        }
    }

    /// Returns the same buffer with another length: its end is cut off, or `tail` is appended, the
    /// bytes that the device has there.
    pub(crate) fn resized(&self, len: usize, tail: &[u8], sector: usize) -> Self {
        let data = self.data.read();
        let resize = |bytes: &[u8]| {
            let mut resized = AlignedBuf::zeroed(len);
            let kept = len.min(bytes.len());
            resized[..kept].copy_from_slice(&bytes[..kept]);
            resized[kept..].copy_from_slice(tail);
            resized
        };
        let before = match &data.before {
            Before::Same => Before::Same,
            Before::Nothing => Before::Nothing,
            Before::Bytes(bytes) => Before::Bytes(resize(bytes)),
        };
        let piece = piece_bytes(len, sector);
        // If the length of pieces differs now, all of them count as changed.
        let is_same = piece == self.piece;
        let resize_mask = |pieces| mask(0..len, piece) & if is_same || pieces == 0 { pieces } else { !0 };
        let data = Data {
            bytes: resize(&data.bytes),
            before,
            changed: resize_mask(data.changed),
            logged: resize_mask(data.logged),
        };
        Self::with(self.at, sector, data, self.is_loaded(), self.seal.clone())
    }

    pub(crate) const fn at(&self) -> u64 {
        self.at
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn touch(&self) {
        // What is shared is only read, if that will do.
        if !self.touched.load(Ordering::Relaxed) {
            self.touched.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn was_touched(&self) -> bool {
        self.touched.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn is_noted(&self) -> bool {
        self.noted.load(Ordering::Acquire)
    }

    pub(crate) fn set_noted(&self, noted: bool) {
        self.noted.store(noted, Ordering::Release);
    }

    pub(crate) fn in_flight(&self) -> bool {
        self.in_flight.load(Ordering::Acquire)
    }

    pub(crate) fn set_in_flight(&self, in_flight: bool) {
        self.in_flight.store(in_flight, Ordering::Release);
    }

    /// Returns true if the bytes are here.
    pub(crate) fn is_loaded(&self) -> bool {
        self.loaded.load(Ordering::Acquire)
    }

    /// Reads the bytes from the device unless they are loaded. Other threads that need them wait.
    pub(crate) fn load(&self, device: &dyn Device) -> Result<()> {
        let mut data = self.data.write();
        if !self.is_loaded() {
            device.read_at(self.at, &mut data.bytes)?;
            self.loaded.store(true, Ordering::Release);
        }
        Ok(())
    }

    pub(crate) fn read(&self) -> BufferGuard<'_> {
        BufferGuard(self.data.read())
    }

    /// Makes it a buffer of zeros in space that was free.
    pub(crate) fn make_new(&self) {
        let mut data = self.data.write();
        data.before = Before::Nothing;
        data.bytes.fill(0);
        self.loaded.store(true, Ordering::Release);
    }

    /// Returns true if the epoch has made it in space that was free.
    pub(crate) fn is_new(&self) -> bool {
        matches!(self.data.read().before, Before::Nothing)
    }

    /// Puts old bytes back in a rollback. They are already noted as changed; the commit compares
    /// them.
    pub(crate) fn put_back(&self, start: usize, former: &[u8]) {
        self.data.write().bytes[start..start + former.len()].copy_from_slice(former);
    }

    /// Copies the last committed bytes into `out`.
    pub(crate) fn copy_committed(&self, out: &mut [u8]) {
        let data = self.data.read();
        match &data.before {
            Before::Bytes(bytes) => out.copy_from_slice(bytes),
            Before::Same | Before::Nothing => out.copy_from_slice(&data.bytes),
        }
    }

    /// Seals the bytes and appends the runs of sectors that the epoch has changed.
    pub(crate) fn copy_changes(&self, sector: usize, changes: &mut Vec<Change>) {
        let mut data = self.data.write();
        if let Some(seal) = &self.seal {
            seal.seal(&mut data.bytes);
        }
        let data = &*data;
        let Before::Bytes(before) = &data.before else { return };
        let noted = data.changed | self.sealed();
        let changed = |n: usize| {
            let bytes = n * sector..(n + 1) * sector;
            noted >> (bytes.start / self.piece) & 1 != 0 && before[bytes.clone()] != data.bytes[bytes]
        };
        self.copy_sectors(sector, &data.bytes, changed, changes);
    }

    /// Appends the runs of sectors that are `wanted`.
    fn copy_sectors(
        &self,
        sector: usize,
        bytes: &[u8],
        wanted: impl Fn(usize) -> bool,
        changes: &mut Vec<Change>,
    ) {
        let sectors = self.len / sector;
        let mut n = 0;
        while n < sectors {
            let start = n;
            while n < sectors && wanted(n) {
                n += 1;
            }
            if n > start {
                let bytes = bytes[start * sector..n * sector].to_vec();
                changes.push(Change { at: self.at + (start * sector) as u64, bytes });
            }
            n += 1;
        }
    }

    /// Returns the pieces that a seal may change.
    fn sealed(&self) -> u128 {
        if self.seal.is_some() { mask(0..self.len, self.piece) } else { 0 }
    }

    /// Returns the bytes of it that are committed and not in their place.
    pub(crate) fn logged_bytes(&self) -> usize {
        self.data.read().logged.count_ones() as usize * self.piece
    }

    /// Appends what the log has of it, as it is committed.
    pub(crate) fn copy_logged(&self, sector: usize, changes: &mut Vec<Change>) {
        let data = self.data.read();
        let bytes = match &data.before {
            Before::Bytes(bytes) => bytes,
            Before::Same | Before::Nothing => &data.bytes,
        };
        let logged = |n: usize| data.logged >> (n * sector / self.piece) & 1 != 0;
        self.copy_sectors(sector, bytes, logged, changes);
    }

    /// Notes that its committed bytes are in their place.
    pub(crate) fn checkpointed(&self) {
        self.data.write().logged = 0;
    }

    /// Ends the epoch with the bytes as they are; later changes belong to the next epoch.
    pub(crate) fn end_epoch(&self) {
        let mut data = self.data.write();
        if let Before::Bytes(_) = data.before {
            data.logged |= data.changed | self.sealed();
        }
        data.before = Before::Same;
        data.changed = 0;
    }

    /// Copies the bytes, sealed, into `out`.
    pub(crate) fn copy_sealed(&self, out: &mut [u8]) {
        out.copy_from_slice(&self.read());
        if let Some(seal) = &self.seal {
            seal.seal(out);
        }
    }
}

/// Returns a bit for each piece that has bytes in `range`.
fn mask(range: Range<usize>, piece: usize) -> u128 {
    if range.is_empty() {
        return 0;
    }
    let (first, last) = (range.start / piece, (range.end - 1) / piece);
    u128::MAX >> (u128::BITS as usize - 1 - (last - first)) << first
}

/// A buffer in use; it is not evicted meanwhile.
pub struct Buffer<'a> {
    cache: &'a Cache,
    slot: Arc<Slot>,
}

impl<'a> Buffer<'a> {
    pub(crate) const fn new(cache: &'a Cache, slot: Arc<Slot>) -> Self {
        Self { cache, slot }
    }

    /// Returns its address on the device in bytes.
    #[must_use]
    pub fn at(&self) -> u64 {
        self.slot.at()
    }

    /// Locks the bytes for reading.
    #[must_use]
    pub fn read(&self) -> BufferGuard<'_> {
        self.slot.read()
    }

    /// Locks the bytes for changing them in a transaction. No other transaction changes the
    /// same bytes before this one has ended.
    #[must_use]
    pub fn write<'s>(&'s self, tx: &'s Tx<'_>) -> BufferMut<'s> {
        tx.write_at_end(&self.slot);
        self.lock(tx, false)
    }

    /// Locks bytes that several open transactions may change: maps of free space, and counts. The
    /// caller undoes such changes itself when the transaction is rolled back. They need not reach
    /// the device before the next flush, because they can be computed from other metadata.
    #[must_use]
    pub fn write_shared<'s>(&'s self, tx: &'s Tx<'_>) -> BufferMut<'s> {
        self.lock(tx, true)
    }

    /// Makes a buffer with new contents durable where names are ([`crate::Naming::Durable`]),
    /// before anything can point to it: other operations may write what will at any time. Elsewhere
    /// this does nothing.
    ///
    /// # Errors
    /// When the device fails; no changes are accepted after that.
    pub fn precede(&self) -> Result<()> {
        self.cache.precede(|cache| cache.write_slot(&self.slot))
    }

    /// Keeps the buffer in memory until a flush or commit takes the epoch of the transaction, so
    /// that changing it needs no read, which could fail.
    pub fn hold(&self, tx: &Tx<'_>) {
        debug_assert!(tx.is_of(self.cache), "a transaction of this cache");
        self.cache.note_dirty(&self.slot);
    }

    fn lock<'s>(&'s self, tx: &'s Tx<'_>, shared: bool) -> BufferMut<'s> {
        debug_assert!(tx.is_of(self.cache), "a transaction of this cache");
        let data = self.slot.data.write();
        BufferMut { data, cache: self.cache, slot: &self.slot, tx, shared }
    }
}

/// The bytes of a buffer, locked for reading.
pub struct BufferGuard<'a>(RwLockReadGuard<'a, Data>);

impl Deref for BufferGuard<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0.bytes
    }
}

/// The bytes of a buffer, locked for changing.
pub struct BufferMut<'a> {
    data: RwLockWriteGuard<'a, Data>,
    cache: &'a Cache,
    slot: &'a Arc<Slot>,
    tx: &'a Tx<'a>,
    shared: bool,
}

impl BufferMut<'_> {
    /// Returns the bytes of `range` for changing. Only these are noted as changed, and restored by
    /// a rollback.
    pub fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        self.tx.has_changed();
        if self.cache.log.is_some() {
            self.data.keep();
        }
        if !self.shared {
            self.tx.changes(self.slot.at(), range.start, &self.data.bytes[range.clone()]);
        }
        let more = mask(range.clone(), self.slot.piece) & !self.data.changed;
        if more != 0 {
            self.data.changed |= more;
            if !matches!(self.data.before, Before::Nothing) {
                self.tx.spend(more.count_ones() as usize * self.slot.piece);
            }
        }
        self.cache.note_dirty(self.slot);
        &mut self.data.bytes[range]
    }
}

impl Deref for BufferMut<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.data.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a range is noted with every piece that it touches, and no others, also at the ends
    /// of the largest buffer.
    #[test]
    fn pieces_of_a_range() {
        assert_eq!(mask(0..0, 512), 0);
        assert_eq!(mask(0..1, 512), 1);
        assert_eq!(mask(511..513, 512), 3);
        assert_eq!(mask(512..1024, 512), 2);
        assert_eq!(mask(0..65_536, 512), u128::MAX);
        assert_eq!(mask(65_535..65_536, 512), 1 << 127);
        for len in [512, 4096, 65_536, 131_072, 1 << 20] {
            let piece = piece_bytes(len, 512);
            assert!(piece.is_multiple_of(512) && len.div_ceil(piece) <= 128, "{len}");
        }
    }
}
