//! A target's files in any format, and what all formats have in common. It must not depend
//! on how files are read.

use std::sync::Arc;

use super::sizes::Size;
use super::{LibraryError, Recommended, Result, Tokenizer};
use crate::chat::ChatTemplate;
use crate::kernels::{Format, KvFormat, Matrix, Pool};
use crate::model::head::HeadConfig;
use crate::model::{
    CandleFiles, Config, CpuTarget, LoadError, LoadRequest, ModelEngine, Repacked, WeightSource,
};

/// A target, ready to be built.
pub struct TargetFiles {
    /// Shape and constants.
    pub config: Config,
    /// The weights, mapped.
    pub weights: Box<dyn WeightSource + Send>,
    /// Text to tokens and back.
    pub tokenizer: Tokenizer,
    /// Conversation to text.
    pub template: ChatTemplate,
    /// Tokens that end an answer.
    pub eos: Vec<u32>,
    /// Whether it was trained to embed texts: its tokens see those after them.
    pub embeds: bool,
    /// The token that begins a text.
    pub bos: Option<u32>,
    /// The title, e.g. `dovetail-demo 6M`.
    pub name: String,
    /// E.g. `6.1 M parameters, BF16, 12 MB`.
    pub detail: String,
    /// Bytes of all weights.
    pub bytes: u64,
    /// Every tensor format that our kernels read with its bytes, the largest first.
    pub formats: Vec<(Format, u64)>,
    /// Whether formats that would be expanded in every product are repacked. It is `false` until
    /// there is known to be room for that.
    pub repack: bool,
    /// Sampling settings that the model's own files recommend.
    pub sampling: Recommended,
    /// The same files for candle-transformers, if it runs the model because our engine does not
    /// know its architecture.
    pub candle: Option<CandleFiles>,
    /// A draft head in these files, whose tensors are among the weights.
    pub mtp: Option<HeadConfig>,
}

impl TargetFiles {
    /// Who runs the model.
    pub fn engine(&self) -> ModelEngine {
        match self.candle {
            Some(_) => ModelEngine::Candle,
            None => ModelEngine::Dovetail,
        }
    }

    /// The weights, which are repacked if they are to be.
    pub fn source(&self) -> Repacked<'_> {
        Repacked { source: self.weights.as_ref(), repack: self.repack }
    }

    /// How many bytes the weights take in addition if they are repacked.
    pub fn growth(&self) -> u64 {
        self.formats.iter().map(|&(format, bytes)| Matrix::growth(format, bytes)).sum()
    }

    /// The target on the CPU, with room for `capacity` positions.
    ///
    /// # Errors
    /// [`LoadError`]; [`LoadError::OtherEngine`] if our engine does not run it.
    pub fn on_cpu(
        &self,
        pool: impl Into<Arc<Pool>>,
        capacity: usize,
        kv: KvFormat,
    ) -> Result<CpuTarget, LoadError> {
        if self.candle.is_some() {
            return Err(LoadError::OtherEngine);
        }
        let source = &self.source();
        CpuTarget::load(&LoadRequest::new(&self.config, source, pool.into(), capacity, kv))
    }
}

/// What is said of a model's files: its size, and the head that they hold.
pub(super) fn detail(size: &Size, mtp: Option<&HeadConfig>) -> String {
    let head = if mtp.is_some() { ", MTP head" } else { "" };
    size.detail() + head
}

/// A tokenizer with more tokens than the model has rows would request rows that do not exist.
pub(super) fn check_vocabulary(origin: &str, tokenizer: &Tokenizer, config: &Config) -> Result<()> {
    let count = tokenizer.vocab_size();
    let rows = config.vocab;
    if count <= rows {
        return Ok(());
    }
    Err(LibraryError::Unusable(format!(
        "{origin}: the tokenizer has {count} tokens, but the model has only {rows}; download both \
         from the same repository"
    )))
}

/// The end-of-sequence tokens, including the one with which the template ends a turn: Llama 3's
/// `<|eot_id|>` and ChatML's `<|im_end|>` are often missing from the lists.
pub(super) fn end_tokens(
    listed: Vec<u32>,
    template: &ChatTemplate,
    tokenizer: &Tokenizer,
    config: &Config,
) -> Vec<u32> {
    let mut all = listed;
    let after = template.end_of_turn().unwrap_or_default();
    let turn = tokenizer.added_prefix(after.trim_start());
    all.extend(turn.filter(|&token| tokenizer.is_special(token)));
    // If an answer consists of several messages on channels, this ends one of them.
    if ["<|channel|>", "<|return|>"].into_iter().all(|token| tokenizer.id(token).is_some()) {
        all.retain(|&token| Some(token) != tokenizer.id("<|end|>"));
    }
    all.retain(|&token| (token as usize) < config.vocab);
    all.sort_unstable();
    all.dedup();
    all
}
