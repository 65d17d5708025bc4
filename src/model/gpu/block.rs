//! Decoder blocks on the device: their weights, their KV cache and the passes through them. It must
//! not depend on whose blocks they are.

use std::sync::Arc;

use super::block_steps::{BlockBuffers, BlockMaker};
use super::buffer::GpuBuffer;
use super::cache::Cache;
use super::device::{Gpu, Reading, floats_of};
use super::error::GpuError;
use super::matrix::GpuMatrix;
use super::places::{PassRows, Places};
use super::step::{At, PassRecorder, ShaderStep};
use super::streamed::StreamedWeights;
use crate::kernels::{Activation, Format, KvFormat};
use crate::model::cpu::layer::{Attention, Layer, Mlp};
use crate::model::{Config, RopeTable};

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
    gpu: Arc<Gpu>,
    config: Config,
    layers: Vec<BlockSteps>,
    cache: Cache,
    places: Places,
    buffers: BlockBuffers,
    /// Where each pass gets the weights from, if they do not stay on the device.
    streamed: Option<StreamedWeights>,
    rows: usize,
}

/// A block's weights and its steps.
struct BlockSteps {
    steps: Vec<ShaderStep>,
    matrices: Vec<GpuMatrix>,
    /// Norms and biases.
    vectors: Vec<GpuBuffer>,
}

impl GpuBlocks {
    /// Why blocks of this kind cannot run on the device; `None` if they can.
    pub(in crate::model) fn unsupported(config: &Config) -> Option<String> {
        let block = &config.block;
        let what = if block.experts.is_some() {
            "a mixture of experts"
        } else if block.latent.is_some() {
            "latent attention"
        } else if block.sinks {
            "attention sinks"
        } else if block.norm != crate::model::NormKind::Rms {
            "layer norms with a bias"
        } else if !block.gated || block.mlp_bias {
            "an MLP with biases or without a gate"
        } else if block.qk_norm_over_heads {
            "norms across all heads"
        } else if !matches!(block.activation, Activation::Silu | Activation::GeluTanh) {
            "a clamped activation"
        } else if config.head_dim > MOST_HEAD_DIM {
            "heads wider than 256"
        } else {
            return None;
        };
        Some(format!("the GPU kernels do not support {what}"))
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
        if let Some(reason) = Self::unsupported(config) {
            return Err(GpuError::Unsupported(reason));
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

    /// Adds the next block's weights. Attention reads `input`, whose rows are as wide as q takes,
    /// or the residual stream, normed if the block has a norm.
    ///
    /// # Errors
    /// [`GpuError`] if the device is full or lost.
    pub(in crate::model) fn push(
        &mut self,
        layer: Layer<GpuMatrix>,
        input: Option<&GpuBuffer>,
    ) -> Result<(), GpuError> {
        let index = self.layers.len();
        let (Attention::Grouped(attention), Mlp::Dense(mlp)) = (layer.attention, layer.mlp) else {
            return Err(GpuError::Unsupported(
                "the GPU kernels do not support such blocks".to_owned(),
            ));
        };
        let Self { gpu, config, buffers, .. } = self;
        let mut maker = BlockMaker::new(gpu, config, buffers);
        maker.attend(
            (&attention, self.cache.block(index)),
            input,
            (layer.attention_norm.as_ref(), layer.rope.map(|table| &self.places.angles[table])),
            (&self.places.paths, layer.window, self.cache.format()),
        )?;
        maker.join(
            &layer.o,
            layer.o_bias.as_deref(),
            &buffers.attended,
            layer.attention_out_norm.as_ref(),
        )?;
        maker.transform(&mlp, layer.mlp_norm.as_ref(), layer.mlp_out_norm.as_ref())?;
        let (steps, vectors) = maker.into_steps();
        let attention = *attention;
        let mlp = *mlp;
        let mut matrices = vec![attention.q, attention.k, attention.v, layer.o, mlp.up, mlp.down];
        matrices.extend(mlp.gate);
        self.layers.push(BlockSteps { steps, matrices, vectors });
        Ok(())
    }

    /// Adds room for the keys and values of one more block.
    ///
    /// # Errors
    /// [`GpuError`] if the device is full or lost.
    pub(super) fn add_cache(&mut self) -> Result<(), GpuError> {
        self.cache.add(&self.gpu)
    }

    /// Removes all blocks except the first `count` from the device, with their keys and values.
    pub(super) fn keep_first(&mut self, count: usize) {
        self.layers.truncate(count);
        self.cache.keep_first(count);
    }

    /// The device.
    pub(in crate::model) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// The residual stream `[rows, H]`.
    pub(in crate::model) fn stream(&self) -> &GpuBuffer {
        &self.buffers.stream
    }

    /// The most rows in a pass.
    pub(in crate::model) fn rows(&self) -> usize {
        self.rows
    }

    /// How many numbers a row of the stream has.
    pub(in crate::model) fn hidden(&self) -> usize {
        self.config.hidden
    }

    /// A buffer for a norm of the stream.
    pub(in crate::model) fn branch(&self) -> &GpuBuffer {
        &self.buffers.branch
    }

    /// Committed positions.
    pub(in crate::model) fn len(&self) -> usize {
        self.cache.len()
    }

    /// Slots of the KV cache.
    pub(in crate::model) fn slots(&self) -> usize {
        self.cache.slots()
    }

    /// Keeps these rows of the last pass, ascending, as the next committed positions.
    pub(in crate::model) fn commit(&mut self, path: &[usize]) {
        self.cache.commit(path);
    }

    /// Marks what was committed from `len` on as in flight again.
    pub(in crate::model) fn leave_in_flight(&mut self, len: usize) {
        self.cache.leave_in_flight(len);
    }

    /// The format of the first block's MLP: in mixed files, the format of most weights.
    pub(in crate::model) fn format(&self) -> Option<Format> {
        // In the order of `push`: q, k, v, o, up.
        self.layers.first().and_then(|layer| layer.matrices.get(4)).map(GpuMatrix::format)
    }

    /// Forgets every position from `len` on.
    pub(in crate::model) fn truncate(&mut self, len: usize) {
        self.cache.truncate(len);
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
        let len = self.cache.len();
        self.cache.settle(&self.gpu, recorder);
        self.places.send(&self.gpu, rows, len)?;
        Ok(At {
            rows: rows.positions.len() as u32,
            base: (len + rows.mask.first() + rows.first) as u32,
            stable: len as u32,
        })
    }

    /// From now on every pass gets the weights of the blocks added with `push` from main memory.
    pub(super) fn stream_from(&mut self, weights: StreamedWeights) {
        self.streamed = Some(weights);
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
        let behind = (floats > 0).then(|| (self.stream(), 0, floats));
        let parts: Vec<_> = std::iter::once(own).chain(behind).collect();
        let reading = recorder.submit_to_read(&parts)?;
        if let Some(weights) = &mut self.streamed {
            weights.runs(block, reading.submission());
        }
        Ok(reading)
    }

    /// Numbers in the cache's format, as main memory and the device store them.
    pub(super) fn cached_numbers(&self, bytes: &[u8]) -> Vec<f32> {
        match self.cache.format() {
            KvFormat::F32 => floats_of(bytes),
            KvFormat::F16 => {
                let halves = bytes.as_chunks().0.iter();
                halves.map(|&half| half::f16::from_le_bytes(half).to_f32()).collect()
            }
        }
    }

    /// Bytes of a position's keys and values in one block.
    pub(super) fn slot_bytes(&self) -> usize {
        self.cache.slot_bytes()
    }

    /// How many blocks have their weights there.
    pub(in crate::model) fn count(&self) -> usize {
        self.layers.len()
    }

    /// Marks the first `len` slots as committed positions: the rows of a causal pass are written
    /// where they belong.
    pub(in crate::model) fn place_at(&mut self, len: usize) {
        self.cache.place_at(len);
    }

    /// Keys (after RoPE) and values of one block, `[kv_heads, slots, d]` each, for the first
    /// `slots`, provided that no commit is still to be carried out. For inspection.
    ///
    /// # Errors
    /// [`GpuError`] if the device is lost.
    pub(in crate::model) fn by_head(
        &self,
        block: usize,
        slots: usize,
    ) -> Result<(Vec<f32>, Vec<f32>), GpuError> {
        let words = slots * self.cache.slot_bytes() / 4;
        let recorder = PassRecorder::new(&self.gpu);
        let read = recorder.submit_and_read(&[(self.cache.block(block), 0, words)])?;
        let numbers = self.cached_numbers(&read);
        let width = self.config.kv_width();
        let dim = self.config.head_dim;
        let from = |first: usize| -> Vec<f32> {
            let heads = (0..self.config.kv_heads).map(|head| first + head * dim);
            let all = heads.flat_map(|at| {
                numbers.chunks_exact(2 * width).flat_map(move |slot| &slot[at..at + dim])
            });
            all.copied().collect()
        };
        Ok((from(0), from(width)))
    }

    /// Bytes of weights in main memory, which every pass sends to the device.
    pub(super) fn host_bytes(&self) -> u64 {
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
