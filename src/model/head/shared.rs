//! The head's share of its target: embedding and LM head as tensors, from weights of any format.

use std::borrow::Cow;

use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{DType, Device, Tensor};

use super::{HeadError, Shared, Table};
use crate::kernels::Format;
use crate::model::weights::{EMBEDDING, HEAD};
use crate::model::{Config, RawTensor, WeightSource};

impl Shared {
    /// Reads the two matrices of the target of this configuration into main memory: floats as they
    /// are, quantised ones as f32. A tied target gives one tensor twice.
    ///
    /// # Errors
    /// [`HeadError::Unreadable`] if the source lacks one or its bytes do not fill its shape.
    pub fn read(config: &Config, source: &dyn WeightSource) -> Result<Self, HeadError> {
        let embedding = read(EMBEDDING, config, source)?;
        let lm_head =
            if config.tied_head { embedding.clone() } else { read(HEAD, config, source)? };
        Ok(Self { embedding: Table::Tensor(embedding), lm_head: Table::Tensor(lm_head) })
    }
}

fn read(name: &str, config: &Config, source: &dyn WeightSource) -> Result<Tensor, HeadError> {
    let unreadable = |reason: String| HeadError::Unreadable { name: name.to_owned(), reason };
    let raw = source
        .tensor(name)
        .ok_or_else(|| unreadable(format!("{} does not have it", source.describe())))?;
    let expected = vec![config.vocab, config.hidden];
    if raw.shape != expected {
        return Err(unreadable(format!("its shape is {:?}, not {expected:?}", raw.shape)));
    }
    let full = raw.format.row_bytes(config.hidden).map(|bytes| bytes * config.vocab);
    if full != Some(raw.bytes.len()) {
        return Err(unreadable(format!("it has {} bytes, not {full:?}", raw.bytes.len())));
    }
    tensor(raw).map_err(|error| unreadable(error.to_string()))
}

fn tensor(raw: RawTensor<'_>) -> candle_core::Result<Tensor> {
    let float = |dtype| Tensor::from_raw_buffer(&raw.bytes, dtype, &raw.shape, &Device::Cpu);
    let blocks = |dtype| {
        let bytes = Cow::Borrowed(raw.bytes.as_ref());
        let storage = QStorage::from_data(bytes, &Device::Cpu, dtype)?;
        QTensor::new(storage, raw.shape.as_slice())?.dequantize(&Device::Cpu)
    };
    match raw.format {
        Format::F32 => float(DType::F32),
        Format::F16 => float(DType::F16),
        Format::BF16 => float(DType::BF16),
        Format::Q8_0 => blocks(GgmlDType::Q8_0),
        Format::Q4_0 => blocks(GgmlDType::Q4_0),
        Format::Q4K => blocks(GgmlDType::Q4K),
        Format::Q5K => blocks(GgmlDType::Q5K),
        Format::Q6K => blocks(GgmlDType::Q6K),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Matrix, Pool};
    use crate::model::{KnownShape, RandomWeights};

    #[test]
    fn every_format_reads_as_the_kernels_read_it() {
        let config = Config { vocab: 64, hidden: 256, tied_head: false, ..KnownShape::B1.config() };
        let pool = Pool::new(1);
        for format in Format::ALL {
            let source = RandomWeights::new(&config, format, 7);
            let shared = Shared::read(&config, &source).unwrap();
            let raw = source.tensor(HEAD).unwrap();
            let matrix =
                Matrix::pack(raw.format, config.vocab, config.hidden, &raw.bytes, &pool).unwrap();
            let read = shared.lm_head.to_tensor(&Device::Cpu, DType::F32).unwrap();
            let read = read.to_vec2::<f32>().unwrap();
            let mut row = vec![0.0; config.hidden];
            for (i, read) in read.iter().enumerate() {
                matrix.row(i, &mut row);
                for (a, b) in read.iter().zip(&row) {
                    assert!((a - b).abs() <= 1e-6 * b.abs().max(1.0), "{format} row {i}: {a} {b}");
                }
            }
        }
    }
}
