//! Zeroed memory for weights and caches, in 2 MiB pages where the system provides them: reading the
//! same bytes is then about twice as fast as through 4 KiB pages. It deals with bytes only.

use std::ops::{Deref, DerefMut};
#[cfg(unix)]
use std::sync::Arc;

#[cfg(unix)]
use super::slab::{self, Slab};

/// Alignment of every allocation: a cache line.
const LINE: usize = 64;

/// The system could not provide the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot allocate {bytes} bytes of memory; close other programs, or choose a smaller model or \
    context"
)]
pub struct OutOfMemory {
    /// The requested bytes.
    pub bytes: usize,
}

/// An owned, zeroed, cache-line-aligned block of bytes. A page becomes resident only when it is
/// written or read.
pub struct Pages {
    start: *mut u8,
    len: usize,
    origin: PageOrigin,
}

enum PageOrigin {
    Heap,
    /// A mapping of its own, or a part of one.
    #[cfg(unix)]
    Mapped(Arc<Slab>),
}

// SAFETY: `Pages` owns its memory alone, like a `Box<[u8]>`.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// `len` zero bytes.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn zeroed(len: usize) -> Result<Self, OutOfMemory> {
        #[cfg(unix)]
        if let Some(pages) = Self::mapped(len) {
            return Ok(pages);
        }
        let failed = OutOfMemory { bytes: len };
        let layout = layout(len).ok_or(failed)?;
        // SAFETY: the layout's size is not zero.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        if start.is_null() {
            return Err(failed);
        }
        Ok(Self { start, len, origin: PageOrigin::Heap })
    }

    /// A block of 2 MiB pages, if it is large enough and the system provides it.
    #[cfg(unix)]
    fn mapped(len: usize) -> Option<Self> {
        let (slab, start) = slab::take(len)?;
        Some(Self { start, len, origin: PageOrigin::Mapped(slab) })
    }
}

/// The layout of a heap block; never of size 0.
fn layout(len: usize) -> Option<std::alloc::Layout> {
    std::alloc::Layout::from_size_align(len.max(1), LINE).ok()
}

impl Drop for Pages {
    fn drop(&mut self) {
        match &self.origin {
            PageOrigin::Heap => {
                if let Some(layout) = layout(self.len) {
                    // SAFETY: allocated in `zeroed` with the same layout.
                    unsafe { std::alloc::dealloc(self.start, layout) };
                }
            }
            #[cfg(unix)]
            // SAFETY: `mapped` took this block from this slab, and nothing else uses it.
            PageOrigin::Mapped(slab) => unsafe { slab.give_back(self.start, self.len) },
        }
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes at `start` are owned and initialised (to zero).
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_blocks_are_zero_aligned_and_writable() {
        for len in [0, 1, 100, 4096, (2 << 20) - 1, 2 << 20, (5 << 20) + 123] {
            let mut pages = Pages::zeroed(len).unwrap();
            assert_eq!(pages.len(), len);
            assert_eq!(pages.as_ptr() as usize % LINE, 0);
            assert!(pages.iter().all(|&b| b == 0));
            pages.fill(7);
            assert!(pages.iter().all(|&b| b == 7));
        }
    }

    #[test]
    fn an_allocation_that_fails_is_an_error() {
        let bytes = usize::MAX / 4;
        // Without this the optimiser would remove the unused allocation.
        let pages = std::hint::black_box(Pages::zeroed(bytes));
        assert_eq!(pages.err(), Some(OutOfMemory { bytes }));
    }
}
