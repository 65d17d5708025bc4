//! The blocks of DeepSeek V2 and V3, from their `config.json`: latent attention, and a mixture of
//! experts after the first dense layers. It must not depend on tensors.

use super::hf_fields::Fields;
use super::rope::yarn_temperature;
use super::{BlockOptions, ConfigError, Experts, Gating, LatentAttention};

/// What the blocks do differently from Llama's.
pub(super) fn options(fields: &Fields<'_>) -> Result<BlockOptions, ConfigError> {
    let latent = LatentAttention {
        q_rank: fields.optional_size("q_lora_rank")?,
        kv_rank: fields.size("kv_lora_rank")?,
        nope_dim: fields.size("qk_nope_head_dim")?,
        rope_dim: fields.size("qk_rope_head_dim")?,
        value_dim: fields.size("v_head_dim")?,
    };
    // YaRN's temperature of all dimensions is in the scale of the scores.
    let temperature = match fields.get("rope_parameters").or(fields.get("rope_scaling")) {
        Some(scaling) => {
            let factor = scaling.get("factor").and_then(|factor| factor.as_f64());
            let all = scaling.get("mscale_all_dim").and_then(|all| all.as_f64());
            yarn_temperature(factor.unwrap_or(1.0), all.unwrap_or(0.0))
        }
        None => 1.0,
    };
    let width = latent.nope_dim.saturating_add(latent.rope_dim) as f64;
    Ok(BlockOptions {
        attention_scale: Some((temperature * temperature / width.sqrt()) as f32),
        rotary_dim: Some(latent.rope_dim),
        experts: Some(experts(fields)?),
        latent: Some(latent),
        ..BlockOptions::default()
    })
}

fn experts(fields: &Fields<'_>) -> Result<Experts, ConfigError> {
    if let Some(every) = fields.optional_size("moe_layer_freq")?.filter(|&every| every != 1) {
        let reason = "every layer after the first ones must have experts";
        return Err(ConfigError::new("moe_layer_freq", every, reason));
    }
    let text = |field| fields.get(field).and_then(|value| value.as_str());
    let gating = match text("scoring_func") {
        Some("softmax") | None => Gating::Softmax,
        Some("sigmoid") => Gating::Sigmoid,
        Some(other) => {
            return Err(ConfigError::new("scoring_func", other, "it must be softmax or sigmoid"));
        }
    };
    let groups = fields.optional_size("n_group")?.filter(|&groups| groups > 1);
    let (groups, selection_bias) = match text("topk_method") {
        Some("greedy") | None => (None, false),
        // V3 ranks groups by the sum of their two best experts, with a bias that affects only the
        // choice.
        Some("noaux_tc") => (groups, true),
        // DeepSeek-V2 (not V2-Lite) ranks groups by their best expert.
        Some("group_limited_greedy") => (groups, false),
        Some(other) => {
            let reason = "it must be greedy, group_limited_greedy or noaux_tc";
            return Err(ConfigError::new("topk_method", other, reason));
        }
    };
    let intermediate = fields.size("moe_intermediate_size")?;
    let shared = fields.optional_size("n_shared_experts")?.unwrap_or(0);
    Ok(Experts {
        count: fields.size("n_routed_experts")?,
        used: fields.size("num_experts_per_tok")?,
        intermediate,
        dense_layers: fields.optional_size("first_k_dense_replace")?.unwrap_or(0),
        gating,
        normalised: fields.flag("norm_topk_prob")?.unwrap_or(false),
        scale: fields.number("routed_scaling_factor")?.unwrap_or(1.0) as f32,
        groups: match groups {
            Some(groups) => Some((groups, fields.size("topk_group")?)),
            None => None,
        },
        shared_intermediate: shared.saturating_mul(intermediate),
        bias: false,
        selection_bias,
    })
}
