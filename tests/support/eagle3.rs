//! The recorded EAGLE-3 heads and their target, tests/golden/eagle3.

use std::sync::Arc;

use super::golden::{Tensors, golden, recorded_target, tensors};
use super::gpu::gpu;
use super::heads::{Backend, Trees};
use candle_core::Device;
use dovetail::draft::FeatureHead;
use dovetail::kernels::{KvFormat, Pool};
use dovetail::library::{HeadFiles, Spec, check_fit, open_head};
use dovetail::model::head::{
    DraftPrecision, GpuHead, HeadBackend, HeadRequest, HeadWeights, PackedHead, SharedTables,
};
use dovetail::model::{CpuTarget, FeatureSource, Target};

pub const EAGLE3_HEADS: [&str; 4] =
    ["head_eagle3", "head_ownembed", "head_speculators", "head_eagle31"];
pub const CONTEXT: usize = 256;

/// The target in f32, with nothing committed.
pub fn eagle3_target() -> CpuTarget {
    recorded_target("eagle3/target", Arc::new(Pool::new(2)), CONTEXT)
}

pub fn eagle3_files(name: &str) -> HeadFiles {
    let folder = golden(&format!("eagle3/{name}"));
    open_head(&Spec::Folder(folder), &mut |_| {}).unwrap_or_else(|error| panic!("{error}"))
}

/// A head as the library opens it, and its vectors.
pub struct Eagle3Case {
    pub weights: HeadWeights,
    pub shared: SharedTables,
    /// What it reads of the target.
    pub source: FeatureSource,
    pub vectors: Tensors,
}

impl Eagle3Case {
    pub fn load(name: &str) -> Self {
        let files = eagle3_files(name);
        let target = eagle3_target();
        check_fit(target.config(), &files).unwrap();
        Self {
            weights: HeadWeights::load(&files.config, files.tensors.as_ref()).unwrap(),
            shared: SharedTables::of(&target),
            source: files.config.features(target.config().layers).unwrap(),
            vectors: tensors(&format!("eagle3/vectors_{name}.safetensors")),
        }
    }

    pub fn backend(&self, backend: Backend) -> Box<dyn HeadBackend> {
        match backend {
            Backend::Packed => Box::new(self.packed(DraftPrecision::Stored, KvFormat::F32)),
            Backend::Gpu => {
                Box::new(GpuHead::new(&gpu().unwrap(), &self.request().exact()).unwrap())
            }
        }
    }

    pub fn packed(&self, precision: DraftPrecision, kv: KvFormat) -> PackedHead {
        PackedHead::new(&HeadRequest { precision, kv, ..self.request() }).unwrap()
    }

    fn request(&self) -> HeadRequest<'_> {
        HeadRequest::new(&self.weights, &self.shared, Arc::new(Pool::new(2)), CONTEXT)
    }

    pub fn drafter(&self, backend: Backend) -> FeatureHead {
        let head = FeatureHead::new(&self.weights.config, self.backend(backend), CONTEXT);
        head.reading(self.source.clone())
    }

    /// The target, returning what the head reads.
    pub fn target(&self) -> CpuTarget {
        let mut target = eagle3_target();
        target.set_features(self.source.clone());
        target
    }

    /// The head's embedding of tokens, `[tokens, H]`.
    pub fn embeddings(&self, tokens: &[u32]) -> candle_core::Tensor {
        let table = match self.weights.get("embed_tokens.weight") {
            Some(own) => own.clone(),
            None => {
                let matrix = &self.shared.embedding;
                let mut values = vec![0.0; matrix.outputs() * matrix.inputs()];
                for (row, values) in values.chunks_exact_mut(matrix.inputs()).enumerate() {
                    matrix.row(row, values);
                }
                let shape = (matrix.outputs(), matrix.inputs());
                candle_core::Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
            }
        };
        let index = candle_core::Tensor::from_slice(tokens, tokens.len(), &Device::Cpu).unwrap();
        table.index_select(&index, 0).unwrap()
    }
}

pub fn eagle3_trees() -> Trees {
    Trees::load("eagle3/trees.json")
}
