//! Text to token ids and back: from a `tokenizer.json`, or from the vocabulary in a GGUF file.

mod byte_level;
mod pieces;
mod sentence_piece;
mod vocabulary;

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use tokenizers::AddedToken;

use crate::model::{Piece, PieceKind};
use pieces::Pieces;

pub(super) use vocabulary::{Scheme, TokenKind, Vocabulary};

/// Why a tokenizer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// The file is not a tokenizer.
    #[error("{origin}: not a usable tokenizer: {reason}; fetch the file again")]
    Unreadable {
        /// The file.
        origin: String,
        /// What is wrong.
        reason: String,
    },
    /// A tokenizer of another kind.
    #[error(
        "{origin}: the tokenizer's {what} is `{found}`, which is not supported; \
         take a model with one of: {supported}"
    )]
    Unsupported {
        /// The file.
        origin: String,
        /// The part that is not supported.
        what: &'static str,
        /// Its value.
        found: String,
        /// What would be.
        supported: &'static str,
    },
    /// A text could not be encoded.
    #[error("the text cannot be split into tokens: {0}")]
    Encode(String),
}

/// A tokenizer. Cheap to clone.
#[derive(Clone)]
pub struct Tokenizer(Arc<Inner>);

struct Inner {
    tokenizer: tokenizers::Tokenizer,
    pieces: Pieces,
    added: HashMap<u32, AddedToken>,
    /// Tokens around a bare text that the library does not know of itself.
    begin: Option<u32>,
    end: Option<u32>,
    /// Most bytes of a token, once they were asked for.
    longest: OnceLock<usize>,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokenizer({} tokens)", self.vocab_size())
    }
}

impl Tokenizer {
    /// Reads the text of a `tokenizer.json`; `origin` names it in errors.
    ///
    /// # Errors
    /// [`TokenizerError`] if it is damaged or of another kind than Llama-family models use.
    pub fn from_json(json: &[u8], origin: &str) -> Result<Self, TokenizerError> {
        let tokenizer = tokenizers::Tokenizer::from_bytes(json).map_err(|error| {
            TokenizerError::Unreadable { origin: origin.to_owned(), reason: error.to_string() }
        })?;
        Self::new(tokenizer, None, None, origin)
    }

    fn new(
        mut tokenizer: tokenizers::Tokenizer,
        begin: Option<u32>,
        end: Option<u32>,
        origin: &str,
    ) -> Result<Self, TokenizerError> {
        let unreadable = |error: tokenizers::Error| TokenizerError::Unreadable {
            origin: origin.to_owned(),
            reason: error.to_string(),
        };
        // Batch settings of training: a prompt is never cut or padded.
        tokenizer.with_truncation(None).map_err(unreadable)?;
        tokenizer.with_padding(None);
        let pieces =
            Pieces::of(tokenizer.get_decoder()).map_err(|found| TokenizerError::Unsupported {
                origin: origin.to_owned(),
                what: "decoder",
                found,
                supported: "byte-level BPE, SentencePiece-style BPE",
            })?;
        let added = tokenizer.get_added_tokens_decoder().into_iter().collect();
        let longest = OnceLock::new();
        Ok(Self(Arc::new(Inner { tokenizer, pieces, added, begin, end, longest })))
    }

    /// The tokens of `text`. Special tokens spelled out in it (`<|user|>`) become those tokens,
    /// as templates need it. With `begin`, whatever the model wants around a bare text is added,
    /// usually its begin-of-text token.
    ///
    /// # Errors
    /// [`TokenizerError::Encode`].
    pub fn encode(&self, text: &str, begin: bool) -> Result<Vec<u32>, TokenizerError> {
        let encoding = self.0.tokenizer.encode_fast(text, begin);
        let encoding = encoding.map_err(|error| TokenizerError::Encode(error.to_string()))?;
        let around = |token: Option<u32>| token.filter(|_| begin);
        let tokens = around(self.0.begin).into_iter().chain(encoding.get_ids().iter().copied());
        Ok(tokens.chain(around(self.0.end)).collect())
    }

    /// As [`Self::encode`], with the bytes of `text` that each token stands for: none for those that
    /// were put around it. Some tokenizers leave white space out of a token's bytes.
    ///
    /// # Errors
    /// [`TokenizerError::Encode`].
    pub fn encode_spans(
        &self,
        text: &str,
        begin: bool,
    ) -> Result<Vec<(u32, Range<usize>)>, TokenizerError> {
        let encoding = self.0.tokenizer.encode(text, begin);
        let encoding = encoding.map_err(|error| TokenizerError::Encode(error.to_string()))?;
        let around =
            |token: Option<u32>, at: usize| token.filter(|_| begin).map(|token| (token, at..at));
        let places = encoding.get_offsets().iter().map(|&(start, end)| start..end);
        let inside = encoding.get_ids().iter().copied().zip(places);
        let first = around(self.0.begin, 0).into_iter();
        Ok(first.chain(inside).chain(around(self.0.end, text.len())).collect())
    }

    /// The text of `tokens` decoded together. Special tokens and ids outside the vocabulary have
    /// none; a character that is not complete is U+FFFD.
    pub fn text(&self, tokens: &[u32]) -> String {
        let visible = tokens.iter().filter(|&&token| !self.is_special(token));
        let bytes: Vec<u8> = visible.flat_map(|&token| self.bytes(token)).collect();
        let text = String::from_utf8_lossy(&bytes);
        // The space that SentencePiece puts before the first word is no part of the text.
        let text = match self.0.pieces {
            Pieces::SentencePiece { strips_first: true } => text.strip_prefix(' ').unwrap_or(&text),
            _ => &text,
        };
        text.to_owned()
    }

    /// How one token is shown on its own: whitespace kept, bytes of split characters as `\xNN`,
    /// special tokens by their name, an id outside the vocabulary as `<id>`.
    pub fn label(&self, token: u32) -> String {
        let bytes = self.bytes(token);
        if bytes.is_empty() {
            return format!("<{token}>");
        }
        let mut label = String::new();
        for chunk in bytes.utf8_chunks() {
            label += chunk.valid();
            for byte in chunk.invalid() {
                label += &format!("\\x{byte:02X}");
            }
        }
        label
    }

    /// The fewest tokens that `bytes` bytes of text can make: none spells more than the longest of
    /// the vocabulary. A normaliser may shorten a text before; no usual one to less than a quarter.
    pub fn least_tokens(&self, bytes: usize) -> usize {
        let longest = self.0.longest.get_or_init(|| {
            let length = |token| self.bytes(token).len();
            (0..self.vocab_size() as u32).map(length).max().unwrap_or_default().max(1)
        });
        bytes.div_ceil(4 * longest)
    }

    /// The id of a token spelled exactly so.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.0.tokenizer.token_to_id(token)
    }

    /// Whether a token is a control mark and not text.
    pub fn is_special(&self, token: u32) -> bool {
        self.0.added.get(&token).is_some_and(|added| added.special)
    }

    /// The added token (special or not) that `text` begins with, the longest if several.
    pub fn added_prefix(&self, text: &str) -> Option<u32> {
        let begins = self.0.added.iter().filter(|(_, added)| {
            !added.content.is_empty() && text.starts_with(added.content.as_str())
        });
        begins.max_by_key(|(_, added)| added.content.len()).map(|(&id, _)| id)
    }

    /// Number of tokens, added ones included. The model may have more rows.
    pub fn vocab_size(&self) -> usize {
        self.0.tokenizer.get_vocab_size(true)
    }

    /// A number that differs between tokenizers that may split a text differently.
    pub fn fingerprint(&self) -> u64 {
        // Serialisation orders the vocabulary by id. What cannot be serialised is told apart by
        // its size alone, and then nothing can be kept for it across programs.
        let spelled = self.0.tokenizer.to_string(false).unwrap_or_default();
        let mut hasher = std::hash::DefaultHasher::new();
        (spelled, self.0.begin, self.0.end, self.vocab_size()).hash(&mut hasher);
        hasher.finish()
    }

    /// What each of the first `rows` ids stands for; `None` for ids without a token.
    pub fn pieces(&self, rows: usize) -> Vec<Option<Piece>> {
        (0..rows as u32).map(|token| self.piece(token)).collect()
    }

    fn piece(&self, token: u32) -> Option<Piece> {
        let bytes = self.bytes(token);
        let spelled = || self.0.tokenizer.id_to_token(token);
        let kind = if self.is_special(token) {
            PieceKind::Special
        } else if self.0.pieces != Pieces::ByteLevel
            && spelled().is_some_and(|spelled| pieces::byte_token(&spelled).is_some())
        {
            PieceKind::Byte
        } else {
            PieceKind::Text
        };
        (!bytes.is_empty()).then_some(Piece { kind, bytes })
    }

    /// The bytes a token stands for; none for an id outside the vocabulary.
    fn bytes(&self, token: u32) -> Vec<u8> {
        if let Some(added) = self.0.added.get(&token) {
            return added.content.clone().into_bytes();
        }
        let spelled = self.0.tokenizer.id_to_token(token);
        spelled.map_or_else(Vec::new, |spelled| self.0.pieces.bytes(&spelled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SharedVocabulary;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    /// All single bytes, a few merges, two special tokens; ids in this order.
    fn byte_level() -> Tokenizer {
        let mut vocab = serde_json::Map::new();
        for byte in 0..=255u8 {
            vocab.insert(pieces::char_of(byte).to_string(), Value::from(vocab.len()));
        }
        for token in ["he", "Ġhe", "ll", "hell", "hello"] {
            vocab.insert(token.into(), Value::from(vocab.len()));
        }
        let merges = ["h e", "Ġ he", "l l", "he ll", "hell o"];
        from(json!({
            "version": "1.0",
            "truncation": {"max_length": 2, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
            "padding": null,
            "added_tokens": [
                {"id": 261, "content": "<|end|>", "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false},
                {"id": 262, "content": "<|en|>", "special": false, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}
            ],
            "normalizer": null,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
            "post_processor": null,
            "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
            "model": {"type": "BPE", "vocab": vocab, "merges": merges}
        }))
    }

    fn sentence_piece() -> Tokenizer {
        let mut vocab = serde_json::Map::new();
        for token in ["<unk>", "▁", "a", "b", "▁a", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>"] {
            vocab.insert(token.into(), Value::from(vocab.len()));
        }
        from(json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
            "pre_tokenizer": null, "post_processor": null,
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"}, {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "vocab": vocab, "merges": ["▁ a"], "byte_fallback": true, "unk_token": "<unk>", "fuse_unk": true}
        }))
    }

    fn from(json: Value) -> Tokenizer {
        Tokenizer::from_json(json.to_string().as_bytes(), "test").unwrap()
    }

    #[test]
    fn no_text_makes_fewer_tokens_than_its_length_allows() {
        let tokenizer = byte_level();
        // `<|end|>` is the longest.
        assert_eq!(tokenizer.least_tokens(4 * 7 * 100), 100);
        assert_eq!(tokenizer.least_tokens(4 * 7 * 100 + 1), 101);
        assert_eq!(tokenizer.least_tokens(0), 0);
        let text = "<|end|>".repeat(50) + "hello";
        let tokens = tokenizer.encode(&text, false).unwrap();
        assert!(tokenizer.least_tokens(text.len()) <= tokens.len());
    }

    #[test]
    fn special_tokens_in_a_text_are_those_tokens() {
        let tokenizer = byte_level();
        let tokens = tokenizer.encode("hello hello<|end|>", false).unwrap();
        // hello, Ġhe, ll, o and the mark; not cut at 2 as the file asks.
        assert_eq!(tokens, [260, 257, 258, b'o'.into(), 261]);
        assert_eq!(tokenizer.text(&tokens), "hello hello");
        assert_eq!(tokenizer.label(261), "<|end|>");
        assert!(tokenizer.is_special(261) && !tokenizer.is_special(262));
        assert_eq!(tokenizer.added_prefix("<|end|>\n"), Some(261));
        assert_eq!(tokenizer.added_prefix("end"), None);
    }

    #[test]
    fn labels_show_spaces_and_parts_of_characters() {
        let tokenizer = byte_level();
        assert_eq!(tokenizer.label(tokenizer.id("Ġhe").unwrap()), " he");
        assert_eq!(tokenizer.label(0xE4), "\\xE4");
        assert_eq!(tokenizer.label(b'\n'.into()), "\n");
        assert_eq!(tokenizer.label(9999), "<9999>");
        assert_eq!(sentence_piece().label(5), "\\xF0");
        assert_eq!(sentence_piece().label(4), " a");
    }

    #[test]
    fn pieces_tell_text_from_bytes_and_marks() {
        let kinds = |tokenizer: &Tokenizer, ids: &[usize]| -> Vec<_> {
            let pieces = tokenizer.pieces(tokenizer.vocab_size() + 3);
            assert_eq!(pieces[tokenizer.vocab_size()..], [None, None, None]);
            ids.iter().map(|&id| pieces[id].as_ref().unwrap().kind).collect()
        };
        let (text, byte, special) = (PieceKind::Text, PieceKind::Byte, PieceKind::Special);
        assert_eq!(kinds(&byte_level(), &[65, 260, 261, 262]), [text, text, special, text]);
        assert_eq!(kinds(&sentence_piece(), &[1, 4, 5]), [text, text, byte]);
        // One text in two spellings.
        let (ours, theirs) = (byte_level().pieces(263), sentence_piece().pieces(9));
        let shared = SharedVocabulary::new(&theirs, &ours);
        assert_eq!(shared.counterpart(1), Some(b' '.into()));
        assert_eq!(shared.counterpart(5), Some(0xF0));
        let mut spelled = Vec::new();
        shared.translate(4, &mut spelled);
        assert_eq!(spelled, [u32::from(b' '), u32::from(b'a')]);
    }

    #[test]
    fn sentence_piece_gives_back_the_text() {
        let tokenizer = sentence_piece();
        let tokens = tokenizer.encode("a b 😀", false).unwrap();
        assert_eq!(tokens, [4, 1, 3, 1, 5, 6, 7, 8]);
        assert_eq!(tokenizer.text(&tokens), "a b 😀");
        assert_eq!(tokenizer.text(&tokens[..6]), "a b \u{FFFD}");
    }

    #[test]
    fn other_kinds_are_refused_by_name() {
        let mut json: Value =
            serde_json::from_str(&sentence_piece().0.tokenizer.to_string(false).unwrap()).unwrap();
        json["decoder"] = json!({"type": "WordPiece", "prefix": "##", "cleanup": true});
        let error = Tokenizer::from_json(json.to_string().as_bytes(), "x/tokenizer.json");
        let text = error.unwrap_err().to_string();
        assert!(text.contains("x/tokenizer.json") && text.contains("WordPiece"), "{text}");
        let text = Tokenizer::from_json(b"{", "x/tokenizer.json").unwrap_err().to_string();
        assert!(text.contains("x/tokenizer.json"), "{text}");
    }

    proptest! {
        #[test]
        fn byte_level_text_comes_back_and_agrees_with_the_library(text in "\\PC{0,20}[\\s\\PC]{0,20}") {
            let tokenizer = byte_level();
            let tokens = tokenizer.encode(&text, false).unwrap();
            prop_assert_eq!(tokenizer.text(&tokens), text);
            for cut in 0..tokens.len() {
                let ours = tokenizer.text(&tokens[..cut]);
                prop_assert_eq!(ours, tokenizer.0.tokenizer.decode(&tokens[..cut], true).unwrap());
            }
        }
    }
}
