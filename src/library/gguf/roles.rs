//! What tokens are for, where a file does not say: its readers know it from the kind of the
//! tokenizer and from spellings, and ours fills in what llama.cpp does. It must never split a text.

use std::collections::HashMap;

use super::file::GgufFile;
use crate::library::Result;
use crate::library::tokenizer::{Scheme, TokenKind, begins};

/// The spellings that end an answer in every vocabulary.
const ENDS: [&str; 22] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
];

/// The tokens between the files of a repository, which end an answer too: their keys, and the
/// spellings that count for files without the key.
const BETWEEN_FILES: [(&str, &[&str]); 3] = [
    ("fim_pad", &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"]),
    ("fim_rep", &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"]),
    ("fim_sep", &["<|file_sep|>"]),
];

/// Spellings that do not end an answer in a vocabulary that has all the others.
const NOT_ENDS: [(&str, &[&str]); 4] = [
    // It ends one of several messages on channels.
    ("<|end|>", &["<|return|>", "<|call|>"]),
    ("<|end|>", &["<|return|>", "<|calls|>"]),
    ("<|end|>", &["<|calls|>", "<|flush|>"]),
    ("</s>", &["<|tool_response>"]),
];

/// The ids of tokens by what they are for.
pub(super) struct Roles {
    pub(super) bos: Option<u32>,
    pub(super) unknown: Option<u32>,
    pub(super) padding: Option<u32>,
    /// The file's own end token.
    pub(super) eos: Option<u32>,
    /// Every token that ends an answer.
    pub(super) ends: Vec<u32>,
}

impl Roles {
    /// Those in the file's metadata, completed.
    pub(super) fn read(file: &GgufFile, scheme: &Scheme, tokens: &[String]) -> Result<Self> {
        let id = |role: &str| -> Result<Option<u32>> {
            let id = file.number(&format!("tokenizer.ggml.{role}_token_id"))?;
            let id = id.and_then(|id| u32::try_from(id).ok());
            Ok(id.filter(|&id| (id as usize) < tokens.len()))
        };
        // SentencePiece's own ids.
        let default = |id: u32| {
            let is_llama = matches!(scheme, Scheme::SentencePiece { .. });
            Some(id).filter(|&id| is_llama && (id as usize) < tokens.len())
        };
        let mut ids: HashMap<&str, u32> = HashMap::new();
        for (id, token) in (0u32..).zip(tokens) {
            ids.entry(token).or_insert(id);
        }
        let eos = id("eos")?.or(default(2));
        let mut ends: Vec<u32> = [eos, id("eot")?, id("eom")?].into_iter().flatten().collect();
        for (role, spellings) in BETWEEN_FILES {
            let spelled = || spellings.iter().find_map(|spelled| ids.get(spelled).copied());
            ends.extend(id(role)?.or_else(spelled));
        }
        ends.extend(ENDS.iter().filter_map(|spelled| ids.get(spelled)));
        for (spelled, others) in NOT_ENDS {
            if others.iter().all(|other| ids.contains_key(other)) {
                ends.retain(|id| Some(id) != ids.get(spelled));
            }
        }
        Ok(Self {
            bos: id("bos")?.or(default(1)),
            unknown: id("unknown")?.or(default(0)),
            padding: id("padding")?,
            eos,
            ends,
        })
    }

    /// Gives tokens the kinds of their roles, whatever the file says of those that end an answer.
    pub(super) fn mark(&self, kinds: &mut [TokenKind], has_unknown: bool) {
        let of = |role: Option<u32>| role.and_then(|id| usize::try_from(id).ok());
        for id in self.ends.iter().filter_map(|&id| of(Some(id))) {
            kinds[id] = TokenKind::Control;
        }
        for id in [self.bos, self.padding].into_iter().filter_map(of) {
            if kinds[id] == TokenKind::Normal {
                kinds[id] = TokenKind::Control;
            }
        }
        if let Some(id) =
            of(self.unknown).filter(|&id| has_unknown && kinds[id] == TokenKind::Normal)
        {
            kinds[id] = TokenKind::Unknown;
        }
    }

    /// The tokens before and after a bare text. Gemma 4 always has one before it; some of its files
    /// wrongly say otherwise.
    pub(super) fn around(
        &self,
        file: &GgufFile,
        scheme: &Scheme,
    ) -> Result<(Option<u32>, Option<u32>)> {
        let usual = match scheme {
            Scheme::ByteLevel { pre, .. } => begins(pre),
            Scheme::SentencePiece { .. } | Scheme::Lines { .. } => true,
        };
        let adds_bos = file.flag("tokenizer.ggml.add_bos_token")?.unwrap_or(usual)
            || matches!(scheme, Scheme::Lines { .. });
        let adds_eos = file.flag("tokenizer.ggml.add_eos_token")?.unwrap_or(false);
        Ok((self.bos.filter(|_| adds_bos), self.eos.filter(|_| adds_eos)))
    }
}
