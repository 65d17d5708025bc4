//! Text to token ids and back: from a `tokenizer.json`, or from the vocabulary in a GGUF file. It
//! must not depend on what a model does with the ids.

mod build;
mod byte_level;
mod check;
mod file;
mod fingerprint;
mod lines;
pub(super) mod pieces;
mod said;
mod sentence_piece;
mod vocabulary;

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use fnv::FnvHasher;
use tokenizers::{AddedToken, Encoding, Model};

use super::{LibraryError, Result};
use crate::caught::caught;
use crate::chat::Prompt;
use crate::files::hash_part;
use crate::model::{Piece, PieceKind};
use pieces::Pieces;
use said::{Finder, is_control};

pub(super) use byte_level::begins;
pub use fingerprint::Fingerprint;
pub(super) use vocabulary::{Scheme, TokenKind, Vocabulary};

/// A tokenizer. It is cheap to clone.
#[derive(Clone)]
pub struct Tokenizer(Arc<Inner>);

struct Inner {
    tokenizer: tokenizers::Tokenizer,
    pieces: Pieces,
    added: HashMap<u32, AddedToken>,
    /// Tokens around a bare text that the library does not know.
    begin: Option<u32>,
    end: Option<u32>,
    /// The most bytes of a token, once they were requested.
    longest: OnceLock<usize>,
    /// Created when a message first spells a control token; `None` if that is not possible.
    finder: OnceLock<Option<Finder>>,
    /// The token for what is missing in the vocabulary.
    unknown: Option<u32>,
    /// The file, for errors.
    origin: String,
}

/// A text with which the library is tried: characters of many kinds, so that a damaged table fails
/// when the file is opened and not in a conversation.
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
    /// [`LibraryError`] if it is damaged or of a kind that Llama-family models do not use.
    pub fn from_json(json: &[u8], origin: &str) -> Result<Self> {
        check::check(json).map_err(|reason| LibraryError::tokenizer(origin, reason))?;
        let tokenizer = caught(|| tokenizers::Tokenizer::from_bytes(json))
            .unwrap_or_else(|| Err("the tokenizers library crashed on it".into()))
            .map_err(|error| LibraryError::tokenizer(origin, error))?;
        Self::new(tokenizer, None, None, origin)
    }

    fn new(
        mut tokenizer: tokenizers::Tokenizer,
        begin: Option<u32>,
        end: Option<u32>,
        origin: &str,
    ) -> Result<Self> {
        // These are batch settings for training: a prompt is never cut or padded.
        tokenizer.with_truncation(None).map_err(|error| LibraryError::tokenizer(origin, error))?;
        tokenizer.with_padding(None);
        let pieces = Pieces::of(tokenizer.get_decoder()).map_err(|found| {
            let supported = "byte-level BPE, SentencePiece-style BPE";
            LibraryError::tokenizer_kind(origin, "decoder", found, supported)
        })?;
        let added = tokenizer.get_added_tokens_decoder().into_iter().collect();
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
            longest: OnceLock::new(),
            finder: OnceLock::new(),
            unknown,
            origin: origin.to_owned(),
        }));
        let library = &tokenizer.0.tokenizer;
        // Whether it can spell all this is a separate question.
        if caught(|| library.encode(TRIAL, true).is_ok()).is_none() {
            let reason = "the tokenizers library crashed on a short text";
            return Err(LibraryError::tokenizer(origin, reason));
        }
        Ok(tokenizer)
    }

    /// The tokens of `text`. Special tokens spelled in it (`<|user|>`) become those tokens; for
    /// messages, see [`Self::encode_prompt`]. With `begin`, the tokens that the model needs around
    /// a bare text are added, usually its begin-of-text token.
    ///
    /// # Errors
    /// [`LibraryError`].
    pub fn encode(&self, text: &str, begin: bool) -> Result<Vec<u32>> {
        let encoding = self.tried(|| self.0.tokenizer.encode_fast(text, begin))?;
        let tokens = encoding.get_ids().iter().copied();
        if !begin {
            return Ok(tokens.collect());
        }
        Ok(self.0.begin.into_iter().chain(tokens).chain(self.0.end).collect())
    }

    /// The tokens of a prompt, as from [`Self::encode`], except that a control token spelled in a
    /// message is treated as ordinary text. Each token comes with the bytes of the prompt that it
    /// represents: none for tokens that were added around it. Some tokenizers leave out white
    /// space.
    ///
    /// # Errors
    /// [`LibraryError`].
    pub fn encode_prompt(&self, prompt: &Prompt, begin: bool) -> Result<Vec<(u32, Range<usize>)>> {
        let mut encoding = self.tried(|| self.0.tokenizer.encode(prompt.text.as_str(), begin))?;
        if self.forged(&encoding, prompt).is_some() {
            let finder = self.finder().ok_or_else(|| self.failed())?;
            let Inner { tokenizer, added, .. } = &*self.0;
            encoding = self.tried(|| said::encode(tokenizer, finder, added, prompt, begin))?;
        }
        // Whatever a tokenizer's file does: no answer is better than a forged turn.
        if let Some(control) = self.forged(&encoding, prompt) {
            let control = self.label(control);
            let origin = &self.0.origin;
            return Err(LibraryError::encoding(format!(
                "a message contains the control token `{control}`, and {origin} cannot write it \
                 as text; remove it from the message"
            )));
        }
        let places = encoding.get_offsets().iter().map(|&(start, end)| start..end);
        let inside = encoding.get_ids().iter().copied().zip(places);
        if !begin {
            return Ok(inside.collect());
        }
        let around = |token: Option<u32>, at: usize| token.map(|token| (token, at..at));
        let first = around(self.0.begin, 0).into_iter();
        Ok(first.chain(inside).chain(around(self.0.end, prompt.text.len())).collect())
    }

    /// The tokens of a whole prompt. It begins with the begin-of-text token once where a GGUF file
    /// asks for it, whether or not its template writes it; with `bare`, tokens are added around it
    /// as around a bare text.
    ///
    /// # Errors
    /// [`LibraryError`].
    pub fn encode_whole(&self, prompt: &Prompt, bare: bool) -> Result<Vec<(u32, Range<usize>)>> {
        let mut tokens = self.encode_prompt(prompt, bare)?;
        let Some(begin) = self.0.begin else { return Ok(tokens) };
        let begins = tokens.iter().take_while(|(token, _)| *token == begin).count();
        if begins == 0 {
            tokens.insert(0, (begin, 0..0));
        } else if bare {
            tokens.drain(..begins - 1);
        }
        Ok(tokens)
    }

    /// A control token among those that represent the text of a message.
    fn forged(&self, encoding: &Encoding, prompt: &Prompt) -> Option<u32> {
        let mut tokens = encoding.get_ids().iter().zip(encoding.get_offsets());
        let forged = tokens.find(|&(token, &(start, end))| {
            let control = self.0.added.get(token).filter(|added| is_control(added));
            control.is_some_and(|added| {
                // It represents every character that is missing in the vocabulary.
                let lacking = self.0.unknown == Some(*token)
                    && !prompt.text[start..end].contains(&added.content);
                prompt.says(&(start..end)) && !lacking
            })
        });
        forged.map(|(&token, _)| token)
    }

    /// Every place where a text spells a control token, ordered by their start: what
    /// [`crate::chat::ChatTemplate::prompt`] needs.
    pub fn controls_in(&self, text: &str) -> Vec<Range<usize>> {
        self.finder().map(|finder| finder.controls_in(text)).unwrap_or_default()
    }

    fn finder(&self) -> Option<&Finder> {
        let made = || Finder::new(&self.0.tokenizer, &self.0.added).ok();
        self.0.finder.get_or_init(made).as_ref()
    }

    fn tried(&self, encode: impl FnOnce() -> tokenizers::Result<Encoding>) -> Result<Encoding> {
        let encoding = caught(encode).ok_or_else(|| self.failed())?;
        encoding.map_err(LibraryError::encoding)
    }

    fn failed(&self) -> LibraryError {
        LibraryError::encoding(format!("{}: the tokenizers library crashed on it", self.0.origin))
    }

    /// The text of `tokens` decoded together. Special tokens and ids outside the vocabulary have no
    /// text; an incomplete character becomes U+FFFD.
    pub fn text(&self, tokens: &[u32]) -> String {
        let visible = tokens.iter().filter(|&&token| !self.is_special(token));
        let bytes: Vec<u8> = visible.flat_map(|&token| self.bytes(token)).collect();
        let text = String::from_utf8_lossy(&bytes);
        // The space that SentencePiece puts before the first word is not part of the text.
        let text = match self.0.pieces {
            Pieces::SentencePiece { strips_first: true } => text.strip_prefix(' ').unwrap_or(&text),
            _ => &text,
        };
        text.to_owned()
    }

    /// How a token is shown on its own: whitespace kept, bytes of split characters as `\xNN`,
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

    /// The fewest tokens into which `bytes` bytes of text can be split: none spells more than the
    /// longest token of the vocabulary. A normaliser may shorten a text first, but no usual one to
    /// less than a quarter.
    pub fn least_tokens(&self, bytes: usize) -> usize {
        let longest = self.0.longest.get_or_init(|| {
            let length = |token| self.bytes(token).len();
            (0..self.vocab_size() as u32).map(length).max().unwrap_or_default().max(1)
        });
        bytes.div_ceil(4 * longest)
    }

    /// The id of the token with exactly this spelling.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.0.tokenizer.token_to_id(token)
    }

    /// Whether a token is a control token and not text.
    pub fn is_special(&self, token: u32) -> bool {
        self.0.added.get(&token).is_some_and(|added| added.special)
    }

    /// The added token (special or not) with which `text` begins; the longest if there are several.
    pub fn added_prefix(&self, text: &str) -> Option<u32> {
        let begins = self.0.added.iter().filter(|(_, added)| {
            !added.content.is_empty() && text.starts_with(added.content.as_str())
        });
        begins.max_by_key(|(_, added)| added.content.len()).map(|(&id, _)| id)
    }

    /// The number of tokens, including added ones. The model may have more rows.
    pub fn vocab_size(&self) -> usize {
        self.0.tokenizer.get_vocab_size(true)
    }

    /// A number that differs between tokenizers that may split a text differently.
    pub fn fingerprint(&self) -> u64 {
        // Serialisation orders the vocabulary by id. A tokenizer that cannot be serialised is
        // identified only by its size, and then nothing can be stored for it across programs.
        let spelled = self.0.tokenizer.to_string(false).unwrap_or_default();
        let mut hasher = std::hash::DefaultHasher::new();
        (spelled, self.0.begin, self.0.end, self.vocab_size()).hash(&mut hasher);
        hasher.finish()
    }

    /// The hash of the vocabulary, the same in every program, hexadecimal: for files that are
    /// stored.
    pub fn vocabulary_hash(&self) -> String {
        let mut hash = FnvHasher::default();
        for token in 0..self.vocab_size() as u32 {
            hash_part(&mut hash, self.label(token).as_bytes());
        }
        format!("{:016x}", hash.finish())
    }

    /// What each of the first `rows` ids represents; `None` for ids without a token.
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

    /// The bytes that a token represents; none for an id outside the vocabulary.
    fn bytes(&self, token: u32) -> Vec<u8> {
        if let Some(added) = self.0.added.get(&token) {
            return added.content.clone().into_bytes();
        }
        let spelled = self.0.tokenizer.id_to_token(token);
        spelled.map_or_else(Vec::new, |spelled| self.0.pieces.bytes(&spelled))
    }
}

#[cfg(test)]
mod tests;
