//! The target's weights, packed once and held once.

use std::sync::Arc;

use super::super::rope::frequencies;
use super::super::weights::{self, WeightError, WeightSource, layer_name};
use super::super::{Config, RopeLayout};
use crate::kernels::{Matrix, Pool};

/// How far loading has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Matrices packed.
    pub done: usize,
    /// Matrices in all.
    pub total: usize,
    /// Bytes packed so far.
    pub bytes: u64,
}

/// One decoder block.
pub(in crate::model) struct Layer {
    /// None in the first block of a draft head.
    pub(in crate::model) attention_norm: Option<Vec<f32>>,
    pub(in crate::model) q: Matrix,
    pub(in crate::model) k: Matrix,
    pub(in crate::model) v: Matrix,
    pub(in crate::model) qkv_bias: Option<[Vec<f32>; 3]>,
    /// Norms of a head's q and of its k, `[d]` each.
    pub(in crate::model) qk_norm: Option<[Vec<f32>; 2]>,
    pub(in crate::model) o: Matrix,
    pub(in crate::model) o_bias: Option<Vec<f32>>,
    pub(in crate::model) mlp_norm: Vec<f32>,
    pub(in crate::model) gate: Matrix,
    pub(in crate::model) up: Matrix,
    pub(in crate::model) down: Matrix,
}

/// Everything a pass reads.
pub(super) struct Weights {
    pub(super) embedding: Arc<Matrix>,
    pub(super) layers: Vec<Layer>,
    pub(super) norm: Vec<f32>,
    head: Option<Arc<Matrix>>,
    /// Angle per position of each pair, `[d / 2]`.
    pub(super) frequencies: Vec<f32>,
}

impl Weights {
    pub(super) fn load(
        config: &Config,
        source: &dyn WeightSource,
        pool: &Pool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, WeightError> {
        Self::load_from(config, source, pool, 0, progress)
    }

    /// Packs the blocks from `first` on, embedding, norm and head.
    pub(super) fn load_from(
        config: &Config,
        source: &dyn WeightSource,
        pool: &Pool,
        first: usize,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, WeightError> {
        let total = 7 * (config.layers - first) + 1 + usize::from(!config.tied_head);
        let mut packer = Packer::new(source, pool, total, progress);
        let (h, vocab) = (config.hidden, config.vocab);
        Ok(Self {
            embedding: Arc::new(packer.matrix(weights::EMBEDDING, [vocab, h], None)?),
            layers: (first..config.layers)
                .map(|layer| packer.layer(config, layer))
                .collect::<Result<_, _>>()?,
            norm: weights::vector(source, weights::NORM, h)?,
            head: if config.tied_head {
                None
            } else {
                Some(Arc::new(packer.matrix(weights::HEAD, [vocab, h], None)?))
            },
            frequencies: frequencies(config.head_dim, config.rope_theta, &config.rope_scaling),
        })
    }

    /// The LM head: a matrix of its own, or the embedding.
    pub(super) fn head(&self) -> &Arc<Matrix> {
        self.head.as_ref().unwrap_or(&self.embedding)
    }

    /// Bytes of all packed matrices.
    pub(super) fn bytes(&self) -> u64 {
        let head = self.head.as_ref().map_or(0, |head| head.bytes()) as u64;
        self.layers.iter().flat_map(Layer::matrices).map(|m| m.bytes() as u64).sum::<u64>()
            + self.embedding.bytes() as u64
            + head
    }

    /// Bytes that one pass reads: all but an embedding that is no head.
    pub(super) fn pass_bytes(&self) -> u64 {
        let embedding = self.head.as_ref().map_or(0, |_| self.embedding.bytes());
        self.bytes() - embedding as u64
    }
}

impl Layer {
    pub(in crate::model) fn matrices(&self) -> [&Matrix; 7] {
        [&self.q, &self.k, &self.v, &self.o, &self.gate, &self.up, &self.down]
    }
}

/// Packs matrix after matrix and reports progress.
pub(in crate::model) struct Packer<'a> {
    source: &'a dyn WeightSource,
    pool: &'a Pool,
    progress: &'a mut dyn FnMut(Progress),
    state: Progress,
}

impl<'a> Packer<'a> {
    /// Will pack `total` matrices of `source`.
    pub(in crate::model) fn new(
        source: &'a dyn WeightSource,
        pool: &'a Pool,
        total: usize,
        progress: &'a mut dyn FnMut(Progress),
    ) -> Self {
        Self { source, pool, progress, state: Progress { done: 0, total, bytes: 0 } }
    }

    /// The block of this index.
    pub(in crate::model) fn layer(
        &mut self,
        config: &Config,
        layer: usize,
    ) -> Result<Layer, WeightError> {
        let (h, i) = (config.hidden, config.intermediate);
        let (q, kv, d) = (config.q_width(), config.kv_width(), config.head_dim);
        let name = |part: &str| layer_name(layer, part);
        // Width of the heads whose rows have to be put in the order of halves.
        let pairs = (config.rope_layout == RopeLayout::Interleaved).then_some(d);
        let source = self.source;
        let vector = |part: &str, length: usize| weights::vector(source, &name(part), length);
        let bias = |part: &str, length: usize, pairs: Option<usize>| {
            let stored = vector(part, length)?;
            Ok(match pairs {
                Some(d) => (0..length).map(|row| stored[stored_row(row, d)]).collect(),
                None => stored,
            })
        };
        Ok(Layer {
            attention_norm: Some(vector("input_layernorm.weight", h)?),
            q: self.matrix(&name("self_attn.q_proj.weight"), [q, h], pairs)?,
            k: self.matrix(&name("self_attn.k_proj.weight"), [kv, h], pairs)?,
            v: self.matrix(&name("self_attn.v_proj.weight"), [kv, h], None)?,
            qkv_bias: if config.qkv_bias {
                Some([
                    bias("self_attn.q_proj.bias", q, pairs)?,
                    bias("self_attn.k_proj.bias", kv, pairs)?,
                    bias("self_attn.v_proj.bias", kv, None)?,
                ])
            } else {
                None
            },
            qk_norm: if config.qk_norm {
                Some([vector("self_attn.q_norm.weight", d)?, vector("self_attn.k_norm.weight", d)?])
            } else {
                None
            },
            o: self.matrix(&name("self_attn.o_proj.weight"), [h, q], None)?,
            o_bias: if config.o_bias { Some(vector("self_attn.o_proj.bias", h)?) } else { None },
            mlp_norm: vector("post_attention_layernorm.weight", h)?,
            gate: self.matrix(&name("mlp.gate_proj.weight"), [i, h], None)?,
            up: self.matrix(&name("mlp.up_proj.weight"), [i, h], None)?,
            down: self.matrix(&name("mlp.down_proj.weight"), [h, i], None)?,
        })
    }

    /// Packs a matrix; `pairs` is the head width if its rows are stored as RoPE pairs.
    fn matrix(
        &mut self,
        name: &str,
        [rows, cols]: [usize; 2],
        pairs: Option<usize>,
    ) -> Result<Matrix, WeightError> {
        let tensor = weights::fetch(self.source, name, &[rows, cols])?;
        let format = tensor.format;
        let packed = match pairs {
            Some(d) if tensor.bytes.len().is_multiple_of(rows) => {
                let row = tensor.bytes.len() / rows;
                let at = |i: usize| &tensor.bytes[stored_row(i, d) * row..][..row];
                Matrix::pack_rows(format, rows, cols, at, self.pool)
            }
            _ => Matrix::pack(format, rows, cols, &tensor.bytes, self.pool),
        };
        let matrix = packed.map_err(|error| WeightError::Pack {
            name: name.to_owned(),
            origin: self.source.describe(),
            error,
        })?;
        drop(tensor);
        self.source.release(name);
        self.state.done += 1;
        self.state.bytes += matrix.bytes() as u64;
        (self.progress)(self.state);
        Ok(matrix)
    }
}

/// Where an interleaved checkpoint keeps row `row` of q or k: component (half, i) of a head lies
/// there as (i, half).
fn stored_row(row: usize, head_dim: usize) -> usize {
    let (head, component) = (row / head_dim, row % head_dim);
    let (half, i) = (component / (head_dim / 2), component % (head_dim / 2));
    head * head_dim + 2 * i + half
}
