//! Replacement policies: which block a cache of a fixed number of blocks evicts. Blocks are small
//! numbers.
//!
//! Numbers index arrays, so an access neither hashes nor allocates; arrays grow to the largest
//! number seen. Each policy follows its paper, with the parameters named and set as published; its
//! file names the paper. Blocks can also be removed ([`Replacement::remove`]), which none of the
//! papers has: a removed block leaves every list and history, because its number may be given to
//! other data.

mod arc;
mod clock;
mod fifo;
mod lirs;
mod lru;
mod marks;
mod opt;
mod placed;
mod s3_fifo;
mod sieve;
mod two_q;
mod w_tiny_lfu;

pub use arc::Arc;
pub use clock::Clock;
pub use fifo::Fifo;
pub use lirs::Lirs;
pub use lru::Lru;
pub use opt::Opt;
pub use s3_fifo::S3Fifo;
pub use sieve::Sieve;
pub use two_q::TwoQ;
pub use w_tiny_lfu::WTinyLfu;

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// A replacement policy for blocks that are small numbers.
pub trait Replacement {
    /// Uses block `key`, and returns true if it was in the cache. Otherwise it is brought in, and
    /// `evicted` is called with each block that had to leave for it.
    ///
    /// # Panics
    /// With a number close to 2^32.
    fn access(&mut self, key: u32, evicted: impl FnMut(u32)) -> bool;

    /// Removes block `key`, for example because its file was deleted. Returns false if it was not
    /// in the cache.
    fn remove(&mut self, key: u32) -> bool;

    /// Returns true if block `key` is in the cache.
    fn contains(&self, key: u32) -> bool;

    /// Returns the number of blocks in the cache.
    fn len(&self) -> usize;

    /// Returns true if the cache is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Declares the policies once: variant, name, summary.
macro_rules! policies {
    ($($variant:ident $name:literal $summary:literal,)*) => {
        /// The name of a policy.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum PolicyName {
            $(#[doc = $summary] $variant,)*
        }

        impl PolicyName {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the name, as users write it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns a description of one line.
            #[must_use]
            pub const fn summary(self) -> &'static str {
                match self { $(Self::$variant => $summary,)* }
            }
        }

        /// Any policy.
        #[derive(Clone, Debug)]
        pub enum Policy {
            $(#[doc = $summary] $variant($variant),)*
        }

        impl Policy {
            /// Returns the policy of this name for a cache of `capacity` blocks, with the
            /// parameters that its paper gives it.
            #[must_use]
            pub fn new(name: PolicyName, capacity: NonZeroU32) -> Self {
                match name { $(PolicyName::$variant => Self::$variant($variant::new(capacity)),)* }
            }

            /// Returns its name.
            #[must_use]
            pub const fn name(&self) -> PolicyName {
                match self { $(Self::$variant(_) => PolicyName::$variant,)* }
            }
        }

        impl Replacement for Policy {
            #[inline]
            fn access(&mut self, key: u32, evicted: impl FnMut(u32)) -> bool {
                match self { $(Self::$variant(policy) => policy.access(key, evicted),)* }
            }

            fn remove(&mut self, key: u32) -> bool {
                match self { $(Self::$variant(policy) => policy.remove(key),)* }
            }

            #[inline]
            fn contains(&self, key: u32) -> bool {
                match self { $(Self::$variant(policy) => policy.contains(key),)* }
            }

            fn len(&self) -> usize {
                match self { $(Self::$variant(policy) => policy.len(),)* }
            }
        }
    };
}

policies! {
    Lru "lru" "gives up the block that was used longest ago",
    Fifo "fifo" "gives up the block that came first",
    Clock "clock" "a queue that gives blocks used since a second chance",
    TwoQ "2q" "a short queue for new blocks, a list for those asked for again after it",
    Arc "arc" "recency and frequency, with a border that what was lost moves",
    Lirs "lirs" "keeps blocks whose last two uses were close to each other",
    S3Fifo "s3-fifo" "a small queue before the main one, and a memory of what the small one lost",
    Sieve "sieve" "a queue whose hand spares used blocks where they are",
    WTinyLfu "w-tinylfu" "a window before a main part that only what is used more often enters",
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// No policy has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy(String);

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<_> = PolicyName::ALL.iter().map(|name| name.as_str()).collect();
        write!(f, "no replacement policy is called {:?}; there are {}", self.0, known.join(", "))
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for PolicyName {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        let wanted = text.to_ascii_lowercase();
        let found = Self::ALL.iter().find(|name| name.as_str() == wanted);
        found.copied().ok_or_else(|| UnknownPolicy(text.to_owned()))
    }
}

#[cfg(test)]
mod tests;
