//! Exact LRU stack distances (Mattson et al., "Evaluation techniques for storage hierarchies", IBM
//! Systems Journal, 1970).
//!
//! An LRU cache of s blocks holds the top s of a stack that each use reorders, so the depth of a
//! block when it is used says which sizes hit. The stack is represented by a timeline: each use
//! gets the next *place* on it, a bit marks the places of the latest uses of blocks, and the depth
//! of a block is the number of bits from its place on. Bits are counted 512 at a time, and the
//! counts are summed in a Fenwick tree, which is small enough for the fastest CPU caches. When the
//! timeline is full, the places are renumbered without gaps; memory depends on the number of
//! blocks, not of requests.
//!
//! *Deleted data* leaves a hole in every cache that held it, and each of them fills its hole with
//! the next block that misses. So its bit stays, without a block. The next use of a deeper or new
//! block fills the topmost hole, because the blocks above move down to it. The old place of a
//! deeper block becomes a hole, since the caches of that size already have a hole there.

use std::collections::BinaryHeap;

/// Place of a block that is not in the stack.
const ABSENT: u32 = u32::MAX;
const WORDS: usize = 8;
const BITS: usize = WORDS * 64;
/// Minimum length of the timeline.
const MIN_PLACES: usize = 128 * BITS;

/// An LRU stack of numbered blocks.
#[derive(Clone, Debug)]
pub struct Stack {
    /// Places of the latest uses, by block.
    places: Vec<u32>,
    /// Places of holes, topmost first.
    holes: BinaryHeap<u32>,
    timeline: Timeline,
}

impl Default for Stack {
    fn default() -> Self {
        Self { places: Vec::new(), holes: BinaryHeap::new(), timeline: Timeline::new(MIN_PLACES) }
    }
}

impl Stack {
    /// Uses block `key`. Returns its depth: LRU caches of at least this many blocks hold it.
    /// Returns `None` if it is not in the stack.
    ///
    /// # Panics
    /// Panics with 2^30 blocks.
    #[inline]
    pub fn access(&mut self, key: u32) -> Option<u32> {
        if key as usize >= self.places.len() {
            self.places.resize(key as usize + 1, ABSENT);
        }
        if self.timeline.is_full() {
            self.renumber_places();
        }
        let new = self.timeline.next();
        let old = std::mem::replace(&mut self.places[key as usize], new);
        let depth = (old != ABSENT).then(|| self.timeline.depth(old));
        let hole = self.holes.peek().copied().filter(|&hole| old == ABSENT || hole > old);
        if let Some(hole) = hole {
            self.holes.pop();
            self.timeline.clear(hole);
            if old != ABSENT {
                self.holes.push(old);
            }
        } else if old != ABSENT {
            self.timeline.clear(old);
        }
        self.timeline.push();
        depth
    }

    /// Returns the depth of block `key` without using it: LRU caches of at least this many blocks
    /// hold it. Returns `None` if it is not in the stack.
    #[must_use]
    pub fn depth(&self, key: u32) -> Option<u32> {
        let place = self.places.get(key as usize).copied().filter(|&place| place != ABSENT);
        place.map(|place| self.timeline.depth(place))
    }

    /// Removes block `key`, whose data was deleted, leaving a hole. Returns false if it was not in
    /// the stack.
    pub fn remove(&mut self, key: u32) -> bool {
        let place = self.take(key);
        self.holes.extend(place);
        place.is_some()
    }

    /// Removes block `key` without a hole, as if it had never been used. Returns false if it was
    /// not in the stack.
    pub fn forget(&mut self, key: u32) -> bool {
        let place = self.take(key);
        if let Some(place) = place {
            self.timeline.clear(place);
        }
        place.is_some()
    }

    fn take(&mut self, key: u32) -> Option<u32> {
        let place = self.places.get_mut(key as usize)?;
        Some(std::mem::replace(place, ABSENT)).filter(|&place| place != ABSENT)
    }

    fn renumber_places(&mut self) {
        let ranks = self.timeline.ranks();
        let rank = |place: u32| self.timeline.rank(&ranks, place);
        for place in self.places.iter_mut().filter(|place| **place != ABSENT) {
            *place = rank(*place);
        }
        self.holes = self.holes.iter().map(|&place| rank(place)).collect();
        self.timeline = Timeline::filled(self.timeline.set);
    }
}

/// A sequence of bits that are set at its end and cleared anywhere.
#[derive(Clone, Debug)]
struct Timeline {
    words: Vec<u64>,
    /// Fenwick tree over the numbers of bits set in each 512, except the last 512, which are still
    /// being pushed.
    tree: Vec<u32>,
    /// Number of bits pushed.
    len: usize,
    /// Number of bits set.
    set: usize,
    /// Number of bits set in the last 512 or fewer, which are not in the tree.
    last: u32,
}

#[expect(clippy::cast_possible_truncation)] // `new` limits places to 2^31.
impl Timeline {
    /// Returns an empty timeline of at least `places` places.
    fn new(places: usize) -> Self {
        assert!(places < 1 << 31, "a stack has fewer than 2^30 blocks");
        let blocks = places.div_ceil(BITS);
        Self { words: vec![0; blocks * WORDS], tree: vec![0; blocks + 1], len: 0, set: 0, last: 0 }
    }

    /// Returns a timeline that begins with `set` bits set and has at least as many free places.
    fn filled(set: usize) -> Self {
        let mut timeline = Self::new((2 * set).max(MIN_PLACES));
        for _ in 0..set {
            timeline.push();
        }
        timeline
    }

    const fn is_full(&self) -> bool {
        self.len == self.words.len() * 64
    }

    /// Returns the place that is pushed next.
    const fn next(&self) -> u32 {
        self.len as u32
    }

    /// Sets the bit of the next place.
    #[inline]
    fn push(&mut self) {
        self.words[self.len / 64] |= 1 << (self.len % 64);
        self.len += 1;
        self.set += 1;
        self.last += 1;
        if self.len.is_multiple_of(BITS) {
            let mut node = self.len / BITS;
            while let Some(count) = self.tree.get_mut(node) {
                *count += self.last;
                node += node & node.wrapping_neg();
            }
            self.last = 0;
        }
    }

    #[inline]
    fn clear(&mut self, place: u32) {
        let place = place as usize;
        self.words[place / 64] &= !(1 << (place % 64));
        self.set -= 1;
        let block = place / BITS;
        if block == self.len / BITS {
            self.last -= 1;
            return;
        }
        let mut node = block + 1;
        while let Some(count) = self.tree.get_mut(node) {
            *count -= 1;
            node += node & node.wrapping_neg();
        }
    }

    /// Returns the number of bits set from `place` to the end.
    #[inline]
    fn depth(&self, place: u32) -> u32 {
        let block = place as usize / BITS;
        let mut before = 0;
        let mut node = block;
        while node > 0 {
            before += self.tree[node];
            node &= node - 1;
        }
        self.set as u32 - before - self.within(place)
    }

    /// Returns the number of bits set before `place` in its 512.
    #[inline]
    fn within(&self, place: u32) -> u32 {
        let (block, bit) = (place as usize / BITS, place as usize % BITS);
        let words = &self.words[block * WORDS..][..WORDS];
        let whole: u32 = words[..bit / 64].iter().map(|word| word.count_ones()).sum();
        whole + (words[bit / 64] & ((1 << (bit % 64)) - 1)).count_ones()
    }

    /// Returns the number of bits set before each 512.
    fn ranks(&self) -> Vec<u32> {
        let mut before = 0;
        let mut count = |words: &[u64]| {
            let rank = before;
            before += words.iter().map(|word| word.count_ones()).sum::<u32>();
            rank
        };
        self.words.chunks(WORDS).map(&mut count).collect()
    }

    /// Returns the number of bits set before `place`.
    fn rank(&self, ranks: &[u32], place: u32) -> u32 {
        ranks[place as usize / BITS] + self.within(place)
    }
}
