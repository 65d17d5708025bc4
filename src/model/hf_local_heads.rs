//! Families whose layers with a window have other heads than the rest (Gemma 4, MiMo-V2), and how
//! their checkpoints say so. It must not depend on files.

use serde_json::Value;

use super::hf_fields::{Fields, whole_number};
use super::{BlockOptions, ConfigError, LocalHeads};
use crate::kernels::Activation;

/// What Gemma 4's layers do differently.
pub(super) fn gemma4(options: &mut BlockOptions, fields: &Fields<'_>) -> Result<(), ConfigError> {
    options.output_norms = true;
    options.activation = Activation::GeluTanh;
    options.embedding_scale = (fields.size("hidden_size")? as f32).sqrt();
    options.attention_scale = Some(1.0);
    options.final_softcap = fields.float("final_logit_softcapping")?;
    options.rotary_dim = None;
    options.value_norm = true;
    options.global_values_are_keys = fields.flag("attention_k_eq_v")?.unwrap_or(false);
    options.output_scale = fields.flag("output_scale")?.unwrap_or(true);
    options.per_layer_dim = fields.optional_size("hidden_size_per_layer_input")?.unwrap_or(0);
    // The check of the configuration refuses a wrong count later.
    let layers = fields.size("num_hidden_layers")?.min(1 << 12);
    let shared = fields.optional_size("num_kv_shared_layers")?.unwrap_or(0);
    let own = layers.saturating_sub(shared);
    options.own_kv_layers = (shared > 0).then_some(own);
    options.intermediates = match listed_widths(fields)? {
        Some(widths) => Some(widths),
        None if fields.flag("use_double_wide_mlp")?.unwrap_or(false) => {
            let width = fields.size("intermediate_size")?;
            let factor = |layer| if layer < own { 1 } else { 2 };
            Some((0..layers).map(|layer| width.saturating_mul(factor(layer))).collect())
        }
        None => None,
    };
    let local = fields.optional_size("swa_rotary_dim")?;
    local_heads(options, fields, local.unwrap_or(fields.size("swa_head_dim")?))
}

/// The width of each layer's MLP, if they are listed.
pub(super) fn listed_widths(fields: &Fields<'_>) -> Result<Option<Vec<usize>>, ConfigError> {
    let width = |value| whole_number("intermediate_sizes", value);
    let listed = fields.get("intermediate_sizes").and_then(Value::as_array);
    listed.map(|list| list.iter().map(width).collect()).transpose()
}

/// The heads and rotary positions of layers with a window.
pub(super) fn local_heads(
    options: &mut BlockOptions,
    fields: &Fields<'_>,
    rotary_dim: usize,
) -> Result<(), ConfigError> {
    let size = |own, other| match fields.optional_size(own) {
        Ok(None) => fields.size(other),
        Ok(Some(size)) => Ok(size),
        Err(error) => Err(error),
    };
    options.local_heads = Some(LocalHeads {
        kv_heads: size("swa_num_key_value_heads", "num_key_value_heads")?,
        head_dim: size("swa_head_dim", "head_dim")?,
        rotary_dim,
    });
    let theta = fields.number("rope_local_base_freq")?;
    options.local_rope_theta = Some(theta.unwrap_or(10_000.0));
    Ok(())
}

/// The fields of a checkpoint whose layers with a window have heads of their own, in the words of
/// GGUF files: without a prefix they are those of the other layers.
pub(super) fn with_local_heads(json: &Value) -> Option<Value> {
    let mut own = json.clone();
    let get = |field: &str| json.get(field).filter(|value| !value.is_null()).cloned();
    match json.get("model_type").and_then(Value::as_str) {
        Some("gemma4_text") if get("swa_head_dim").is_none() => {
            own["swa_head_dim"] = get("head_dim").unwrap_or(256.into());
            own["head_dim"] = get("global_head_dim").unwrap_or(512.into());
            own["swa_num_key_value_heads"] = own["num_key_value_heads"].clone();
            let kv_heads = get("num_global_key_value_heads");
            if let Some(heads) = kv_heads.filter(|_| json["attention_k_eq_v"] == true) {
                own["num_key_value_heads"] = heads;
            }
            if json["enable_moe_block"] != true {
                own["num_experts"] = Value::Null;
            }
        }
        Some("mimo_v2_flash") => {
            let lists = [("hybrid_layer_pattern", "layer_types"), ("moe_layer_freq", "")];
            for (list, kinds) in lists {
                let Some(list) = json.get(list).and_then(Value::as_array) else { continue };
                let local =
                    |x: &Value| if *x == 1 { "sliding_attention" } else { "full_attention" };
                let dense = list.iter().take_while(|x| **x == 0).count();
                if kinds.is_empty() && list[dense..].iter().all(|x| *x == 1) {
                    own["first_k_dense_replace"] = dense.into();
                    own["moe_layer_freq"] = Value::Null;
                } else if !kinds.is_empty() {
                    own[kinds] = list.iter().map(local).collect();
                }
            }
            if let Some(theta) = get("swa_rope_theta") {
                own["rope_local_base_freq"] = theta;
            }
        }
        _ => return None,
    }
    if let Some(local) = json.pointer("/rope_parameters/sliding_attention/rope_theta") {
        own["rope_local_base_freq"] = local.clone();
    }
    if let Some(global) = json.pointer("/rope_parameters/full_attention") {
        own["rope_parameters"] = global.clone();
    }
    Some(own)
}
