//! The file of a quota inside the file system while it is on: where each record stands, and writing
//! it in the transaction that changes it.
//!
//! Several transactions that are open change one record, so its bytes are shared between them, as
//! those of the maps are: one that is rolled back takes its charge back. An entry that a
//! transaction has taken from the list of free ones stays taken when it is rolled back, with
//! nothing in use.

use super::inside::{Contents, DEFAULT_AT, FREE_AT, NEXT_AT, Record, Shape, VALUES};
use crate::format::units::index;
use spindle_cache::{Buffer, Cache, Tx};
use spindle_ondisk::Field;
use spindle_vfs::{Error, Result};
use std::collections::HashMap;

/// Free entries that a file should have before an operation begins that may need one: more than
/// there are operations at once.
const SPARE: usize = 16;

/// What a record is written with.
#[derive(Clone, Copy)]
pub(crate) struct Pen<'a> {
    pub(crate) cache: &'a Cache,
    pub(crate) tx: &'a Tx<'a>,
}

/// The file of a quota.
pub(crate) struct Store {
    shape: Shape,
    /// Where its blocks are on the device, in bytes.
    blocks: Vec<u64>,
    places: HashMap<u32, u64>,
    heads: Vec<u64>,
    /// The free entries, the first of the list last.
    free: Vec<u64>,
}

impl Store {
    /// Returns the file with these blocks and contents.
    pub(crate) fn new(shape: Shape, blocks: Vec<u64>, contents: &Contents) -> Self {
        let places = contents.records.iter().map(|(&id, &(at, _))| (id, at)).collect();
        Self { shape, blocks, places, heads: contents.heads.clone(), free: contents.free.clone() }
    }

    /// Returns true if new users or groups may not find an entry soon.
    pub(crate) const fn is_short(&self) -> bool {
        self.free.len() < SPARE
    }

    fn buffer<'c>(&self, at: u64, pen: &Pen<'c>) -> Result<(Buffer<'c>, usize)> {
        let bsize = self.shape.bsize() as u64;
        let corrupt = || Error::corrupt(format!("an entry at byte {at}"), "quotas");
        let block = *self.blocks.get(index(at / bsize)).ok_or_else(corrupt)?;
        Ok((pen.cache.get(block, self.shape.bsize(), None)?, index(at % bsize)))
    }

    /// Writes a record. What can fail has been done before anything is changed.
    pub(crate) fn write(&mut self, id: u32, record: &Record, pen: &Pen<'_>) -> Result<()> {
        let endian = self.shape.endian;
        if let Some(&at) = self.places.get(&id) {
            let (buffer, within) = self.buffer(at, pen)?;
            let mut block = buffer.write_shared(pen.tx);
            block.bytes_mut(within..within + VALUES).copy_from_slice(&record.values(endian));
            return Ok(());
        }
        let at = *self.free.last().ok_or(Error::NoSpace)?;
        let (header, _) = self.buffer(0, pen)?;
        let (buffer, within) = self.buffer(at, pen)?;
        self.free.pop();
        let next_free = self.free.last().copied().unwrap_or(0);
        let list = self.shape.list_of(id);
        let next = std::mem::replace(&mut self.heads[list], at);
        {
            let mut block = buffer.write_shared(pen.tx);
            let bytes = block.bytes_mut(within..within + NEXT_AT + u64::SIZE + 2 * u32::SIZE);
            bytes[..VALUES].copy_from_slice(&record.values(endian));
            next.put(&mut bytes[NEXT_AT..], endian);
            id.put(&mut bytes[NEXT_AT + u64::SIZE..], endian);
            0_u32.put(&mut bytes[NEXT_AT + u64::SIZE + u32::SIZE..], endian);
        }
        let mut block = header.write_shared(pen.tx);
        next_free.put(block.bytes_mut(FREE_AT..FREE_AT + u64::SIZE), endian);
        let head = Shape::head_at(list);
        at.put(block.bytes_mut(head..head + u64::SIZE), endian);
        self.places.insert(id, at);
        Ok(())
    }

    /// Writes what new records get.
    pub(crate) fn write_default(&self, default: &Record, pen: &Pen<'_>) -> Result<()> {
        let (header, _) = self.buffer(0, pen)?;
        let mut block = header.write_shared(pen.tx);
        let bytes = block.bytes_mut(DEFAULT_AT..DEFAULT_AT + VALUES);
        bytes.copy_from_slice(&default.values(self.shape.endian));
        Ok(())
    }

    /// Adds a block to the file, which has been given to its inode; its entries become free.
    pub(crate) fn add_block(&mut self, (block, buffer): (u64, &Buffer<'_>), pen: &Pen<'_>) -> Result<()> {
        let endian = self.shape.endian;
        let (header, _) = self.buffer(0, pen)?;
        let number = self.blocks.len() as u64;
        let start = number * self.shape.bsize() as u64;
        self.blocks.push(block);
        let mut next = self.free.last().copied().unwrap_or(0);
        let mut bytes = buffer.write(pen.tx);
        for at in self.shape.places(number) {
            let within = index(at - start) + NEXT_AT;
            next.put(bytes.bytes_mut(within..within + u64::SIZE), endian);
            self.free.push(at);
            next = at;
        }
        next.put(header.write_shared(pen.tx).bytes_mut(FREE_AT..FREE_AT + u64::SIZE), endian);
        Ok(())
    }
}
