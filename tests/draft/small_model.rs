//! A small language model as the drafter, on real models: the text is the target's own no matter
//! what it drafts, and a model that drafts for itself is always right.

use crate::support::generate::{answer, generate, plain, request, samplers};
use crate::support::golden::{File, config, prompts, recorded_target};
use crate::support::models::{load_small, load_target};
use crate::support::toy::Letters;
use dovetail::decode::{Engine, RoundOptions};
use dovetail::draft::{Budget, Drafter, SmallModel};
use dovetail::kernels::{KvFormat, Pool};
use dovetail::library::{Spec, TargetFiles, open_small, open_target, shared_vocabulary};
use dovetail::model::{CpuTarget, SharedVocabulary, SmallLm, TOKEN_GROUP};
use dovetail::plan::{Schedule, Setting};
use dovetail::speculate::{BeamRow, Method, SamplerSettings, Shape};
use std::sync::Arc;

const CONTEXT: usize = 256;

/// A recorded target with another model (or itself) as its small model, whose context may be
/// shorter, and which may score only the `first` tokens and those of the text.
fn recorded(target: &str, small: &str, context: usize, first: Option<usize>) -> Engine {
    let pool = Arc::new(Pool::new(2));
    let borrowed = Arc::new(Pool::borrowing(pool.clone(), 1));
    let (shape, source) = (config(small), File::golden(&format!("{small}/model.safetensors")));
    let lm = load_small(&shape, &source, borrowed.clone(), context, KvFormat::F32);
    let words = SharedVocabulary::identical(shape.vocab);
    let drafter = SmallModel::new(small, Box::new(lm), words).with_pool(borrowed);
    let drafter = match first {
        Some(first) => drafter.scoring(Setting::Fixed(first)),
        None => drafter,
    };
    engine(recorded_target(target, pool, CONTEXT), drafter)
}

fn engine(target: CpuTarget, drafter: SmallModel) -> Engine {
    let drafter: Box<dyn Drafter> = Box::new(drafter);
    Engine::new(Box::new(target), [drafter])
}

fn drafting(method: Method, gamma: usize, width: usize, depth: usize) -> Budget {
    Budget { method, ..Budget::new(Shape { gamma, width, depth }, 0) }
}

/// Chains, trees and searches in turn.
fn budgets() -> [Budget; 5] {
    [
        drafting(Method::Tree, 6, 1, 4),
        drafting(Method::Tree, 16, 10, 7),
        drafting(Method::Search, 128, 32, 31),
        drafting(Method::Tree, 64, 4, 8),
        drafting(Method::Search, 12, 5, 3),
    ]
}

#[test]
fn another_model_drafts_and_the_text_is_the_targets() {
    for (target, small) in [("target_mha", "target_gqa"), ("target_gqa", "target_mha")] {
        // A context that ends before the text does, and a part of the vocabulary.
        for (context, first) in [(CONTEXT, None), (70, None), (CONTEXT, Some(100))] {
            let mut speculative = recorded(target, small, context, first);
            let mut alone = recorded(target, small, context, None);
            let mut won = 0;
            for (prompt, sampler) in prompts().iter().zip(samplers().iter().cycle()) {
                let request = request(prompt, 60);
                let want = answer(&mut alone, &request, plain(*sampler)).0;
                for (coupled, schedule) in [
                    (false, Schedule::Alternate),
                    (true, Schedule::Alternate),
                    (true, Schedule::Overlap),
                ] {
                    let options = |round: usize| RoundOptions {
                        coupled,
                        schedule,
                        speculate: round % 7 != 5,
                        least_pass: [0.0, 0.3][round % 2],
                        ..RoundOptions::new(budgets()[round % 5], *sampler)
                    };
                    let (got, rounds, notices) =
                        generate(&mut speculative, &Letters, request.clone(), options);
                    assert!(notices.iter().all(|said| context < CONTEXT && said.contains("full")));
                    assert_eq!(got, want, "{target} by {small}, {sampler:?}");
                    won += want.len() - 1 - rounds.len();
                }
            }
            assert!(won > 0, "{target} by {small}: nothing was accepted");
        }
    }
}

#[test]
fn a_model_that_drafts_for_itself_is_always_right() {
    for name in ["target_mha", "target_gqa"] {
        let mut engine = recorded(name, name, CONTEXT, None);
        for prompt in &prompts() {
            for (i, budget) in budgets().into_iter().enumerate() {
                let schedule = [Schedule::Alternate, Schedule::Overlap][i % 2];
                let options = RoundOptions {
                    schedule,
                    ..RoundOptions::new(budget, SamplerSettings::default())
                };
                let (_, rounds) = answer(&mut engine, &request(prompt, 50), |_| options);
                let (_, full) = rounds.split_last().unwrap();
                for round in full {
                    let best = round.tree.height();
                    let chain = budget.shape.width == 1;
                    assert!(!chain || round.accepted.len() == best, "{name} {budget:?}");
                    // In a tree the likeliest path is the target's own, as far as it reaches.
                    assert!(!round.accepted.is_empty(), "{name} {budget:?}");
                }
            }
        }
    }
}

#[test]
fn tokens_that_are_not_scored_change_no_other_logit() {
    let pool = Arc::new(Pool::new(2));
    let source = File::golden("target_gqa/model.safetensors");
    let load = || load_small(&config("target_gqa"), &source, pool.clone(), CONTEXT, KvFormat::F32);
    let mut all = load();
    let mut some = load();
    let vocab = all.vocab();
    let groups = vocab.div_ceil(TOKEN_GROUP) as u32;
    let rows = [40, 41].map(|token| BeamRow { token, source: None, ancestors: Vec::new() });
    for scored in [vec![0, 2, groups - 1], vec![1], (0..groups).collect()] {
        assert!(some.score(&scored));
        let part = |logits: &[f32]| -> Vec<f32> {
            let is_scored = |id: usize| scored.contains(&((id % vocab / TOKEN_GROUP) as u32));
            (0..logits.len()).filter(|&id| is_scored(id)).map(|id| logits[id]).collect()
        };
        all.truncate(0);
        some.truncate(0);
        let whole = part(all.read(&[65, 66, 67]).unwrap());
        assert_eq!(some.read(&[65, 66, 67]).unwrap(), whole);
        let whole = part(all.grow(0, &rows).unwrap());
        assert_eq!(some.grow(0, &rows).unwrap(), whole);
    }
}

/// The bundled target with a small model that went through all the steps of reading a file.
fn bundled(target: &TargetFiles, small: &TargetFiles) -> Engine {
    let words = shared_vocabulary(target, small).unwrap();
    assert!(words.is_identical());
    assert_eq!(words.shared(), target.tokenizer.vocab_size());
    let pool = Arc::new(Pool::new(2));
    let kv = KvFormat::F16;
    let (shape, weights) = (&small.config, small.weights.as_ref());
    let lm = load_small(shape, weights, pool.clone(), 200, kv);
    let drafter = SmallModel::new(&small.name, Box::new(lm), words);
    let (shape, weights) = (&target.config, target.weights.as_ref());
    let target = load_target(shape, weights, pool, CONTEXT, kv);
    engine(target, drafter)
}

#[test]
fn the_bundled_models_draft_for_the_bundled_target() {
    let target = open_target(&Spec::Bundled, &mut |_| {}).unwrap();
    let itself = open_target(&Spec::Bundled, &mut |_| {}).unwrap();
    let small = open_small(&Spec::Bundled, &mut |_| {}).unwrap();
    let prompt = target.tokenizer.encode("Once there was a small house", true).unwrap();
    let request = request(&prompt, 40);
    for (small, is_itself) in [(itself, true), (small, false)] {
        let mut engine = bundled(&target, &small);
        // A drafter does not know the penalties: with them even the target itself drafts wrong
        // tokens.
        let [greedy, _, drawn, filtered] = samplers();
        for sampler in [greedy, drawn, filtered] {
            let want = answer(&mut engine, &request, plain(sampler)).0;
            let chain = RoundOptions::new(drafting(Method::Tree, 6, 1, 4), sampler);
            let (got, rounds) = answer(&mut engine, &request, |_| chain);
            assert_eq!(got, want, "{} {sampler:?}", small.name);
            if is_itself && sampler.is_greedy() {
                // The first token, then six per round.
                assert_eq!(rounds.len(), 39usize.div_ceil(6));
            }
            assert!(rounds.len() < 39, "{}: nothing was accepted", small.name);
            let options = |round: usize| RoundOptions::new(budgets()[round % 5], sampler);
            assert_eq!(
                answer(&mut engine, &request, options).0,
                want,
                "{} {sampler:?}",
                small.name
            );
        }
    }
}
