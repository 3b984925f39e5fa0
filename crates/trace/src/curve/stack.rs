//! Exact LRU stack distances (Mattson et al., "Evaluation techniques for storage hierarchies", IBM
//! Systems Journal, 1970).
//!
//! An LRU cache of s blocks holds the s topmost of a stack that each use reorders, so how deep a
//! block lies when it is used says which sizes hit. The stack is not kept as such: each use gets
//! the next *place* on a line of time, a bit says whether a block's latest use is there, and the
//! depth is the number of bits behind it. Bits are counted 512 at a time, and the counts summed in
//! a Fenwick tree, which thus fits into the fastest caches. When the line is used up, places are
//! given anew, without the gaps; memory is that of the blocks, not of the requests.
//!
//! *Data that is gone* leaves a hole in every cache that had it, and each of them fills its hole
//! with the next block that misses. So its bit stays, without a block. The next use of a deeper
//! block, or of a new one, fills the topmost hole, for it is there that what lies above moves down
//! to; where the deeper block was, a hole is left, as the caches so large have it already.

use std::collections::BinaryHeap;

/// A block that is not in the stack.
const NOWHERE: u32 = u32::MAX;
const WORDS: usize = 8;
const BITS: usize = WORDS * 64;
/// The shortest line.
const SHORTEST: usize = 128 * BITS;

/// An LRU stack of numbered blocks.
#[derive(Clone, Debug)]
pub struct Stack {
    /// The place of each block's latest use.
    places: Vec<u32>,
    /// Places of holes, the topmost first.
    holes: BinaryHeap<u32>,
    line: Line,
}

impl Default for Stack {
    fn default() -> Self {
        Self { places: Vec::new(), holes: BinaryHeap::new(), line: Line::new(SHORTEST) }
    }
}

impl Stack {
    /// Uses block `key`: LRU caches of at least this many blocks have it, none of
    /// them if it is not in the stack.
    ///
    /// # Panics
    /// With 2^30 blocks.
    #[inline]
    pub fn access(&mut self, key: u32) -> Option<u32> {
        if key as usize >= self.places.len() {
            self.places.resize(key as usize + 1, NOWHERE);
        }
        if self.line.is_full() {
            self.give_places_anew();
        }
        let new = self.line.next();
        let old = std::mem::replace(&mut self.places[key as usize], new);
        let depth = (old != NOWHERE).then(|| self.line.depth(old));
        let hole = self.holes.peek().copied().filter(|&hole| old == NOWHERE || hole > old);
        if let Some(hole) = hole {
            self.holes.pop();
            self.line.clear(hole);
            if old != NOWHERE {
                self.holes.push(old);
            }
        } else if old != NOWHERE {
            self.line.clear(old);
        }
        self.line.push();
        depth
    }

    /// Returns how deep block `key` lies, which is not used by this: LRU caches of at least this
    /// many blocks have it, none of them if it is not in the stack.
    #[must_use]
    pub fn depth(&self, key: u32) -> Option<u32> {
        let place = self.places.get(key as usize).copied().filter(|&place| place != NOWHERE);
        place.map(|place| self.line.depth(place))
    }

    /// Returns the data of block `key` is gone. False if it was not in the stack.
    pub fn remove(&mut self, key: u32) -> bool {
        let place = self.take(key);
        self.holes.extend(place);
        place.is_some()
    }

    /// Forgets block `key`, as if it had never been. False if
    /// it was not in the stack.
    pub fn forget(&mut self, key: u32) -> bool {
        let place = self.take(key);
        if let Some(place) = place {
            self.line.clear(place);
        }
        place.is_some()
    }

    fn take(&mut self, key: u32) -> Option<u32> {
        let place = self.places.get_mut(key as usize)?;
        Some(std::mem::replace(place, NOWHERE)).filter(|&place| place != NOWHERE)
    }

    fn give_places_anew(&mut self) {
        let ranks = self.line.ranks();
        let rank = |place: u32| self.line.rank(&ranks, place);
        for place in self.places.iter_mut().filter(|place| **place != NOWHERE) {
            *place = rank(*place);
        }
        self.holes = self.holes.iter().map(|&place| rank(place)).collect();
        self.line = Line::filled(self.line.set);
    }
}

/// A line of bits, set at its end and cleared anywhere.
#[derive(Clone, Debug)]
struct Line {
    words: Vec<u64>,
    /// Fenwick tree over the bits set in each 512, without those of the last, which are being
    /// pushed.
    tree: Vec<u32>,
    /// Bits pushed.
    len: usize,
    /// Bits set.
    set: usize,
    /// Bits set among the last 512 or fewer, which are not in the tree.
    last: u32,
}

#[expect(clippy::cast_possible_truncation)] // Places are fewer than 2^31: `new` sees to it.
impl Line {
    /// Returns an empty line of at least so many places.
    fn new(places: usize) -> Self {
        assert!(places < 1 << 31, "stack distances of 2^30 blocks are not for this machine");
        let blocks = places.div_ceil(BITS);
        Self { words: vec![0; blocks * WORDS], tree: vec![0; blocks + 1], len: 0, set: 0, last: 0 }
    }

    /// Returns a line that begins with `set` bits set and has as many places again, or more.
    fn filled(set: usize) -> Self {
        let mut line = Self::new((2 * set).max(SHORTEST));
        for _ in 0..set {
            line.push();
        }
        line
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

    /// Returns how many bits are set from `place` to the end.
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

    /// Returns how many bits are set before `place` in its 512.
    #[inline]
    fn within(&self, place: u32) -> u32 {
        let (block, bit) = (place as usize / BITS, place as usize % BITS);
        let words = &self.words[block * WORDS..][..WORDS];
        let whole: u32 = words[..bit / 64].iter().map(|word| word.count_ones()).sum();
        whole + (words[bit / 64] & ((1 << (bit % 64)) - 1)).count_ones()
    }

    /// For each 512 how many bits are set before them.
    fn ranks(&self) -> Vec<u32> {
        let mut before = 0;
        let mut count = |words: &[u64]| {
            let rank = before;
            before += words.iter().map(|word| word.count_ones()).sum::<u32>();
            rank
        };
        self.words.chunks(WORDS).map(&mut count).collect()
    }

    /// Returns how many bits are set before `place`.
    fn rank(&self, ranks: &[u32], place: u32) -> u32 {
        ranks[place as usize / BITS] + self.within(place)
    }
}
