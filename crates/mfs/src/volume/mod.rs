//! Space and transactions: everything below files and names.
//!
//! A [`Volume`] owns the cache, the log and the counts of free space. The log says "in use" on the
//! device before the first change, and "clean" only when the tree asks for it.

pub(crate) mod attributes;
pub(crate) mod control;
pub(crate) mod data;
pub(crate) mod headers;
mod pending;
pub(crate) mod sums;
pub(crate) mod tx;
pub(crate) mod usage;

use crate::format::layout::{ClassLayout, Layout};
use crate::log::{Ring, State};
use control::ControlSpace;
use data::DataSpace;
use pending::Pending;
use spindle_cache::{Buffer, Cache};
use spindle_clock::{Clock, Mutex};
use spindle_tree::Condition;
use spindle_vfs::{Error, Result};
use std::ops::Deref;
use std::sync::Arc;
use sums::Fresh;

/// The space of a set.
pub(crate) struct Volume {
    pub(crate) layout: Layout,
    pub(crate) cache: Arc<Cache>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The log; none if nothing can be changed.
    log: Option<Arc<Ring>>,
    control: Mutex<ControlSpace>,
    /// The free space of each class of data.
    data: Vec<Mutex<DataSpace>>,
    pending: Pending,
    fresh: Arc<Fresh>,
    condition: Condition,
}

impl Deref for Volume {
    type Target = Condition;
    fn deref(&self) -> &Condition {
        &self.condition
    }
}

impl Volume {
    /// Opens the volume of a set whose log has been replayed.
    ///
    /// # Errors
    /// Device errors, but not those of data storage if nothing can be changed;
    /// [`Error::Corrupt`] if a cylinder or a page of an allocation map is damaged.
    pub(crate) fn open(
        layout: Layout,
        cache: Cache,
        log: Option<Arc<Ring>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let control = ControlSpace::read(&layout, cache.device())?;
        let space_of = |class: &ClassLayout| match DataSpace::read(class, cache.device()) {
            // What is on other members can be read without it.
            Err(error @ Error::Device(_)) if log.is_none() => {
                log::warn!("{error}: the free space of class {} of data is not known", class.name);
                Ok(Mutex::new(DataSpace::unknown(class)))
            }
            space => space.map(Mutex::new),
        };
        let data = layout.classes.iter().map(space_of).collect::<Result<_>>()?;
        Ok(Self {
            control: Mutex::new(control),
            data,
            pending: Pending::default(),
            fresh: Arc::new(Fresh::new()),
            condition: Condition::new(log.is_none(), cache.read_failures()),
            layout,
            cache: Arc::new(cache),
            clock,
            log,
        })
    }

    /// Marks the set as in use on the device; the first change to anything else comes after it.
    pub(crate) fn mark_in_use(&self) -> Result<()> {
        self.condition.mark_with(|| self.set_state(State { in_use: true, damaged: false }))
    }

    /// Writes the state of the set to the log's header.
    fn set_state(&self, state: State) -> Result<()> {
        let Some(log) = &self.log else { return Err(Error::ReadOnly) };
        Ok(self.cache.directly(|_| log.set_state(state))?)
    }

    /// Writes everything to its place, and marks the set clean, or damaged if damage was met.
    pub(crate) fn close(&self) -> Result<()> {
        self.commit()?;
        self.cache.checkpoint()?;
        if let Some(log) = self.log.as_ref().filter(|_| self.is_marked()) {
            log.empty();
            self.set_state(State { in_use: false, damaged: self.is_damaged() })?;
        }
        Ok(())
    }

    /// Returns the buffer of a block of control storage at byte `at`.
    pub(crate) fn block(&self, at: u64) -> Result<Buffer<'_>> {
        Ok(self.cache.get(at, self.layout.block_bytes(), None)?)
    }

    /// Returns the bytes of log that all changes of an epoch can take.
    pub(crate) fn log_limit(&self) -> usize {
        self.log.as_ref().map_or(0, |log| spindle_cache::Log::limit_bytes(&**log))
    }
}

/// Whose changes of a buffer a rollback takes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// One operation has the bytes to itself: the cache takes them back.
    One,
    /// Several operations change them: each takes its own changes back.
    Shared,
}

/// Changes the bytes of a buffer with `change`, and notes only the sectors that differ.
pub(crate) fn update<T>(
    tx: &spindle_cache::Tx<'_>,
    buffer: &Buffer<'_>,
    owner: Owner,
    change: impl FnOnce(&mut [u8]) -> Result<T>,
) -> Result<T> {
    const SECTOR: usize = 512;
    let mut locked = match owner {
        Owner::One => buffer.write(tx),
        Owner::Shared => buffer.write_shared(tx),
    };
    let mut after = locked.to_vec();
    let value = change(&mut after)?;
    for (n, sector) in after.chunks(SECTOR).enumerate() {
        let range = n * SECTOR..n * SECTOR + sector.len();
        if locked[range.clone()] != *sector {
            locked.bytes_mut(range).copy_from_slice(sector);
        }
    }
    Ok(value)
}
