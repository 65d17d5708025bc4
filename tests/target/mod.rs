//! The target on the CPU: golden vectors, other implementations of the same models, exactness.

mod bench;
mod branches;
mod exact;
mod golden;
mod loading;
mod reference;
mod split;

use std::borrow::Cow;
use std::path::Path;

use dovetail::kernels::Format;
use dovetail::model::{RawTensor, WeightSource};
use safetensors::{Dtype, SafeTensors};

/// A safetensors file in memory.
pub struct File(Vec<u8>);

impl File {
    pub fn golden(path: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(path);
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
