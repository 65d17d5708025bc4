//! A [`Tokenizer`] from a bare [`Vocabulary`]. It must not depend on files.

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokenizers::decoders::byte_level::ByteLevel;
use tokenizers::models::bpe::BPE;
use tokenizers::normalizers::NFC;
use tokenizers::{AddedToken, DecoderWrapper, NormalizerWrapper, PreTokenizerWrapper};

use super::vocabulary::{KEEPING, Scheme, TokenKind, Vocabulary, bpe};
use super::{Tokenizer, byte_level, lines, sentence_piece};
use crate::library::{LibraryError, Result};

impl Vocabulary {
    /// Builds the tokenizer; `origin` names the file in errors.
    pub(in crate::library) fn build(self, origin: &str) -> Result<Tokenizer> {
        let unreadable = |error: tokenizers::Error| LibraryError::tokenizer(origin, error);
        let mut tokenizer = match &self.scheme {
            Scheme::SentencePiece { scores, space_first } => {
                let model = sentence_piece::model(&self, scores).map_err(unreadable)?;
                with_spaces(model, *space_first, origin)?
            }
            Scheme::Lines { merges } => {
                let model = lines::model(&self, merges).map_err(unreadable)?;
                let mut tokenizer = with_spaces(model, false, origin)?;
                let cuts: PreTokenizerWrapper = part(&lines::cuts(), origin)?;
                tokenizer.with_pre_tokenizer(Some(cuts));
                tokenizer
            }
            Scheme::ByteLevel { merges, pre } => {
                let words = byte_level::words(pre, origin)?;
                let pairs = merges.iter().filter_map(|merge| merge.split_once(' '));
                let merges = pairs.map(|(left, right)| (left.to_owned(), right.to_owned()));
                let model = bpe(&self, merges.collect(), |builder| {
                    builder.ignore_merges(words.whole_words)
                });
                let mut tokenizer = tokenizers::Tokenizer::new(model.map_err(unreadable)?);
                if words.composed {
                    tokenizer.with_normalizer(Some(NFC)).map_err(unreadable)?;
                }
                let cuts: PreTokenizerWrapper = part(&words.pre_tokenizer(), origin)?;
                tokenizer.with_pre_tokenizer(Some(cuts));
                tokenizer.with_decoder(Some(ByteLevel::default()));
                tokenizer
            }
        };
        tokenizer.add_special_tokens(self.added(TokenKind::Control, true)).map_err(unreadable)?;
        tokenizer.add_tokens(self.added(TokenKind::UserDefined, false)).map_err(unreadable)?;
        let size = self.tokens.len();
        let around = |token: Option<u32>| token.filter(|&id| (id as usize) < size);
        Tokenizer::new(tokenizer, around(self.begin), around(self.end), origin)
    }

    /// The tokens of a kind that are matched in a text before it is split into words.
    fn added(&self, kind: TokenKind, special: bool) -> Vec<AddedToken> {
        let of_kind = self.tokens.iter().zip(&self.kinds).filter(|(_, other)| **other == kind);
        of_kind
            .filter(|(token, _)| !token.is_empty())
            .map(|(token, _)| {
                let strips = self.marks_strip && !KEEPING.contains(&token.as_str());
                AddedToken::from(token.clone(), special).normalized(false).rstrip(strips)
            })
            .collect()
    }
}

/// A tokenizer that spells spaces as SentencePiece does.
fn with_spaces(model: BPE, space_first: bool, origin: &str) -> Result<tokenizers::Tokenizer> {
    let mut tokenizer = tokenizers::Tokenizer::new(model);
    let (normalizer, decoder) = sentence_piece::spaces(space_first);
    let normalizer: NormalizerWrapper = part(&normalizer, origin)?;
    let unreadable = |error: tokenizers::Error| LibraryError::tokenizer(origin, error);
    tokenizer.with_normalizer(Some(normalizer)).map_err(unreadable)?;
    tokenizer.with_decoder(Some(part::<DecoderWrapper>(&decoder, origin)?));
    Ok(tokenizer)
}

/// A part of the library, from its JSON form, which its users know.
fn part<T: DeserializeOwned>(json: &Value, origin: &str) -> Result<T> {
    T::deserialize(json).map_err(|error| LibraryError::tokenizer(origin, error))
}
