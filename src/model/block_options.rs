//! What a family's decoder block does differently from Llama's, as numbers: one description that
//! the forward pass reads, instead of a copy of the pass for each family. It does not depend on
//! tensor names.

use super::ConfigError;
use crate::kernels::{Activation, Pool, RecurrentShape, StateKind, softcap};

/// The options of a decoder block. The default is Llama's: pre-norm RMSNorm, full causal attention,
/// SwiGLU.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockOptions {
    /// The kind of every norm except those of q and k.
    pub norm: NormKind,
    /// What is added to every stored norm weight: 1 in Gemma's Hugging Face checkpoints.
    pub norm_offset: f32,
    /// Whether attention and MLP read a norm of the residual stream (all but OLMo 2).
    pub input_norms: bool,
    /// Whether the outputs of attention and MLP pass a norm before they are added to the stream
    /// (Gemma 2 and 3, OLMo 2).
    pub output_norms: bool,
    /// Whether attention and MLP read the same norm of the stream, so that the MLP does not see
    /// what attention adds (Cohere, Phi-2, StableLM 2 12B).
    pub parallel: bool,
    /// Whether the inputs of the output projections of attention and MLP pass a norm (BitNet).
    pub inner_norms: bool,
    /// The norms of q and k, if the model has them.
    pub qk_norm: QkNorm,
    /// The MLP's activation function.
    pub activation: Activation,
    /// Whether the MLP is gated; without a gate it is down(activation(up(x))) (StarCoder2).
    pub gated: bool,
    /// Whether the MLP's matrices have biases (StarCoder2).
    pub mlp_bias: bool,
    /// Whether the LM head has a bias (Phi-2).
    pub head_bias: bool,
    /// The factor of the embeddings (Gemma: √H; Granite).
    pub embedding_scale: f32,
    /// The factor of what attention and MLP add to the stream (Granite).
    pub residual_scale: f32,
    /// The divisor of the logits (Granite).
    pub logit_divisor: f32,
    /// The factor of the attention scores; `None` means 1/√d.
    pub attention_scale: Option<f32>,
    /// The soft cap of the attention scores (Gemma 2).
    pub attention_softcap: Option<f32>,
    /// The soft cap of the logits (Gemma 2).
    pub final_softcap: Option<f32>,
    /// Sliding-window attention in some or all layers.
    pub window: Option<SlidingWindow>,
    /// How many dimensions of a head are rotated, starting with the first; `None` means all.
    pub rotary_dim: Option<usize>,
    /// The base of the rotary frequencies in layers with a window, where they are not scaled
    /// (Gemma 3).
    pub local_rope_theta: Option<f64>,
    /// Every how many layers one has no rotary positions (SmolLM3: 4); 0 means never.
    pub no_rope_every: usize,
    /// Whether layers without a window have rotary positions (all but Cohere 2 and EXAONE 4 32B).
    pub global_rope: bool,
    /// Whether each query head has an attention sink (gpt-oss).
    pub sinks: bool,
    /// Whether the heads of layers without a window have sinks too (all but MiMo-V2).
    pub global_sinks: bool,
    /// The width of a value head if it is not that of a key head (MiMo-V2).
    pub value_dim: Option<usize>,
    /// The factor of attention's output (MiMo-V2).
    pub attention_out_scale: f32,
    /// The heads of layers with a window if they differ from the others (Gemma 4, MiMo-V2).
    pub local_heads: Option<LocalHeads>,
    /// The layers from this one on have no keys and values. Those with a window read the keys and
    /// values of the last layer before it that has one, the others of the last that has none (Gemma
    /// 4 E2B and E4B).
    pub own_kv_layers: Option<usize>,
    /// Whether values pass an RMS norm without weights (Gemma 4).
    pub value_norm: bool,
    /// Whether the values of layers without a window are their keys before norm and RoPE (Gemma 4
    /// 31B).
    pub global_values_are_keys: bool,
    /// The width of each layer's MLP, if they differ (Gemma 4 E2B); 0 means none.
    pub intermediates: Option<Vec<usize>>,
    /// The width of an embedding that each layer adds (Gemma 4 E2B and E4B); 0 means none.
    pub per_layer_dim: usize,
    /// Whether a layer ends by scaling the stream (Gemma 4).
    pub output_scale: bool,
    /// A mixture of experts instead of the MLP.
    pub experts: Option<Experts>,
    /// Multi-head latent attention (DeepSeek V2 and V3).
    pub latent: Option<LatentAttention>,
    /// Whether q's matrix also computes, for each head, a gate of attention's output (Qwen3.5).
    pub output_gate: bool,
    /// Layers with a recurrent state.
    pub recurrent: Option<RecurrentLayers>,
    /// Whether a layer has one part: a state, attention or an MLP (Nemotron-H).
    pub one_part: bool,
}

impl Default for BlockOptions {
    fn default() -> Self {
        Self {
            norm: NormKind::Rms,
            norm_offset: 0.0,
            input_norms: true,
            output_norms: false,
            parallel: false,
            inner_norms: false,
            qk_norm: QkNorm::PerHead,
            activation: Activation::Silu,
            gated: true,
            mlp_bias: false,
            head_bias: false,
            embedding_scale: 1.0,
            residual_scale: 1.0,
            logit_divisor: 1.0,
            attention_scale: None,
            attention_softcap: None,
            final_softcap: None,
            window: None,
            rotary_dim: None,
            local_rope_theta: None,
            no_rope_every: 0,
            global_rope: true,
            sinks: false,
            global_sinks: true,
            value_dim: None,
            attention_out_scale: 1.0,
            local_heads: None,
            own_kv_layers: None,
            value_norm: false,
            global_values_are_keys: false,
            intermediates: None,
            per_layer_dim: 0,
            output_scale: false,
            experts: None,
            latent: None,
            output_gate: false,
            recurrent: None,
            one_part: false,
        }
    }
}

/// How a norm centres and scales.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NormKind {
    /// Divides by the root of the mean square, without a bias.
    #[default]
    Rms,
    /// Uses mean and variance, with a bias (StarCoder2).
    Layer,
    /// The same without a bias (Cohere).
    LayerWithoutBias,
}

/// The norms of q and k.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QkNorm {
    /// RMS norms of each head, all with the same weights, before RoPE (Qwen3).
    #[default]
    PerHead,
    /// The same after RoPE (Hunyuan).
    PerHeadAfterRope,
    /// RMS norms of all heads at once, before RoPE (OLMo 2).
    OverHeads,
    /// Layer norms without a bias of each head with its own weights, before RoPE (StableLM 2 12B).
    LayerPerHead,
}

/// Sliding-window attention: a position sees itself and the `size` − 1 positions before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlidingWindow {
    /// How many positions are seen.
    pub size: usize,
    /// For each layer, whether it has the window; a layer without it sees everything.
    pub layers: Vec<bool>,
}

/// The heads of layers with a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalHeads {
    /// How many key and value heads there are.
    pub kv_heads: usize,
    /// The width of a head.
    pub head_dim: usize,
    /// How many dimensions of a head are rotated.
    pub rotary_dim: usize,
}

/// A mixture of experts: a router chooses some MLPs for each row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Experts {
    /// E: how many experts a layer has.
    pub count: usize,
    /// How many experts a row uses.
    pub used: usize,
    /// The width of an expert.
    pub intermediate: usize,
    /// How many layers at the start have a plain MLP.
    pub dense_layers: usize,
    /// How the router's logits become weights.
    pub gating: Gating,
    /// Whether the weights of the chosen experts are divided by their sum.
    pub normalised: bool,
    /// The factor of the weights.
    pub scale: f32,
    /// Experts are chosen within the best groups: (groups, groups used). The score of a group is
    /// its best expert's score, or with [`Self::selection_bias`] the sum of its two best.
    pub groups: Option<(usize, usize)>,
    /// The width of the expert that every row uses in addition to the chosen ones; 0 means none.
    pub shared_intermediate: usize,
    /// The width of what the chosen experts read and write, if it is not that of the stream
    /// (Nemotron 3); 0 means that it is.
    pub latent: usize,
    /// Whether the output of that expert has a gate, a number for each row (Qwen3-Next).
    pub shared_gate: bool,
    /// Whether router and experts have biases (gpt-oss).
    pub bias: bool,
    /// Whether a bias is added to the router's scores for the choice only (DeepSeek V3).
    pub selection_bias: bool,
    /// Whether a layer also has an MLP, whose output is added to that of the experts. Both have
    /// norms of their own, and so has the router (Gemma 4 26B).
    pub beside_mlp: bool,
}

/// How a router's logits become the weights of experts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gating {
    /// Softmax over all experts, then the choice.
    #[default]
    Softmax,
    /// The choice, then softmax over the chosen (gpt-oss).
    SoftmaxOfChosen,
    /// The logistic function of each (DeepSeek V3).
    Sigmoid,
}

/// Multi-head latent attention. The keys and values of all heads are products of one latent vector
/// per position, and all heads share the rotated part of the key. It runs in its absorbed form: the
/// cache holds the latent and the rotated part as the only key head, and queries are projected to
/// match. So [`super::Config::head_dim`] is `rope_dim + kv_rank` and there is one key head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatentAttention {
    /// The width of the latent from which queries are computed; `None` computes them from the
    /// stream (Lite).
    pub q_rank: Option<usize>,
    /// The width of the latent from which keys and values are computed.
    pub kv_rank: usize,
    /// How many dimensions of a head are not rotated.
    pub nope_dim: usize,
    /// How many dimensions of a head are rotated.
    pub rope_dim: usize,
    /// How many dimensions the value of a head has.
    pub value_dim: usize,
}

/// Layers that carry a state from position to position: gated DeltaNet, Mamba-2, or short
/// convolutions if they have no heads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecurrentLayers {
    /// For each layer, whether it is one of them.
    pub layers: Vec<bool>,
    /// Whether they have attention too (Falcon-H1).
    pub beside_attention: bool,
    /// Whether the results of heads pass a norm (all but Falcon-H1).
    pub norm: bool,
    /// Their widths.
    pub shape: RecurrentShape,
    /// Whether the weights hold the logarithms of the decay rates (checkpoints), not the negative
    /// rates (GGUF files).
    pub log_decay: bool,
    /// Whether one matrix computes the steps and factors of DeltaNet's heads (Qwen3-Next).
    pub fused_gates: bool,
}

impl BlockOptions {
    /// The window of a layer.
    pub fn window_of(&self, layer: usize) -> Option<usize> {
        let window = self.window.as_ref()?;
        window.layers.get(layer).copied().unwrap_or(false).then_some(window.size)
    }

    /// The heads of a layer with a window, if they differ from the others.
    pub(crate) fn local_heads_of(&self, layer: usize) -> Option<LocalHeads> {
        self.window_of(layer).and(self.local_heads)
    }

    /// The layer whose keys and values a layer reads: its own or an earlier one.
    pub(crate) fn kv_layer(&self, layer: usize) -> usize {
        let own = self.own_kv_layers.unwrap_or(usize::MAX);
        let kind = |layer: &usize| self.window_of(*layer).is_some();
        let last = || (0..own).rev().find(|earlier| kind(earlier) == kind(&layer));
        if layer < own { layer } else { last().unwrap_or(layer) }
    }

    /// Whether a layer has attention.
    pub(crate) fn attends(&self, layer: usize) -> bool {
        match self.recurrent_of(layer) {
            Some(recurrent) => recurrent.beside_attention,
            None => !self.one_part || !self.has_mlp(layer),
        }
    }

    /// Whether a layer has an MLP or experts.
    pub(crate) fn has_mlp(&self, layer: usize) -> bool {
        self.intermediates.as_ref().is_none_or(|all| all.get(layer).is_some_and(|&width| width > 0))
    }

    /// The recurrent part of a layer, if it has one.
    pub(crate) fn recurrent_of(&self, layer: usize) -> Option<&RecurrentLayers> {
        let all = self.recurrent.as_ref()?;
        all.layers.get(layer).copied().unwrap_or(false).then_some(all)
    }

    /// The experts of a layer, if it has any.
    pub(crate) fn experts_of(&self, layer: usize) -> Option<&Experts> {
        let experts = self.experts.as_ref()?;
        (layer >= experts.dense_layers && self.has_mlp(layer)).then_some(experts)
    }

    /// Scales a token's embedding as the family does.
    pub(super) fn scale_embedding(&self, row: &mut [f32]) {
        if self.embedding_scale != 1.0 {
            for x in row.iter_mut() {
                *x *= self.embedding_scale;
            }
        }
    }

    /// Scales and caps the products of the LM head as the family does.
    pub(super) fn finish_logits(&self, pool: &Pool, logits: &mut [f32]) {
        if self.logit_divisor != 1.0 {
            for x in logits.iter_mut() {
                *x /= self.logit_divisor;
            }
        }
        if let Some(cap) = self.final_softcap {
            softcap(pool, logits, cap);
        }
    }

    /// Checks the numbers against `layers`, `heads` and `head_dim` of the configuration.
    pub(super) fn check(
        &self,
        layers: usize,
        heads: usize,
        head_dim: usize,
    ) -> Result<(), ConfigError> {
        for (field, value) in [
            ("embedding_scale", Some(self.embedding_scale)),
            ("residual_scale", Some(self.residual_scale)),
            ("logit_scale", Some(self.logit_divisor)),
            ("attention.scale", self.attention_scale),
            ("attention.value_scale", Some(self.attention_out_scale)),
            ("attn_logit_softcapping", self.attention_softcap),
            ("final_logit_softcapping", self.final_softcap),
        ] {
            ConfigError::unless_positive(field, f64::from(value.unwrap_or(1.0)))?;
        }
        if let Some(window) = &self.window {
            let value = format!("{} over {} layers", window.size, window.layers.len());
            let reason = "it must be positive and have a pattern for each layer";
            let sound = window.size > 0 && window.layers.len() == layers;
            ConfigError::unless(sound, "sliding_window", value, reason)?;
        }
        let rotated = |field, dim: usize, head_dim: usize| {
            let reason = format!("it must be even and at most the head width, {head_dim}");
            let sound = (1..=head_dim).contains(&dim) && dim.is_multiple_of(2);
            ConfigError::unless(sound, field, dim, reason)
        };
        rotated("rope.dimension_count", self.rotary_dim.unwrap_or(head_dim), head_dim)?;
        let value_dim = self.value_dim.unwrap_or(head_dim);
        ConfigError::unless_within("attention.value_length", value_dim, 1..=head_dim)?;
        if let Some(local) = &self.local_heads {
            rotated("rope.dimension_count_swa", local.rotary_dim, local.head_dim)?;
            ConfigError::unless_within("attention.key_length_swa", local.head_dim, 1..=1 << 12)?;
            let reason = format!("it must divide num_attention_heads, {heads}");
            let sound = local.kv_heads > 0 && heads.is_multiple_of(local.kv_heads);
            ConfigError::unless(sound, "swa_num_key_value_heads", local.kv_heads, reason)?;
        }
        if let Some(own) = self.own_kv_layers {
            let reads = (0..layers).all(|layer| self.kv_layer(layer) < own.min(layer + 1));
            let reason = "an earlier layer of each kind must have keys and values";
            ConfigError::unless(reads, "attention.shared_kv_layers", layers - own, reason)?;
        }
        if let Some(widths) = &self.intermediates {
            let sound = widths.len() == layers && widths.iter().all(|width| *width <= MOST_WIDTH);
            let reason = "it must have a width for each layer";
            ConfigError::unless(sound, "feed_forward_length", format!("{widths:?}"), reason)?;
        }
        let most = MOST_WIDTH / layers.max(1);
        ConfigError::unless_within("hidden_size_per_layer_input", self.per_layer_dim, 0..=most)?;
        ConfigError::unless_positive("rope.freq_base_swa", self.local_rope_theta.unwrap_or(1.0))?;
        if let Some(experts) = &self.experts {
            experts.check()?;
        }
        if let Some(recurrent) = &self.recurrent {
            recurrent.check(layers)?;
        }
        self.latent.as_ref().map_or(Ok(()), |latent| latent.check(heads))
    }
}

// Far above every published model.
const MOST_EXPERTS: usize = 1 << 12;
const MOST_WIDTH: usize = 1 << 20;

impl Experts {
    fn check(&self) -> Result<(), ConfigError> {
        ConfigError::unless_within("expert_count", self.count, 1..=MOST_EXPERTS)?;
        let reason = format!("it must be between 1 and expert_count, {}", self.count);
        let sound = (1..=self.count).contains(&self.used);
        ConfigError::unless(sound, "expert_used_count", self.used, reason)?;
        for (field, width, least) in [
            ("expert_feed_forward_length", self.intermediate, 1),
            ("expert_shared_feed_forward_length", self.shared_intermediate, 0),
            ("moe_latent_size", self.latent, 0),
        ] {
            let reason = format!("it must be at most {MOST_WIDTH}; is the file damaged?");
            ConfigError::unless((least..=MOST_WIDTH).contains(&width), field, width, reason)?;
        }
        ConfigError::unless_positive("expert_weights_scale", f64::from(self.scale))?;
        let Some((groups, used)) = self.groups else { return Ok(()) };
        let sound = groups > 0
            && self.count.is_multiple_of(groups)
            && (1..=groups).contains(&used)
            && used * (self.count / groups) >= self.used;
        let reason = format!("the number of groups must divide the {} experts", self.count);
        ConfigError::unless(sound, "expert_group_count", format!("{used} of {groups}"), reason)
    }
}

impl RecurrentLayers {
    fn check(&self, layers: usize) -> Result<(), ConfigError> {
        let RecurrentShape { taps, channels, kind, heads, key_heads, key, value, .. } = self.shape;
        ConfigError::unless_within("ssm.conv_kernel", taps, 2..=16)?;
        let reason = format!("there must be one for each of {layers} layers");
        ConfigError::unless(self.layers.len() == layers, "layer_types", self.layers.len(), reason)?;
        // These bounds keep the sizes in a corrupt header from overflowing a product.
        ConfigError::unless_within("ssm.inner_size", value, 0..=1 << 12)?;
        let sound = key <= 1 << 12 && key.is_multiple_of(16);
        let reason = "the width of a head must be a multiple of 16; is the file damaged?";
        ConfigError::unless(sound, "ssm.state_size", key, reason)?;
        let least = usize::from(kind == StateKind::Mamba2);
        ConfigError::unless_within("ssm.time_step_rank", heads, least..=1 << 12)?;
        let reason = format!("it must divide the {heads} heads");
        let sound = heads == 0 || key_heads > 0 && heads.is_multiple_of(key_heads);
        ConfigError::unless(sound, "ssm.group_count", key_heads, reason)?;
        let all = 2 * key_heads * key + heads * value;
        let sound = (16..=MOST_WIDTH).contains(&channels)
            && channels.is_multiple_of(16)
            && (heads == 0 || channels == all)
            && (heads == 0 || key > 0 && value > 0);
        let reason = format!("the heads must have {all} channels in multiples of 16");
        ConfigError::unless(sound, "ssm.inner_size", channels, reason)
    }
}

impl LatentAttention {
    fn check(&self, heads: usize) -> Result<(), ConfigError> {
        for (field, width) in [
            ("attention.q_lora_rank", self.q_rank.unwrap_or(1)),
            ("attention.kv_lora_rank", self.kv_rank),
            ("qk_nope_head_dim", self.nope_dim),
            ("qk_rope_head_dim", self.rope_dim),
            ("attention.value_length_mla", self.value_dim),
        ] {
            // These bounds keep the sizes in a corrupt header from overflowing a product.
            let sound = (1..=1 << 16).contains(&width) && width.saturating_mul(heads) <= 1 << 24;
            let reason = "it must be a positive width; is the file damaged?";
            ConfigError::unless(sound, field, width, reason)?;
        }
        Ok(())
    }
}
