//! Independent parts of an experiment at the same time.

use crate::Result;
use spindle_clock::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Parts that run at the same time: each may hold a whole disk in memory.
const PARTS: usize = 2;

/// Does `work` with each of `items`, a few at a time, and returns the results in the order of the
/// items.
///
/// # Errors
/// The first of the work's, in that order.
pub fn at_once<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(usize, &T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<R>>>> = items.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..PARTS.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(n) else { return };
                    *results[n].lock() = Some(work(n, item));
                }
            });
        }
    });
    // Each has been set, unless a thread has panicked, and then so has the scope.
    results.into_iter().filter_map(Mutex::into_inner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    /// Promise: results come in the order of the items, and the first error in that order counts.
    #[test]
    fn order_is_kept() {
        let items: Vec<u64> = (0..50).collect();
        let doubled = at_once(&items, |n, item| Ok(n as u64 + item)).unwrap();
        assert_eq!(doubled, items.iter().map(|item| 2 * item).collect::<Vec<_>>());
        let fails = |_, item: &u64| match item {
            7.. => Err(Error::Contradiction(item.to_string())),
            _ => Ok(()),
        };
        assert_eq!(at_once(&items, fails).unwrap_err().to_string(), "7");
    }
}
