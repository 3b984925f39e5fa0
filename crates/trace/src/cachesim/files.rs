//! Which number stands for a block of a file.
//!
//! Blocks that hold data have dense numbers, so that caches are arrays: a number is given at the first access, and given again after
//! the block was deleted. Memory is therefore that of the blocks that are there, not of those there ever were.

use crate::FileId;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A block that has no number yet.
const NONE: u32 = u32::MAX;
/// Blocks of a file that have their numbers beside it: most files have no more.
const HEAD: usize = 4;
/// Blocks of the rest of a file that have their numbers together.
const GROUP: usize = 16;

/// Most blocks at once.
const MOST: u32 = 1 << 30;

/// A map whose keys are numbers of the trace's: spread by a multiplication, the same in every run.
pub(super) type Map<K, V> = HashMap<K, V, BuildHasherDefault<Fold>>;

/// Spreads numbers: each is mixed in by a multiplication of 128 bits, folded.
#[derive(Clone, Copy, Default)]
pub(super) struct Fold(u64);

impl Hasher for Fold {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
        // Both halves of the product, on purpose.
        #[expect(clippy::cast_possible_truncation)]
        let folded = (product >> 64) as u64 ^ product as u64;
        self.0 = folded;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

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
    rest: Option<Box<Map<u64, [u32; GROUP]>>>,
}

impl File {
    /// A file of which nothing is known: as long as can be.
    const UNKNOWN: Self = Self { end: u64::MAX, opens: 0, nameless: false, head: [NONE; HEAD], rest: None };

    /// An event tells the size. 0 may mean that it is unknown, and what makes a file empty has events of its own, so 0 shortens nothing.
    pub fn has_size(&mut self, size: u64) {
        if size > 0 || self.end == u64::MAX {
            self.end = size;
        }
    }

    fn is_empty(&self) -> bool {
        self.head.iter().all(|&number| number == NONE) && self.rest.is_none()
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
    /// The file of this name, perhaps as one of which nothing is known.
    pub fn file(&mut self, id: FileId) -> &mut File {
        self.by_id.entry(id).or_insert(File::UNKNOWN)
    }

    /// True if anything is known of this file.
    pub fn knows(&self, id: FileId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Most blocks that held data at the same time.
    pub const fn most(&self) -> u64 {
        self.most
    }

    /// Calls `visit` with the number of each block of `blocks` of a file, giving numbers to those that have none; false when there are
    /// no more numbers.
    pub fn visit(
        &mut self,
        id: FileId,
        blocks: std::ops::Range<u64>,
        mut visit: impl FnMut(u64, u32),
    ) -> bool {
        let Self { by_id, numbers, most } = self;
        let file = by_id.entry(id).or_insert(File::UNKNOWN);
        let mut index = blocks.start;
        while index < blocks.end {
            let (slots, first) = match usize::try_from(index) {
                Ok(head) if head < HEAD => (&mut file.head[..], 0),
                _ => {
                    let group = index / GROUP as u64;
                    let rest = file.rest.get_or_insert_default();
                    (&mut rest.entry(group).or_insert([NONE; GROUP])[..], group * GROUP as u64)
                }
            };
            let stop = blocks.end.min(first.saturating_add(slots.len() as u64));
            while index < stop {
                // Below GROUP.
                #[expect(clippy::cast_possible_truncation)]
                let slot = &mut slots[(index - first) as usize];
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

    /// Deletes the blocks of a file from `first` on, in their order, and calls `gone` with the number of each.
    pub fn delete(&mut self, id: FileId, first: u64, mut gone: impl FnMut(u32)) {
        let Some(file) = self.by_id.get_mut(&id) else { return };
        let mut drop = |slot: &mut u32| {
            if *slot != NONE {
                gone(*slot);
                self.numbers.free.push(*slot);
                *slot = NONE;
            }
        };
        file.head.iter_mut().zip(0..).filter(|&(_, index)| index >= first).for_each(|(slot, _)| drop(slot));
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

    /// Forgets a file that nobody has open and of which no block is there; its next event tells its size anew.
    pub fn forget_if_empty(&mut self, id: FileId) {
        if self.by_id.get(&id).is_some_and(|file| file.opens == 0 && file.is_empty()) {
            self.by_id.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visited(files: &mut Files, inode: u64, blocks: std::ops::Range<u64>) -> Vec<u32> {
        let mut numbers = Vec::new();
        assert!(files.visit(FileId { device: 1, inode }, blocks, |_, number| numbers.push(number)));
        numbers
    }

    fn deleted(files: &mut Files, inode: u64, first: u64) -> Vec<u32> {
        let mut numbers = Vec::new();
        files.delete(FileId { device: 1, inode }, first, |number| numbers.push(number));
        numbers
    }

    /// Promise: a block keeps its number while it is there, in the head of a file and far behind it; a deleted one's is given again.
    #[test]
    fn numbers_are_dense_and_kept() {
        let mut files = Files::default();
        assert_eq!(visited(&mut files, 1, 0..20), (0..20).collect::<Vec<_>>());
        assert_eq!(visited(&mut files, 2, 1 << 40..(1 << 40) + 2), [20, 21]);
        assert_eq!(visited(&mut files, 1, 2..18), (2..18).collect::<Vec<_>>());
        assert_eq!(deleted(&mut files, 1, 17), [17, 18, 19]);
        assert_eq!(deleted(&mut files, 1, 17), []);
        assert_eq!(visited(&mut files, 1, 16..18), [16, 19]);
        assert_eq!(deleted(&mut files, 1, 0).len(), 18);
        assert_eq!(files.most(), 22);
    }

    /// Promise: a file without blocks that nobody has open takes no memory, an open one is kept.
    #[test]
    fn empty_files_are_forgotten() {
        let mut files = Files::default();
        let id = FileId { device: 1, inode: 7 };
        visited(&mut files, 7, 0..1);
        files.forget_if_empty(id);
        assert!(files.knows(id));
        files.file(id).opens = 1;
        deleted(&mut files, 7, 0);
        files.forget_if_empty(id);
        assert!(files.knows(id));
        files.file(id).opens = 0;
        files.forget_if_empty(id);
        assert!(!files.knows(id));
    }
}
