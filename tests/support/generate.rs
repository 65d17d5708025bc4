//! Answers of an engine: requests and options.

use super::toy::Letters;
use dovetail::decode::{DecodeError, Engine, Generation, Request, Round, RoundOptions, TokenText};
use dovetail::draft::Budget;
use dovetail::plan::{CostInputs, Costs, Schedule, TargetSize, Throughput, VerifyTimes};
use dovetail::speculate::{SamplerSettings, Shape};

/// The recorded models' tokens are ASCII codes.
pub struct Ascii;

impl TokenText for Ascii {
    fn label(&self, token: u32) -> String {
        char::from(token as u8).to_string()
    }
    fn text(&self, tokens: &[u32]) -> String {
        tokens.iter().map(|&token| char::from(token as u8)).collect()
    }
}

/// A prompt whose answer is limited only by the number of tokens.
pub fn request(prompt: &[u32], max_tokens: usize) -> Request {
    Request { prompt: prompt.to_vec(), max_tokens, ..Request::default() }
}

/// Samplers of every kind: greedy, greedy with penalties, drawn, and with all filters at once.
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
    let throughput = Throughput { multiply_adds: 1e10, bandwidth: 1e10, overhead: 1e-6, beta: 0.3 };
    let target = TargetSize::dense(1_000_000, 2_000_000, 4);
    *Costs::guess(&CostInputs { verifier: throughput, target, draft: None }).verify_times()
}

/// Plain decoding.
pub fn plain(sampler: SamplerSettings) -> impl Fn(usize) -> RoundOptions {
    move |_| options(Shape { gamma: 1, width: 1, depth: 0 }, false, sampler)
}

/// Options that all change between rounds.
pub fn changing(sampler: SamplerSettings, start: usize) -> impl Fn(usize) -> RoundOptions {
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

/// The tokens, rounds and notices of an answer.
pub type Generated = (Vec<u32>, Vec<Round>, Vec<String>);

/// Generates an answer; `options` gives every round's options.
pub fn generate(
    engine: &mut Engine,
    names: &dyn TokenText,
    request: Request,
    options: impl Fn(usize) -> RoundOptions,
) -> Generated {
    generate_with(engine, names, request, options, |_, _| {}).unwrap()
}

/// The same; `before` is told of each round before it begins, with the tokens so far.
pub fn generate_with(
    engine: &mut Engine,
    names: &dyn TokenText,
    request: Request,
    options: impl Fn(usize) -> RoundOptions,
    mut before: impl FnMut(usize, &[u32]),
) -> Result<Generated, DecodeError> {
    let mut answer = engine.generate(request, names)?;
    let mut tokens = vec![answer.first_token(&options(0))?.token];
    let mut rounds = Vec::new();
    while answer.finish().is_none() {
        before(rounds.len(), &tokens);
        let round = answer.round(&options(rounds.len()))?;
        tokens.extend(round.committed.iter().map(|c| c.token));
        rounds.push(round);
    }
    Ok((tokens, rounds, answer.take_notices()))
}

/// The tokens of an answer that has begun.
pub fn finish(answer: &mut Generation<'_>, options: impl Fn(usize) -> RoundOptions) -> Vec<u32> {
    let mut tokens = vec![answer.first_token(&options(0)).unwrap().token];
    while answer.finish().is_none() {
        let round = answer.round(&options(1)).unwrap();
        tokens.extend(round.committed.iter().map(|c| c.token));
    }
    tokens
}

/// Tokens and rounds of an answer without notices.
pub fn answer(
    engine: &mut Engine,
    request: &Request,
    options: impl Fn(usize) -> RoundOptions,
) -> (Vec<u32>, Vec<Round>) {
    let (tokens, rounds, notices) = generate(engine, &Letters, request.clone(), options);
    assert_eq!(notices, [""; 0]);
    (tokens, rounds)
}
