//! Files with several names: the first path of each.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// The first path of each file that has more names to come. A file is removed after its last name,
/// so memory is needed only for files with missing names.
#[derive(Debug, Default)]
pub struct Links(HashMap<(u64, u64), (Vec<u8>, u32)>);

impl Links {
    /// Records that `path` is a name of the file `id`, which has `nlink` names. Returns the
    /// first path of the file, if this is not the first.
    pub fn add(&mut self, id: (u64, u64), nlink: u32, path: &[u8]) -> Option<Vec<u8>> {
        if nlink < 2 {
            return None;
        }
        match self.0.entry(id) {
            Entry::Vacant(vacant) => {
                vacant.insert((path.to_vec(), nlink - 1));
                None
            }
            Entry::Occupied(mut known) => {
                let (first, left) = known.get_mut();
                *left -= 1;
                if *left == 0 { Some(known.remove().0) } else { Some(first.clone()) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: every further name returns the first path, and a file with all its names found
    /// takes no memory.
    #[test]
    fn remembers_while_names_are_missing() {
        let mut links = Links::default();
        assert_eq!(links.add((1, 7), 1, b"single"), None);
        assert_eq!(links.add((1, 7), 3, b"a"), None);
        assert_eq!(links.add((1, 7), 3, b"b"), Some(b"a".to_vec()));
        assert_eq!(links.add((2, 7), 2, b"other device"), None);
        assert_eq!(links.add((1, 7), 3, b"c"), Some(b"a".to_vec()));
        assert_eq!(links.0.len(), 1);
    }
}
