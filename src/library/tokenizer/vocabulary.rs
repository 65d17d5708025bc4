//! A bare vocabulary with its rules, as in GGUF files. It must not depend on files.

use std::collections::HashMap;

use tokenizers::models::bpe::{BPE, BpeBuilder, Vocab};

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::library) enum TokenKind {
    /// Text.
    Normal,
    /// Represents what cannot be spelled.
    Unknown,
    /// A control token, which is not text.
    Control,
    /// Text that is one token in every place.
    UserDefined,
    /// A single byte, spelled `<0xNN>`.
    Byte,
    /// An unused row.
    Unused,
}

/// How texts become tokens.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::library) enum Scheme {
    /// SentencePiece's BPE: the pair whose union has the highest score is merged first.
    SentencePiece {
        /// One score per token.
        scores: Vec<f32>,
        /// Whether a space is put before the first word.
        space_first: bool,
    },
    /// GPT-2's BPE over bytes.
    ByteLevel {
        /// `left right`, the first merged first.
        merges: Vec<String>,
        /// llama.cpp's name of the rule that splits a text into words.
        pre: String,
    },
    /// Gemma 4's BPE: over characters, and whole lines.
    Lines {
        /// As above.
        merges: Vec<String>,
    },
}

/// A vocabulary with its rules.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::library) struct Vocabulary {
    /// Spelling by id.
    pub(in crate::library) tokens: Vec<String>,
    /// One kind per token.
    pub(in crate::library) kinds: Vec<TokenKind>,
    pub(in crate::library) scheme: Scheme,
    /// Put before a bare text.
    pub(in crate::library) begin: Option<u32>,
    /// Put after a bare text.
    pub(in crate::library) end: Option<u32>,
    /// Whether marks strip the white space after them, but for [`KEEPING`].
    pub(in crate::library) marks_strip: bool,
}

/// The marks of Phi-3 that leave white space as it is.
pub(super) const KEEPING: [&str; 3] = ["<unk>", "<s>", "<|endoftext|>"];

impl Vocabulary {
    /// The first id of a spelling counts, as in llama.cpp; tokens that appear twice keep their row
    /// but are never produced.
    pub(super) fn ids(&self) -> HashMap<&str, u32> {
        let mut ids = HashMap::with_capacity(self.tokens.len());
        for (id, token) in (0u32..).zip(&self.tokens) {
            ids.entry(token.as_str()).or_insert(id);
        }
        ids
    }
}

/// The merges whose three tokens are all in the vocabulary, as a model.
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
