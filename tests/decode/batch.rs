//! Answers in parallel: each is the same as when it is generated alone.

use crate::support::bundled::heldout;
use crate::support::generate::{plain, samplers};
use dovetail::chat::{Message, Role};
use dovetail::decode::{Answered, BatchEngine, DecodeError, Engine, Finish, Request};
use dovetail::kernels::{KvFormat, Pool};
use dovetail::library::{Spec, TargetFiles, open_target};
use dovetail::model::{CpuBatch, CpuTarget, LoadRequest, TargetError};
use dovetail::speculate::SamplerSettings;
use std::collections::BTreeMap;
use std::sync::Arc;

const CAPACITY: usize = 160;

fn target(files: &TargetFiles) -> CpuTarget {
    let (config, source, kv) = (&files.config, files.weights.as_ref(), KvFormat::F32);
    let (pool, capacity) = (Arc::new(Pool::new(2)), CAPACITY);
    CpuTarget::load(&LoadRequest::new(config, source, pool, capacity, kv)).unwrap()
}

/// Prompts of different lengths with answers of different lengths, one as long as the room allows.
fn requests(files: &TargetFiles) -> Vec<Request> {
    heldout()
        .iter()
        .enumerate()
        .take(11)
        .map(|(i, said)| {
            let chat = [Message::new(Role::User, said[0].clone())];
            let prompt = files.template.prompt(&chat, true, &|_| Vec::new()).unwrap();
            let pieces = files.tokenizer.encode_prompt(&prompt, false).unwrap();
            let prompt: Vec<u32> = pieces.into_iter().map(|(token, _)| token).collect();
            // One ends only when the context is full, some end with a sentence.
            let (eos, max_tokens) = match i {
                2 => (Vec::new(), CAPACITY),
                _ => (files.eos.clone(), if i % 3 == 1 { 40 } else { 1 + 7 * (i % 5) }),
            };
            let stop = if i % 3 == 1 { vec![".".to_owned()] } else { Vec::new() };
            Request { prompt, max_tokens, eos, stop, ..Request::default() }
        })
        .collect()
}

#[test]
fn an_answer_is_the_same_alone_and_beside_others() {
    let files = open_target(&Spec::Bundled, &mut |_| {}).unwrap();
    let requests = requests(&files);
    let sampler = |i: usize| SamplerSettings { seed: i as u64, ..samplers()[i % 4] };
    let mut engine = Engine::new(Box::new(target(&files)), []);
    let alone: Vec<(String, usize, Option<Finish>)> = requests
        .iter()
        .enumerate()
        .map(|(i, request)| {
            engine.forget();
            let mut answer = engine.generate(request.clone(), &files.tokenizer).unwrap();
            let options = plain(sampler(i))(0);
            let mut text = answer.first_token(&options).unwrap().text;
            while answer.finish().is_none() {
                let round = answer.round(&options).unwrap();
                text.extend(round.committed.into_iter().map(|token| token.text));
            }
            (text, answer.summary().tokens, answer.finish())
        })
        .collect();
    let ends: Vec<_> = alone.iter().map(|(.., finish)| finish.unwrap()).collect();
    for end in [Finish::MaxTokens, Finish::StopString, Finish::Eos, Finish::ContextFull] {
        assert!(ends.contains(&end), "{ends:?}");
    }
    for together in [1, 3, 16] {
        let batch = CpuBatch::new(target(&files), together).unwrap();
        let mut batch = BatchEngine::new(batch);
        let mut found = BTreeMap::new();
        let mut note = |answer: Answered| {
            let Answered { key, text, tokens, finish } = answer;
            assert!(found.insert(key, (text, tokens, Some(finish))).is_none());
        };
        let mut waiting = requests.iter().enumerate();
        loop {
            while batch.has_room()
                && let Some((i, request)) = waiting.next()
            {
                let ended = batch.begin(i, request, sampler(i), &files.tokenizer).unwrap();
                ended.map(&mut note);
            }
            if batch.active() == 0 {
                break;
            }
            batch.step(&files.tokenizer).unwrap().into_iter().for_each(&mut note);
        }
        let found: Vec<_> = found.into_values().collect();
        assert_eq!(found, alone, "{together} side by side");
    }
}

#[test]
fn what_cannot_be_answered_changes_nothing() {
    let files = open_target(&Spec::Bundled, &mut |_| {}).unwrap();
    let mut batch = CpuBatch::new(target(&files), 2).unwrap();
    let outside = batch.vocab() as u32;
    let error = |result: Result<&[f32], TargetError>| result.unwrap_err().to_string();
    assert!(error(batch.append(&[1, outside])).contains("outside the vocabulary"));
    assert!(error(batch.prefill(1, &[0; CAPACITY + 1])).contains("the context is full"));
    assert_eq!((batch.len(0), batch.len(1)), (0, 0));
    let long = Request { prompt: vec![1; CAPACITY + 1], max_tokens: 1, ..Request::default() };
    let mut batch = BatchEngine::new(batch);
    for request in [Request::default(), long] {
        let begun = batch.begin(0, &request, SamplerSettings::default(), &files.tokenizer);
        assert!(matches!(begun, Err(DecodeError::EmptyPrompt | DecodeError::PromptTooLong { .. })));
    }
    assert_eq!(batch.active(), 0);
}
