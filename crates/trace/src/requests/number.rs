//! Blocks get numbers in the order in which they come, so that those asked for often, which come
//! early, lie together.

use super::{Request, Requests};
use crate::Result;
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::hash::Hash;

/// Requests with numbers for blocks: dense, from 0. When the data of a block is gone its number is
/// given to the next one that comes, so memory is that of the blocks that are there.
#[derive(Debug)]
pub struct Numbered<R: Requests> {
    requests: R,
    named: Vec<Request<R::Block>>,
    numbers: HashMap<R::Block, u32, FixedState>,
    free: Vec<u32>,
}

impl<R: Requests> Numbered<R> {
    /// Returns the numbers the blocks of these requests.
    pub(super) fn new(requests: R) -> Self {
        Self { requests, named: Vec::new(), numbers: HashMap::default(), free: Vec::new() }
    }

    /// Returns how many blocks have numbers now.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.numbers.len()
    }
}

impl<R: Requests<Block: Eq + Hash>> Requests for Numbered<R> {
    type Block = u32;

    /// Returns the blocks that nobody has used cannot go: such requests are left out.
    ///
    /// # Panics
    /// With 2^32 blocks.
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
                    Request::Gone(block) => {
                        if let Some(number) = self.numbers.remove(&block) {
                            self.free.push(number);
                            batch.push(Request::Gone(number));
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
