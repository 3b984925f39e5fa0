//! Memory that the kernel fills and reads.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// What the kernel copies fastest from and to.
const PAGE_BYTES: usize = 4096;

/// Bytes at a fixed address, zeros at first. While the kernel may use them, nobody may look at them
/// or free them; that is up to the owner.
#[derive(Debug)]
pub(crate) struct Buffer {
    start: NonNull<u8>,
    len: usize,
}

impl Buffer {
    /// Allocates `len` bytes, at least one. Memory is taken as it is used.
    #[allow(unsafe_code)] // The only allocation with a chosen alignment.
    pub(crate) fn new(len: usize) -> Self {
        let layout = Self::layout(len);
        // SAFETY: the layout has a size that is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Self { start, len }
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len.max(1), PAGE_BYTES).expect("a size below that of the address space")
    }

    /// Returns the address, for the kernel.
    pub(crate) fn address(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Drop for Buffer {
    #[allow(unsafe_code)] // Frees the allocation of `new`.
    fn drop(&mut self) {
        // SAFETY: `new` has allocated it with the same layout.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.len)) }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[allow(unsafe_code)] // Views the owned allocation.
    fn deref(&self) -> &[u8] {
        // SAFETY: the allocation has `len` initialised bytes, and borrows follow those of `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    #[allow(unsafe_code)] // Views the owned allocation.
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

// SAFETY: the allocation belongs to this value alone.
#[allow(unsafe_code)]
unsafe impl Send for Buffer {}
