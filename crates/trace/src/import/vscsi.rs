//! Traces of `VMware`'s vscsiStats, versions 1 and 2, as libCacheSim and `CloudPhysics`' published
//! traces have them.
//!
//! Format: `traceReader/customizedReader/vscsi.h` of libCacheSim (github.com/1a1a11a/libCacheSim,
//! 2024-10): little-endian records of 32 bytes (serial number, length in bytes, scatter-gather
//! elements, SCSI command, version, block address, time in µs) or of 40 (command and version first,
//! and the response time at the end); the version is in the high byte. Addresses are blocks of 512
//! bytes.

use super::Format;
use super::records::{Decode, Records, u16_at, u32_at, u64_at};
use crate::{Batch, Error, Event, FileId, Info, Kind};

pub(super) const FORMAT: Format = Format {
    name: "vscsi",
    about: "VMware's vscsiStats, versions 1 and 2",
    settings: &[],
    recognises: |start| version(start).is_some(),
    open: |input, _| {
        let what = "neither version 1 nor 2 of the format";
        let layout =
            version(&input.start()).ok_or_else(|| Error::malformed(input.path(), "first records", what))?;
        Ok(Box::new(Records::new(input, 0, Vscsi { layout, other: 0 })?))
    },
};

/// Places of the values in a record.
#[derive(Clone, Copy, Debug)]
struct Layout {
    version: u16,
    len: usize,
    version_at: usize,
    command: usize,
    bytes: usize,
    block: usize,
    time: usize,
}

const LAYOUTS: [Layout; 2] = [
    Layout { version: 2, len: 40, version_at: 2, command: 0, bytes: 8, block: 16, time: 24 },
    Layout { version: 1, len: 32, version_at: 14, command: 12, bytes: 4, block: 16, time: 24 },
];

/// Returns the layout of the version that the first two records have.
fn version(start: &[u8]) -> Option<Layout> {
    LAYOUTS.into_iter().find(|layout| {
        let records: Vec<_> = start.chunks_exact(layout.len).take(2).collect();
        records.len() == 2
            && records.iter().all(|record| u16_at(record, layout.version_at) >> 8 == layout.version)
    })
}

struct Vscsi {
    layout: Layout,
    other: u64,
}

impl Decode for Vscsi {
    fn len(&self) -> usize {
        self.layout.len
    }

    fn record(&mut self, record: &[u8], out: &mut Batch) -> Result<(), String> {
        let layout = self.layout;
        if u16_at(record, layout.version_at) >> 8 != layout.version {
            return Err(format!("a record is not of version {}", layout.version));
        }
        let (bytes, block) = (u64::from(u32_at(record, layout.bytes)), u64_at(record, layout.block));
        let micros = u64_at(record, layout.time);
        let time = i64::try_from(micros).ok().and_then(|micros| micros.checked_mul(1000));
        let position = block.checked_mul(512).filter(|at| i64::try_from(*at).is_ok());
        // READ and WRITE with 6, 10, 12 and 16 bytes (SCSI block commands).
        let (read, written) = match u16_at(record, layout.command) & 0xff {
            0x08 | 0x28 | 0xa8 | 0x88 => (bytes, 0),
            0x0a | 0x2a | 0xaa | 0x8a => (0, bytes),
            _ => {
                self.other += 1;
                return Ok(());
            }
        };
        out.events.push(Event {
            time: time.ok_or_else(|| format!("time {micros} µs is out of range"))?,
            kind: Kind::Run,
            file: FileId::default(),
            position: position.ok_or_else(|| format!("block {block} is out of range"))?,
            read,
            written,
            calls: 1,
            ..Event::default()
        });
        Ok(())
    }

    fn info(&self) -> Info {
        let mut notes = Vec::new();
        if self.other > 0 {
            notes.push(format!("{} commands that neither read nor wrote are left out", self.other));
        }
        Info { source: "import vscsi".into(), notes, ..Info::default() }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::mutations::{events, failure};
    use super::*;

    /// Returns records of a version: command, bytes, block, time.
    pub(crate) fn sample(version: u16) -> Vec<u8> {
        let mut all = Vec::new();
        for (command, bytes, block, time) in
            [(0x2a_u16, 512_u32, 42_932_745_u64, 5_633_898_368_802_u64), (0x28, 4096, 8, 9), (0x35, 0, 0, 10)]
        {
            let layout = LAYOUTS[usize::from(version == 1)];
            let mut record = vec![0; layout.len];
            record[layout.version_at + 1] = u8::try_from(version).unwrap();
            record[layout.command..layout.command + 2].copy_from_slice(&command.to_le_bytes());
            record[layout.bytes..layout.bytes + 4].copy_from_slice(&bytes.to_le_bytes());
            record[layout.block..layout.block + 8].copy_from_slice(&block.to_le_bytes());
            record[layout.time..layout.time + 8].copy_from_slice(&time.to_le_bytes());
            all.extend(record);
        }
        all
    }

    /// Promise: both versions are detected, and a record is a run of bytes of its disk.
    #[test]
    fn both_versions() {
        for version in [1, 2] {
            let (batch, info) = events(sample(version), None).unwrap();
            let found: Vec<_> =
                batch.events.iter().map(|e| (e.time, e.position, e.read, e.written)).collect();
            assert_eq!(found, [(5_633_898_368_802_000, 42_932_745 * 512, 0, 512), (9000, 4096, 4096, 0)]);
            assert!(info.notes[0].starts_with("1 commands"));
        }
        let mut cut = sample(1);
        cut.truncate(70);
        assert!(failure(cut, None).contains("offset 64: a record has 32 bytes, but only 6 are left"));
        assert!(failure(vec![7; 100], Some("vscsi")).contains("neither version 1 nor 2"));
    }
}
