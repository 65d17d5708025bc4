//! DFlash drafters in safetensors files (method.md, DFlash): the fields of their `config.json`, and
//! the published names of their tensors. It must not depend on how they draft.

use std::borrow::Cow;

use serde_json::Value;

use super::safetensors::Tensors;
use crate::kernels::Format;
use crate::model::head::TensorSource;
use crate::model::{Config, ConfigError, DflashConfig, RawTensor, WeightSource};

/// Whether a `config.json` is that of a DFlash drafter.
pub(super) fn is_dflash(settings: &Value) -> bool {
    let architecture = settings["architectures"][0].as_str().unwrap_or_default();
    architecture.starts_with("DFlash") || !settings["dflash_config"].is_null()
}

/// What a `config.json` and the shapes of the tensors say.
pub(super) fn config(settings: &Value, tensors: &Tensors) -> Result<DflashConfig, ConfigError> {
    let mut qwen3 = settings.clone();
    qwen3["model_type"] = "qwen3".into();
    qwen3["sliding_window"] = Value::Null;
    let mut body = Config { tied_head: false, ..Config::from_hf_json(&qwen3)? };
    let value = |name: &str| match &settings["dflash_config"][name] {
        Value::Null => &settings[name],
        own => own,
    };
    let size = |name: &'static str, usual: usize| match value(name) {
        Value::Null => Ok(usual),
        value => {
            let reason = "it must be a whole number";
            let size = value.as_u64().map(|size| size as usize);
            size.ok_or_else(|| ConfigError::new(name, value, reason))
        }
    };
    let float = |name: &'static str, usual: f32| match value(name) {
        Value::Null => Ok(usual),
        value => {
            let number = value.as_f64().map(|number| number as f32);
            number.ok_or_else(|| ConfigError::new(name, value, "it must be a number"))
        }
    };
    let shape = |name: &str| tensors.shape(&place(tensors, name));
    let rows = |name: &str| shape(name).and_then(|shape| shape.first().copied());
    let columns = |name: &str| shape(name).and_then(|shape| shape.get(1).copied());
    let markov = columns("markov_w1.weight");
    let cap = float("final_logit_softcapping", 0.0)?;
    body.block.embedding_scale = float("input_embedding_scale", 1.0)?;
    body.block.attention_out_scale = float("attention_value_scale", 1.0)?;
    body.block.logit_divisor = 1.0 / float("output_multiplier", 1.0)?;
    body.block.final_softcap = (cap > 0.0).then_some(cap);
    let body = body.checked()?;
    let is_local = |layer: usize| settings["layer_types"][layer] == "sliding_attention";
    let window = size("sliding_window", 0)?;
    let causal = settings["is_causal"].as_bool();
    let layers = 0..body.layers;
    let listed = value("target_layer_ids").as_array().map_or(&[][..], Vec::as_slice);
    // They count the layers whose outputs are tapped, which enter the next.
    let states = listed.iter().map(|id| id.as_u64().map_or(usize::MAX, |id| id as usize + 1));
    let taps = size("conv_kernel_size", 0)?;
    let selector = rows("selector_hidden.weight");
    let config = DflashConfig {
        target_hidden: columns("fc.weight").unwrap_or(0) / listed.len().max(1),
        states: states.collect(),
        rows: size("block_size", 16)?,
        mask: size("mask_token_id", usize::MAX)?.try_into().unwrap_or(u32::MAX),
        windows: layers.clone().map(|layer| is_local(layer).then_some(window)).collect(),
        causal: layers.map(|layer| causal.unwrap_or(is_local(layer))).collect(),
        from_anchor: value("sample_from_anchor").as_bool().unwrap_or(markov.is_some()),
        scored: rows("lm_head.weight"),
        own_tables: ["model.embed_tokens.weight", "lm_head.weight"].map(|x| shape(x).is_some()),
        markov,
        confidence: shape("conf_proj.weight").is_some(),
        convolution: match taps {
            0 => None,
            taps => Some([taps, body.hidden / size("conv_group_size", 16)?.max(1)]),
        },
        selector: match selector {
            None => None,
            Some(rank) => Some([rank, size("selector_top_k", 16)?.clamp(1, 1024)]),
        },
        body,
    };
    config.checked()
}

/// The tensors of a drafter by the names that the model requests.
pub(super) struct PublishedTensors(pub(super) Tensors);

/// The names of parts as the model requests them, and as they are published.
const NAMES: [(&str, &str); 11] = [
    ("enc.output_norm.", "hidden_norm."),
    ("attn_conv_base", "attention_conv.base_kernel"),
    ("attn_conv_proj.", "attention_conv.kernel_projection."),
    ("ffn_conv_base", "mlp_conv.base_kernel"),
    ("ffn_conv_proj.", "mlp_conv.kernel_projection."),
    ("markov_w1.", "markov_head.markov_w1."),
    ("markov_w2.", "markov_head.markov_w2."),
    ("conf_proj.", "confidence_head.proj."),
    ("selector_predecessor.weight", "candidate_selector.predecessor_codebook"),
    ("selector_successor.weight", "candidate_selector.successor_codebook"),
    ("selector_hidden.", "candidate_selector.hidden_projection."),
];

/// The name in the file of what the model requests. Some exports put `model.` before each.
fn place(tensors: &Tensors, name: &str) -> String {
    let mut name = name.strip_prefix("model.").unwrap_or(name).to_owned();
    if let Some((own, published)) = NAMES.iter().find(|(own, _)| name.contains(own)) {
        name = name.replace(own, published);
    }
    if tensors.has("model.fc.weight") {
        name.insert_str(0, "model.");
    }
    let with_weight = format!("{name}.weight");
    let without = name.strip_suffix(".weight").unwrap_or(&name);
    // Embeddings are published with and without it.
    [&name, &with_weight, without]
        .into_iter()
        .find(|name| tensors.has(name))
        .map_or_else(|| name.clone(), str::to_owned)
}

impl WeightSource for PublishedTensors {
    fn describe(&self) -> String {
        self.0.describe()
    }

    fn tensor(&self, name: &str) -> Option<RawTensor<'_>> {
        let place = place(&self.0, name);
        if name != "d2t" {
            return WeightSource::tensor(&self.0, &place);
        }
        // The model requests tokens, and the file has their distances.
        let offsets = TensorSource::tensor(&self.0, &place).ok()?.to_vec1::<i64>().ok()?;
        let tokens = offsets.iter().zip(0i64..).map(|(offset, id)| offset.wrapping_add(id));
        let bytes = Cow::Owned(tokens.flat_map(i64::to_le_bytes).collect());
        Some(RawTensor { format: Format::F32, shape: vec![offsets.len()], bytes })
    }

    fn release(&self, name: &str) {
        self.0.release(&place(&self.0, name));
    }

    fn identity(&self) -> Option<String> {
        self.0.identity()
    }
}
