//! The last two lines of Table I: what caches would do for the trace ([`crate::cachesim`]).

use super::outcome::percent;
use crate::cachesim::{Lane, Lot, Write};
use spindle_cache::policy::replacement::PolicyName;

/// Sizes of blocks in bytes: those of the paper's Table VII.
const BLOCKS: [u32; 6] = [1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10];
/// Sizes of caches in bytes: a small one and a large one of then.
const SMALL: u64 = 400 << 10;
const LARGE: u64 = 4 << 20;
/// The size of blocks of the first sentence.
const BLOCK: u32 = 4 << 10;

/// What caches save, after Table I.
#[derive(Clone, Debug, PartialEq)]
pub struct Caches {
    /// The part of all accesses of 4096-byte blocks that needs no disk with 4 MB: least and most
    /// over the policies of writing; nothing if there was no access.
    pub saved: Option<(f64, f64)>,
    /// The size of blocks, in bytes, with the fewest disk accesses at 400 KB and at 4 MB, written
    /// late.
    pub best: Option<(u32, u32)>,
}

impl Caches {
    /// Returns what Table I wants to be simulated; together it wants all columns of numbers.
    #[must_use]
    pub fn lanes() -> Vec<Lane> {
        let lane = |block| Lane {
            block,
            programs: false,
            sizes: vec![SMALL, LARGE],
            policies: vec![PolicyName::Lru],
            writes: Write::PAPER.to_vec(),
            ages: false,
        };
        BLOCKS.map(lane).into()
    }

    /// Returns what came of simulating [`Caches::lanes`].
    #[must_use]
    pub fn of(lots: &[Lot]) -> Self {
        let cells = || lots.iter().flat_map(|lot| &lot.cells).filter(|cell| cell.counts.accesses() > 0);
        let saved = cells()
            .filter(|cell| cell.block == BLOCK && cell.size == LARGE)
            .map(|cell| 1.0 - cell.counts.miss_ratio())
            .fold(None, |range: Option<(f64, f64)>, saved| {
                let (least, most) = range.unwrap_or((saved, saved));
                Some((least.min(saved), most.max(saved)))
            });
        let best = |size| {
            let of = cells().filter(|cell| cell.size == size && cell.write == Write::Delayed);
            of.min_by_key(|cell| cell.counts.ios()).map(|cell| cell.block)
        };
        Self { saved, best: best(SMALL).zip(best(LARGE)) }
    }

    /// Returns the two sentences; with what the paper says, if that is wanted.
    #[must_use]
    pub fn sentences(&self, paper: bool) -> Vec<String> {
        let then = |text: &str| if paper { format!(" (1985: {text})") } else { String::new() };
        let mut sentences = Vec::new();
        if let Some((least, most)) = self.saved {
            sentences.push(format!(
                "A cache of 4 MB spares between {} and {} of all disk accesses for file data, depending on when it writes{}.",
                percent(Some(least)),
                percent(Some(most)),
                then("65 to 90 %")
            ));
        }
        if let Some((small, large)) = self.best {
            sentences.push(format!(
                "With a cache of 400 KB blocks of {} KB need the fewest disk accesses{}, with one of 4 MB those of {} KB{}.",
                small >> 10,
                then("8 KB"),
                large >> 10,
                then("16 KB")
            ));
        }
        sentences
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Given, small};
    use super::*;
    use crate::cachesim::simulate;
    use crate::{Batch, Info, Names};

    /// Promise: two sentences are made of a simulation, none of an empty trace. The small trace in
    /// blocks of 4096 bytes: one is read; of a new file one is written, then the same and the next;
    /// one is read; one is read and written. Of the seven accesses three come from the disk, and
    /// four go there at once, or, written late, none.
    #[test]
    fn sentences() {
        let given = |events| {
            let batch = Batch { events, names: Names::default() };
            let mut source = Given(Some(batch), Info::default());
            Caches::of(&simulate(&mut source, &Caches::lanes(), &|_| ()).unwrap().lots)
        };
        let nothing = given(Vec::new());
        assert_eq!((nothing.saved, nothing.sentences(true).len()), (None, 0));
        let found = given(small());
        let text = found.sentences(true).join(" ");
        assert!(text.contains("(1985: 65 to 90 %)") && text.contains("With a cache of 400 KB"), "{text}");
        assert!(!found.sentences(false).join(" ").contains("1985"));
        let (least, most) = found.saved.unwrap();
        assert!((least - 0.0).abs() < 1e-9 && (most - 4.0 / 7.0).abs() < 1e-9, "{least} {most}");
    }
}
