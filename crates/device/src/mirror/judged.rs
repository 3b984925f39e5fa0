//! Mirrors that know more than their members: a judge says which bytes are wrong. A read then takes
//! them from another member, and a copy is put together from what is right in any.

use super::{Member, Mirror};
use crate::{AlignedBuf, Device, Error, Op, Request, Result};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Knows what the bytes of a mirror should be.
pub trait Judge: Send + Sync {
    /// Returns the range that must be read so that these bytes can be judged.
    fn whole(&self, bytes: Range<u64>) -> Range<u64>;

    /// Returns those parts of `bytes`, which were read at `offset`, that are wrong: in the units of
    /// the judge, in order. If they were read for a copy and not for a user, what may still be on
    /// its way to the members is not judged.
    fn wrong(&self, offset: u64, bytes: &[u8], for_copy: bool) -> Vec<Range<usize>>;

    /// Returns true if a read fails of which no member has the right bytes.
    fn refuses(&self) -> bool;

    /// Returns true if members that have wrong bytes get the right ones at once.
    fn mends(&self) -> bool;
}

/// A piece, what each member has of it or why it cannot be read, and the parts that are wrong
/// everywhere.
type Best = (AlignedBuf, Vec<(Arc<Member>, Result<AlignedBuf>)>, Vec<Range<u64>>);

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
        let mut wrong = Vec::new();
        for part in judge.wrong(offset, buf, false) {
            let at = offset + part.start as u64;
            // What was written meanwhile may have been read in part.
            let mut again = AlignedBuf::zeroed(part.len());
            if member.device.read_at(at, &mut again).is_ok() && judge.wrong(at, &again, false).is_empty() {
                buf[part].copy_from_slice(&again);
                continue;
            }
            log::error!("{}: {} bytes at {at} are wrong", member.device.info().name, part.len());
            if !self.find_right(judge, at, member, &mut buf[part.clone()])? {
                wrong.push(part);
            }
        }
        match wrong.first() {
            Some(part) if judge.refuses() => {
                let at = offset + part.start as u64;
                let nowhere = std::io::Error::new(std::io::ErrorKind::InvalidData, "no copy is right");
                Err(Error::io(&self.info.name, format!("verifying {} bytes at {at}", part.len()), nowhere))
            }
            _ => Ok(()),
        }
    }

    /// Looks in the other members for the right bytes at `at` and puts them into `bytes`, which
    /// `member` has wrong. Returns false if no other has them.
    fn find_right(&self, judge: &dyn Judge, at: u64, member: &Arc<Member>, bytes: &mut [u8]) -> Result<bool> {
        let (mut right, mut bad) = (None, vec![member.clone()]);
        for other in self.whole().into_iter().filter(|other| !Arc::ptr_eq(other, member)) {
            let mut copy = AlignedBuf::zeroed(bytes.len());
            // One that cannot be read is left to the reads that need it.
            if other.device.read_at(at, &mut copy).is_err() {
                continue;
            }
            if judge.wrong(at, &copy, false).is_empty() {
                right.get_or_insert(copy);
            } else {
                bad.push(other);
            }
        }
        let Some(right) = right else { return Ok(false) };
        // What is on its way to the members is written by who has it.
        let mends = judge.mends() && !judge.wrong(at, bytes, true).is_empty();
        bytes.copy_from_slice(&right);
        if mends {
            self.mend(at, &right, bad)?;
        }
        Ok(true)
    }

    /// Writes what is right to members that have it wrong.
    fn mend(&self, at: u64, right: &AlignedBuf, bad: Vec<Arc<Member>>) -> Result<()> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.enter_write(id, at..at + right.len() as u64);
        let mut result = Ok(());
        for member in bad {
            log::warn!("{}: {} bytes at {at} are written again", member.device.info().name, right.len());
            if let Err(error) = member.device.write_at(at, right) {
                result = result.and(self.lose(&member, error));
            }
        }
        self.leave_write(id);
        result.and_then(|()| self.all_recorded())
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
        Ok(self.best(Some(&**judge), at, len)?.0)
    }

    /// Reads a piece from all members, and puts the best together. Returns it, what each member
    /// has, and the parts that are wrong in all.
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
        let mut best = AlignedBuf::from(readable().next().map_or(&[][..], |copy| &copy[..]));
        let mut wrong = Vec::new();
        for part in judge.map_or_else(Vec::new, |judge| judge.wrong(at, &best, true)) {
            let is_right = |copy: &&AlignedBuf| {
                judge.is_none_or(|judge| {
                    judge.wrong(at + part.start as u64, &copy[part.clone()], true).is_empty()
                })
            };
            match readable().skip(1).find(is_right) {
                Some(copy) => best[part.clone()].copy_from_slice(&copy[part]),
                None => wrong.push(at + part.start as u64..at + part.end as u64),
            }
        }
        Ok((best, copies, wrong))
    }
}
