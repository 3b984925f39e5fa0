//! Which number stands for a block of a file.
//!
//! Blocks that hold data have dense numbers, so that caches are arrays: a number is given at the
//! first access, and given again after the block was deleted. Memory is therefore that of the
//! blocks that are there, not of those there ever were.

use crate::FileId;
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::ops::Range;

/// A block that has no number yet.
const NONE: u32 = u32::MAX;
/// Blocks of a file that have their numbers beside it: most files have no more.
const HEAD: usize = 4;
/// Blocks, from the first on, that have theirs in a row if there are more; and those behind, in
/// groups of as many.
const GROUP: usize = 64;

/// Most blocks at once.
const MOST: u32 = 1 << 30;

/// A map whose keys are numbers of the trace's; the same in every run.
type Map<K, V> = HashMap<K, V, FixedState>;

/// Numbers, in use and free.
#[derive(Default)]
struct Numbers {
    free: Vec<u32>,
    next: u32,
}

impl Numbers {
    fn take(&mut self) -> Option<u32> {
        self.free.pop().or_else(|| {
            let number = self.next;
            // The stack has twice as many places as blocks, and numbers them so, too.
            (number < MOST).then(|| {
                self.next += 1;
                number
            })
        })
    }
}

/// What is known of a file.
pub(super) struct File {
    /// Bytes from here on are not on the disk: the size, as far as events have told it.
    pub end: u64,
    /// Times it is open.
    pub opens: u32,
    /// Its last name is gone: its data goes when nobody has it open any more.
    pub nameless: bool,
    head: [u32; HEAD],
    /// Behind the head, up to [`GROUP`].
    middle: Vec<u32>,
    rest: Option<Box<Map<u64, [u32; GROUP]>>>,
}

impl File {
    /// A file of which nothing is known: as long as can be.
    const UNKNOWN: Self =
        Self { end: u64::MAX, opens: 0, nameless: false, head: [NONE; HEAD], middle: Vec::new(), rest: None };

    /// An event tells the size. 0 may mean that it is unknown, and what makes a file empty has
    /// events of its own, so 0 shortens nothing.
    pub fn has_size(&mut self, size: u64) {
        if size > 0 || self.end == u64::MAX {
            self.end = size;
        }
    }

    /// Returns true if somebody has it open or it has blocks.
    pub fn is_used(&self) -> bool {
        self.opens > 0 || !self.is_empty()
    }

    fn is_empty(&self) -> bool {
        self.head.iter().chain(&self.middle).all(|&number| number == NONE) && self.rest.is_none()
    }

    /// Returns the numbers of the blocks from some block up to `index` on, and which that is; `end`
    /// is how far they are wanted.
    fn slots(&mut self, index: u64, end: u64) -> (&mut [u32], u64) {
        // What is below GROUP fits.
        match usize::try_from(index) {
            Ok(near) if near < HEAD => (&mut self.head, 0),
            Ok(near) if near < GROUP => {
                let wanted = usize::try_from(end).unwrap_or(GROUP).min(GROUP) - HEAD;
                if wanted > self.middle.len() {
                    self.middle.resize(wanted, NONE);
                }
                (&mut self.middle, HEAD as u64)
            }
            _ => {
                let group = index / GROUP as u64;
                let numbers = self.rest.get_or_insert_default().entry(group).or_insert([NONE; GROUP]);
                (numbers, group * GROUP as u64)
            }
        }
    }
}

/// All files that matter now.
#[derive(Default)]
pub(super) struct Files {
    by_id: Map<FileId, File>,
    numbers: Numbers,
    /// Most blocks there were at once.
    most: u64,
}

impl Files {
    /// Returns the file of this name, perhaps as one of which nothing is known.
    pub fn file(&mut self, id: FileId) -> &mut File {
        self.by_id.entry(id).or_insert(File::UNKNOWN)
    }

    /// Returns the file of this name, if anything is known of it.
    pub fn known(&mut self, id: FileId) -> Option<&mut File> {
        self.by_id.get_mut(&id)
    }

    /// Most blocks that held data at the same time.
    pub const fn most(&self) -> u64 {
        self.most
    }

    /// Calls `visit` with each block of `blocks` of a file and its number, giving numbers to blocks
    /// that have none; false when there are no more numbers.
    pub fn visit(&mut self, id: FileId, blocks: Range<u64>, mut visit: impl FnMut(u64, u32)) -> bool {
        let Self { by_id, numbers, most } = self;
        let file = by_id.entry(id).or_insert(File::UNKNOWN);
        let mut index = blocks.start;
        while index < blocks.end {
            let (slots, first) = file.slots(index, blocks.end);
            // Below GROUP.
            let from = usize::try_from(index - first).unwrap_or(GROUP);
            for slot in slots.iter_mut().skip(from) {
                if index == blocks.end {
                    break;
                }
                if *slot == NONE {
                    let Some(number) = numbers.take() else { return false };
                    *slot = number;
                    *most = (*most).max(u64::from(numbers.next) - numbers.free.len() as u64);
                }
                visit(index, *slot);
                index += 1;
            }
        }
        true
    }

    /// Deletes the blocks of a file from `first` on, in their order, and calls `gone` with the
    /// number of each.
    pub fn delete(&mut self, id: FileId, first: u64, mut gone: impl FnMut(u32)) {
        let Some(file) = self.by_id.get_mut(&id) else { return };
        let mut drop = |slot: &mut u32| {
            if *slot != NONE {
                gone(*slot);
                self.numbers.free.push(*slot);
                *slot = NONE;
            }
        };
        let near = file.head.iter_mut().chain(&mut file.middle).zip(0..);
        near.filter(|&(_, index)| index >= first).for_each(|(slot, _)| drop(slot));
        file.middle.truncate(usize::try_from(first).unwrap_or(GROUP).saturating_sub(HEAD));
        let Some(rest) = &mut file.rest else { return };
        let mut groups: Vec<u64> =
            rest.keys().copied().filter(|group| group * GROUP as u64 + (GROUP as u64 - 1) >= first).collect();
        groups.sort_unstable();
        for group in groups {
            let slots = rest.get_mut(&group).into_iter().flatten();
            let indexed = slots.zip(group * GROUP as u64..);
            indexed.filter(|&(_, index)| index >= first).for_each(|(slot, _)| drop(slot));
            if group * GROUP as u64 >= first {
                rest.remove(&group);
            }
        }
        if rest.is_empty() {
            file.rest = None;
        }
    }

    /// Forgets a file that nobody has open and of which no block is there; its next event tells its
    /// size anew.
    pub fn forget_if_empty(&mut self, id: FileId) {
        if self.by_id.get(&id).is_some_and(|file| !file.is_used()) {
            self.by_id.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visited(files: &mut Files, inode: u64, blocks: Range<u64>) -> Vec<u32> {
        let mut numbers = Vec::new();
        assert!(files.visit(FileId { device: 1, inode }, blocks, |_, number| numbers.push(number)));
        numbers
    }

    fn deleted(files: &mut Files, inode: u64, first: u64) -> Vec<u32> {
        let mut numbers = Vec::new();
        files.delete(FileId { device: 1, inode }, first, |number| numbers.push(number));
        numbers
    }

    /// Promise: a block keeps its number while it is there, in the head of a file and far behind
    /// it; a deleted one's is given again.
    #[test]
    fn numbers_are_dense_and_kept() {
        let mut files = Files::default();
        assert_eq!(visited(&mut files, 1, 0..70), (0..70).collect::<Vec<_>>());
        assert_eq!(visited(&mut files, 2, 1 << 40..(1 << 40) + 2), [70, 71]);
        assert_eq!(visited(&mut files, 1, 2..68), (2..68).collect::<Vec<_>>());
        assert_eq!(deleted(&mut files, 1, 67), [67, 68, 69]);
        assert_eq!(deleted(&mut files, 1, 67), []);
        assert_eq!(visited(&mut files, 1, 66..68), [66, 69]);
        assert_eq!(deleted(&mut files, 1, 10).len(), 58);
        assert_eq!(visited(&mut files, 1, 9..11)[0], 9);
        assert_eq!(deleted(&mut files, 1, 0).len(), 11);
        assert_eq!(files.most(), 72);
    }

    /// Promise: a file without blocks that nobody has open takes no memory, an open one is kept.
    #[test]
    fn empty_files_are_forgotten() {
        let mut files = Files::default();
        let id = FileId { device: 1, inode: 7 };
        visited(&mut files, 7, 0..1);
        files.forget_if_empty(id);
        assert!(files.known(id).is_some());
        files.file(id).opens = 1;
        deleted(&mut files, 7, 0);
        files.forget_if_empty(id);
        assert!(files.known(id).is_some());
        files.file(id).opens = 0;
        files.forget_if_empty(id);
        assert!(files.known(id).is_none());
    }
}
