//! GGUF's quantised blocks, opened into codes, scales and minima. Knows no tile.

/// One block of 256 weights: weight = d · scale · (code − 32 for Q6_K) − dmin · minimum.
pub(super) struct Open {
    /// Unsigned codes in column order.
    pub(super) codes: [u8; 256],
    /// A scale for every 32 columns (Q4_K, Q5_K; 8 of them) or every 16 (Q6_K; signed).
    pub(super) scales: [u8; 16],
    /// A minimum for every 32 columns (Q4_K, Q5_K).
    pub(super) minima: [u8; 8],
    /// Half-float bits.
    pub(super) d: u16,
    /// Half-float bits.
    pub(super) dmin: u16,
}

/// Little-endian half-float bits at `at`.
pub(super) fn half_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// The 32 codes of a Q4_0 block: the low halves of all bytes, then the high ones.
pub(super) fn q4_0(block: &[u8]) -> [u8; 32] {
    let mut codes = [0; 32];
    for (i, byte) in block[2..18].iter().enumerate() {
        codes[i] = byte & 15;
        codes[i + 16] = byte >> 4;
    }
    codes
}

/// The 32 codes of a Q8_0 block, moved up by 128 to be unsigned.
pub(super) fn q8_0(block: &[u8]) -> [u8; 32] {
    let mut codes = [0; 32];
    for (code, byte) in codes.iter_mut().zip(&block[2..34]) {
        *code = byte ^ 0x80;
    }
    codes
}

/// A Q4_K block (144 bytes).
pub(super) fn q4_k(block: &[u8]) -> Open {
    let mut open = with_minima(block);
    for (chunk, bytes) in block[16..144].chunks_exact(32).enumerate() {
        for (i, byte) in bytes.iter().enumerate() {
            open.codes[64 * chunk + i] = byte & 15;
            open.codes[64 * chunk + 32 + i] = byte >> 4;
        }
    }
    open
}

/// A Q5_K block (176 bytes): as Q4_K, the fifth bits of the eight sub-blocks side by side in 32
/// bytes.
pub(super) fn q5_k(block: &[u8]) -> Open {
    let mut open = with_minima(block);
    let fifth = &block[16..48];
    for (chunk, bytes) in block[48..176].chunks_exact(32).enumerate() {
        for (i, byte) in bytes.iter().enumerate() {
            let high = fifth[i] >> (2 * chunk);
            open.codes[64 * chunk + i] = byte & 15 | (high & 1) << 4;
            open.codes[64 * chunk + 32 + i] = byte >> 4 | (high >> 1 & 1) << 4;
        }
    }
    open
}

/// A Q6_K block (210 bytes): two halves of 128 weights, four bits in `low`, two in `high`.
pub(super) fn q6_k(block: &[u8]) -> Open {
    let mut codes = [0; 256];
    for half in 0..2 {
        let low = &block[64 * half..64 * half + 64];
        let high = &block[128 + 32 * half..160 + 32 * half];
        let codes = &mut codes[128 * half..128 * half + 128];
        for i in 0..32 {
            codes[i] = low[i] & 15 | (high[i] & 3) << 4;
            codes[i + 32] = low[i + 32] & 15 | (high[i] >> 2 & 3) << 4;
            codes[i + 64] = low[i] >> 4 | (high[i] >> 4 & 3) << 4;
            codes[i + 96] = low[i + 32] >> 4 | (high[i] >> 6) << 4;
        }
    }
    let mut scales = [0; 16];
    scales.copy_from_slice(&block[192..208]);
    Open { codes, scales, minima: [0; 8], d: half_at(block, 208), dmin: 0 }
}

/// The head of a Q4_K or Q5_K block: two half floats, then eight scales and eight minima of six
/// bits in twelve bytes.
fn with_minima(block: &[u8]) -> Open {
    let packed = &block[4..16];
    let mut scales = [0; 16];
    let mut minima = [0; 8];
    for j in 0..4 {
        scales[j] = packed[j] & 63;
        minima[j] = packed[j + 4] & 63;
        scales[j + 4] = packed[j + 8] & 15 | packed[j] >> 6 << 4;
        minima[j + 4] = packed[j + 8] >> 4 | packed[j + 4] >> 6 << 4;
    }
    Open { codes: [0; 256], scales, minima, d: half_at(block, 0), dmin: half_at(block, 2) }
}
