//! Numbers for the blocks of files.
//!
//! Blocks that hold data have dense numbers, so that caches can be arrays. A block gets a number at
//! its first access, and the number is reused after the block is deleted. Memory therefore depends
//! on the blocks that exist, not on all that ever existed.

use foldhash::fast::FixedState;
use spindle_trace::FileId;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

/// Marks a block without a number.
const NONE: u32 = u32::MAX;
/// Number of blocks whose numbers are stored in the file's entry; most files have no more.
const HEAD: usize = 4;
/// Number of blocks from the first on whose numbers are in a vector; later blocks are in chunks of
/// this size.
const CHUNK: usize = 64;

/// Maximum number of blocks at once.
pub(super) const MAX_BLOCKS: u32 = 1 << 30;

/// A map with keys from the trace and a fixed hash function, so that runs are repeatable.
type Map<K, V> = HashMap<K, V, FixedState>;

/// Used and free numbers.
#[derive(Default)]
struct Numbers {
    free: Vec<u32>,
    next: u32,
}

impl Numbers {
    fn take(&mut self) -> Option<u32> {
        self.free.pop().or_else(|| {
            let number = self.next;
            // The LRU stack has two places per block, in 32-bit numbers.
            (number < MAX_BLOCKS).then(|| {
                self.next += 1;
                number
            })
        })
    }
}

/// State of a file.
pub(super) struct File {
    /// Bytes from here on are not on the disk: the size, as far as events report it.
    pub end: u64,
    /// Number of times it is open.
    pub opens: u32,
    /// Its last name is removed: its data is deleted when it is no longer open.
    pub unlinked: bool,
    /// Numbers of the blocks written since the last sync.
    pub unsynced: BTreeSet<u32>,
    head: [u32; HEAD],
    /// Numbers from [`HEAD`] up to [`CHUNK`].
    middle: Vec<u32>,
    rest: Option<Box<Map<u64, [u32; CHUNK]>>>,
}

impl File {
    /// The state of an unknown file: its size is unlimited.
    const UNKNOWN: Self = Self {
        end: u64::MAX,
        opens: 0,
        unlinked: false,
        unsynced: BTreeSet::new(),
        head: [NONE; HEAD],
        middle: Vec::new(),
        rest: None,
    };

    /// Sets the size that an event reports. A size of 0 may mean that it is unknown, and other
    /// events report that a file is emptied, so 0 never shortens a file.
    pub fn set_size(&mut self, size: u64) {
        if size > 0 || self.end == u64::MAX {
            self.end = size;
        }
    }

    /// Returns true if the file is open or has blocks.
    pub fn is_used(&self) -> bool {
        self.opens > 0 || !self.is_empty()
    }

    fn is_empty(&self) -> bool {
        self.head.iter().chain(&self.middle).all(|&number| number == NONE) && self.rest.is_none()
    }

    /// Returns the numbers of a range of blocks that contains `index`, and the first block of the
    /// range; blocks from `end` on are not needed.
    fn slots(&mut self, index: u64, end: u64) -> (&mut [u32], u64) {
        // An index below CHUNK fits.
        match usize::try_from(index) {
            Ok(near) if near < HEAD => (&mut self.head, 0),
            Ok(near) if near < CHUNK => {
                let wanted = usize::try_from(end).unwrap_or(CHUNK).min(CHUNK) - HEAD;
                if wanted > self.middle.len() {
                    self.middle.resize(wanted, NONE);
                }
                (&mut self.middle, HEAD as u64)
            }
            _ => {
                let chunk = index / CHUNK as u64;
                let numbers = self.rest.get_or_insert_default().entry(chunk).or_insert([NONE; CHUNK]);
                (numbers, chunk * CHUNK as u64)
            }
        }
    }
}

/// All files in use.
#[derive(Default)]
pub(super) struct Files {
    by_id: Map<FileId, File>,
    numbers: Numbers,
    /// Maximum number of blocks at once.
    most: u64,
}

impl Files {
    /// Returns a file; adds it as unknown if necessary.
    pub fn file(&mut self, id: FileId) -> &mut File {
        self.by_id.entry(id).or_insert(File::UNKNOWN)
    }

    /// Returns a file if it is known.
    pub fn known(&mut self, id: FileId) -> Option<&mut File> {
        self.by_id.get_mut(&id)
    }

    /// Returns the maximum number of blocks that held data at the same time.
    pub const fn most(&self) -> u64 {
        self.most
    }

    /// Calls `visit` with each block of `blocks` of a file and its number; gives numbers to blocks
    /// that have none. Returns false when there are no more numbers.
    pub fn visit(&mut self, id: FileId, blocks: Range<u64>, mut visit: impl FnMut(u64, u32)) -> bool {
        let Self { by_id, numbers, most } = self;
        let file = by_id.entry(id).or_insert(File::UNKNOWN);
        let mut index = blocks.start;
        while index < blocks.end {
            let (slots, first) = file.slots(index, blocks.end);
            // Below CHUNK.
            let from = usize::try_from(index - first).unwrap_or(CHUNK);
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

    /// Returns the blocks that were written since their last sync, of all files, or those of a
    /// device, if it is not 0; they are synced now.
    pub fn sync_all(&mut self, device: u64) -> BTreeSet<u32> {
        let of_device = |id: &FileId| device == 0 || id.device == device;
        let files = self.by_id.iter_mut().filter(|(id, _)| of_device(id));
        files.flat_map(|(_, file)| std::mem::take(&mut file.unsynced)).collect()
    }

    /// Deletes the blocks of a file from `first` on in order, and calls `gone` with the number of
    /// each.
    pub fn delete(&mut self, id: FileId, first: u64, mut gone: impl FnMut(u32)) {
        let Some(file) = self.by_id.get_mut(&id) else { return };
        let mut drop = |slot: &mut u32| {
            if *slot != NONE {
                gone(*slot);
                file.unsynced.remove(slot);
                self.numbers.free.push(*slot);
                *slot = NONE;
            }
        };
        let near = file.head.iter_mut().chain(&mut file.middle).zip(0..);
        near.filter(|&(_, index)| index >= first).for_each(|(slot, _)| drop(slot));
        file.middle.truncate(usize::try_from(first).unwrap_or(CHUNK).saturating_sub(HEAD));
        let Some(rest) = &mut file.rest else { return };
        let mut chunk: Vec<u64> =
            rest.keys().copied().filter(|chunk| chunk * CHUNK as u64 + (CHUNK as u64 - 1) >= first).collect();
        chunk.sort_unstable();
        for chunk in chunk {
            let slots = rest.get_mut(&chunk).into_iter().flatten();
            let indexed = slots.zip(chunk * CHUNK as u64..);
            indexed.filter(|&(_, index)| index >= first).for_each(|(slot, _)| drop(slot));
            if chunk * CHUNK as u64 >= first {
                rest.remove(&chunk);
            }
        }
        if rest.is_empty() {
            file.rest = None;
        }
    }

    /// Drops a file that is not open and has no blocks; its next event reports its size again.
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

    /// Promise: a block keeps its number while it exists, at the beginning of a file and far into
    /// it; the number of a deleted block is reused.
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

    /// Promise: a closed file without blocks takes no memory; an open one is kept.
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
