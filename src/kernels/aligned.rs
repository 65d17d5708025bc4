//! Numbers that begin on a cache line. Elsewhere a vector of 16 would lie on two lines, and loading
//! or storing it would take twice as long. It deals with memory only.

use std::ops::{Deref, DerefMut};

use super::lanes::LANES;

#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
struct CacheLine([f32; LANES]);

/// A vector of numbers that begins on a cache line.
#[derive(Clone, Debug, Default)]
pub struct AlignedFloats {
    lines: Vec<CacheLine>,
    len: usize,
}

impl AlignedFloats {
    /// `len` zeros.
    pub fn zeroed(len: usize) -> Self {
        let mut lines = Self::default();
        lines.resize(len);
        lines
    }

    /// Makes room for `len` numbers; new ones are 0, or what was there before.
    pub fn resize(&mut self, len: usize) {
        self.lines.resize(len.div_ceil(LANES), CacheLine::default());
        self.len = len;
    }
}

impl Deref for AlignedFloats {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // SAFETY: lines are numbers without gaps, and there are at least `len`.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for AlignedFloats {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above, and they are borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}

impl From<&[f32]> for AlignedFloats {
    fn from(numbers: &[f32]) -> Self {
        let mut lines = Self::zeroed(numbers.len());
        lines.copy_from_slice(numbers);
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_begin_on_a_cache_line_and_keep_their_places() {
        let numbers: Vec<f32> = (0..37).map(|i| i as f32).collect();
        let mut lines = AlignedFloats::from(&numbers[..]);
        assert_eq!(*lines, numbers[..]);
        assert!(lines.as_ptr().addr().is_multiple_of(64));
        lines.resize(20);
        assert_eq!(*lines, numbers[..20]);
        lines.resize(50);
        assert_eq!(lines.len(), 50);
        assert_eq!(lines[..20], numbers[..20]);
        assert_eq!(*AlignedFloats::zeroed(3), [0.0; 3]);
    }
}
