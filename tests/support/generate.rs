//! Answers of an engine: what is asked, under which options, and the bundled pair that answers.

use std::path::Path;

use super::toy::Letters;
use dovetail::decode::{Engine, Request, Round, RoundOptions, TokenText};
use dovetail::draft::Budget;
use dovetail::hardware::Machine;
use dovetail::plan::{CostInputs, Costs, TargetSize, Throughput, VerifyTimes};
use dovetail::settings::Settings;
use dovetail::speculate::{SamplerSettings, Shape};
use dovetail::worker::{Backend, Purpose, load};
use serde_json::Value;

/// A prompt without an end but the number of tokens.
pub fn request(prompt: &[u32], max_tokens: usize) -> Request {
    Request { prompt: prompt.to_vec(), max_tokens, ..Request::default() }
}

/// Samplers of every kind: greedy, greedy under penalties, drawn, and all filters at once.
pub fn samplers() -> [SamplerSettings; 4] {
    let greedy = SamplerSettings::default();
    let drawn = SamplerSettings { temperature: 1.0, frequency_penalty: 0.1, seed: 11, ..greedy };
    [
        greedy,
        SamplerSettings { repetition_penalty: 1.2, frequency_penalty: 0.1, ..greedy },
        drawn,
        SamplerSettings {
            temperature: 0.7,
            top_p: 0.9,
            top_k: 20,
            repetition_penalty: 1.1,
            presence_penalty: 0.3,
            seed: 5,
            ..drawn
        },
    ]
}

/// Options of a tree with this shape.
pub fn options(shape: Shape, speculate: bool, sampler: SamplerSettings) -> RoundOptions {
    RoundOptions { speculate, ..RoundOptions::new(Budget::new(shape, 2), sampler) }
}

/// T_V of some target.
pub fn verify_times() -> VerifyTimes {
    let throughput = Throughput { multiply_adds: 1e10, bandwidth: 1e10, overhead: 1e-6 };
    let target = TargetSize { weights: 1_000_000, bytes: 2_000_000, layers: 4 };
    VerifyTimes::of(&Costs::guess(&CostInputs { verifier: throughput, target, draft: None }))
}

/// Plain decoding.
pub fn plain(sampler: SamplerSettings) -> impl Fn(usize) -> RoundOptions {
    move |_| options(Shape { gamma: 1, width: 1, depth: 0 }, false, sampler)
}

/// Tokens, rounds and notices of an answer; `options` gives every round's options.
pub fn generate(
    engine: &mut Engine,
    names: &dyn TokenText,
    request: Request,
    options: impl Fn(usize) -> RoundOptions,
) -> (Vec<u32>, Vec<Round>, Vec<String>) {
    let mut answer = engine.generate(request, names).unwrap();
    let mut tokens = vec![answer.first_token(&options(0)).unwrap().token];
    let mut rounds = Vec::new();
    while answer.finish().is_none() {
        let round = answer.step(&options(rounds.len())).unwrap();
        tokens.extend(round.committed.iter().map(|c| c.token));
        rounds.push(round);
    }
    (tokens, rounds, answer.take_notices())
}

/// Tokens and rounds of an answer about which there is nothing to say.
pub fn answer(
    engine: &mut Engine,
    request: &Request,
    options: impl Fn(usize) -> RoundOptions,
) -> (Vec<u32>, Vec<Round>) {
    let (tokens, rounds, notices) = generate(engine, &Letters, request.clone(), options);
    assert_eq!(notices, [""; 0]);
    (tokens, rounds)
}

/// The bundled pair as the program loads it.
pub fn bundled() -> Backend {
    let settings = Settings { context: Some(512), ..Settings::default() };
    load(&settings, &Machine::probe(), Purpose::Text, &mut |_, _| {}).unwrap().into()
}

/// The user's turns of each held-out conversation.
pub fn heldout() -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo/heldout_prompts.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let turns = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["turns"].as_array().unwrap().iter().map(|t| t.as_str().unwrap().to_owned()).collect()
    };
    text.lines().filter(|line| !line.is_empty()).map(turns).collect()
}
