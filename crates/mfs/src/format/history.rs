//! Which openings a set has gone through, by which a label shows whether its member belongs to an
//! earlier moment of the set, or was used apart from the others.
//!
//! Each opening of a set to write has a number, chosen at random. A label has the number of the
//! opening that wrote it, and some of those before. Members that were left behind have a label of
//! an opening from which the set has gone on: it is known with the last epoch that the set has of
//! it, and with the opening that followed. If two labels have an opening that different ones
//! followed, the set has gone on from it twice: each has changes that the other lacks.
//!
//! A label has no room for all openings. So those at which a member was left behind stay longest;
//! of the others there are the last ones.

use super::label::{Area, Label, Role};
use spindle_ondisk::{Endian, structure};
use std::num::NonZeroU32;

/// The number of an opening of a set to write.
pub type Opening = NonZeroU32;

/// Most former openings in a label.
const FORMER_MAX: usize = 5;
/// Bytes of the history in a label.
pub(super) const HISTORY_BYTES: usize = DiskHistory::SIZE + FORMER_MAX * DiskFormer::SIZE;

structure! {
    /// The history of a set in a label. Former openings follow, the oldest first.
    pub struct DiskHistory: 8 {
        /// The opening that has written the label; 0 if a program did that does not know of them.
        0 opening: u32,
        /// Bit 0: it has left a member behind. Bit 1: a member was left behind at an opening that
        /// is not among the former ones.
        4 flags: u32,
    }
}

/// Bit of `flags`: see [`History::parted`].
const PARTED: u32 = 1;
/// Bit of `flags`: see [`History::forgotten`].
const FORGOTTEN: u32 = 2;

structure! {
    /// A former opening.
    pub struct DiskFormer: 20 {
        /// Its number; 0 if there is none.
        0 opening: u32,
        /// The number of the opening that followed.
        4 next: u32,
        /// The last epoch that the set has of it.
        8 last: u64,
        /// 1 if a member was left behind by it, or with its labels.
        16 parted: u32,
    }
}

/// An opening from which the set has gone on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Former {
    /// Its number.
    pub opening: Opening,
    /// The opening that followed.
    pub next: Opening,
    /// The last epoch that the set has of it.
    pub last: u64,
    /// True if a member was left behind by it, or with its labels.
    pub parted: bool,
}

/// The openings that a set has gone through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The opening that has written the label; none if a program did that does not know of them.
    pub opening: Option<Opening>,
    /// True if it has left a member behind.
    pub parted: bool,
    /// True if a member was left behind at an opening that is not among the former ones.
    pub forgotten: bool,
    /// Former openings, the oldest first.
    pub former: Vec<Former>,
}

impl History {
    /// Returns the history of a new set.
    #[must_use]
    pub const fn begun_by(opening: Opening) -> Self {
        Self { opening: Some(opening), parted: false, forgotten: false, former: Vec::new() }
    }

    /// Reads the history from its place in a label.
    pub(super) fn decode(bytes: &[u8]) -> Self {
        let head = DiskHistory::decode(bytes, Endian::Little);
        let entries = bytes[DiskHistory::SIZE..].chunks_exact(DiskFormer::SIZE).take(FORMER_MAX);
        let former = entries.filter_map(|entry| {
            let DiskFormer { opening, next, last, parted } = DiskFormer::decode(entry, Endian::Little);
            let (opening, next) = (Opening::new(opening)?, Opening::new(next)?);
            Some(Former { opening, next, last, parted: parted != 0 })
        });
        let (opening, former) = (Opening::new(head.opening), former.collect());
        let (parted, forgotten) = (head.flags & PARTED != 0, head.flags & FORGOTTEN != 0);
        Self { opening, parted, forgotten, former }
    }

    /// Writes the history to its place in a label.
    pub(super) fn encode(&self, bytes: &mut [u8]) {
        let opening = self.opening.map_or(0, Opening::get);
        let flag = |is_set, bit| if is_set { bit } else { 0 };
        let flags = flag(self.parted, PARTED) | flag(self.forgotten, FORGOTTEN);
        DiskHistory { opening, flags }.encode(bytes, Endian::Little);
        let entries = bytes[DiskHistory::SIZE..].chunks_exact_mut(DiskFormer::SIZE);
        for (former, entry) in self.former.iter().zip(entries) {
            let Former { opening, next, last, parted } = *former;
            let (opening, next) = (opening.get(), next.get());
            DiskFormer { opening, next, last, parted: parted.into() }.encode(entry, Endian::Little);
        }
    }

    /// Returns the history of the labels that `opening` writes after one with this history and this
    /// `epoch`, and the one that was `settled` then. `parted` says whether a member does not get
    /// them that had the one before, and `failed` whether it may have got some.
    fn gone_on(&self, opening: Opening, (epoch, settled): (u64, u64), parted: bool, failed: bool) -> Self {
        let mut next = self.clone();
        if self.opening == Some(opening) {
            next.parted |= parted;
            return next;
        }
        // A member that is left behind has what was settled, or any label since.
        let since = next.former.iter_mut().filter(|former| former.last >= settled);
        since.for_each(|former| former.parted |= parted);
        if let Some(before) = self.opening {
            if next.former.len() == FORMER_MAX {
                let least = next.former.iter().position(|former| !former.parted);
                next.forgotten |= least.is_none();
                next.former.remove(least.unwrap_or(0));
            }
            let parted = self.parted || parted;
            next.former.push(Former { opening: before, next: opening, last: epoch, parted });
        }
        Self { opening: Some(opening), parted: failed, ..next }
    }
}

/// What a label says that has happened: nothing is acknowledged before its epoch is settled.
struct Settled<'a> {
    opening: Opening,
    epoch: u64,
    former: &'a [Former],
}

impl Settled<'_> {
    /// Returns true if the set has gone on from here to the moment of `label`, as far as that says.
    fn leads_to(&self, label: &Label) -> bool {
        let History { opening, former, .. } = &label.history;
        (*opening == Some(self.opening) && self.epoch <= label.epoch)
            || former.iter().any(|former| former.opening == self.opening && self.epoch <= former.last)
    }

    /// Returns true if the set has gone on from one opening both to here and to the moment of
    /// `label`, to which this does not lead.
    fn has_parted_from(&self, label: &Label) -> bool {
        let other = &label.history;
        let went_on = |former: &Former| {
            other.opening == Some(former.opening)
                || other.former.iter().any(|o| o.opening == former.opening && o.next != former.next)
        };
        self.former.iter().any(went_on) || other.former.iter().any(|former| former.opening == self.opening)
    }

    /// Returns true if the member `id`, whose label leads not to the moment of `label`, has an
    /// epoch after all at which that has left members behind, and is one of these.
    fn is_beyond(&self, id: [u8; 16], label: &Label) -> bool {
        let left = label.history.former.iter().filter(|former| former.parted);
        label.is_useless(id) && left.map(|former| former.last).max().is_some_and(|last| self.epoch > last)
    }
}

impl Label {
    /// Returns the history of the labels that `opening` writes after this one. `parted` says
    /// whether a member does not get them that had this one, and `failed` whether it may have got
    /// some.
    pub(crate) fn gone_on(&self, opening: Opening, parted: bool, failed: bool) -> History {
        self.history.gone_on(opening, (self.epoch, self.settled), parted, failed)
    }

    fn settled(&self) -> Option<Settled<'_>> {
        let History { opening, former, .. } = &self.history;
        let reached = former.iter().position(|former| self.settled <= former.last);
        match reached.filter(|_| self.settled < self.epoch) {
            Some(n) => {
                Some(Settled { opening: former[n].opening, epoch: self.settled, former: &former[..n] })
            }
            None => opening.map(|opening| Settled { opening, epoch: self.settled, former }),
        }
    }

    /// Returns true if the member of this label was used apart from the one of the other label of
    /// the same set: something may have been acknowledged here of which that one knows nothing. A
    /// label of an earlier moment is not of that kind.
    #[must_use]
    pub fn is_apart_from(&self, other: &Self) -> bool {
        let own = self.settled();
        if own.as_ref().is_some_and(|own| own.leads_to(other)) {
            return false;
        }
        let is_known = self.history.opening.is_some() && other.history.opening.is_some();
        let is_settled = self.settled == self.epoch;
        let is_twice = is_settled
            && (other.settled, other.epoch) == (self.settled, self.epoch)
            && (other.opened != self.opened || (is_known && other.history.opening != self.history.opening));
        own.is_some_and(|own| own.has_parted_from(other) || own.is_beyond(self.member_id, other))
            || is_twice
            || (is_settled && self.has_gone_on_without(other, is_known))
    }

    /// Returns true if the tables of areas show that the set has gone on here without the member of
    /// the other label, which matters if the openings in them do not reach back far enough: this
    /// one calls lost what the other has, or any loss if the other has forgotten an opening at
    /// which members were left behind, and calls lost all that this one has. Of labels of programs
    /// that do not know of openings (`is_known` is false), each must call lost what the other has.
    fn has_gone_on_without(&self, other: &Self, is_known: bool) -> bool {
        // Log storage that was lost may be used again.
        let mut lost = self.areas.iter().filter(|area| area.role != Role::Log && area.is_lost());
        let is_whole = |lost: &Area| {
            other.areas.iter().any(|area| {
                (area.role, area.index, area.member_id) == (lost.role, lost.index, lost.member_id)
                    && !area.lost
            })
        };
        match (is_known, other.is_useless(self.member_id)) {
            (true, true) if other.history.forgotten => lost.next().is_some(),
            (false, false) => false,
            _ => lost.any(is_whole),
        }
    }
}
