//! A tokenizer from a bare vocabulary, as GGUF files carry it.

use std::collections::HashMap;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokenizers::decoders::byte_level::ByteLevel;
use tokenizers::models::bpe::{BPE, BpeBuilder, Vocab};
use tokenizers::{AddedToken, DecoderWrapper, NormalizerWrapper, PreTokenizerWrapper};

use super::{Tokenizer, TokenizerError, byte_level, sentence_piece};

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::library) enum TokenKind {
    /// Text.
    Normal,
    /// Stands for what cannot be spelled.
    Unknown,
    /// A mark that is no text.
    Control,
    /// Text that is one token wherever it appears.
    UserDefined,
    /// A single byte, spelled `<0xNN>`.
    Byte,
    /// A row without a use.
    Unused,
}

/// How texts become tokens.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::library) enum Scheme {
    /// SentencePiece's BPE: the pair whose union scores highest is merged first.
    SentencePiece {
        /// One score a token.
        scores: Vec<f32>,
        /// Whether a space goes before the first word.
        space_first: bool,
    },
    /// GPT-2's BPE over bytes.
    ByteLevel {
        /// `left right`, the first merged first.
        merges: Vec<String>,
        /// llama.cpp's name of the rule that cuts a text into words.
        pre: String,
    },
}

/// A vocabulary with its rules.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::library) struct Vocabulary {
    /// Spelling by id.
    pub(in crate::library) tokens: Vec<String>,
    /// One a token.
    pub(in crate::library) kinds: Vec<TokenKind>,
    pub(in crate::library) scheme: Scheme,
    /// Put before a bare text.
    pub(in crate::library) begin: Option<u32>,
    /// Put behind a bare text.
    pub(in crate::library) end: Option<u32>,
}

impl Vocabulary {
    /// Builds the tokenizer; `origin` names the file in errors.
    pub(in crate::library) fn build(self, origin: &str) -> Result<Tokenizer, TokenizerError> {
        let unreadable = |error: tokenizers::Error| TokenizerError::Unreadable {
            origin: origin.to_owned(),
            reason: error.to_string(),
        };
        let mut tokenizer = match &self.scheme {
            Scheme::SentencePiece { scores, space_first } => {
                let parts = sentence_piece::parts(*space_first);
                let model = sentence_piece::model(&self, scores).map_err(unreadable)?;
                let mut tokenizer = tokenizers::Tokenizer::new(model);
                let spaces: NormalizerWrapper = part(&parts.normalizer, origin)?;
                tokenizer.with_normalizer(Some(spaces)).map_err(unreadable)?;
                tokenizer.with_decoder(Some(part::<DecoderWrapper>(&parts.decoder, origin)?));
                tokenizer
            }
            Scheme::ByteLevel { merges, pre } => {
                let words = byte_level::words(pre, origin)?;
                let model = byte_level::model(&self, merges, words.whole_words);
                let mut tokenizer = tokenizers::Tokenizer::new(model.map_err(unreadable)?);
                if words.composed {
                    let composed: NormalizerWrapper = part(&json!({"type": "NFC"}), origin)?;
                    tokenizer.with_normalizer(Some(composed)).map_err(unreadable)?;
                }
                let cuts: PreTokenizerWrapper = part(&words.pre_tokenizer, origin)?;
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

    /// The tokens of a kind that are matched in a text before it is cut into words.
    fn added(&self, kind: TokenKind, special: bool) -> Vec<AddedToken> {
        let of_kind = self.tokens.iter().zip(&self.kinds).filter(|(_, other)| **other == kind);
        of_kind
            .filter(|(token, _)| !token.is_empty())
            .map(|(token, _)| AddedToken::from(token.clone(), special).normalized(false))
            .collect()
    }

    /// The first id of a spelling counts, as in llama.cpp; tokens that appear twice keep the row
    /// but are never produced.
    pub(super) fn ids(&self) -> HashMap<&str, u32> {
        let mut ids = HashMap::with_capacity(self.tokens.len());
        for (id, token) in (0u32..).zip(&self.tokens) {
            ids.entry(token.as_str()).or_insert(id);
        }
        ids
    }
}

/// A part of the library, from its JSON form: that is the form its users know.
fn part<T: DeserializeOwned>(json: &Value, origin: &str) -> Result<T, TokenizerError> {
    T::deserialize(json).map_err(|error| TokenizerError::Unreadable {
        origin: origin.to_owned(),
        reason: error.to_string(),
    })
}

/// The merges of which all three tokens are in the vocabulary, as a model.
pub(super) fn bpe(
    vocabulary: &Vocabulary,
    merges: Vec<(String, String)>,
    change: impl FnOnce(BpeBuilder) -> BpeBuilder,
) -> tokenizers::Result<BPE> {
    let ids = vocabulary.ids();
    let known = |(left, right): &(String, String)| {
        ids.contains_key(left.as_str())
            && ids.contains_key(right.as_str())
            && ids.contains_key((left.clone() + right).as_str())
    };
    let merges = merges.into_iter().filter(known).collect();
    let vocab: Vocab = ids.iter().map(|(&token, &id)| (token.to_owned(), id)).collect();
    change(BPE::builder().vocab_and_merges(vocab, merges)).build()
}
