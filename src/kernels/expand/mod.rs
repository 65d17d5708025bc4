//! The formats whose blocks are expanded to 4-bit codes with a float scale for every 16 columns:
//! once if they are repacked, otherwise in every product. It deals with blocks, not with tiles or
//! products.
//!
//! Every value of these formats is exactly scale · level, and each format has at most 16 levels,
//! for which the codes stand.

mod codebooks;
mod iq;
mod plain;

use super::block::FP4_LEVELS;
use super::codes32::Levels;

pub(super) use iq::{iq1_m, iq1_s, iq2_s, iq2_xs, iq2_xxs, iq3_s, iq3_xxs};
pub(super) use plain::{nvfp4, q1_0, q2_0, tq1_0, tq2_0};

/// Expands a block of one format: writes its codes and the factor of every 16 of them, and returns
/// the unit; a scale is unit · factor, exactly. Factors are integers, or the bits of half floats
/// with the unit 1.
pub(super) type ExpandBlock = fn(block: &[u8], codes: &mut [u8], factors: &mut [u16]) -> f32;

/// By how much levels within ±31 are shifted up to be unsigned. A narrow sum holds 16 columns of
/// them.
pub(super) const SMALL: u8 = 32;
/// By how much larger levels, within ±63, are.
pub(super) const LARGE: u8 = 64;

pub(super) static IQ3_XXS: Levels = Levels::new(signed([4, 12, 20, 28, 36, 44, 52, 62]), LARGE);
pub(super) static IQ3_S: Levels = Levels::new(signed([1, 3, 5, 7, 9, 11, 13, 15]), SMALL);
pub(super) static IQ2: Levels = Levels::new(signed([8, 25, 43]), LARGE);
/// Eight times −1, 0 and 1, each shifted down and up by an eighth.
pub(super) static IQ1: Levels = Levels::new(padded([-9, -7, -1, 1, 7, 9]), SMALL);
/// Ternary weights are the first three of them, signs the first and the third.
pub(super) static TWO_BITS: Levels = Levels::new(padded([-1, 0, 1, 2]), SMALL);
pub(super) static FP4: Levels = Levels::new(FP4_LEVELS, SMALL);

const fn padded<const N: usize>(levels: [i8; N]) -> [i8; 16] {
    let mut padded = [0; 16];
    let mut i = 0;
    while i < N {
        padded[i] = levels[i];
        i += 1;
    }
    padded
}

/// These levels and, at 15 minus the place of each, its negative.
const fn signed<const N: usize>(levels: [i8; N]) -> [i8; 16] {
    let mut signed = padded(levels);
    let mut i = 0;
    while i < N {
        signed[15 - i] = -levels[i];
        i += 1;
    }
    signed
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// For each 32 columns: their index, codes and two factors.
fn parts_of_32<'a>(
    codes: &'a mut [u8],
    factors: &'a mut [u16],
) -> impl Iterator<Item = (usize, (&'a mut [u8], &'a mut [u16]))> {
    codes.chunks_exact_mut(32).zip(factors.chunks_exact_mut(2)).enumerate()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifted_levels_are_within_the_bounds_of_products() {
        for levels in [&IQ3_XXS, &IQ3_S, &IQ2, &IQ1, &TWO_BITS, &FP4] {
            let most = levels.exact.map(i8::unsigned_abs).into_iter().max().unwrap();
            assert!(most < levels.up, "{most}");
            // A half of a narrow sum has 8 of 16 columns.
            assert!(levels.up != SMALL || i32::from(most) * 8 * 127 <= i32::from(i16::MAX));
            for (&moved, &level) in levels.moved.iter().zip(&levels.exact) {
                assert_eq!(i16::from(moved), i16::from(level) + i16::from(levels.up));
            }
        }
    }
}
