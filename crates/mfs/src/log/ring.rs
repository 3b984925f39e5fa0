//! The circle of records, and its header.
//!
//! Positions count the bytes that were ever written; the place of a position in the circle is its
//! remainder by the length.
//!
//! The heads of all parts stand where the circle goes on: after each record, each part is prepared
//! for the next unit that it has (paper, section 4.5).

use super::header::{DiskLogHeader, MAGIC, header_in, slot_bytes};
use super::record::{self, HEAD_BYTES};
use super::units::{LogUnits, SLOT_BYTES, circle};
use spindle_cache::{Changes, Log};
use spindle_clock::{Mutex, MutexGuard, Timestamp};
use spindle_device::{Device, Error, Result};
use std::sync::Arc;

/// Most bytes of a record. Recovery holds one in memory.
const RECORD_MAX: u64 = 64 << 20;
/// Most choices of copies of the parts among which a record is looked for.
const COMBINATIONS_MAX: usize = 256;
/// What the header says of the set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// Records may have to be replayed.
    pub(crate) in_use: bool,
    /// Damage was met, and nothing may be changed before it is repaired.
    pub(crate) damaged: bool,
}

impl State {
    /// Returns the state as the header has it.
    fn bits(self) -> u32 {
        u32::from(self.in_use) | u32::from(self.damaged) << 1
    }
}

/// Records that log storage is lost.
pub(crate) trait LogLoss: Send + Sync {
    /// Records the loss durably, and whether control storage may have a part of an operation, or
    /// is damaged.
    ///
    /// # Errors
    /// If it cannot be recorded; nothing is acknowledged then.
    fn note(&self, unlogged: bool) -> Result<()>;

    /// Returns true if the loss is recorded.
    fn is_noted(&self) -> bool;

    /// Says whether the set is marked as in use. From then on it can go on without log storage, if
    /// a member that has it is lost.
    fn set_in_use(&self, in_use: bool);
}

/// Log storage.
pub(crate) struct Ring {
    /// The first part, which begins with the headers.
    first: Arc<dyn Device>,
    circle: Arc<dyn Device>,
    /// The circles of single copies, as far as the parts have several.
    copies: Vec<Arc<dyn Device>>,
    units: LogUnits,
    /// Control and data storage, which must be durable before a record.
    space: Arc<dyn Device>,
    set_id: [u8; 16],
    /// Where the loss of log storage is recorded; if nowhere, its failure is an error.
    losses: Option<Arc<dyn LogLoss>>,
    /// Bytes of the circle: whole places of a record.
    len: u64,
    /// A record begins at a multiple of so many bytes.
    step: u64,
    ends: Mutex<Ends>,
}

struct Ends {
    /// Number of times that the header was written.
    version: u64,
    state: State,
    /// Position after the last record.
    head: u64,
    /// The number of the next record.
    sequence: u64,
    /// Position and number of the last record that was found, and of those that are not whole in
    /// the copy that is read first.
    incomplete: Vec<(u64, u64)>,
    /// Position and number of the oldest record that has not been checkpointed.
    tail: (u64, u64),
    /// Position of the oldest record that the header on the device leads to.
    header_tail: u64,
    /// True from when log storage has failed.
    is_lost: bool,
}

impl Ring {
    /// Writes an empty log to storage whose first part is `first`. Its first record will have the
    /// number `sequence`: no record of the set that may still be in log storage has it or a greater
    /// one.
    pub(crate) fn make(
        first: &dyn Device,
        set_id: [u8; 16],
        sequence: u64,
        state: State,
        units: LogUnits,
    ) -> Result<()> {
        let header = DiskLogHeader {
            magic: MAGIC,
            checksum: 0,
            set_id,
            version: 1,
            tail: 0,
            sequence,
            state: state.bits(),
            unit_bytes: units.unit_bytes,
            record_bytes: units.record_bytes,
        };
        let mut bytes = header.slot(first);
        first.write_at(0, &bytes)?;
        bytes.fill(0);
        first.write_at(SLOT_BYTES, &bytes)?;
        first.flush()
    }

    /// Writes an empty log in place of another. Records that may be left have smaller numbers than
    /// those that it will have: fewer than 2^24 are written in a second.
    pub(crate) fn renew(first: &dyn Device, set_id: [u8; 16], now: Timestamp, state: State) -> Result<()> {
        let sequence = u64::try_from(now.secs).unwrap_or(0).max(1) << 24;
        Self::make(first, set_id, sequence, state, LogUnits::default())
    }

    /// Returns the log with the place where its loss is recorded.
    pub(crate) fn recording_to(self, losses: Arc<dyn LogLoss>) -> Self {
        Self { losses: Some(losses), ..self }
    }

    /// Returns the log as one whose parts have these copies: a record that is not whole in the one
    /// that is read first is looked for in the others, and in what can be put together of them.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn with_copies(self, parts: &[Vec<Arc<dyn Device>>]) -> spindle_vfs::Result<Self> {
        let all = parts.iter().map(Vec::len).try_fold(1_usize, usize::checked_mul);
        let all = all.unwrap_or(usize::MAX).min(COMBINATIONS_MAX);
        let mut copies = Vec::new();
        for n in 0..if all > 1 { all } else { 0 } {
            let mut rest = n;
            let mut choose = |part: &Vec<Arc<dyn Device>>| {
                let device = part[rest % part.len()].clone();
                rest /= part.len();
                device
            };
            let devices: Vec<_> = parts.iter().map(&mut choose).collect();
            copies.push(circle(&devices, self.units)?);
        }
        Ok(Self { copies, ..self })
    }

    /// Returns the log when its records have been read: its copies are not used by themselves any
    /// more.
    pub(crate) fn recovered(self) -> Self {
        Self { copies: Vec::new(), ..self }
    }

    /// Lets the set go on without log storage from now on, when there is nothing to replay.
    pub(crate) fn allow_loss(&self) {
        self.losses.iter().for_each(|losses| losses.set_in_use(false));
    }

    /// Returns the log as one that cannot be done without: its failure is an error.
    pub(crate) fn needed(self) -> Self {
        Self { losses: None, ..self }
    }

    /// Opens the log with these parts; returns it with its state.
    ///
    /// # Errors
    /// Device errors; [`spindle_vfs::Error::Corrupt`] if neither slot has a header, or the header
    /// does not fit log storage.
    pub(crate) fn open(
        parts: &[Arc<dyn Device>],
        space: Arc<dyn Device>,
        set_id: [u8; 16],
    ) -> spindle_vfs::Result<(Self, State)> {
        let corrupt = |what: String| Err(spindle_vfs::Error::corrupt(what, "log"));
        let Some(first) = parts.first().cloned() else { return corrupt("there is no log storage".into()) };
        let mut best: Option<DiskLogHeader> = None;
        for slot in 0..2 {
            let mut bytes = vec![0; slot_bytes(&*first)];
            first.read_at(slot * SLOT_BYTES, &mut bytes)?;
            let found = header_in(&bytes, set_id);
            best = found.filter(|found| best.is_none_or(|best| best.version < found.version)).or(best);
        }
        let Some(header) = best else { return corrupt("neither of its headers is whole".into()) };
        let units = LogUnits { unit_bytes: header.unit_bytes, record_bytes: header.record_bytes };
        let circle = circle(parts, units)?;
        let step = units.step(circle.info().sector_bytes);
        let len = circle.info().size_bytes / step * step;
        if header.tail >= len || !header.tail.is_multiple_of(step) {
            return corrupt(format!("its tail is at {}", header.tail));
        }
        let state = State { in_use: header.state & 1 != 0, damaged: header.state & 2 != 0 };
        let ends = Ends {
            version: header.version,
            state,
            head: header.tail,
            incomplete: Vec::new(),
            sequence: header.sequence,
            tail: (header.tail, header.sequence),
            header_tail: header.tail,
            is_lost: false,
        };
        let ends = Mutex::new(ends);
        let copies = Vec::new();
        Ok((Self { first, circle, copies, units, space, set_id, losses: None, len, step, ends }, state))
    }

    /// Passes the records to `look`, oldest first, with their numbers. New records will come after
    /// the last one.
    ///
    /// # Errors
    /// Device errors; those of `look`.
    pub(crate) fn each_record<E: From<Error>>(
        &self,
        mut look: impl FnMut(u64, Changes) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut ends = self.ends.lock();
        let (tail, mut sequence) = ends.tail;
        let (mut at, mut last) = (tail, None);
        ends.incomplete.clear();
        while let Some((record, is_first)) = self.find(at, sequence, at - tail)? {
            let Some(changes) = record::decode(&record) else { break };
            look(sequence, changes)?;
            last = Some((at, sequence)).filter(|_| is_first);
            if !is_first {
                ends.incomplete.push((at, sequence));
            }
            (at, sequence) = (at + self.taken(record.len() as u64), sequence + 1);
        }
        ends.incomplete.extend(last);
        (ends.head, ends.sequence) = (at, sequence);
        Ok(())
    }

    /// Writes the last record that [`Self::each_record`] has found again, because not all copies of
    /// log storage may have it whole, and those that the first copy has not. Otherwise the loss of
    /// one during the replay could leave a part of it.
    ///
    /// # Errors
    /// Device errors.
    pub(crate) fn complete_copies(&self) -> Result<()> {
        let ends = self.ends.lock();
        for &(at, sequence) in &ends.incomplete {
            if let Some((record, _)) = self.find(at, sequence, at - ends.tail.0)? {
                let len = record.len() as u64;
                self.transfer(at, len, |at, range| self.circle.write_at(at, &record[range]))?;
            }
        }
        if ends.incomplete.is_empty() { Ok(()) } else { self.circle.flush() }
    }

    /// Reads record `sequence` at a position, after `used` bytes of records: none if it is not
    /// there, or not whole in any copy. Also returns true if it was whole where it is read first.
    fn find(&self, at: u64, sequence: u64, used: u64) -> Result<Option<(Vec<u8>, bool)>> {
        if let Some(record) = self.read(&*self.circle, at, sequence, used)? {
            return Ok(Some((record, true)));
        }
        for copy in &self.copies {
            // A copy that cannot be read has nothing.
            if let Ok(Some(record)) = self.read(&**copy, at, sequence, used) {
                log::warn!("record {sequence} of the log is not whole in one copy; another has it");
                return Ok(Some((record, false)));
            }
        }
        Ok(None)
    }

    /// Reads a record from `circle`.
    fn read(&self, circle: &dyn Device, at: u64, sequence: u64, used: u64) -> Result<Option<Vec<u8>>> {
        let sector = self.sector() as u64;
        if used + sector > self.len {
            return Ok(None);
        }
        let mut head = vec![0; self.sector()];
        self.transfer(at, head.len() as u64, |from, range| circle.read_at(from, &mut head[range]))?;
        let expected = record::bytes_expected(&head[..HEAD_BYTES], self.set_id, sequence);
        let Some(bytes) = expected.filter(|bytes| {
            bytes.is_multiple_of(sector) && *bytes <= RECORD_MAX && used + self.taken(*bytes) <= self.len
        }) else {
            return Ok(None);
        };
        let mut record = vec![0; usize::try_from(bytes).unwrap_or(0)];
        self.transfer(at, bytes, |from, range| circle.read_at(from, &mut record[range]))?;
        Ok(record::is_whole(&record).then_some(record))
    }

    /// Calls `work` for each part of `len` bytes at a position that is contiguous in the circle,
    /// with its address and its range.
    fn transfer(
        &self,
        at: u64,
        len: u64,
        mut work: impl FnMut(u64, std::ops::Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let place = at % self.len;
        let first = len.min(self.len - place);
        let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        work(place, 0..size(first))?;
        if first < len { work(0, size(first)..size(len)) } else { Ok(()) }
    }

    fn sector(&self) -> usize {
        self.circle.info().sector_bytes as usize
    }

    /// Returns the bytes of the circle that a record of so many bytes takes.
    const fn taken(&self, bytes: u64) -> u64 {
        bytes.next_multiple_of(self.step)
    }

    /// Returns true if a record of so many bytes fits beside those that are needed.
    const fn fits(&self, ends: &Ends, bytes: u64) -> bool {
        ends.head - ends.tail.0 + self.taken(bytes) <= self.len
    }

    /// Moves the heads to where the circle goes on.
    fn prepare(&self, ends: &Ends) {
        self.circle.prepare(ends.head % self.len);
    }

    /// Writes the header with this state; records before the tail are not needed any more.
    pub(crate) fn set_state(&self, state: State) -> Result<()> {
        let mut ends = self.ends();
        ends.state = state;
        let written = if ends.is_lost { self.record_loss(state) } else { self.write_header(&mut ends) };
        written.or_else(|error| self.lose(&mut ends, error))?;
        self.losses.iter().for_each(|losses| losses.set_in_use(state.in_use));
        Ok(())
    }

    /// Locks the ends of the log. It may have been lost with something else on the same member.
    fn ends(&self) -> MutexGuard<'_, Ends> {
        let mut ends = self.ends.lock();
        ends.is_lost |= self.losses.as_ref().is_some_and(|losses| losses.is_noted());
        ends
    }

    /// Records that log storage is lost, and goes on without it. Fails with the error if that
    /// cannot be recorded.
    fn lose(&self, ends: &mut Ends, error: Error) -> Result<()> {
        if ends.is_lost || self.record_loss(ends.state).is_err() {
            return Err(error);
        }
        ends.is_lost = true;
        log::error!("{error}");
        Ok(())
    }

    /// Records that log storage is lost, and whether everything else is as it should be.
    fn record_loss(&self, state: State) -> Result<()> {
        match &self.losses {
            Some(losses) => losses.note(state.in_use || state.damaged),
            None => Err(Error::io("log", "recording its loss", std::io::ErrorKind::Unsupported.into())),
        }
    }

    /// Begins anew with this state after a replay to the set, which is durable. Another copy of the
    /// log may have one more record than the one that was read. Its number is not used again:
    /// otherwise a later recovery could take it for the new record.
    pub(crate) fn restart(&self, state: State) -> Result<()> {
        let mut ends = self.ends.lock();
        ends.sequence += 1;
        ends.tail = (ends.head, ends.sequence);
        ends.state = state;
        self.write_header(&mut ends)
    }

    /// Notes that everything in the log has been written to its place and is durable.
    pub(crate) fn empty(&self) {
        let mut ends = self.ends.lock();
        ends.tail = (ends.head, ends.sequence);
    }

    /// Returns the bytes of the circle that records take, as far as they are known, and all of
    /// them.
    pub(crate) fn used_bytes(&self) -> (u64, u64) {
        let ends = self.ends.lock();
        (ends.head - ends.tail.0, self.len)
    }

    /// Writes a record of changes, or nothing if the log is lost.
    fn write_record(&self, ends: &mut Ends, changes: &Changes) -> Result<()> {
        if ends.is_lost {
            return Ok(());
        }
        let bytes = record::encode(changes, self.set_id, ends.sequence, self.sector());
        let len = bytes.len() as u64;
        if !self.fits(ends, len) || len > RECORD_MAX {
            let full = std::io::Error::other("an epoch is larger than the log");
            return Err(Error::io("log", format!("writing {len} bytes"), full));
        }
        self.append(ends, &bytes).or_else(|error| self.lose(ends, error))
    }

    /// Writes a record.
    fn append(&self, ends: &mut Ends, bytes: &[u8]) -> Result<()> {
        let len = bytes.len() as u64;
        if ends.head - ends.header_tail + self.taken(len) > self.len {
            self.write_header(ends)?;
        }
        self.transfer(ends.head, len, |at, range| self.circle.write_at(at, &bytes[range]))?;
        self.circle.flush()?;
        ends.head += self.taken(len);
        ends.sequence += 1;
        self.prepare(ends);
        Ok(())
    }

    fn write_header(&self, ends: &mut Ends) -> Result<()> {
        ends.version += 1;
        let header = DiskLogHeader {
            magic: MAGIC,
            checksum: 0,
            set_id: self.set_id,
            version: ends.version,
            tail: ends.tail.0 % self.len,
            sequence: ends.tail.1,
            state: ends.state.bits(),
            unit_bytes: self.units.unit_bytes,
            record_bytes: self.units.record_bytes,
        };
        self.first.write_at(ends.version % 2 * SLOT_BYTES, &header.slot(&*self.first))?;
        self.first.flush()?;
        ends.header_tail = ends.tail.0;
        self.prepare(ends);
        Ok(())
    }
}

impl Log for Ring {
    fn commit_bytes(&self) -> usize {
        self.limit_bytes() / 4
    }

    fn limit_bytes(&self) -> usize {
        // Half of a record may be addresses, if each changed sector has one.
        usize::try_from(self.len.min(RECORD_MAX) / 2).unwrap_or(usize::MAX)
    }

    fn has_room(&self, changes: &Changes) -> bool {
        let ends = self.ends();
        ends.is_lost || self.fits(&ends, record::bytes_of(changes, self.sector()) as u64)
    }

    fn commit(&self, changes: &Changes) -> Result<()> {
        // A record must not point to what is not there.
        self.space.flush()?;
        self.write_record(&mut self.ends(), changes)
    }

    fn is_lost(&self) -> bool {
        self.ends().is_lost
    }

    fn wants_checkpoint(&self) -> bool {
        let ends = self.ends.lock();
        ends.head - ends.tail.0 > self.len / 2
    }

    fn compact_bytes(&self) -> usize {
        // Beside half of the log, which is to be given up, and what is committed next.
        usize::try_from(self.len / 4).unwrap_or(usize::MAX).min(self.limit_bytes())
    }

    fn compact(&self, changes: &Changes) -> Result<()> {
        let mut ends = self.ends();
        let tail = (ends.head, ends.sequence);
        self.write_record(&mut ends, changes)?;
        ends.tail = tail;
        Ok(())
    }

    fn checkpointed(&self) {
        self.empty();
    }
}

#[cfg(test)]
mod tests {
    use super::super::units::LEAST_BYTES;
    use super::*;
    use spindle_cache::Change;
    use spindle_device::{MemoryDevice, Mirror};

    /// Promise: however often the circle goes round, and however it lies on its parts, opening it
    /// again finds every record since the last checkpoint or compaction, in order, to the last one;
    /// and a damaged record ends it.
    #[test]
    fn records_survive_the_circle() {
        use rand::{Rng, SeedableRng};
        let tracks = LogUnits { unit_bytes: 32 << 10, record_bytes: 0 };
        let in_turns = LogUnits { unit_bytes: 8192, record_bytes: 8192 };
        for (parts, units) in [
            (1, LogUnits::STRIPED),
            (2, LogUnits::STRIPED),
            (2, in_turns),
            (3, tracks),
            (3, LogUnits::default()),
        ] {
            let mut rng = rand::rngs::StdRng::seed_from_u64(11);
            let media: Vec<_> = (0..parts)
                .map(|n| Arc::new(MemoryDevice::new(LEAST_BYTES / parts + n * 77_824 + 65_536)))
                .collect();
            let space: Arc<dyn Device> = Arc::new(MemoryDevice::new(1 << 20));
            let set_id = [7; 16];
            Ring::make(&*media[0], set_id, 1, State::default(), units).unwrap();
            let devices: Vec<_> = media.iter().map(|part| part.clone() as Arc<dyn Device>).collect();
            let (ring, state) = Ring::open(&devices, space.clone(), set_id).unwrap();
            assert_eq!(state, State::default());
            let mut needed = 1;
            for sequence in 1..600_u64 {
                let mut changes = Changes::default();
                changes.revoked.extend((0..rng.random_range(0..5)).map(|n| n * 512..n * 512 + 512));
                let fill = u8::try_from(sequence % 251).unwrap();
                let bytes = vec![fill; 512 * rng.random_range(1..40)];
                changes.changed.push(Change { at: sequence * 512, bytes });
                if !ring.has_room(&changes) || rng.random_range(0..30) == 0 {
                    ring.checkpointed();
                    needed = sequence;
                }
                if rng.random_range(0..20) == 0 {
                    ring.compact(&changes).unwrap();
                    needed = sequence;
                } else {
                    ring.commit(&changes).unwrap();
                }
                let found = |ring: &Ring| {
                    let mut found = Vec::new();
                    let look = |number, changes: Changes| {
                        assert_eq!(changes.changed[0].at, number * 512);
                        found.push(number);
                        Ok::<_, Error>(())
                    };
                    ring.each_record(look).unwrap();
                    found
                };
                let branches: Vec<_> =
                    media.iter().map(|part| Arc::new(part.branch()) as Arc<dyn Device>).collect();
                let open = || Ring::open(&branches, space.clone(), set_id).unwrap().0;
                let again = open();
                let all = found(&again);
                assert_eq!(all.last(), Some(&sequence));
                assert!(all[0] <= needed && all.windows(2).all(|pair| pair[0] + 1 == pair[1]));
                let (tail, last) = {
                    let ends = again.ends.lock();
                    (ends.tail.0, ends.incomplete[0])
                };
                let (record, _) = again.find(last.0, last.1, last.0 - tail).unwrap().unwrap();
                let tear = |at, _| again.circle.write_at(at, &[0xee; 512]);
                again.transfer(last.0 + record.len() as u64 - 512, 512, tear).unwrap();
                assert_eq!(found(&open()).len(), all.len() - 1);
            }
        }
    }

    /// Promise: after a replay all copies of log storage lead to the same state: a record that only
    /// one copy has is found, and written to the others before anything else.
    #[test]
    fn copies_agree_after_a_replay() {
        struct NeverLost;
        impl spindle_device::Loss for NeverLost {
            fn note(&self, _: usize, error: &Error) -> Result<()> {
                Err(error.clone())
            }
        }
        let set_id = [7; 16];
        let space: Arc<dyn Device> = Arc::new(MemoryDevice::new(1 << 20));
        let open = |device: Arc<dyn Device>| Ring::open(&[device], space.clone(), set_id).unwrap().0;
        let count = |ring: &Ring| {
            let mut count = 0;
            let look = |_, _| {
                count += 1;
                Ok::<_, Error>(())
            };
            ring.each_record(look).unwrap();
            count
        };
        for newer in [0, 1] {
            let copies = [0, 1].map(|_| Arc::new(MemoryDevice::new(2 * LEAST_BYTES)));
            let all = copies.each_ref().map(|copy| copy.clone() as Arc<dyn Device>).to_vec();
            let mirror = Mirror::new(all, &[false; 2], Arc::new(NeverLost), "log".into()).unwrap();
            mirror.set_unequal(true);
            let mirror = Arc::new(mirror);
            Ring::make(&*mirror, set_id, 1, State::default(), LogUnits::default()).unwrap();
            let commit = |ring: &Ring| {
                let changes = vec![Change { at: 512, bytes: vec![1; 5120] }];
                ring.commit(&Changes { changed: changes, ..Changes::default() }).unwrap();
            };
            let ring = open(mirror.clone());
            (0..3).for_each(|_| commit(&ring));
            let alone = open(copies[newer].clone());
            count(&alone);
            commit(&alone);
            // A damaged record in the midst of one copy.
            copies[newer].write_at(2 * SLOT_BYTES + 8192 + 1024, &[0xee; 512]).unwrap();
            let ring = open(mirror.clone()).with_copies(&[mirror.copies()]).unwrap();
            assert_eq!(count(&ring), 4);
            ring.complete_copies().unwrap();
            if newer == 1 {
                assert_eq!(count(&open(copies[0].clone())), 4);
            } else {
                assert_eq!(copies.each_ref().map(|copy| count(&open(copy.clone()))), [4, 4]);
            }
            ring.restart(State::default()).unwrap();
            for copy in &copies {
                assert_eq!(count(&open(copy.clone())), 0);
            }
            commit(&ring);
            assert_eq!(count(&open(copies[1].clone())), 1);
        }
    }
}
