//! Formats of 32-weight blocks with a scale each. Two blocks (MXFP4: four) share a line of scales.
//! It determines where their parts are, not how they are multiplied.

use std::marker::PhantomData;

use super::{Packed, bit_planes, byte_of, low_of, plane_bit, put, put_nibbles, put_quad};
use crate::kernels::block::{LINE, half_at, u32_at};
use crate::kernels::codes32::Codes;
use crate::kernels::format::Format;
use crate::kernels::lanes::LANES;

/// Bytes of two blocks of Q8_0; the scales come first.
pub(in crate::kernels) const PAIR_8: usize = LINE + 2 * CODES_8;

/// Bytes of the 8-bit codes of 32 columns.
const CODES_8: usize = 512;

pub(super) struct Q8_0;

/// Where a row's scale or minimum of `size` bytes is in the line of a group.
fn place(at: usize, lane: usize, size: usize) -> usize {
    (at * LANES + lane) * size
}

/// 34 bytes: d, 32 signed codes.
impl Packed for Q8_0 {
    const FORMAT: Format = Format::Q8_0;
    const BLOCKS: usize = 2;
    const BYTES: usize = PAIR_8;

    #[inline(always)]
    fn write(block: &[u8], at: usize, lane: usize, group: &mut [u8]) {
        put(group, place(at, lane, 2), &block[..2]);
        let lines = &mut group[LINE + at * CODES_8..][..CODES_8];
        for line in 0..8 {
            // 128 is added to make the codes unsigned.
            put_quad(lines, line, lane, u32_at(block, 2 + 4 * line) ^ 0x8080_8080);
        }
    }

    fn read(group: &[u8], at: usize, lane: usize, out: &mut [f32]) {
        let d = half_at(group, place(at, lane, 2));
        let lines = &group[LINE + at * CODES_8..][..CODES_8];
        for (c, x) in out.iter_mut().enumerate() {
            *x = f32::from((byte_of(lines, c / 4, lane, c) ^ 0x80) as i8) * d;
        }
    }
}

/// The layout of codes of four or five bits.
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
        if W::FIFTH {
            put_fifth(u32_at(rest, 0), lane, lines);
            (rest, lines) = (&rest[4..], &mut lines[LINE..]);
        }
        put_nibbles(&rest[..16], lane, lines);
    }

    fn read(group: &[u8], at: usize, lane: usize, out: &mut [f32]) {
        let scale = W::scale(&group[place(at, lane, W::SCALE)..]);
        let lines = &group[W::HEAD + at * W::CODES..][..W::CODES];
        let low = if W::FIFTH { &lines[LINE..] } else { lines };
        for (c, x) in out.iter_mut().enumerate() {
            let mut code = low_of(low, lane, c);
            if W::FIFTH {
                code |= plane_bit(lines, lane, c) << 4;
            }
            *x = scale
                * match W::LEVELS {
                    Some(levels) => f32::from(levels.exact[usize::from(code)]),
                    None => f32::from(code) - f32::from(W::ZERO),
                };
            if W::MINIMA {
                *x += half_at(group, LINE + place(at, lane, 2));
            }
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
