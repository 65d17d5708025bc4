//! GGUF's tensor names and the names that the model requests, which are Hugging Face's where
//! families agree. Fused tensors are split here, so that the model does not deal with fusion.

use super::config::{ROPE_FACTORS, ROPE_FACTORS_LONG, ROPE_FACTORS_SHORT};
use super::file::TensorEntry;
use crate::kernels::RecurrentShape;
use crate::model::head::MtpConfig;
use crate::model::{Config, Family, weights};

/// The factors of what a router reads; the name is like that of a scale of its weights.
pub(super) const ROUTER_SCALE: &str = "ffn_gate_inp.scale";

/// Tensors that are not used in the model's products: they are read elsewhere, or not needed.
pub(super) fn is_aside(name: &str, config: &Config) -> bool {
    let block = name.strip_prefix("blk.").and_then(|name| name.split_once('.'));
    if block.and_then(|(block, _)| block.parse().ok()).is_some_and(|b: usize| b >= config.layers) {
        return true;
    }
    // NVFP4's scales of activations are for engines that hold activations in FP4 too.
    let aside = ["attn_rot_embd.weight", ".input_scale"];
    [ROPE_FACTORS, ROPE_FACTORS_LONG, ROPE_FACTORS_SHORT]
        .into_iter()
        .chain(aside)
        .any(|aside| name.ends_with(aside))
}

/// The model's name for a tensor of the file, or the parts into which it is split; `None` if no
/// model of the family has it or its shape cannot be split.
pub(super) fn canonical(
    name: &str,
    entry: &TensorEntry,
    family: Family,
    config: &Config,
) -> Option<Vec<Named>> {
    let whole = |name: String| Some(vec![(name, entry.clone())]);
    match name {
        "token_embd.weight" => return whole(weights::EMBEDDING.to_owned()),
        "output.weight" => return whole(weights::HEAD.to_owned()),
        "output.bias" => return whole(weights::HEAD_BIAS.to_owned()),
        "per_layer_token_embd.weight" => return whole(weights::PER_LAYER_EMBEDDING.to_owned()),
        "per_layer_model_proj.weight" => return whole(weights::PER_LAYER_PROJECTION.to_owned()),
        "per_layer_proj_norm.weight" => {
            return whole(format!("{}.weight", weights::PER_LAYER_NORM));
        }
        // LFM2's final norm, in spite of its name.
        "token_embd_norm.weight" => return whole(format!("{}.weight", weights::NORM)),
        _ => {}
    }
    if let Some(kind) = name.strip_prefix("output_norm.") {
        return kind_of(kind).and_then(|kind| whole(format!("{}.{kind}", weights::NORM)));
    }
    let (layer, part) = name.strip_prefix("blk.")?.split_once('.')?;
    let layer: usize = layer.parse().ok()?;
    let layered = |part: &str| weights::layer_name(layer, part);
    match part {
        "attn_sinks.weight" => return whole(layered("self_attn.sinks")),
        "layer_output_scale.weight" => return whole(layered("layer_scalar")),
        ROUTER_SCALE => return whole(layered("router.scale")),
        "exp_probs_b.bias" => return whole(layered("mlp.gate.e_score_correction_bias")),
        // Falcon-H1's has no `.weight`.
        "ffn_norm" => return whole(layered("post_attention_layernorm.weight")),
        _ => {}
    }
    if let Some(recurrent) = config.block.recurrent_of(layer)
        && let Some(name) = of_recurrent(part)
    {
        let name = layered(&format!("{}.{name}", recurrent.part()));
        let RecurrentShape { channels, heads, .. } = recurrent.shape;
        let parts = match part {
            "shortconv.in_proj.weight" => Some([("b", channels), ("c", channels), ("x", channels)]),
            "ssm_in.weight" => {
                Some([("z", recurrent.shape.outputs()), ("x", channels), ("dt", heads)])
            }
            _ => None,
        };
        if let Some(parts) = parts {
            return split(entry, &parts, |part| {
                name.replace("in_proj", &format!("in_proj.{part}"))
            });
        }
        // Mamba-2's vectors have rows for each head or group.
        let mut entry = entry.clone();
        if matches!(part, "ssm_a" | "ssm_d" | "ssm_norm.weight") {
            entry.shape = vec![entry.shape.iter().product()];
        }
        return Some(vec![(name, entry)]);
    }
    if part == "ffn_gate_inp_shexp.weight" {
        let mut row = entry.clone();
        row.shape.insert(0, 1);
        return Some(vec![(layered("mlp.shared_expert_gate.weight"), row)]);
    }
    let (part, kind) = part.rsplit_once('.')?;
    let kind = kind_of(kind)?;
    if let Some(part) = simple(part, family) {
        // Fused gate and up: gate comes first.
        let fuses = family == Family::Phi3 || family == Family::Glm4;
        if part == "mlp.up_proj" && fuses && entry.shape.first() == Some(&(2 * config.intermediate))
        {
            let widths = [("gate", config.intermediate), ("up", config.intermediate)];
            return split(entry, &widths, |part| layered(&format!("mlp.{part}_proj.{kind}")));
        }
        return whole(layered(&format!("{part}.{kind}")));
    }
    if part == "attn_qkv" {
        let kv = config.kv_shape(layer);
        let q = config.heads * kv.key_dim;
        let widths = [("q", q), ("k", kv.keys()), ("v", kv.values())];
        return split(entry, &widths, |part| layered(&format!("self_attn.{part}_proj.{kind}")));
    }
    if part == "ffn_gate_up_exps" {
        let width = config.block.experts.as_ref()?.intermediate;
        let parts = entry.parts().enumerate().map(|(i, entry)| {
            let widths = [("gate", width), ("up", width)];
            split(&entry, &widths, |part| layered(&format!("mlp.experts.{i}.{part}_proj.{kind}")))
        });
        return Some(parts.collect::<Option<Vec<_>>>()?.concat());
    }
    // One tensor for all experts, or for all heads.
    let (before, after) = match part {
        "ffn_gate_exps" => ("mlp.experts", ".gate_proj"),
        "ffn_up_exps" => ("mlp.experts", ".up_proj"),
        "ffn_down_exps" => ("mlp.experts", ".down_proj"),
        "attn_k_b" => ("self_attn.k_b", ""),
        "attn_v_b" => ("self_attn.v_b", ""),
        // Older files have a tensor for each expert: `ffn_gate.7.weight`.
        _ => {
            let (part, expert) = part.split_once('.')?;
            let expert: usize = expert.parse().ok()?;
            let part =
                part.strip_prefix("ffn_").filter(|p| matches!(*p, "gate" | "up" | "down"))?;
            return whole(layered(&format!("mlp.experts.{expert}.{part}_proj.{kind}")));
        }
    };
    let named = |(i, entry)| (layered(&format!("{before}.{i}{after}.{kind}")), entry);
    Some(entry.parts().enumerate().map(named).collect())
}

/// The number of a block after the model's `layers`, and a tensor's name in it.
pub(super) fn after(name: &str, layers: usize) -> Option<(usize, &str)> {
    let (block, part) = name.strip_prefix("blk.")?.split_once('.')?;
    Some((block.parse::<usize>().ok()?.checked_sub(layers)?, part))
}

/// The model's names for a tensor of a block after those of the model, an MTP head; `None` as in
/// [`canonical`]. `block` is the head's.
pub(super) fn of_mtp(
    number: usize,
    part: &str,
    entry: &TensorEntry,
    family: Family,
    block: &Config,
) -> Option<Vec<Named>> {
    let prefix = MtpConfig::prefix(number);
    let own = match part {
        "nextn.eh_proj.weight" => "fc.weight",
        "nextn.enorm.weight" => "pre_fc_norm_embedding.weight",
        "nextn.hnorm.weight" => "pre_fc_norm_hidden.weight",
        "nextn.shared_head_norm.weight" => "norm.weight",
        "nextn.embed_tokens.weight" => "embed_tokens.weight",
        "nextn.shared_head_head.weight" => "lm_head.weight",
        _ => {
            let named = canonical(&format!("blk.0.{part}"), entry, family, block)?.into_iter();
            return Some(
                named.map(|(name, entry)| (name.replacen("model.", &prefix, 1), entry)).collect(),
            );
        }
    };
    Some(vec![(format!("{prefix}{own}"), entry.clone())])
}

/// A matrix of the model: its name and where its rows are in the file.
pub(super) type Named = (String, TensorEntry);

/// The parts of DeepSeek's `kv_b_proj`, which files from before 2025 store as one tensor: for every
/// head the rows of its keys, which the model requests transposed, then those of its values. `None`
/// for other tensors and other shapes.
pub(super) fn latent_parts(
    name: &str,
    entry: &TensorEntry,
    config: &Config,
) -> Option<(Vec<Named>, Vec<Named>)> {
    let layer = name.strip_prefix("blk.")?.strip_suffix(".attn_kv_b.weight")?.parse().ok()?;
    let latent = config.block.latent.as_ref()?;
    let nope = latent.nope_dim;
    let head = latent.nope_dim.checked_add(latent.value_dim)?;
    if entry.shape != [config.heads.checked_mul(head)?, latent.kv_rank] {
        return None;
    }
    let part = |part: &str, i: usize, rows| {
        let name = weights::layer_name(layer, &format!("self_attn.{part}.{i}.weight"));
        Some((name, entry.rows(rows)?))
    };
    let heads = 0..config.heads;
    let keys = heads.clone().map(|i| part("k_b", i, i * head..i * head + nope));
    let values = heads.map(|i| part("v_b", i, i * head + nope..(i + 1) * head));
    Some((keys.collect::<Option<_>>()?, values.collect::<Option<_>>()?))
}

/// The name of a recurrent layer's tensor, after the layer's own.
fn of_recurrent(part: &str) -> Option<&'static str> {
    Some(match part {
        "attn_qkv.weight" => "in_proj_qkv.weight",
        "attn_gate.weight" => "in_proj_z.weight",
        "ssm_beta.weight" => "in_proj_b.weight",
        "ssm_alpha.weight" => "in_proj_a.weight",
        "ssm_ba.weight" => "in_proj_ba.weight",
        "ssm_in.weight" => "in_proj.weight",
        "ssm_conv1d.bias" => "conv1d.bias",
        "ssm_d" => "D",
        "ssm_conv1d.weight" => "conv1d.weight",
        "ssm_dt.bias" => "dt_bias",
        "ssm_a" => "A_log",
        "ssm_norm.weight" => "norm.weight",
        "ssm_out.weight" | "shortconv.out_proj.weight" => "out_proj.weight",
        "shortconv.in_proj.weight" => "in_proj.weight",
        "shortconv.conv.weight" => "conv.weight",
        _ => return None,
    })
}

fn kind_of(kind: &str) -> Option<&str> {
    matches!(kind, "weight" | "bias").then_some(kind)
}

/// Parts that are translated whole, with their weight or bias.
fn simple(part: &str, family: Family) -> Option<&'static str> {
    Some(match part {
        "attn_norm" => "input_layernorm",
        "ffn_norm" => "post_attention_layernorm",
        // Of some it is the norm of the MLP's input, of others that of attention's output.
        "post_attention_norm"
            if matches!(family, Family::GptOss | Family::Glm4Moe | Family::SeedOss)
                || family.is_gated_delta() =>
        {
            "post_attention_layernorm"
        }
        "post_attention_norm" => weights::ATTENTION_OUT_NORM,
        "post_ffw_norm" => weights::MLP_OUT_NORM,
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "attn_sub_norm" => weights::ATTENTION_INNER_NORM,
        "ffn_sub_norm" => "mlp.ffn_sub_norm",
        "attn_q_norm" => "self_attn.q_norm",
        "attn_k_norm" => "self_attn.k_norm",
        "attn_q_a" => "self_attn.q_a_proj",
        "attn_q_a_norm" => "self_attn.q_a_layernorm",
        "attn_q_b" => "self_attn.q_b_proj",
        "attn_kv_a_mqa" => "self_attn.kv_a_proj_with_mqa",
        "attn_kv_a_norm" => "self_attn.kv_a_layernorm",
        "inp_gate" => "per_layer_input_gate",
        "proj" => "per_layer_projection",
        "post_norm" => "post_per_layer_input_norm",
        "pre_ffw_norm_2" => "pre_feedforward_layernorm_2",
        "post_ffw_norm_1" => "post_feedforward_layernorm_1",
        "post_ffw_norm_2" => "post_feedforward_layernorm_2",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
        "ffn_gate_inp" => "mlp.gate",
        "ffn_latent_down" => "mlp.latent_down",
        "ffn_latent_up" => "mlp.latent_up",
        "ffn_gate_shexp" => "mlp.shared_experts.gate_proj",
        "ffn_up_shexp" => "mlp.shared_experts.up_proj",
        "ffn_down_shexp" => "mlp.shared_experts.down_proj",
        _ => return None,
    })
}

/// The row ranges of a fused tensor, in order, each called `name` of its part; `None` if they do
/// not add up to it.
fn split(
    entry: &TensorEntry,
    widths: &[(&str, usize)],
    name: impl Fn(&str) -> String,
) -> Option<Vec<Named>> {
    let mut at = 0;
    let mut parts = Vec::new();
    // A fused bias is a vector: each of its numbers counts as a row.
    let is_bias = entry.shape.len() == 1;
    let mut matrix = entry.clone();
    if is_bias {
        matrix.shape.push(1);
    }
    for &(part, width) in widths {
        let mut rows = matrix.rows(at..at.checked_add(width)?)?;
        if is_bias {
            rows.shape.pop();
        }
        parts.push((name(part), rows));
        at += width;
    }
    (entry.shape.first() == Some(&at)).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Format;
    use crate::model::{ArchitectureRow, config_for_tests};

    fn entry(shape: &[usize]) -> TensorEntry {
        let bytes = shape.iter().product::<usize>() * 4;
        TensorEntry { format: Format::F32, shape: shape.to_vec(), file: 0, range: 100..100 + bytes }
    }

    fn translated(name: &str, shape: &[usize], family: &str) -> Option<Vec<(String, TensorEntry)>> {
        let family = ArchitectureRow::of_gguf(family, false).unwrap().family;
        canonical(name, &entry(shape), family, &config_for_tests())
    }

    #[test]
    fn what_no_model_of_the_family_has_is_not_translated() {
        for unknown in ["blk.x.attn_q.weight", "blk.0.ffn_glue.weight", "blk.0.attn_q", "x"] {
            assert_eq!(translated(unknown, &[3, 5], "llama"), None, "{unknown}");
        }
    }

    #[test]
    fn fused_tensors_are_taken_apart_by_rows() {
        // The test configuration: q 32, k and v 16 wide, an MLP of 24.
        let parts = translated("blk.0.attn_qkv.weight", &[64, 16], "phi3").unwrap();
        let ranges: Vec<_> = parts.iter().map(|(_, entry)| entry.range.clone()).collect();
        assert_eq!(ranges, [100..2148, 2148..3172, 3172..4196]);
        assert_eq!(parts[1].1.shape, [16, 16]);
        let bias = translated("blk.0.attn_qkv.bias", &[64], "phi3").unwrap();
        assert_eq!(bias[2].1.shape, [16]);
        let mlp = translated("blk.0.ffn_up.weight", &[48, 16], "phi3").unwrap();
        assert!(mlp[0].0.ends_with("mlp.gate_proj.weight") && mlp[0].1.range.start == 100);
        assert_eq!(translated("blk.0.attn_qkv.weight", &[63, 16], "phi3"), None);
    }
}
