//! Text to token ids and back: from a `tokenizer.json`, or from the vocabulary in a GGUF file. Must
//! never know what a model does with the ids.

mod build;
mod byte_level;
mod check;
mod fingerprint;
mod pieces;
mod said;
mod sentence_piece;
mod vocabulary;

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use tokenizers::{AddedToken, Encoding, Model};

use crate::caught::caught;
use crate::chat::Prompt;
use crate::files::{FNV_START, fnv1a_part};
use crate::model::{Piece, PieceKind};
use pieces::Pieces;
use said::{Finder, is_control};

pub use fingerprint::Fingerprint;
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
    /// Made when a message first spells a control token; `None` if it cannot be.
    finder: OnceLock<Option<Finder>>,
    /// The token of what the vocabulary lacks.
    unknown: Option<u32>,
    /// The file, for errors.
    origin: String,
}

/// What the library is tried with: characters of many kinds, so that a table that is damaged
/// fails when the file is opened and not in a conversation.
const TRIAL: &str = " !\"#$%&'()*+,-./0123456789:;<=>?@ABCXYZ[\\]^_`abcxyz{|}~\t\r\n  \u{a0}\
    éßİı\u{301}ﬁＡ①…–“漢字한글 नमस्ते العربية 😀👍🏽\u{200b}\u{fffd}▁";

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
        let unreadable =
            |reason: String| TokenizerError::Unreadable { origin: origin.to_owned(), reason };
        check::check(json).map_err(unreadable)?;
        let tokenizer = caught(|| tokenizers::Tokenizer::from_bytes(json))
            .ok_or_else(|| unreadable("the tokenizers library fails on it".to_owned()))?
            .map_err(|error| unreadable(error.to_string()))?;
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
        let (finder, origin) = (OnceLock::new(), origin.to_owned());
        // An unassigned character, alone.
        let lacking = caught(|| tokenizer.get_model().tokenize("\u{10fffd}"));
        let unknown = match lacking.as_ref().map(|tokens| tokens.as_deref()) {
            Some(Ok([token])) => Some(token.id),
            _ => None,
        };
        let tokenizer = Self(Arc::new(Inner {
            tokenizer,
            pieces,
            added,
            begin,
            end,
            longest,
            finder,
            unknown,
            origin,
        }));
        let library = &tokenizer.0.tokenizer;
        // Whether it can spell all this is another question.
        if caught(|| library.encode(TRIAL, true).is_ok()).is_none() {
            return Err(TokenizerError::Unreadable {
                origin: tokenizer.0.origin.clone(),
                reason: "the tokenizers library fails on a short text".to_owned(),
            });
        }
        Ok(tokenizer)
    }

    /// The tokens of `text`. Special tokens spelled out in it (`<|user|>`) become those tokens:
    /// for what people say, see [`Self::encode_prompt`]. With `begin`, whatever the model wants
    /// around a bare text is added, usually its begin-of-text token.
    ///
    /// # Errors
    /// [`TokenizerError::Encode`].
    pub fn encode(&self, text: &str, begin: bool) -> Result<Vec<u32>, TokenizerError> {
        let encoding = self.tried(|| self.0.tokenizer.encode_fast(text, begin))?;
        let around = |token: Option<u32>| token.filter(|_| begin);
        let tokens = around(self.0.begin).into_iter().chain(encoding.get_ids().iter().copied());
        Ok(tokens.chain(around(self.0.end)).collect())
    }

    /// The tokens of a prompt, as [`Self::encode`] gives them, except that a control token which a
    /// message spells is text like any other. With each, the bytes of the prompt that it stands
    /// for: none for those that were put around it. Some tokenizers leave white space out.
    ///
    /// # Errors
    /// [`TokenizerError::Encode`].
    pub fn encode_prompt(
        &self,
        prompt: &Prompt,
        begin: bool,
    ) -> Result<Vec<(u32, Range<usize>)>, TokenizerError> {
        let mut encoding = self.tried(|| self.0.tokenizer.encode(prompt.text.as_str(), begin))?;
        if self.forged(&encoding, prompt).is_some() {
            let finder = self.finder().ok_or_else(|| self.failed())?;
            let (tokenizer, added) = (&self.0.tokenizer, &self.0.added);
            encoding = self.tried(|| said::encode(tokenizer, finder, added, prompt, begin))?;
        }
        // Whatever a tokenizer's file makes of it: rather no answer than a forged turn.
        if let Some(control) = self.forged(&encoding, prompt) {
            let (control, origin) = (self.label(control), &self.0.origin);
            return Err(TokenizerError::Encode(format!(
                "{origin} has no other token for `{control}`, which a message spells; leave it out"
            )));
        }
        let around =
            |token: Option<u32>, at: usize| token.filter(|_| begin).map(|token| (token, at..at));
        let places = encoding.get_offsets().iter().map(|&(start, end)| start..end);
        let inside = encoding.get_ids().iter().copied().zip(places);
        let first = around(self.0.begin, 0).into_iter();
        Ok(first.chain(inside).chain(around(self.0.end, prompt.text.len())).collect())
    }

    /// A control token among those that stand for what a message says.
    fn forged(&self, encoding: &Encoding, prompt: &Prompt) -> Option<u32> {
        let mut tokens = encoding.get_ids().iter().zip(encoding.get_offsets());
        let forged = tokens.find(|&(token, &(start, end))| {
            let control = self.0.added.get(token).filter(|added| is_control(added));
            control.is_some_and(|added| {
                // It stands for every character that the vocabulary lacks.
                let lacking = self.0.unknown == Some(*token)
                    && !prompt.text[start..end].contains(&added.content);
                prompt.says(&(start..end)) && !lacking
            })
        });
        forged.map(|(&token, _)| token)
    }

    /// Every place where a text spells a control token, by their start: what
    /// [`crate::chat::ChatTemplate::prompt`] asks.
    pub fn controls_in(&self, text: &str) -> Vec<Range<usize>> {
        self.finder().map(|finder| finder.controls_in(text)).unwrap_or_default()
    }

    fn finder(&self) -> Option<&Finder> {
        let made = || Finder::new(&self.0.tokenizer, &self.0.added).ok();
        self.0.finder.get_or_init(made).as_ref()
    }

    fn tried(
        &self,
        encode: impl FnOnce() -> tokenizers::Result<Encoding>,
    ) -> Result<Encoding, TokenizerError> {
        let encoding = caught(encode).ok_or_else(|| self.failed())?;
        encoding.map_err(|error| TokenizerError::Encode(error.to_string()))
    }

    fn failed(&self) -> TokenizerError {
        TokenizerError::Encode(format!("{}: the tokenizers library fails on it", self.0.origin))
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

    /// What the vocabulary is, the same in every program, hexadecimal: for files that are kept.
    pub fn vocabulary_hash(&self) -> String {
        let labels = (0..self.vocab_size() as u32).map(|token| self.label(token));
        let hash = labels.fold(FNV_START, |hash, label| fnv1a_part(hash, label.as_bytes()));
        format!("{hash:016x}")
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
            "truncation": {"max_length": 2, "strategy": "LongestFirst", "stride": 0,
                "direction": "Right"},
            "padding": null,
            "added_tokens": [
                {"id": 261, "content": "<|end|>", "special": true, "single_word": false,
                    "lstrip": false, "rstrip": false, "normalized": false},
                {"id": 262, "content": "<|en|>", "special": false, "single_word": false,
                    "lstrip": false, "rstrip": false, "normalized": false}
            ],
            "normalizer": null,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false,
                "trim_offsets": true, "use_regex": true},
            "post_processor": null,
            "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
                "use_regex": true},
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
            "model": {"type": "BPE", "vocab": vocab, "merges": ["▁ a"], "byte_fallback": true,
                "unk_token": "<unk>", "fuse_unk": true}
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
        fn byte_level_text_comes_back_and_agrees_with_the_library(
            text in "\\PC{0,20}[\\s\\PC]{0,20}",
        ) {
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
