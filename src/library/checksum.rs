//! A checksum that is as fast as memory, to distinguish a damaged file from a complete one. No
//! secret depends on it: an attacker who can change this program's files can change the program.

/// How many words are mixed in parallel, because each step waits for the previous one.
const SIDES: usize = 8;
/// Any odd number with well-spread bits.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// The checksum of `bytes`. Every step is reversible, so every change of a single word changes it,
/// and so does a torn or emptied part.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    let mut sides: [u64; SIDES] = std::array::from_fn(|i| mix(FACTOR, i as u64));
    let (words, rest) = bytes.as_chunks::<8>();
    let (groups, words) = words.as_chunks::<SIDES>();
    for group in groups {
        for (side, word) in sides.iter_mut().zip(group) {
            *side = mix(*side, u64::from_le_bytes(*word));
        }
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]).map(|word| u64::from_le_bytes(*word));
    let end = words.chain([bytes.len() as u64]);
    sides.into_iter().chain(end).fold(FACTOR, mix)
}

/// The shift moves high bits, which a product leaves high, to the low ones.
fn mix(sum: u64, word: u64) -> u64 {
    let product = (sum ^ word).wrapping_mul(FACTOR);
    product ^ product >> 32
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_bit_and_every_length_counts() {
        let mut bytes: Vec<u8> = (0..300u32).map(|i| (i * 7) as u8).collect();
        let whole = checksum(&bytes);
        for bit in 0..8 * bytes.len() {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(checksum(&bytes), whole, "bit {bit}");
            // The same bit of the next word that is mixed after it.
            if let Some(next) = (bit / 8 + 64 < bytes.len()).then_some(bit / 8 + 64) {
                bytes[next] ^= 1 << (bit % 8);
                assert_ne!(checksum(&bytes), whole, "bit {bit} of two words");
                bytes[next] ^= 1 << (bit % 8);
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let zeros = [0; 300];
        let lengths: HashSet<u64> = (0..300).map(|length| checksum(&zeros[..length])).collect();
        assert_eq!(lengths.len(), 300);
    }
}
