//! The files that processes have mapped to share what they write: `msync` names them by address.

use super::files::Number;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A file in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) len: u64,
    pub(super) file: Number,
    pub(super) path: Arc<str>,
}

/// The mappings of each process by their first address.
#[derive(Clone, Debug, Default)]
pub(super) struct Mappings(HashMap<u32, BTreeMap<u64, Mapping>>);

impl Mappings {
    pub(super) fn add(&mut self, process: u32, address: u64, mapping: Mapping) {
        self.0.entry(process).or_default().insert(address, mapping);
    }

    /// Removes those that begin within a range.
    pub(super) fn remove(&mut self, process: u32, address: u64, len: u64) {
        let Some(all) = self.0.get_mut(&process) else { return };
        all.retain(|start, _| !(address..address.saturating_add(len)).contains(start));
    }

    /// Returns the mapping that contains an address.
    pub(super) fn at(&self, process: u32, address: u64) -> Option<&Mapping> {
        let (start, mapping) = self.0.get(&process)?.range(..=address).next_back()?;
        (address - start < mapping.len).then_some(mapping)
    }

    /// Gives a new process what its parent has.
    pub(super) fn copy(&mut self, parent: u32, child: u32) {
        if let Some(all) = self.0.get(&parent).cloned() {
            self.0.insert(child, all);
        }
    }

    /// Removes all of a process.
    pub(super) fn forget(&mut self, process: u32) {
        self.0.remove(&process);
    }
}
