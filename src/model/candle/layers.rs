//! The first blocks of a target as candle tensors on any device, with their KV cache. It must not
//! depend on what runs the other blocks.

use std::sync::Arc;

use candle_core::{DType, Device, Tensor};

use super::block::{Block, Places};
use super::cache::TensorCache;
use super::table::Table;
use super::weights::{BlockWeights, Linear};
use crate::kernels::{Matrix, TreeMask};
use crate::model::cpu::layer::{Attention, Layer, Mlp, Norm};
use crate::model::cpu::packer::Packer;
use crate::model::lower::Lower;
use crate::model::taps::Taps;
use crate::model::{Config, LoadError, LoadRequest, Progress, RopeScaling, RopeTable, TargetError};

const ONLY_PLAIN: &str = "only blocks of Llama and Qwen2 can run outside the CPU, not those of \
    this family";

/// Which first blocks of a split target are on another device.
#[derive(Clone, Debug)]
pub struct DeviceLayers {
    /// How many blocks; fewer than the model has, since the LM head stays on the CPU.
    pub layers: usize,
    /// Their device.
    pub device: Device,
    /// Their precision.
    pub dtype: DType,
}

pub(in crate::model) struct TensorLayers {
    config: Config,
    blocks: Vec<Block>,
    cache: TensorCache,
    rope: RopeTable,
    device: Device,
    dtype: DType,
    /// Committed positions.
    len: usize,
    /// Why the cache cannot be relied on, if a commit failed.
    lost: Option<String>,
}

impl TensorLayers {
    pub(in crate::model) fn load(
        lower_layers: &DeviceLayers,
        request: &LoadRequest<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, LoadError> {
        let &LoadRequest { config, source, ref pool, capacity, .. } = request;
        let &DeviceLayers { layers, ref device, dtype } = lower_layers;
        let failed = |reason: String| LoadError::Device { layers, reason };
        if layers >= config.layers {
            let most = config.layers.saturating_sub(1);
            return Err(failed(format!(
                "at most {most} of its {} blocks can run outside the CPU",
                config.layers
            )));
        }
        let stretched =
            matches!(config.rope_scaling, RopeScaling::Yarn { .. } | RopeScaling::Long { .. });
        if config.o_bias || config.qk_norm || stretched || !config.block.is_plain() {
            return Err(failed(ONLY_PLAIN.to_owned()));
        }
        let total = Packer::count(config, 0..layers);
        let mut packer = Packer::new(source, pool, total, progress);
        let mut blocks = Vec::with_capacity(layers);
        for index in 0..layers {
            // Packed first, which checks the shapes and reorders q and k; then widened.
            let layer = packer.layer(config, index)?;
            let Some(block) = tensors(layer, device, dtype) else {
                return Err(failed(ONLY_PLAIN.to_owned()));
            };
            let block = block.and_then(|block| Block::new(&block, config));
            blocks.push(block.map_err(|error| failed(error.to_string()))?);
        }
        let cache = TensorCache::new(layers, config.kv_heads, config.head_dim, dtype, device);
        let mut cache = cache.map_err(|error| failed(error.to_string()))?;
        // The whole cache is reserved at once, because we must know before the first answer whether
        // it fits.
        cache.reserve(capacity, 0).map_err(|error| failed(error.to_string()))?;
        Ok(Self {
            rope: RopeTable::of(config, capacity).swap_remove(0),
            config: config.clone(),
            blocks,
            cache,
            device: device.clone(),
            dtype,
            len: 0,
            lost: None,
        })
    }

    fn places(&self, positions: &[usize], mask: &TreeMask) -> candle_core::Result<Places> {
        let (rows, len) = (positions.len(), self.len + positions.len());
        let mut bias = vec![f32::NEG_INFINITY; rows * len];
        for (row, bias) in bias.chunks_exact_mut(len).enumerate() {
            bias[..self.len].fill(0.0);
            for &seen in mask.visible(row) {
                bias[self.len + seen as usize] = 0.0;
            }
        }
        let bias = Tensor::from_vec(bias, (rows, len), &self.device)?;
        Places::new(&self.rope, positions, Some(bias), self.len, (&self.device, self.dtype))
    }

    fn run(
        &mut self,
        stream: &mut [f32],
        positions: &[usize],
        mask: &TreeMask,
        taps: &mut Taps<'_>,
    ) -> candle_core::Result<()> {
        self.cache.reserve(self.len + positions.len(), self.len)?;
        let places = self.places(positions, mask)?;
        let shape = (positions.len(), self.config.hidden);
        let mut x = Tensor::from_slice(stream, shape, &self.device)?.to_dtype(self.dtype)?;
        for (index, block) in self.blocks.iter().enumerate() {
            if taps.want(index) {
                taps.take(index, &floats(&x)?);
            }
            x = block.run(x, &self.config, &places, self.cache.block(index))?;
        }
        stream.copy_from_slice(&floats(&x)?);
        Ok(())
    }

    /// Moves the kept rows of each block to the end of the committed rows.
    fn gather(&self, path: &[usize]) -> candle_core::Result<()> {
        if path.iter().enumerate().all(|(i, &row)| i == row) {
            return Ok(());
        }
        let rows: Vec<u32> = path.iter().map(|&row| row as u32).collect();
        let rows = Tensor::from_slice(&rows, rows.len(), &self.device)?;
        let tail = path.last().map_or(0, |&last| last + 1);
        for index in 0..self.blocks.len() {
            let cache = self.cache.block(index);
            let (keys, values) = cache.read(self.len + tail)?;
            // The rows in flight are copied, because they are then written over each other.
            let kept =
                |all: Tensor| all.narrow(1, self.len, tail)?.contiguous()?.index_select(&rows, 1);
            cache.write(self.len, &kept(keys)?, &kept(values)?)?;
        }
        Ok(())
    }
}

impl Lower for TensorLayers {
    fn pass(
        &mut self,
        stream: &mut [f32],
        positions: &[usize],
        mask: &TreeMask,
        taps: &mut Taps<'_>,
    ) -> Result<(), TargetError> {
        if let Some(reason) = &self.lost {
            return Err(TargetError::Device(reason.clone()));
        }
        self.run(stream, positions, mask, taps)
            .map_err(|error| TargetError::Device(error.to_string()))
    }

    fn commit(&mut self, path: &[usize]) {
        // A commit does not report failures; the next pass will.
        self.lost = self.gather(path).err().map(|error| error.to_string());
        self.len += path.len();
    }

    fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        if len == 0 {
            self.lost = None;
        }
    }

    fn bytes(&self) -> u64 {
        let weights: usize = self.blocks.iter().map(Block::elements).sum();
        (weights * self.dtype.size_in_bytes()) as u64 + self.cache.bytes()
    }
}

fn floats(x: &Tensor) -> candle_core::Result<Vec<f32>> {
    x.to_dtype(DType::F32)?.flatten_all()?.to_vec1()
}

/// A packed block as tensors; `None` if it is not a block like Llama's.
fn tensors(
    layer: Layer,
    device: &Device,
    dtype: DType,
) -> Option<candle_core::Result<BlockWeights>> {
    let (Attention::Grouped(attention), Mlp::Dense(mlp)) = (layer.attention, layer.mlp) else {
        return None;
    };
    let (attention, mlp) = (*attention, *mlp);
    let (gate, post_norm) = (mlp.gate?, layer.mlp_norm?);
    let matrix = |matrix: Matrix| Table::Packed(Arc::new(matrix)).to_tensor(device, dtype);
    let vector = |values: Vec<f32>| {
        Tensor::from_slice(&values, values.len(), &Device::Cpu)?.to_dtype(dtype)?.to_device(device)
    };
    let norm = |norm: Norm| vector(norm.weight);
    let [q_bias, k_bias, v_bias] = match attention.qkv_bias {
        Some(biases) => biases.map(Some),
        None => [const { None }; 3],
    };
    let linear = |weight: Matrix, bias: Option<Vec<f32>>| {
        Ok::<_, candle_core::Error>(Linear {
            weight: matrix(weight)?,
            bias: bias.map(vector).transpose()?,
        })
    };
    let all = || {
        Ok(BlockWeights {
            qk_norm: None,
            input_norm: layer.attention_norm.map(norm).transpose()?,
            q: linear(attention.q, q_bias)?,
            k: linear(attention.k, k_bias)?,
            v: linear(attention.v, v_bias)?,
            o: matrix(layer.o)?,
            post_norm: norm(post_norm)?,
            gate: matrix(gate)?,
            up: matrix(mlp.up)?,
            down: matrix(mlp.down)?,
        })
    };
    Some(all())
}
