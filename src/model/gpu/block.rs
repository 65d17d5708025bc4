//! Decoder blocks on the device: their weights, their KV cache and the passes through them. It must
//! not depend on whose blocks they are.

use std::ops::Range;
use std::sync::Arc;

use super::block_steps::{BlockBuffers, BlockMaker};
use super::buffer::GpuBuffer;
use super::cache::Cache;
use super::device::{Gpu, Reading};
use super::error::GpuError;
use super::maker::StepMaker;
use super::matrix::GpuMatrix;
use super::places::{PassRows, Places};
use super::step::{At, PassRecorder, ShaderStep};
use super::streamed::StreamedWeights;
use crate::kernels::{Activation, Format, KvFormat};
use crate::model::cpu::layer::{Attention, Convolution, Layer, Mlp};
use crate::model::{Config, QkNorm, RopeTable};

/// The widest head that the kernels support.
const MOST_HEAD_DIM: usize = 256;

/// The sizes of the buffers of some blocks.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) struct BlockShape {
    /// The most rows in a pass, a multiple of eight.
    pub(in crate::model) rows: usize,
    /// How many positions the model is used for; rotary scalings may depend on it.
    pub(in crate::model) capacity: usize,
    /// How many slots the KV cache has, for committed positions and rows in flight.
    pub(in crate::model) slots: usize,
    /// The number format of the cache.
    pub(in crate::model) kv: KvFormat,
}

/// Some blocks of a model on a device.
pub(in crate::model) struct GpuBlocks {
    pub(in crate::model) gpu: Arc<Gpu>,
    pub(in crate::model) config: Config,
    layers: Vec<BlockSteps>,
    pub(in crate::model) cache: Cache,
    places: Places,
    pub(in crate::model) buffers: BlockBuffers,
    /// Where each pass gets the weights from, if they do not stay on the device.
    streamed: Option<StreamedWeights>,
    /// The most rows in a pass.
    pub(in crate::model) rows: usize,
}

/// A block's weights and its steps.
struct BlockSteps {
    steps: Vec<ShaderStep>,
    /// Those that compute keys and values.
    keys: Range<usize>,
    matrices: Vec<GpuMatrix>,
    /// Norms and biases.
    vectors: Vec<GpuBuffer>,
}

impl GpuBlocks {
    /// What blocks of this kind have that the kernels do not support.
    pub(in crate::model) fn unsupported(config: &Config) -> Option<&'static str> {
        let block = &config.block;
        let known = matches!(block.activation, Activation::Silu | Activation::GeluTanh);
        let all = [
            (block.experts.is_some(), "a mixture of experts"),
            (block.latent.is_some(), "latent attention"),
            (block.recurrent.is_some(), "recurrent layers"),
            (block.output_gate && config.qkv_bias, "biases of q with gates"),
            (block.value_dim.is_some() || block.local_heads.is_some(), "heads of several widths"),
            (block.attention_out_scale != 1.0 && config.o_bias, "a factor of o's biases"),
            (block.own_kv_layers.is_some(), "keys and values of other layers"),
            (block.per_layer_dim > 0, "embeddings for each layer"),
            (block.intermediates.is_some(), "MLPs of several widths"),
            (config.qk_norm && block.qk_norm != QkNorm::PerHead, "such norms of q and k"),
            (block.parallel && block.output_norms, "norms of what runs in parallel"),
            (block.inner_norms, "norms inside of attention and MLP"),
            (!known, "a clamped activation"),
            (config.head_dim > MOST_HEAD_DIM, "heads wider than 256"),
        ];
        all.into_iter().find_map(|(has, what)| has.then_some(what))
    }

    /// Room for the blocks of a model, none of which is there yet, with the keys and values of
    /// `blocks` of them: all blocks, or only the one being computed.
    ///
    /// # Errors
    /// [`GpuError`] if the device is full or lost, or is missing something that such blocks need.
    pub(in crate::model) fn new(
        gpu: &Arc<Gpu>,
        config: &Config,
        blocks: usize,
        shape: BlockShape,
    ) -> Result<Self, GpuError> {
        if let Some(what) = Self::unsupported(config) {
            let told = format!("the GPU kernels do not support {what}");
            return Err(GpuError(told));
        }
        let tables = RopeTable::of(config, shape.capacity);
        Ok(Self {
            cache: Cache::new(gpu, config, blocks, shape.slots, shape.kv)?,
            places: Places::new(gpu, config, tables, shape.rows)?,
            buffers: BlockBuffers::new(gpu, config, shape.rows)?,
            gpu: Arc::clone(gpu),
            config: config.clone(),
            layers: Vec::new(),
            streamed: None,
            rows: shape.rows,
        })
    }

    /// Adds the next block with its matrices, in the order of [`Layer::matrices`]. Attention reads
    /// `input`, whose rows are as wide as q takes, or the residual stream, normed if the block has
    /// a norm.
    ///
    /// # Errors
    /// [`GpuError`] if the device is full or lost.
    pub(in crate::model) fn push<M>(
        &mut self,
        layer: &Layer<M>,
        matrices: Vec<GpuMatrix>,
        input: Option<&GpuBuffer>,
    ) -> Result<(), GpuError> {
        let unknown = || GpuError("the GPU kernels do not support such blocks".to_owned());
        let Some(Attention::Grouped(attention)) = &layer.attention else { return Err(unknown()) };
        let (qkv, rest) = match (&matrices[..], &attention.v) {
            ([o, q, k, v, rest @ ..], Some(_)) => ([o, q, k, v], rest),
            // Values that are keys before norm and RoPE are computed once more.
            ([o, q, k, rest @ ..], None) => ([o, q, k, k], rest),
            _ => return Err(unknown()),
        };
        let Some(Mlp::Dense(dense)) = &layer.mlp else { return Err(unknown()) };
        let (gate, rest) = match (&dense.gate, rest) {
            (Some(_), [gate, rest @ ..]) => (Some(gate), rest),
            _ => (None, rest),
        };
        let [up, down, kernels @ ..] = rest else { return Err(unknown()) };
        let convolutions: Vec<_> = (layer.convolutions.iter().flat_map(|both| &**both))
            .zip(kernels)
            .map(|(own, dynamic)| Convolution { taps: own.taps, base: own.base.clone(), dynamic })
            .collect();
        let Self { gpu, config, buffers, places, cache, layers, rows, .. } = self;
        if let (Some(own), None) = (kernels.first(), &buffers.convolution) {
            let of = |width: usize| gpu.buffer(4 * (*rows * width) as u64);
            buffers.convolution = Some([of(own.outputs)?, of(own.inputs)?]);
        }
        let mut maker = BlockMaker {
            config,
            buffers,
            places,
            cache: cache.block(layers.len()),
            kv: cache.format,
            keys: 0..0,
            steps: StepMaker::new(gpu, config.rms_eps),
        };
        maker.attend(layer, attention, qkv, convolutions.first(), input)?;
        maker.transform(layer, dense, gate, [up, down], convolutions.get(1))?;
        let BlockMaker { keys, steps: StepMaker { steps, vectors, .. }, .. } = maker;
        layers.push(BlockSteps { steps, keys, matrices, vectors });
        Ok(())
    }

    /// Adds blocks whose matrices are sent from main memory in every pass.
    ///
    /// # Errors
    /// As for [`Self::push`].
    pub(super) fn push_streamed(&mut self, weights: StreamedWeights) -> Result<(), GpuError> {
        for (layer, matrices) in weights.blocks() {
            self.push(layer, matrices, None)?;
        }
        self.streamed = Some(weights);
        Ok(())
    }

    /// Removes all blocks except the first `count` from the device, with their keys and values.
    pub(super) fn keep_first(&mut self, count: usize) {
        self.layers.truncate(count);
        self.cache.keep_first(count);
    }

    /// The format of the first block's MLP: in mixed files, the format of most weights.
    pub(in crate::model) fn format(&self) -> Option<Format> {
        // In the order of `push`: o, q, k, v, gate, up; without v or gate, the MLP's `down`.
        self.layers.first().and_then(|layer| layer.matrices.get(5)).map(|up| up.format)
    }

    /// Begins a pass over a slice of rows: sends their positions and records the remaining moves of
    /// the last commit. Returns what the steps of the pass need to run.
    ///
    /// # Errors
    /// [`GpuError`] if the device is lost or the rows see too many others.
    pub(in crate::model) fn begin(
        &mut self,
        rows: PassRows<'_>,
        recorder: &mut PassRecorder<'_>,
    ) -> Result<At, GpuError> {
        let len = self.cache.len;
        self.cache.settle(&self.gpu, recorder);
        self.places.send(&self.gpu, rows, len)?;
        Ok(At {
            rows: rows.count as u32,
            base: (len + rows.mask.first() + rows.first) as u32,
            stable: len as u32,
        })
    }

    /// Records one block's work on the stream, and submits it if the weights do not stay on the
    /// device.
    ///
    /// # Errors
    /// [`GpuError`] if the device is lost or hangs.
    pub(in crate::model) fn run(
        &mut self,
        block: usize,
        recorder: &mut PassRecorder<'_>,
        at: At,
    ) -> Result<(), GpuError> {
        if let Some(weights) = &mut self.streamed {
            weights.send(&self.gpu, block)?;
        }
        recorder.run_all(&self.layers[block].steps, at);
        if let Some(weights) = &mut self.streamed {
            weights.runs(block, recorder.submit_so_far()?);
        }
        Ok(())
    }

    /// Records the computation of every block's keys and values from rows that are where attention
    /// looks for its input.
    pub(super) fn inject(&self, recorder: &mut PassRecorder<'_>, at: At) {
        for layer in &self.layers {
            recorder.run_all(&layer.steps[layer.keys.clone()], at);
        }
    }

    /// [`Self::run`] for a block whose keys and values are in main memory: `before`, those of the
    /// first positions, are sent first. The results to read are those of the pass's rows, `[rows, 2
    /// · kv width]` numbers in the cache's format, then the first `floats` of the stream.
    ///
    /// # Errors
    /// [`GpuError`] if the device is lost, full or hangs.
    pub(super) fn run_to_read(
        &mut self,
        block: usize,
        mut recorder: PassRecorder<'_>,
        at: At,
        before: &[u8],
        floats: usize,
    ) -> Result<Reading, GpuError> {
        self.gpu.write(self.cache.block(block), 0, before);
        if let Some(weights) = &mut self.streamed {
            weights.send(&self.gpu, block)?;
        }
        recorder.run_all(&self.layers[block].steps, at);
        let words = self.cache.slot_bytes() / 4;
        let own = (self.cache.block(block), at.base as usize * words, at.rows as usize * words);
        let behind = (floats > 0).then_some((&self.buffers.stream, 0, floats));
        let parts: Vec<_> = std::iter::once(own).chain(behind).collect();
        let reading = recorder.submit_to_read(&parts)?;
        if let Some(weights) = &mut self.streamed {
            weights.runs(block, reading.submission());
        }
        Ok(reading)
    }

    /// How many blocks have their weights there.
    pub(in crate::model) fn count(&self) -> usize {
        self.layers.len()
    }

    /// Bytes of weights in main memory, which every pass sends to the device.
    pub(in crate::model) fn host_bytes(&self) -> u64 {
        self.streamed.as_ref().map_or(0, StreamedWeights::host_bytes)
    }

    /// Bytes of weights, cache and buffers.
    pub(in crate::model) fn bytes(&self) -> u64 {
        let own = |layer: &BlockSteps| layer.matrices.iter().map(GpuMatrix::bytes).sum::<u64>();
        let vectors = |layer: &BlockSteps| layer.vectors.iter().map(GpuBuffer::bytes).sum::<u64>();
        let matrices: u64 = match &self.streamed {
            // All blocks use the same buffers.
            Some(weights) => weights.device_bytes(),
            None => self.layers.iter().map(own).sum(),
        };
        let layers = matrices + self.layers.iter().map(vectors).sum::<u64>();
        layers + self.cache.bytes() + self.places.bytes() + self.buffers.bytes()
    }
}
