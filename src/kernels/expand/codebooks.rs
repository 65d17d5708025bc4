//! The codebooks of ggml's IQ formats (ggml, MIT licence): groups of four or eight codes of levels,
//! which the formats name by their index. They are constants of the file format and do not depend
//! on blocks.
//!
//! Each codebook is sorted, so only the steps from one entry to the next are stored, as numbers of
//! two bytes in `assets/codebooks/`; an entry is a number whose digits, the lowest first, are the
//! codes.

macro_rules! steps {
    ($name:literal) => {
        include_bytes!(concat!("../../../assets/codebooks/", $name, ".steps"))
    };
}

/// Groups of eight codes.
pub(super) static IQ2_XXS: [[u8; 8]; 256] = codebook(steps!("iq2_xxs"), 3);
pub(super) static IQ2_XS: [[u8; 8]; 512] = codebook(steps!("iq2_xs"), 3);
pub(super) static IQ2_S: [[u8; 8]; 1024] = codebook(steps!("iq2_s"), 3);
pub(super) static IQ1: [[u8; 8]; 2048] = codebook(steps!("iq1"), 3);
/// Groups of four codes.
pub(super) static IQ3_XXS: [[u8; 4]; 256] = codebook(steps!("iq3_xxs"), 8);
pub(super) static IQ3_S: [[u8; 4]; 512] = codebook(steps!("iq3_s"), 8);

/// A codebook of codes below `levels`.
const fn codebook<const N: usize, const K: usize>(steps: &[u8], levels: usize) -> [[u8; K]; N] {
    assert!(steps.len() == 2 * N, "a step of two bytes for each entry");
    let mut book = [[0; K]; N];
    let mut entry = 0;
    let mut i = 0;
    while i < N {
        entry += u16::from_le_bytes([steps[2 * i], steps[2 * i + 1]]) as usize;
        let mut digits = entry;
        let mut k = 0;
        while k < K {
            book[i][k] = (digits % levels) as u8;
            digits /= levels;
            k += 1;
        }
        i += 1;
    }
    book
}
