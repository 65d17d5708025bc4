//! From metadata to the transformer's numbers. It must not depend on the name of an architecture.

use super::architectures::options;
use super::fields::ArchitectureFields;
use super::file::GgufFile;
use super::rope_scaling::rope_scaling;
use crate::library::LibraryError;
use crate::model::{ARCHITECTURES, ArchitectureRow, Config};

/// The configuration of a file and its family.
pub(super) fn config(file: &GgufFile) -> Result<(Config, &'static ArchitectureRow), LibraryError> {
    let name = file.text("general.architecture")?.unwrap_or("absent");
    let Some(architecture) = ArchitectureRow::of_gguf(name) else {
        let mut known: Vec<&str> = ARCHITECTURES.iter().map(|row| row.gguf).collect();
        known.dedup();
        let remedy = format!("use a model of one of these architectures: {}", known.join(", "));
        let found = format!("`{name}`");
        return Err(LibraryError::unsupported(file.name(), "general.architecture", found, remedy));
    };
    let fields = ArchitectureFields { file, architecture: architecture.gguf };
    let mut block = options(architecture.family, &fields)?;
    let heads = fields.size("attention.head_count")?;
    let hidden = fields.size("embedding_length")?;
    let head_dim = match &block.latent {
        Some(latent) => latent.rope_dim.saturating_add(latent.kv_rank),
        None => match fields.optional("attention.key_length")? {
            Some(width) => width,
            None => hidden.checked_div(heads).unwrap_or_default(),
        },
    };
    if block.latent.is_none() {
        fields.expect_head_width("attention.value_length", head_dim)?;
        block.rotary_dim =
            fields.optional("rope.dimension_count")?.filter(|&width| width != head_dim);
    }
    let has = |name: &str| file.tensors().contains_key(name);
    let eps = match fields.float("attention.layer_norm_rms_epsilon")? {
        Some(eps) => Some(eps),
        None => fields.float("attention.layer_norm_epsilon")?,
    };
    let config = Config {
        vocab: rows(file, "token_embd.weight")?,
        hidden,
        intermediate: fields.size("feed_forward_length")?,
        layers: fields.size("block_count")?,
        heads,
        kv_heads: match &block.latent {
            Some(_) => 1,
            None => fields.optional("attention.head_count_kv")?.unwrap_or(heads),
        },
        head_dim,
        rms_eps: eps.unwrap_or(1e-5) as f32,
        rope_theta: fields.float("rope.freq_base")?.unwrap_or(10_000.0),
        rope_scaling: rope_scaling(&fields, block.latent.is_some())?,
        rope_layout: architecture.gguf_layout,
        qkv_bias: has("blk.0.attn_q.bias") || has("blk.0.attn_qkv.bias"),
        o_bias: has("blk.0.attn_output.bias"),
        qk_norm: has("blk.0.attn_q_norm.weight"),
        tied_head: !has("output.weight"),
        max_positions: fields.size("context_length")?,
        block,
    };
    let checked = config.checked().map_err(LibraryError::config(file.name()))?;
    Ok((checked, architecture))
}

fn rows(file: &GgufFile, tensor: &str) -> Result<usize, LibraryError> {
    let missing = || LibraryError::damaged(file.name(), format!("tensor `{tensor}`"), "missing");
    file.tensors().get(tensor).and_then(|entry| entry.shape.first()).copied().ok_or_else(missing)
}
