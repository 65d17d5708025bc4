//! Decoding with some parts on a GPU: the text equals that of plain decoding on the same devices,
//! no matter what is drafted on which device, and losing a device in the middle of an answer loses
//! no token.

use std::sync::Arc;

use crate::support::generate::{answer, plain, request, samplers};
use crate::support::gpu::{another_gpu, gpu};
use crate::support::library::{arch_file, arch_recording, load_files, open_target};
use crate::support::models::load_small;
use crate::support::toy::Letters;
use candle_core::Device;
use dovetail::decode::{Engine, RoundOptions};
use dovetail::draft::{Budget, Drafter, FeatureHead, SmallModel};
use dovetail::kernels::{KvFormat, Pool};
use dovetail::library::{Spec, TargetFiles};
use dovetail::model::head::{
    FusionKind, GpuHead, HeadBackend, HeadPrecision, HeadWeights, PackedHead, SharedTables,
};
use dovetail::model::{
    CpuTarget, Gpu, GpuDraft, GpuLimits, LoadError, LoadRequest, PlacedTarget, SharedVocabulary,
    SmallLm, Target, Traffic,
};
use dovetail::plan::{DrafterId, STRATEGIES, Schedule};
use dovetail::speculate::{Method, Shape, Tree};
use dovetail::train::{DraftNet, FirstWeights, head_config};

const CONTEXT: usize = 192;
/// The length of an answer in tokens.
const LENGTH: usize = 12;

fn files(name: &str) -> TargetFiles {
    open_target(&Spec::Gguf(arch_file(&format!("{name}.gguf")))).unwrap()
}

fn load_request<'a>(files: &'a TargetFiles, pool: &Arc<Pool>) -> LoadRequest<'a> {
    LoadRequest {
        config: &files.config,
        source: &*files.weights,
        pool: Arc::clone(pool),
        capacity: CONTEXT,
        kv: KvFormat::F16,
    }
}

/// A head with random weights, nearly all of whose proposals are rejected.
fn head_weights(files: &TargetFiles) -> HeadWeights {
    let config = head_config(FusionKind::Dgf, &files.config, 2, true);
    let first = (FirstWeights::default(), 3);
    let net = DraftNet::new(config, FusionKind::Dgf, None, first, &Device::Cpu).unwrap();
    net.head_weights().unwrap()
}

/// A head on the GPU, or on the CPU's pool.
fn head(files: &TargetFiles, tables: &CpuTarget, gpu: Option<&Arc<Gpu>>) -> FeatureHead {
    let (weights, shared) = (head_weights(files), SharedTables::of(tables));
    let pool = Arc::new(Pool::borrowing(Arc::clone(tables.pool()), 1));
    let (config, kind) = (weights.config.clone(), weights.kind());
    let (precision, kv) = (HeadPrecision::Eight, KvFormat::F16);
    let cores = Arc::clone(&pool);
    let on_gpu =
        gpu.map(|gpu| GpuHead::new(&weights, &shared, gpu, &pool, CONTEXT, precision, kv).unwrap());
    let on_cpu = move || -> Result<Box<dyn HeadBackend>, _> {
        Ok(Box::new(PackedHead::new(&weights, &shared, pool, CONTEXT, precision, kv)?))
    };
    match on_gpu {
        Some(backend) => FeatureHead::new(&config, kind, Box::new(backend), CONTEXT)
            .with_fallback(Box::new(on_cpu)),
        None => FeatureHead::new(&config, kind, on_cpu().unwrap(), CONTEXT),
    }
    .with_cores(cores)
}

/// The target itself as a small model; on one device all of its greedy proposals are right.
fn small(files: &TargetFiles, pool: &Arc<Pool>, gpu: Option<&Arc<Gpu>>) -> SmallModel {
    let beside = Arc::new(Pool::borrowing(Arc::clone(pool), 1));
    let lm: Box<dyn SmallLm> = match gpu {
        Some(gpu) => {
            Box::new(GpuDraft::load(gpu, &load_request(files, pool), &mut |_| {}).unwrap())
        }
        None => Box::new(load_small(
            &files.config,
            &*files.weights,
            Arc::clone(&beside),
            CONTEXT,
            KvFormat::F16,
        )),
    };
    let vocabulary = SharedVocabulary::identical(files.config.vocab);
    SmallModel::new("itself", lm, vocabulary).with_pool(beside)
}

/// On which devices target, head and small model are.
#[derive(Clone, Copy, Debug)]
enum Placement {
    /// The draft on the GPU, the target on the CPU (Dovetail).
    DraftOnGpu,
    /// The first blocks of the target and all drafts on the GPU, the target's last blocks on the
    /// CPU.
    Split,
    /// The target on the GPU, the small model on the CPU (DuoDecoding).
    TargetOnGpu,
    /// The same, with the target's blocks streamed in every pass.
    Streamed,
}

fn engine(files: &TargetFiles, gpu: &Arc<Gpu>, placement: Placement) -> Engine {
    let pool = Arc::new(Pool::new(2));
    let request = load_request(files, &pool);
    let drafters = |tables: &CpuTarget, small_on: Option<&Arc<Gpu>>| -> Vec<Box<dyn Drafter>> {
        let small = small(files, &pool, small_on);
        vec![Box::new(head(files, tables, Some(gpu))), Box::new(small)]
    };
    match placement {
        Placement::DraftOnGpu => {
            let target = CpuTarget::load(&request, &mut |_| {}).unwrap();
            let drafters = drafters(&target, Some(gpu));
            Engine::new(Box::new(target), drafters)
        }
        Placement::Split => {
            let layers = files.config.layers / 2;
            let target = PlacedTarget::split(gpu, layers, &request, &mut |_| {}).unwrap();
            let drafters = drafters(target.cpu(), Some(gpu));
            Engine::new(Box::new(target), drafters)
        }
        Placement::TargetOnGpu | Placement::Streamed => {
            let load = match placement {
                Placement::Streamed => PlacedTarget::streamed,
                _ => PlacedTarget::on_gpu,
            };
            let target = load(gpu, &request, &mut |_| {}).unwrap();
            let drafters = drafters(target.cpu(), None);
            Engine::new(Box::new(target), drafters)
        }
    }
}

fn prompt(name: &str) -> Vec<u32> {
    let prompt = arch_recording(name, "logits").0;
    [&prompt[..20], &prompt[..6]].concat()
}

/// Both kinds of drafts, including both devices drafting at once.
#[test]
fn every_placement_gives_plain_text_under_every_strategy() {
    let Some(gpu) = gpu() else { return };
    let [greedy, _, _, filtered] = samplers();
    let files = files("qwen3");
    let placements =
        [Placement::DraftOnGpu, Placement::Split, Placement::TargetOnGpu, Placement::Streamed];
    for placement in placements {
        let mut engine = engine(&files, &gpu, placement);
        for sampler in [greedy, filtered] {
            let request = request(&prompt("qwen3"), LENGTH);
            let want = answer(&mut engine, &request, plain(sampler)).0;
            let drafts = |kind: DrafterId| kind.is_model();
            for row in STRATEGIES.iter().filter(|row| drafts(row.draft)) {
                let shape = match row.method {
                    Method::Sequences { .. } => Shape { gamma: 6, width: 1, depth: 6 },
                    _ => row.shape.unwrap_or(Shape { gamma: 12, width: 3, depth: 4 }),
                };
                let blocks = if row.draft == DrafterId::Head { 2 } else { 0 };
                let budget = Budget { method: row.method, ..Budget::new(shape, blocks) };
                let options = |round: usize| RoundOptions {
                    drafter: usize::from(row.draft == DrafterId::SmallModel),
                    schedule: row.schedule_with(round.is_multiple_of(2)),
                    coupled: true,
                    ..RoundOptions::new(budget, sampler)
                };
                let got = answer(&mut engine, &request, options).0;
                assert_eq!(got, want, "{placement:?}, {} with {sampler:?}", row.name);
            }
        }
    }
}

/// Against the reference program's logits, as on the CPU; what the kernels do not support is
/// refused with a reason.
#[test]
fn every_architecture_gives_the_reference_logits_or_a_reason() {
    let Some(gpu) = gpu() else { return };
    let mut refused = Vec::new();
    let models = [
        ("llama", "logits"),
        ("llama3-rope-freqs", "logits"),
        ("llama-linear", "logits"),
        ("llama-yarn", "logits"),
        ("llama-tied-bias", "logits"),
        ("qwen2", "logits"),
        ("qwen3", "logits"),
        ("gemma2", "logits_exact_gelu"),
        ("gemma3", "logits_exact_gelu"),
        ("phi3", "logits"),
        ("smollm3", "logits"),
        ("granite", "logits"),
        ("olmo2", "logits"),
        ("starcoder2", "logits_exact_gelu"),
        ("mixtral", "logits"),
        ("deepseek2", "logits"),
        ("gpt-oss", "logits"),
    ];
    for (name, logits) in models {
        let (files, pool) = (files(name), Arc::new(Pool::new(2)));
        let request = LoadRequest { kv: KvFormat::F32, ..load_request(&files, &pool) };
        let mut target = match PlacedTarget::on_gpu(&gpu, &request, &mut |_| {}) {
            Ok(target) => target,
            Err(LoadError::Device { reason, .. }) => {
                assert!(reason.contains("the GPU kernels "), "{name}: {reason}");
                refused.push(name);
                continue;
            }
            Err(error) => panic!("{name}: {error}"),
        };
        let (tokens, expected) = arch_recording(name, logits);
        let mut tree = Tree::root(tokens[0]);
        tokens[1..].iter().enumerate().for_each(|(above, &token)| {
            tree.push(above, token, -1.0);
        });
        let found = target.verify(&tree).unwrap().logits;
        let pairs = found.iter().zip(&expected);
        let off = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(off < 2e-4 && found.len() == expected.len(), "{name}: off by {off}");
        // And near the CPU's own.
        let own = load_files(&files, CONTEXT, 2).verify(&tree).unwrap().logits;
        let off = found.iter().zip(&own).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(off < 2e-4, "{name}: off by {off}");
    }
    assert_eq!(refused, ["gemma3", "olmo2", "starcoder2", "mixtral", "deepseek2", "gpt-oss"]);
}

/// Rounds with and without overlap.
fn steady(blocks: usize, drafter: usize) -> impl Fn(usize) -> RoundOptions {
    move |round| {
        let shape = Shape { gamma: 8, width: 2, depth: 3 };
        let schedule = if round % 2 == 0 { Schedule::Overlap } else { Schedule::Alternate };
        let options = RoundOptions::new(Budget::new(shape, blocks), samplers()[0]);
        RoundOptions { drafter, schedule, ..options }
    }
}

/// The rounds record everything that the device has counted.
#[test]
fn rounds_say_what_went_over_the_bus() {
    let files = files("qwen3");
    let request = request(&prompt("qwen3"), LENGTH);
    for placement in [Placement::DraftOnGpu, Placement::Split, Placement::TargetOnGpu] {
        let Some(gpu) = another_gpu(GpuLimits::default()) else { return };
        let mut engine = engine(&files, &gpu, placement);
        assert!(engine.is_on_gpu());
        let options = steady(2, 0);
        let mut answer = engine.generate(request.clone(), &Letters).unwrap();
        answer.first_token(&options(0)).unwrap();
        let before = gpu.traffic();
        let mut all = Traffic::default();
        for number in 0.. {
            if answer.finish().is_some() {
                break;
            }
            let Traffic { submissions, up, down } = {
                let round = answer.step(&options(number)).unwrap();
                all += round.traffic;
                round.traffic
            };
            // The last round may have no room for a draft.
            let last = answer.finish().is_some();
            let is_asked = !(last && matches!(placement, Placement::DraftOnGpu));
            assert!(!is_asked || submissions > 0 && up > 0 && down > 0, "{placement:?} {number}");
        }
        assert_eq!(all, gpu.traffic().since(before), "{placement:?}");
        assert_eq!(answer.summary().traffic, all);
    }
    let target = CpuTarget::load(&load_request(&files, &Arc::new(Pool::new(2))), &mut |_| {});
    let mut engine = Engine::new(Box::new(target.unwrap()), []);
    let mut answer = engine.generate(request, &Letters).unwrap();
    answer.first_token(&plain(samplers()[0])(0)).unwrap();
    let round = answer.step(&plain(samplers()[0])(0)).unwrap();
    assert!(round.traffic.is_none());
    assert!(!serde_json::to_string(&round).unwrap().contains("traffic"));
}

#[test]
fn a_draft_whose_gpu_is_lost_in_an_answer_costs_no_token() {
    let files = files("qwen3");
    for (drafter, blocks) in [(0, 2), (1, 0)] {
        let Some(gpu) = another_gpu(GpuLimits::default()) else { return };
        let mut engine = engine(&files, &gpu, Placement::DraftOnGpu);
        let request = request(&prompt("qwen3"), 40);
        let want = answer(&mut engine, &request, plain(samplers()[0])).0;
        let options = steady(blocks, drafter);
        let mut answer = engine.generate(request.clone(), &Letters).unwrap();
        let mut tokens = vec![answer.first_token(&options(0)).unwrap().token];
        let mut rounds = 0;
        while answer.finish().is_none() {
            if rounds == 2 {
                gpu.destroy();
            }
            let round = answer.step(&options(rounds)).unwrap();
            tokens.extend(round.committed.iter().map(|committed| committed.token));
            rounds += 1;
        }
        assert_eq!(tokens, want, "drafter {drafter}");
        let notices = answer.take_notices();
        assert_eq!(notices.len(), 1, "one line tells: {notices:?}");
        assert!(gpu.check().is_err());
    }
}

/// After the loss, the text continues with the CPU's own tokens.
#[test]
fn a_target_whose_gpu_is_lost_goes_on_on_the_cpu_where_it_can() {
    let files = files("qwen3");
    for placement in [Placement::Split, Placement::TargetOnGpu, Placement::Streamed] {
        let Some(gpu) = another_gpu(GpuLimits::default()) else { return };
        let pool = Arc::new(Pool::new(2));
        let load = load_request(&files, &pool);
        let target = match placement {
            Placement::Split => PlacedTarget::split(&gpu, 1, &load, &mut |_| {}),
            Placement::Streamed => PlacedTarget::streamed(&gpu, &load, &mut |_| {}),
            _ => PlacedTarget::on_gpu(&gpu, &load, &mut |_| {}),
        };
        let on_cpu = || load_files(&self::files("qwen3"), CONTEXT, 2);
        let target = target.unwrap().with_fallback(Box::new(move || Ok(on_cpu())));
        let drafter: Box<dyn Drafter> = Box::new(head(&files, &on_cpu(), None));
        let mut engine = Engine::new(Box::new(target), [drafter]);
        let request = request(&prompt("qwen3"), 40);
        let options = steady(2, 0);
        let mut answer = engine.generate(request.clone(), &Letters).unwrap();
        let mut tokens = vec![answer.first_token(&options(0)).unwrap().token];
        let mut before = 0;
        for number in 0.. {
            if answer.finish().is_some() {
                break;
            }
            if number == 2 {
                before = tokens.len();
                gpu.destroy();
            }
            let round = answer.step(&options(number)).unwrap();
            tokens.extend(round.committed.iter().map(|committed| committed.token));
        }
        let notices = answer.take_notices();
        assert_eq!(notices.len(), 1, "one line tells: {notices:?}");
        assert!(notices[0].ends_with("the target continues on the CPU"), "{notices:?}");
        assert_eq!(tokens.len(), 40);
        let mut alone = Engine::new(Box::new(on_cpu()), []);
        let so_far = [&request.prompt[..], &tokens[..before]].concat();
        let rest = self::request(&so_far, 40 - before);
        let expected = self::answer(&mut alone, &rest, plain(samplers()[0])).0;
        assert_eq!(tokens[before..], expected, "{placement:?}");
    }
}

#[test]
fn a_target_whose_gpu_is_lost_ends_the_answer_with_what_was_said() {
    let files = files("qwen3");
    for placement in [Placement::Split, Placement::TargetOnGpu, Placement::Streamed] {
        let Some(gpu) = another_gpu(GpuLimits::default()) else { return };
        let mut engine = engine(&files, &gpu, placement);
        let request = request(&prompt("qwen3"), 40);
        let want = answer(&mut engine, &request, plain(samplers()[0])).0;
        let options = steady(2, 0);
        let mut answer = engine.generate(request.clone(), &Letters).unwrap();
        let mut tokens = vec![answer.first_token(&options(0)).unwrap().token];
        for round in 0..2 {
            let round = answer.step(&options(round)).unwrap();
            tokens.extend(round.committed.iter().map(|committed| committed.token));
        }
        gpu.destroy();
        let error = answer.step(&options(2)).unwrap_err().to_string();
        assert!(error.contains("the target's device failed: the GPU was lost"), "{error}");
        assert_eq!(tokens, want[..tokens.len()], "{placement:?}");
    }
}
