//! Lists of block numbers that record which list each number is in, with a small note for each.
//!
//! Invariant: a number is in at most one list, and its mark says which. Lists are numbered from 1,
//! so that [`NONE`] is the mark of a number that was never seen.

use super::marks::Marks;
use spindle_cache::policy::Lists;

/// Stands for no list.
pub(super) const NONE: u8 = 0;
/// First bit of the note in a mark.
const NOTE: u32 = 4;

/// The lists 1 to `N - 1`.
#[derive(Clone, Debug)]
pub(super) struct Placed<const N: usize> {
    marks: Marks,
    lists: Lists<N>,
}

impl<const N: usize> Placed<N> {
    /// Returns empty lists.
    pub(super) fn new() -> Self {
        const { assert!(N <= 1 << NOTE) };
        Self { marks: Marks::default(), lists: Lists::new() }
    }

    /// Returns the list that `key` is in.
    #[inline]
    pub(super) fn list(&self, key: u32) -> u8 {
        self.marks.get(key) & ((1 << NOTE) - 1)
    }

    /// Returns the note of `key`, which is 0 when it is put into a list.
    #[inline]
    pub(super) fn note(&self, key: u32) -> u8 {
        self.marks.get(key) >> NOTE
    }

    /// Sets the note of `key`, which is in a list, to a number up to 15.
    #[inline]
    pub(super) fn set_note(&mut self, key: u32, note: u8) {
        self.marks.set(key, self.list(key) | note << NOTE);
    }

    /// Returns how many numbers are in a list.
    #[inline]
    pub(super) fn len(&self, list: u8) -> usize {
        self.lists.len(list.into())
    }

    /// Puts `key` at the front of a list, taking it out of another.
    #[inline]
    pub(super) fn put(&mut self, list: u8, key: u32) {
        match self.list(key) {
            NONE => self.lists.reach(key),
            from => self.lists.unlink(from.into(), key),
        }
        self.lists.push_front(list.into(), key);
        self.marks.set(key, list);
    }

    /// Moves `key` to the front of the list that it is in, with its note.
    #[inline]
    pub(super) fn bring_forward(&mut self, key: u32) {
        self.lists.bring_forward(self.list(key).into(), key);
    }

    /// Takes `key` out of its list, and returns that list.
    #[inline]
    pub(super) fn remove(&mut self, key: u32) -> u8 {
        let list = self.list(key);
        if list != NONE {
            self.lists.unlink(list.into(), key);
            self.marks.set(key, NONE);
        }
        list
    }

    /// Returns the number at the back of a list.
    #[inline]
    pub(super) fn back(&self, list: u8) -> Option<u32> {
        self.lists.back(list.into())
    }

    /// Returns the number before `key`, towards the front of its list.
    #[inline]
    pub(super) fn before(&self, key: u32) -> Option<u32> {
        self.lists.before(key)
    }

    /// Takes out the number at the back of a list.
    #[inline]
    pub(super) fn take_back(&mut self, list: u8) -> Option<u32> {
        let key = self.lists.pop_back(list.into())?;
        self.marks.set(key, NONE);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a number is in the list that it was put into last, its note goes with a move to
    /// another list and stays within one.
    #[test]
    fn numbers_are_where_they_were_put() {
        let mut placed = Placed::<3>::new();
        (0..4).for_each(|key| placed.put(1, key));
        placed.set_note(1, 15);
        placed.bring_forward(1);
        assert_eq!((placed.list(1), placed.note(1), placed.before(3)), (1, 15, Some(1)));
        placed.put(2, 1);
        assert_eq!((placed.list(1), placed.note(1), placed.len(1), placed.len(2)), (2, 0, 3, 1));
        assert_eq!((placed.remove(2), placed.remove(2), placed.remove(99)), (1, NONE, NONE));
        assert_eq!([placed.take_back(1), placed.take_back(1), placed.take_back(1)], [Some(0), Some(3), None]);
        assert_eq!((placed.list(0), placed.back(2)), (NONE, Some(1)));
    }
}
