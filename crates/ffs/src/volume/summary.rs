//! The summaries: counts of every group and of the whole file system, exact at every moment.
//!
//! They live in memory, and each change goes into the summary area's buffers inside the transaction
//! that caused it. The totals go into the superblock when it is written.

use crate::format::layout::Layout;
use crate::format::ondisk::{Csum, CsumTotal};
use spindle_cache::{Buffer, Cache, Tx};
use spindle_clock::Mutex;
use spindle_ondisk::{Endian, Field};
use spindle_vfs::Result;
use std::sync::atomic::{AtomicI64, Ordering};

pub(crate) struct Summaries {
    state: Mutex<State>,
    /// Fragments of a block.
    frag: u32,
    /// The free fragments, also those of free blocks; changed with the counts locked, and read
    /// without.
    free_frags: AtomicI64,
}

struct State {
    groups: Vec<Csum>,
    total: CsumTotal,
}

impl Summaries {
    /// Reads the summary area. The totals are the sums, whatever the superblock says. If it cannot
    /// be read, and nothing will be written, all counts are 0.
    pub(crate) fn read(layout: &Layout, cache: &Cache, read_only: bool) -> Result<Self> {
        let mut bytes = vec![0; (layout.fs_cssize as usize).next_multiple_of(layout.fs_fsize as usize)];
        match cache.device().read_at(layout.byte(layout.fs_csaddr), &mut bytes) {
            Err(error) if read_only => {
                log::warn!(
                    "the summaries of the cylinder groups cannot be read, free space counts as 0: {error}"
                );
            }
            read => read?,
        }
        let groups: Vec<_> = bytes
            .chunks_exact(Csum::SIZE)
            .take(layout.fs_ncg as usize)
            .map(|b| Csum::get(b, layout.endian))
            .collect();
        let mut total = CsumTotal::default();
        for cs in &groups {
            add(&mut total, *cs);
        }
        let frag = layout.fs_frag;
        let free_frags = total.cs_nbfree.saturating_mul(frag.into()).saturating_add(total.cs_nffree);
        Ok(Self { state: Mutex::new(State { groups, total }), frag, free_frags: free_frags.into() })
    }

    /// Returns the free fragments of the whole file system, also those of free blocks.
    pub(crate) fn free_frags(&self) -> i64 {
        self.free_frags.load(Ordering::Relaxed)
    }

    /// Returns the counts of the whole file system.
    pub(crate) fn total(&self) -> CsumTotal {
        self.state.lock().total
    }

    /// Returns the counts of one group.
    pub(crate) fn group(&self, cgx: u32) -> Csum {
        self.state.lock().groups[cgx as usize]
    }

    /// Calls `choose` with the counts of all groups.
    pub(crate) fn choose<T>(&self, choose: impl FnOnce(&[Csum]) -> T) -> T {
        choose(&self.state.lock().groups)
    }

    /// Returns the buffer that has the counts of a group, and where in it.
    pub(crate) fn buffer<'a>(layout: &Layout, cache: &'a Cache, cgx: u32) -> Result<(Buffer<'a>, usize)> {
        let at = cgx as usize * Csum::SIZE;
        let block = layout.fs_bsize as usize;
        let start = at / block * block;
        let area = (layout.fs_cssize as usize).next_multiple_of(layout.fs_fsize as usize);
        let byte = layout.byte(layout.fs_csaddr) + start as u64;
        Ok((cache.get(byte, block.min(area - start), None)?, at - start))
    }

    /// Adds to the counts of a group, which [`Self::buffer`] has.
    pub(crate) fn add(
        &self,
        endian: Endian,
        (buffer, at): &(Buffer<'_>, usize),
        tx: &Tx<'_>,
        cgx: u32,
        change: Csum,
    ) {
        let mut state = self.state.lock();
        let cs = &mut state.groups[cgx as usize];
        cs.cs_ndir = cs.cs_ndir.wrapping_add(change.cs_ndir);
        cs.cs_nbfree = cs.cs_nbfree.wrapping_add(change.cs_nbfree);
        cs.cs_nifree = cs.cs_nifree.wrapping_add(change.cs_nifree);
        cs.cs_nffree = cs.cs_nffree.wrapping_add(change.cs_nffree);
        let now = *cs;
        add(&mut state.total, change);
        let frags = i64::from(change.cs_nbfree) * i64::from(self.frag) + i64::from(change.cs_nffree);
        self.free_frags.fetch_add(frags, Ordering::Relaxed);
        now.put(buffer.write_shared(tx).bytes_mut(*at..at + Csum::SIZE), endian);
    }
}

fn add(total: &mut CsumTotal, cs: Csum) {
    total.cs_ndir = total.cs_ndir.wrapping_add(cs.cs_ndir.into());
    total.cs_nbfree = total.cs_nbfree.wrapping_add(cs.cs_nbfree.into());
    total.cs_nifree = total.cs_nifree.wrapping_add(cs.cs_nifree.into());
    total.cs_nffree = total.cs_nffree.wrapping_add(cs.cs_nffree.into());
}
