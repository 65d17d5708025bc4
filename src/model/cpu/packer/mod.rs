//! Packs a model's tensors, one after the other, into the blocks of a pass: for the CPU, or in the
//! form of another backend. It uses the Hugging Face names of the weights; it does not depend on
//! where they are stored.

mod attention;
mod mlp;

use std::ops::Range;

use super::layer::{Attention, Layer, Mlp, NormWeights, PerLayer};
use super::per_layer::UnpackedMatrix;
use crate::kernels::{Format, Matrix, Pool, checked_row};
use crate::model::weights::{self, RawTensor, WeightError, WeightSource, layer_name};
use crate::model::{BlockOptions, Config, NormKind, RopeLayout};

/// How far loading has progressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Blocks packed.
    pub done: usize,
    /// Blocks in total.
    pub total: usize,
}

/// Packs matrix after matrix.
pub(in crate::model) struct Packer<'a, M = Matrix> {
    source: &'a dyn WeightSource,
    make: Make<'a, M>,
    /// Bytes packed so far.
    pub(in crate::model) bytes: u64,
}

/// A tensor of the checkpoint that is to become a matrix.
pub(in crate::model) struct Unpacked<'a> {
    pub(in crate::model) name: &'a str,
    pub(in crate::model) tensor: &'a RawTensor<'a>,
    /// Rows and columns.
    pub(in crate::model) shape: [usize; 2],
    row_bytes: usize,
    order: Option<RowOrder>,
}

/// Turns a tensor into a matrix, and returns how many bytes that takes.
type Make<'a, M> = Box<dyn FnMut(&Unpacked<'_>) -> Result<(M, u64), WeightError> + 'a>;

/// Where an interleaved checkpoint stores the rows of q or k. In each head, component (half, i) of
/// the `rotary` components from `first` on is stored as (i, half); the others stay in place.
#[derive(Clone, Copy)]
pub(in crate::model) struct RowOrder {
    head_dim: usize,
    first: usize,
    rotary: usize,
}

impl RowOrder {
    /// `None` if the checkpoint has the rows in their order.
    fn of(config: &Config, head_dim: usize, first: usize, rotary: usize) -> Option<Self> {
        let interleaved = config.rope_layout == RopeLayout::Interleaved;
        interleaved.then_some(Self { head_dim, first, rotary })
    }

    fn stored(self, row: usize) -> usize {
        let Self { head_dim, first, rotary } = self;
        let component = row % head_dim;
        if !(first..first + rotary).contains(&component) {
            return row;
        }
        let component = component - first;
        let half = component / (rotary / 2);
        row / head_dim * head_dim + first + 2 * (component % (rotary / 2)) + half
    }
}

impl<'a> Packer<'a> {
    /// Prepares to pack matrices of `source` for the CPU.
    pub(in crate::model) fn new(source: &'a dyn WeightSource, pool: &'a Pool) -> Self {
        let make = move |unpacked: &Unpacked<'_>| {
            let matrix = pack(source, pool, unpacked)?.scaled(source.scale(unpacked.name));
            let bytes = matrix.bytes() as u64;
            Ok((matrix, bytes))
        };
        Self::making(source, Box::new(make))
    }

    /// Whether a layer has a matrix of keys.
    fn has_keys(block: &BlockOptions, layer: usize) -> bool {
        block.latent.is_none() && block.kv_layer(layer) == layer
    }

    /// Whether a layer has a matrix of values.
    fn has_values(block: &BlockOptions, layer: usize) -> bool {
        let are_keys = block.global_values_are_keys && block.window_of(layer).is_none();
        Self::has_keys(block, layer) && !are_keys
    }
}

impl<'a, M> Packer<'a, M> {
    /// Prepares to make matrices from tensors of `source`.
    pub(in crate::model) fn making(source: &'a dyn WeightSource, make: Make<'a, M>) -> Self {
        Self { source, make, bytes: 0 }
    }

    /// These blocks; reports each.
    pub(in crate::model) fn layers(
        &mut self,
        config: &Config,
        layers: Range<usize>,
        progress: &dyn Fn(Progress),
    ) -> Result<Vec<Layer<M>>, WeightError> {
        let total = layers.len();
        let one = |(layer, done)| {
            let packed = self.layer(config, layer)?;
            progress(Progress { done, total });
            Ok(packed)
        };
        layers.zip(1..).map(one).collect()
    }

    /// The block of this index.
    pub(in crate::model) fn layer(
        &mut self,
        config: &Config,
        layer: usize,
    ) -> Result<Layer<M>, WeightError> {
        self.layer_of(config, layer, config.hidden, &|part| layer_name(layer, part))
    }

    /// The same, whose tensors have other names, and whose queries, keys and values are computed
    /// from rows of `width` numbers.
    pub(in crate::model) fn layer_of(
        &mut self,
        config: &Config,
        layer: usize,
        width: usize,
        name: &dyn Fn(&str) -> String,
    ) -> Result<Layer<M>, WeightError> {
        let h = config.hidden;
        let block = &config.block;
        let recurrent = match block.recurrent_of(layer) {
            Some(recurrent) => Some(Box::new(self.recurrent(config, layer, recurrent, name)?)),
            None => None,
        };
        let attends = block.attends(layer);
        let value_width = match &block.latent {
            None => config.heads * config.kv_shape(layer).value_dim,
            Some(latent) => config.heads * latent.value_dim,
        };
        let attention = match &block.latent {
            _ if !attends => None,
            None => Some(Attention::Grouped(Box::new(self.grouped(config, layer, width, name)?))),
            Some(latent) => Some(Attention::Latent(Box::new(self.latent(config, latent, name)?))),
        };
        let o = name("self_attn.o_proj.weight");
        let o = attends.then(|| self.matrix(&o, [h, value_width], None)).transpose()?;
        let window = block.window_of(layer);
        let rope = match window {
            _ if block.no_rope_every > 0 && (layer + 1).is_multiple_of(block.no_rope_every) => None,
            None if !block.global_rope => None,
            Some(_) if block.local_rope_theta.is_some() => Some(1),
            _ => Some(0),
        };
        let norm_if =
            |wanted: bool, part: &str| wanted.then(|| self.norm(block, &name(part), h)).transpose();
        let has_mlp = block.has_mlp(layer);
        let mixes = attends || recurrent.is_some();
        let attention_norm = norm_if(block.input_norms && mixes, "input_layernorm")?;
        let own_norm = block.input_norms && !block.parallel && has_mlp;
        let mlp_norm = if mixes { "post_attention_layernorm" } else { "input_layernorm" };
        let mlp_norm = norm_if(own_norm, mlp_norm)?;
        let attention_out_norm = norm_if(block.output_norms, weights::ATTENTION_OUT_NORM)?;
        let mlp_out_norm = norm_if(block.output_norms, weights::MLP_OUT_NORM)?;
        let inner = name(weights::ATTENTION_INNER_NORM);
        let inner = block.inner_norms.then(|| self.norm(block, &inner, value_width));
        Ok(Layer {
            attention_norm,
            attention,
            recurrent,
            attention_inner_norm: inner.transpose()?,
            o,
            o_bias: self.vector_if(config.o_bias && attends, &name("self_attn.o_proj.bias"), h)?,
            attention_out_norm,
            mlp_norm,
            mlp: match block.experts_of(layer) {
                Some(experts) => {
                    Some(Mlp::Experts(Box::new(self.mixture(config, layer, experts, name)?)))
                }
                None if !has_mlp => None,
                None => {
                    let width = config.intermediate_of(layer);
                    let bias = block.mlp_bias;
                    let widths = [config.hidden, width];
                    Some(Mlp::Dense(Box::new(self.dense(config, &name("mlp"), widths, bias)?)))
                }
            },
            mlp_out_norm,
            window,
            causal: false,
            rope,
            sinks: self.vector_if(
                block.sinks && (block.global_sinks || window.is_some()),
                &name("self_attn.sinks"),
                config.heads,
            )?,
            convolutions: None,
            per_layer: match block.per_layer_dim {
                0 => None,
                dim => Some(Box::new(PerLayer {
                    gate: self.matrix(&name("per_layer_input_gate.weight"), [dim, h], None)?,
                    projection: self.matrix(
                        &name("per_layer_projection.weight"),
                        [h, dim],
                        None,
                    )?,
                    norm: self.norm(block, &name("post_per_layer_input_norm"), h)?,
                })),
            },
            output_scale: self
                .vector_if(block.output_scale, &name("layer_scalar"), 1)?
                .and_then(|scale| scale.first().copied()),
        })
    }

    /// A matrix that stays in its file, and the bytes of a row; `None` if the source has no file.
    pub(in crate::model) fn stored(
        &self,
        name: &str,
        shape: [usize; 2],
    ) -> Result<Option<UnpackedMatrix>, WeightError> {
        let Some(bytes) = self.source.mapped(name) else { return Ok(None) };
        let format = weights::fetch(self.source, name, &shape)?.format;
        let row_bytes = self.row_bytes(name, format, shape, (*bytes).as_ref())?;
        Ok(Some(UnpackedMatrix { bytes, format, row_bytes, scale: self.source.scale(name) }))
    }

    /// Bytes per row, after a check that the tensor has the bytes that its shape needs.
    fn row_bytes(
        &self,
        name: &str,
        format: Format,
        [rows, columns]: [usize; 2],
        bytes: &[u8],
    ) -> Result<usize, WeightError> {
        checked_row(format, rows, columns, bytes.len())
            .map_err(|error| WeightError::of(self.source, name, format!(": {error}")))
    }

    /// A norm of the family's kind.
    pub(in crate::model) fn norm(
        &self,
        block: &BlockOptions,
        name: &str,
        width: usize,
    ) -> Result<NormWeights, WeightError> {
        let mut weight = weights::vector(self.source, &format!("{name}.weight"), width)?;
        for w in weight.iter_mut() {
            *w += block.norm_offset;
        }
        let bias = match block.norm {
            NormKind::Rms => None,
            NormKind::LayerWithoutBias => Some(vec![0.0; width]),
            NormKind::Layer => Some(weights::vector(self.source, &format!("{name}.bias"), width)?),
        };
        Ok(NormWeights { weight, bias })
    }

    pub(in crate::model) fn vector_if(
        &self,
        wanted: bool,
        name: &str,
        length: usize,
    ) -> Result<Option<Vec<f32>>, WeightError> {
        wanted.then(|| weights::vector(self.source, name, length)).transpose()
    }

    /// Makes a matrix whose rows the checkpoint stores in this order.
    pub(in crate::model) fn matrix(
        &mut self,
        name: &str,
        shape: [usize; 2],
        order: Option<RowOrder>,
    ) -> Result<M, WeightError> {
        let tensor = weights::fetch(self.source, name, &shape)?;
        let row_bytes = self.row_bytes(name, tensor.format, shape, &tensor.bytes)?;
        let unpacked = Unpacked { name, tensor: &tensor, shape, row_bytes, order };
        let (matrix, bytes) = (self.make)(&unpacked)?;
        drop(tensor);
        self.source.release(name);
        self.bytes += bytes;
        Ok(matrix)
    }
}

impl Unpacked<'_> {
    /// Row `i` of the matrix as it is stored in the file.
    pub(in crate::model) fn row(&self, i: usize) -> &[u8] {
        let i = self.order.map_or(i, |order| order.stored(i));
        &self.tensor.bytes[i * self.row_bytes..][..self.row_bytes]
    }

    /// The error that a device does not accept this tensor.
    pub(in crate::model) fn not_taken(&self, reason: String) -> WeightError {
        WeightError::Device { name: self.name.to_owned(), reason }
    }
}

/// The matrix packed for the CPU, or as an earlier load packed it, if a part of that has the bytes
/// that it gets when it is packed now.
fn pack(
    source: &dyn WeightSource,
    pool: &Pool,
    unpacked: &Unpacked<'_>,
) -> Result<Matrix, WeightError> {
    let &Unpacked { name, tensor, shape: [rows, cols], .. } = unpacked;
    let format = tensor.format;
    let at = |i: usize| unpacked.row(i);
    let store = source.packed();
    if let Some(store) = store
        && let Some(kept) = store.get(name, format, [rows, cols], pool)
    {
        if kept.agrees_with(at) {
            return Ok(kept);
        }
        store.refuse(name);
    }
    let matrix = Matrix::pack_rows(format, rows, cols, at, source.repacks(), pool)
        .map_err(|error| WeightError::of(source, name, format!(": {error}")))?;
    if let Some(store) = store {
        store.put(name, &matrix);
    }
    Ok(matrix)
}
