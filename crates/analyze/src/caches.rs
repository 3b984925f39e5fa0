//! The last two lines of Table I: the effect of caches on the trace ([`spindle_cachesim`]).

use super::outcome::percent;
use super::parts::{Count, Each, How, Part, Read, Reader, number};
use spindle_cachesim::replacement::PolicyName;
use spindle_cachesim::{CacheGrid, Extras, GridResult, Write};
use spindle_report::number::share;

/// Block sizes in bytes, as in the paper's Table VII.
const BLOCKS: [u32; 6] = [1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10];
/// Cache sizes in bytes: a small and a large cache of 1985.
const SMALL: u64 = 400 << 10;
const LARGE: u64 = 4 << 20;
/// Block size of the first sentence, in bytes.
const BLOCK: u32 = 4 << 10;

/// The effect of caches, for Table I.
#[derive(Clone, Debug, PartialEq)]
pub struct Caches {
    /// Lowest and highest share of accesses to 4096-byte blocks that a cache of 4 MB serves without
    /// the disk, over all write policies; `None` without accesses.
    pub saved: Option<(f64, f64)>,
    /// Block sizes in bytes with the fewest disk accesses, for caches of 400 KB and 4 MB with
    /// delayed writes.
    pub best: Option<(u32, u32)>,
}

impl Caches {
    /// Returns the simulations that Table I needs; together they need all numeric columns.
    #[must_use]
    pub fn grids() -> Vec<CacheGrid> {
        let grid = |block| CacheGrid {
            block,
            extras: Extras::default(),
            sizes: vec![SMALL, LARGE],
            policies: vec![PolicyName::Lru],
            writes: Write::PAPER.to_vec(),
            ages: false,
        };
        BLOCKS.map(grid).into()
    }

    /// Evaluates the results of [`Caches::grids`].
    #[must_use]
    pub fn of(results: &[GridResult]) -> Self {
        CacheSums::of(results).caches()
    }

    /// Returns the two sentences, with the paper's figures if `paper` is set.
    #[must_use]
    pub fn sentences(&self, paper: bool) -> Vec<String> {
        let then = |text: &str| if paper { format!(" (1985: {text})") } else { String::new() };
        let mut sentences = Vec::new();
        if let Some((least, most)) = self.saved {
            sentences.push(format!(
                "A cache of 4 MB saves between {} and {} of all disk accesses for file data, depending on its write policy{}.",
                percent(Some(least)),
                percent(Some(most)),
                then("65 to 90 %")
            ));
        }
        if let Some((small, large)) = self.best {
            sentences.push(format!(
                "A cache of 400 KB needs the fewest disk accesses with blocks of {} KB{}, one of 4 MB with blocks of {} KB{}.",
                small >> 10,
                then("8 KB"),
                large >> 10,
                then("16 KB")
            ));
        }
        sentences
    }
}

/// The results of [`Caches::grids`] that [`Caches`] needs: the accesses to blocks and to the disk
/// of each cache, in the order of the grids, their sizes and their write policies.
#[derive(Clone, Debug)]
pub(super) struct CacheSums(Vec<[u64; 2]>);

impl CacheSums {
    pub(super) fn of(results: &[GridResult]) -> Self {
        let cells = results.iter().flat_map(|result| &result.cells);
        Self(cells.map(|cell| [cell.counts.accesses(), cell.counts.ios()]).collect())
    }

    /// Returns the block sizes, cache sizes and write policies, in the order of the results.
    fn order() -> impl Iterator<Item = (u32, u64, Write)> {
        let caches = |size| Write::PAPER.map(|write| (size, write));
        BLOCKS.into_iter().flat_map(move |block| {
            [SMALL, LARGE].into_iter().flat_map(caches).map(move |(size, write)| (block, size, write))
        })
    }

    pub(super) fn caches(&self) -> Caches {
        let used = || Self::order().zip(&self.0).filter(|(_, [accesses, _])| *accesses > 0);
        let saved = used()
            .filter(|((block, size, _), _)| (*block, *size) == (BLOCK, LARGE))
            .map(|(_, &[accesses, ios])| 1.0 - share(ios, accesses).unwrap_or(0.0))
            .fold(None, |range: Option<(f64, f64)>, saved| {
                let (least, most) = range.unwrap_or((saved, saved));
                Some((least.min(saved), most.max(saved)))
            });
        let best = |wanted| {
            let of = used().filter(|((_, size, write), _)| (*size, *write) == (wanted, Write::Delayed));
            of.min_by_key(|(_, [_, ios])| *ios).map(|((block, _, _), _)| block)
        };
        Caches { saved, best: best(SMALL).zip(best(LARGE)) }
    }
}

impl Part for CacheSums {
    fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(into, cell)| Each::<Count>::merge(into, cell));
    }

    fn write(&self, out: &mut Vec<u8>) {
        number(self.0.len() as u64, out);
        for cell in &self.0 {
            Each::<Count>::write(cell, out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Read<Self> {
        let len = from.number()?;
        from.expect(len == Self::order().count() as u64, "another number of caches")?;
        (0..len).map(|_| Each::<Count>::read(from)).collect::<Read<_>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MemorySource, small};
    use super::*;
    use spindle_cachesim::simulate;
    use spindle_trace::{Batch, Info, Names};

    /// Promise: a simulation gives two sentences, an empty trace none. The small trace in blocks of
    /// 4096 bytes: one block is read; of a new file one is written, then the same one and the next;
    /// one is read; one is read and written. Of these seven accesses three read from the disk. Four
    /// write to it with write-through, none with delayed writes.
    #[test]
    fn sentences() {
        let given = |events| {
            let batch = Batch { events, names: Names::default() };
            let mut source = MemorySource(Some(batch), Info::default());
            Caches::of(&simulate(&mut source, &Caches::grids(), &|_| ()).unwrap().results)
        };
        let nothing = given(Vec::new());
        assert_eq!((nothing.saved, nothing.sentences(true).len()), (None, 0));
        let found = given(small());
        let text = found.sentences(true).join(" ");
        assert!(text.contains("(1985: 65 to 90 %)") && text.contains("A cache of 400 KB"), "{text}");
        assert!(!found.sentences(false).join(" ").contains("1985"));
        let (least, most) = found.saved.unwrap();
        assert!((least - 0.0).abs() < 1e-9 && (most - 4.0 / 7.0).abs() < 1e-9, "{least} {most}");
    }
}
