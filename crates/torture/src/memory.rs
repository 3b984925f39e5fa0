//! The memory that a case uses: an allocator that counts the bytes of each thread.
//!
//! A test binary declares `#[global_allocator] static MEMORY: Counting = Counting;`. Memory that
//! one thread allocates and another frees is counted in both; the code under test frees where it
//! allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The most bytes of one allocation. A larger one is refused, which ends the program.
const MOST_AT_ONCE: usize = 1 << 30;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, counting.
pub struct Counting;

fn count(bytes: usize, sign: isize) {
    let change = isize::try_from(bytes).unwrap_or(isize::MAX).wrapping_mul(sign);
    // The counters of a thread that is ending are gone.
    let _ = HELD.try_with(|held| {
        held.set(held.get().wrapping_add(change));
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

#[allow(unsafe_code)] // An allocator cannot be written otherwise.
// SAFETY: every call is passed on to the system's allocator unchanged, or refused with null.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > MOST_AT_ONCE {
            return std::ptr::null_mut();
        }
        count(layout.size(), 1);
        // SAFETY: the caller's guarantee about `layout` is the one needed.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() > MOST_AT_ONCE {
            return std::ptr::null_mut();
        }
        count(layout.size(), 1);
        // SAFETY: the caller's guarantee about `layout` is the one needed.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: `start` came from the system's allocator with this `layout`.
        unsafe { System.dealloc(start, layout) }
    }
}

/// Returns the result of `work`, and the most bytes that this thread held during it beyond those
/// held before: zero if [`Counting`] is not the allocator.
pub fn measure<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    PEAK.set(before);
    let value = work();
    (value, usize::try_from(PEAK.get() - before).unwrap_or(0))
}
