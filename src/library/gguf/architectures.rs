//! The table of architectures: what each does differently from Llama, read from a file's metadata.
//! This is the only place that knows them by name.

use super::fields::ArchitectureFields;
use crate::kernels::Activation;
use crate::library::LibraryError;
use crate::model::{
    BlockOptions, Experts, Gating, LatentAttention, NormKind, RopeLayout, SlidingWindow,
};

const WINDOW: &str = "attention.sliding_window";

/// A family of models.
pub(super) struct Architecture {
    /// `general.architecture`.
    pub(super) name: &'static str,
    /// How q and k are stored.
    pub(super) layout: RopeLayout,
    /// What a file means by the post-attention norm: the norm of attention's output, or of the
    /// MLP's input.
    pub(super) post_attention_norm_is_mlp_input: bool,
    /// The options of its blocks.
    options: fn(&ArchitectureFields<'_>) -> Result<BlockOptions, LibraryError>,
}

const fn row(
    name: &'static str,
    layout: RopeLayout,
    options: fn(&ArchitectureFields<'_>) -> Result<BlockOptions, LibraryError>,
) -> Architecture {
    Architecture { name, layout, post_attention_norm_is_mlp_input: false, options }
}

/// All families that can be run. The files of Mistral and Mixtral say `llama`.
pub(super) const ARCHITECTURES: &[Architecture] = &[
    row("llama", RopeLayout::Interleaved, plain),
    row("qwen2", RopeLayout::Halves, plain),
    row("qwen3", RopeLayout::Halves, plain),
    row("qwen3moe", RopeLayout::Halves, plain),
    row("smollm3", RopeLayout::Interleaved, smollm3),
    row("granite", RopeLayout::Interleaved, granite),
    row("olmo2", RopeLayout::Halves, olmo2),
    row("phi3", RopeLayout::Halves, plain),
    row("gemma2", RopeLayout::Halves, gemma2),
    row("gemma3", RopeLayout::Halves, gemma3),
    row("starcoder2", RopeLayout::Halves, starcoder2),
    row("deepseek2", RopeLayout::Interleaved, deepseek2),
    Architecture {
        post_attention_norm_is_mlp_input: true,
        ..row("gpt-oss", RopeLayout::Halves, gpt_oss)
    },
];

impl Architecture {
    /// The row with this name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        ARCHITECTURES.iter().find(|architecture| architecture.name == name)
    }

    /// The options of a file's blocks.
    pub(super) fn options(
        &self,
        fields: &ArchitectureFields<'_>,
    ) -> Result<BlockOptions, LibraryError> {
        let mut options = (self.options)(fields)?;
        // Here 0 means none; an architecture that alternates has a window.
        if options.window.is_none() && fields.optional(WINDOW)? != Some(0) {
            options.window = window(fields, |_| true)?;
        }
        if options.experts.is_none() {
            options.experts = experts(fields)?;
        }
        Ok(options)
    }
}

fn plain(_: &ArchitectureFields<'_>) -> Result<BlockOptions, LibraryError> {
    Ok(BlockOptions::default())
}

fn smollm3(_: &ArchitectureFields<'_>) -> Result<BlockOptions, LibraryError> {
    Ok(BlockOptions { no_rope_every: 4, ..BlockOptions::default() })
}

fn granite(fields: &ArchitectureFields<'_>) -> Result<BlockOptions, LibraryError> {
    Ok(BlockOptions {
        embedding_scale: fields.float32("embedding_scale")?.unwrap_or(1.0),
        residual_scale: fields.float32("residual_scale")?.unwrap_or(1.0),
        logit_divisor: fields.float32("logit_scale")?.unwrap_or(1.0),
        attention_scale: fields.float32("attention.scale")?,
        ..BlockOptions::default()
    })
}

fn olmo2(_: &ArchitectureFields<'_>) -> Result<BlockOptions, LibraryError> {
    Ok(BlockOptions {
        input_norms: false,
        output_norms: true,
        qk_norm_over_heads: true,
        ..BlockOptions::default()
    })
}

/// What Gemma 2 and 3 have in common. `largest` is the number of layers of the only size whose
/// queries are scaled by the width and not by the head.
fn gemma(fields: &ArchitectureFields<'_>, largest: usize) -> Result<BlockOptions, LibraryError> {
    let (hidden, heads) = (fields.size("embedding_length")?, fields.size("attention.head_count")?);
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

fn gemma2(fields: &ArchitectureFields<'_>) -> Result<BlockOptions, LibraryError> {
    Ok(BlockOptions {
        attention_softcap: fields.float32("attn_logit_softcapping")?,
        final_softcap: fields.float32("final_logit_softcapping")?,
        window: window(fields, |layer| layer % 2 == 0)?,
        ..gemma(fields, 46)?
    })
}

fn gemma3(fields: &ArchitectureFields<'_>) -> Result<BlockOptions, LibraryError> {
    Ok(BlockOptions {
        window: window(fields, |layer| layer % 6 != 5)?,
        local_rope_theta: Some(fields.float("rope.freq_base_swa")?.unwrap_or(10_000.0)),
        ..gemma(fields, 62)?
    })
}

fn starcoder2(_: &ArchitectureFields<'_>) -> Result<BlockOptions, LibraryError> {
    Ok(BlockOptions {
        norm: NormKind::Layer,
        activation: Activation::GeluTanh,
        gated: false,
        mlp_bias: true,
        ..BlockOptions::default()
    })
}

fn gpt_oss(fields: &ArchitectureFields<'_>) -> Result<BlockOptions, LibraryError> {
    let experts = experts(fields)?.map(|experts| Experts {
        gating: Gating::SoftmaxOfChosen,
        normalised: false,
        bias: true,
        ..experts
    });
    Ok(BlockOptions {
        activation: Activation::ClampedSwiGlu { alpha: 1.702, limit: 7.0 },
        window: window(fields, |layer| layer % 2 == 0)?,
        sinks: true,
        experts,
        ..BlockOptions::default()
    })
}

fn deepseek2(fields: &ArchitectureFields<'_>) -> Result<BlockOptions, LibraryError> {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::ARCHITECTURES;
    use crate::model;

    #[test]
    fn every_architecture_has_both_of_its_names() {
        let here: BTreeSet<_> = ARCHITECTURES.iter().map(|row| row.name).collect();
        let named: BTreeSet<_> = model::ARCHITECTURES.iter().map(|row| row.gguf).collect();
        assert_eq!(here, named);
    }
}
