//! The names that families give their tensors in safetensors files, if they differ from what the
//! model requests. Fused tensors are split here, so that the model does not deal with fusion. It
//! must never read weights.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

use super::mxfp4::{self, ExpertPart};
use super::safetensors::{Tensors, rows_in};
use super::transposed::transposed;
use crate::kernels::{Format, StateKind};
use crate::model::head::MTP;
use crate::model::{Config, MULTIPLIERS, RawTensor, WeightSource, weights};

/// A checkpoint's tensors by the names that the model requests.
#[derive(Debug)]
pub(super) struct NamedTensors {
    tensors: Tensors,
    family: String,
    config: Config,
    /// Those of [`MULTIPLIERS`].
    multipliers: Vec<f32>,
}

/// The parts of names that a family spells in its own way: as the model requests them, and as the
/// files have them. They are replaced one after the other.
fn renamed(family: &str) -> &'static [(&'static str, &'static str)] {
    match family {
        "gemma2" | "gemma3" | "gemma3_text" | "gemma4" | "gemma4_text" => &[
            ("post_attention_layernorm", "pre_feedforward_layernorm"),
            (weights::ATTENTION_OUT_NORM, "post_attention_layernorm"),
            (weights::MLP_OUT_NORM, "post_feedforward_layernorm"),
            // Gemma 4's alone has experts.
            (".mlp.gate.", ".router.proj."),
        ],
        "mimo_v2_flash" => &[("self_attn.sinks", "self_attn.attention_sink_bias")],
        "olmo2" | "exaone4" => &[
            (weights::ATTENTION_OUT_NORM, "post_attention_layernorm"),
            (weights::MLP_OUT_NORM, "post_feedforward_layernorm"),
        ],
        "glm4" => &[
            (weights::ATTENTION_OUT_NORM, "post_self_attn_layernorm"),
            (weights::MLP_OUT_NORM, "post_mlp_layernorm"),
        ],
        "internlm2" => &[
            ("model.embed_tokens", "model.tok_embeddings"),
            ("post_attention_layernorm", "ffn_norm"),
            ("input_layernorm", "attention_norm"),
            ("self_attn.o_proj", "attention.wo"),
            ("mlp.gate_proj", "feed_forward.w1"),
            ("mlp.down_proj", "feed_forward.w2"),
            ("mlp.up_proj", "feed_forward.w3"),
            ("lm_head", "output"),
        ],
        "phi" => &[
            ("self_attn.o_proj", "self_attn.dense"),
            ("mlp.up_proj", "mlp.fc1"),
            ("mlp.down_proj", "mlp.fc2"),
            ("model.norm", "model.final_layernorm"),
        ],
        "hunyuan_v1_dense" => &[("q_norm", "query_layernorm"), ("k_norm", "key_layernorm")],
        "ernie4_5_moe" => &[(".mlp.gate.e_score", ".mlp.moe_statics.e_score")],
        "starcoder2" => &[("mlp.up_proj", "mlp.c_fc"), ("mlp.down_proj", "mlp.c_proj")],
        "gpt_oss" => &[(".mlp.gate.", ".mlp.router.")],
        "mixtral" => &[
            (".mlp.", ".block_sparse_moe."),
            ("gate_proj", "w1"),
            ("down_proj", "w2"),
            ("up_proj", "w3"),
        ],
        "lfm2" | "lfm2_moe" => &[
            (".mlp.", ".feed_forward."),
            ("gate_proj", "w1"),
            ("down_proj", "w2"),
            ("up_proj", "w3"),
            ("gate.e_score_correction_bias", "expert_bias"),
            ("self_attn.o_proj", "self_attn.out_proj"),
            ("self_attn.q_norm", "self_attn.q_layernorm"),
            ("self_attn.k_norm", "self_attn.k_layernorm"),
            ("input_layernorm", "operator_norm"),
            ("post_attention_layernorm", "ffn_norm"),
            ("model.norm", "model.embedding_norm"),
        ],
        "falcon_h1" => &[
            (".mlp.", ".feed_forward."),
            ("post_attention_layernorm", "pre_ff_layernorm"),
            ("model.norm", "model.final_layernorm"),
        ],
        "granitemoehybrid" => &[
            ("mlp.shared_experts.down_proj", "shared_mlp.output_linear"),
            ("mlp.down_proj", "shared_mlp.output_linear"),
            (".mlp.gate.", ".block_sparse_moe.router.layer."),
        ],
        "mamba2" | "nemotron_h" => &[
            ("model.", "backbone."),
            ("backbone.embed_tokens", "backbone.embeddings"),
            ("backbone.norm", "backbone.norm_f"),
            ("input_layernorm", "norm"),
            (".mamba.", ".mixer."),
            (".self_attn.", ".mixer."),
            (".mlp.latent_down", ".mixer.fc1_latent_proj"),
            (".mlp.latent_up", ".mixer.fc2_latent_proj"),
            (".mlp.", ".mixer."),
        ],
        _ if family.starts_with("qwen3_") => &[(".mlp.shared_experts.", ".mlp.shared_expert.")],
        _ => &[],
    }
}

/// Where a tensor is.
struct TensorPlace {
    /// The name in the file.
    name: String,
    /// Its rows of a fused tensor; none for a whole tensor.
    rows: Vec<Range<usize>>,
    /// Whether the model requests it transposed.
    transposed: bool,
}

/// The parts of an MTP head as we request them, and as families that store it as one more layer
/// have them.
const FURTHER_LAYER: [(&str, &str); 7] = [
    ("layers.0", ""),
    ("fc", ".eh_proj"),
    ("pre_fc_norm_embedding", ".enorm"),
    ("pre_fc_norm_hidden", ".hnorm"),
    ("norm", ".shared_head.norm"),
    ("embed_tokens", ".embed_tokens"),
    ("lm_head", ".shared_head.head"),
];

impl NamedTensors {
    /// `settings` is the checkpoint's `config.json`.
    pub(super) fn new(tensors: Tensors, settings: &Value, config: &Config) -> Self {
        let family = settings["model_type"].as_str().unwrap_or_default().to_owned();
        let number = |pointer: &&str| settings.pointer(pointer).and_then(Value::as_f64);
        let product = |(_, pointers): &(_, &[&str])| {
            pointers.iter().filter_map(number).product::<f64>() as f32
        };
        let multipliers = MULTIPLIERS.iter().map(product).collect();
        Self { tensors, family, config: config.clone(), multipliers }
    }

    /// The rows of `kv_b_proj` that hold a head's keys, transposed as the model requests, or its
    /// values.
    fn latent(&self, name: &str) -> Option<TensorPlace> {
        let latent = self.config.block.latent.as_ref()?;
        let (layer, part) = name.strip_suffix(".weight")?.split_once(".self_attn.")?;
        let (part, head) = part.split_once('.')?;
        let head = head.parse::<usize>().ok()?;
        let at = head.checked_mul(latent.nope_dim + latent.value_dim)?;
        let values = at + latent.nope_dim;
        let rows = match part {
            "k_b" => at..values,
            "v_b" => values..values + latent.value_dim,
            _ => return None,
        };
        let name = format!("{layer}.self_attn.kv_b_proj.weight");
        Some(TensorPlace { name, rows: vec![rows], transposed: part == "k_b" })
    }

    /// The rows of a tensor that the family stores fused with others.
    fn fused(&self, name: &str) -> Option<TensorPlace> {
        let Config { heads, kv_heads, head_dim, intermediate, .. } = self.config;
        let [q, kv] = [self.config.q_width(), self.config.kv_width()];
        // InternLM2 has the query heads of a key head, then that key head and its value head.
        let shared = heads / kv_heads * head_dim;
        let experts = self.config.block.experts.as_ref();
        let width = experts.map_or(intermediate, |experts| experts.shared_intermediate);
        // The name of each part, the name of what it is fused into, how many runs of rows that has,
        // and the place and length of the part in each.
        let parts: &[(&str, &str, usize, usize, usize)] = match self.family.as_str() {
            "phi3" | "glm4" if name.contains("mlp.") => &[
                ("mlp.gate_proj", "mlp.gate_up_proj", 1, 0, intermediate),
                ("mlp.up_proj", "mlp.gate_up_proj", 1, intermediate, intermediate),
            ],
            "phi3" => &[
                ("self_attn.q_proj", "self_attn.qkv_proj", 1, 0, q),
                ("self_attn.k_proj", "self_attn.qkv_proj", 1, q, kv),
                ("self_attn.v_proj", "self_attn.qkv_proj", 1, q + kv, kv),
            ],
            "internlm2" => &[
                ("self_attn.q_proj", "attention.wqkv", kv_heads, 0, shared),
                ("self_attn.k_proj", "attention.wqkv", kv_heads, shared, head_dim),
                ("self_attn.v_proj", "attention.wqkv", kv_heads, shared + head_dim, head_dim),
            ],
            "granitemoehybrid" => &[
                ("mlp.shared_experts.gate_proj", "shared_mlp.input_linear", 1, 0, width),
                ("mlp.shared_experts.up_proj", "shared_mlp.input_linear", 1, width, width),
                ("mlp.gate_proj", "shared_mlp.input_linear", 1, 0, width),
                ("mlp.up_proj", "shared_mlp.input_linear", 1, width, width),
            ],
            _ => return None,
        };
        let &(part, fused, runs, at, width) =
            parts.iter().find(|(part, ..)| name.contains(part))?;
        let stride = (q + 2 * kv) / kv_heads;
        let rows = (0..runs).map(|run| run * stride + at..run * stride + at + width).collect();
        Some(TensorPlace { name: name.replacen(part, fused, 1), rows, transposed: false })
    }

    /// The rows of an expert in a tensor of all experts, `[E, rows, columns]` (Gemma 4,
    /// Qwen3.5-MoE, Granite 4.0).
    fn fused_expert(&self, name: &str) -> Option<TensorPlace> {
        let experts = self.config.block.experts.as_ref()?;
        let (layer, expert, part) = expert_part(name)?;
        let width = experts.intermediate;
        let (fused, stride, at, rows) = match part {
            "gate_proj.weight" => ("gate_up_proj", 2 * width, 0, width),
            "up_proj.weight" => ("gate_up_proj", 2 * width, width, width),
            "down_proj.weight" => ("down_proj", self.config.hidden, 0, self.config.hidden),
            _ => return None,
        };
        let first = expert.checked_mul(stride)? + at;
        let rows = std::iter::once(first..first + rows).collect();
        let name = match (self.family.as_str(), fused) {
            ("granitemoehybrid", "down_proj") => {
                format!("{layer}.block_sparse_moe.output_linear.weight")
            }
            ("granitemoehybrid", _) => format!("{layer}.block_sparse_moe.input_linear.weight"),
            _ if experts.beside_mlp => format!("{layer}.experts.{fused}"),
            _ => format!("{layer}.mlp.experts.{fused}"),
        };
        let found = self.tensors.has(&self.spelled(name.clone()));
        found.then_some(TensorPlace { name, rows, transposed: false })
    }

    /// The rows of a recurrent layer's part that its family stores fused with others.
    fn recurrent(&self, name: &str) -> Option<TensorPlace> {
        let shape = self.config.block.recurrent.as_ref()?.shape;
        let (layer, part) = name.strip_suffix(".weight")?.rsplit_once(".in_proj")?;
        if let Some(part) = part.strip_prefix('.') {
            let [channels, outputs] = [shape.channels, shape.outputs()];
            let rows = match (shape.kind, part) {
                (StateKind::Mamba2, "z") => 0..outputs,
                (StateKind::Mamba2, "x") => outputs..outputs + channels,
                (StateKind::Mamba2, "dt") => outputs + channels..outputs + channels + shape.heads,
                (StateKind::Delta, "b") => 0..channels,
                (StateKind::Delta, "c") => channels..2 * channels,
                (StateKind::Delta, "x") => 2 * channels..3 * channels,
                _ => return None,
            };
            let name = format!("{layer}.in_proj.weight");
            return Some(TensorPlace { name, rows: vec![rows], transposed: false });
        }
        // Each key head has its queries, its keys, its value heads and their gates.
        let kinds = match part {
            "_qkv" => 0..3,
            "_z" => 3..4,
            _ => return None,
        };
        if self.family != "qwen3_next" {
            return None;
        }
        let values = shape.heads / shape.key_heads * shape.value;
        let starts = [0, shape.key, 2 * shape.key, 2 * shape.key + values];
        let ends = [starts[1], starts[2], starts[3], starts[3] + values];
        let run =
            |kind: usize, head: usize| head * ends[3] + starts[kind]..head * ends[3] + ends[kind];
        let rows = kinds.flat_map(|kind| (0..shape.key_heads).map(move |head| run(kind, head)));
        let name = format!("{layer}.in_proj_qkvz.weight");
        Some(TensorPlace { name, rows: rows.collect(), transposed: false })
    }

    /// The name of a part of an MTP head if the family stores it as one more layer.
    fn of_further_layer(&self, name: &str) -> Option<String> {
        if self.family != "glm4_moe" {
            return None;
        }
        let part = name.strip_prefix(MTP)?;
        let row = FURTHER_LAYER.iter().find(|(asked, _)| part.starts_with(asked));
        let (asked, stored) = row?;
        Some(format!("model.layers.{}{stored}{}", self.config.layers, &part[asked.len()..]))
    }

    fn stored(&self, name: &str) -> TensorPlace {
        let further = self.of_further_layer(name);
        let name = further.as_deref().unwrap_or(name);
        let whole = || TensorPlace { name: name.to_owned(), rows: Vec::new(), transposed: false };
        let fused = || self.fused(name).or_else(|| self.fused_expert(name));
        let apart = || self.latent(name).or_else(|| self.recurrent(name));
        let mut place = apart().or_else(fused).unwrap_or_else(whole);
        for (asked, stored) in renamed(&self.family) {
            place.name = place.name.replacen(asked, stored, 1);
        }
        place
    }

    /// By how much Falcon-H1 multiplies the weights of a part.
    fn multiplier(&self, name: &str) -> f32 {
        let parts = MULTIPLIERS.iter().zip(&self.multipliers);
        let mut of_name = parts.filter(|((part, _), _)| name.contains(part));
        of_name.next().map_or(1.0, |(_, &factor)| factor)
    }

    /// The convolution of Falcon-H1, whose channels have different multipliers.
    fn multiplied(&self, name: &str, kernel: RawTensor<'_>) -> Option<RawTensor<'static>> {
        let shape = self.config.block.recurrent.as_ref()?.shape;
        let ends = [shape.outputs(), shape.outputs() + shape.key_heads * shape.key];
        let factors = ["x", "B", "C"].map(|part| self.multiplier(&name.replace("weight", part)));
        let mut values = kernel.values()?;
        let taps = values.len() / rows_in(&kernel.shape).max(1);
        for (row, taps) in values.chunks_mut(taps.max(1)).enumerate() {
            let factor = factors[ends.iter().filter(|&&end| row >= end).count()];
            taps.iter_mut().for_each(|x| *x *= factor);
        }
        let bytes = values.into_iter().flat_map(f32::to_le_bytes).collect();
        Some(RawTensor { format: Format::F32, shape: kernel.shape, bytes })
    }

    /// An expert's part in a gpt-oss checkpoint, which holds those of all experts in one tensor.
    fn expert(&self, name: &str) -> Option<ExpertPart> {
        (self.family == "gpt_oss").then(|| ExpertPart::named(name)).flatten()
    }

    /// StableLM's norms of q or k, which it stores head by head; `None` for other tensors.
    fn norms_of_heads(&self, name: &str) -> Option<Option<RawTensor<'_>>> {
        if self.family != "stablelm" {
            return None;
        }
        let (layer, part) = name.split_once(".self_attn.")?;
        let (part, heads) = match part {
            "q_norm.weight" => ("q", self.config.heads),
            "k_norm.weight" => ("k", self.config.kv_heads),
            _ => return None,
        };
        let head = |head| {
            let name = format!("{layer}.self_attn.{part}_layernorm.norms.{head}.weight");
            self.tensors.tensor(&name)
        };
        let all: Option<Vec<_>> = (0..heads).map(head).collect();
        Some(all.and_then(|all| {
            let shape = [&[heads], &all.first()?.shape[..]].concat();
            let bytes = all.iter().flat_map(|head| head.bytes.to_vec()).collect();
            Some(RawTensor { format: all.first()?.format, shape, bytes })
        }))
    }

    /// The name in the file: models that also take images have a prefix for their text model.
    fn spelled(&self, name: String) -> String {
        let inner = name.strip_prefix("model.").unwrap_or(&name);
        let inner = format!("model.language_model.{inner}");
        match () {
            _ if self.tensors.has(&name) => name,
            _ if self.tensors.has(&inner) => inner,
            _ => format!("language_model.{name}"),
        }
    }
}

impl WeightSource for NamedTensors {
    fn describe(&self) -> String {
        self.tensors.describe()
    }

    fn tensor(&self, name: &str) -> Option<RawTensor<'_>> {
        if let Some(part) = self.expert(name) {
            return mxfp4::tensor(&self.tensors, &part);
        }
        if let Some(all) = self.norms_of_heads(name) {
            return all;
        }
        let stored = self.stored(name);
        let mut tensor = self.tensors.tensor(&self.spelled(stored.name))?;
        if !stored.rows.is_empty() {
            tensor = rows_of(tensor, &stored.rows)?;
        }
        if name.ends_with("e_score_correction_bias") {
            // ERNIE's is a matrix of one row.
            tensor.shape = vec![tensor.shape.iter().product()];
        }
        if tensor.shape.len() == 3 && name.contains("conv") {
            // The convolution is of one channel each.
            tensor.shape.remove(1);
        }
        if self.family == "falcon_h1" && name.ends_with("conv1d.weight") {
            tensor = self.multiplied(name, tensor)?;
        }
        if stored.transposed { transposed(&tensor) } else { Some(tensor) }
    }

    fn scale(&self, name: &str) -> f32 {
        if self.family == "falcon_h1" {
            return self.multiplier(name);
        }
        // Gemma 4's factors of what its experts compute.
        let expert = expert_part(name).filter(|(_, _, part)| *part == "down_proj.weight");
        let scales = expert.and_then(|(layer, expert, _)| {
            let name = self.spelled(format!("{layer}.router.per_expert_scale"));
            self.tensors.tensor(&name)?.values()?.get(expert).copied()
        });
        scales.unwrap_or(1.0)
    }

    fn release(&self, name: &str) {
        if let Some(part) = self.expert(name) {
            return mxfp4::release(&self.tensors, &part);
        }
        let stored = self.stored(name);
        let name = self.spelled(stored.name);
        if stored.rows.is_empty() {
            self.tensors.release_rows(&name, None);
        }
        for rows in stored.rows {
            self.tensors.release_rows(&name, Some(rows));
        }
    }

    fn identity(&self) -> Option<String> {
        self.tensors.identity()
    }
}

/// Layer, number and part of an expert's matrix.
pub(super) fn expert_part(name: &str) -> Option<(&str, usize, &str)> {
    let (layer, expert) = name.split_once(".mlp.experts.")?;
    let (expert, part) = expert.split_once('.')?;
    Some((layer, expert.parse().ok()?, part))
}

/// Some runs of rows of a tensor; the unchanged tensor if it has fewer rows, which the model then
/// refuses by its shape.
fn rows_of<'a>(tensor: RawTensor<'a>, rows: &[Range<usize>]) -> Option<RawTensor<'a>> {
    let total = rows_in(&tensor.shape);
    if total == 0 || rows.iter().any(|rows| rows.end > total) {
        return Some(tensor);
    }
    let row = tensor.bytes.len() / total;
    let mut shape = vec![rows.iter().map(Range::len).sum()];
    shape.extend(tensor.shape.get(1..).and_then(<[usize]>::last));
    let bytes = match (tensor.bytes, rows) {
        (Cow::Borrowed(bytes), [rows]) => {
            Cow::Borrowed(bytes.get(rows.start * row..rows.end * row)?)
        }
        (bytes, rows) => {
            let runs = rows.iter().map(|rows| bytes.get(rows.start * row..rows.end * row));
            Cow::Owned(runs.collect::<Option<Vec<_>>>()?.concat())
        }
    };
    Some(RawTensor { format: tensor.format, shape, bytes })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::library::folder::Folder;
    use crate::model::config_for_tests;
    use safetensors::tensor::{Dtype, TensorView, serialize};
    use serde_json::json;

    /// How many bytes of this file's mapping are in memory; `None` if the system does not say.
    fn resident(file: &Path) -> Option<usize> {
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let of_file = maps.split_once(file.to_str()?)?.1;
        let line = of_file.lines().find(|line| line.starts_with("Rss:"))?;
        Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? << 10)
    }

    #[test]
    fn what_was_packed_is_let_go_under_whatever_name_the_file_has_it() {
        const COLUMNS: usize = 1 << 14;
        let layer = "model.layers.0.self_attn";
        // The test configuration: q 32 rows, k and v 16.
        let cases = [
            ("llama", format!("language_model.{layer}.q_proj.weight"), 32),
            ("phi3", format!("{layer}.qkv_proj.weight"), 64),
        ];
        for (family, stored, rows) in cases {
            let bytes = vec![1u8; 4 * rows * COLUMNS];
            let tensor = TensorView::new(Dtype::F32, vec![rows, COLUMNS], &bytes).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("model.safetensors");
            std::fs::write(&path, serialize([(stored, tensor)], None).unwrap()).unwrap();
            let tensors = Tensors::open(&Folder::Disk(folder.path().to_owned())).unwrap().unwrap();
            let named =
                NamedTensors::new(tensors, &json!({"model_type": family}), &config_for_tests());
            let parts = if family == "phi3" { &["q", "k", "v"][..] } else { &["q"] };
            let names: Vec<String> =
                parts.iter().map(|part| format!("{layer}.{part}_proj.weight")).collect();
            for name in &names {
                let sum: u64 =
                    named.tensor(name).unwrap().bytes.iter().map(|&b| u64::from(b)).sum();
                assert!(sum > 0);
            }
            let before = resident(&path);
            if before.is_none() && !cfg!(target_os = "linux") {
                return;
            }
            let before = before.unwrap();
            assert!(before >= bytes.len(), "{family}: {before}");
            for name in &names {
                named.release(name);
            }
            // The header's page may stay.
            let after = resident(&path).unwrap();
            assert!(after <= 16 << 10, "{family}: {after}");
        }
    }
}
