//! The names that families give their tensors in safetensors files, if they differ from what the
//! model requests. Fused tensors are split here, so that the model does not deal with fusion. It
//! must never read weights.

use std::borrow::Cow;
use std::ops::Range;

use super::mxfp4::{self, ExpertPart};
use super::safetensors::Tensors;
use super::transposed::transposed;
use crate::model::{Config, RawTensor, WeightSource, weights};

/// A checkpoint's tensors by the names that the model requests.
#[derive(Debug)]
pub(super) struct NamedTensors {
    tensors: Tensors,
    family: String,
    config: Config,
}

/// The parts of names that a family spells in its own way: as the model requests them, and as the
/// files have them.
fn renamed(family: &str) -> &'static [(&'static str, &'static str)] {
    match family {
        "gemma2" | "gemma3" | "gemma3_text" => &[
            (weights::ATTENTION_OUT_NORM, "post_attention_layernorm"),
            (weights::MLP_OUT_NORM, "post_feedforward_layernorm"),
            ("post_attention_layernorm", "pre_feedforward_layernorm"),
        ],
        "olmo2" => &[
            (weights::ATTENTION_OUT_NORM, "post_attention_layernorm"),
            (weights::MLP_OUT_NORM, "post_feedforward_layernorm"),
        ],
        "starcoder2" => &[("mlp.up_proj", "mlp.c_fc"), ("mlp.down_proj", "mlp.c_proj")],
        "gpt_oss" => &[(".mlp.gate.", ".mlp.router.")],
        "mixtral" => &[("gate_proj", "w1"), ("down_proj", "w2"), ("up_proj", "w3")],
        "lfm2" | "lfm2_moe" => &[
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
    /// Its number in a tensor with all experts.
    expert: Option<usize>,
}

impl NamedTensors {
    /// `family` is the `model_type` in the checkpoint's `config.json`.
    pub(super) fn new(tensors: Tensors, family: &str, config: &Config) -> Self {
        Self { tensors, family: family.to_owned(), config: config.clone() }
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
        Some(TensorPlace { name, rows: vec![rows], transposed: part == "k_b", expert: None })
    }

    /// The rows of a recurrent layer's part that its family stores fused with others.
    fn recurrent(&self, name: &str) -> Option<TensorPlace> {
        let shape = self.config.block.recurrent.as_ref()?.shape;
        let (layer, part) = name.strip_suffix(".weight")?.rsplit_once(".in_proj")?;
        let parts = ["_qkv", "_z", ".b", ".c", ".x"];
        let part = parts.iter().position(|&known| known == part)?;
        let (name, rows) = if let Some(at) = part.checked_sub(2) {
            let width = shape.channels;
            ("in_proj", std::iter::once(at * width..(at + 1) * width).collect())
        } else {
            // Each key head has its queries, its keys, its value heads and their gates.
            if self.family != "qwen3_next" {
                return None;
            }
            let values = shape.heads / shape.key_heads * shape.value;
            let starts = [0, shape.key, 2 * shape.key, 2 * shape.key + values];
            let ends = [starts[1], starts[2], starts[3], starts[3] + values];
            let kinds = if part == 0 { 0..3 } else { 3..4 };
            let run = |kind: usize, head: usize| {
                head * ends[3] + starts[kind]..head * ends[3] + ends[kind]
            };
            let rows = kinds.flat_map(|kind| (0..shape.key_heads).map(move |head| run(kind, head)));
            ("in_proj_qkvz", rows.collect())
        };
        let name = format!("{layer}.{name}.weight");
        Some(TensorPlace { name, rows, transposed: false, expert: None })
    }

    /// The part of an expert where one tensor holds all experts (Qwen3.5-MoE).
    fn stacked(&self, name: &str) -> Option<TensorPlace> {
        let (layer, part) = name.split_once(".mlp.experts.")?;
        let (expert, part) = part.strip_suffix("_proj.weight")?.split_once('.')?;
        let width = self.config.block.experts.as_ref()?.intermediate;
        let (stored, rows) = match part {
            "gate" => ("gate_up_proj", Some(0..width)),
            "up" => ("gate_up_proj", Some(width..2 * width)),
            _ => ("down_proj", None),
        };
        let rows = rows.into_iter().collect();
        let name = format!("{layer}.mlp.experts.{stored}");
        let expert = Some(expert.parse().ok()?);
        let found = self.tensors.has(&self.spelled(name.clone()));
        found.then_some(TensorPlace { name, rows, transposed: false, expert })
    }

    fn stored(&self, name: &str) -> TensorPlace {
        let whole = |name| TensorPlace { name, rows: Vec::new(), transposed: false, expert: None };
        let apart = || self.latent(name).or_else(|| self.recurrent(name));
        if let Some(stored) = apart().or_else(|| self.stacked(name)) {
            return stored;
        }
        if self.family == "phi3" {
            let [q, k] = [self.config.q_width(), self.config.kv_width()];
            let (v, mlp) = (k, self.config.intermediate);
            for (part, fused, at, width) in [
                ("q_proj", "qkv_proj", 0, q),
                ("k_proj", "qkv_proj", q, k),
                ("v_proj", "qkv_proj", q + k, v),
                ("gate_proj", "gate_up_proj", 0, mlp),
                ("up_proj", "gate_up_proj", mlp, mlp),
            ] {
                if name.contains(part) {
                    let rows = std::iter::once(at..at + width).collect();
                    return TensorPlace { rows, ..whole(name.replacen(part, fused, 1)) };
                }
            }
        }
        let name = match self.family.as_str() {
            "mixtral" => name.replacen(".mlp.", ".block_sparse_moe.", 1),
            "lfm2" | "lfm2_moe" => name.replacen(".mlp.", ".feed_forward.", 1),
            _ => name.to_owned(),
        };
        match renamed(&self.family).iter().find(|(asked, _)| name.contains(asked)) {
            Some((asked, stored)) => whole(name.replacen(asked, stored, 1)),
            None => whole(name),
        }
    }

    /// An expert's part in a gpt-oss checkpoint, which holds those of all experts in one tensor.
    fn expert(&self, name: &str) -> Option<ExpertPart> {
        (self.family == "gpt_oss").then(|| ExpertPart::named(name)).flatten()
    }

    /// The name in the file: models that also take images have a prefix for their text model.
    fn spelled(&self, name: String) -> String {
        let inner = name.replacen("model.", "model.language_model.", 1);
        match self.tensors.has(&name) {
            true => name,
            false if self.tensors.has(&inner) => inner,
            false => format!("language_model.{name}"),
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
        let stored = self.stored(name);
        let mut tensor = self.tensors.tensor(&self.spelled(stored.name))?;
        if let Some(expert) = stored.expert {
            tensor = rows_of(tensor, std::slice::from_ref(&(expert..expert + 1)))?;
            tensor.shape.remove(0);
        }
        if !stored.rows.is_empty() {
            tensor = rows_of(tensor, &stored.rows)?;
        }
        if tensor.shape.len() == 3 && name.contains("conv") {
            // The convolution is of one channel each.
            tensor.shape.remove(1);
        }
        if stored.transposed { transposed(&tensor) } else { Some(tensor) }
    }

    fn release(&self, name: &str) {
        if let Some(part) = self.expert(name) {
            return mxfp4::release(&self.tensors, &part);
        }
        let stored = self.stored(name);
        let name = self.spelled(stored.name);
        if let Some(expert) = stored.expert {
            return self.tensors.release_rows(&name, Some(expert..expert + 1));
        }
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

/// Some runs of rows of a tensor; the unchanged tensor if it has fewer rows, which the model then
/// refuses by its shape.
fn rows_of<'a>(tensor: RawTensor<'a>, rows: &[Range<usize>]) -> Option<RawTensor<'a>> {
    let total = *tensor.shape.first()?;
    if total == 0 || rows.iter().any(|rows| rows.end > total) {
        return Some(tensor);
    }
    let row = tensor.bytes.len() / total;
    let mut shape = tensor.shape.clone();
    shape[0] = rows.iter().map(Range::len).sum();
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
            let named = NamedTensors::new(tensors, family, &config_for_tests());
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
