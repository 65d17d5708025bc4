//! The draft vocabulary that the user requested: the tokenizer's first merges, or the tokens of a
//! text. It must not depend on heads.

use super::error::StartError;
use crate::library::{TargetFiles, text_tokens};
use crate::model::head::DraftVocabulary;
use crate::plan::Setting;
use crate::settings::ScoredTokens;

/// An automatic draft vocabulary is the first sixth of the target's: tokenizers merge frequent
/// pairs first.
const AUTO_SHARE: usize = 6;
/// Its size is a multiple of this.
const AUTO_GRAIN: usize = 1024;
/// And it is not smaller than this.
const AUTO_LEAST: usize = 4096;

/// The most tokens of `vocab` that `wished` lets a head score, not counting those that end a turn.
pub(super) fn most_scored(wished: &ScoredTokens, vocab: usize) -> usize {
    match wished {
        ScoredTokens::First(Setting::Fixed(count)) => (*count).min(vocab),
        ScoredTokens::First(Setting::Auto) | ScoredTokens::OfText(_) => {
            (vocab / AUTO_SHARE).next_multiple_of(AUTO_GRAIN).max(AUTO_LEAST).min(vocab)
        }
    }
}

/// The tokens of `target` that `wished` requests, with those that end a turn; and what they are, as
/// the end of a sentence.
pub(super) fn scored_tokens(
    wished: &ScoredTokens,
    target: &TargetFiles,
) -> Result<(DraftVocabulary, String), StartError> {
    let (vocab, eos) = (target.config.vocab, &target.eos);
    let most = most_scored(wished, vocab);
    match wished {
        ScoredTokens::First(_) => Ok((DraftVocabulary::first(most, vocab, eos), String::new())),
        ScoredTokens::OfText(path) => {
            let unusable = |reason: String| {
                let value = format!("text:{}", path.display());
                StartError::DraftVocab { value, reason }
            };
            let text = text_tokens(path, &target.tokenizer);
            let text = text.map_err(|error| unusable(error.to_string()))?;
            if text.is_empty() {
                return Err(unusable(format!("{} contains no text", path.display())));
            }
            let tokens = DraftVocabulary::of_text(&text, most, vocab, eos);
            Ok((tokens, format!(", the most frequent ones in {}", path.display())))
        }
    }
}
