//! The names that families give their tensors in safetensors files, where they differ from what the
//! model asks for. Fused tensors are taken apart here, so that the model knows no fusion.

use std::borrow::Cow;

use super::safetensors::Tensors;
use crate::model::{Config, RawTensor, WeightSource, weights};

/// A checkpoint's tensors by the names the model asks for.
#[derive(Debug)]
pub(super) struct NamedTensors {
    tensors: Tensors,
    family: String,
    /// Widths of q, k and v, of which the fused tensor has the rows in this order.
    qkv: [usize; 3],
    /// Width of gate and of up.
    mlp: usize,
}

/// Where a tensor is: the name in the file and, of a fused one, its rows.
type Stored = (String, Option<std::ops::Range<usize>>);

impl NamedTensors {
    /// `family` is `model_type` of the checkpoint's `config.json`.
    pub(super) fn new(tensors: Tensors, family: &str, config: &Config) -> Self {
        let qkv = [config.q_width(), config.kv_width(), config.kv_width()];
        Self { tensors, family: family.to_owned(), qkv, mlp: config.intermediate }
    }

    /// What is in it, for a line about the model.
    pub(super) fn tensors(&self) -> &Tensors {
        &self.tensors
    }

    fn stored(&self, name: &str) -> Stored {
        let whole = |name: String| (name, None);
        let swap = |from: &str, to: &str| whole(name.replacen(from, to, 1));
        match self.family.as_str() {
            "gemma2" | "gemma3" | "gemma3_text" => {
                for (asked, stored) in [
                    (weights::ATTENTION_OUT_NORM, "post_attention_layernorm"),
                    (weights::MLP_OUT_NORM, "post_feedforward_layernorm"),
                    ("post_attention_layernorm", "pre_feedforward_layernorm"),
                ] {
                    if name.contains(&format!(".{asked}.")) {
                        return swap(asked, stored);
                    }
                }
            }
            "olmo2" => {
                for (asked, stored) in [
                    (weights::ATTENTION_OUT_NORM, "post_attention_layernorm"),
                    (weights::MLP_OUT_NORM, "post_feedforward_layernorm"),
                ] {
                    if name.contains(asked) {
                        return swap(asked, stored);
                    }
                }
            }
            "phi3" => {
                let mut at = 0;
                for (part, width) in ["q_proj", "k_proj", "v_proj"].into_iter().zip(self.qkv) {
                    if name.contains(part) {
                        return (name.replacen(part, "qkv_proj", 1), Some(at..at + width));
                    }
                    at += width;
                }
                for (part, at) in [("gate_proj", 0), ("up_proj", self.mlp)] {
                    if name.contains(part) {
                        return (name.replacen(part, "gate_up_proj", 1), Some(at..at + self.mlp));
                    }
                }
            }
            "starcoder2" => {
                for (asked, stored) in
                    [("mlp.up_proj", "mlp.c_fc"), ("mlp.down_proj", "mlp.c_proj")]
                {
                    if name.contains(asked) {
                        return swap(asked, stored);
                    }
                }
            }
            "mixtral" => {
                let moved = name.replacen(".mlp.", ".block_sparse_moe.", 1);
                for (asked, stored) in [("gate_proj", "w1"), ("down_proj", "w2"), ("up_proj", "w3")]
                {
                    if moved.contains(asked) {
                        return whole(moved.replacen(asked, stored, 1));
                    }
                }
                return whole(moved);
            }
            _ => {}
        }
        whole(name.to_owned())
    }

    /// The name in the file: models that also see put their text part below a name of its own.
    fn found(&self, name: &str) -> Option<RawTensor<'_>> {
        let below = || self.tensors.tensor(&format!("language_model.{name}"));
        self.tensors.tensor(name).or_else(below)
    }
}

impl WeightSource for NamedTensors {
    fn describe(&self) -> String {
        self.tensors.describe()
    }

    fn tensor(&self, name: &str) -> Option<RawTensor<'_>> {
        let (stored, rows) = self.stored(name);
        let tensor = self.found(&stored)?;
        let Some(rows) = rows else { return Some(tensor) };
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

    fn release(&self, name: &str) {
        let (stored, rows) = self.stored(name);
        // A fused tensor is needed again for its other parts; the map lets it go with the file.
        if rows.is_none() {
            self.tensors.release(&stored);
        }
    }
}
