//! From metadata to the transformer's numbers: the fields of a `config.json` that say the same, and
//! what only the tensors say. It must not depend on what a family does with a field.

use serde_json::{Value as Json, json};

use super::assistant::ASSISTANT;
use super::dflash::DFLASH;
use super::file::GgufFile;
use super::values::Value;
use crate::kernels::Format;
use crate::library::{LibraryError, Result};
use crate::model::head::{HeadConfig, MtpConfig};
use crate::model::{
    ARCHITECTURES, ArchitectureRow, BlockOptions, Config, ConfigError, Family, OF_GGUF,
    RecurrentLayers, RopeLayout, SHARED_WIDTH,
};

/// Divisors of the rotary frequencies (Llama 3).
pub(super) const ROPE_FACTORS: &str = "rope_freqs.weight";
/// Divisors for long contexts (Phi-3).
pub(super) const ROPE_FACTORS_LONG: &str = "rope_factors_long.weight";
/// Divisors for short contexts (Phi-3).
pub(super) const ROPE_FACTORS_SHORT: &str = "rope_factors_short.weight";

/// How many blocks after those of the model predict tokens after the next one.
const EXTRA_BLOCKS: &str = "nextn_predict_layers";

/// Keys, after the architecture's name, and the fields of a `config.json` that say the same. The
/// last key counts if a file has several of a field.
const FIELDS: [(&str, &str); 54] = [
    ("embedding_length", "hidden_size"),
    ("feed_forward_length", "intermediate_size"),
    ("block_count", "num_hidden_layers"),
    ("context_length", "max_position_embeddings"),
    ("attention.head_count", "num_attention_heads"),
    ("attention.head_count_kv", "num_key_value_heads"),
    ("attention.key_length", "head_dim"),
    ("attention.layer_norm_epsilon", "rms_norm_eps"),
    ("attention.layer_norm_rms_epsilon", "rms_norm_eps"),
    ("attention.sliding_window", "sliding_window"),
    ("attention.sliding_window_pattern", "sliding_window_pattern"),
    ("rope.freq_base", "rope_theta"),
    ("rope.freq_base_swa", "rope_local_base_freq"),
    ("rope.dimension_count", "rotary_dim"),
    ("embedding_scale", "embedding_multiplier"),
    ("residual_scale", "residual_multiplier"),
    ("logit_scale", "logits_scaling"),
    ("logit_scale", "logit_scale"),
    ("attention.scale", "attention_multiplier"),
    ("attn_logit_softcapping", "attn_logit_softcapping"),
    ("final_logit_softcapping", "final_logit_softcapping"),
    ("attention.q_lora_rank", "q_lora_rank"),
    ("attention.kv_lora_rank", "kv_lora_rank"),
    ("attention.key_length_mla", "qk_nope_head_dim"),
    ("attention.value_length_mla", "v_head_dim"),
    ("expert_count", "num_local_experts"),
    ("expert_used_count", "num_experts_per_tok"),
    ("expert_feed_forward_length", "moe_intermediate_size"),
    ("expert_shared_count", "n_shared_experts"),
    ("leading_dense_block_count", "first_k_dense_replace"),
    ("expert_weights_norm", "norm_topk_prob"),
    ("expert_weights_scale", "routed_scaling_factor"),
    ("expert_group_count", "n_group"),
    ("expert_group_used_count", "topk_group"),
    ("interleave_moe_layer_step", "moe_layer_interval"),
    ("attention.value_scale", "attention_value_scale"),
    ("attention.key_length_swa", "swa_head_dim"),
    ("rope.dimension_count_swa", "swa_rotary_dim"),
    ("embedding_length_per_layer_input", "hidden_size_per_layer_input"),
    ("attention.shared_kv_layers", "num_kv_shared_layers"),
    ("expert_shared_feed_forward_length", SHARED_WIDTH),
    ("full_attention_interval", "full_attention_interval"),
    ("ssm.conv_kernel", "linear_conv_kernel_dim"),
    ("ssm.group_count", "linear_num_key_heads"),
    ("ssm.time_step_rank", "linear_num_value_heads"),
    ("ssm.state_size", "linear_key_head_dim"),
    ("ssm.conv_kernel", "mamba_d_conv"),
    ("ssm.group_count", "mamba_n_groups"),
    ("ssm.time_step_rank", "mamba_n_heads"),
    ("ssm.state_size", "mamba_d_state"),
    ("ssm.inner_size", "mamba_d_ssm"),
    ("rope.scaling.finetuned", "use_rope"),
    ("moe_latent_size", "moe_latent_size"),
    ("shortconv.l_cache", "conv_L_cache"),
];

/// The configuration of a file and its architecture.
pub(super) fn config(file: &GgufFile) -> Result<(Config, &'static ArchitectureRow)> {
    if let Some(other) = file.other() {
        return Err(other.error(file.name()));
    }
    let name = file.text("general.architecture")?.unwrap_or("absent");
    let experts = file.value(&format!("{name}.expert_count")).and_then(Value::as_u64);
    let row = ArchitectureRow::of_gguf(name, experts.is_some_and(|count| count > 0));
    let Some(row) = row else {
        let mut known: Vec<&str> = ARCHITECTURES.iter().map(|row| row.gguf).collect();
        known.dedup();
        let remedy = format!("use a model of one of these architectures: {}", known.join(", "));
        let found = format!("`{name}`");
        return Err(LibraryError::unsupported(file.name(), "general.architecture", found, remedy));
    };
    Ok((config_as(file, row)?, row))
}

/// The configuration of a file with the keys and tensors of this architecture.
pub(super) fn config_as(file: &GgufFile, row: &ArchitectureRow) -> Result<Config> {
    let name = row.gguf;
    let wrong = |error: ConfigError| {
        let key = FIELDS.iter().rev().find(|(_, field)| *field == error.field);
        let field = key.map_or(error.field, |&(key, _)| key);
        LibraryError::config(file.name())(ConfigError { field, ..error })
    };
    let read = Config::of_fields(&fields(file, row)?).map_err(wrong)?;
    let has = |name: &str| file.tensors.contains_key(name);
    let value_width = file.value(&format!("{name}.attention.value_length")).and_then(Value::as_u64);
    let own_width = read.block.value_dim.unwrap_or(read.head_dim) as u64;
    if let Some(width) = value_width.filter(|&width| width != own_width)
        && read.block.latent.is_none()
    {
        let reason = format!("it must be the head width, {}", read.head_dim);
        return Err(wrong(ConfigError::new("attention.value_length", width, reason)));
    }
    // The language models of GLM's vision models, whose positions have several parts.
    let sections = file.value(&format!("{name}.rope.dimension_sections")).is_some();
    let halves = sections && row.family == Family::Glm4;
    let config = Config {
        rope_layout: if halves { RopeLayout::Halves } else { row.gguf_layout },
        qkv_bias: has("blk.0.attn_q.bias") || has("blk.0.attn_qkv.bias"),
        o_bias: has("blk.0.attn_output.bias"),
        qk_norm: any_tensor(file, ".attn_q_norm.weight"),
        tied_head: !has("output.weight"),
        // The norms in a file contain it.
        block: BlockOptions {
            norm_offset: 0.0,
            mlp_bias: has("blk.0.ffn_down.bias"),
            head_bias: has("output.bias"),
            recurrent: read.block.recurrent.map(|read| in_file(read, row.family)),
            ..read.block
        },
        ..read
    };
    config.checked().map_err(wrong)
}

/// The head in the blocks after those of the model, if the file has one that can be run.
pub(super) fn mtp(file: &GgufFile, row: &ArchitectureRow, config: &Config) -> Option<HeadConfig> {
    let before_norm = row.family.mtp_before_norm()?;
    let key = |key: &str| format!("{}.{key}", row.gguf);
    let tensor = |part: &str| file.tensors.get(&format!("blk.{}.{part}", config.layers));
    let format = tensor("nextn.eh_proj.weight")?.format;
    let blocks = file.value(&key(EXTRA_BLOCKS)).and_then(Value::as_u64)?;
    let pattern = file.list(&key("attention.sliding_window_pattern")).ok().flatten();
    let has_window = pattern.as_ref().and_then(|all| all.get(config.layers)).is_some_and(is_local);
    let body = config.further_block(has_window, tensor("ffn_gate_inp.weight").is_some());
    Some(HeadConfig::of_target(body, MtpConfig { before_norm, blocks: blocks as usize, format }))
}

/// Whether an item of a pattern means a layer with a window.
fn is_local(item: &Value) -> bool {
    *item == Value::Bool(true) || item.as_u64() > Some(0)
}

/// What a file says differently of recurrent layers: its converter has computed the decay rates and
/// reordered the value heads of Qwen3.5.
fn in_file(mut read: RecurrentLayers, family: Family) -> RecurrentLayers {
    read.log_decay = false;
    read.shape.tiled = family.is_gated_delta() && family != Family::Qwen3Next;
    read
}

/// Whether any block has a tensor with this end of its name.
fn any_tensor(file: &GgufFile, part: &str) -> bool {
    file.tensors.keys().any(|name| name.starts_with("blk.") && name.ends_with(part))
}

/// The `config.json` of a file's model.
fn fields(file: &GgufFile, row: &ArchitectureRow) -> Result<Json> {
    let key = |key: &str| format!("{}.{key}", row.gguf);
    let any_tensor = |part: &str| any_tensor(file, part);
    // How experts are chosen within groups.
    let has_bias = any_tensor("exp_probs_b.bias");
    // A DFlash drafter may have no embedding of its own.
    let vocabulary = file.value(&key("vocab_size")).filter(|_| row.gguf == DFLASH.gguf);
    let vocabulary = vocabulary.and_then(Value::as_u64).map(|size| size as usize);
    let mut fields = json!({
        "model_type": row.model_type,
        "vocab_size": vocabulary.map_or_else(|| rows(file, "token_embd.weight"), Ok)?,
        "rms_norm_eps": 1e-5,
        OF_GGUF: true,
        "use_sliding_window": true,
        "block_auto_adjust_ff_dim": false,
        // Mixtral and Qwen3 have no such key and always do this.
        "norm_topk_prob": !matches!(
            row.gguf,
            "deepseek2" | "glm4moe" | "olmoe" | "nemotron_h_moe"
        ),
        "topk_method": if has_bias { "noaux_tc" } else { "group_limited_greedy" },
        "mamba_rms_norm": any_tensor("ssm_norm.weight"),
        "use_parallel_residual": !any_tensor("ffn_norm.weight"),
    });
    for (of_file, field) in FIELDS {
        if let Some(value) = file.value(&key(of_file)) {
            fields[field] = value.json();
        }
    }
    // The model does not run the blocks at the end, which predict tokens after the next one.
    if row.gguf == ASSISTANT.gguf {
        // All of its blocks do that, and none has keys and values.
        fields["num_kv_shared_layers"] = Json::Null;
    } else if let Some(extra) = file.value(&key(EXTRA_BLOCKS)).and_then(Value::as_u64) {
        let blocks = fields["num_hidden_layers"].as_u64().unwrap_or(0);
        fields["num_hidden_layers"] = blocks.saturating_sub(extra).into();
    }
    if row.family.is_gated_delta() {
        fields["linear_value_head_dim"] = fields["linear_key_head_dim"].clone();
    }
    if let Some(recurrent) = recurrent_layers(file, key, &mut fields)? {
        let blocks = fields["num_hidden_layers"].as_u64().unwrap_or(0) as usize;
        let kind = |recurrent| if recurrent { "recurrent" } else { "full_attention" };
        fields["layer_types"] = recurrent.into_iter().take(blocks).map(kind).collect();
    }
    // Here 0 means none, but an architecture that alternates has a window.
    let alternates = matches!(row.family, Family::Gemma2 | Family::Gemma3 | Family::GptOss);
    // The check of the configuration refuses a wrong count later.
    let layers = fields["num_hidden_layers"].as_u64().unwrap_or(0).min(1 << 12) as usize;
    for field in ["q_lora_rank", "num_local_experts", "routed_scaling_factor", "sliding_window"] {
        if fields[field].as_f64() == Some(0.0) && !(alternates && field == "sliding_window") {
            fields[field] = Json::Null;
        }
    }
    if fields["sliding_window_pattern"].is_string() {
        let listed = file.list(&key("attention.sliding_window_pattern"))?.unwrap_or_default();
        let kind = |item| if is_local(item) { "sliding_attention" } else { "full_attention" };
        fields["layer_types"] = listed.iter().take(layers).map(kind).collect();
        fields["sliding_window_pattern"] = Json::Null;
        // The heads of the first layer with a window and of the first without.
        if let Some(heads) = file.list(&key("attention.head_count_kv")).ok().flatten() {
            let first = |has_window| {
                let found =
                    listed.iter().zip(&heads).find(|(item, _)| is_local(item) == has_window);
                found.map_or(Json::Null, |(_, heads)| heads.json())
            };
            fields["swa_num_key_value_heads"] = first(true);
            fields["num_key_value_heads"] = first(false);
        }
    }
    if let Some(widths) = file.list(&key("feed_forward_length")).ok().flatten() {
        let first = widths.iter().find(|width| width.as_u64() > Some(0));
        fields["intermediate_size"] = first.map_or(Json::Null, Value::json);
        fields["intermediate_sizes"] = widths.iter().take(layers).map(Value::json).collect();
    }
    let with = |part: &str| {
        (0..layers).filter(|i| file.tensors.contains_key(&format!("blk.{i}.{part}"))).count()
    };
    let first =
        |part: &str| (0..layers).find(|i| file.tensors.contains_key(&format!("blk.{i}.{part}")));
    match row.family {
        Family::Mimo2 => {
            let width = file.value(&key("attention.value_length"));
            fields["v_head_dim"] = width.map_or(Json::Null, Value::json);
            let sinks = with("attn_sinks.weight");
            fields["add_swa_attention_sink_bias"] = (sinks > 0).into();
            fields["add_full_attention_sink_bias"] = (sinks == layers).into();
            fields["first_k_dense_replace"] = first("ffn_gate_inp.weight").into();
        }
        // Its key divides the width by another number than it should.
        Family::ErnieMoe => {
            let mut shared = file.tensors.iter();
            let shared = shared.find(|(name, _)| name.ends_with("ffn_up_shexp.weight"));
            fields[SHARED_WIDTH] = shared.and_then(|(_, up)| up.shape.first().copied()).into();
        }
        Family::Gemma4 => {
            fields["output_scale"] = (with("layer_output_scale.weight") > 0).into();
            fields["attention_k_eq_v"] = (with("attn_v.weight") < with("attn_k.weight")).into();
        }
        // It has no attention and no MLP; a draft head for it has both, as wide as this.
        Family::Mamba2 => {
            for field in ["num_attention_heads", "num_key_value_heads"] {
                fields[field] = 1.into();
            }
            fields["head_dim"] = 64.into();
            fields["rotary_dim"] = Json::Null;
            fields["intermediate_size"] = fields["hidden_size"].clone();
            fields["intermediate_sizes"] = vec![0; layers].into();
        }
        // Its MLPs have no key heads, and no states either.
        Family::NemotronH | Family::NemotronHMoe => {
            let widths = fields["intermediate_sizes"].as_array().cloned().unwrap_or_default();
            let kinds = fields["layer_types"].as_array_mut();
            for (kind, width) in kinds.into_iter().flatten().zip(widths) {
                if width.as_u64() > Some(0) {
                    *kind = "mlp".into();
                }
            }
        }
        _ => {}
    }
    if let Some(kind @ 1..) = file.value(&key("expert_gating_func")).and_then(Value::as_u64) {
        // A family whose router has its own rule does not read it.
        let other = kind.to_string();
        fields["scoring_func"] = match kind {
            1 => "softmax".into(),
            2 => "sigmoid".into(),
            _ => other.into(),
        };
    }
    let hidden = fields["hidden_size"].as_u64().unwrap_or(0);
    let head = hidden.checked_div(fields["num_attention_heads"].as_u64().unwrap_or(0));
    if fields["head_dim"].is_null() {
        fields["head_dim"] = head.unwrap_or(0).into();
    }
    // The only size of Gemma 2 and of Gemma 3 whose queries are scaled by the width and not by the
    // head.
    let layers = fields["num_hidden_layers"].as_u64();
    if matches!((row.family, layers), (Family::Gemma2, Some(46)) | (Family::Gemma3, Some(62))) {
        fields["query_pre_attn_scalar"] = head.into();
    }
    let latent = matches!(row.family, Family::DeepSeekV2 | Family::DeepSeekV3);
    if latent {
        // Files from before 2025 hold keys and values in one tensor, and the widths of a head under
        // the keys of other architectures.
        if any_tensor("attn_kv_b.weight") {
            let value = file.value(&key("attention.value_length"));
            fields["qk_nope_head_dim"] = fields["head_dim"].clone();
            fields["v_head_dim"] = value.map_or(Json::Null, Value::json);
        }
        let rotated = fields["rotary_dim"].clone();
        let whole = fields["qk_nope_head_dim"].as_u64();
        if let Some((whole, rotated)) = whole.zip(rotated.as_u64()) {
            fields["qk_nope_head_dim"] = whole.saturating_sub(rotated).into();
        }
        fields["qk_rope_head_dim"] = rotated;
    }
    fields["rope_scaling"] = rope_scaling(file, key, latent)?;
    Ok(fields)
}

/// For each block whether it is recurrent, if the file says so: those without key heads are.
fn recurrent_layers(
    file: &GgufFile,
    key: impl Fn(&str) -> String,
    fields: &mut Json,
) -> Result<Option<Vec<bool>>> {
    let mut recurrent = None;
    if fields["num_key_value_heads"].is_string()
        && let Some(heads) = file.list(&key("attention.head_count_kv"))?
    {
        let heads: Vec<u64> = heads.iter().filter_map(Value::as_u64).collect();
        fields["num_key_value_heads"] = heads.iter().max().copied().into();
        let without: Vec<bool> = heads.iter().map(|&heads| heads == 0).collect();
        recurrent = without.contains(&true).then_some(without);
    }
    let listed = file.list(&key("attention.recurrent_layers"))?;
    let listed = listed.map(|list| list.iter().map(|is| *is == Value::Bool(true)).collect());
    Ok(listed.or(recurrent))
}

/// How the rotary positions are scaled, from the metadata and the tensors of divisors. For latent
/// attention, YaRN's temperature is in the scale of its scores and not here.
fn rope_scaling(file: &GgufFile, key: impl Fn(&str) -> String, latent: bool) -> Result<Json> {
    let value = |name: &str| file.value(&key(&format!("rope.{name}"))).map(Value::json);
    if let Some(factors) = divisors(file, ROPE_FACTORS)? {
        return Ok(json!({"rope_type": "factors", "factors": factors}));
    }
    if let Some(alpha) = value("scaling.alpha").filter(|alpha| alpha.as_f64() > Some(0.0)) {
        return Ok(json!({"rope_type": "dynamic", "alpha": alpha}));
    }
    let original = value("scaling.original_context_length");
    if let (Some(long), Some(short)) =
        (divisors(file, ROPE_FACTORS_LONG)?, divisors(file, ROPE_FACTORS_SHORT)?)
    {
        return Ok(json!({
            "rope_type": "longrope",
            "long_factor": long,
            "short_factor": short,
            "original_max_position_embeddings": original.unwrap_or(4096.into()),
            "attention_factor": value("scaling.attn_factor").unwrap_or(1.0.into()),
        }));
    }
    let factor = value("scaling.factor").or_else(|| value("scale_linear"));
    let scales = |factor: &Json| !matches!(factor.as_f64(), Some(0.0 | 1.0));
    let kind = file.text(&key("rope.scaling.type"))?.unwrap_or("linear");
    let Some(factor) = factor.filter(|factor| kind != "none" && scales(factor)) else {
        return Ok(Json::Null);
    };
    Ok(json!({
        "rope_type": kind,
        "factor": factor,
        "original_max_position_embeddings": original,
        "attention_factor": latent.then_some(1.0),
        "yarn_log_multiplier": value("scaling.yarn_log_multiplier"),
    }))
}

fn divisors(file: &GgufFile, name: &str) -> Result<Option<Vec<f32>>> {
    let Some(entry) = file.tensors.get(name) else { return Ok(None) };
    if entry.format != Format::F32 {
        let problem = format!("it is {} instead of F32", entry.format);
        let place = format!("tensor `{name}`");
        return Err(LibraryError::damaged(file.name(), place, problem));
    }
    let words = file.bytes(entry).as_chunks().0;
    Ok(Some(words.iter().map(|&word| f32::from_le_bytes(word)).collect()))
}

fn rows(file: &GgufFile, tensor: &str) -> Result<usize> {
    let missing = || LibraryError::damaged(file.name(), format!("tensor `{tensor}`"), "missing");
    file.tensors.get(tensor).and_then(|entry| entry.shape.first()).copied().ok_or_else(missing)
}
