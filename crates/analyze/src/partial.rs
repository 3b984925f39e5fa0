//! Findings that merge: those of traces that were analysed apart, in other processes or on other
//! machines.
//!
//! The one idea: a [`Partial`] is what remains of some traces before anything is averaged, ordered
//! or cut off at the largest names, so that findings made of merged ones are those of all traces,
//! byte for byte, however they were grouped. Each trace is a recording of its own: opens and lives
//! end with it, its windows and slots of time count from its own beginning, and its caches begin
//! empty. Of traces in another order, lists have another order, and averages may differ in their
//! last bit.
//!
//! A file of them has a line that names it, a byte with its version, the CRC-32C of the rest, and
//! the fields in the order of their declarations ([`parts`](super::parts)). It has as many names as
//! the traces keep, 65,536 for each amount at most; merged ones have all of them.

use super::activity::ActivitySums;
use super::caches::{CacheSums, Caches};
use super::group_sums::{GroupSums, OfBoth};
use super::groups::Dimension;
use super::lifetimes::Lifetimes;
use super::parts::{InOrder, OfAll, Part, Reader, Whole, parts};
use super::patterns::Patterns;
use super::requests::Requests;
use super::{Findings, Today, Totals};
use spindle_cachesim::GridResult;
use spindle_trace::latency::Latencies;
use spindle_trace::{Error, Result};
use std::path::Path;

/// How a file of findings begins.
pub const MAGIC: &[u8] = b"spindle findings\n";
/// Version of the format: a number that changes with every field.
const VERSION: u8 = 1;
/// Bytes before the fields: the line, the version and the checksum.
const HEADER: usize = MAGIC.len() + 1 + size_of::<u32>();

/// Findings of one or more traces that can be merged with others.
#[derive(Clone, Debug)]
pub struct Partial {
    pub(super) names: Vec<String>,
    pub(super) totals: Totals,
    pub(super) activity: ActivitySums,
    pub(super) patterns: Patterns,
    pub(super) lifetimes: Lifetimes,
    pub(super) today: Today,
    pub(super) requests: Requests,
    pub(super) latencies: Latencies,
    pub(super) groups: Vec<GroupSums>,
    pub(super) caches: Option<CacheSums>,
}

parts!(Partial {
    names: InOrder,
    totals: Whole,
    activity: Whole,
    patterns: Whole,
    lifetimes: Whole,
    today: Whole,
    requests: Whole,
    latencies: Whole,
    groups: OfBoth,
    caches: OfAll<Whole>,
});

impl Partial {
    /// Adds what the analysis of a single trace does not know: the name of the trace, and the size
    /// of its file in bytes, if it is a file.
    pub fn describe(&mut self, name: String, file_bytes: Option<u64>) {
        self.names = vec![name];
        self.totals.file_bytes = file_bytes;
    }

    /// Adds the results of [`Caches::grids`].
    pub fn simulated(&mut self, results: &[GridResult]) {
        self.caches = Some(CacheSums::of(results));
    }

    /// Adds the findings of other traces, which come after these.
    pub fn merge(&mut self, other: &Self) {
        Part::merge(self, other);
    }

    /// Returns the names of the traces.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns true if there are amounts by this dimension.
    #[must_use]
    pub fn has(&self, dimension: Dimension) -> bool {
        self.groups.iter().any(|group| group.by() == dimension)
    }

    /// Returns the effect of caches, if they were simulated with each trace.
    #[must_use]
    pub fn caches(&self) -> Option<Caches> {
        self.caches.as_ref().map(CacheSums::caches)
    }

    /// Returns the findings, with the `top` largest names of each measure by those of the wanted
    /// dimensions that it has.
    #[must_use]
    pub fn findings(self, wanted: &[Dimension], top: usize) -> Findings {
        let groups = self.groups.iter().filter(|group| wanted.contains(&group.by()));
        Findings {
            groups: groups.map(|group| group.largest(top)).collect(),
            totals: self.totals,
            activity: self.activity.activity(),
            patterns: self.patterns,
            lifetimes: self.lifetimes,
            today: self.today,
            requests: self.requests,
            latencies: self.latencies,
        }
    }

    /// Returns the bytes of a file of these findings.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = [MAGIC, &[VERSION], &[0; size_of::<u32>()]].concat();
        self.write(&mut bytes);
        let sum = crc32c::crc32c(&bytes[HEADER..]);
        bytes[HEADER - size_of::<u32>()..HEADER].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the bytes of a file of findings; errors call it `path`.
    ///
    /// # Errors
    /// [`Error::Malformed`] if it is another file, of another version, or damaged.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self> {
        let damaged = |at: usize, what: &str| Error::malformed(path, format_args!("byte {at}"), what);
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| damaged(0, "these are no findings"))?;
        let cut = || damaged(bytes.len(), "the end is missing");
        let (&version, rest) = rest.split_first().ok_or_else(cut)?;
        if version != VERSION {
            let what = format!(
                "findings of version {version}, and this program reads version {VERSION}; make them and read \
                 them with the same version of spindle"
            );
            return Err(damaged(MAGIC.len(), &what));
        }
        let (sum, fields) = rest.split_first_chunk().ok_or_else(cut)?;
        if crc32c::crc32c(fields) != u32::from_le_bytes(*sum) {
            let what = "the checksum does not match: the file is damaged or cut off; make it again";
            return Err(damaged(MAGIC.len() + 1, what));
        }
        let mut reader = Reader::new(fields);
        let read = <Self as Part>::read(&mut reader).and_then(|read| reader.finish().map(|()| read));
        read.map_err(|damage| damaged(HEADER + damage.at, damage.what))
    }
}

#[cfg(test)]
mod tests;
