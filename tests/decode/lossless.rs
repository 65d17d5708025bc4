//! The central promise on the recorded models: no matter what is drafted, the text is the target's
//! own.

use crate::support::generate::{Ascii, changing, generate, options, plain, request, samplers};
use crate::support::golden::{json, numbers, recorded_target_in, target_of, tensors};
use crate::support::heads::Trees;
use crate::support::watched::Watched;
use dovetail::decode::{Engine, RoundOptions};
use dovetail::draft::{Budget, Drafter, FeatureHead};
use dovetail::kernels::{KvFormat, Pool};
use dovetail::model::head::{
    DraftVocabulary, FusionKind, HeadConfig, HeadRequest, HeadWeights, PackedHead, SharedTables,
};
use dovetail::model::{CpuTarget, Target};
use dovetail::plan::Schedule;
use dovetail::speculate::{SamplerSettings, Shape, Tree};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// A recorded target, with a recorded head if one is named.
fn recorded(target: &str, head: Option<&str>) -> Engine {
    recorded_as(target, head, None, |target| Box::new(target))
}

/// The same, with the head scoring only some tokens, and with the target wrapped.
fn recorded_as(
    target: &str,
    head: Option<&str>,
    scored: Option<DraftVocabulary>,
    wrap: impl FnOnce(CpuTarget) -> Box<dyn Target>,
) -> Engine {
    recorded_in(KvFormat::F32, target, head, scored, wrap)
}

/// The same, with the target's KV cache in this format.
fn recorded_in(
    kv: KvFormat,
    target: &str,
    head: Option<&str>,
    scored: Option<DraftVocabulary>,
    wrap: impl FnOnce(CpuTarget) -> Box<dyn Target>,
) -> Engine {
    let target_model = recorded_target_in(kv, target, Arc::new(Pool::new(2)), 512);
    let drafter = head.map(|head| {
        let tensors = tensors(&format!("{head}/model.safetensors"));
        let kind = FusionKind::of(tensors.keys().map(String::as_str)).unwrap();
        let config = HeadConfig::from_json(&json(&format!("{head}/config.json")), kind).unwrap();
        let weights = HeadWeights::load(&config, &tensors).unwrap();
        let weights = match scored {
            Some(scored) => weights.scoring(scored).unwrap(),
            None => weights,
        };
        let shared = SharedTables::of(&target_model);
        let pool = Arc::new(Pool::borrowing(Arc::clone(target_model.pool()), 1));
        let cores = Arc::clone(&pool);
        let request = HeadRequest::new(&weights, &shared, pool, 512).exact();
        let backend = PackedHead::new(&request).unwrap();
        let head = FeatureHead::new(&config, Box::new(backend), 512);
        Box::new(head.with_cores(cores)) as Box<dyn Drafter>
    });
    Engine::new(wrap(target_model), drafter)
}

#[test]
fn recorded_generations_round_by_round() {
    let recording = Trees::load("generate.json");
    let mut compared = 0;
    let mut engines: Vec<(String, Engine)> = Vec::new();
    for (key, want) in recording.0["generate"].as_object().unwrap() {
        let mut parts = key.split('/');
        let mut part = || parts.next().unwrap();
        let (head, setting, prompt) = (part(), part(), part());
        if !engines.iter().any(|(name, _)| name == head) {
            engines.push((head.to_owned(), recorded(target_of(head), Some(head))));
        }
        let engine = &mut engines.iter_mut().find(|(name, _)| name == head).unwrap().1;
        let shape = recording.shape(setting);
        let output = numbers(&want["output"]);
        // Enough room that the end of the answer cuts no tree.
        let prompt = recording.prompt(prompt);
        let mut run = engine.generate(request(&prompt, 400), &Ascii).unwrap();
        let options = options(shape, true, SamplerSettings::default());
        let mut tokens = vec![run.first_token(&options).unwrap().token];
        let mut lengths = Vec::new();
        for _ in numbers(&want["accept_lengths"]) {
            let round = run.round(&options).unwrap();
            tokens.extend(round.committed.iter().map(|c| c.token));
            lengths.push(round.accepted.len() as u32);
        }
        assert!(run.take_notices().is_empty(), "{key}");
        let length = output.len().min(tokens.len());
        assert_eq!(tokens[..length], output[..length], "{key}");
        // Two candidates that differ by less than our error may swap places and change a tree.
        if want["min_draft_topk_margin"].as_f64().unwrap() > 2e-5 {
            assert_eq!(lengths, numbers(&want["accept_lengths"]), "{key}");
            // The recorded output leaves out the last bonus token.
            assert_eq!(tokens.len(), output.len() + 1, "{key}");
            compared += 1;
        }
    }
    assert!(compared > 80, "{compared} sequences compared");
}

/// Both engines say the same to every prompt, under every sampler and changing options.
fn same_texts(
    head: &str,
    prompts: &Map<String, Value>,
    alone: &mut Engine,
    speculative: &mut Engine,
) {
    for (name, prompt) in prompts {
        for (i, sampler) in samplers().into_iter().enumerate() {
            let request = request(&numbers(prompt), 48);
            let want = generate(alone, &Ascii, request.clone(), plain(sampler)).0;
            let (got, rounds, _) = generate(speculative, &Ascii, request, changing(sampler, i * 3));
            assert_eq!(got, want, "{head} {name} {sampler:?}");
            assert!(rounds.len() < 47, "{head} {name}: nothing was accepted");
        }
    }
}

#[test]
fn recorded_models_under_every_sampler_and_changing_options() {
    let meta = json("trees.json");
    let prompts = meta["meta"]["prompts"].as_object().unwrap();
    for head in ["draft_dgf_m1", "draft_dgf_m4", "draft_eagle_m1", "draft_dgf_m2_gqa"] {
        let mut alone = recorded(target_of(head), None);
        let mut speculative = recorded(target_of(head), Some(head));
        same_texts(head, prompts, &mut alone, &mut speculative);
    }
}

#[test]
fn the_text_is_the_targets_own_with_a_kv_cache_in_8_bits() {
    let meta = json("trees.json");
    let prompts = meta["meta"]["prompts"].as_object().unwrap();
    for head in ["draft_dgf_m4", "draft_dgf_m2_gqa"] {
        let engine = |head: Option<&str>, target: &str| {
            recorded_in(KvFormat::Q8, target, head, None, |target| Box::new(target))
        };
        let mut alone = engine(None, target_of(head));
        let mut speculative = engine(Some(head), target_of(head));
        same_texts(head, prompts, &mut alone, &mut speculative);
    }
}

#[test]
fn a_draft_vocabulary_changes_no_text_and_bounds_what_is_drafted() {
    let meta = json("trees.json");
    let prompts = meta["meta"]["prompts"].as_object().unwrap();
    for head in ["draft_dgf_m4", "draft_eagle_m1"] {
        // Lower-case letters and the space, among the ASCII codes that are the recorded models'
        // tokens.
        let scored = DraftVocabulary::new((97..123).chain([32]).collect());
        let mut alone = recorded(target_of(head), None);
        let mut speculative =
            recorded_as(target_of(head), Some(head), Some(scored.clone()), |t| Box::new(t));
        let mut accepted = 0;
        for (i, prompt) in prompts.values().enumerate() {
            for sampler in samplers() {
                let request = request(&numbers(prompt), 48);
                let want = generate(&mut alone, &Ascii, request.clone(), plain(sampler)).0;
                let (got, rounds, _) =
                    generate(&mut speculative, &Ascii, request, changing(sampler, i));
                assert_eq!(got, want, "{head} {sampler:?}");
                for round in &rounds {
                    let drafted = &round.tree.nodes()[1..];
                    assert!(drafted.iter().all(|node| scored.contains(node.token)));
                    accepted += round.accepted.len();
                }
            }
        }
        assert!(accepted > 0, "{head}: nothing was accepted");
    }
}

#[test]
fn trees_drafted_while_the_target_verifies_are_used_and_change_no_text() {
    let meta = json("trees.json");
    let prompts = meta["meta"]["prompts"].as_object().unwrap();
    let head = "draft_dgf_m4";
    let mut alone = recorded(target_of(head), None);
    let mut ahead = recorded_as(target_of(head), Some(head), None, |target| {
        // A slow pass, so that the draft finishes before it.
        let slow = |_: &Tree| {
            std::thread::sleep(Duration::from_millis(3));
            Ok(())
        };
        Box::new(Watched::new(target, slow))
    });
    let (mut drafted_ahead, mut accepted) = (0, 0);
    for prompt in prompts.values() {
        for sampler in samplers() {
            let request = request(&numbers(prompt), 32);
            let want = generate(&mut alone, &Ascii, request.clone(), plain(sampler)).0;
            let (got, rounds, _) = generate(&mut ahead, &Ascii, request, |_| {
                let shape = Shape { gamma: 12, width: 3, depth: 2 };
                let schedule = Schedule::Overlap;
                RoundOptions {
                    schedule,
                    coupled: true,
                    ..RoundOptions::new(Budget::new(shape, 4), sampler)
                }
            });
            assert_eq!(got, want, "{sampler:?}");
            let used = rounds.iter().filter(|round| round.drafted_ahead);
            drafted_ahead += used.clone().count();
            accepted += used.map(|round| round.accepted.len()).sum::<usize>();
        }
    }
    assert!(drafted_ahead > 10 && accepted > 0, "{drafted_ahead} {accepted}");
}
