//! Numbers blocks in the order in which they appear, so that frequent ones, which appear early,
//! have adjacent numbers.

use super::{Request, Requests};
use foldhash::fast::FixedState;
use spindle_trace::Result;
use std::collections::HashMap;
use std::hash::Hash;

/// Requests with dense block numbers from 0. The number of a deleted block is given to the next new
/// one, so memory depends on the blocks that exist.
#[derive(Debug)]
pub struct Numbered<R: Requests> {
    requests: R,
    named: Vec<Request<R::Block>>,
    numbers: HashMap<R::Block, u32, FixedState>,
    free: Vec<u32>,
}

impl<R: Requests> Numbered<R> {
    /// Returns these requests with block numbers.
    pub(super) fn new(requests: R) -> Self {
        Self { requests, named: Vec::new(), numbers: HashMap::default(), free: Vec::new() }
    }

    /// Returns the number of blocks that have numbers.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.numbers.len()
    }
}

impl<R: Requests<Block: Eq + Hash>> Requests for Numbered<R> {
    type Block = u32;

    /// Returns the next requests; leaves out deletions of blocks that were never used.
    ///
    /// # Panics
    /// Panics with 2^32 blocks.
    fn next(&mut self, batch: &mut Vec<Request<u32>>) -> Result<bool> {
        batch.clear();
        while batch.is_empty() {
            if !self.requests.next(&mut self.named)? {
                return Ok(false);
            }
            for &request in &self.named {
                match request {
                    Request::Use(block) => {
                        let used = self.numbers.len() + self.free.len();
                        let free = &mut self.free;
                        let number = *self.numbers.entry(block).or_insert_with(|| {
                            free.pop().unwrap_or_else(|| u32::try_from(used).expect("blocks fit into memory"))
                        });
                        batch.push(Request::Use(number));
                    }
                    Request::Deleted(block) => {
                        if let Some(number) = self.numbers.remove(&block) {
                            self.free.push(number);
                            batch.push(Request::Deleted(number));
                        }
                    }
                }
            }
        }
        Ok(true)
    }

    fn progress(&self) -> Option<f64> {
        self.requests.progress()
    }
}
