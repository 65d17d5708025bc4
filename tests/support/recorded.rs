//! The recorded files of the original program, tests/golden, and the models in them on the CPU.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use dovetail::kernels::{Format, KvFormat, Pool};
use dovetail::model::{Config, CpuTarget, RawTensor, WeightSource};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

use super::kernels::top;
use super::models::load_target;

pub fn golden(name: &str) -> PathBuf {
    top().join("tests/golden").join(name)
}

pub fn json(name: &str) -> Value {
    serde_json::from_slice(&File::golden(name).0).unwrap()
}

/// The numbers of a recorded target.
pub fn config(target: &str) -> Config {
    Config::from_hf_json(&json(&format!("{target}/config.json"))).unwrap()
}

/// A recorded target with a cache in f32.
pub fn recorded_target(name: &str, pool: Arc<Pool>, context: usize) -> CpuTarget {
    recorded_target_in(KvFormat::F32, name, pool, context)
}

/// The same with its KV cache in this format.
pub fn recorded_target_in(kv: KvFormat, name: &str, pool: Arc<Pool>, context: usize) -> CpuTarget {
    let weights = File::golden(&format!("{name}/model.safetensors"));
    load_target(&config(name), &weights, pool, context, kv)
}

/// A safetensors file in memory.
pub struct File(Vec<u8>);

impl File {
    pub fn golden(path: &str) -> Self {
        let path = golden(path);
        Self(std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
    }

    fn tensors(&self) -> SafeTensors<'_> {
        SafeTensors::deserialize(&self.0).unwrap()
    }

    pub fn floats(&self, name: &str) -> Vec<f32> {
        let tensors = self.tensors();
        let tensor = tensors.tensor(name).unwrap();
        assert_eq!(tensor.dtype(), Dtype::F32, "{name}");
        tensor.data().as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect()
    }

    pub fn tokens(&self, name: &str) -> Vec<u32> {
        let tensors = self.tensors();
        let tensor = tensors.tensor(name).unwrap();
        assert_eq!(tensor.dtype(), Dtype::I64, "{name}");
        tensor.data().as_chunks().0.iter().map(|&b| i64::from_le_bytes(b) as u32).collect()
    }
}

/// The file as the weights of a model.
impl WeightSource for File {
    fn describe(&self) -> String {
        "golden file".to_owned()
    }

    fn tensor(&self, name: &str) -> Option<RawTensor<'_>> {
        let header = self.tensors();
        let tensor = header.tensor(name).ok()?;
        assert_eq!(tensor.dtype(), Dtype::F32, "{name}");
        Some(RawTensor {
            format: Format::F32,
            shape: tensor.shape().to_vec(),
            bytes: Cow::Owned(tensor.data().to_vec()),
        })
    }
}

/// Fails with the place and size of the largest difference above `tolerance`.
#[track_caller]
pub fn assert_close(name: &str, found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len(), "{name}: number of values");
    let worst = found
        .iter()
        .zip(expected)
        .map(|(a, b)| (a - b).abs())
        .enumerate()
        // A NaN is worse than anything.
        .max_by(|(_, a), (_, b)| a.total_cmp(b));
    if let Some((at, difference)) = worst {
        assert!(
            difference <= tolerance,
            "{name}[{at}]: {} instead of {}, off by {difference}",
            found[at],
            expected[at]
        );
    }
}
