//! Hashes that are the same everywhere and always, which the standard library does not promise for
//! its own. They distinguish contents but do not protect against forgery: an attacker who can
//! change this program's files can change the program. They must not depend on what is hashed.

use std::hash::Hasher;

use fnv::FnvHasher;
use twox_hash::XxHash3_64;

/// A checksum that is as fast as memory, to distinguish a damaged file from a complete one.
pub fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// Continues a fingerprint with one of several parts. Its length comes first, so that "ab" "c"
/// differs from "a" "bc".
pub fn hash_part(fingerprint: &mut FnvHasher, part: &[u8]) {
    fingerprint.write(&(part.len() as u64).to_le_bytes());
    fingerprint.write(part);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_values_of_both_hashes() {
        assert_eq!(checksum(b""), 0x2d06_8005_38d3_94c2);
        for (text, value) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            let mut fingerprint = FnvHasher::default();
            fingerprint.write(text.as_bytes());
            assert_eq!(fingerprint.finish(), value);
        }
    }

    #[test]
    fn a_fingerprint_knows_where_its_parts_end() {
        let of = |parts: [&str; 2]| {
            let mut fingerprint = FnvHasher::default();
            for part in parts {
                hash_part(&mut fingerprint, part.as_bytes());
            }
            fingerprint.finish()
        };
        assert_ne!(of(["ab", "c"]), of(["a", "bc"]));
    }
}
