//! A byte for each block: the list that it is in, and a note.

/// Bytes by block number; blocks never marked have 0.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks(Vec<u8>);

impl Marks {
    /// Returns the mark of `key`.
    #[inline]
    pub(super) fn get(&self, key: u32) -> u8 {
        self.0.get(key as usize).copied().unwrap_or(0)
    }

    /// Changes the mark of `key`.
    #[inline]
    pub(super) fn set(&mut self, key: u32, mark: u8) {
        let key = key as usize;
        if key >= self.0.len() {
            self.0.resize(key + 1, 0);
        }
        self.0[key] = mark;
    }
}
