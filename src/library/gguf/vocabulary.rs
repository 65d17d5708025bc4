//! The tokenizer in a file's metadata. It must never split a text.

use super::file::GgufFile;
use super::roles::Roles;
use super::values::Value;
use crate::library::tokenizer::{Fingerprint, Scheme, TokenKind, Vocabulary};
use crate::library::{LibraryError, Result};

/// Reads the vocabulary with its rules, and what the roles of its tokens are.
pub(super) fn vocabulary(file: &GgufFile) -> Result<(Vocabulary, Roles)> {
    let tokens = needed(file, "tokenizer.ggml.tokens", GgufFile::texts)?;
    let merges = || needed(file, "tokenizer.ggml.merges", GgufFile::texts);
    let scheme = match model(file)? {
        LLAMA => {
            let scores = file.list("tokenizer.ggml.scores")?;
            let score = |score: &Value| score.as_f64().unwrap_or_default() as f32;
            Scheme::SentencePiece {
                scores: match scores {
                    Some(scores) => scores.iter().map(score).collect(),
                    None => vec![0.0; tokens.len()],
                },
                space_first: file.flag("tokenizer.ggml.add_space_prefix")?.unwrap_or(true),
            }
        }
        GEMMA_4 => Scheme::Lines { merges: merges()? },
        _ => Scheme::ByteLevel {
            merges: merges()?,
            pre: file.text("tokenizer.ggml.pre")?.unwrap_or("default").to_owned(),
        },
    };
    let roles = Roles::read(file, &scheme, &tokens)?;
    let mut kinds = kinds(file, tokens.len())?;
    roles.mark(&mut kinds, !matches!(scheme, Scheme::ByteLevel { .. }));
    let (begin, end) = roles.around(file, &scheme)?;
    let name = file.text("general.name")?.unwrap_or_default().to_lowercase();
    let marks_strip = ["phi-3", "phi3"].iter().any(|family| name.contains(family));
    Ok((Vocabulary { tokens, kinds, scheme, begin, end, marks_strip }, roles))
}

/// SentencePiece's BPE.
const LLAMA: &str = "llama";
/// BPE over bytes.
const GPT_2: &str = "gpt2";
/// BPE over the characters of a line.
const GEMMA_4: &str = "gemma4";

/// The kind of the tokenizer: one of the above. Others are an error.
pub(super) fn model(file: &GgufFile) -> Result<&str> {
    let what = "tokenizer.ggml.model";
    let model = needed(file, what, GgufFile::text)?;
    let known = [LLAMA, GPT_2, GEMMA_4];
    if known.contains(&model) {
        return Ok(model);
    }
    Err(LibraryError::tokenizer_kind(file.name(), what, model, &known.join(", ")))
}

/// The fingerprint of the vocabulary, if the file has one.
pub(super) fn fingerprint(file: &GgufFile) -> Option<Fingerprint> {
    let (count, tokens) =
        file.texts_at("tokenizer.ggml.tokens", Fingerprint::SAMPLED).ok().flatten()?;
    let ids = Fingerprint::SAMPLED.start..;
    Fingerprint::of(count, ids.zip(tokens.iter().map(String::as_str)))
}

fn kinds(file: &GgufFile, tokens: usize) -> Result<Vec<TokenKind>> {
    let listed = file.list("tokenizer.ggml.token_type")?.unwrap_or_default();
    let kind = |value: &Value| match value.as_u64() {
        Some(2) => TokenKind::Unknown,
        Some(3) => TokenKind::Control,
        Some(4) => TokenKind::UserDefined,
        Some(5) => TokenKind::Unused,
        Some(6) => TokenKind::Byte,
        _ => TokenKind::Normal,
    };
    let mut kinds: Vec<TokenKind> = listed.iter().take(tokens).map(kind).collect();
    kinds.resize(tokens, TokenKind::Normal);
    Ok(kinds)
}

fn needed<'a, T>(
    file: &'a GgufFile,
    key: &str,
    read: impl FnOnce(&'a GgufFile, &str) -> Result<Option<T>>,
) -> Result<T> {
    let remedy = "use a GGUF file that contains its tokenizer";
    let missing = || LibraryError::missing(file.name(), format!("metadata `{key}`"), remedy);
    read(file, key)?.ok_or_else(missing)
}
