//! The central promise on every architecture: a tiny model of each (tests/golden/arch) decodes
//! under every strategy whose drafter runs on the CPU, and the text is its own, token for token.

use std::sync::Arc;

use crate::support::generate::{answer, plain, request, samplers};
use crate::support::library::{arch_file, arch_names, arch_recording, load_files, open_target};
use crate::support::models::load_small;
use candle_core::Device;
use dovetail::decode::{Arm, Engine, RoundOptions};
use dovetail::draft::{
    Budget, ContextDraft, ContextSources, Drafter, FeatureHead, Lookahead, PromptLookup, Retrieval,
    SmallModel,
};
use dovetail::kernels::{KvFormat, Pool};
use dovetail::library::{Spec, TargetFiles};
use dovetail::model::head::{FusionKind, HeadPrecision, PackedHead, SharedTables, Table};
use dovetail::model::{CpuTarget, SharedVocabulary, Target};
use dovetail::plan::{
    CostInputs, Costs, DrafterId, STRATEGIES, Schedule, Strategy, TargetSize, Throughput,
};
use dovetail::speculate::suffixes::{SortedText, sort};
use dovetail::speculate::{Method, Shape};
use dovetail::train::{DraftNet, FirstWeights, head_config};

const CONTEXT: usize = 192;
/// The length of an answer in tokens.
const LENGTH: usize = 14;

/// The drafters of the table, in the order of [`drafter_of`]. The head has random weights, so
/// nearly all of its proposals are rejected. The small model is the target itself, so all of its
/// greedy proposals are accepted. Retrieval drafts from `text`.
pub(super) fn drafters(
    files: &TargetFiles,
    target: &CpuTarget,
    text: &[u32],
    context: usize,
) -> Vec<Box<dyn Drafter>> {
    let beside = Arc::new(Pool::borrowing(Arc::clone(target.pool()), 1));
    let config = head_config(FusionKind::Dgf, &files.config, 2, true);
    let first = (FirstWeights::default(), 3);
    let net = DraftNet::new(config.clone(), FusionKind::Dgf, None, first, &Device::Cpu).unwrap();
    let weights = net.head_weights().unwrap();
    let shared = SharedTables {
        embedding: Table::Packed(target.embedding()),
        lm_head: Table::Packed(target.lm_head()),
    };
    let (precision, kv) = (HeadPrecision::Stored, KvFormat::F32);
    let backend = PackedHead::new(&weights, &shared, beside.clone(), context, precision, kv);
    let head = FeatureHead::new(&config, weights.kind(), Box::new(backend.unwrap()), context);
    let lm = load_small(&files.config, &*files.weights, beside.clone(), context, kv);
    let vocabulary = SharedVocabulary::identical(files.config.vocab);
    let small = SmallModel::new("itself", Box::new(lm), vocabulary);
    let store = SortedText { tokens: text.to_vec(), order: sort(text, |_| {}) };
    vec![
        Box::new(head.with_cores(beside.clone())),
        Box::new(small.with_pool(beside)),
        Box::new(PromptLookup::new(context)),
        Box::new(Retrieval::new(store, "a test".to_owned(), context)),
        Box::new(Lookahead::new(context)),
        Box::new(ContextDraft::new(ContextSources::Suffix, context)),
        Box::new(ContextDraft::new(ContextSources::Recycling, context)),
        Box::new(ContextDraft::new(ContextSources::Both, context)),
        Box::new(ContextDraft::new(ContextSources::Both, context)),
    ]
}

pub(super) fn drafter_of(kind: DrafterId) -> usize {
    let kinds = [
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
    let at = kinds.into_iter().position(|other| other == kind);
    at.unwrap_or_else(|| panic!("{kind:?} is not tested"))
}

/// The strategy's own tree, reduced to what a test has time for.
pub(super) fn budget(row: &Strategy) -> Budget {
    let shape = match row.method {
        Method::Sequences { .. } => Shape { gamma: 6, width: 1, depth: 6 },
        _ => row.shape.unwrap_or(Shape { gamma: 12, width: 3, depth: 4 }),
    };
    let depth = shape.depth.min(LENGTH);
    let blocks = if row.draft == DrafterId::Head { 2 } else { 0 };
    Budget { method: row.method, ..Budget::new(Shape { depth, ..shape }, blocks) }
}

/// The head and the small model take turns; every third round has neither.
pub(super) fn arm(round: usize) -> Arm {
    let kind = if round.is_multiple_of(2) { DrafterId::Head } else { DrafterId::SmallModel };
    let throughput = Throughput { multiply_adds: 1e10, bandwidth: 1e10, overhead: 1e-6 };
    let target = TargetSize { weights: 1_000_000, bytes: 2_000_000, layers: 4 };
    let costs = Costs::guess(&CostInputs { verifier: throughput, target, draft: None });
    Arm {
        drafter: drafter_of(kind),
        budget: Budget::new(Shape { gamma: 8, width: 2, depth: 3 }, 2),
        schedule: if round % 4 < 2 { Schedule::Overlap } else { Schedule::Alternate },
        rate: if round % 3 == 2 { 0.0 } else { f64::INFINITY },
        verify_times: *costs.verify_times(),
    }
}

#[test]
fn every_architecture_gives_plain_text_under_every_strategy() {
    let [greedy, _, _, filtered] = samplers();
    for name in arch_names() {
        let files = open_target(&Spec::Gguf(arch_file(&format!("{name}.gguf")))).unwrap();
        let target = load_files(&files, CONTEXT, 2);
        let prompt = arch_recording(&name, "logits").0;
        let prompt = [&prompt[..20], &prompt[..6]].concat();
        let vocab = target.vocab() as u32;
        assert!(prompt.iter().all(|&token| token < vocab), "{name}");
        let drafters = drafters(&files, &target, &prompt, CONTEXT);
        let mut engine = Engine::new(Box::new(target), drafters);
        for sampler in [greedy, filtered] {
            let request = request(&prompt, LENGTH);
            let want = answer(&mut engine, &request, plain(sampler)).0;
            assert_eq!(want.len(), LENGTH, "{name}");
            let drafts = |row: &&Strategy| !row.gpu_layers && row.draft != DrafterId::None;
            for row in STRATEGIES.iter().filter(drafts) {
                let drafter = drafter_of(row.draft);
                let options = |round: usize| RoundOptions {
                    drafter,
                    arm: (row.draft == DrafterId::Auto).then(|| arm(round)),
                    schedule: row.schedule_with(round.is_multiple_of(2)),
                    coupled: true,
                    ..RoundOptions::new(budget(row), sampler)
                };
                let (got, rounds) = answer(&mut engine, &request, options);
                assert_eq!(got, want, "{name} under {} with {sampler:?}", row.name);
                if row.draft == DrafterId::SmallModel && sampler.is_greedy() && row.name != "duo" {
                    let passes = rounds.len();
                    assert!(passes <= LENGTH / 2, "{name}, {}: {passes} passes", row.name);
                }
            }
        }
    }
}
