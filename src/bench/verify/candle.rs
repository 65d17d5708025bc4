//! The same linear layers through candle's quantised product, for comparison. Must never know our
//! kernels.
//!
//! candle keeps a packed copy of a matrix beside the original, so a second model would often not
//! fit: a few layers, more than any cache holds, are run over and over in place of all.

use candle_core::quantized::{GgmlDType, QMatMul, ggml_file::qtensor_from_ggml};
use candle_core::{Device, Module, Result, Tensor};

use crate::kernels::Format;
use crate::model::weights::{EMBEDDING, HEAD, layer_name};
use crate::model::{Config, RandomWeights, WeightSource};

/// Weights that are surely not in a cache the next time they are read.
const DISTINCT_BYTES: usize = 1 << 30;

const PARTS: [&str; 7] = [
    "self_attn.q_proj.weight",
    "self_attn.k_proj.weight",
    "self_attn.v_proj.weight",
    "self_attn.o_proj.weight",
    "mlp.gate_proj.weight",
    "mlp.up_proj.weight",
    "mlp.down_proj.weight",
];

/// The linear layers of one pass.
pub(super) struct CandlePass {
    /// Distinct layers; each product with its input width.
    layers: Vec<Vec<(usize, QMatMul)>>,
    head: (usize, QMatMul),
    config: Config,
}

impl CandlePass {
    pub(super) fn new(config: &Config, format: Format) -> Result<Self> {
        let weights = RandomWeights::new(config, format, 1);
        let product = |name: &str| -> Result<(usize, usize, QMatMul)> {
            let tensor = weights.tensor(name);
            let tensor = tensor.ok_or_else(|| candle_core::Error::Msg(name.to_owned()))?;
            let (width, bytes) = (tensor.shape[1], tensor.bytes.len());
            let quantised =
                qtensor_from_ggml(dtype(format)?, &tensor.bytes, tensor.shape, &Device::Cpu)?;
            Ok((bytes, width, QMatMul::from_qtensor(quantised)?))
        };
        let mut layers = Vec::new();
        let mut held = 0;
        while layers.len() < config.layers && held < DISTINCT_BYTES {
            let mut layer = Vec::new();
            for part in PARTS {
                let (bytes, width, matrix) = product(&layer_name(layers.len(), part))?;
                held += bytes;
                layer.push((width, matrix));
            }
            layers.push(layer);
        }
        let head = if config.tied_head { EMBEDDING } else { HEAD };
        let (_, width, matrix) = product(head)?;
        Ok(Self { layers, head: (width, matrix), config: config.clone() })
    }

    /// All products of a pass over `gamma` rows, on activations of no meaning.
    pub(super) fn run(&self, gamma: usize) -> Result<()> {
        let row =
            |width: usize| Tensor::ones((gamma, width), candle_core::DType::F32, &Device::Cpu);
        for layer in self.layers.iter().cycle().take(self.config.layers) {
            for (width, matrix) in layer {
                matrix.forward(&row(*width)?)?;
            }
        }
        let (width, matrix) = &self.head;
        matrix.forward(&row(*width)?)?;
        Ok(())
    }
}

fn dtype(format: Format) -> Result<GgmlDType> {
    Ok(match format {
        Format::F32 => GgmlDType::F32,
        Format::F16 => GgmlDType::F16,
        Format::BF16 => GgmlDType::BF16,
        Format::Q8_0 => GgmlDType::Q8_0,
        Format::Q4_0 => GgmlDType::Q4_0,
        Format::Q4_1 => GgmlDType::Q4_1,
        Format::Q5_0 => GgmlDType::Q5_0,
        Format::Q5_1 => GgmlDType::Q5_1,
        Format::Q2K => GgmlDType::Q2K,
        Format::Q3K => GgmlDType::Q3K,
        Format::Q4K => GgmlDType::Q4K,
        Format::Q5K => GgmlDType::Q5K,
        Format::Q6K => GgmlDType::Q6K,
        other => {
            candle_core::bail!("it has no product for the format {other}; leave out --against")
        }
    })
}
