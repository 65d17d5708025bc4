//! Every drafter that a strategy can name, on models without training, and the promise that each
//! strategy keeps.

use std::sync::Arc;

use candle_core::Device;
use dovetail::decode::{Engine, RoundOptions};
use dovetail::draft::{
    Budget, ContextDraft, Drafter, FeatureHead, Lookahead, PromptLookup, Retrieval, SmallModel,
};
use dovetail::kernels::{KvFormat, Pool};
use dovetail::library::TargetFiles;
use dovetail::model::head::{DraftPrecision, FusionKind, GpuHead, HeadRequest, SharedTables};
use dovetail::model::{CpuTarget, Gpu, GpuDraft, LoadRequest, SharedVocabulary, SmallLm};
use dovetail::plan::{Arm, DrafterId, STRATEGIES, Schedule, Strategy};
use dovetail::speculate::suffixes::{SortedText, sort};
use dovetail::speculate::{Method, SamplerSettings, Shape};
use dovetail::train::{DraftNet, FirstWeights, head_config};

use super::generate::{answer, plain, request, samplers, verify_times};
use super::models::load_small;
use super::mtp::own_head;

/// A head with random weights, nearly all of whose proposals are rejected, on the GPU or on the
/// CPU's pool.
pub fn random_head(
    files: &TargetFiles,
    target: &CpuTarget,
    gpu: Option<&Arc<Gpu>>,
    context: usize,
    precision: DraftPrecision,
    kv: KvFormat,
) -> FeatureHead {
    let config = head_config(FusionKind::Dgf, &files.config, 2, true);
    let first = (FirstWeights::default(), 3);
    let net = DraftNet::new(config.clone(), None, first, &Device::Cpu).unwrap();
    let (weights, shared) = (net.head_weights().unwrap(), SharedTables::of(target));
    let cores = Arc::new(Pool::borrowing(Arc::clone(target.pool()), 1));
    let pool = Arc::clone(&cores);
    let request = HeadRequest::new(&weights, &shared, Arc::clone(&pool), context);
    let request = HeadRequest { precision, kv, ..request };
    let on_gpu = gpu.map(|gpu| GpuHead::new(gpu, &request).unwrap());
    let on_cpu = move || {
        let request = HeadRequest::new(&weights, &shared, pool, context);
        HeadRequest { precision, kv, ..request }.on_cpu()
    };
    match on_gpu {
        Some(backend) => {
            FeatureHead::new(&config, Box::new(backend), context).with_fallback(Box::new(on_cpu))
        }
        None => FeatureHead::new(&config, on_cpu().unwrap(), context),
    }
    .with_cores(cores)
}

/// The target itself as a small model; on one device all of its greedy proposals are right.
pub fn itself(load: &LoadRequest<'_>, gpu: Option<&Arc<Gpu>>) -> SmallModel {
    let beside = Arc::new(Pool::borrowing(Arc::clone(&load.pool), 1));
    let lm: Box<dyn SmallLm> = match gpu {
        Some(gpu) => Box::new(GpuDraft::load(gpu, load).unwrap()),
        None => {
            let pool = Arc::clone(&beside);
            Box::new(load_small(load.config, load.source, pool, load.capacity, load.kv))
        }
    };
    let vocabulary = SharedVocabulary::identical(load.config.vocab);
    SmallModel::new("itself", lm, vocabulary).with_pool(beside)
}

/// The order of [`drafters`].
const KINDS: [DrafterId; 9] = [
    DrafterId::Head,
    DrafterId::SmallModel,
    DrafterId::Lookup,
    DrafterId::Retrieval,
    DrafterId::Lookahead,
    DrafterId::Suffix,
    DrafterId::Recycling,
    DrafterId::Context,
    DrafterId::Auto,
];

/// A drafter of each kind on the CPU: the head in the target's file, or a random one; retrieval
/// drafts from `text`.
pub fn drafters(
    files: &TargetFiles,
    target: &CpuTarget,
    text: &[u32],
    context: usize,
) -> Vec<Box<dyn Drafter>> {
    let (config, source, pool) = (&files.config, &*files.weights, Arc::clone(target.pool()));
    let kv = KvFormat::F32;
    let load = LoadRequest::new(config, source, pool, context, kv);
    let random = || random_head(files, target, None, context, DraftPrecision::Stored, kv);
    let head = own_head(files, target, context).unwrap_or_else(random);
    let store = SortedText { tokens: text.to_vec(), order: sort(text, |_| {}) };
    let of = |sources| Box::new(ContextDraft::new(sources));
    vec![
        Box::new(head),
        Box::new(itself(&load, None)),
        Box::new(PromptLookup::default()),
        Box::new(Retrieval::new(store, "a test".to_owned())),
        Box::new(Lookahead::default()),
        of(DrafterId::Suffix),
        of(DrafterId::Recycling),
        of(DrafterId::Context),
        of(DrafterId::Context),
    ]
}

fn drafter_of(kind: DrafterId) -> usize {
    let at = KINDS.into_iter().position(|other| other == kind);
    at.unwrap_or_else(|| panic!("{kind:?} is not tested"))
}

/// The head and the small model take turns; every third round has neither.
fn arm(round: usize) -> Arm {
    let kind = if round.is_multiple_of(2) { DrafterId::Head } else { DrafterId::SmallModel };
    Arm {
        drafter: drafter_of(kind),
        budget: Budget::new(Shape { gamma: 8, width: 2, depth: 3 }, 2),
        schedule: if round % 4 < 2 { Schedule::Overlap } else { Schedule::Alternate },
        rate: if round % 3 == 2 { 0.0 } else { f64::INFINITY },
        verify_times: verify_times(),
        least_pass: if round % 8 < 4 { 0.3 } else { 0.0 },
        cut: round % 8 < 4,
    }
}

/// The largest trees that a test on the CPU has time for.
pub const ON_CPU: Shape = Shape { gamma: 128, width: 32, depth: 14 };
/// The same for a test on a GPU, which is a software GPU in most places.
pub const ON_GPU: Shape = Shape { gamma: 16, width: 4, depth: 4 };

/// A strategy's rounds, with its own tree reduced to `most`.
pub fn rounds_of(
    row: &Strategy,
    sampler: SamplerSettings,
    most: Shape,
) -> impl Fn(usize) -> RoundOptions {
    let shape = match row.method {
        Method::Sequences { .. } => Shape { gamma: 6, width: 1, depth: 6 },
        _ => row.shape.unwrap_or(Shape { gamma: 12, width: 3, depth: 4 }),
    };
    let shape = Shape {
        gamma: shape.gamma.min(most.gamma),
        width: shape.width.min(most.width),
        depth: shape.depth.min(most.depth),
    };
    let blocks = if row.draft == DrafterId::Head { 2 } else { 0 };
    let budget = Budget { method: row.method, ..Budget::new(shape, blocks) };
    move |round| RoundOptions {
        drafter: drafter_of(row.draft),
        arm: (row.draft == DrafterId::Auto).then(|| arm(round)),
        schedule: row.schedule_with(round.is_multiple_of(2)),
        coupled: true,
        ..RoundOptions::new(budget, sampler)
    }
}

/// The strategies that draft, with all models on the CPU, and for any target: a DFlash drafter
/// cannot be made for one without training.
pub fn on_the_cpu() -> impl Iterator<Item = &'static Strategy> + Clone {
    let others = [DrafterId::None, DrafterId::Dflash];
    STRATEGIES.iter().filter(move |row| !row.gpu_layers && !others.contains(&row.draft))
}

/// Greedy and with all filters.
pub fn two_samplers() -> [SamplerSettings; 2] {
    let [greedy, _, _, filtered] = samplers();
    [greedy, filtered]
}

/// Under each of these strategies, with trees of up to `most`, an answer of `length` tokens is that
/// of plain decoding on the same engine with the same sampler.
pub fn every_strategy_gives_plain_text(
    what: &str,
    engine: &mut Engine,
    prompt: &[u32],
    length: usize,
    most: Shape,
    strategies: impl Fn(SamplerSettings) -> Vec<&'static Strategy>,
) {
    for sampler in two_samplers() {
        let request = request(prompt, length);
        let want = answer(engine, &request, plain(sampler)).0;
        assert_eq!(want.len(), length, "{what}");
        for row in strategies(sampler) {
            let (got, rounds) = answer(engine, &request, rounds_of(row, sampler, most));
            assert_eq!(got, want, "{what} under {} with {sampler:?}", row.name);
            // On the CPU the small model is the target in every bit.
            let right = row.draft == DrafterId::SmallModel && sampler.is_greedy();
            if right && row.name != "duo" && !engine.is_on_gpu() {
                assert!(rounds.len() <= length / 2, "{what}, {}: {}", row.name, rounds.len());
            }
        }
    }
}
