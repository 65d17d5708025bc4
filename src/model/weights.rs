//! How the transformer requests its weights: by Hugging Face name, as the checkpoint's own bytes.
//! GGUF files, safetensors and random weights all answer in the same way. It must not depend on
//! files.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Config, RecurrentLayers};
use crate::kernels::{Format, Matrix, Pool, StateKind};

/// A tensor as it is stored in its file.
#[derive(Clone, Debug)]
pub struct RawTensor<'a> {
    /// Encoding of the elements.
    pub format: Format,
    /// `[rows, columns]` of a matrix (output × input), `[length]` of a vector.
    pub shape: Vec<usize>,
    /// The elements, row after row, little-endian; usually borrowed from a memory map.
    pub bytes: Cow<'a, [u8]>,
}

impl RawTensor<'_> {
    /// The elements as f32; `None` for packed formats.
    pub fn values(&self) -> Option<Vec<f32>> {
        let bytes = &self.bytes;
        Some(match self.format {
            Format::F32 => bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect(),
            Format::F16 => {
                let words = bytes.as_chunks().0.iter();
                words.map(|&b| half::f16::from_le_bytes(b).to_f32()).collect()
            }
            Format::BF16 => {
                let words = bytes.as_chunks().0.iter();
                words.map(|&b| half::bf16::from_le_bytes(b).to_f32()).collect()
            }
            _ => return None,
        })
    }
}

/// The bytes of a tensor in its file, which may exist longer than the source.
pub type MappedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Where weights come from.
pub trait WeightSource {
    /// Another source, if this one only changes or stores what comes from there: then its answers
    /// are the defaults of the methods below.
    fn inner(&self) -> Option<&dyn WeightSource> {
        None
    }
    /// The name in messages: the file or folder.
    fn describe(&self) -> String {
        self.inner().map_or_else(String::new, |inner| inner.describe())
    }
    /// The tensor with this Hugging Face name, e.g. `model.layers.0.self_attn.q_proj.weight`.
    fn tensor(&self, name: &str) -> Option<RawTensor<'_>> {
        self.inner()?.tensor(name)
    }
    /// The bytes of a tensor, if a file has them as [`Self::tensor`] returns them.
    fn mapped(&self, name: &str) -> Option<MappedBytes> {
        self.inner()?.mapped(name)
    }
    /// The number by which the whole tensor is multiplied (NVFP4); 1 for nearly all tensors.
    fn scale(&self, name: &str) -> f32 {
        self.inner().map_or(1.0, |inner| inner.scale(name))
    }
    /// Reports that `name` has been packed and will not be requested again. A memory map can then
    /// release its pages, so that weights are not resident twice.
    fn release(&self, name: &str) {
        if let Some(inner) = self.inner() {
            inner.release(name);
        }
    }
    /// Whether formats that would be expanded in every product are to be repacked
    /// ([`Matrix::pack_rows`]).
    fn repacks(&self) -> bool {
        self.inner().is_some_and(|inner| inner.repacks())
    }
    /// The cache of packed weights for this source, if it has one.
    fn packed(&self) -> Option<&dyn PackedStore> {
        self.inner()?.packed()
    }
    /// What distinguishes these weights from all others without reading them; `None` for weights
    /// that are not in a file. Never that of the inner source by default: changed weights are not
    /// the same weights.
    fn identity(&self) -> Option<String> {
        None
    }
}

/// Packed matrices of an earlier load.
pub trait PackedStore {
    /// The stored matrix, if there is one and it is complete.
    fn get(&self, name: &str, format: Format, shape: [usize; 2], pool: &Pool) -> Option<Matrix>;
    /// Stores a matrix.
    fn put(&self, name: &str, matrix: &Matrix);
    /// Reports that the matrix stored as `name` is not what the source packs to.
    fn refuse(&self, name: &str);
}

/// Why weights cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WeightError {
    /// A tensor is missing, has another shape than the configuration says, or cannot be read.
    #[error("{origin}: tensor `{name}`{problem}")]
    Source {
        /// Name of the tensor.
        name: String,
        /// The source.
        origin: String,
        /// What is wrong with it, after its name.
        problem: String,
    },
    /// A device does not accept a matrix.
    #[error("tensor `{name}`: {reason}")]
    Device {
        /// Name of the tensor.
        name: String,
        /// The reason.
        reason: String,
    },
}

impl WeightError {
    pub(super) fn of(source: &dyn WeightSource, name: &str, problem: impl Into<String>) -> Self {
        let origin = source.describe();
        Self::Source { name: name.to_owned(), origin, problem: problem.into() }
    }
}

/// Names and shapes of all tensors that a target of this configuration needs, in file order. Its
/// MLPs have gates; its experts have no biases, and none of them is for every row.
pub fn tensors(config: &Config) -> Vec<(String, Vec<usize>)> {
    let h = config.hidden;
    let block = &config.block;
    let mut all = vec![(EMBEDDING.to_owned(), vec![config.vocab, h])];
    for layer in 0..config.layers {
        let mut push =
            |part: &str, shape: &[usize]| all.push((layer_name(layer, part), shape.to_vec()));
        push("input_layernorm.weight", &[h]);
        if let Some(all) = config.block.recurrent_of(layer) {
            let shape = all.shape;
            let mut push =
                |part: &str, dims: &[usize]| push(&format!("{}.{part}", all.part()), dims);
            for (part, rows) in all.inputs().into_iter().zip([shape.channels, shape.outputs()]) {
                push(&format!("{part}.weight"), &[rows, h]);
            }
            for (part, rows) in all.factors() {
                push(&format!("{part}.weight"), &[rows, h]);
            }
            push(all.kernel(), &[shape.channels, shape.taps]);
            push("out_proj.weight", &[h, shape.outputs()]);
            if shape.heads > 0 {
                push("A_log", &[shape.heads]);
                push("dt_bias", &[shape.heads]);
            }
            let mamba = shape.kind == StateKind::Mamba2;
            if mamba {
                push("conv1d.bias", &[shape.channels]);
                push("D", &[shape.heads]);
            }
            if shape.heads > 0 && all.norm {
                push("norm.weight", &[if mamba { shape.outputs() } else { shape.value }]);
            }
        }
        if config.block.attends(layer) {
            let shape = config.kv_shape(layer);
            let q = config.heads * shape.key_dim;
            let rows = if block.output_gate { 2 * q } else { q };
            let own = block.kv_layer(layer) == layer;
            for (part, rows, cols, bias) in [
                ("q", rows, h, config.qkv_bias),
                ("k", shape.keys(), h, config.qkv_bias),
                ("v", shape.values(), h, config.qkv_bias),
                ("o", h, config.heads * shape.value_dim, config.o_bias),
            ] {
                if !own && matches!(part, "k" | "v") {
                    continue;
                }
                push(&format!("self_attn.{part}_proj.weight"), &[rows, cols]);
                if bias {
                    push(&format!("self_attn.{part}_proj.bias"), &[rows]);
                }
            }
            if config.qk_norm {
                push("self_attn.q_norm.weight", &[shape.key_dim]);
                push("self_attn.k_norm.weight", &[shape.key_dim]);
            }
        }
        push("post_attention_layernorm.weight", &[h]);
        let mut mlp = |of: &str, width: usize| {
            push(&format!("mlp.{of}gate_proj.weight"), &[width, h]);
            push(&format!("mlp.{of}up_proj.weight"), &[width, h]);
            push(&format!("mlp.{of}down_proj.weight"), &[h, width]);
        };
        match config.block.experts_of(layer) {
            Some(experts) => {
                for expert in 0..experts.count {
                    mlp(&format!("experts.{expert}."), experts.intermediate);
                }
                push("mlp.gate.weight", &[experts.count, h]);
            }
            None => mlp("", config.intermediate_of(layer)),
        }
        if block.output_norms {
            push(&format!("{ATTENTION_OUT_NORM}.weight"), &[h]);
            push(&format!("{MLP_OUT_NORM}.weight"), &[h]);
        }
        if block.per_layer_dim > 0 {
            push("per_layer_input_gate.weight", &[block.per_layer_dim, h]);
            push("per_layer_projection.weight", &[h, block.per_layer_dim]);
            push("post_per_layer_input_norm.weight", &[h]);
        }
        if block.output_scale {
            push("layer_scalar", &[1]);
        }
    }
    if block.per_layer_dim > 0 {
        let width = config.layers * block.per_layer_dim;
        all.push((PER_LAYER_EMBEDDING.to_owned(), vec![config.vocab, width]));
        all.push((PER_LAYER_PROJECTION.to_owned(), vec![width, h]));
        all.push((format!("{PER_LAYER_NORM}.weight"), vec![block.per_layer_dim]));
    }
    all.push((format!("{NORM}.weight"), vec![h]));
    if !config.tied_head {
        all.push((HEAD.to_owned(), vec![config.vocab, h]));
    }
    all
}

/// The parts of a recurrent layer as their families call them. Matrices that a family stores as one
/// have the names of their parts.
impl RecurrentLayers {
    /// The name before all others.
    pub(crate) fn part(&self) -> &'static str {
        match self.shape.kind {
            _ if self.shape.heads == 0 => "conv",
            StateKind::Delta => "linear_attn",
            StateKind::Mamba2 => "mamba",
        }
    }

    /// What is convolved, and the gate of the results.
    pub(crate) fn inputs(&self) -> [&'static str; 2] {
        match self.shape.kind {
            _ if self.shape.heads == 0 => ["in_proj.x", "in_proj.c"],
            StateKind::Delta => ["in_proj_qkv", "in_proj_z"],
            StateKind::Mamba2 => ["in_proj.x", "in_proj.z"],
        }
    }

    /// The other matrices that read the stream, with their rows.
    pub(crate) fn factors(&self) -> Vec<(&'static str, usize)> {
        match self.shape.heads {
            0 => vec![("in_proj.b", self.shape.channels)],
            heads if self.shape.kind == StateKind::Mamba2 => vec![("in_proj.dt", heads)],
            heads if self.fused_gates => vec![("in_proj_ba", 2 * heads)],
            heads => vec![("in_proj_b", heads), ("in_proj_a", heads)],
        }
    }

    /// The convolution's weights, `[channels, taps]`.
    pub(crate) fn kernel(&self) -> &'static str {
        if self.shape.heads == 0 { "conv.weight" } else { "conv1d.weight" }
    }
}

/// Name of the embedding matrix `[V, H]`.
pub const EMBEDDING: &str = "model.embed_tokens.weight";
/// Name of the final norm, without `.weight`, `[H]`.
pub const NORM: &str = "model.norm";
/// Name of the LM head `[V, H]`.
pub const HEAD: &str = "lm_head.weight";
/// Name of its bias, `[V]`.
pub const HEAD_BIAS: &str = "lm_head.bias";

/// Name of the embeddings that layers add, `[V, layers · per_layer_dim]`.
pub const PER_LAYER_EMBEDDING: &str = "model.embed_tokens_per_layer.weight";
/// Name of the projection of the embedding to them.
pub const PER_LAYER_PROJECTION: &str = "model.per_layer_model_projection.weight";
/// Name of the norm of what is projected.
pub const PER_LAYER_NORM: &str = "model.per_layer_projection_norm";

/// Part of a layer: the norm of attention's output (Gemma 2 and 3, OLMo 2). Families give it their
/// own names, some of which mean the norm before the MLP in other families, so it has a separate
/// name here.
pub const ATTENTION_OUT_NORM: &str = "self_attn.out_norm";
/// Part of a layer: the norm of what the output projection of attention reads (BitNet).
pub const ATTENTION_INNER_NORM: &str = "self_attn.attn_sub_norm";
/// Part of a layer: the norm of the MLP's output.
pub const MLP_OUT_NORM: &str = "mlp.out_norm";

/// Name of a tensor of one layer.
pub fn layer_name(layer: usize, part: &str) -> String {
    format!("model.layers.{layer}.{part}")
}

/// Fetches a tensor and checks its shape and size.
pub(super) fn fetch<'a>(
    source: &'a dyn WeightSource,
    name: &str,
    expected: &[usize],
) -> Result<RawTensor<'a>, WeightError> {
    let Some(tensor) = source.tensor(name) else {
        let told = " is missing; the file is incomplete or holds another architecture";
        return Err(WeightError::of(source, name, told));
    };
    if tensor.shape != expected {
        let told = format!(
            " is {:?}, but the config says {expected:?}; the weights and the config are from \
             different models",
            tensor.shape
        );
        return Err(WeightError::of(source, name, told));
    }
    Ok(tensor)
}

/// Fetches a vector (a norm or a bias) as f32.
pub(super) fn vector(
    source: &dyn WeightSource,
    name: &str,
    length: usize,
) -> Result<Vec<f32>, WeightError> {
    floats(source, name, &[length])
}

/// The same for a small tensor of any shape.
pub(super) fn floats(
    source: &dyn WeightSource,
    name: &str,
    shape: &[usize],
) -> Result<Vec<f32>, WeightError> {
    let tensor = fetch(source, name, shape)?;
    let length: usize = shape.iter().product();
    let wrong =
        |reason: String| WeightError::of(source, name, format!(" ({}): {reason}", tensor.format));
    let Some(values) = tensor.values() else {
        return Err(wrong("norms and biases must be F32, F16 or BF16".to_owned()));
    };
    if values.len() != length {
        return Err(wrong(format!("it has {} values instead of {length}", values.len())));
    }
    source.release(name);
    Ok(values)
}
