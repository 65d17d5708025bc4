//! The numbers that define a decoder-only transformer, and the check that we can run it. It must
//! not depend on how a file spells them.

use std::ops::{Range, RangeInclusive};

use super::rope::RopeScaling;
use super::{BlockOptions, Experts};
use crate::kernels::KvShape;

/// The order in which a checkpoint stores the rows of q and k.
///
/// The target itself always rotates halves. Rows of an interleaved checkpoint are put in that order
/// while they are packed, which changes no number because a row stays whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RopeLayout {
    /// Component i is rotated with i + d/2: Hugging Face checkpoints, GGUF of Qwen2 and Qwen3.
    #[default]
    Halves,
    /// Component 2i is rotated with 2i + 1: GGUF files of architecture `llama`.
    Interleaved,
}

/// Shape and constants of a decoder-only transformer: Llama's blocks (pre-norm RMSNorm,
/// grouped-query attention with RoPE, SwiGLU), changed by [`BlockOptions`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// V: rows of the embedding and of the LM head.
    pub vocab: usize,
    /// H: width of the residual stream.
    pub hidden: usize,
    /// I: width of the SwiGLU.
    pub intermediate: usize,
    /// N: number of decoder blocks.
    pub layers: usize,
    /// How many query heads there are.
    pub heads: usize,
    /// How many key and value heads there are; divides `heads`.
    pub kv_heads: usize,
    /// d: width of a head; even. `heads · head_dim` may differ from `hidden` (Qwen3).
    pub head_dim: usize,
    /// ε of every RMSNorm.
    pub rms_eps: f32,
    /// The base of the rotary frequencies.
    pub rope_theta: f64,
    /// How the rotary frequencies are changed for long contexts.
    pub rope_scaling: RopeScaling,
    /// How the checkpoint orders the rows of q and k.
    pub rope_layout: RopeLayout,
    /// Whether q, k and v have biases (Qwen2).
    pub qkv_bias: bool,
    /// Whether the attention's output projection has a bias (Llama with `attention_bias`).
    pub o_bias: bool,
    /// Whether each head's q and k pass an RMSNorm before RoPE (Qwen3).
    pub qk_norm: bool,
    /// Whether the LM head is the embedding matrix.
    pub tied_head: bool,
    /// How many positions the model was made for.
    pub max_positions: usize,
    /// What the family's blocks do differently from Llama's.
    pub block: BlockOptions,
}

/// Why a configuration cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("model config: `{field}` is {value}: {reason}")]
pub struct ConfigError {
    /// Name of the field as the checkpoint writes it.
    pub field: &'static str,
    /// Its value.
    pub value: String,
    /// What is wrong with it and which values would be right.
    pub reason: String,
}

impl ConfigError {
    pub(crate) fn new(
        field: &'static str,
        value: impl ToString,
        reason: impl Into<String>,
    ) -> Self {
        Self { field, value: value.to_string(), reason: reason.into() }
    }

    /// This error if the field is not `sound`.
    pub(super) fn unless(
        sound: bool,
        field: &'static str,
        value: impl ToString,
        reason: impl Into<String>,
    ) -> Result<(), Self> {
        if sound { Ok(()) } else { Err(Self::new(field, value, reason)) }
    }

    /// The error that a number is not positive and finite, if it is not.
    pub(super) fn unless_positive(field: &'static str, value: f64) -> Result<(), Self> {
        let sound = value.is_finite() && value > 0.0;
        Self::unless(sound, field, value, "it must be a positive number")
    }

    /// The error that a size is outside of these bounds, if it is.
    pub(super) fn unless_within(
        field: &'static str,
        value: usize,
        bounds: RangeInclusive<usize>,
    ) -> Result<(), Self> {
        let least = bounds.start();
        let most = bounds.end();
        let reason = format!("it must be between {least} and {most}; is the file damaged?");
        Self::unless(bounds.contains(&value), field, value, reason)
    }
}

// Far above every known model. These bounds keep the sizes in a corrupt header from overflowing a
// product.
const MOST_VOCAB: usize = 1 << 24;
const MOST_WIDTH: usize = 1 << 20;
const MOST_LAYERS: usize = 1 << 12;
const MOST_HEADS: usize = 1 << 12;
const MOST_HEAD_DIM: usize = 1 << 12;
const MOST_POSITIONS: usize = 1 << 28;

impl Config {
    /// The same model with only its first `layers` blocks, for measuring.
    #[must_use]
    pub(crate) fn with_layers(&self, layers: usize) -> Self {
        let mut cut = Self { layers, ..self.clone() };
        if let Some(window) = &mut cut.block.window {
            window.layers.truncate(layers);
        }
        if let Some(recurrent) = &mut cut.block.recurrent {
            recurrent.layers.truncate(layers);
        }
        cut.block.own_kv_layers = cut.block.own_kv_layers.filter(|&own| own < layers);
        cut
    }

    /// One further block of the model, which has attention (an MTP head's).
    pub(crate) fn further_block(&self, has_window: bool, has_experts: bool) -> Self {
        let mut further = Self { layers: 1, ..self.clone() };
        let block = &mut further.block;
        block.recurrent = None;
        block.intermediates = None;
        match &mut block.window {
            Some(window) if has_window => window.layers = vec![true],
            window => *window = None,
        }
        match &mut block.experts {
            Some(experts) if has_experts => experts.dense_layers = 0,
            experts => *experts = None,
        }
        further
    }

    /// Width of all query heads.
    pub(crate) fn q_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Width of all key heads, and of all value heads.
    pub(crate) fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// The key and value heads of a layer, of its own or of the layer whose it reads.
    pub(crate) fn kv_shape(&self, layer: usize) -> KvShape {
        let local = self.block.local_heads_of(layer);
        let (heads, key_dim) =
            local.map_or((self.kv_heads, self.head_dim), |local| (local.kv_heads, local.head_dim));
        let value_dim = self.block.value_dim.unwrap_or(key_dim);
        KvShape { heads, key_dim, value_dim }
    }

    /// The key and value heads that each of these layers stores.
    pub(crate) fn kv_shapes(&self, layers: Range<usize>) -> Vec<KvShape> {
        let own = |layer| self.block.kv_layer(layer) == layer && self.block.attends(layer);
        let none = KvShape::square(0, self.head_dim);
        layers.map(|layer| if own(layer) { self.kv_shape(layer) } else { none }).collect()
    }

    /// The last layer with a window and the last one without that have keys and values.
    pub(crate) fn last_caches(&self) -> Option<[usize; 2]> {
        let own = self.block.own_kv_layers.unwrap_or(self.layers);
        let last = |is_local: bool| {
            let fits = |&layer: &usize| {
                self.block.attends(layer) && self.block.window_of(layer).is_some() == is_local
            };
            (0..own).rev().find(fits)
        };
        Some([last(true)?, last(false)?])
    }

    /// The width of a layer's MLP.
    pub(crate) fn intermediate_of(&self, layer: usize) -> usize {
        let widths = self.block.intermediates.as_ref();
        widths.and_then(|widths| widths.get(layer).copied()).unwrap_or(self.intermediate)
    }

    /// How many dimensions of a head are rotated.
    pub fn rotary_dim(&self) -> usize {
        self.block.rotary_dim.unwrap_or(self.head_dim)
    }

    /// Weights of the linear layers, including the LM head once: what a pass over one row reads. In
    /// a mixture of experts only the experts that the row uses count.
    pub(crate) fn linear_weights(&self) -> u64 {
        let h = self.hidden as u64;
        let mlp = |width: usize| self.mlp_weights(width);
        let blocks: u64 = (0..self.layers)
            .map(|layer| match self.block.experts_of(layer) {
                Some(experts) => {
                    let router = h * experts.count as u64;
                    let chosen = experts.used as u64 * self.expert_weights(experts);
                    let latent = 2 * h * experts.latent as u64;
                    let beside = if experts.beside_mlp { self.intermediate_of(layer) } else { 0 };
                    router + chosen + latent + mlp(experts.shared_intermediate) + mlp(beside)
                }
                None => mlp(self.intermediate_of(layer)),
            })
            .sum();
        let attention: u64 = (0..self.layers).map(|layer| self.attention_weights(layer)).sum();
        // A gate and a projection in each layer, and their part of the common projection.
        let per_layer = 3 * h * (self.layers * self.block.per_layer_dim) as u64;
        attention + blocks + per_layer + self.vocab as u64 * h
    }

    /// Weights of all experts that a router chooses from, and the fraction of them that a row uses;
    /// `None` without a mixture of experts.
    pub(crate) fn routed_weights(&self) -> Option<(u64, f64)> {
        let experts = self.block.experts.as_ref()?;
        let layers = (0..self.layers).filter(|&layer| self.block.experts_of(layer).is_some());
        let each = self.expert_weights(experts);
        let all = layers.count() as u64 * experts.count as u64 * each;
        Some((all, experts.used as f64 / experts.count as f64))
    }

    /// Weights of an MLP of this width.
    fn mlp_weights(&self, width: usize) -> u64 {
        let matrices = if self.block.gated { 3 } else { 2 };
        matrices * self.hidden as u64 * width as u64
    }

    /// Weights of one of the experts that a router chooses from.
    fn expert_weights(&self, experts: &Experts) -> u64 {
        let all = self.mlp_weights(experts.intermediate);
        if experts.latent == 0 { all } else { all / self.hidden as u64 * experts.latent as u64 }
    }

    /// Weights of a layer's attention and of its recurrent part.
    fn attention_weights(&self, layer: usize) -> u64 {
        let [h, heads] = [self.hidden as u64, self.heads as u64];
        let recurrent = self.block.recurrent_of(layer).map_or(0, |all| {
            let factors: usize = all.factors().iter().map(|(_, rows)| rows).sum();
            h * (all.shape.channels + 2 * all.shape.outputs() + factors) as u64
        });
        let attention = match &self.block.latent {
            _ if !self.block.attends(layer) => 0,
            None => {
                let KvShape { heads: kv_heads, key_dim, value_dim } = self.kv_shape(layer);
                let own = if self.block.kv_layer(layer) == layer { kv_heads } else { 0 };
                let gates = if self.block.output_gate { self.q_width() } else { 0 };
                h * ((self.heads + own) * (key_dim + value_dim) + gates) as u64
            }
            Some(latent) => {
                let [kv, rope] = [latent.kv_rank as u64, latent.rope_dim as u64];
                let [nope, value] = [latent.nope_dim as u64, latent.value_dim as u64];
                let q = match latent.q_rank {
                    Some(rank) => rank as u64 * (h + heads * (nope + rope)),
                    None => h * heads * (nope + rope),
                };
                q + h * (kv + rope) + heads * kv * (nope + value) + h * heads * value
            }
        };
        recurrent + attention
    }

    /// Checks that the numbers fit together and that the transformer can run them.
    ///
    /// # Errors
    /// [`ConfigError`] on the first field that is wrong.
    pub fn checked(self) -> Result<Self, ConfigError> {
        for (field, value, most) in [
            ("vocab_size", self.vocab, MOST_VOCAB),
            ("hidden_size", self.hidden, MOST_WIDTH),
            ("intermediate_size", self.intermediate, MOST_WIDTH),
            ("num_hidden_layers", self.layers, MOST_LAYERS),
            ("num_attention_heads", self.heads, MOST_HEADS),
            ("num_key_value_heads", self.kv_heads, MOST_HEADS),
            ("head_dim", self.head_dim, MOST_HEAD_DIM),
            ("max_position_embeddings", self.max_positions, MOST_POSITIONS),
        ] {
            ConfigError::unless_within(field, value, 1..=most)?;
        }
        let reason = format!("it must divide num_attention_heads, {}", self.heads);
        let sound = self.heads.is_multiple_of(self.kv_heads);
        ConfigError::unless(sound, "num_key_value_heads", self.kv_heads, reason)?;
        let reason = "it must be even, since rotary positions rotate pairs of components";
        let sound = self.head_dim.is_multiple_of(2);
        ConfigError::unless(sound, "head_dim", self.head_dim, reason)?;
        let reason = "it must be a small positive number such as 1e-5";
        let sound = self.rms_eps.is_finite() && self.rms_eps > 0.0;
        ConfigError::unless(sound, "rms_norm_eps", self.rms_eps, reason)?;
        let reason = "it must be a positive number such as 10000";
        let sound = self.rope_theta.is_finite() && self.rope_theta > 0.0;
        ConfigError::unless(sound, "rope_theta", self.rope_theta, reason)?;
        self.rope_scaling.check(self.rotary_dim())?;
        self.block.check(self.layers, self.heads, self.head_dim)?;
        Ok(self)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::model::KnownShape;

    pub(crate) fn small() -> Config {
        Config {
            vocab: 32,
            hidden: 16,
            intermediate: 24,
            layers: 2,
            heads: 4,
            kv_heads: 2,
            head_dim: 8,
            max_positions: 64,
            ..KnownShape::B1.config()
        }
    }

    #[test]
    fn sound_numbers_pass_unchanged() {
        for config in KnownShape::all().map(KnownShape::config).into_iter().chain([small()]) {
            assert_eq!(config.clone().checked(), Ok(config));
        }
        // q is 4·8 = 32 wide, k and v 16.
        assert_eq!(small().linear_weights(), 2 * 16 * (64 + 32 + 72) + 32 * 16);
    }

    #[test]
    fn each_unsound_field_is_named() {
        let scaled = |rope_scaling| Config { rope_scaling, ..small() };
        for (config, field) in [
            (Config { vocab: 0, ..small() }, "vocab_size"),
            (Config { hidden: usize::MAX, ..small() }, "hidden_size"),
            (Config { layers: 0, ..small() }, "num_hidden_layers"),
            (Config { kv_heads: 3, ..small() }, "num_key_value_heads"),
            (Config { head_dim: 7, ..small() }, "head_dim"),
            (Config { rms_eps: f32::NAN, ..small() }, "rms_norm_eps"),
            (Config { rope_theta: -1.0, ..small() }, "rope_theta"),
            (scaled(RopeScaling::Linear { factor: 0.0 }), "rope_scaling"),
            (scaled(RopeScaling::Factors(vec![1.0; 3])), "rope_scaling"),
        ] {
            let error = config.checked().unwrap_err();
            assert_eq!(error.field, field, "{error}");
        }
    }
}
