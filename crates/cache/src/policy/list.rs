//! Doubly linked lists of small numbers, without an allocation or a search per step: links lie in
//! one array that the numbers index.
//!
//! Several lists share the array, because a number is in at most one of them. Each list is a ring
//! through a sentinel node, so linking needs no special cases.
//!
//! What the caller must do: remember which list a number is in (most policies keep a byte of state
//! for it), and pass it.

/// The link of a node that is in no list.
const NOWHERE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    /// Towards the front.
    before: u32,
    /// Towards the back.
    after: u32,
}

/// `N` lists of numbers.
#[derive(Clone, Debug)]
pub struct Lists<const N: usize> {
    /// First a node for each list, then one for each number.
    nodes: Vec<Node>,
    lens: [usize; N],
}

impl<const N: usize> Default for Lists<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[expect(clippy::cast_possible_truncation)] // Of list numbers, which are below N, and N is small.
impl<const N: usize> Lists<N> {
    /// Returns empty lists.
    #[must_use]
    pub fn new() -> Self {
        Self { nodes: (0..N as u32).map(|list| Node { before: list, after: list }).collect(), lens: [0; N] }
    }

    /// Makes room for numbers up to `key`.
    #[inline]
    pub fn reach(&mut self, key: u32) {
        let wanted = key as usize + N + 1;
        if wanted > self.nodes.len() {
            self.nodes.resize(wanted, Node { before: NOWHERE, after: NOWHERE });
        }
    }

    /// Returns true if `key` is in one of the lists.
    #[inline]
    #[must_use]
    pub fn holds(&self, key: u32) -> bool {
        self.nodes.get(key as usize + N).is_some_and(|node| node.after != NOWHERE)
    }

    /// Returns how many numbers are in a list.
    #[inline]
    #[must_use]
    pub fn len(&self, list: usize) -> usize {
        self.lens[list]
    }

    /// Puts a number, which must be in no list and within [`Self::reach`], at the front.
    #[inline]
    pub fn push_front(&mut self, list: usize, key: u32) {
        let first = self.nodes[list].after;
        self.insert(list as u32, key + N as u32, first);
        self.lens[list] += 1;
    }

    #[inline]
    fn insert(&mut self, before: u32, node: u32, after: u32) {
        self.nodes[node as usize] = Node { before, after };
        self.nodes[before as usize].after = node;
        self.nodes[after as usize].before = node;
    }

    /// Takes a number out of the list that it is in.
    #[inline]
    pub fn unlink(&mut self, list: usize, key: u32) {
        let node = &mut self.nodes[key as usize + N];
        let Node { before, after } = *node;
        node.after = NOWHERE;
        self.nodes[before as usize].after = after;
        self.nodes[after as usize].before = before;
        self.lens[list] -= 1;
    }

    /// Moves a number to the front of the list that it is in.
    #[inline]
    pub fn bring_forward(&mut self, list: usize, key: u32) {
        let node = key + N as u32;
        let first = self.nodes[list].after;
        if first != node {
            let Node { before, after } = self.nodes[node as usize];
            self.nodes[before as usize].after = after;
            self.nodes[after as usize].before = before;
            self.insert(list as u32, node, first);
        }
    }

    /// Returns the number before this one, towards the front of the list that it is in.
    #[inline]
    #[must_use]
    pub fn before(&self, key: u32) -> Option<u32> {
        self.nodes[key as usize + N].before.checked_sub(N as u32)
    }

    /// Returns the number at the back.
    #[inline]
    #[must_use]
    pub fn back(&self, list: usize) -> Option<u32> {
        self.nodes[list].before.checked_sub(N as u32)
    }

    /// Takes out the number at the back.
    #[inline]
    pub fn pop_back(&mut self, list: usize) -> Option<u32> {
        let key = self.back(list)?;
        self.unlink(list, key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: two lists in one array keep their own order and counts.
    #[test]
    fn lists_share_an_array() {
        let mut lists = Lists::<2>::new();
        lists.reach(9);
        for key in [3, 0, 9, 5] {
            lists.push_front((key % 2) as usize, key);
        }
        assert_eq!([lists.len(0), lists.len(1)], [1, 3]);
        lists.bring_forward(1, 3);
        lists.unlink(1, 9);
        assert!(!lists.holds(9) && lists.holds(0) && !lists.holds(100));
        assert_eq!([lists.pop_back(1), lists.pop_back(1), lists.pop_back(1)], [Some(5), Some(3), None]);
        assert_eq!([lists.back(0), lists.back(1)], [Some(0), None]);
    }
}
