//! Which tokens a head is trained to score: those that the target says most often. It must not
//! depend on files or the head.

use serde::{Deserialize, Serialize};

use crate::model::head::DraftVocabulary;

/// The share of the answers' tokens that an automatic draft vocabulary covers; the remaining tokens
/// cost about one round in two hundred its first token.
const COVERED: f64 = 0.995;
/// An automatic size is a multiple of this: whole tiles of the LM head, and room for tokens that
/// happen not to be in the data.
const GRAIN: usize = 1024;

/// The number of the target's tokens that a head scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DraftVocabSize {
    /// As many as cover what the target says, if that saves at least half of the vocabulary.
    #[default]
    Auto,
    /// All tokens.
    All,
    /// This many tokens.
    Tokens(usize),
}

impl std::str::FromStr for DraftVocabSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "all" => Ok(Self::All),
            _ => match text.parse() {
                Ok(count) if count > 0 => Ok(Self::Tokens(count)),
                _ => Err("it must be `auto`, `all` or a number of tokens".to_owned()),
            },
        }
    }
}

/// The draft vocabulary for a target of `vocab` tokens whose answers consist of these, and the
/// share of them that it covers; `None` if all tokens are to be scored. It includes `always` (the
/// tokens that end a turn). Tokens that occur equally often are ordered by id, because lower ids
/// are generally more frequent.
pub fn draft_vocabulary(
    size: DraftVocabSize,
    said: impl IntoIterator<Item = u32>,
    always: &[u32],
    vocab: usize,
) -> Option<(DraftVocabulary, f64)> {
    let mut counts = vec![0u64; vocab];
    for token in said {
        if let Some(count) = counts.get_mut(token as usize) {
            *count += 1;
        }
    }
    let total: u64 = counts.iter().sum();
    let mut order: Vec<u32> = (0..vocab as u32).collect();
    let first = |token: &u32| !always.contains(token);
    order.sort_by_key(|token| (first(token), std::cmp::Reverse(counts[*token as usize])));
    let covered = |tokens: &[u32]| {
        let covered: u64 = tokens.iter().map(|&token| counts[token as usize]).sum();
        covered as f64 / total.max(1) as f64
    };
    let count = match size {
        DraftVocabSize::All => return None,
        DraftVocabSize::Tokens(count) => count.max(always.len()),
        DraftVocabSize::Auto => {
            let sizes = (GRAIN..=vocab / 2).step_by(GRAIN);
            sizes.into_iter().find(|&count| covered(&order[..count]) >= COVERED)?
        }
    };
    if count >= vocab {
        return None;
    }
    order.truncate(count);
    let share = covered(&order);
    Some((DraftVocabulary::new(order), share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_said_tokens_and_those_that_end_a_turn() {
        let said = [5, 5, 5, 9, 9, 7];
        let (tokens, share) =
            draft_vocabulary(DraftVocabSize::Tokens(4), said, &[1, 99], 12).unwrap();
        assert_eq!(tokens.tokens(), [1, 5, 7, 9]);
        assert_eq!(share, 1.0);
        let (tokens, share) = draft_vocabulary(DraftVocabSize::Tokens(2), said, &[1], 12).unwrap();
        assert_eq!((tokens.tokens(), share), (&[1, 5][..], 0.5));
        // Tokens that do not occur are ordered by id.
        let (tokens, _) = draft_vocabulary(DraftVocabSize::Tokens(6), said, &[1], 12).unwrap();
        assert_eq!(tokens.tokens(), [0, 1, 2, 5, 7, 9]);
    }

    #[test]
    fn automatic_covers_what_is_said_or_scores_all() {
        let often = (0..100_000).map(|i| 40_000 + i % 1500);
        let (tokens, share) = draft_vocabulary(DraftVocabSize::Auto, often, &[2], 49_152).unwrap();
        assert_eq!(tokens.len(), 2048);
        assert!(share >= COVERED && tokens.contains(2) && tokens.contains(41_499));
        let evenly = 0..40_000;
        assert!(draft_vocabulary(DraftVocabSize::Auto, evenly, &[], 49_152).is_none());
        assert!(draft_vocabulary(DraftVocabSize::Auto, [1, 2], &[], 512).is_none());
        assert!(draft_vocabulary(DraftVocabSize::All, [1, 2], &[], 49_152).is_none());
        assert!(draft_vocabulary(DraftVocabSize::Tokens(512), [1], &[], 512).is_none());
    }

    #[test]
    fn sizes_are_typed_as_words_or_counts() {
        assert_eq!("auto".parse(), Ok(DraftVocabSize::Auto));
        assert_eq!("all".parse(), Ok(DraftVocabSize::All));
        assert_eq!("8192".parse(), Ok(DraftVocabSize::Tokens(8192)));
        assert!("0".parse::<DraftVocabSize>().is_err());
        assert!("some".parse::<DraftVocabSize>().is_err());
    }
}
