//! The drafters that need no model: no matter what they propose, the text is that of plain
//! decoding.

use std::sync::Arc;

use crate::support::generate::{options, request};
use crate::support::toy::{Letters, Toy, alone, decode};
use dovetail::decode::Engine;

use dovetail::draft::{ContextDraft, Drafter, History, Lookahead, PromptLookup, Retrieval};
use dovetail::speculate::ngrams::{NgramBuilder, NgramTable};
use dovetail::speculate::suffixes::{SortedText, sort};
use dovetail::speculate::{DrafterId, SamplerSettings, Shape};
use proptest::prelude::*;

const VOCAB: usize = 12;

/// Every drafter of this kind, with a text from which retrieval drafts.
fn drafters(store: &[u32]) -> Vec<Box<dyn Drafter>> {
    let history = Arc::new(History::new([store, &[History::BREAK]].concat()));
    let ngrams = ngrams(store);
    let store = SortedText { tokens: store.to_vec(), order: sort(store, |_| {}) };
    let with_history = |sources| ContextDraft::new(sources).with_history(history.clone());
    let with_ngrams = |sources| with_history(sources).with_ngrams(ngrams.clone());
    vec![
        Box::new(with_ngrams(DrafterId::Recycling)),
        Box::new(with_ngrams(DrafterId::Context)),
        Box::new(with_history(DrafterId::Suffix)),
        Box::new(with_history(DrafterId::Context)),
        Box::new(PromptLookup::default()),
        Box::new(Lookahead::default()),
        Box::new(Retrieval::new(store, "a test".into())),
    ]
}

/// A table that is sure of what comes next in `text`, and also considers its neighbour likely.
fn ngrams(text: &[u32]) -> Arc<NgramTable> {
    let mut builder = NgramBuilder::default();
    builder.begin();
    for pair in text.windows(2) {
        builder.push(pair[0], &[(pair[1], 0.8), ((pair[1] + 1) % VOCAB as u32, 0.1)]);
    }
    Arc::new(builder.table(300))
}

fn sampler(temperature: f32, seed: u64) -> SamplerSettings {
    SamplerSettings { temperature, seed, ..SamplerSettings::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// A conversation whose later turns take back part of the earlier ones, with the budget
    /// changing between rounds.
    #[test]
    fn drafters_without_a_model_give_the_plain_text(
        seed: u64,
        temperature in prop_oneof![Just(0.0f32), 0.3f32..1.5],
        gammas in prop::collection::vec(1usize..=64, 1..5),
        turns in prop::collection::vec(
            (0usize..60, prop::collection::vec(0u32..VOCAB as u32, 1..60), 1usize..40), 1..4),
        store in prop::collection::vec(0u32..VOCAB as u32, 0..400),
    ) {
        let sampler = sampler(temperature, seed);
        for drafter in drafters(&store) {
            let name = drafter.describe();
            let toy = Toy::new(seed, VOCAB, 300);
            let mut speculative = Engine::new(Box::new(toy), Some(drafter));
            let mut text: Vec<u32> = Vec::new();
            for (kept, fresh, max_tokens) in &turns {
                text.truncate(*kept);
                text.extend(fresh);
                let request = request(&text, *max_tokens);
                let want = alone(Toy::new(seed, VOCAB, 300), request.clone(), sampler);
                let (got, _, notices) = decode(&mut speculative, &Letters, request, |round| {
                    let gamma = gammas[round % gammas.len()];
                    options(Shape { gamma, width: 1, depth: round % 9 }, true, sampler)
                });
                prop_assert_eq!(&got, &want, "{}", name);
                prop_assert!(notices.is_empty(), "{}: {:?}", name, notices);
                text.extend(&got.tokens);
            }
        }
    }
}

/// The rounds that a drafter needs for what a toy says after `PROMPT`.
fn rounds(drafter: Box<dyn Drafter>, width: usize, sampler: SamplerSettings) -> usize {
    let full = options(Shape { gamma: 64, width, depth: 8 }, true, sampler);
    let mut engine = Engine::new(Box::new(Toy::new(5, VOCAB, 300)), Some(drafter));
    let (got, summary, _) = decode(&mut engine, &Letters, request(&PROMPT, 80), |_| full);
    assert_eq!(got.tokens, said(sampler));
    summary.rounds
}

const PROMPT: [u32; 3] = [1, 2, 3];

fn said(sampler: SamplerSettings) -> Vec<u32> {
    alone(Toy::new(5, VOCAB, 300), request(&PROMPT, 80), sampler).tokens
}

/// Many tokens per round of a text that was seen before are accepted, by each drafter in its own
/// way: retrieval knows the answer, and the end of an earlier chat is drafted from the first phrase
/// on.
#[test]
fn a_text_that_is_known_is_accepted_many_tokens_a_round() {
    let greedy = sampler(0.0, 0);
    let known = [&PROMPT[..], &said(greedy)].concat();
    let retrieval = rounds(drafters(&known).pop().unwrap(), 1, greedy);
    assert!(retrieval < 12, "{retrieval} rounds for 80 tokens");
    let suffix = || ContextDraft::new(DrafterId::Suffix);
    let history = Arc::new(History::new(known));
    let with = rounds(Box::new(suffix().with_history(history)), 1, greedy);
    let without = rounds(Box::new(suffix()), 1, greedy);
    assert!(with < 20 && with < without, "{with} rounds, {without} without");
}

/// A table of the target's own text drafts it from the first token on, with or without the noise of
/// the draw, and stays when the drafter forgets a conversation.
#[test]
fn a_table_of_the_targets_own_texts_drafts_them() {
    for temperature in [0.0, 0.7] {
        let drawn = sampler(temperature, 3);
        let recycling = || ContextDraft::new(DrafterId::Recycling);
        let table = ngrams(&[&PROMPT[..], &said(drawn)].concat());
        let mut known = recycling().with_ngrams(table);
        known.start_over();
        let with = rounds(Box::new(known), 4, drawn);
        let without = rounds(Box::new(recycling()), 4, drawn);
        assert!(with < 40 && with < without, "{with} rounds, {without} without");
    }
}
