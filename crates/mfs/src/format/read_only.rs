//! Read-only classes of data: each has one area, which is a device of which nothing is written
//! (paper, section 5.5: "video data stored on read-only disk").
//!
//! The device has no label, no allocation map and no checksums of blocks: it may be a disc that
//! cannot be written, or have another file system on it. It is recognised by its [`Fingerprint`].

use super::class::{CLASSES_MAX, ClassName, DiskClass, NAME_MAX};
use super::label::{DiskArea, READ_ONLY_ROLE};
use spindle_device::Device;
use spindle_ondisk::Endian;
use spindle_vfs::{Error, Result};
use std::ops::Range;

/// Bit of `flags` of a class: nothing of it is written.
pub(super) const READ_ONLY: u32 = 1;
/// Least bytes of a read-only area.
pub const LEAST_BYTES: u64 = 64 << 10;
/// Bytes at the beginning of an area that belong to its samples: there is the superblock of any
/// file system that somebody might write.
const HEAD_BYTES: u64 = 128 << 10;
/// Samples besides, and the bytes of each.
const SAMPLES: u64 = 16;
const SAMPLE_BYTES: u64 = 4096;
/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

/// Receives the bytes that are read; its error ends the work.
pub type BytesRead<'a> = dyn FnMut(u64) -> spindle_device::Result<()> + 'a;

/// What a read-only area is recognised by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// CRC-32C of the samples: the first 128 KiB, and 16 pieces of 4096 bytes, of which piece *n*
    /// ends *n* sixteenths of the way through the area.
    pub samples: u32,
    /// CRC-32C of the whole area.
    pub whole: u32,
    /// Bytes of the area.
    pub bytes: u64,
}

impl Fingerprint {
    /// Reads the fingerprint of a whole device. `report` gets the bytes that are read; its error
    /// ends the work.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the device is too small; device errors.
    pub fn read(device: &dyn Device, report: &mut BytesRead<'_>) -> Result<Self> {
        let bytes = device.info().size_bytes;
        if bytes < LEAST_BYTES {
            let what = format!("{}: a read-only area of {bytes} bytes", device.info().name);
            return Err(Error::unsupported(what, format!("it takes at least {LEAST_BYTES}")));
        }
        Ok(Self { samples: samples_of(device)?, whole: crc_from(0, device, 0..bytes, report)?, bytes })
    }

    /// Returns true if a device is as long as the area and its samples are the same.
    ///
    /// # Errors
    /// Device errors.
    pub fn fits(&self, device: &dyn Device) -> Result<bool> {
        Ok(device.info().size_bytes == self.bytes && samples_of(device)? == self.samples)
    }

    /// Returns true if the whole of a device is what the area was.
    ///
    /// # Errors
    /// Device errors.
    pub fn is_of(&self, device: &dyn Device, report: &mut BytesRead<'_>) -> Result<bool> {
        Ok(device.info().size_bytes == self.bytes
            && crc_from(0, device, 0..self.bytes, report)? == self.whole)
    }

    /// Returns the identity of the area among the members of a set: its fingerprint.
    #[must_use]
    pub fn id(&self) -> [u8; 16] {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&self.samples.to_le_bytes());
        id[4..8].copy_from_slice(&self.whole.to_le_bytes());
        id[8..].copy_from_slice(&self.bytes.to_le_bytes());
        id
    }

    fn of_id(id: [u8; 16]) -> Self {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|n| id[at + n]));
        let bytes = u64::from_le_bytes(std::array::from_fn(|n| id[8 + n]));
        Self { samples: word(0), whole: word(4), bytes }
    }
}

/// Returns the CRC-32C of the samples of a device of [`LEAST_BYTES`] or more; 0 if it is smaller.
fn samples_of(device: &dyn Device) -> Result<u32> {
    let bytes = device.info().size_bytes;
    if bytes < LEAST_BYTES {
        return Ok(0);
    }
    let mut crc = crc_from(0, device, 0..HEAD_BYTES.min(bytes), &mut |_| Ok(()))?;
    for n in 1..=SAMPLES {
        let end = (bytes / SAMPLES * n + bytes % SAMPLES * n / SAMPLES) / SAMPLE_BYTES * SAMPLE_BYTES;
        let start = if n == SAMPLES { bytes } else { end } - SAMPLE_BYTES;
        crc = crc_from(crc, device, start..start + SAMPLE_BYTES, &mut |_| Ok(()))?;
    }
    Ok(crc)
}

/// Goes on with a CRC-32C over bytes of a device.
fn crc_from(mut crc: u32, device: &dyn Device, range: Range<u64>, report: &mut BytesRead<'_>) -> Result<u32> {
    let piece_at = |at: u64| usize::try_from(range.end - at).unwrap_or(PIECE).min(PIECE);
    let mut bytes = vec![0; piece_at(range.start)];
    let mut at = range.start;
    while at < range.end {
        let piece = &mut bytes[..piece_at(at)];
        device.read_at(at, piece)?;
        crc = crc32c::crc32c_append(crc, piece);
        at += piece.len() as u64;
        report(at - range.start)?;
    }
    Ok(crc)
}

/// A read-only class of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOnlyClass {
    /// Its name.
    pub name: ClassName,
    /// Bytes of a block: a power of two from 512 to 1 MiB.
    pub block_bytes: u32,
    /// Its area; none if it was detached, and the entry only keeps the numbers of the classes
    /// behind it.
    pub area: Option<Fingerprint>,
}

impl ReadOnlyClass {
    /// Returns the number of its blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.area.map_or(0, |area| area.bytes / u64::from(self.block_bytes))
    }

    /// Returns what is wrong with the class.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn check(&self) -> Result<()> {
        let block = self.block_bytes;
        super::class::within("data block size", block, 512, 1 << 20, block.is_power_of_two())
    }

    /// Reads a class from its entry in the table of classes, and its area from that in the table
    /// of areas, if it has one.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if its name or size of blocks is none, or its area is impossible.
    pub(super) fn decode(disk: &DiskClass, area: Option<&DiskArea>) -> Result<Self> {
        let area = area.map(|area| (Fingerprint::of_id(area.member_id), area));
        let is_whole = |(fingerprint, area): &(Fingerprint, &DiskArea)| {
            let place = (area.index, area.copy, area.offset, area.state);
            place == (0, 0, 0, 0) && area.len == fingerprint.bytes && area.len >= LEAST_BYTES
        };
        if !area.iter().all(is_whole) {
            return Err(Error::unsupported("an impossible read-only area", "restore the label"));
        }
        let area = area.map(|(fingerprint, _)| fingerprint);
        let class = Self { name: disk.name()?, block_bytes: disk.block_bytes, area };
        class.check()?;
        Ok(class)
    }

    /// Writes the entry in the table of classes.
    pub(super) fn encode(&self, bytes: &mut [u8]) {
        let name: [u8; NAME_MAX] = self.name.padded();
        let (track_blocks, stripe_bytes) = (0, 0);
        let disk =
            DiskClass { name, block_bytes: self.block_bytes, track_blocks, stripe_bytes, flags: READ_ONLY };
        disk.encode(bytes, Endian::Little);
    }

    /// Returns the entry in the table of areas of the class number `number`.
    pub(super) fn disk_area(&self, number: u8) -> Option<DiskArea> {
        let area = self.area?;
        let (role, member_id, len) = (READ_ONLY_ROLE, area.id(), area.bytes);
        Some(DiskArea { role, class: number, copy: 0, index: 0, member_id, offset: 0, len, state: 0 })
    }
}

/// Enters a class into the table of read-only classes: in place of one that was detached, or behind
/// the last one. `others` is the number of the classes before them.
///
/// # Errors
/// [`Error::Unsupported`] if there are too many classes.
pub(crate) fn enter(classes: &mut Vec<ReadOnlyClass>, others: usize, new: ReadOnlyClass) -> Result<()> {
    // Its own entry first, so that no name is there twice.
    let own = classes.iter().position(|class| class.name == new.name);
    match own.or_else(|| classes.iter().position(|class| class.area.is_none())) {
        Some(place) => classes[place] = new,
        None if others + classes.len() >= CLASSES_MAX => {
            let what = format!("{} classes of data", others + classes.len() + 1);
            return Err(Error::unsupported(what, format!("a set has at most {CLASSES_MAX}")));
        }
        None => classes.push(new),
    }
    Ok(())
}

/// Takes the area of a class out of the table.
pub(crate) fn leave(classes: &mut Vec<ReadOnlyClass>, name: &ClassName) {
    classes.iter_mut().filter(|class| class.name == *name).for_each(|class| class.area = None);
    while classes.last().is_some_and(|class| class.area.is_none()) {
        classes.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_device::MemoryDevice;

    /// Promise: a device is recognised by its length and its samples; a change of the first 128
    /// KiB or of the last bytes is seen at once, any other one by the whole checksum.
    #[test]
    fn a_fingerprint_is_that_of_one_device() {
        let device = MemoryDevice::new(3 << 20);
        for at in (0..3 << 20).step_by(512) {
            device.write_at(at, &[u8::try_from(at / 512 % 251).unwrap(); 512]).unwrap();
        }
        let print = Fingerprint::read(&device, &mut |_| Ok(())).unwrap();
        assert_eq!(Fingerprint::of_id(print.id()), print);
        assert!(print.fits(&device).unwrap() && print.is_of(&device, &mut |_| Ok(())).unwrap());
        assert!(!print.fits(&MemoryDevice::new(4 << 20)).unwrap());
        assert!(!print.fits(&MemoryDevice::new(512)).unwrap());
        let changed = |at: u64| {
            let other = device.branch();
            other.write_at(at, &[255; 512]).unwrap();
            (print.fits(&other).unwrap(), print.is_of(&other, &mut |_| Ok(())).unwrap())
        };
        for at in [0, 65_536, 130_560, (3 << 20) - 512, (3 << 19) - 512] {
            assert_eq!(changed(at), (false, false), "{at}");
        }
        assert_eq!(changed(200 << 10), (true, false), "between the samples");
        assert!(Fingerprint::read(&MemoryDevice::new(32 << 10), &mut |_| Ok(())).is_err());
    }

    /// Promise: the number of a class never changes while it is there, and numbers of detached
    /// classes are used again.
    #[test]
    fn numbers_of_classes_stay() {
        let area = Some(Fingerprint { samples: 1, whole: 2, bytes: 1 << 20 });
        let class = |name: &str| ReadOnlyClass { name: name.parse().unwrap(), block_bytes: 512, area };
        let names = |classes: &[ReadOnlyClass]| {
            classes.iter().map(|class| (class.name.to_string(), class.area.is_some())).collect::<Vec<_>>()
        };
        let mut classes = Vec::new();
        for name in ["a", "b", "c"] {
            enter(&mut classes, 5, class(name)).unwrap();
        }
        assert!(enter(&mut classes, 5, class("d")).is_err(), "there are eight");
        leave(&mut classes, &"a".parse().unwrap());
        leave(&mut classes, &"b".parse().unwrap());
        enter(&mut classes, 5, class("b")).unwrap();
        assert_eq!(names(&classes), [("a".into(), false), ("b".into(), true), ("c".into(), true)]);
        enter(&mut classes, 5, class("d")).unwrap();
        leave(&mut classes, &"c".parse().unwrap());
        assert_eq!(names(&classes), [("d".into(), true), ("b".into(), true)]);
        leave(&mut classes, &"d".parse().unwrap());
        leave(&mut classes, &"b".parse().unwrap());
        assert!(classes.is_empty());
    }
}
