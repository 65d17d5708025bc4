//! The formats of 32-weight blocks with codes of four, five or eight bits. Each is described once,
//! for packing and for products. It does not depend on either of those loops.
//!
//! In a file, a block is its scale, its minimum, the fifth bits of its codes and then 16 bytes of
//! their low bits, without the parts that the format does not have. In a tile, the blocks of a
//! group share the lines of scales and of minima; then come, for each block, its line of fifth bits
//! and its low bits.

use half::f16;

use super::block::{FP4_LEVELS, IQ4_LEVELS, LINE, LOW, half_at};
use super::format::Format;
use super::lanes::{LANES, Lanes};

/// A weight is scale · (code or its level − zero point) + minimum.
pub(super) trait Codes: 'static {
    const FORMAT: Format;
    /// Blocks in a group.
    const BLOCKS: usize = 2;
    /// Bytes of a scale, both in a file and in a tile.
    const SCALE: usize = 2;
    /// Whether blocks have minima.
    const MINIMA: bool = false;
    /// Whether codes have a fifth bit.
    const FIFTH: bool = false;
    /// Whether codes have eight bits; in a file they are then signed.
    const EIGHT: bool = false;
    /// The zero point of the codes, or of the shifted levels that they stand for.
    const ZERO: u8;
    /// The levels that codes stand for; `None` if a code stands for itself.
    const LEVELS: Option<&'static Levels> = None;

    /// Bytes of a group before its codes.
    const HEAD: usize = if Self::MINIMA { 2 * LINE } else { LINE };
    /// Bytes of a block's codes in a tile.
    const CODES: usize = match (Self::EIGHT, Self::FIFTH) {
        (true, _) => 2 * LOW,
        (false, true) => LINE + LOW,
        (false, false) => LOW,
    };
    /// Bytes of a group.
    const BYTES: usize = Self::HEAD + Self::BLOCKS * Self::CODES;

    /// The scale at the start of `bytes`.
    fn scale(bytes: &[u8]) -> f32 {
        half_at(bytes, 0)
    }

    /// The scales of the `at`-th block of sixteen rows.
    ///
    /// # Safety
    /// `group` is a group of this format.
    #[inline(always)]
    unsafe fn scales<L: Lanes>(group: *const u8, at: usize) -> L::F {
        // SAFETY: the caller's promise.
        unsafe { L::load_f16(group.add(at * LANES * size_of::<f16>()).cast()) }
    }
}

/// The levels that 4-bit codes stand for.
pub(super) struct Levels {
    /// The levels themselves.
    pub(super) exact: [i8; 16],
    /// The levels shifted up to be unsigned, repeated four times: the table in which a product
    /// looks them up.
    pub(super) moved: [u8; LINE],
    /// By how much they are shifted.
    pub(super) up: u8,
}

/// The levels of IQ4_NL and IQ4_XS.
pub(super) static IQ4: Levels = Levels::new(IQ4_LEVELS, 128);
static FP4: Levels = Levels::new(FP4_LEVELS, 16);

impl Levels {
    pub(super) const fn new(exact: [i8; 16], up: u8) -> Self {
        let mut moved = [0; LINE];
        let mut i = 0;
        while i < LINE {
            moved[i] = (exact[i % 16] as u8).wrapping_add(up);
            i += 1;
        }
        Self { exact, moved, up }
    }
}

pub(super) struct Q8_0;
pub(super) struct Q4_0;
pub(super) struct Q4_1;
pub(super) struct Q5_0;
pub(super) struct Q5_1;
pub(super) struct Iq4Nl;
pub(super) struct Mxfp4;

impl Codes for Q8_0 {
    const FORMAT: Format = Format::Q8_0;
    const EIGHT: bool = true;
    const ZERO: u8 = 128;
}

impl Codes for Q4_0 {
    const FORMAT: Format = Format::Q4_0;
    const ZERO: u8 = 8;
}

impl Codes for Q4_1 {
    const FORMAT: Format = Format::Q4_1;
    const MINIMA: bool = true;
    const ZERO: u8 = 0;
}

impl Codes for Q5_0 {
    const FORMAT: Format = Format::Q5_0;
    const FIFTH: bool = true;
    const ZERO: u8 = 16;
}

impl Codes for Q5_1 {
    const FORMAT: Format = Format::Q5_1;
    const MINIMA: bool = true;
    const FIFTH: bool = true;
    const ZERO: u8 = 0;
}

impl Codes for Iq4Nl {
    const FORMAT: Format = Format::Iq4Nl;
    const ZERO: u8 = 128;
    const LEVELS: Option<&'static Levels> = Some(&IQ4);
}

impl Codes for Mxfp4 {
    const FORMAT: Format = Format::Mxfp4;
    const BLOCKS: usize = 4;
    const SCALE: usize = 1;
    const ZERO: u8 = 16;
    const LEVELS: Option<&'static Levels> = Some(&FP4);

    /// Half of 2^(byte − 127), because the levels are doubled.
    fn scale(bytes: &[u8]) -> f32 {
        f32::from_bits(match bytes[0] {
            exponent @ (0 | 1) => 0x0020_0000 << exponent,
            exponent => u32::from(exponent - 1) << 23,
        })
    }

    #[inline(always)]
    unsafe fn scales<L: Lanes>(group: *const u8, at: usize) -> L::F {
        // SAFETY: the caller's promise.
        unsafe { L::load_half_e8m0(group.add(at * LANES)) }
    }
}
