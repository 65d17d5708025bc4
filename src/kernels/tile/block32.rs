//! Formats of 32-weight blocks with a scale each. Two blocks (MXFP4: four) share a line of scales.
//! It determines where their parts are, not how they are multiplied.

use std::marker::PhantomData;

use super::{Packed, bit_planes, byte_of, low_of, plane_bit, put, put_nibbles, put_quad};
use crate::kernels::block::{BlockCodes, LINE, half_at, u32_at};
use crate::kernels::codes32::Codes;
use crate::kernels::format::Format;
use crate::kernels::lanes::LANES;

/// Where a row's scale or minimum of `size` bytes is in the line of a group.
fn place(at: usize, lane: usize, size: usize) -> usize {
    (at * LANES + lane) * size
}

/// The layout of codes of four, five or eight bits.
pub(super) struct Block32<W>(PhantomData<W>);

impl<W: Codes> Packed for Block32<W> {
    const FORMAT: Format = W::FORMAT;
    const BLOCKS: usize = W::BLOCKS;
    const BYTES: usize = W::BYTES;

    #[inline(always)]
    fn write(block: &[u8], at: usize, lane: usize, group: &mut [u8]) {
        let (scale, mut rest) = block.split_at(W::SCALE);
        put(group, place(at, lane, W::SCALE), scale);
        if W::MINIMA {
            put(group, LINE + place(at, lane, 2), &rest[..2]);
            rest = &rest[2..];
        }
        let mut lines = &mut group[W::HEAD + at * W::CODES..][..W::CODES];
        if W::EIGHT {
            for line in 0..8 {
                // 128 is added to make the codes unsigned.
                put_quad(lines, line, lane, u32_at(rest, 4 * line) ^ 0x8080_8080);
            }
            return;
        }
        if W::FIFTH {
            put_fifth(u32_at(rest, 0), lane, lines);
            (rest, lines) = (&rest[4..], &mut lines[LINE..]);
        }
        put_nibbles(&rest[..16], lane, lines);
    }

    fn read(group: &[u8], at: usize, lane: usize, to: &mut BlockCodes) {
        to.scales[..2].fill(W::scale(&group[place(at, lane, W::SCALE)..]));
        if W::MINIMA {
            to.minima[..2].fill(-half_at(group, LINE + place(at, lane, 2)));
        }
        let lines = &group[W::HEAD + at * W::CODES..][..W::CODES];
        let low = if W::FIFTH { &lines[LINE..] } else { lines };
        for (c, to) in to.codes[..32].iter_mut().enumerate() {
            let mut code = match W::EIGHT {
                true => byte_of(lines, c / 4, lane, c),
                false => low_of(low, lane, c),
            };
            if W::FIFTH {
                code |= plane_bit(lines, lane, c) << 4;
            }
            *to = match W::LEVELS {
                Some(levels) => levels.exact[usize::from(code)],
                None => code.wrapping_sub(W::ZERO) as i8,
            };
        }
    }
}

/// Writes bit 4 of the 32 codes, from a word that has them in column order.
fn put_fifth(word: u32, lane: usize, to: &mut [u8]) {
    let mut codes = [0; 32];
    for (i, code) in codes.iter_mut().enumerate() {
        *code = (word >> i & 1) as u8;
    }
    put_quad(to, 0, lane, bit_planes(&codes, 0));
}
