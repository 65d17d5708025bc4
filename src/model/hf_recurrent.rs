//! The recurrent layers of each family, according to the fields of its `config.json`. It must not
//! depend on names of tensors.

use serde_json::Value;

use super::hf_families::{Family, OF_GGUF, SHARED_WIDTH};
use super::hf_fields::Fields;
use super::{ConfigError, RecurrentLayers};
use crate::kernels::{RecurrentShape, StateKind};

impl Family {
    /// The layers of gated DeltaNet.
    pub(super) fn gated_delta(self, fields: &Fields<'_>) -> Result<RecurrentLayers, ConfigError> {
        let every = fields.optional_size("full_attention_interval")?.unwrap_or(4);
        let key_heads = fields.size("linear_num_key_heads")?;
        let heads = fields.size("linear_num_value_heads")?;
        let key = fields.size("linear_key_head_dim")?;
        let value = fields.size("linear_value_head_dim")?;
        let keys = key_heads.saturating_mul(key).saturating_mul(2);
        let shape = RecurrentShape {
            taps: fields.optional_size("linear_conv_kernel_dim")?.unwrap_or(4),
            channels: keys.saturating_add(heads.saturating_mul(value)),
            kind: StateKind::Delta,
            heads,
            key_heads,
            key,
            value,
            tiled: false,
        };
        let attends = |layer: usize| every > 0 && (layer + 1).is_multiple_of(every);
        let layers = recurrent_layers(fields, attends)?;
        Ok(RecurrentLayers {
            layers,
            beside_attention: false,
            norm: true,
            shape,
            log_decay: true,
            fused_gates: self == Self::Qwen3Next,
        })
    }

    /// The layers of Mamba-2.
    pub(super) fn mamba2(self, fields: &Fields<'_>) -> Result<RecurrentLayers, ConfigError> {
        let heads = fields.size("mamba_n_heads")?;
        let key_heads = fields.size("mamba_n_groups")?;
        let key = fields.size("mamba_d_state")?;
        let inner = fields.size("mamba_d_ssm")?;
        let shape = RecurrentShape {
            taps: fields.size("mamba_d_conv")?,
            channels: inner.saturating_add(key_heads.saturating_mul(key).saturating_mul(2)),
            kind: StateKind::Mamba2,
            heads,
            key_heads,
            key,
            value: inner.checked_div(heads).unwrap_or(0),
            tiled: false,
        };
        Ok(RecurrentLayers {
            layers: recurrent_layers(fields, |_| false)?,
            beside_attention: self == Self::FalconH1,
            norm: fields.flag("mamba_rms_norm")?.unwrap_or(true),
            shape,
            log_decay: true,
            fused_gates: false,
        })
    }
}

/// Parts of Falcon-H1's layers and the fields whose numbers multiply their weights. Those of the
/// state's input, its B and its C multiply rows of the convolution, which computes the same.
pub(crate) const MULTIPLIERS: [(&str, &[&str]); 12] = [
    ("self_attn.q_proj", &["/attention_in_multiplier"]),
    ("self_attn.k_proj", &["/attention_in_multiplier", "/key_multiplier"]),
    ("self_attn.v_proj", &["/attention_in_multiplier"]),
    ("self_attn.o_proj", &["/attention_out_multiplier"]),
    ("mlp.gate_proj", &["/mlp_multipliers/0"]),
    ("mlp.down_proj", &["/mlp_multipliers/1"]),
    ("mamba.in_proj.z", &["/ssm_in_multiplier", "/ssm_multipliers/0"]),
    ("mamba.conv1d.x", &["/ssm_in_multiplier", "/ssm_multipliers/1"]),
    ("mamba.conv1d.B", &["/ssm_in_multiplier", "/ssm_multipliers/2"]),
    ("mamba.conv1d.C", &["/ssm_in_multiplier", "/ssm_multipliers/3"]),
    ("mamba.in_proj.dt", &["/ssm_in_multiplier", "/ssm_multipliers/4"]),
    ("mamba.out_proj", &["/ssm_out_multiplier"]),
];

/// The fields of a checkpoint with Mamba-2's states in the words that GGUF files have for them;
/// `None` for other models. The names are those of transformers' configurations, and what the
/// multipliers belong to is according to its `modeling_falcon_h1.py`. As in llama.cpp and
/// mamba_ssm, and unlike in transformers' Mamba-2, the norm of the results is one of each group.
pub(super) fn with_mamba2(json: &Value) -> Result<Option<Value>, ConfigError> {
    let fields = Fields(json);
    let name = fields.get("model_type").and_then(Value::as_str).unwrap_or_default();
    let known = ["mamba2", "falcon_h1", "granitemoehybrid", "nemotron_h"].contains(&name);
    if !known || fields.flag(OF_GGUF)?.unwrap_or(false) {
        return Ok(None);
    }
    refuse_variants(&fields)?;
    let mut own = json.clone();
    for (theirs, ours) in [
        ("num_heads", "mamba_n_heads"),
        ("mamba_num_heads", "mamba_n_heads"),
        ("mamba_head_dim", "mamba_d_head"),
        ("n_groups", "mamba_n_groups"),
        ("state_size", "mamba_d_state"),
        ("ssm_state_size", "mamba_d_state"),
        ("conv_kernel", "mamba_d_conv"),
        ("attention_head_dim", "head_dim"),
        ("layers_block_type", "layer_types"),
        ("hybrid_override_pattern", "layer_types"),
        ("shared_intermediate_size", SHARED_WIDTH),
        ("moe_shared_expert_intermediate_size", SHARED_WIDTH),
    ] {
        if let Some(value) = fields.get(theirs) {
            own[ours] = value.clone();
        }
    }
    // The check of the configuration refuses a wrong count later.
    let layers = fields.optional_size("num_hidden_layers")?.unwrap_or(0).min(1 << 12);
    if name == "mamba2" {
        own["mamba_d_head"] = own["head_dim"].take();
        // It has no attention and no MLP; a draft head for it has both, as wide as this.
        for (field, value) in [("num_attention_heads", 1), ("num_key_value_heads", 1)] {
            own[field] = value.into();
        }
        own["head_dim"] = 64.into();
        own["intermediate_size"] = own["hidden_size"].clone();
        own["intermediate_sizes"] = vec![0; layers].into();
        own["max_position_embeddings"] = (1 << 20).into();
    }
    if fields.get("mamba_d_ssm").is_none() {
        let read = Fields(&own);
        // A head's width may be "auto".
        own["mamba_d_ssm"] = match own["mamba_d_head"].as_u64() {
            Some(width) => (width.saturating_mul(read.size("mamba_n_heads")? as u64)).into(),
            None => {
                let expand = read.optional_size("mamba_expand")?.unwrap_or(2);
                read.size("hidden_size")?.saturating_mul(expand).into()
            }
        };
    }
    let kinds = kinds(&own["layer_types"])?;
    match name {
        "falcon_h1" => {
            own["mamba_rms_norm"] = fields.flag("mamba_rms_norm")?.unwrap_or(false).into();
            let factor = fields.number("lm_head_multiplier")?.unwrap_or(1.0);
            ConfigError::unless_positive("lm_head_multiplier", factor)?;
            own["logits_scaling"] = (1.0 / factor).into();
        }
        "granitemoehybrid" => {
            own["use_rope"] = (json["position_embedding_type"] == "rope").into();
            own["norm_topk_prob"] = true.into();
            if json["num_local_experts"] == 0 {
                own["num_local_experts"] = Value::Null;
                own["intermediate_size"] = own[SHARED_WIDTH].clone();
            }
        }
        "nemotron_h" => {
            let [experts, mlps] = ["moe", "mlp"].map(|kind| kinds.contains(&kind));
            if experts && mlps {
                let reason = "layers must have experts or MLPs, not both";
                return Err(ConfigError::new("layer_types", &own["layer_types"], reason));
            }
            if !experts {
                own["n_routed_experts"] = Value::Null;
                own["num_local_experts"] = Value::Null;
            }
            let width = if experts { "moe_intermediate_size" } else { "intermediate_size" };
            let width = fields.size(width)?;
            let of = |kind: &&str| if ["moe", "mlp"].contains(kind) { width } else { 0 };
            own["intermediate_size"] = width.into();
            own["intermediate_sizes"] = kinds.iter().map(of).collect();
            own["num_hidden_layers"] = kinds.len().into();
            own["topk_method"] = "noaux_tc".into();
        }
        _ => {}
    }
    own["layer_types"] = if kinds.is_empty() { Value::Null } else { kinds.into() };
    Ok(Some(own))
}

/// Refuses what would make Mamba-2's layers something else.
fn refuse_variants(fields: &Fields<'_>) -> Result<(), ConfigError> {
    let reason = "it is not supported for this family";
    for (field, needed) in [
        ("use_bias", false),
        ("mamba_proj_bias", false),
        ("projectors_bias", false),
        ("use_conv_bias", true),
        ("mamba_conv_bias", true),
    ] {
        let found = fields.flag(field)?.unwrap_or(needed);
        ConfigError::unless(found == needed, field, found, reason)?;
    }
    let normed = fields.flag("mamba_rms_norm")?.unwrap_or(false);
    let before = normed && fields.flag("mamba_norm_before_gate")?.unwrap_or(true);
    ConfigError::unless(!before, "mamba_norm_before_gate", before, reason)?;
    if let Some(act) = fields.get("mlp_hidden_act") {
        ConfigError::unless(act == "relu2", "mlp_hidden_act", act, "this model family uses relu2")?;
    }
    if let Some(limit) = fields.get("time_step_limit") {
        // Without a limit, the greatest step is infinite, for which JSON has no number.
        let [least, most] = [0, 1].map(|end| limit.get(end).and_then(Value::as_f64));
        let sound = least.unwrap_or(0.0) == 0.0 && most.is_none_or(|most| most >= 1e9);
        ConfigError::unless(sound, "time_step_limit", limit, "limits of steps are not supported")?;
    }
    for pointer in MULTIPLIERS.iter().flat_map(|(_, pointers)| *pointers) {
        let field = pointer[1..].split('/').next().unwrap_or_default();
        if let Some(value) = fields.get(field) {
            let number = fields.0.pointer(pointer).and_then(Value::as_f64);
            let sound = number.is_some_and(f64::is_finite);
            let reason = "it must have a number for each part";
            ConfigError::unless(sound, field, value, reason)?;
        }
    }
    Ok(())
}

/// The kind of each layer: a list of names, or Nemotron-H's letters; empty if neither is there.
fn kinds(given: &Value) -> Result<Vec<&'static str>, ConfigError> {
    let kind = |name: &str| match name {
        "M" | "mamba" | "linear_attention" | "hybrid" => Some("recurrent"),
        "*" | "attention" | "full_attention" => Some("full_attention"),
        "-" | "mlp" => Some("mlp"),
        "E" | "moe" => Some("moe"),
        _ => None,
    };
    let kinds: Option<Vec<_>> = match given {
        Value::Null => Some(Vec::new()),
        Value::String(letters) => letters.split("").filter(|l| !l.is_empty()).map(kind).collect(),
        Value::Array(names) => names.iter().map(|name| kind(name.as_str()?)).collect(),
        _ => None,
    };
    let reason = "the kinds of layers are mamba, attention, mlp and moe";
    kinds.ok_or_else(|| ConfigError::new("layer_types", given, reason))
}

/// For each layer whether it is recurrent: as `layer_types` says, otherwise if it is not one that
/// `attends`.
fn recurrent_layers(
    fields: &Fields<'_>,
    attends: impl Fn(usize) -> bool,
) -> Result<Vec<bool>, ConfigError> {
    if let Some(kinds) = fields.get("layer_types").and_then(Value::as_array) {
        let without =
            |kind: &Value| matches!(kind.as_str(), Some("full_attention" | "mlp" | "moe"));
        return Ok(kinds.iter().map(|kind| !without(kind)).collect());
    }
    // The check of the configuration refuses a wrong count later.
    let layers = fields.size("num_hidden_layers")?.min(1 << 12);
    Ok((0..layers).map(|layer| !attends(layer)).collect())
}

/// The gated short convolutions of LFM2.
pub(super) fn short_convolutions(fields: &Fields<'_>) -> Result<RecurrentLayers, ConfigError> {
    let shape = RecurrentShape {
        taps: fields.optional_size("conv_L_cache")?.unwrap_or(3),
        channels: fields.size("hidden_size")?,
        kind: StateKind::Delta,
        heads: 0,
        key_heads: 0,
        key: 0,
        value: 0,
        tiled: false,
    };
    let attending = fields.get("full_attn_idxs").and_then(Value::as_array);
    let attends = |layer: usize| attending.is_none_or(|list| list.contains(&layer.into()));
    let layers = recurrent_layers(fields, attends)?;
    Ok(RecurrentLayers {
        layers,
        beside_attention: false,
        norm: false,
        shape,
        log_decay: false,
        fused_gates: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Config;
    use serde_json::json;

    fn with(mut json: Value, changes: &Value) -> Value {
        for (field, value) in changes.as_object().unwrap() {
            json[field] = value.clone();
        }
        json
    }

    /// The config of Falcon-H1-0.5B, reduced to the fields that are read.
    fn falcon() -> Value {
        json!({
            "model_type": "falcon_h1", "hidden_act": "silu", "hidden_size": 1024,
            "intermediate_size": 2048, "num_hidden_layers": 36, "num_attention_heads": 8,
            "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 32784, "rms_norm_eps": 1e-5,
            "max_position_embeddings": 16384, "rope_theta": 1e11, "mamba_d_ssm": 1536,
            "mamba_n_heads": 24, "mamba_d_head": 64, "mamba_d_state": 128, "mamba_n_groups": 1,
            "mamba_d_conv": 4, "mamba_rms_norm": false, "mamba_norm_before_gate": false,
            "mamba_conv_bias": true, "mamba_proj_bias": false, "lm_head_multiplier": 0.0390625,
            "embedding_multiplier": 5.65, "key_multiplier": 0.390625, "ssm_in_multiplier": 1.25,
            "ssm_multipliers": [0.35, 0.25, 0.35, 0.5, 0.35], "mlp_multipliers": [0.88, 0.58]
        })
    }

    /// The config of Nemotron 3 Nano, with fewer layers.
    fn nemotron() -> Value {
        json!({
            "model_type": "nemotron_h", "mlp_hidden_act": "relu2", "hidden_size": 2688,
            "intermediate_size": 1856, "moe_intermediate_size": 1856, "num_hidden_layers": 5,
            "hybrid_override_pattern": "MEM*E", "num_attention_heads": 32,
            "num_key_value_heads": 2, "head_dim": 128, "vocab_size": 131072,
            "layer_norm_epsilon": 1e-5, "max_position_embeddings": 262144,
            "mamba_num_heads": 64, "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128,
            "conv_kernel": 4, "time_step_limit": [0.0, null], "n_routed_experts": 128,
            "num_experts_per_tok": 6, "moe_shared_expert_intermediate_size": 3712,
            "n_shared_experts": 1, "routed_scaling_factor": 2.5, "n_group": 1, "topk_group": 1,
            "norm_topk_prob": true
        })
    }

    #[test]
    fn published_names_are_read() {
        let config = Config::from_hf_json(&falcon()).unwrap();
        let recurrent = config.block.recurrent.unwrap();
        assert!(recurrent.beside_attention && !recurrent.norm && recurrent.log_decay);
        assert_eq!(recurrent.layers, [true; 36]);
        assert_eq!((recurrent.shape.channels, recurrent.shape.value), (1536 + 256, 64));
        assert_eq!((config.block.logit_divisor, config.block.embedding_scale), (25.6, 5.65));

        let read = |changes| Config::from_hf_json(&with(nemotron(), &changes)).unwrap();
        let config = read(json!({}));
        let recurrent = config.block.recurrent.as_ref().unwrap();
        assert_eq!(recurrent.layers, [true, false, true, false, false]);
        assert_eq!((recurrent.shape.channels, recurrent.shape.key_heads), (4096 + 2048, 8));
        let experts = config.block.experts.as_ref().unwrap();
        assert_eq!((experts.count, experts.shared_intermediate), (128, 3712));
        assert!(experts.selection_bias && experts.normalised && !config.block.gated);
        assert_eq!((0..5).filter(|&layer| config.block.attends(layer)).collect::<Vec<_>>(), [3]);
        // transformers writes the pattern as a list of names, and their number nowhere else.
        let named = ["mamba", "moe", "linear_attention", "attention", "moe"];
        assert_eq!(
            read(json!({"hybrid_override_pattern": null, "layers_block_type": named,
                "num_hidden_layers": null})),
            config
        );
        let dense = read(json!({"hybrid_override_pattern": "M-M*-"}));
        assert_eq!(dense.block.intermediates, config.block.intermediates);
        assert_eq!(dense.block.experts, None);

        let kinds = [["mamba"; 35].as_slice(), &["attention"]].concat();
        let granite = json!({"model_type": "granitemoehybrid", "num_local_experts": 0,
            "mamba_d_ssm": null, "mamba_d_head": "auto", "mamba_expand": 2, "mamba_n_heads": 32,
            "shared_intermediate_size": 4096, "position_embedding_type": "nope",
            "layer_types": kinds});
        let config = Config::from_hf_json(&with(falcon(), &granite)).unwrap();
        assert_eq!((config.intermediate, config.block.experts), (4096, None));
        assert!(!config.block.global_rope);
        assert_eq!(config.block.recurrent.unwrap().shape.outputs(), 2048);
    }

    #[test]
    fn what_would_run_wrong_is_refused_by_name() {
        for (model, changes, field) in [
            (falcon(), json!({"mamba_n_heads": null}), "mamba_n_heads"),
            (falcon(), json!({"mamba_proj_bias": true}), "mamba_proj_bias"),
            (falcon(), json!({"mamba_conv_bias": false}), "mamba_conv_bias"),
            (
                falcon(),
                json!({"mamba_rms_norm": true, "mamba_norm_before_gate": true}),
                "mamba_norm_before_gate",
            ),
            (falcon(), json!({"ssm_multipliers": [1.0, 1.0]}), "ssm_multipliers"),
            (falcon(), json!({"key_multiplier": "small"}), "key_multiplier"),
            (falcon(), json!({"lm_head_multiplier": 0.0}), "lm_head_multiplier"),
            (nemotron(), json!({"time_step_limit": [0.0, 0.1]}), "time_step_limit"),
            (nemotron(), json!({"mlp_hidden_act": "silu"}), "mlp_hidden_act"),
            (nemotron(), json!({"hybrid_override_pattern": "ME-*E"}), "layer_types"),
            (nemotron(), json!({"hybrid_override_pattern": "MX"}), "layer_types"),
            (nemotron(), json!({"hybrid_override_pattern": 3}), "layer_types"),
        ] {
            let error = Config::from_hf_json(&with(model, &changes)).unwrap_err();
            assert_eq!(error.field, field, "{changes}: {error}");
        }
    }
}
