//! Keys of any kind in the order of their last use, each step at constant cost.

use super::list::Lists;
use std::collections::HashMap;
use std::hash::Hash;

/// Keys in the order of their last use.
#[derive(Clone, Debug)]
pub struct Lru<K> {
    /// The number of each key.
    numbers: HashMap<K, u32>,
    /// The key of each number; free numbers keep their last key.
    keys: Vec<K>,
    free: Vec<u32>,
    order: Lists<1>,
}

impl<K> Default for Lru<K> {
    fn default() -> Self {
        Self { numbers: HashMap::new(), keys: Vec::new(), free: Vec::new(), order: Lists::new() }
    }
}

impl<K: Copy + Eq + Hash> Lru<K> {
    /// Notes a use of `key`, which may be new.
    ///
    /// # Panics
    /// With 2^32 keys.
    pub fn touch(&mut self, key: K) {
        if let Some(&number) = self.numbers.get(&key) {
            self.order.bring_forward(0, number);
            return;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.keys.push(key);
            u32::try_from(self.keys.len() - 1).expect("keys fit into memory")
        });
        self.keys[number as usize] = key;
        self.numbers.insert(key, number);
        self.order.reach(number);
        self.order.push_front(0, number);
    }

    /// Removes `key`.
    pub fn remove(&mut self, key: K) {
        if let Some(number) = self.numbers.remove(&key) {
            self.order.unlink(0, number);
            self.free.push(number);
        }
    }

    /// Returns the key that was used longest ago.
    #[must_use]
    pub fn oldest(&self) -> Option<K> {
        self.order.back(0).map(|number| self.keys[number as usize])
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the oldest key is the one used longest ago.
    #[test]
    fn least_recently_used() {
        let mut lru = Lru::default();
        for key in [1, 2, 3, 1, 4, 2] {
            lru.touch(key);
        }
        lru.remove(1);
        assert_eq!((lru.len(), lru.oldest()), (3, Some(3)));
    }

    /// Promise: keys that come and go leave nothing behind.
    #[test]
    fn numbers_are_used_again() {
        let mut lru = Lru::default();
        for key in 0..1000_u64 {
            lru.touch(key);
            lru.touch(key + 1);
            lru.remove(key);
        }
        assert_eq!((lru.len(), lru.oldest(), lru.keys.len()), (1, Some(1000), 2));
    }
}
