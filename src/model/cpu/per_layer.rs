//! Embeddings that the layers add on the way (Gemma 4 E2B and E4B): for each token and each layer a
//! small vector, mixed with a projection of the token's embedding. It must not depend on what a
//! layer does with it.

use super::layer::NormWeights;
use super::packer::Packer;
use super::scratch::{CpuBlocks, products};
use crate::kernels::{Format, Matrix, expand_row};
use crate::model::Config;
use crate::model::weights::{self, MappedBytes, WeightError};

/// The weights of all layers' embeddings.
pub(super) struct PerLayerEmbedding {
    /// `[V, layers · per_layer_dim]`.
    pub(super) table: EmbeddingTable,
    /// `[layers · per_layer_dim, H]`.
    pub(super) projection: Matrix,
    /// `[per_layer_dim]`.
    norm: NormWeights,
}

/// A table of which a pass reads one row per token. It is large (half of E2B), so it is packed only
/// if it cannot stay in its file.
pub(super) enum EmbeddingTable {
    InFile(UnpackedMatrix),
    Packed(Matrix),
}

/// A matrix in its file.
pub(in crate::model) struct UnpackedMatrix {
    pub(super) bytes: MappedBytes,
    pub(super) format: Format,
    pub(super) row_bytes: usize,
    pub(super) scale: f32,
}

impl EmbeddingTable {
    /// Bytes of memory.
    pub(super) fn packed_bytes(&self) -> usize {
        match self {
            Self::InFile(_) => 0,
            Self::Packed(matrix) => matrix.bytes(),
        }
    }

    /// Writes a row as floats, with the same bits in both cases.
    fn row(&self, i: usize, out: &mut [f32]) {
        match self {
            Self::Packed(matrix) => matrix.row(i, out),
            Self::InFile(UnpackedMatrix { bytes, format, row_bytes, scale }) => {
                let row = &(**bytes).as_ref()[i * row_bytes..(i + 1) * row_bytes];
                expand_row(*format, row, out);
                if *scale != 1.0 {
                    for x in out {
                        *x *= scale;
                    }
                }
            }
        }
    }
}

impl PerLayerEmbedding {
    /// `None` for models without.
    pub(super) fn load(
        config: &Config,
        packer: &mut Packer<'_>,
    ) -> Result<Option<Self>, WeightError> {
        let dim = config.block.per_layer_dim;
        let width = config.layers * dim;
        if dim == 0 {
            return Ok(None);
        }
        let (name, shape) = (weights::PER_LAYER_EMBEDDING, [config.vocab, width]);
        Ok(Some(Self {
            table: match packer.stored(name, shape)? {
                Some(stored) => EmbeddingTable::InFile(stored),
                None => EmbeddingTable::Packed(packer.matrix(name, shape, None)?),
            },
            projection: packer.matrix(
                weights::PER_LAYER_PROJECTION,
                [width, config.hidden],
                None,
            )?,
            norm: packer.norm(&config.block, weights::PER_LAYER_NORM, dim)?,
        }))
    }

    /// Computes (norm(projection(stream) / √H) + table\[token\] · √dim) / √2 of each row, whose
    /// embeddings are in the stream.
    pub(super) fn run(&self, blocks: &mut CpuBlocks<'_>, tokens: &[u32]) {
        let CpuBlocks { config, pool, .. } = *blocks;
        let s = &mut *blocks.scratch;
        let dim = config.block.per_layer_dim;
        let width = config.layers * dim;
        s.normed.resize(tokens.len() * width, 0.0);
        s.per_layer.resize(tokens.len() * width, 0.0);
        products(pool, &mut s.rows, &s.stream, &mut [(&self.projection, &mut s.normed)]);
        for x in s.normed.iter_mut() {
            *x /= (config.hidden as f32).sqrt();
        }
        self.norm.apply(pool, &s.normed, config.rms_eps, &mut s.per_layer);
        let scale = (dim as f32).sqrt();
        let rows = s.per_layer.chunks_exact_mut(width).zip(s.normed.chunks_exact_mut(width));
        for ((out, row), &token) in rows.zip(tokens) {
            self.table.row(token as usize, row);
            for (out, x) in out.iter_mut().zip(row) {
                *out = (*out + *x * scale) * std::f32::consts::FRAC_1_SQRT_2;
            }
        }
    }
}
