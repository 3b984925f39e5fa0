//! Memory for direct I/O.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// An owned buffer, aligned to [`AlignedBuf::ALIGN`].
pub struct AlignedBuf {
    start: NonNull<u8>,
    /// The bytes that are initialised.
    len: usize,
    /// The bytes that are allocated.
    capacity: usize,
}

impl AlignedBuf {
    /// Alignment in bytes: a page, which is enough for every device.
    pub const ALIGN: usize = 4096;

    /// Returns a buffer of `len` zero bytes.
    #[must_use]
    #[allow(unsafe_code)] // An allocation with a chosen alignment.
    pub fn zeroed(len: usize) -> Self {
        let layout = Self::layout(len);
        // SAFETY: the layout's size is never zero.
        Self { start: Self::found(unsafe { alloc_zeroed(layout) }, layout), len, capacity: len }
    }

    /// Returns an empty buffer with space for `capacity` bytes.
    #[must_use]
    #[allow(unsafe_code)] // An allocation with a chosen alignment.
    pub fn with_capacity(capacity: usize) -> Self {
        let layout = Self::layout(capacity);
        // SAFETY: the layout's size is never zero.
        Self { start: Self::found(unsafe { alloc(layout) }, layout), len: 0, capacity }
    }

    /// Returns for how many more bytes there is space.
    #[must_use]
    pub const fn spare(&self) -> usize {
        self.capacity - self.len
    }

    /// Appends bytes, for which there must be space.
    ///
    /// # Panics
    /// If there is not.
    #[allow(unsafe_code)] // Writes into the owned allocation.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.spare(), "a buffer does not grow");
        // SAFETY: the allocation has as many bytes behind `len`, which nothing else refers to.
        unsafe { self.start.as_ptr().add(self.len).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        self.len += bytes.len();
    }

    fn found(start: *mut u8, layout: Layout) -> NonNull<u8> {
        NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout))
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len.max(1), Self::ALIGN)
            .expect("a buffer is far smaller than the address space")
    }
}

impl Drop for AlignedBuf {
    #[allow(unsafe_code)] // Frees the allocation.
    fn drop(&mut self) {
        // SAFETY: `start` came from the allocator with this very layout, and is freed once.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.capacity)) }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    #[allow(unsafe_code)] // Views the owned allocation.
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` points at `len` initialised bytes that this value owns.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    #[allow(unsafe_code)] // Views the owned allocation.
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the view the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

// SAFETY: the buffer owns its bytes; nothing is shared between values.
#[allow(unsafe_code)]
unsafe impl Send for AlignedBuf {}
// SAFETY: shared access only reads.
#[allow(unsafe_code)]
unsafe impl Sync for AlignedBuf {}

impl From<&[u8]> for AlignedBuf {
    fn from(bytes: &[u8]) -> Self {
        let mut buf = Self::with_capacity(bytes.len());
        buf.extend_from_slice(bytes);
        buf
    }
}

impl Clone for AlignedBuf {
    fn clone(&self) -> Self {
        Self::from(&**self)
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuf({} bytes)", self.len)
    }
}
