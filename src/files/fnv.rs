//! FNV-1a over 64 bits (Fowler, Noll and Vo). It is the same everywhere and always, which the
//! standard library does not promise for its own hashes. It distinguishes contents but does not
//! protect against forgery. It must not depend on what is hashed.

/// The hash of no bytes.
pub const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// Continues from `hash` with these bytes.
pub fn fnv1a(hash: u64, bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes
        .into_iter()
        .fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Continues from `hash` with one of several parts. Its length comes first, so that "ab" "c"
/// differs from "a" "bc".
pub fn fnv1a_part(hash: u64, part: &[u8]) -> u64 {
    let length = (part.len() as u64).to_le_bytes();
    fnv1a(hash, length.into_iter().chain(part.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values() {
        assert_eq!(fnv1a(FNV_START, *b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(FNV_START, *b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(FNV_START, *b"foobar"), 0x8594_4171_f739_67e8);
    }
}
