//! Mirrors that know more than their members: a judge says which bytes are wrong. A read then takes
//! them from another member, and a copy is put together from what is right in any.

use super::{Member, Mirror};
use crate::{AlignedBuf, Device, Error, Op, Request, Result};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of the smallest structure.
pub(super) const SECTOR: usize = 512;

/// Knows what the bytes of a mirror should be.
pub trait Judge: Send + Sync {
    /// Returns the range that must be read so that these bytes can be judged.
    fn whole(&self, bytes: Range<u64>) -> Range<u64>;

    /// Returns those parts of `bytes`, which were read at `offset`, that are not right as far as
    /// can be seen in them: in order. Each part can be judged alone. If they were read for a copy
    /// and not for a user, what may still be on its way to the members is not judged.
    fn wrong(&self, offset: u64, bytes: &[u8], for_copy: bool) -> Vec<Range<usize>>;

    /// Returns true if a read of the bytes at `offset` fails if no member has them right. Otherwise
    /// what one member has counts then: who reads it sees what it is.
    fn refuses(&self, offset: u64) -> bool;

    /// Returns true if members that have the bytes at `offset` wrong get the right ones at once.
    fn mends(&self, offset: u64) -> bool;

    /// Returns the parts of these bytes, and perhaps of others, that nobody uses, so that members
    /// may have anything there.
    fn unused(&self, _bytes: Range<u64>) -> Vec<Range<u64>> {
        Vec::new()
    }

    /// Returns true if members may have different bytes in the sector at `offset` after an end in
    /// the midst of work and the recovery from it. `decided` says that one member has the sector
    /// wrong and another one right.
    fn may_differ(&self, offset: u64, decided: bool) -> bool;
}

/// A piece of a mirror.
pub(super) struct Best {
    /// What is right in any member; what is wrong in all, as one has it.
    pub(super) bytes: AlignedBuf,
    /// What each member has of it, or why it cannot be read.
    pub(super) copies: Vec<(Arc<Member>, Result<AlignedBuf>)>,
    /// The parts that are wrong in all.
    pub(super) wrong: Vec<Range<usize>>,
}

/// Returns the parts of `len` bytes that are not in `parts`, which are in order.
fn outside(len: usize, parts: &[Range<usize>]) -> Vec<Range<usize>> {
    let starts = std::iter::once(0).chain(parts.iter().map(|part| part.end));
    let ends = parts.iter().map(|part| part.start).chain([len]);
    starts.zip(ends).map(|(start, end)| start..end).filter(|part| !part.is_empty()).collect()
}

/// Copies to `into` what is right of its parts `left` in `from`; both are at `at`. Returns the
/// parts that are not right there either.
fn take_right(
    judge: &dyn Judge,
    at: u64,
    (from, for_copy): (&[u8], bool),
    left: &[Range<usize>],
    into: &mut [u8],
) -> Vec<Range<usize>> {
    let mut still = Vec::new();
    for part in left {
        let wrong = judge.wrong(at + part.start as u64, &from[part.clone()], for_copy);
        let here = |inner: &Range<usize>| part.start + inner.start..part.start + inner.end;
        for right in outside(part.len(), &wrong) {
            into[here(&right)].copy_from_slice(&from[here(&right)]);
        }
        still.extend(wrong.iter().map(here));
    }
    still
}

/// Puts zeros into the sectors of `into` that are among `left` and that `from` has as zeros: a
/// place that was never used.
fn take_unused(from: &[u8], left: &[Range<usize>], into: &mut [u8]) {
    for part in left {
        for start in part.clone().step_by(SECTOR) {
            let sector = start..part.end.min(start + SECTOR);
            if from[sector.clone()].iter().all(|&byte| byte == 0) {
                into[sector].fill(0);
            }
        }
    }
}

impl Mirror {
    /// Puts right what is wrong in bytes that were read from `member`, as far as another member has
    /// the right ones.
    pub(super) fn judge_read(
        &self,
        judge: &dyn Judge,
        offset: u64,
        member: &Arc<Member>,
        buf: &mut AlignedBuf,
    ) -> Result<()> {
        let mut refused: Vec<(u64, usize)> = Vec::new();
        for part in judge.wrong(offset, buf, false) {
            let at = offset + part.start as u64;
            let refuses = judge.refuses(at);
            let is_alone = self.whole().iter().all(|other| Arc::ptr_eq(other, member));
            if is_alone && !refuses {
                continue;
            }
            // What was written meanwhile may have been read in part.
            let mut again = AlignedBuf::zeroed(part.len());
            if member.device.read_at(at, &mut again).is_ok() && judge.wrong(at, &again, false).is_empty() {
                buf[part].copy_from_slice(&again);
                continue;
            }
            let left = self.find_right(judge, at, member, &mut buf[part.clone()])?;
            refused.extend(left.first().filter(|_| refuses).map(|left| (at + left.start as u64, left.len())));
        }
        let Some(&(at, bytes)) = refused.first() else { return Ok(()) };
        self.report_refused(member, &refused);
        let nowhere = std::io::Error::new(std::io::ErrorKind::InvalidData, "no copy is right");
        Err(Error::io(&self.info.name, format!("verifying {bytes} bytes at {at}"), nowhere))
    }

    /// Logs the places and lengths that are wrong in all members, but those that were just logged.
    fn report_refused(&self, member: &Member, refused: &[(u64, usize)]) {
        let mut known = self.refused.lock();
        let new: Vec<_> = refused.iter().filter(|(at, _)| !known.contains(at)).collect();
        for (at, bytes) in &new {
            let place = member.place(*at);
            log::error!("{}: {bytes} bytes at {place} are wrong", member.device.info().name);
        }
        if !new.is_empty() {
            *known = refused.iter().map(|(at, _)| *at).collect();
        }
    }

    /// Looks in the other members for the right bytes at `at` and puts them into `bytes`, which
    /// `member` has wrong. Returns the parts that no other has right.
    fn find_right(
        &self,
        judge: &dyn Judge,
        at: u64,
        member: &Arc<Member>,
        bytes: &mut [u8],
    ) -> Result<Vec<Range<usize>>> {
        let whole = std::iter::once(0..bytes.len()).collect::<Vec<_>>();
        let (mut left, mut copies) = (whole, Vec::new());
        for other in self.whole().into_iter().filter(|other| !Arc::ptr_eq(other, member)) {
            let mut copy = AlignedBuf::zeroed(bytes.len());
            // One that cannot be read is left to the reads that need it.
            if other.device.read_at(at, &mut copy).is_ok() {
                left = take_right(judge, at, (&copy, false), &left, bytes);
                copies.push(copy);
            }
        }
        for found in outside(bytes.len(), &left) {
            let (place, len) = (at + found.start as u64, found.len());
            let name = &member.device.info().name;
            log::warn!("{name}: {len} bytes at {} are wrong; another copy has them", member.place(place));
            if judge.mends(place) {
                self.mend(judge, place, len)?;
            }
        }
        if !judge.refuses(at) {
            for copy in &copies {
                take_unused(copy, &left, bytes);
            }
        }
        Ok(left)
    }

    /// Writes what is right to the members that have it wrong, unless a piece is compared or copied
    /// at the moment.
    fn mend(&self, judge: &dyn Judge, at: u64, len: usize) -> Result<()> {
        if !self.try_enter_piece(at..at + len as u64) {
            return Ok(());
        }
        let result = self.mend_piece(judge, at, len);
        self.leave_piece();
        result.and_then(|()| self.all_recorded())
    }

    fn mend_piece(&self, judge: &dyn Judge, at: u64, len: usize) -> Result<()> {
        let Best { bytes, copies, wrong } = self.best(Some(judge), at, len)?;
        if !wrong.is_empty() {
            return Ok(());
        }
        for (member, copy) in copies {
            let Ok(copy) = copy else { continue };
            // What is on its way to the members is written by who has it.
            if !judge.wrong(at, &copy, true).is_empty() {
                log::warn!(
                    "{}: {len} bytes at {} are written again",
                    member.device.info().name,
                    member.place(at)
                );
                member.device.write_at(at, &bytes).or_else(|error| self.lose(&member, error))?;
            }
        }
        Ok(())
    }

    /// Reads a piece for a copy of it, while nothing is written to it: what is right in any member,
    /// and as it is what is wrong in all.
    pub(super) fn read_piece(&self, at: u64, len: usize) -> Result<AlignedBuf> {
        let Some(judge) = self.judge.get() else {
            let buf = AlignedBuf::zeroed(len);
            return self
                .submit(Request { op: Op::Read, offset: at, buf })
                .and_then(|ticket| self.wait(ticket));
        };
        Ok(self.best(Some(&**judge), at, len)?.bytes)
    }

    /// Reads a piece from all members, and puts the best together.
    pub(super) fn best(&self, judge: Option<&dyn Judge>, at: u64, len: usize) -> Result<Best> {
        let mut copies = Vec::new();
        for member in self.whole() {
            let mut bytes = AlignedBuf::zeroed(len);
            let read = member.device.read_at(at, &mut bytes).map(|()| bytes);
            copies.push((member, read));
        }
        if copies.iter().all(|(_, copy)| copy.is_err()) {
            let gone =
                || Error::Unusable { device: self.info.name.clone(), reason: "no member is left".into() };
            return Err(copies.pop().and_then(|(_, copy)| copy.err()).unwrap_or_else(gone));
        }
        let readable = || copies.iter().filter_map(|(_, copy)| copy.as_ref().ok());
        let mut bytes = AlignedBuf::from(readable().next().map_or(&[][..], |copy| &copy[..]));
        let mut wrong = Vec::new();
        if let Some(judge) = judge {
            wrong = judge.wrong(at, &bytes, true);
            for copy in readable().skip(1) {
                wrong = take_right(judge, at, (copy, true), &wrong, &mut bytes);
            }
            let is_kept = |part: &Range<usize>| !judge.refuses(at + part.start as u64);
            let kept: Vec<_> = wrong.iter().filter(|part| is_kept(part)).cloned().collect();
            for copy in readable().skip(1) {
                take_unused(copy, &kept, &mut bytes);
            }
        }
        Ok(Best { bytes, copies, wrong })
    }
}
