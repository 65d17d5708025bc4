//! DFlash drafters in GGUF files: their keys and tensors in addition to those of a Qwen3 model
//! (method.md, DFlash). It must not depend on how they draft.

use super::config::config_as;
use super::file::{GgufFile, TensorEntry};
use super::names::Named;
use crate::kernels::Activation;
use crate::library::{LibraryError, Result};
use crate::model::{
    ArchitectureRow, BlockOptions, Config, DflashConfig, Family, RopeLayout, weights,
};

/// How the decoder blocks of a drafter are stored.
pub(super) const DFLASH: ArchitectureRow = ArchitectureRow {
    title: "DFlash",
    gguf: "dflash",
    model_type: "qwen3",
    family: Family::Qwen3,
    gguf_layout: RopeLayout::Halves,
};

/// A tensor that only drafters have by the name that the model requests.
pub(super) fn named(name: &str, entry: &TensorEntry) -> Option<Vec<Named>> {
    let parts = ["fc.weight", "enc.output_norm.", "d2t", "markov_w", "conf_proj.", "selector_"];
    if !parts.iter().any(|part| name.starts_with(part)) && !name.contains("_conv_") {
        return None;
    }
    let name = match name.strip_prefix("blk.") {
        Some(layered) => {
            let (layer, part) = layered.split_once('.')?;
            weights::layer_name(layer.parse().ok()?, part)
        }
        None => name.to_owned(),
    };
    Some(vec![(name, entry.clone())])
}

/// What a file says of a DFlash drafter; `None` if it holds another architecture.
pub(super) fn config(file: &GgufFile) -> Result<Option<DflashConfig>> {
    if file.text("general.architecture")? != Some(DFLASH.gguf) {
        return Ok(None);
    }
    let mut body = config_as(file, &DFLASH)?;
    let layers = body.layers;
    let has = |name: &str| file.tensors.contains_key(name);
    let key = |name: &str| format!("{}.{name}", DFLASH.gguf);
    let float = |name: &str| Ok::<_, LibraryError>(file.float(&key(name))?.map(|x| x as f32));
    let flag = |name: &str| file.flag(&key(name));
    let wrong = |key: &str, found: String, remedy: &str| {
        LibraryError::unsupported(file.name(), format!("metadata `dflash.{key}`"), found, remedy)
    };
    let shape = |name: &str| {
        let shape = file.tensors.get(name).map(|entry| entry.shape.clone());
        match shape.as_deref() {
            None => Ok(None),
            Some(&[rows, columns]) => Ok(Some([rows, columns])),
            Some(other) => {
                let problem = format!("it has the shape {other:?} instead of rows and columns");
                Err(LibraryError::damaged(file.name(), format!("tensor `{name}`"), problem))
            }
        }
    };
    let own_tables = ["token_embd.weight", "output.weight"].map(has);
    let markov = shape("markov_w1.weight")?.map(|[_, rank]| rank);
    let window = body.block.window.take();
    let scale = if markov.is_some() { None } else { float("logit_scale")? };
    let softcap = if markov.is_some() { None } else { float("final_logit_softcapping")? };
    body.block = BlockOptions {
        output_norms: has("blk.0.post_attention_norm.weight"),
        sinks: has("blk.0.attn_sinks.weight"),
        output_scale: has("blk.0.layer_output_scale.weight"),
        // Without values, they are the keys before norm and RoPE, as in Gemma 4.
        value_norm: !has("blk.0.attn_v.weight"),
        global_values_are_keys: !has("blk.0.attn_v.weight"),
        activation: match file.text(&key("hidden_activation"))? {
            None | Some("silu") => Activation::Silu,
            Some("gelu_pytorch_tanh") => Activation::GeluTanh,
            Some(other) => {
                let found = format!("`{other}`");
                return Err(wrong("hidden_activation", found, "use silu or gelu_pytorch_tanh"));
            }
        },
        embedding_scale: float("embedding_scale")?.unwrap_or(1.0),
        attention_scale: float("attention.scale")?,
        attention_out_scale: float("attention.value_scale")?.unwrap_or(1.0),
        logit_divisor: scale.map_or(1.0, |scale| 1.0 / scale),
        final_softcap: softcap.filter(|&cap| cap > 0.0),
        ..body.block
    };
    let body = Config { tied_head: false, ..body };
    let body = body.checked().map_err(LibraryError::config(file.name()))?;
    let taps = file.list(&key("target_layers"))?.unwrap_or_default();
    let states = taps.iter().map(|state| state.as_u64().map_or(usize::MAX, |x| x as usize));
    let states: Vec<usize> = states.collect();
    let [_, read] = shape("fc.weight")?.unwrap_or_default();
    let rows = file.number(&key("block_size"))?.unwrap_or(0) as usize;
    let mask = file.number("tokenizer.ggml.mask_token_id")?.map_or(u32::MAX, |mask| mask as u32);
    let causal = flag("attention.causal")?;
    if causal.is_none() && window.is_some() {
        tracing::warn!(
            "{}: no `attention.causal`; all rows of a block see each other",
            file.name()
        );
    }
    let taps = file.number(&key("conv_kernel_size"))?.unwrap_or(0) as usize;
    let group = file.number(&key("conv_group_size"))?.unwrap_or(16).max(1) as usize;
    let selector = shape("selector_hidden.weight")?.map(|[rank, _]| rank);
    let count = file.number(&key("selector_top_k"))?.unwrap_or(16).clamp(1, 1024) as usize;
    let windows = (0..layers).map(|layer| {
        let window = window.as_ref()?;
        window.layers.get(layer).copied().unwrap_or(false).then_some(window.size)
    });
    let config = DflashConfig {
        target_hidden: read / states.len().max(1),
        states,
        rows,
        mask,
        windows: windows.collect(),
        causal: vec![causal.unwrap_or(false); layers],
        // Only DSpark drafts from the row of the last token.
        from_anchor: flag("sample_from_anchor")?.unwrap_or(markov.is_some()),
        scored: shape("output.weight")?.map(|[rows, _]| rows),
        own_tables,
        markov,
        confidence: has("conf_proj.weight") && flag("has_confidence_head")? != Some(false),
        convolution: (taps > 0).then_some([taps, body.hidden / group]),
        selector: selector.map(|rank| [rank, count]),
        body,
    };
    config.checked().map(Some).map_err(LibraryError::config(file.name()))
}
