//! The recorded assistant with its target, tests/golden/drafters2026.

use std::sync::Arc;

use dovetail::draft::FeatureHead;
use dovetail::kernels::Pool;
use dovetail::library::{HeadFiles, Spec, TargetFiles};
use dovetail::model::head::{AssistantHead, HeadRequest, HeadWeights, SharedTables};
use dovetail::model::{CpuTarget, Target, WeightSource};

use super::golden::{Tensors, floats, golden, tensors};
use super::library::{arch, load_files, open_head};

pub const CONTEXT: usize = 128;

pub fn assistant_spec() -> Spec {
    Spec::Gguf(golden("drafters2026/gemma4-assistant.gguf"))
}

/// The assistant as the library opens it, its target, and the recording.
pub struct AssistantCase {
    pub files: HeadFiles,
    pub target_files: TargetFiles,
    shared: SharedTables,
    recorded: Tensors,
}

impl AssistantCase {
    pub fn load() -> Self {
        let target_files = arch("gemma4");
        let shared = SharedTables::of(&load_files(&target_files, CONTEXT, 2));
        let recorded = tensors("drafters2026/gemma4-assistant.safetensors");
        Self { files: open_head(&assistant_spec()).unwrap(), target_files, shared, recorded }
    }

    fn weights(&self) -> HeadWeights {
        HeadWeights::load(&self.files.config, self.files.tensors.as_ref()).unwrap()
    }

    fn packed(&self, weights: &HeadWeights, pool: Arc<Pool>) -> AssistantHead {
        let request = HeadRequest::new(weights, &self.shared, pool, CONTEXT).exact();
        let source = self.files.weights.as_deref().map(|source| source as &dyn WeightSource);
        AssistantHead::new(&HeadRequest { source, ..request }).unwrap()
    }

    pub fn head(&self) -> AssistantHead {
        self.packed(&self.weights(), Arc::new(Pool::new(2)))
    }

    /// The target, returning what the assistant reads.
    pub fn target(&self) -> CpuTarget {
        let mut target = load_files(&self.target_files, CONTEXT, 2);
        target.set_features(self.files.config.features(target.config().layers).unwrap());
        target
    }

    /// The assistant as a drafter that drafts ahead, next to `target`.
    pub fn drafter(&self, target: &CpuTarget) -> FeatureHead {
        let weights = self.weights();
        let cores = Arc::new(Pool::borrowing(Arc::clone(target.pool()), 1));
        let head = Box::new(self.packed(&weights, Arc::clone(&cores)));
        let source = weights.config.features(target.config().layers).unwrap();
        let drafter = FeatureHead::new(&weights.config, weights.kind(), head, CONTEXT);
        drafter.reading(source).with_cores(cores)
    }

    pub fn floats(&self, name: &str) -> Vec<f32> {
        floats(&self.recorded[name])
    }

    pub fn tokens(&self, name: &str) -> Vec<u32> {
        self.floats(name).into_iter().map(|token| token as u32).collect()
    }
}
