//! Mappings of 2 MiB pages, from which blocks are taken. A large block has a mapping of its own.
//! Blocks smaller than a page, such as the matrices of a small model, share one. It deals with
//! addresses and lengths only.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The page that mappings are aligned to.
const HUGE: usize = 2 << 20;

/// Bytes of a mapping that blocks share. Pages that no block has reached cost only address space.
const SHARED: usize = 32 << 20;

/// Blocks smaller than this come from the heap: they are too small to matter.
const LEAST: usize = 32 << 10;

/// Alignment of blocks: two cache lines, which processors fetch together.
const ALIGN: usize = 128;

/// The mapping from which small blocks are taken; it ends with its last block.
static CURRENT: Mutex<Weak<Slab>> = Mutex::new(Weak::new());

/// A private, zeroed mapping that is divided into blocks. It ends with the last of them.
pub(super) struct Slab {
    /// The whole mapping.
    mapping: *mut u8,
    mapped: usize,
    /// The part after its first 2 MiB boundary.
    start: *mut u8,
    len: usize,
    /// Whether several blocks are taken from it.
    shared: bool,
    /// How many bytes from `start` on have been handed out. They are not handed out again, because
    /// a block must be zero.
    used: AtomicUsize,
}

// SAFETY: the mapping belongs to the slab alone; its blocks do not overlap, and the counter that
// divides it is atomic.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

/// `len` zero bytes and the mapping that they belong to; `None` if they are too few or the system
/// refuses.
pub(super) fn take(len: usize) -> Option<(Arc<Slab>, *mut u8)> {
    if len < LEAST {
        return None;
    }
    if len >= HUGE {
        let slab = Arc::new(Slab::map(len, false)?);
        let start = slab.part(len)?;
        return Some((slab, start));
    }
    let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(slab) = current.upgrade()
        && let Some(start) = slab.part(len)
    {
        return Some((slab, start));
    }
    let slab = Arc::new(Slab::map(SHARED, true)?);
    let start = slab.part(len)?;
    *current = Arc::downgrade(&slab);
    Some((slab, start))
}

impl Slab {
    fn map(len: usize, shared: bool) -> Option<Self> {
        let mapped = len.checked_add(HUGE)?;
        // SAFETY: a fresh private anonymous mapping, at no address in particular.
        let mapping = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if mapping == libc::MAP_FAILED {
            return None;
        }
        let mapping = mapping.cast::<u8>();
        // SAFETY: the boundary is less than HUGE away, so it and the `len` bytes from there lie
        // within the mapping of len + HUGE bytes.
        let start = unsafe { mapping.add(mapping.align_offset(HUGE)) };
        // If the advice is refused, only speed is lost, so the result is ignored.
        #[cfg(target_os = "linux")]
        // SAFETY: start..start + len lies within the mapping.
        unsafe {
            libc::madvise(start.cast(), len, libc::MADV_HUGEPAGE);
        }
        Some(Self { mapping, mapped, start, len, shared, used: AtomicUsize::new(0) })
    }

    /// The next `len` bytes, if that many are left.
    fn part(&self, len: usize) -> Option<*mut u8> {
        let taken = |used: usize| {
            let end = used.checked_add(len)?;
            (end <= self.len).then_some(end.next_multiple_of(ALIGN))
        };
        let at = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).ok()?;
        // SAFETY: at + len lies within the mapping.
        Some(unsafe { self.start.add(at) })
    }

    /// Returns the memory of a block to the system at once, except the pages that it shares with
    /// its neighbours. The address space is returned with the mapping.
    ///
    /// # Safety
    /// [`take`] handed out `len` bytes from `start` on, and nothing uses them any more.
    pub(super) unsafe fn give_back(&self, start: *mut u8, len: usize) {
        if !self.shared {
            // The whole mapping is about to end.
            return;
        }
        // SAFETY: the call takes no pointers.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(HUGE);
        let first = start.align_offset(page);
        let whole = len.saturating_sub(first) / page * page;
        if whole > 0 {
            // SAFETY: whole pages inside the caller's block. If the advice is refused, the memory
            // is returned with the rest of the mapping.
            unsafe {
                libc::madvise(start.add(first).cast(), whole, libc::MADV_DONTNEED);
            }
        }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: this mapping was made in `map`, and none of its blocks is left.
        unsafe {
            libc::munmap(self.mapping.cast(), self.mapped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether two blocks are in the same mapping.
    fn together(a: &Arc<Slab>, b: &Arc<Slab>) -> bool {
        Arc::ptr_eq(a, b)
    }

    #[test]
    fn small_blocks_lie_side_by_side_and_are_zero_again_after_others_went() {
        let fill = |start: *mut u8, len: usize| {
            // SAFETY: a block of `len` bytes that this test took.
            let block = unsafe { std::slice::from_raw_parts_mut(start, len) };
            assert!(block.iter().all(|&b| b == 0), "not zero");
            block.fill(7);
        };
        let len = (1 << 20) + 5;
        let (slab, first) = take(len).unwrap();
        fill(first, len);
        let mut blocks = vec![(slab, first)];
        for _ in 0..200 {
            let (slab, start) = take(len).unwrap();
            assert_eq!(start as usize % ALIGN, 0);
            fill(start, len);
            let (before, at) = blocks.last().unwrap();
            if together(before, &slab) {
                assert!(start as usize >= *at as usize + len, "blocks overlap");
            }
            blocks.push((slab, start));
            if blocks.len() > 20 {
                let (slab, start) = blocks.remove(0);
                // SAFETY: taken above and not used again.
                unsafe { slab.give_back(start, len) };
            }
        }
        assert!(blocks.windows(2).any(|two| together(&two[0].0, &two[1].0)), "none share");
    }

    #[test]
    fn a_block_that_was_given_back_leaves_its_neighbours_alone() {
        let len = 300 << 10;
        let blocks: Vec<_> = (0..9).map(|_| take(len).unwrap()).collect();
        for &(_, start) in &blocks {
            // SAFETY: blocks of `len` bytes that this test took.
            unsafe { start.write_bytes(3, len) };
        }
        for (slab, start) in blocks.iter().step_by(2) {
            // SAFETY: not used again.
            unsafe { slab.give_back(*start, len) };
        }
        for (_, start) in blocks.iter().skip(1).step_by(2) {
            // SAFETY: these blocks are still taken.
            let block = unsafe { std::slice::from_raw_parts(*start, len) };
            assert!(block.iter().all(|&b| b == 3));
        }
    }

    #[test]
    fn large_blocks_have_a_mapping_of_their_own_and_tiny_ones_none() {
        let ((a, start), (b, _)) = (take(HUGE).unwrap(), take(HUGE).unwrap());
        assert!(!together(&a, &b) && (start as usize).is_multiple_of(HUGE));
        assert!(take(LEAST - 1).is_none() && take(usize::MAX - 5).is_none());
    }
}
