//! Decoding with some parts on a GPU: the text equals that of plain decoding on the same devices,
//! no matter what is drafted on which device, and losing a device in the middle of an answer loses
//! no token.

use std::sync::Arc;

use crate::support::dflash::{self, DflashCase};
use crate::support::drafters::{ON_GPU, every_strategy_gives_plain_text, itself, random_head};
use crate::support::generate::{answer, changing, generate_with, plain, request, samplers};
use crate::support::gpu::{another_gpu, gpu};
use crate::support::library::{arch, arch_recording, load_files};
use crate::support::mtp::{MtpCase, Vectors};
use crate::support::recorded::assert_close;
use crate::support::toy::Letters;
use dovetail::decode::{Engine, RoundOptions};
use dovetail::draft::{Budget, Dflash, Drafter, FeatureHead};
use dovetail::kernels::{KvFormat, Pool};
use dovetail::library::TargetFiles;
use dovetail::model::head::DraftPrecision;
use dovetail::model::{
    Config, CpuTarget, Gpu, GpuLimits, LoadError, LoadRequest, PlacedTarget, RawTensor, Target,
    Traffic, WeightSource,
};
use dovetail::plan::{DrafterId, STRATEGIES, Schedule};
use dovetail::speculate::{Shape, Tree};

const CONTEXT: usize = 192;

fn load_request<'a>(files: &'a TargetFiles, pool: &Arc<Pool>) -> LoadRequest<'a> {
    let (config, source, pool) = (&files.config, &*files.weights, Arc::clone(pool));
    LoadRequest::new(config, source, pool, CONTEXT, KvFormat::F16)
}

fn head(files: &TargetFiles, tables: &CpuTarget, gpu: Option<&Arc<Gpu>>) -> FeatureHead {
    random_head(files, tables, gpu, CONTEXT, DraftPrecision::Eight, KvFormat::F16)
}

/// On which devices target, head and small model are.
#[derive(Clone, Copy, Debug, PartialEq)]
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

impl Placement {
    const ALL: [Self; 4] = [Self::DraftOnGpu, Self::Split, Self::TargetOnGpu, Self::Streamed];

    fn place(self, gpu: &Arc<Gpu>, load: &LoadRequest<'_>) -> PlacedTarget {
        let placed = match self {
            Self::DraftOnGpu => panic!("its target is on the CPU"),
            Self::Split => {
                let layers = load.config.layers / 2;
                PlacedTarget::split(gpu, layers, 0, load).map(|(split, _)| split)
            }
            Self::TargetOnGpu => PlacedTarget::on_gpu(gpu, load),
            Self::Streamed => PlacedTarget::streamed(gpu, load),
        };
        placed.unwrap()
    }

    fn engine(self, files: &TargetFiles, gpu: &Arc<Gpu>) -> Engine {
        let pool = Arc::new(Pool::new(2));
        let load = load_request(files, &pool);
        let drafters = |tables: &CpuTarget| -> Vec<Box<dyn Drafter>> {
            let small_there = matches!(self, Self::DraftOnGpu | Self::Split);
            let small = itself(&load, small_there.then_some(gpu));
            vec![Box::new(head(files, tables, Some(gpu))), Box::new(small)]
        };
        if self == Self::DraftOnGpu {
            let target = CpuTarget::load(&load).unwrap();
            let drafters = drafters(&target);
            return Engine::new(Box::new(target), drafters);
        }
        let target = self.place(gpu, &load);
        let drafters = drafters(target.cpu());
        Engine::new(Box::new(target), drafters)
    }
}

fn prompt() -> Vec<u32> {
    let prompt = arch_recording("qwen3", "logits").0;
    [&prompt[..20], &prompt[..6]].concat()
}

/// Both kinds of drafts, including both devices drafting at once. Every placement meets every
/// strategy and both samplers; a strategy's sampler alternates from placement to placement.
#[test]
fn every_placement_gives_plain_text_under_every_strategy() {
    let Some(gpu) = gpu() else { return };
    let models = || {
        let rows = STRATEGIES.iter().filter(|row| row.draft.is_model());
        rows.filter(|row| row.draft != DrafterId::Dflash)
    };
    for (number, placement) in Placement::ALL.into_iter().enumerate() {
        let mut engine = placement.engine(&arch("qwen3"), &gpu);
        let name = format!("{placement:?}");
        every_strategy_gives_plain_text(&name, &mut engine, &prompt(), 12, ON_GPU, |sampler| {
            models().skip((number + usize::from(sampler.is_greedy())) % 2).step_by(2).collect()
        });
    }
}

/// The head in a recurrent target's own file, whose attention has gates.
#[test]
fn an_mtp_head_on_a_gpu_gives_plain_text_under_every_strategy() {
    let Some(gpu) = gpu() else { return };
    let case = MtpCase::load("qwen35");
    let head = case.drafter_with(Box::new(case.on_gpu(&gpu)));
    let mut engine = Engine::new(Box::new(case.target), [Box::new(head) as Box<dyn Drafter>]);
    let prompt = Vectors::load("qwen35").tokens("tokens");
    every_strategy_gives_plain_text("MTP", &mut engine, &prompt, 12, ON_GPU, |_| {
        STRATEGIES.iter().filter(|row| row.draft == DrafterId::Head).collect()
    });
}

#[test]
fn dflash_drafters_on_a_gpu_give_plain_text() {
    let Some(gpu) = gpu() else { return };
    for case in DflashCase::all() {
        let model = case.on_gpu(&gpu).unwrap();
        let drafter = Box::new(Dflash::new(model, dflash::CONTEXT)) as Box<dyn Drafter>;
        let mut engine = Engine::new(Box::new(case.target()), [drafter]);
        let request = request(&case.tokens("tokens"), 24);
        for (i, sampler) in samplers().into_iter().enumerate() {
            let want = answer(&mut engine, &request, plain(sampler)).0;
            let (got, rounds) = answer(&mut engine, &request, changing(sampler, i * 3));
            assert_eq!(got, want, "{} {sampler:?}", case.name);
            assert!(rounds.iter().any(|round| round.tree.len() > 1), "{}", case.name);
            assert!(rounds.iter().any(|round| !round.traffic.is_none()), "{}", case.name);
        }
    }
}

/// Weights whose MLPs have additional units that are all zero, which change no result: the recorded
/// Gemma 3's is 28 wide, which no kernel of the GPU supports.
struct Padded<'a>(&'a dyn WeightSource);

/// The number of units in the recorded MLP, and in the padded one.
const UNITS: [usize; 2] = [28, 32];

impl WeightSource for Padded<'_> {
    fn describe(&self) -> String {
        self.0.describe()
    }

    fn tensor(&self, name: &str) -> Option<RawTensor<'_>> {
        let mut tensor = self.0.tensor(name)?;
        if !name.contains(".mlp.") || tensor.shape.len() < 2 {
            return Some(tensor);
        }
        let [few, many] = UNITS;
        let (rows, columns) = (tensor.shape[0], tensor.shape[1]);
        let row = tensor.bytes.len() / rows;
        let bytes: Vec<u8> = if rows == few {
            [&tensor.bytes[..], &vec![0; (many - few) * row]].concat()
        } else {
            let zeros = vec![0; (many - few) * row / columns];
            tensor.bytes.chunks(row).flat_map(|row| [row, &zeros].concat()).collect()
        };
        let pad = |n: usize| if n == few { many } else { n };
        tensor.shape = vec![pad(rows), pad(columns)];
        tensor.bytes = bytes.into();
        Some(tensor)
    }
}

/// Against the reference program's logits, as on the CPU; what the kernels do not support is
/// refused with a reason.
#[test]
fn every_architecture_gives_the_reference_logits_or_a_reason() {
    let Some(gpu) = gpu() else { return };
    let mut refused = Vec::new();
    let chain = |tokens: &[u32]| {
        let mut tree = Tree::root(tokens[0]);
        for (above, &token) in tokens[1..].iter().enumerate() {
            tree.push(above, token, -1.0);
        }
        tree
    };
    for name in [
        "llama",
        "llama3-rope-freqs",
        "llama-linear",
        "llama-yarn",
        "llama-tied-bias",
        "qwen2",
        "qwen3",
        "gemma2",
        "gemma3",
        "phi3",
        "smollm3",
        "granite",
        "olmo2",
        "starcoder2",
        "phi2",
        "mixtral",
        "deepseek2",
        "gpt-oss",
        "glm4",
        "cohere2",
        "command-r",
        "stablelm",
        "stablelm-12b",
        "internlm2",
        "seed_oss",
        "ernie4_5",
        "hunyuan-dense",
        "exaone4",
        "minicpm",
        "bitnet",
        "mimo2",
        "gemma4",
        "qwen35",
        "lfm2",
    ] {
        let (files, pool) = (arch(name), Arc::new(Pool::new(2)));
        let load = LoadRequest { kv: KvFormat::F32, ..load_request(&files, &pool) };
        let mut target = match PlacedTarget::on_gpu(&gpu, &load) {
            Ok(target) => target,
            Err(LoadError::Device(reason)) => {
                assert!(reason.contains("the GPU kernels "), "{name}: {reason}");
                refused.push(name);
                continue;
            }
            Err(error) => panic!("{name}: {error}"),
        };
        let gelu = name.starts_with("gemma") || ["starcoder2", "phi2"].contains(&name);
        let logits = if gelu { "logits_exact_gelu" } else { "logits" };
        let (tokens, expected) = arch_recording(name, logits);
        let tree = chain(&tokens);
        let found = target.verify(&tree).unwrap().logits;
        assert_close(name, &found, &expected, 2e-4);
        let own = load_files(&files, CONTEXT, 2).verify(&tree).unwrap().logits;
        assert_close(&format!("{name} on the CPU"), &found, &own, 2e-4);
    }
    let expected = [
        "gemma3",
        "olmo2",
        "mixtral",
        "deepseek2",
        "gpt-oss",
        "stablelm-12b",
        "hunyuan-dense",
        "bitnet",
        "mimo2",
        "gemma4",
        "qwen35",
        "lfm2",
    ];
    assert_eq!(refused, expected);

    let (files, pool) = (arch("gemma3"), Arc::new(Pool::new(2)));
    assert_eq!(files.config.intermediate, UNITS[0]);
    let config = Config { intermediate: UNITS[1], ..files.config.clone() };
    let source = Padded(&*files.weights);
    let (tokens, expected) = arch_recording("gemma3", "logits_exact_gelu");
    for placement in [Placement::TargetOnGpu, Placement::Streamed] {
        let (config, source, kv) = (&config, &source, KvFormat::F32);
        let load = LoadRequest { config, source, kv, ..load_request(&files, &pool) };
        let found = placement.place(&gpu, &load).verify(&chain(&tokens)).unwrap().logits;
        assert_close(&format!("gemma3, {placement:?}"), &found, &expected, 2e-4);
    }
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
    let files = arch("qwen3");
    let request = request(&prompt(), 12);
    for placement in [Placement::DraftOnGpu, Placement::Split, Placement::TargetOnGpu] {
        let Some(gpu) = another_gpu(GpuLimits::default()) else { return };
        let mut engine = placement.engine(&files, &gpu);
        assert!(engine.is_on_gpu());
        let options = steady(2, 0);
        let mut answer = engine.generate(request.clone(), &Letters).unwrap();
        answer.first_token(&options(0)).unwrap();
        let before = gpu.traffic_meter().read();
        let mut all = Traffic::default();
        for number in 0.. {
            if answer.finish().is_some() {
                break;
            }
            let traffic = answer.round(&options(number)).unwrap().traffic;
            all += traffic;
            // The last round may have no room for a draft.
            let last = answer.finish().is_some();
            let is_asked = !(last && placement == Placement::DraftOnGpu);
            let some = traffic.submissions > 0 && traffic.up > 0 && traffic.down > 0;
            assert!(!is_asked || some, "{placement:?} {number}");
        }
        assert_eq!(all, gpu.traffic_meter().read().since(before), "{placement:?}");
        assert_eq!(answer.summary().traffic, all);
    }
    let target = load_files(&files, CONTEXT, 2);
    let mut engine = Engine::new(Box::new(target), []);
    let (_, rounds) = answer(&mut engine, &request, plain(samplers()[0]));
    assert!(rounds[0].traffic.is_none());
    assert!(!serde_json::to_string(&rounds[0]).unwrap().contains("traffic"));
}

#[test]
fn a_draft_whose_gpu_is_lost_in_an_answer_costs_no_token() {
    let files = arch("qwen3");
    for (drafter, blocks) in [(0, 2), (1, 0)] {
        let Some(gpu) = another_gpu(GpuLimits::default()) else { return };
        let mut engine = Placement::DraftOnGpu.engine(&files, &gpu);
        let request = request(&prompt(), 40);
        let want = answer(&mut engine, &request, plain(samplers()[0])).0;
        let lose = |round: usize, _: &[u32]| {
            if round == 2 {
                gpu.destroy();
            }
        };
        let (tokens, _, notices) =
            generate_with(&mut engine, &Letters, request, steady(blocks, drafter), lose).unwrap();
        assert_eq!(tokens, want, "drafter {drafter}");
        assert_eq!(notices.len(), 1, "one line tells: {notices:?}");
        assert!(gpu.check().is_err());
    }
}

/// After the loss, the text continues with the CPU's own tokens where there is a way back to it,
/// and otherwise ends with what was said.
#[test]
fn a_target_whose_gpu_is_lost_goes_on_on_the_cpu_or_ends_with_what_was_said() {
    let files = arch("qwen3");
    for (placement, returns) in Placement::ALL[1..].iter().flat_map(|p| [(p, true), (p, false)]) {
        let Some(gpu) = another_gpu(GpuLimits::default()) else { return };
        let pool = Arc::new(Pool::new(2));
        let on_cpu = || load_files(&arch("qwen3"), CONTEXT, 2);
        let mut target = placement.place(&gpu, &load_request(&files, &pool));
        let request = request(&prompt(), 40);
        let sampler = samplers()[0];
        if returns {
            target = target.with_fallback(Box::new(move || Ok(on_cpu())));
        }
        let drafter: Box<dyn Drafter> = Box::new(head(&files, &on_cpu(), None));
        let mut engine = Engine::new(Box::new(target), [drafter]);
        let want = answer(&mut engine, &request, plain(sampler)).0;
        let mut before = Vec::new();
        let lose = |round: usize, tokens: &[u32]| {
            if round == 2 {
                before = tokens.to_vec();
                gpu.destroy();
            }
        };
        let ended = generate_with(&mut engine, &Letters, request.clone(), steady(2, 0), lose);
        assert_eq!(before, want[..before.len()], "{placement:?}");
        if !returns {
            let error = ended.unwrap_err().to_string();
            assert!(error.contains("the target's device failed: the GPU was lost"), "{error}");
            continue;
        }
        let (tokens, _, notices) = ended.unwrap();
        assert_eq!((tokens.len(), notices.len()), (40, 1), "one line tells: {notices:?}");
        assert!(notices[0].ends_with("the target continues on the CPU"), "{notices:?}");
        let mut alone = Engine::new(Box::new(on_cpu()), []);
        let so_far = [&request.prompt[..], &before].concat();
        let rest = self::request(&so_far, 40 - before.len());
        let expected = answer(&mut alone, &rest, plain(sampler)).0;
        assert_eq!(tokens[before.len()..], expected, "{placement:?}");
    }
}
