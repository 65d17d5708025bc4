//! What the blocks of each family do differently from Llama's, according to the fields of its
//! `config.json`. It must not depend on names of tensors.

use serde_json::Value;

use super::hf_families::{Family, SHARED_WIDTH};
use super::hf_fields::{Fields, number, whole_number};
use super::hf_local_heads::{gemma4, listed_widths, local_heads};
use super::hf_recurrent::short_convolutions;
use super::{
    BlockOptions, ConfigError, Experts, Gating, LatentAttention, NormKind, QkNorm, SlidingWindow,
};
use crate::kernels::Activation;

impl Family {
    /// What its blocks do differently.
    pub(super) fn options(
        self,
        fields: &Fields<'_>,
        head_dim: usize,
    ) -> Result<BlockOptions, ConfigError> {
        let part = match fields.get("rope_parameters") {
            // What Gemma 4 does not rotate has a frequency of 0.
            Some(rope) if self != Self::Gemma4 => {
                number(rope, "partial_rotary_factor", "rope_parameters")?
            }
            _ => None,
        };
        let part = part.or(fields.number("partial_rotary_factor")?);
        let part = part.map(|part| (head_dim as f64 * part) as usize);
        let has_experts = self.has_experts() || self.may_have_experts(fields);
        let mut options = BlockOptions {
            window: self.window(fields)?,
            rotary_dim: fields.optional_size("rotary_dim")?.or(part).filter(|&dim| dim != head_dim),
            experts: has_experts.then(|| self.experts(fields)).transpose()?,
            ..BlockOptions::default()
        };
        match self {
            Self::Granite => granite(&mut options, fields)?,
            Self::Olmo2 => {
                options.input_norms = false;
                options.output_norms = true;
                options.qk_norm = QkNorm::OverHeads;
            }
            Self::SmolLm3 => {
                options.no_rope_every =
                    fields.optional_size("no_rope_layer_interval")?.unwrap_or(4);
            }
            Self::Gemma2 | Self::Gemma3 => {
                options.output_norms = true;
                options.norm_offset = 1.0;
                options.activation = Activation::GeluTanh;
                options.embedding_scale = (fields.size("hidden_size")? as f32).sqrt();
                options.attention_scale =
                    fields.float("query_pre_attn_scalar")?.map(|scalar| 1.0 / scalar.sqrt());
                options.attention_softcap = fields.float("attn_logit_softcapping")?;
                options.final_softcap = fields.float("final_logit_softcapping")?;
                if self == Self::Gemma3 {
                    let theta = fields.number("rope_local_base_freq")?;
                    options.local_rope_theta = Some(theta.unwrap_or(10_000.0));
                }
            }
            Self::StarCoder2 => {
                options.norm = NormKind::Layer;
                options.activation = Activation::GeluTanh;
                options.gated = false;
                options.mlp_bias = fields.flag("use_bias")?.unwrap_or(true);
            }
            Self::GptOss => {
                let limit = fields.float("swiglu_limit")?.unwrap_or(7.0);
                options.activation = Activation::ClampedSwiGlu { alpha: 1.702, limit };
                options.sinks = true;
            }
            Self::DeepSeekV2 | Self::DeepSeekV3 => latent(&mut options, fields)?,
            Self::Glm4 => options.output_norms = true,
            Self::Cohere | Self::Cohere2 => {
                options.norm = NormKind::LayerWithoutBias;
                options.parallel = true;
                options.qk_norm = QkNorm::LayerPerHead;
                options.logit_divisor = 1.0 / fields.float("logit_scale")?.unwrap_or(0.0625);
                options.global_rope = self == Self::Cohere;
            }
            Self::Hunyuan => options.qk_norm = QkNorm::PerHeadAfterRope,
            Self::Exaone4 => {
                options.input_norms = false;
                options.output_norms = true;
                options.global_rope = options.window.is_none();
            }
            Self::OlMoe => options.qk_norm = QkNorm::OverHeads,
            Self::MiniCpm => {
                let layers = fields.size("num_hidden_layers")? as f32;
                let width = fields.size("hidden_size")? as f32;
                let [embedding, depth] = [fields.float("scale_emb")?, fields.float("scale_depth")?];
                options.embedding_scale = embedding.unwrap_or(12.0);
                options.residual_scale = depth.unwrap_or(1.4) / layers.sqrt();
                options.logit_divisor = width / fields.float("dim_model_base")?.unwrap_or(256.0);
                granite(&mut options, fields)?;
            }
            Self::StableLm => {
                options.norm = NormKind::Layer;
                options.qk_norm = QkNorm::LayerPerHead;
                options.parallel = fields.flag("use_parallel_residual")?.unwrap_or(false);
            }
            Self::Phi2 => {
                options.norm = NormKind::Layer;
                options.parallel = true;
                options.activation = Activation::GeluTanh;
                options.gated = false;
                options.mlp_bias = true;
                options.head_bias = true;
            }
            Self::BitNet => options.inner_norms = true,
            Self::Gemma4 => gemma4(&mut options, fields)?,
            Self::Mimo2 => {
                let value_dim = fields.optional_size("v_head_dim")?;
                options.value_dim = value_dim.filter(|&dim| dim != head_dim);
                let scale = fields.float("attention_value_scale")?;
                options.attention_out_scale = scale.unwrap_or(1.0);
                let flag = |field, usual| fields.flag(field).map(|flag| flag.unwrap_or(usual));
                options.sinks = flag("add_swa_attention_sink_bias", true)?;
                options.global_sinks = flag("add_full_attention_sink_bias", false)?;
                let rotated = options.rotary_dim.unwrap_or(head_dim);
                local_heads(&mut options, fields, rotated)?;
            }
            Self::Ernie | Self::ErnieMoe => {
                options.mlp_bias = fields.flag("use_bias")?.unwrap_or(false);
            }
            Self::Qwen3Next | Self::Qwen35 | Self::Qwen35Moe => {
                options.norm_offset = 1.0;
                options.output_gate = fields.flag("attn_output_gate")?.unwrap_or(true);
                options.recurrent = Some(self.gated_delta(fields)?);
            }
            Self::Lfm2 | Self::Lfm2Moe => options.recurrent = Some(short_convolutions(fields)?),
            Self::Mamba2 => options.recurrent = Some(self.mamba2(fields)?),
            Self::FalconH1 => {
                granite(&mut options, fields)?;
                options.recurrent = Some(self.mamba2(fields)?);
            }
            Self::GraniteHybrid => {
                granite(&mut options, fields)?;
                options.recurrent = Some(self.mamba2(fields)?);
                options.global_rope = fields.flag("use_rope")?.unwrap_or(true);
            }
            Self::NemotronH | Self::NemotronHMoe => {
                options.recurrent = Some(self.mamba2(fields)?);
                options.global_rope = false;
                options.one_part = true;
                options.activation = Activation::ReluSquared;
                options.gated = false;
            }
            Self::Llama | Self::Mistral | Self::Mixtral | Self::Phi3 => {}
            Self::Qwen2 | Self::Qwen3 | Self::Qwen3Moe => {}
            Self::Glm4Moe | Self::InternLm2 | Self::SeedOss => {}
        }
        if self.is_mamba2() {
            options.intermediates = listed_widths(fields)?;
        }
        Ok(options)
    }

    /// The sliding window and its layers.
    fn window(self, fields: &Fields<'_>) -> Result<Option<SlidingWindow>, ConfigError> {
        let in_use = match self {
            Self::Mistral | Self::Mixtral | Self::Phi3 | Self::StarCoder2 => true,
            Self::Gemma2 | Self::Gemma3 | Self::GptOss => true,
            Self::Cohere2 | Self::Exaone4 | Self::Gemma4 | Self::Mimo2 => true,
            // Their configurations may name a window, but it is only used if they say so.
            _ => fields.flag("use_sliding_window")?.unwrap_or(false),
        };
        let Some(size) = fields.optional_size("sliding_window")?.filter(|_| in_use) else {
            return Ok(None);
        };
        // The check of the configuration refuses a wrong count later.
        let layers = fields.size("num_hidden_layers")?.min(1 << 12);
        if let Some(kinds) = fields.get("layer_types").and_then(Value::as_array) {
            let local = |kind: &Value| kind.as_str() == Some("sliding_attention");
            return Ok(Some(SlidingWindow { size, layers: kinds.iter().map(local).collect() }));
        }
        // EXAONE writes a letter for each layer of a period.
        let pattern = fields.get("sliding_window_pattern").filter(|pattern| !pattern.is_string());
        let pattern = pattern.map(|period| whole_number("sliding_window_pattern", period));
        let period = match (pattern.transpose()?, self) {
            (Some(period), _) => period.max(1),
            (None, Self::Cohere2 | Self::Exaone4) => 4,
            (None, Self::Gemma2 | Self::GptOss) => 2,
            (None, Self::Gemma3 | Self::Gemma4) => 6,
            (None, _) => 0,
        };
        // Qwen's first layers see everything.
        let first = match self {
            Self::Qwen2 | Self::Qwen3 => fields.optional_size("max_window_layers")?.unwrap_or(0),
            _ => 0,
        };
        let local =
            |layer: usize| layer >= first && (period == 0 || !(layer + 1).is_multiple_of(period));
        Ok(Some(SlidingWindow { size, layers: (0..layers).map(local).collect() }))
    }

    /// The mixture of experts of a family that has one.
    fn experts(self, fields: &Fields<'_>) -> Result<Experts, ConfigError> {
        let reason = "every layer after the first dense ones must have experts";
        for field in ["moe_layer_freq", "decoder_sparse_step", "moe_layer_interval"] {
            if let Some(every) = fields.optional_size(field)?.filter(|&every| every != 1) {
                return Err(ConfigError::new(field, every, reason));
            }
        }
        let dense = fields.get("mlp_only_layers");
        if let Some(list) = dense.filter(|list| !list.as_array().is_some_and(Vec::is_empty)) {
            return Err(ConfigError::new("mlp_only_layers", list, reason));
        }
        let text = |field| fields.get(field).and_then(Value::as_str);
        let gating = match text("scoring_func") {
            _ if self == Self::GptOss => Gating::SoftmaxOfChosen,
            None if matches!(
                self,
                Self::Glm4Moe | Self::Mimo2 | Self::Lfm2Moe | Self::NemotronHMoe
            ) =>
            {
                Gating::Sigmoid
            }
            Some("softmax") | None => Gating::Softmax,
            Some("sigmoid") => Gating::Sigmoid,
            Some(other) => {
                let reason = "it must be softmax or sigmoid";
                return Err(ConfigError::new("scoring_func", other, reason));
            }
        };
        let groups = fields.optional_size("n_group")?.filter(|&groups| groups > 1);
        let (groups, selection_bias) = match text("topk_method") {
            None if matches!(self, Self::Glm4Moe | Self::ErnieMoe | Self::Mimo2) => (groups, true),
            None if self == Self::Lfm2Moe => {
                (None, fields.flag("use_expert_bias")?.unwrap_or(true))
            }
            Some("greedy") | None => (None, false),
            // V3 ranks groups by the sum of their two best experts, with a bias that affects only
            // the choice.
            Some("noaux_tc") => (groups, true),
            // DeepSeek-V2 (not V2-Lite) ranks groups by their best expert.
            Some("group_limited_greedy") => (groups, false),
            Some(other) => {
                let reason = "it must be greedy, group_limited_greedy or noaux_tc";
                return Err(ConfigError::new("topk_method", other, reason));
            }
        };
        let intermediate = match fields.optional_size("moe_intermediate_size")? {
            Some(width) => width,
            None => fields.size("intermediate_size")?,
        };
        let any = |names: &[&'static str]| {
            let name = names.iter().find(|name| fields.get(name).is_some());
            *name.unwrap_or(&names[names.len() - 1])
        };
        let shared = any(&["n_shared_experts", "moe_num_shared_experts"]);
        let shared = fields.optional_size(shared)?.unwrap_or(0).saturating_mul(intermediate);
        let usual = matches!(self, Self::Mixtral | Self::ErnieMoe | Self::Gemma4 | Self::Mimo2)
            || self.is_gated_delta()
            || self == Self::Lfm2Moe;
        let normalised = fields.flag("norm_topk_prob")?.unwrap_or(usual);
        let count =
            any(&["n_routed_experts", "num_experts", "moe_num_experts", "num_local_experts"]);
        let dense = any(&["num_dense_layers", "first_k_dense_replace", "moe_layer_start_index"]);
        Ok(Experts {
            count: fields.size(count)?,
            used: fields.size(any(&["moe_k", "top_k_experts", "num_experts_per_tok"]))?,
            intermediate,
            dense_layers: fields.optional_size(dense)?.unwrap_or(0),
            gating,
            normalised: normalised && self != Self::GptOss,
            scale: fields.number("routed_scaling_factor")?.unwrap_or(1.0) as f32,
            groups: match groups {
                Some(groups) => Some((groups, fields.size("topk_group")?)),
                None => None,
            },
            shared_intermediate: fields.optional_size(SHARED_WIDTH)?.unwrap_or(shared),
            latent: fields.optional_size("moe_latent_size")?.unwrap_or(0),
            shared_gate: self.is_gated_delta(),
            bias: self == Self::GptOss,
            selection_bias,
            beside_mlp: self == Self::Gemma4,
        })
    }
}

/// The scales of Granite, if the fields have them.
fn granite(options: &mut BlockOptions, fields: &Fields<'_>) -> Result<(), ConfigError> {
    for (field, scale) in [
        ("embedding_multiplier", &mut options.embedding_scale),
        ("residual_multiplier", &mut options.residual_scale),
        ("logits_scaling", &mut options.logit_divisor),
    ] {
        *scale = fields.float(field)?.unwrap_or(*scale);
    }
    options.attention_scale = fields.float("attention_multiplier")?;
    Ok(())
}

/// Adds the latent attention of DeepSeek V2 and V3.
fn latent(options: &mut BlockOptions, fields: &Fields<'_>) -> Result<(), ConfigError> {
    let latent = LatentAttention {
        q_rank: fields.optional_size("q_lora_rank")?,
        kv_rank: fields.size("kv_lora_rank")?,
        nope_dim: fields.size("qk_nope_head_dim")?,
        rope_dim: fields.size("qk_rope_head_dim")?,
        value_dim: fields.size("v_head_dim")?,
    };
    // YaRN's temperature of all dimensions is in the scale of the scores.
    let scaling = fields.get("rope_parameters").or(fields.get("rope_scaling"));
    let part = |name| scaling.map_or(Ok(None), |scaling| number(scaling, name, "rope_scaling"));
    let all = 0.1 * part("mscale_all_dim")?.unwrap_or(0.0);
    let multiplier = part("yarn_log_multiplier")?.unwrap_or(all);
    let temperature = 1.0 + multiplier * libm::log(part("factor")?.unwrap_or(1.0).max(1.0));
    let width = latent.nope_dim.saturating_add(latent.rope_dim) as f64;
    options.attention_scale = Some((temperature * temperature / width.sqrt()) as f32);
    options.rotary_dim = Some(latent.rope_dim);
    options.latent = Some(latent);
    Ok(())
}
