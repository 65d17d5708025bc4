//! DuoDecoding on recorded models: a small one drafts while the target verifies.

use std::borrow::Cow;
use std::sync::Arc;

use dovetail::decode::RoundOptions;
use dovetail::draft::{Budget, Drafter, SmallModel};
use dovetail::kernels::{KvFormat, Pool};
use dovetail::model::{CpuTarget, RawTensor, SharedVocabulary, WeightSource};
use dovetail::plan::Schedule;
use dovetail::speculate::{Method, SamplerSettings, Shape};

use super::golden::{File, config, recorded_target};
use super::models::load_small;

/// Positions of the models' caches.
pub const CONTEXT: usize = 160;

/// A model's file with the LM head, and so every logit, multiplied by a factor.
struct Scaled(File, f32);

impl WeightSource for Scaled {
    fn describe(&self) -> String {
        self.0.describe()
    }

    fn tensor(&self, name: &str) -> Option<RawTensor<'_>> {
        let mut tensor = self.0.tensor(name)?;
        if name == "lm_head.weight" {
            let scaled = |&bytes: &[u8; 4]| (f32::from_le_bytes(bytes) * self.1).to_le_bytes();
            let bytes = tensor.bytes.as_chunks().0.iter().flat_map(scaled).collect();
            tensor.bytes = Cow::Owned(bytes);
        }
        Some(tensor)
    }
}

/// A recorded model as a drafter, with scaled logits.
pub fn small(name: &str, scale: f32, pool: Arc<Pool>) -> SmallModel {
    let weights = File::golden(&format!("{name}/model.safetensors"));
    let (config, source) = (config(name), Scaled(weights, scale));
    let lm = load_small(&config, &source, Arc::clone(&pool), CONTEXT, KvFormat::F32);
    let words = SharedVocabulary::identical(config.vocab);
    SmallModel::new(name, Box::new(lm), words).with_pool(pool)
}

/// A recorded target with a recorded model that drafts at the same time, each on its own thread.
pub fn pair(target: &str, draft: &str) -> (CpuTarget, Box<dyn Drafter>) {
    let pool = Arc::new(Pool::new(2));
    let beside = Arc::new(Pool::borrowing(Arc::clone(&pool), 1));
    let drafter = small(draft, 1.0, beside);
    (recorded_target(target, pool, CONTEXT), Box::new(drafter))
}

/// The budget for sequences of γ tokens in all.
pub fn sequences(gamma: usize, fixed: Option<usize>) -> Budget {
    let shape = Shape { gamma, width: 1, depth: gamma };
    Budget { method: Method::Sequences { fixed }, ..Budget::new(shape, 0) }
}

/// A round of DuoDecoding.
pub fn duo(gamma: usize, fixed: Option<usize>, sampler: SamplerSettings) -> RoundOptions {
    let schedule = Schedule::Overlap;
    RoundOptions { schedule, ..RoundOptions::new(sequences(gamma, fixed), sampler) }
}
