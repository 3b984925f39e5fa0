//! Members that are filled, replaced, removed and compared while the mirror is in use, piece by
//! piece.

use super::judged::{Best, SECTOR};
use super::{Condition, Member, Mirror};
use crate::{AlignedBuf, Device, Error, Result};
use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

/// Bytes that are copied or compared at a time.
pub(super) const PIECE: usize = 1 << 20;

impl Mirror {
    /// Calls `work` for each piece of the mirror from byte `at` on, while no write overlaps it, and
    /// `done` with the byte after it, when writes can go on.
    fn each_piece(
        &self,
        mut at: u64,
        mut work: impl FnMut(u64, usize) -> Result<()>,
        mut done: impl FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        while at < self.info.size_bytes {
            let len = usize::try_from(self.info.size_bytes - at).unwrap_or(PIECE).min(PIECE);
            self.enter_piece(at..at + len as u64);
            let result = work(at, len);
            self.leave_piece();
            result?;
            at += len as u64;
            done(at)?;
        }
        Ok(())
    }

    /// Fills `device` from the members, compares all of it with them, and makes it a member: the
    /// last one. A member whose number is `replaced` is left out from then on. The first `done`
    /// bytes, whole pieces, are there already: a former rebuilding ended after them, and nothing
    /// was written since without this member. The mirror can be used meanwhile.
    ///
    /// If `progress` returns an error, the work is interrupted: the member goes on to get writes,
    /// and the next call with the same device goes on with it, unless [`Self::give_up`] was called.
    ///
    /// `progress` is called with the bytes that are done, of twice the size. `restored` is called
    /// when the member has everything; it must record durably that it has.
    ///
    /// # Errors
    /// Those of the devices and of the two functions, and [`Error::Unusable`] if the device is too
    /// small, another one is being rebuilt, or it does not return what was written. Nothing has
    /// changed then.
    pub fn rebuild(
        &self,
        device: &Arc<dyn Device>,
        replaced: Option<usize>,
        done: u64,
        progress: &mut dyn FnMut(u64) -> Result<()>,
        restored: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let info = device.info();
        let unusable =
            |reason: &str| Error::Unusable { device: info.name.clone(), reason: reason.to_owned() };
        if info.size_bytes < self.info.size_bytes || info.sector_bytes > self.info.sector_bytes {
            return Err(unusable("too small, or its sectors are too large, for this mirror"));
        }
        let Some(mut filled) = self.filled.try_lock() else {
            return Err(unusable("another member is being rebuilt"));
        };
        let begun = self.rebuilt.read().clone();
        let is_same = |member: &Arc<Member>| {
            member.condition() == Condition::Rebuilding && Arc::ptr_eq(&member.device, device)
        };
        let member = begun.filter(is_same).unwrap_or_else(|| {
            *filled = done;
            Member::new(device.clone(), Condition::Rebuilding)
        });
        *self.rebuilt.write() = Some(member.clone());
        self.fill(&member, &mut filled, progress)?;
        // A later failure of the member is a loss, and waits for this lock.
        let mut losses = self.losses.lock();
        self.record(&mut losses)?;
        if member.condition() != Condition::Rebuilding {
            return Err(unusable("a write to it has failed"));
        }
        restored()?;
        member.set(Condition::Whole);
        {
            let mut members = self.members.write();
            if let Some(n) = replaced {
                members.remove(n);
            }
            members.push(member);
        }
        *self.rebuilt.write() = None;
        Ok(())
    }

    /// Copies everything to a member that is being rebuilt, and compares it.
    fn fill(
        &self,
        member: &Member,
        filled: &mut u64,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let device = &member.device;
        // After a failure it is not gone on with.
        let failed = |error| {
            member.set(Condition::Lost);
            error
        };
        let copy = |at, len| device.write_at(at, &self.read_piece(at, len)?).map_err(failed);
        self.each_piece(*filled, copy, |end| {
            *filled = end;
            progress(end)
        })?;
        device.flush().map_err(failed)?;
        let mut bytes = AlignedBuf::zeroed(PIECE);
        let compare = |at, len| {
            device.read_at(at, &mut bytes[..len]).map_err(failed)?;
            if self.read_piece(at, len)?[..] != bytes[..len] {
                let differs = std::io::Error::other("it does not return what was written");
                let doing = format!("comparing {len} bytes at {at}");
                return Err(failed(Error::io(&device.info().name, doing, differs)));
            }
            Ok(())
        };
        self.each_piece(0, compare, |end| progress(self.info.size_bytes + end))?;
        device.flush().map_err(failed)
    }

    /// Forgets a rebuilding that was interrupted.
    pub fn give_up(&self) {
        if self.filled.try_lock().is_some() {
            *self.rebuilt.write() = None;
        }
    }

    /// Leaves out member `n` from now on. `recorded` is called before; it must record durably that
    /// the member is not needed.
    ///
    /// # Errors
    /// Those of `recorded`, and [`Error::Unusable`] if no other member is whole.
    pub fn remove(&self, n: usize, recorded: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut losses = self.losses.lock();
        self.record(&mut losses)?;
        let mut members = self.members.write();
        let others = members.iter().enumerate().filter(|(other, _)| *other != n);
        if n >= members.len() || others.into_iter().all(|(_, other)| other.condition() != Condition::Whole) {
            let reason = "no other copy is whole".to_owned();
            return Err(Error::Unusable { device: self.info.name.clone(), reason });
        }
        recorded()?;
        members.remove(n);
        Ok(())
    }

    /// Reads all members that are whole, compares them, and makes them equal: what the judge says
    /// is right counts, and of the rest, if `undecided`, what the first member has that can be
    /// read. Otherwise the rest is only counted. What the judge refuses in all members stays as
    /// each has it. If `unclean`, there was an end in the midst of work since the members were
    /// equal, and what it explains is counted apart. What is in no use is made equal without a
    /// word. Calls `progress` with the bytes that are done. The mirror can be used meanwhile.
    ///
    /// # Errors
    /// Those of the devices, if no member can be read or one can no longer be written.
    pub fn scrub(
        &self,
        undecided: bool,
        unclean: bool,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Scrubbed> {
        let mut done = Scrubbed::default();
        let how = (undecided, unclean);
        self.each_piece(0, |at, len| self.scrub_piece(at, len, how, &mut done), progress)?;
        self.flush()?;
        Ok(done)
    }

    fn scrub_piece(
        &self,
        at: u64,
        len: usize,
        (undecided, unclean): (bool, bool),
        done: &mut Scrubbed,
    ) -> Result<()> {
        let judge = self.judge.get().map(|judge| &**judge);
        let Best { bytes: good, copies, wrong } = self.best(judge, at, len)?;
        done.bytes += (len * copies.len()) as u64;
        let is_refused =
            |part: &Range<usize>| judge.is_some_and(|judge| judge.refuses(at + part.start as u64));
        let refused: Vec<_> = wrong.iter().filter(|part| is_refused(part)).cloned().collect();
        let unused = OnceCell::new();
        let is_unused = |place| {
            let find = || judge.map_or_else(Vec::new, |judge| judge.unused(at..at + len as u64));
            unused.get_or_init(find).iter().any(|part: &Range<u64>| part.contains(&place))
        };
        for (member, copy) in &copies {
            let mut good = good.clone();
            let is_fault = if let Ok(bytes) = copy {
                // What is right in no member may be right in parts of each.
                for part in refused.clone() {
                    good[part.clone()].copy_from_slice(&bytes[part]);
                }
                let own = judge.map_or_else(Vec::new, |judge| judge.wrong(at, bytes, true));
                let found = differences(bytes, &good, &own, &wrong, |n, decided| {
                    let place = at + n as u64;
                    match judge {
                        _ if is_unused(place) => Cause::Unused,
                        _ if !unclean => Cause::Fault,
                        Some(judge) if !judge.may_differ(place, decided) => Cause::Fault,
                        _ => Cause::UncleanEnd,
                    }
                });
                if found.is_none() || !found.log_and_count(member, at, undecided, done) {
                    continue;
                }
                !found.faults.is_empty()
            } else {
                done.unreadable += 1;
                true
            };
            if is_fault {
                let name = &member.device.info().name;
                log::warn!("{name}: {len} bytes at {} are written again", member.place(at));
            }
            if let Err(error) = member.device.write_at(at, &good) {
                self.lose(member, error)?;
            }
        }
        done.wrong.extend(refused.iter().map(|part| at + part.start as u64..at + part.end as u64));
        Ok(())
    }
}

/// Why copies differ in a sector.
enum Cause {
    /// Nobody uses it.
    Unused,
    /// The last end was in the midst of work.
    UncleanEnd,
    /// A device has returned or kept wrong bytes.
    Fault,
}

/// Sectors in which a copy of a piece differs from what is right, by their places in it.
#[derive(Default)]
struct Differences {
    /// Number of those that nobody uses.
    unused: usize,
    /// Those that an unclean end does not explain.
    faults: Vec<usize>,
    /// Of these, the number of those of which nothing says which member has them right.
    undecided: usize,
    /// Those that an unclean end explains.
    explained: Vec<usize>,
    /// True if of any of them nothing says which member has it right.
    is_open: bool,
}

/// Compares `bytes` with what is right: `own` is what the judge says is wrong in them, and `wrong`
/// what it says is wrong in all members. `cause` says of a sector why it differs, with true if it
/// is decided which member has it right.
fn differences(
    bytes: &[u8],
    good: &[u8],
    own: &[Range<usize>],
    wrong: &[Range<usize>],
    cause: impl Fn(usize, bool) -> Cause,
) -> Differences {
    let is_in = |parts: &[Range<usize>], n: usize| parts.iter().any(|part| part.contains(&n));
    let mut found = Differences::default();
    let sectors = bytes.chunks(SECTOR).zip(good.chunks(SECTOR)).enumerate();
    for (n, _) in sectors.filter(|(_, (bytes, good))| bytes != good) {
        let n = n * SECTOR;
        let is_decided = is_in(own, n) && !is_in(wrong, n);
        found.is_open |= !is_decided;
        match cause(n, is_decided) {
            Cause::Unused => found.unused += 1,
            Cause::UncleanEnd => found.explained.push(n),
            Cause::Fault => {
                found.undecided += usize::from(!is_decided);
                found.faults.push(n);
            }
        }
    }
    found
}

impl Differences {
    fn is_none(&self) -> bool {
        self.unused == 0 && self.faults.is_empty() && self.explained.is_empty()
    }

    /// Logs and counts what was found in the copy that `member` has of the piece at `at`. Returns
    /// true if it is to be written: what is open only if `undecided`.
    fn log_and_count(&self, member: &Member, at: u64, undecided: bool, done: &mut Scrubbed) -> bool {
        let name = &member.device.info().name;
        let bytes = |sectors: &[usize]| (sectors.len() * SECTOR) as u64;
        let is_written = undecided || !self.is_open;
        if let Some(&first) = self.faults.first() {
            log::warn!(
                "{name}: {} sectors from byte {} on differ; of {} nothing says which copy is right",
                self.faults.len(),
                member.place(at + first as u64),
                self.undecided
            );
            done.undecided += (self.undecided * SECTOR) as u64;
            done.differed += u64::from(is_written);
        }
        if let Some(&first) = self.explained.first() {
            log::info!(
                "{name}: {} sectors from byte {} on differ after an unclean end",
                self.explained.len(),
                member.place(at + first as u64)
            );
        }
        if is_written {
            done.unclean += bytes(&self.explained);
        } else {
            done.kept += bytes(&self.faults) + bytes(&self.explained) + (self.unused * SECTOR) as u64;
        }
        is_written
    }
}

/// What a scrub has found and mended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes read, of all members.
    pub bytes: u64,
    /// Pieces of a megabyte of a member that differed from what is right, or from the first member
    /// if nothing says what is right, and were written. What an unclean end explains, and what is
    /// in no use, is not among them.
    pub differed: u64,
    /// Pieces of a member that could not be read, and were written.
    pub unreadable: u64,
    /// Bytes of whole sectors that differed and of which nothing says which member has them right,
    /// without those that an unclean end explains.
    pub undecided: u64,
    /// Bytes of whole sectors that differed as an unclean end explains, and were written.
    pub unclean: u64,
    /// Bytes of whole sectors that differ and were left so.
    pub kept: u64,
    /// What the judge says is wrong in all members that can be read, and refuses.
    pub wrong: Vec<Range<u64>>,
}
