//! Reads a head from a source of tensors, after checking all their names and shapes. It must not
//! depend on where the source is.

use std::collections::BTreeMap;

use candle_core::{DType, Tensor};

use super::layout::{
    D2T, EMBEDDING, FC, FC_BIAS, JOINED_TAP_NORM, LM_HEAD, NORM, QK, T2D, bias_name, block_name,
    expected, is_ignored, qk_norm_name, tap_norm,
};
use super::parts::{BlockWeights, Eagle3Weights, FusionWeights, HeadWeights, Linear, TensorSource};
use crate::model::head::kind::{FusionKind, published};
use crate::model::head::{DraftVocabulary, Eagle3Config, HeadConfig, HeadError, TapNorm};

/// The block of an EAGLE-3 head by its authors' name, and by the name in speculators.
const MIDLAYER: &str = "midlayer.";
const BLOCK_0: &str = "layers.0.";

const NO_HEAD: &str = "this is not a draft head: it has no `W_z` (DGF) and no `fc.weight` (EAGLE)";
const GATED_TAPS: &str = "it has `W_z` (DGF) and `fc.weight` (EAGLE); a head that gates the states \
    of several layers is not supported: train one of the kind dgf or eagle3";

impl HeadWeights {
    /// Reads the head's tensors from `source`. Prefixes left by training frameworks (`module.`,
    /// `model.`) are stripped.
    ///
    /// # Errors
    /// [`HeadError::Weights`] names at once every tensor that is missing, unknown or misshapen;
    /// [`HeadError::Unreadable`] if one that fits cannot be read.
    pub fn load(config: &HeadConfig, source: &dyn TensorSource) -> Result<Self, HeadError> {
        HeadLoader::checked(config, source)?.load()
    }
}

/// A source whose names and shapes have been checked.
struct HeadLoader<'a> {
    config: &'a HeadConfig,
    source: &'a dyn TensorSource,
    kind: FusionKind,
    /// Published name to the name in the source.
    names: BTreeMap<String, String>,
}

impl<'a> HeadLoader<'a> {
    fn checked(config: &'a HeadConfig, source: &'a dyn TensorSource) -> Result<Self, HeadError> {
        let mut problems = Vec::new();
        let mut names = BTreeMap::new();
        let mut stored = source.names();
        stored.sort();
        let kind = FusionKind::of(stored.iter().map(String::as_str));
        for name in stored {
            if let Some(other) = names.insert(canonical(&name, kind), name.clone()) {
                problems.push(format!("`{other}` and `{name}` are the same tensor"));
            }
        }
        let Some(kind) = kind else {
            let gated = names.contains_key("W_z");
            problems.push(if gated { GATED_TAPS } else { NO_HEAD }.to_owned());
            return Err(HeadError::Weights { problems });
        };
        let mut loader = Self { config, source, kind, names };
        problems.extend(loader.compare());
        if !problems.is_empty() {
            return Err(HeadError::Weights { problems });
        }
        loader.names.retain(|name, _| !is_ignored(name, config));
        Ok(loader)
    }

    /// Every difference between the tensors present and those the config asks for.
    fn compare(&self) -> Vec<String> {
        let layout = expected(self.config, self.kind, |name| self.names.contains_key(name));
        let mut problems = Vec::new();
        for (name, (expected, required)) in &layout {
            let found = self.names.get(name).and_then(|stored| self.source.shape(stored));
            match found {
                None if *required => {
                    let name = self.told(name);
                    problems.push(format!("`{name}` {expected:?} is missing"));
                }
                Some(found) if found != *expected => {
                    let name = self.told(name);
                    problems.push(format!("`{name}` is {found:?}, expected {expected:?}"));
                }
                _ => {}
            }
        }
        for (name, stored) in &self.names {
            if !layout.contains_key(name) && !is_ignored(name, self.config) {
                let shape = self.source.shape(stored).unwrap_or_default();
                problems.push(format!("`{stored}` {shape:?} is not a tensor of a draft head"));
            }
        }
        problems
    }

    fn load(&self) -> Result<HeadWeights, HeadError> {
        let fusion = match self.kind {
            FusionKind::Dgf => FusionWeights::Dgf {
                w_1: self.take("W_1")?,
                w_2: self.take("W_2")?,
                w_z: self.take("W_z")?,
                norm: self.take("input_layernorm.weight")?,
            },
            FusionKind::Eagle => {
                FusionWeights::Eagle { fc: self.take(FC)?, bias: self.take_optional(FC_BIAS)? }
            }
            FusionKind::Eagle3 => FusionWeights::Eagle3(Box::new(self.eagle3()?)),
        };
        let blocks = (0..self.config.blocks()).map(|block| self.block(block));
        let blocks: Vec<BlockWeights> = blocks.collect::<Result<_, _>>()?;
        let mut config = self.config.clone();
        config.body.qk_norm = blocks.iter().any(|block| block.qk_norm.is_some());
        let lm_head = if self.kind.taps() { self.take_optional(LM_HEAD)? } else { None };
        Ok(HeadWeights {
            config,
            fusion,
            blocks,
            lm_head,
            embedding: self.take_optional(EMBEDDING)?,
            draft_vocab: self.config.draft_vocab.map(|_| self.draft_vocab()).transpose()?,
        })
    }

    fn draft_vocab(&self) -> Result<DraftVocabulary, HeadError> {
        let offsets = self.take(D2T)?.to_dtype(DType::I64)?.to_vec1::<i64>()?;
        let wrong = |problem| HeadError::Weights { problems: vec![problem] };
        let tokens =
            DraftVocabulary::from_offsets(&offsets, self.config.body.vocab).map_err(wrong)?;
        let Some(t2d) = self.take_optional(T2D)? else { return Ok(tokens) };
        let scored = t2d.to_dtype(DType::U8)?.to_vec1::<u8>()?;
        match (0u32..).zip(scored).find(|&(token, scored)| (scored != 0) != tokens.contains(token))
        {
            None => Ok(tokens),
            Some((token, _)) => Err(wrong(format!(
                "`d2t` and `t2d` disagree on whether the head scores token {token}"
            ))),
        }
    }

    fn block(&self, block: usize) -> Result<BlockWeights, HeadError> {
        let at = block_name(self.kind, block);
        let linear = |x: &str| -> Result<Linear, HeadError> {
            Ok(Linear {
                weight: self.take(&format!("{at}.self_attn.{x}_proj.weight"))?,
                bias: self.take_optional(&bias_name(&at, x))?,
            })
        };
        // EAGLE-3's norm applies only to the embedding.
        let input_norm = match self.kind {
            FusionKind::Eagle3 => None,
            _ => self.take_optional(&format!("{at}.input_layernorm.weight"))?,
        };
        let [q_norm, k_norm] = QK.map(|x| self.take_optional(&qk_norm_name(&at, x)));
        Ok(BlockWeights {
            input_norm,
            qk_norm: q_norm?.zip(k_norm?).map(|(q, k)| [q, k]),
            q: linear("q")?,
            k: linear("k")?,
            v: linear("v")?,
            o: self.take(&format!("{at}.self_attn.o_proj.weight"))?,
            post_norm: self.take(&format!("{at}.post_attention_layernorm.weight"))?,
            gate: self.take(&format!("{at}.mlp.gate_proj.weight"))?,
            up: self.take(&format!("{at}.mlp.up_proj.weight"))?,
            down: self.take(&format!("{at}.mlp.down_proj.weight"))?,
        })
    }

    fn eagle3(&self) -> Result<Eagle3Weights, HeadError> {
        let eagle3 = self.config.eagle3.as_ref();
        let taps = eagle3.map_or(0, Eagle3Config::tap_count);
        let each = || -> Result<Tensor, HeadError> {
            let norms = (0..taps).map(|tap| self.take(&tap_norm(tap)));
            Ok(Tensor::cat(&norms.collect::<Result<Vec<_>, _>>()?, 0)?)
        };
        Ok(Eagle3Weights {
            fc: self.take(FC)?,
            bias: self.take_optional(FC_BIAS)?,
            tap_norm: match eagle3.and_then(|eagle3| eagle3.tap_norm) {
                None => None,
                Some(TapNorm::Each) => Some(each()?),
                Some(TapNorm::Joined) => Some(self.take(JOINED_TAP_NORM)?),
            },
            normed_together: eagle3.map_or(1, Eagle3Config::normed_together),
            embedding_norm: self.take("midlayer.input_layernorm.weight")?,
            state_norm: self.take("midlayer.hidden_norm.weight")?,
            norm: self.take(NORM)?,
            norm_before_residual: eagle3.is_some_and(|eagle3| eagle3.norm_before_residual),
            norm_output: eagle3.is_some_and(|eagle3| eagle3.norm_output),
        })
    }

    /// A tensor's name in this checkpoint.
    fn told(&self, name: &str) -> String {
        let speculators = self.names.values().any(|stored| published(stored).starts_with(BLOCK_0));
        match name.strip_prefix(MIDLAYER) {
            Some(part) if speculators => format!("{BLOCK_0}{part}"),
            _ => name.to_owned(),
        }
    }

    fn take(&self, name: &str) -> Result<Tensor, HeadError> {
        let stored = self.names.get(name).map_or(name, String::as_str);
        self.source.tensor(stored).map_err(|error| HeadError::Unreadable {
            name: stored.into(),
            reason: error.to_string(),
        })
    }

    fn take_optional(&self, name: &str) -> Result<Option<Tensor>, HeadError> {
        self.names.contains_key(name).then(|| self.take(name)).transpose()
    }
}

/// The name that we use for a tensor.
fn canonical(name: &str, kind: Option<FusionKind>) -> String {
    let name = published(name);
    match name.strip_prefix(BLOCK_0) {
        Some(part) if kind == Some(FusionKind::Eagle3) => format!("{MIDLAYER}{part}"),
        _ => name.to_owned(),
    }
}
