//! Heads over tapped states: training and decoding compute the same, and a short training of each
//! kind gives a head that drafts.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::support::generate::{generate, options, plain, samplers};
use crate::support::golden::assert_close;
use crate::support::gpu::another_gpu;
use crate::support::heads::packed_table;
use candle_core::{Device, Tensor};
use dovetail::chat::{Message, Role};
use dovetail::decode::Request;
use dovetail::hardware::Machine;
use dovetail::kernels::Pool;
use dovetail::library::{Spec, open_head};
use dovetail::load::{Purpose, load};
use dovetail::model::GpuLimits;
use dovetail::model::head::{
    DraftVocabulary, FusionKind, GpuHead, HeadBackend, HeadRequest, HeadWeights, PackedHead, Pairs,
    SharedTables,
};
use dovetail::settings::{HeadChoice, Settings};
use dovetail::speculate::{BeamRow, Ranking, Shape};
use dovetail::train::run::{Recipe, RunRequest, TrainDevice, TrainEvent, estimate, train};
use dovetail::train::{Columns, DraftNet, DraftVocabSize, FirstWeights, Length, Past, head_config};
use dovetail::worker::Backend;
use serde_json::{Value, json};

const ROWS: usize = 9;

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

/// A target's configuration with two query heads per key head.
fn target() -> dovetail::model::Config {
    let json = json!({
        "model_type": "llama", "hidden_act": "silu", "hidden_size": 32, "intermediate_size": 64,
        "max_position_embeddings": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_hidden_layers": 5, "rms_norm_eps": 1e-6, "vocab_size": 96
    });
    dovetail::model::Config::from_hf_json(&json).unwrap()
}

#[test]
fn what_is_trained_is_what_decoding_runs() {
    let target = target();
    let table = Tensor::randn(0f32, 1.0, (target.vocab, target.hidden), &Device::Cpu).unwrap();
    let packed = packed_table(&table);
    let shared = SharedTables { embedding: Arc::clone(&packed), lm_head: packed };
    let scored = DraftVocabulary::new((0..target.vocab as u32).step_by(3).collect());
    for (kind, blocks) in [(FusionKind::Eagle3, 1)] {
        let config = head_config(kind, &target, blocks, false);
        let first = (FirstWeights::Published, 7);
        let net = DraftNet::new(config, Some(scored.clone()), first, &Device::Cpu).unwrap();
        // Both sides use the weights as they are exported.
        let net = DraftNet::load(net.config.clone(), &net.half().unwrap(), &Device::Cpu).unwrap();
        let weights = net.head_weights().unwrap();
        assert_eq!(weights.config.kind, net.config.kind);
        let width = Columns::of(&net.config).read.len();
        assert_eq!(width, 3 * target.hidden);

        let features = Tensor::randn(0f32, 1.0, (1, ROWS, width), &Device::Cpu).unwrap();
        let tokens: Vec<u32> = (0..ROWS as u32).map(|i| i * 7 % 96).collect();
        let embeddings = table.index_select(&Tensor::new(&tokens[..], &Device::Cpu).unwrap(), 0);
        let embeddings = embeddings.unwrap().unsqueeze(0).unwrap();
        let state = net.state(&features).unwrap();
        let (mut input, mut past, mut by_step) = (state.clone(), Past::default(), Vec::new());
        for _ in 0..3 {
            let outputs = net.outputs(&input, &embeddings, blocks, &mut past).unwrap();
            let last = outputs[blocks - 1].reshape((1, ROWS, target.hidden)).unwrap();
            by_step.push((values(&last), net.scored(&outputs[blocks - 1]).unwrap()));
            let shifted = last.narrow(1, 0, ROWS - 1).unwrap();
            input = Tensor::cat(&[&state.narrow(1, 0, 1).unwrap(), &shifted], 1).unwrap();
        }

        for (mut head, tolerance) in backends(&weights, &shared) {
            let begin = ROWS - 2;
            let flat = values(&features);
            let pairs = Pairs { features: &flat[..begin * width], tokens: &tokens[..begin] };
            head.extend(0, pairs, blocks).unwrap();
            let row = |step: usize, row: usize| {
                by_step[step].0[row * target.hidden..(row + 1) * target.hidden].to_vec()
            };
            let name = format!("{} on {}", net.config.kind.name(), head.describe());
            let outputs = head.outputs().unwrap();
            let last = &outputs[outputs.len() - target.hidden..];
            assert_close(&name, last, &row(0, begin - 1), tolerance);
            // The likeliest token comes from the head's own LM head, by its id in the target.
            let best = head.rank_root(&Ranking::new(1)).unwrap()[0].0;
            let own = net.lm_head().unwrap().as_tensor().t().unwrap();
            let logits = by_step[0].1.narrow(0, begin - 1, 1).unwrap().matmul(&own).unwrap();
            let id = logits.argmax(1).unwrap().to_vec1::<u32>().unwrap()[0];
            assert_eq!(best, scored.tokens()[id as usize], "{name}");
            for step in 1..3 {
                let at = begin + step - 1;
                let beam = BeamRow {
                    token: tokens[at],
                    source: step.checked_sub(2),
                    ancestors: (0..step - 1).collect(),
                };
                head.step(&[beam], &Ranking::new(1)).unwrap();
                let name = format!("{name}, step {step}");
                assert_close(&name, &head.outputs().unwrap(), &row(step, at), tolerance);
            }
        }
    }
}

/// The head on every backend there is, with the tolerance for its numbers.
fn backends(weights: &HeadWeights, shared: &SharedTables) -> Vec<(Box<dyn HeadBackend>, f32)> {
    let pool = Arc::new(Pool::new(1));
    let request = HeadRequest::new(weights, shared, pool, 64).exact();
    let packed = PackedHead::new(&request).unwrap();
    let mut all: Vec<(Box<dyn HeadBackend>, f32)> = vec![(Box::new(packed), 1e-3)];
    if let Some(gpu) = another_gpu(GpuLimits::default()) {
        let head = GpuHead::new(&gpu, &request).unwrap();
        all.push((Box::new(head), 1e-2));
    }
    all
}

/// On the bundled target: the loss falls, the head can be read again, drafts, and does not change
/// the text.
#[test]
fn a_short_training_of_each_kind_gives_a_head_that_drafts() {
    for (kind, blocks) in [(FusionKind::Eagle3, 1)] {
        let folder = tempfile::tempdir().unwrap();
        let mut recipe = Recipe::quick().of_kind(kind);
        let chats = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo");
        (recipe.data, recipe.limit) = (chats.join("chats.jsonl"), Some(24));
        (recipe.blocks, recipe.held_out, recipe.decode) = (blocks, 0.1, 0);
        recipe.draft_vocab = DraftVocabSize::Tokens(512);
        let how = &mut recipe.options;
        (how.length, how.warmup) = (Length::Steps(10), 1);
        (how.batch_tokens, how.window) = (192, 96);
        let (out, device) = (folder.path().join("head"), TrainDevice::Cpu);
        let model_folders = Vec::new();
        let request = RunRequest {
            out,
            resume: false,
            recipe,
            threads: 1,
            device,
            keep_work: true,
            model_folders,
        };

        let stop = AtomicBool::new(false);
        let expected = estimate(&request, &stop, &mut |_| {}).unwrap();
        let (mut losses, mut tokens) = (Vec::new(), 0);
        let mut record = |event: TrainEvent<'_>| match event {
            TrainEvent::Step(report) => losses.push(report.measures[0].ploss),
            TrainEvent::Chats(chats) => tokens = chats.tokens,
            _ => {}
        };
        train(&request, &stop, &mut record).unwrap();
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        let (early, late) = (mean(&losses[..3]), mean(&losses[losses.len() - 3..]));
        assert!(late < 0.9 * early, "{kind:?}: {losses:?}");

        let draft = HeadChoice::named(request.out.to_str());
        let settings = Settings { draft, context: Some(256), ..Settings::default() };
        let loaded = load(&settings, &Machine::probe(), Purpose::Text, &|_, _| {}).unwrap();
        let mut backend: Backend = loaded.into();
        let question = [Message::new(Role::User, "Tell me a story about a fox.")];
        let prompt = (backend.prompter)(&question, None).unwrap().tokens;
        let asked = Request { prompt, max_tokens: 24, ..Request::default() };
        for sampler in [samplers()[0], samplers()[2]] {
            let names = backend.names.as_ref();
            let want = generate(&mut backend.engine, names, asked.clone(), plain(sampler)).0;
            let tree = |_| options(Shape { gamma: 12, width: 4, depth: 4 }, true, sampler);
            let (got, rounds, notices) = generate(&mut backend.engine, names, asked.clone(), tree);
            assert_eq!((got, notices), (want, Vec::new()), "{kind:?} {sampler:?}");
            assert_eq!((rounds[0].drafter, rounds[0].tree.len()), (Some(0), 12));
        }

        let files = open_head(&Spec::Folder(request.out.clone()), &mut |_| {}).unwrap();
        let weights = HeadWeights::load(&files.config, files.tensors.as_ref()).unwrap();
        assert!(weights.config.kind.eagle3().is_some());
        assert_eq!(files.config.blocks(), blocks);
        assert_eq!(weights.draft_vocab.unwrap().len(), 512);
        let json: Value =
            serde_json::from_slice(&fs::read(request.out.join("config.json")).unwrap()).unwrap();
        assert_eq!(json["draft_vocab_size"], 512);

        // The estimate included the width of the states.
        let on_disk = |file: &str| fs::metadata(request.out.join(file)).unwrap().len();
        let near = |a: u64, b: u64| a.abs_diff(b) < b / 10 + 8192;
        assert_eq!(expected.tokens, tokens as u64);
        assert!(
            near(expected.features, on_disk("work/features-00000.safetensors")),
            "{expected:?}"
        );
        assert!(near(expected.head, on_disk("model.safetensors")), "{expected:?}");
        assert!(near(expected.checkpoint, 2 * on_disk("work/checkpoint.safetensors")));
    }
}
