//! How long calls took, by what they do and how large the file is.
//!
//! The one idea: a recorder counts calls in buckets of time where they happen, so that measuring
//! costs little, and every call is exact to a bucket: four for each doubling, so its bounds are at
//! most a quarter apart. A trace has the counts in its metadata, because events stand for many
//! calls.

use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::str::FromStr;

/// Number of buckets: the last one begins at about 68 hours.
pub const BUCKETS: usize = 4 * 48;

/// A call whose time is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Call {
    /// An open, also one that creates the file.
    Open,
    /// A read.
    Read,
    /// A write.
    Write,
    /// `fsync`, `fdatasync`, `sync_file_range`.
    Sync,
}

impl Call {
    /// All calls with their names, in the order of their numbers in the recorder.
    pub const ALL: [(Self, &'static str); 4] =
        [(Self::Open, "open"), (Self::Read, "read"), (Self::Write, "write"), (Self::Sync, "sync")];

    /// Returns the name of the call.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// Files by their size when the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A directory.
    Directory,
    /// A file of at least so many bytes, and less than the next class.
    File(u64),
}

impl Class {
    /// All classes, in the order of their numbers in the recorder.
    pub const ALL: [Self; 7] = [
        Self::Directory,
        Self::File(0),
        Self::File(4 << 10),
        Self::File(64 << 10),
        Self::File(1 << 20),
        Self::File(16 << 20),
        Self::File(1 << 30),
    ];

    /// Returns what the class contains, for a table.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Directory => "directories",
            Self::File(0) => "files below 4 KiB",
            Self::File(0x1000) => "files of 4 to 64 KiB",
            Self::File(0x1_0000) => "files of 64 KiB to 1 MiB",
            Self::File(0x10_0000) => "files of 1 to 16 MiB",
            Self::File(0x100_0000) => "files of 16 MiB to 1 GiB",
            Self::File(_) => "files of 1 GiB and more",
        }
    }
}

/// Returns the shortest time of a bucket, in ns.
#[must_use]
pub const fn shortest(bucket: usize) -> u64 {
    let (log, part) = (bucket as u64 / 4, bucket as u64 % 4);
    match log {
        0 => part,
        1 => 2 + part / 2,
        _ => (4 + part) << (log - 2),
    }
}

/// Counts of calls, by bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies(BTreeMap<(Call, Class), BTreeMap<usize, u64>>);

impl Latencies {
    /// Adds calls that took times of a bucket; later buckets count as the last one.
    pub fn add(&mut self, call: Call, class: Class, bucket: usize, calls: u64) {
        if calls > 0 {
            let counts = self.0.entry((call, class)).or_default();
            let count = counts.entry(bucket.min(BUCKETS - 1)).or_default();
            *count = count.saturating_add(calls);
        }
    }

    /// Adds all calls of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (call, class, counts) in other.rows() {
            counts.for_each(|(bucket, calls)| self.add(call, class, bucket, calls));
        }
    }

    /// Returns the calls since the counts were `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut since = Self::default();
        for (call, class, counts) in self.rows() {
            let was = before.0.get(&(call, class));
            for (bucket, calls) in counts {
                let was = was.and_then(|counts| counts.get(&bucket)).copied().unwrap_or(0);
                since.add(call, class, bucket, calls.saturating_sub(was));
            }
        }
        since
    }

    /// Returns true if no calls were measured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the buckets that are not empty, in ascending order, with their numbers of calls, for
    /// each call and class.
    pub fn rows(&self) -> impl Iterator<Item = (Call, Class, impl Iterator<Item = (usize, u64)>)> {
        self.0.iter().map(|(&(call, class), counts)| {
            (call, class, counts.iter().map(|(&bucket, &calls)| (bucket, calls)))
        })
    }

    /// Returns the lines of the metadata: see `docs/SPEC-trace.md`.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.rows().map(|(call, class, counts)| {
            let class = match class {
                Class::Directory => "directory".to_owned(),
                Class::File(bytes) => bytes.to_string(),
            };
            let counts = counts.map(|(bucket, calls)| format!(" {}:{calls}", shortest(bucket)));
            [format!("{} {class}", call.name())].into_iter().chain(counts).collect()
        })
    }

    /// Adds the calls of a line of the metadata; returns false if it is not one.
    pub(crate) fn add_line(&mut self, line: &str) -> bool {
        let mut words = line.split(' ');
        let call = words.next().and_then(|word| Call::ALL.iter().find(|(_, name)| *name == word));
        let class = words.next().and_then(|word| match word {
            "directory" => Some(Class::Directory),
            bytes => Class::ALL
                .into_iter()
                .find(|class| u64::from_str(bytes).is_ok_and(|n| *class == Class::File(n))),
        });
        let (Some(&(call, _)), Some(class)) = (call, class) else { return false };
        words.all(|word| {
            let pair =
                word.split_once(':').and_then(|(ns, calls)| Some((ns.parse().ok()?, calls.parse().ok()?)));
            let Some((ns, calls)) = pair else { return false };
            self.add(call, class, bucket_of(ns), calls);
            true
        })
    }
}

/// Writes for each call and class the call, the smallest size of the class (none for directories),
/// and the buckets that are not empty as `[shortest time in ns, calls]`.
impl Serialize for Latencies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row {
            call: Call,
            from_bytes: Option<u64>,
            ns: Vec<(u64, u64)>,
        }
        serializer.collect_seq(self.rows().map(|(call, class, counts)| {
            let from_bytes = match class {
                Class::Directory => None,
                Class::File(bytes) => Some(bytes),
            };
            let ns = counts.map(|(bucket, calls)| (shortest(bucket), calls)).collect();
            Row { call, from_bytes, ns }
        }))
    }
}

/// Returns the bucket of a time in ns, as `bpf/latency.h` of the recorder computes it.
#[must_use]
pub fn bucket_of(ns: u64) -> usize {
    let log = ns.max(1).ilog2();
    let part = if log < 2 { 0 } else { ns >> (log - 2) & 3 };
    // Both are small.
    #[allow(clippy::cast_possible_truncation)]
    let bucket = (log as usize) * 4 + part as usize;
    bucket.min(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: buckets adjoin, and each is at most a quarter wide.
    #[test]
    fn buckets_adjoin() {
        for bucket in 8..BUCKETS {
            let ns = shortest(bucket);
            assert_eq!(
                (bucket_of(ns), bucket_of(ns - 1)),
                (bucket, if bucket == 8 { 4 } else { bucket - 1 })
            );
            assert!((ns - shortest(bucket - 1).max(ns * 3 / 4)) * 4 <= ns, "{bucket}");
        }
        assert_eq!((bucket_of(0), bucket_of(u64::MAX)), (0, BUCKETS - 1));
    }

    /// Promise: what is written into the metadata is read as it was, sums and differences are those
    /// of the counts, and a line that is wrong is refused.
    #[test]
    fn lines() {
        let mut all = Latencies::default();
        for (n, (call, _)) in Call::ALL.into_iter().enumerate() {
            for (m, class) in Class::ALL.into_iter().enumerate() {
                all.add(call, class, 20 + n, 1 + m as u64);
                all.add(call, class, BUCKETS + m, 5);
            }
        }
        let mut read = Latencies::default();
        assert!(all.lines().all(|line| read.add_line(&line)));
        assert_eq!(read, all);
        read.merge(&all);
        assert_eq!(read.since(&all), all);
        assert!(all.since(&all).is_empty());
        for wrong in ["", "read", "read 5 1:1", "seek 0 1:1", "read 0 1", "read 0 x:1", "read 0 1:-1"] {
            assert!(!read.add_line(wrong), "{wrong}");
        }
    }
}
