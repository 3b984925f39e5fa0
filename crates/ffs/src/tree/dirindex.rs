//! An index of a directory in memory: names to places, and room to chunks.
//!
//! As in FreeBSD's dirhash the table holds only places; a candidate's name is compared in the
//! directory itself. The largest free space of each chunk is kept, with a hint for every size below
//! which chunk there is no use to look, so that a create costs the same in a directory of a million
//! names as in one of ten.

use rand::RngCore;
use siphasher::sip::SipHasher13;

/// Places and names are counted in units of this many bytes.
const UNIT: u64 = 4;
const EMPTY: u32 = 0;
const DELETED: u32 = u32::MAX;

/// The index of one directory.
pub(crate) struct DirIndex {
    /// Open addressing; a place is its unit plus one.
    table: Vec<u32>,
    /// Slots not empty: names and deleted ones.
    filled: usize,
    names: usize,
    /// Largest free space of each chunk in units.
    room: Vec<u16>,
    /// For each number of units: no chunk before this one has so much room.
    hints: Vec<usize>,
    dirblksiz: u32,
    /// Names of the directory cannot be read, and are not here.
    lost: bool,
    /// Counts the changes.
    version: u64,
}

impl DirIndex {
    pub(crate) fn new(dirblksiz: u32) -> Self {
        let units = dirblksiz as usize / 4;
        Self {
            table: vec![EMPTY; 16],
            filled: 0,
            names: 0,
            room: Vec::new(),
            hints: vec![0; units + 1],
            dirblksiz,
            lost: false,
            version: 0,
        }
    }

    /// Returns a number that every change makes another.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// Sets whether there are names that cannot be read.
    pub(crate) const fn set_lost(&mut self, lost: bool) {
        self.lost = lost;
    }

    /// Returns true if a name that is not here may be one of those that cannot be read.
    pub(crate) const fn has_lost(&self) -> bool {
        self.lost
    }

    fn units(bytes: u32) -> usize {
        (bytes / 4) as usize
    }

    /// Returns the places where a name with this hash may be.
    pub(crate) fn candidates(&self, hash: u64) -> impl Iterator<Item = u64> + '_ {
        self.probe(hash)
            .map_while(|slot| (self.table[slot] != EMPTY).then_some(self.table[slot]))
            .filter(|&unit| unit != DELETED)
            .map(|unit| u64::from(unit - 1) * UNIT)
    }

    fn probe(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        let mask = self.table.len() - 1;
        let start = crate::format::units::index(hash) & mask;
        (0..=mask).map(move |n| (start + n) & mask)
    }

    /// Enters a name at a place. `rehash` gives the hash of the name at a place, for when the table
    /// grows.
    ///
    /// # Errors
    /// Those of `rehash`.
    pub(crate) fn insert<E>(
        &mut self,
        hash: u64,
        place: u64,
        rehash: impl FnMut(u64) -> Result<u64, E>,
    ) -> Result<(), E> {
        if self.filled * 4 >= self.table.len() * 3 {
            self.rebuild(rehash)?;
        }
        self.put(hash, place);
        Ok(())
    }

    fn put(&mut self, hash: u64, place: u64) {
        self.version += 1;
        let free = self.probe(hash).find(|&slot| matches!(self.table[slot], EMPTY | DELETED));
        if let Some(slot) = free {
            self.filled += usize::from(self.table[slot] == EMPTY);
            self.table[slot] = u32::try_from(place / UNIT + 1).unwrap_or(DELETED);
            self.names += 1;
        }
    }

    fn rebuild<E>(&mut self, mut rehash: impl FnMut(u64) -> Result<u64, E>) -> Result<(), E> {
        let size = ((self.names + 1) * 4).next_power_of_two();
        let old = std::mem::replace(&mut self.table, vec![EMPTY; size]);
        (self.filled, self.names) = (0, 0);
        for unit in old.into_iter().filter(|&unit| unit != EMPTY && unit != DELETED) {
            let place = u64::from(unit - 1) * UNIT;
            self.put(rehash(place)?, place);
        }
        Ok(())
    }

    /// Takes the name at a place out.
    pub(crate) fn remove(&mut self, hash: u64, place: u64) {
        self.version += 1;
        let unit = u32::try_from(place / UNIT + 1).unwrap_or(DELETED);
        let found = self
            .probe(hash)
            .take_while(|&slot| self.table[slot] != EMPTY)
            .find(|&slot| self.table[slot] == unit);
        if let Some(slot) = found {
            self.table[slot] = DELETED;
            self.names -= 1;
        }
    }

    /// Chunks known.
    pub(crate) fn chunks(&self) -> usize {
        self.room.len()
    }

    /// Sets the largest free space of a chunk, which may be the next one after the last.
    pub(crate) fn set_room(&mut self, chunk: usize, bytes: u32) {
        self.version += 1;
        let units = Self::units(bytes);
        let value = u16::try_from(units).unwrap_or(u16::MAX);
        if chunk == self.room.len() {
            self.room.push(value);
        } else {
            self.room[chunk] = value;
        }
        for hint in &mut self.hints[..=units.min(Self::units(self.dirblksiz))] {
            *hint = (*hint).min(chunk);
        }
    }

    /// Returns the first chunk with room for `bytes`.
    pub(crate) fn find_room(&mut self, bytes: u32) -> Option<usize> {
        let units = Self::units(bytes);
        let from = self.hints[units];
        let found = (from..self.room.len()).find(|&chunk| usize::from(self.room[chunk]) >= units);
        self.hints[units] = found.unwrap_or(self.room.len());
        found
    }

    /// Chunks that are left when the empty ones at the end go, but at least one.
    pub(crate) fn chunks_in_use(&self) -> usize {
        let whole = Self::units(self.dirblksiz);
        self.room.iter().rposition(|&room| usize::from(room) < whole).map_or(1, |last| last + 1)
    }

    /// Forgets the chunks from `chunks` on, which hold no names.
    pub(crate) fn cut(&mut self, chunks: usize) {
        self.version += 1;
        self.room.truncate(chunks);
        for hint in &mut self.hints {
            *hint = (*hint).min(chunks);
        }
    }
}

/// Hashes names with a key that each mount draws for itself (`SipHash`), so that nobody can make up
/// names that collide.
#[derive(Clone, Copy)]
pub(crate) struct NameHash(SipHasher13);

impl NameHash {
    pub(crate) fn new(random: &mut dyn RngCore) -> Self {
        Self(SipHasher13::new_with_keys(random.next_u64(), random.next_u64()))
    }

    /// Returns the hash of a name.
    pub(crate) fn of(&self, name: &[u8]) -> u64 {
        self.0.hash(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use std::collections::HashSet;
    use std::convert::Infallible;

    fn key(seed: u64) -> NameHash {
        NameHash::new(&mut StdRng::seed_from_u64(seed))
    }

    /// Promise: whatever is inserted and removed, every name present is among its candidates and
    /// removed ones are not, with colliding hashes too.
    #[test]
    fn finds_what_is_there() {
        let mut index = DirIndex::new(512);
        let mut model = HashSet::new();
        let names = key(1);
        let hash_of = |place: u64| names.of(&(place % 700).to_le_bytes());
        for n in 0..20_000_u64 {
            let place = n.wrapping_mul(2_654_435_761) % 5000 * 4;
            if model.remove(&place) {
                index.remove(hash_of(place), place);
            } else {
                index.insert::<Infallible>(hash_of(place), place, |p| Ok(hash_of(p))).unwrap();
                model.insert(place);
            }
        }
        for place in (0..5000).map(|p| p * 4) {
            let found = index.candidates(hash_of(place)).any(|p| p == place);
            assert_eq!(found, model.contains(&place), "place {place}");
        }
    }

    /// Promise: room is found in the first chunk that has it, also after room has come and gone.
    #[test]
    fn finds_the_first_room() {
        let mut index = DirIndex::new(512);
        for (chunk, room) in [0, 16, 512, 40, 512].into_iter().enumerate() {
            index.set_room(chunk, room);
        }
        assert_eq!(index.find_room(20), Some(2));
        assert_eq!(index.find_room(16), Some(1));
        index.set_room(2, 12);
        assert_eq!(index.find_room(20), Some(3));
        index.set_room(0, 512);
        assert_eq!(index.find_room(20), Some(0));
        assert_eq!(index.chunks_in_use(), 4);
        index.cut(4);
        assert_eq!(index.find_room(44), Some(0));
        index.set_room(0, 8);
        assert_eq!(index.find_room(44), None);
    }

    /// Returns the most slots that a lookup of one of `names` goes through in an index of them all.
    fn longest_probe(hash: NameHash, names: &[[u8; 8]]) -> usize {
        let hash_of = |place: u64| hash.of(&names[crate::format::units::index(place / UNIT)]);
        let mut index = DirIndex::new(512);
        let places = || (0..names.len() as u64).map(|n| n * UNIT);
        for place in places() {
            index.insert::<Infallible>(hash_of(place), place, |p| Ok(hash_of(p))).unwrap();
        }
        places()
            .map(|place| 1 + index.candidates(hash_of(place)).take_while(|&p| p != place).count())
            .max()
            .unwrap()
    }

    /// Promise: names that collide under one key are like any others under the next, and each mount
    /// has a key of its own.
    #[test]
    fn chosen_names_do_no_harm() {
        let (known, own) = (key(1), key(2));
        let low = |name: &[u8; 8]| known.of(name) % 4096;
        let names: Vec<[u8; 8]> =
            (0_u64..).map(u64::to_le_bytes).filter(|name| low(name) == 7).take(500).collect();
        assert_eq!(longest_probe(known, &names), names.len());
        assert!(longest_probe(own, &names) < 30);
    }
}
