//! The codebooks of ggml's IQ formats (ggml, MIT licence): groups of four or eight levels, which
//! the formats name by their index. They are constants of the file format and do not depend on
//! blocks.
//!
//! Each codebook is sorted, so only the steps from one entry to the next are stored, as numbers of
//! two bytes in `assets/codebooks/`; an entry is a number whose digits, the lowest first, select
//! the levels.

macro_rules! steps {
    ($name:literal) => {
        include_bytes!(concat!("../../../assets/codebooks/", $name, ".steps"))
    };
}

/// The levels of the codebooks that have three.
const IQ2_LEVELS: [u8; 3] = [8, 25, 43];
/// −8, 0 and 8 in two's complement: eight times the levels, since the formats shift them by an
/// eighth.
const IQ1_LEVELS: [u8; 3] = [(-8i8) as u8, 0, 8];
const IQ3_XXS_LEVELS: [u8; 8] = [4, 12, 20, 28, 36, 44, 52, 62];
const IQ3_S_LEVELS: [u8; 8] = [1, 3, 5, 7, 9, 11, 13, 15];

/// Groups of eight levels.
pub(super) static IQ2_XXS: [[u8; 8]; 256] = codebook(steps!("iq2_xxs"), &IQ2_LEVELS);
pub(super) static IQ2_XS: [[u8; 8]; 512] = codebook(steps!("iq2_xs"), &IQ2_LEVELS);
pub(super) static IQ2_S: [[u8; 8]; 1024] = codebook(steps!("iq2_s"), &IQ2_LEVELS);
pub(super) static IQ1: [[u8; 8]; 2048] = codebook(steps!("iq1"), &IQ1_LEVELS);
/// Groups of four levels.
pub(super) static IQ3_XXS: [[u8; 4]; 256] = codebook(steps!("iq3_xxs"), &IQ3_XXS_LEVELS);
pub(super) static IQ3_S: [[u8; 4]; 512] = codebook(steps!("iq3_s"), &IQ3_S_LEVELS);

const fn codebook<const N: usize, const K: usize, const LEVELS: usize>(
    steps: &[u8],
    levels: &[u8; LEVELS],
) -> [[u8; K]; N] {
    assert!(steps.len() == 2 * N, "a step of two bytes for each entry");
    let mut book = [[0; K]; N];
    let mut entry = 0;
    let mut i = 0;
    while i < N {
        entry += u16::from_le_bytes([steps[2 * i], steps[2 * i + 1]]) as usize;
        let mut digits = entry;
        let mut k = 0;
        while k < K {
            book[i][k] = levels[digits % LEVELS];
            digits /= LEVELS;
            k += 1;
        }
        i += 1;
    }
    book
}
