//! The recorded draft heads on every backend.

use std::sync::Arc;

use super::golden::{Tensors, assert_close, floats, json, target_of, tensors};
use super::gpu::gpu;
use candle_core::Tensor;
use dovetail::draft::FeatureHead;
use dovetail::kernels::{KvFormat, Pool};
use dovetail::model::head::{
    GpuHead, HeadBackend, HeadConfig, HeadPrecision, HeadWeights, PackedHead, SharedTables, Table,
};

/// Every backend that is available here.
pub fn backends() -> Vec<Backend> {
    let gpu = gpu().map(|_| Backend::Gpu);
    [Backend::Packed].into_iter().chain(gpu).collect()
}

pub const TOLERANCE: f32 = 1e-4;

#[derive(Clone, Copy, Debug)]
pub enum Backend {
    /// The CPU's kernels, weights and cache in f32.
    Packed,
    /// Our shaders, weights and cache in f32.
    Gpu,
}

/// A head, its target's matrices and its golden forward pass.
pub struct Case {
    pub name: &'static str,
    pub weights: HeadWeights,
    pub shared: SharedTables,
    pub forward: Tensors,
}

impl Case {
    pub fn load(name: &'static str) -> Self {
        let config = HeadConfig::from_json(&json(&format!("{name}/config.json"))).unwrap();
        let source = tensors(&format!("{name}/model.safetensors"));
        let target = tensors(&format!("{}/model.safetensors", target_of(name)));
        Self {
            name,
            weights: HeadWeights::load(&config, &source).unwrap(),
            shared: SharedTables {
                embedding: Table::Tensor(target["model.embed_tokens.weight"].clone()),
                lm_head: Table::Tensor(target["lm_head.weight"].clone()),
            },
            forward: tensors(&format!("draft_forward_{name}.safetensors")),
        }
    }

    pub fn backend(&self, backend: Backend) -> Box<dyn HeadBackend> {
        match backend {
            Backend::Packed => {
                Box::new(self.packed(HeadPrecision::Stored, KvFormat::F32, Arc::new(Pool::new(2))))
            }
            Backend::Gpu => Box::new(self.on_gpu(HeadPrecision::Stored, KvFormat::F32)),
        }
    }

    pub fn packed(&self, precision: HeadPrecision, kv: KvFormat, pool: Arc<Pool>) -> PackedHead {
        PackedHead::new(&self.weights, &self.shared, pool, 512, precision, kv).unwrap()
    }

    pub fn on_gpu(&self, precision: HeadPrecision, kv: KvFormat) -> GpuHead {
        let (gpu, pool) = (gpu().unwrap(), Pool::new(2));
        GpuHead::new(&self.weights, &self.shared, &gpu, &pool, 512, precision, kv).unwrap()
    }

    pub fn drafter(&self, backend: Backend) -> FeatureHead {
        let config = &self.weights.config;
        FeatureHead::new(config, self.weights.kind(), self.backend(backend), 512)
    }

    pub fn input(&self, prompt: &str) -> (Vec<f32>, Vec<u32>) {
        let features = floats(&self.forward[&format!("{prompt}.in_hidden")]);
        let tokens = self.forward[&format!("{prompt}.in_tokens")].to_vec1::<i64>().unwrap();
        (features, tokens.into_iter().map(|id| id as u32).collect())
    }

    pub fn near(&self, what: &str, found: &[f32], expected: &Tensor, tolerance: f32) {
        assert_close(&format!("{} {what}", self.name), found, &floats(expected), tolerance);
    }

    pub fn is_near(&self, what: &str, found: &[f32]) {
        self.near(what, found, &self.forward[&format!("p0.{what}")], TOLERANCE);
    }
}
