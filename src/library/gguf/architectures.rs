//! What each family does differently from Llama, read from a file's metadata.

use super::fields::ArchitectureFields;
use crate::kernels::Activation;
use crate::library::LibraryError;
use crate::model::{
    BlockOptions, Experts, Family, Gating, LatentAttention, NormKind, SlidingWindow,
};

const WINDOW: &str = "attention.sliding_window";

/// The options of a file's blocks.
pub(super) fn options(
    family: Family,
    fields: &ArchitectureFields<'_>,
) -> Result<BlockOptions, LibraryError> {
    let plain = BlockOptions::default();
    let mut options = match family {
        Family::Llama | Family::Mistral | Family::Mixtral | Family::Phi3 => plain,
        Family::Qwen2 | Family::Qwen3 | Family::Qwen3Moe => plain,
        Family::SmolLm3 => BlockOptions { no_rope_every: 4, ..plain },
        Family::Granite => BlockOptions {
            embedding_scale: fields.float32("embedding_scale")?.unwrap_or(1.0),
            residual_scale: fields.float32("residual_scale")?.unwrap_or(1.0),
            logit_divisor: fields.float32("logit_scale")?.unwrap_or(1.0),
            attention_scale: fields.float32("attention.scale")?,
            ..plain
        },
        Family::Olmo2 => BlockOptions {
            input_norms: false,
            output_norms: true,
            qk_norm_over_heads: true,
            ..plain
        },
        Family::Gemma2 => BlockOptions {
            attention_softcap: fields.float32("attn_logit_softcapping")?,
            final_softcap: fields.float32("final_logit_softcapping")?,
            window: window(fields, |layer| layer % 2 == 0)?,
            ..gemma(fields, 46)?
        },
        Family::Gemma3 => BlockOptions {
            window: window(fields, |layer| layer % 6 != 5)?,
            local_rope_theta: Some(fields.float("rope.freq_base_swa")?.unwrap_or(10_000.0)),
            ..gemma(fields, 62)?
        },
        Family::StarCoder2 => BlockOptions {
            norm: NormKind::Layer,
            activation: Activation::GeluTanh,
            gated: false,
            mlp_bias: true,
            ..plain
        },
        Family::GptOss => BlockOptions {
            activation: Activation::ClampedSwiGlu { alpha: 1.702, limit: 7.0 },
            window: window(fields, |layer| layer % 2 == 0)?,
            sinks: true,
            experts: experts(fields)?.map(|experts| Experts {
                gating: Gating::SoftmaxOfChosen,
                normalised: false,
                bias: true,
                ..experts
            }),
            ..plain
        },
        Family::DeepSeekV2 | Family::DeepSeekV3 => deepseek(fields)?,
    };
    // Here 0 means none; an architecture that alternates has a window.
    if options.window.is_none() && fields.optional(WINDOW)? != Some(0) {
        options.window = window(fields, |_| true)?;
    }
    if options.experts.is_none() {
        options.experts = experts(fields)?;
    }
    Ok(options)
}

/// What Gemma 2 and 3 have in common. `largest` is the number of layers of the only size whose
/// queries are scaled by the width and not by the head.
fn gemma(fields: &ArchitectureFields<'_>, largest: usize) -> Result<BlockOptions, LibraryError> {
    let hidden = fields.size("embedding_length")?;
    let heads = fields.size("attention.head_count")?;
    let by_width = fields.size("block_count")? == largest && heads > 0;
    let scale = 1.0 / ((hidden / heads.max(1)) as f32).sqrt();
    Ok(BlockOptions {
        output_norms: true,
        activation: Activation::GeluTanh,
        embedding_scale: (hidden as f32).sqrt(),
        attention_scale: by_width.then_some(scale),
        ..BlockOptions::default()
    })
}

fn deepseek(fields: &ArchitectureFields<'_>) -> Result<BlockOptions, LibraryError> {
    let rope_dim = fields.size("rope.dimension_count")?;
    // Files from before 2025 hold keys and values in one tensor, and the widths of a head under the
    // keys of other architectures.
    let whole = fields.any_tensor("attn_kv_b.weight");
    let (key, value) = match whole {
        true => ("attention.key_length", "attention.value_length"),
        false => ("attention.key_length_mla", "attention.value_length_mla"),
    };
    let key = fields.size(key)?;
    let latent = LatentAttention {
        q_rank: fields.optional("attention.q_lora_rank")?.filter(|&rank| rank > 0),
        kv_rank: fields.size("attention.kv_lora_rank")?,
        nope_dim: key.saturating_sub(rope_dim),
        rope_dim,
        value_dim: fields.size(value)?,
    };
    // Here YaRN's temperature is in the scale of the scores, not in cosines and sines.
    let factor = fields.float("rope.scaling.factor")?.unwrap_or(1.0).max(1.0);
    let multiplier = fields.float("rope.scaling.yarn_log_multiplier")?.unwrap_or(0.0);
    let temperature = 1.0 + libm::log(factor) * multiplier;
    let scale = temperature * temperature / (key as f64).sqrt();
    Ok(BlockOptions {
        attention_scale: Some(scale as f32),
        rotary_dim: Some(rope_dim),
        latent: Some(latent),
        ..BlockOptions::default()
    })
}

/// The file's sliding window, in the layers given by `pattern` unless the file lists them.
fn window(
    fields: &ArchitectureFields<'_>,
    pattern: impl Fn(usize) -> bool,
) -> Result<Option<SlidingWindow>, LibraryError> {
    let Some(size) = fields.optional(WINDOW)? else { return Ok(None) };
    if size == 0 {
        return Err(fields.wrong(WINDOW, size, "it must be positive; is the file damaged?"));
    }
    // The check of the configuration refuses a wrong count.
    let layers = fields.size("block_count")?.min(1 << 12);
    let layers = match fields.flags("attention.sliding_window_pattern")? {
        Some(listed) => listed,
        None => (0..layers).map(pattern).collect(),
    };
    Ok(Some(SlidingWindow { size, layers }))
}

/// The file's mixture of experts.
fn experts(fields: &ArchitectureFields<'_>) -> Result<Option<Experts>, LibraryError> {
    let Some(count) = fields.optional("expert_count")?.filter(|&count| count > 0) else {
        return Ok(None);
    };
    let intermediate = match fields.optional("expert_feed_forward_length")? {
        Some(width) => width,
        None => fields.size("feed_forward_length")?,
    };
    let gating = match fields.optional("expert_gating_func")? {
        Some(2) => Gating::Sigmoid,
        Some(3) => Gating::SoftmaxOfChosen,
        _ => Gating::Softmax,
    };
    let groups = fields.optional("expert_group_count")?.filter(|&groups| groups > 1);
    let shared = fields.optional("expert_shared_count")?.unwrap_or(0);
    Ok(Some(Experts {
        count,
        used: fields.size("expert_used_count")?,
        intermediate,
        dense_layers: fields.optional("leading_dense_block_count")?.unwrap_or(0),
        gating,
        // Mixtral and Qwen3 have no such key and always do this.
        normalised: fields
            .flag("expert_weights_norm")?
            .unwrap_or(fields.architecture != "deepseek2"),
        scale: match fields.float("expert_weights_scale")?.unwrap_or(1.0) as f32 {
            // Written by old converters for "none".
            0.0 => 1.0,
            scale => scale,
        },
        groups: match groups {
            Some(groups) => Some((groups, fields.size("expert_group_used_count")?)),
            None => None,
        },
        shared_intermediate: shared.saturating_mul(intermediate),
        bias: false,
        selection_bias: fields.any_tensor("exp_probs_b.bias"),
    }))
}
