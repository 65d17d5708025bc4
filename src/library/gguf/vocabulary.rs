//! The tokenizer in a file's metadata. It must never split a text.

use super::file::GgufFile;
use super::values::Value;
use crate::library::tokenizer::{Fingerprint, Scheme, TokenKind, Vocabulary};
use crate::library::{LibraryError, Result};

/// Reads the vocabulary with its rules.
pub(super) fn vocabulary(file: &GgufFile) -> Result<Vocabulary> {
    let tokens = needed(file, "tokenizer.ggml.tokens", GgufFile::texts)?;
    let merges = || needed(file, "tokenizer.ggml.merges", GgufFile::texts);
    let scheme = match model(file)? {
        LLAMA => {
            let scores = needed(file, "tokenizer.ggml.scores", GgufFile::list)?;
            let scores = scores.iter().map(|score| score.as_f64().unwrap_or_default() as f32);
            Scheme::SentencePiece {
                scores: scores.collect(),
                space_first: file.flag("tokenizer.ggml.add_space_prefix")?.unwrap_or(true),
            }
        }
        GEMMA_4 => Scheme::Lines { merges: merges()? },
        _ => Scheme::ByteLevel {
            merges: merges()?,
            pre: file.text("tokenizer.ggml.pre")?.unwrap_or("default").to_owned(),
        },
    };
    let in_bytes = matches!(scheme, Scheme::ByteLevel { .. });
    let kinds = kinds(file, tokens.len(), !in_bytes)?;
    // What a family does if its file does not say: SentencePiece models begin with their begin
    // token. Gemma 4 always does; some of its files wrongly say otherwise.
    let adds_bos = file.flag("tokenizer.ggml.add_bos_token")?.unwrap_or(!in_bytes)
        || matches!(scheme, Scheme::Lines { .. });
    let adds_eos = file.flag("tokenizer.ggml.add_eos_token")?.unwrap_or(false);
    let begin = if adds_bos { token(file, "bos")? } else { None };
    let end = if adds_eos { token(file, "eos")? } else { None };
    Ok(Vocabulary { tokens, kinds, scheme, begin, end })
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

/// The id of a token with a role, e.g. `eos`.
pub(super) fn token(file: &GgufFile, role: &str) -> Result<Option<u32>> {
    let id = file.number(&format!("tokenizer.ggml.{role}_token_id"))?;
    Ok(id.and_then(|id| u32::try_from(id).ok()))
}

fn kinds(file: &GgufFile, tokens: usize, has_unknown: bool) -> Result<Vec<TokenKind>> {
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
    // A file may leave out the types, or those of its control tokens.
    for role in ["bos", "eos", "eot", "eom", "padding"] {
        let id = token(file, role)?.and_then(|id| usize::try_from(id).ok());
        if let Some(kind @ TokenKind::Normal) = id.and_then(|id| kinds.get_mut(id)) {
            *kind = TokenKind::Control;
        }
    }
    let unknown = token(file, "unknown")?.and_then(|id| usize::try_from(id).ok());
    if has_unknown && let Some(kind @ TokenKind::Normal) = unknown.and_then(|id| kinds.get_mut(id))
    {
        *kind = TokenKind::Unknown;
    }
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
