//! The names that families give their tensors in safetensors files, if they differ from what the
//! model requests. Fused tensors are split here, so that the model does not deal with fusion. It
//! must never read weights.

use std::borrow::Cow;
use std::ops::Range;

use super::mxfp4::{self, ExpertPart};
use super::safetensors::Tensors;
use super::transposed::transposed;
use crate::model::{Config, LatentAttention, RawTensor, WeightSource, weights};

/// A checkpoint's tensors by the names that the model requests.
#[derive(Debug)]
pub(super) struct NamedTensors {
    tensors: Tensors,
    family: String,
    /// The widths of q, k and v, whose rows the fused tensor has in this order.
    qkv: [usize; 3],
    /// The width of gate and of up.
    mlp: usize,
    latent: Option<LatentAttention>,
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
        _ => &[],
    }
}

/// Where a tensor is.
struct TensorPlace {
    /// The name in the file.
    name: String,
    /// Its rows of a fused tensor.
    rows: Option<Range<usize>>,
    /// Whether the model requests it transposed.
    transposed: bool,
}

impl NamedTensors {
    /// `family` is the `model_type` in the checkpoint's `config.json`.
    pub(super) fn new(tensors: Tensors, family: &str, config: &Config) -> Self {
        Self {
            tensors,
            family: family.to_owned(),
            qkv: [config.q_width(), config.kv_width(), config.kv_width()],
            mlp: config.intermediate,
            latent: config.block.latent.clone(),
        }
    }

    /// The rows of `kv_b_proj` that hold a head's keys, transposed as the model requests, or its
    /// values.
    fn latent(&self, name: &str) -> Option<TensorPlace> {
        let latent = self.latent.as_ref()?;
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
        Some(TensorPlace { name, rows: Some(rows), transposed: part == "k_b" })
    }

    fn stored(&self, name: &str) -> TensorPlace {
        let whole = |name| TensorPlace { name, rows: None, transposed: false };
        if let Some(stored) = self.latent(name) {
            return stored;
        }
        if self.family == "phi3" {
            let [q, k, v] = self.qkv;
            for (part, fused, at, width) in [
                ("q_proj", "qkv_proj", 0, q),
                ("k_proj", "qkv_proj", q, k),
                ("v_proj", "qkv_proj", q + k, v),
                ("gate_proj", "gate_up_proj", 0, self.mlp),
                ("up_proj", "gate_up_proj", self.mlp, self.mlp),
            ] {
                if name.contains(part) {
                    let rows = Some(at..at + width);
                    return TensorPlace { rows, ..whole(name.replacen(part, fused, 1)) };
                }
            }
        }
        let name = match self.family.as_str() {
            "mixtral" => name.replacen(".mlp.", ".block_sparse_moe.", 1),
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
        if self.tensors.has(&name) { name } else { format!("language_model.{name}") }
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
        if let Some(rows) = stored.rows {
            tensor = rows_of(tensor, rows)?;
        }
        if stored.transposed { transposed(&tensor) } else { Some(tensor) }
    }

    fn release(&self, name: &str) {
        if let Some(part) = self.expert(name) {
            return mxfp4::release(&self.tensors, &part);
        }
        let stored = self.stored(name);
        self.tensors.release_rows(&self.spelled(stored.name), stored.rows);
    }

    fn identity(&self) -> Option<String> {
        self.tensors.identity()
    }
}

/// Some rows of a tensor; the unchanged tensor if it has fewer rows, which the model then refuses
/// by its shape.
fn rows_of(tensor: RawTensor<'_>, rows: Range<usize>) -> Option<RawTensor<'_>> {
    let total = *tensor.shape.first()?;
    if rows.end > total || total == 0 {
        return Some(tensor);
    }
    let row = tensor.bytes.len() / total;
    let mut shape = tensor.shape.clone();
    shape[0] = rows.len();
    let at = rows.start * row..rows.end * row;
    let bytes = match tensor.bytes {
        Cow::Borrowed(bytes) => Cow::Borrowed(bytes.get(at)?),
        Cow::Owned(bytes) => Cow::Owned(bytes.get(at)?.to_vec()),
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
