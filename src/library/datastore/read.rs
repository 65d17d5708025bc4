//! From a text file to tokens. It must not depend on how they are sorted.

use std::path::Path;

use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::files::read_text;
use crate::library::{LibraryError, Result, Tokenizer};

/// How many bytes are split into tokens at once: enough that the cuts between them do not matter,
/// few enough that progress is visible and memory use stays small.
const PIECE: usize = 1 << 18;

/// The longest text: its tokens, of at least one byte each, are counted in 32 bits.
const LONGEST: u64 = u32::MAX as u64;

/// The whole file. A file that is not UTF-8 is refused, because its encoding would be a guess.
pub(super) fn text(path: &Path) -> Result<String> {
    read_text(path, LONGEST).map_err(|source| LibraryError::io(path, source))
}

/// The tokens of `text`, cut between lines if there are any; on all cores, because splitting takes
/// most of the time.
pub(super) fn tokens(
    text: &str,
    tokenizer: &Tokenizer,
    done: &mut dyn FnMut(f32),
) -> Result<Vec<u32>> {
    let threads = rayon::current_num_threads();
    let mut tokens = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let next = |_| {
            let (piece, behind) = rest.split_at(cut(rest));
            rest = behind;
            piece
        };
        let pieces: Vec<&str> = (0..threads).map(next).collect();
        let encode = |piece| tokenizer.encode(piece, false);
        let split: Vec<Vec<u32>> = pieces.into_par_iter().map(encode).collect::<Result<_, _>>()?;
        tokens.extend(split.into_iter().flatten());
        done(1.0 - rest.len() as f32 / text.len() as f32);
    }
    Ok(tokens)
}

/// The length of the next piece of `text`: up to the end of the last line that begins in it and
/// fits, otherwise of the last character; at least one character.
fn cut(text: &str) -> usize {
    if text.len() <= PIECE {
        return text.len();
    }
    let end = (1..=PIECE).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
    text[..end].rfind('\n').map_or(end, |line| line + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_with_lines_or_at_least_with_characters() {
        let line = "word ".repeat(20) + "\n";
        let text = line.repeat(2 * PIECE / line.len());
        assert!(text[..cut(&text)].ends_with('\n'));
        assert!(cut(&text) > PIECE - line.len());
        let unbroken = "é".repeat(PIECE);
        assert!(unbroken.is_char_boundary(cut(&unbroken)) && cut(&unbroken) > PIECE - 2);
        let odd = "a".to_owned() + &unbroken;
        assert!(odd.is_char_boundary(cut(&odd)));
        assert_eq!((cut("short"), cut("")), (5, 0));
    }
}
