//! The central promise on real models: whatever is drafted, the text is the target's own.

use crate::support::eagle3::{EAGLE3_HEADS, Eagle3Case, Eagle3Trees, eagle3_target};
use crate::support::generate::{bundled, generate, heldout, options, plain, request, samplers};
use crate::support::golden::{json, numbers, recorded_target, target_of, tensors};
use crate::support::heads::Backend;
use crate::support::watched::Watched;
use dovetail::chat::{Message, Role};
use dovetail::decode::{Engine, Request, RoundOptions, TokenText};
use dovetail::draft::{Budget, Drafter, FeatureHead};
use dovetail::kernels::{KvFormat, Pool};
use dovetail::model::head::{
    DraftVocabulary, HeadConfig, HeadPrecision, HeadWeights, PackedHead, SharedTables, Table,
};
use dovetail::model::{CpuTarget, Target};
use dovetail::plan::Schedule;
use dovetail::speculate::{SamplerSettings, Shape, Tree};
use std::sync::Arc;
use std::time::Duration;

/// A recorded target, with a recorded head if one is named.
fn recorded(target: &str, head: Option<&str>) -> Engine {
    recorded_as(target, head, None, |target| Box::new(target))
}

/// The same with the head scoring some tokens only, and with the target wrapped.
fn recorded_as(
    target: &str,
    head: Option<&str>,
    scored: Option<DraftVocabulary>,
    wrap: impl FnOnce(CpuTarget) -> Box<dyn Target>,
) -> Engine {
    let target_model = recorded_target(target, Arc::new(Pool::new(2)), 512);
    let drafter = head.map(|head| {
        let config = HeadConfig::from_json(&json(&format!("{head}/config.json"))).unwrap();
        let tensors = tensors(&format!("{head}/model.safetensors"));
        let weights = HeadWeights::load(&config, &tensors).unwrap();
        let weights = match scored {
            Some(scored) => weights.scoring(scored).unwrap(),
            None => weights,
        };
        let shared = SharedTables {
            embedding: Table::Packed(target_model.embedding()),
            lm_head: Table::Packed(target_model.lm_head()),
        };
        let pool = Arc::new(Pool::borrowing(Arc::clone(target_model.pool()), 1));
        let (precision, cores) = (HeadPrecision::Stored, Arc::clone(&pool));
        let backend =
            PackedHead::new(&weights, &shared, pool, 512, precision, KvFormat::F32).unwrap();
        let kind = weights.kind();
        let head = FeatureHead::new(&config, kind, Box::new(backend), 512);
        Box::new(head.with_cores(cores)) as Box<dyn Drafter>
    });
    Engine::new(wrap(target_model), drafter)
}

/// The recorded models' tokens are ASCII codes.
struct Ascii;

impl TokenText for Ascii {
    fn label(&self, token: u32) -> String {
        char::from(token as u8).to_string()
    }
    fn text(&self, tokens: &[u32]) -> String {
        tokens.iter().map(|&token| char::from(token as u8)).collect()
    }
}

#[test]
fn recorded_generations_round_by_round() {
    let recording = json("generate.json");
    let meta = &recording["meta"];
    let mut compared = 0;
    let mut engines: Vec<(String, Engine)> = Vec::new();
    for (key, want) in recording["generate"].as_object().unwrap() {
        let mut parts = key.split('/');
        let mut part = || parts.next().unwrap();
        let (head, setting, prompt) = (part(), part(), part());
        if !engines.iter().any(|(name, _)| name == head) {
            engines.push((head.to_owned(), recorded(target_of(head), Some(head))));
        }
        let engine = &mut engines.iter_mut().find(|(name, _)| name == head).unwrap().1;
        let &[width, depth, gamma] = &numbers(&meta["settings_topk_depth_total"][setting])[..]
        else {
            panic!("{setting}")
        };
        let shape = Shape { gamma: gamma as usize, width: width as usize, depth: depth as usize };
        let output = numbers(&want["output"]);
        // Room enough that the end of the answer cuts no tree.
        let prompt = numbers(&meta["prompts"][prompt]);
        let mut run = engine.generate(request(&prompt, 400), &Ascii).unwrap();
        let options = options(shape, true, SamplerSettings::default());
        let mut tokens = vec![run.first_token(&options).unwrap().token];
        let mut lengths = Vec::new();
        for _ in numbers(&want["accept_lengths"]) {
            let round = run.step(&options).unwrap();
            tokens.extend(round.committed.iter().map(|c| c.token));
            lengths.push(round.accepted.len() as u32);
        }
        assert!(run.take_notices().is_empty(), "{key}");
        let length = output.len().min(tokens.len());
        assert_eq!(tokens[..length], output[..length], "{key}");
        // Two candidates closer than our error may change places and with them a tree.
        if want["min_draft_topk_margin"].as_f64().unwrap() > 2e-5 {
            assert_eq!(lengths, numbers(&want["accept_lengths"]), "{key}");
            // The recorded output leaves the last bonus out.
            assert_eq!(tokens.len(), output.len() + 1, "{key}");
            compared += 1;
        }
    }
    assert!(compared > 80, "{compared} sequences compared");
}

/// Options that all change between rounds.
fn changing(sampler: SamplerSettings, start: usize) -> impl Fn(usize) -> RoundOptions {
    move |round| {
        let i = round + start;
        let gammas = [16, 1, 64, 5, 2, 33, 8];
        let shape = Shape { gamma: gammas[i % 7], width: 1 + i * 7 % 10, depth: i * 5 % 9 };
        let (speculate, coupled) = (i % 11 != 4, i.is_multiple_of(2));
        let schedule = if i % 5 < 3 { Schedule::Overlap } else { Schedule::Alternate };
        let budget = Budget::new(shape, 1 + i % 5);
        RoundOptions { speculate, coupled, schedule, ..RoundOptions::new(budget, sampler) }
    }
}

#[test]
fn recorded_models_under_every_sampler_and_changing_options() {
    let meta = json("trees.json");
    let prompts = meta["meta"]["prompts"].as_object().unwrap();
    for head in ["draft_dgf_m1", "draft_dgf_m4", "draft_eagle_m1", "draft_dgf_m2_gqa"] {
        let mut alone = recorded(target_of(head), None);
        let mut speculative = recorded(target_of(head), Some(head));
        for (name, prompt) in prompts {
            for (i, sampler) in samplers().into_iter().enumerate() {
                let request = request(&numbers(prompt), 48);
                let want = generate(&mut alone, &Ascii, request.clone(), plain(sampler)).0;
                let (got, rounds, _) =
                    generate(&mut speculative, &Ascii, request, changing(sampler, i * 3));
                assert_eq!(got, want, "{head} {name} {sampler:?}");
                assert!(rounds.len() < 47, "{head} {name}: nothing was accepted");
            }
        }
    }
}

#[test]
fn eagle3_heads_under_every_sampler_and_changing_options() {
    let trees = Eagle3Trees::load();
    for name in EAGLE3_HEADS {
        let case = Eagle3Case::load(name);
        let mut alone = Engine::new(Box::new(eagle3_target()), None::<Box<dyn Drafter>>);
        let target = eagle3_target();
        let pool = Arc::new(Pool::borrowing(Arc::clone(target.pool()), 1));
        let head = case.drafter(Backend::Packed).with_cores(pool);
        let mut speculative = Engine::new(Box::new(target), [Box::new(head) as Box<dyn Drafter>]);
        let mut ahead = 0;
        for prompt in ["p0", "p1", "p2"] {
            for (i, sampler) in samplers().into_iter().enumerate() {
                let request = request(&trees.prompt(prompt), 40);
                let want = generate(&mut alone, &Ascii, request.clone(), plain(sampler)).0;
                let (got, rounds, notices) =
                    generate(&mut speculative, &Ascii, request, changing(sampler, i * 3));
                assert_eq!(got, want, "{name} {prompt} {sampler:?}");
                assert_eq!(notices, [""; 0]);
                assert!(rounds.len() < 39, "{name} {prompt} {sampler:?}: nothing was accepted");
                ahead += rounds.iter().filter(|round| round.timing.ahead_ms > 0.0).count();
            }
        }
        assert!(ahead > 0, "{name}: nothing was drafted ahead");
    }
}

#[test]
fn a_draft_vocabulary_changes_no_text_and_bounds_what_is_drafted() {
    let meta = json("trees.json");
    let prompts = meta["meta"]["prompts"].as_object().unwrap();
    for head in ["draft_dgf_m4", "draft_eagle_m1"] {
        // Lower case and the space, of the ASCII codes that the recorded models speak.
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
        // A slow pass, so that the draft ends before it.
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

#[test]
fn the_bundled_pair_gives_the_text_of_its_target() {
    let (mut speculative, mut alone) = (bundled(), bundled());
    let paper = Shape { gamma: 16, width: 10, depth: 7 };
    let (mut won, mut passes) = (0, 0);
    for (i, turns) in heldout().into_iter().step_by(2).enumerate() {
        let sampler = samplers()[i % 4];
        let steady = |_| RoundOptions::new(Budget::new(paper, 4), sampler);
        let mut messages = Vec::new();
        // A second turn reuses the cache of the first.
        for content in turns.into_iter().chain(["Tell me more.".to_owned()]).take(2) {
            messages.push(Message::new(Role::User, content));
            let request = Request {
                prompt: (alone.prompter)(&messages, None).unwrap().tokens,
                max_tokens: 32,
                eos: alone.eos.clone(),
                stop: alone.stop.clone(),
                ..Request::default()
            };
            let names = alone.names.as_ref();
            let want = generate(&mut alone.engine, names, request.clone(), plain(sampler)).0;
            let options = changing(sampler, i);
            let got = generate(&mut speculative.engine, names, request.clone(), options).0;
            assert_eq!(got, want, "{messages:?} {sampler:?}");
            let (got, rounds, _) = generate(&mut speculative.engine, names, request, steady);
            assert_eq!(got, want, "{messages:?} {sampler:?}");
            won += got.len() - 1;
            passes += rounds.len();
            messages.push(Message::new(Role::Assistant, names.text(&want)));
        }
    }
    assert!(won > passes, "nothing that the head drafted was ever accepted");
}
