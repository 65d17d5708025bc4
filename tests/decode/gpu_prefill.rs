//! Decoding with long prompts that a GPU reads for a target on the CPU: in every turn of a
//! conversation the text equals that of plain decoding, no matter what is drafted, and losing the
//! GPU in the middle of a prompt leaves the CPU's own text.

use std::ops::Range;
use std::sync::Arc;

use crate::support::drafters::{ON_GPU, drafters, on_the_cpu, rounds_of, two_samplers};
use crate::support::generate::{answer, finish, generate, plain, request, samplers};
use crate::support::gpu::{another_gpu, gpu};
use crate::support::library::{arch, arch_recording, load_files};
use crate::support::toy::Letters;
use dovetail::decode::{Engine, Request, RoundOptions, Summary};
use dovetail::kernels::{KvFormat, Pool};
use dovetail::library::TargetFiles;
use dovetail::model::{CpuTarget, Gpu, GpuLimits, LoadRequest, PlacedTarget};

const CONTEXT: usize = 500;
/// The length of an answer in tokens.
const LENGTH: usize = 10;

fn files() -> TargetFiles {
    arch("qwen3")
}

/// The target with a GPU that reads its long prompts.
fn target(files: &TargetFiles, gpu: &Arc<Gpu>) -> PlacedTarget {
    let pool = Arc::new(Pool::new(2));
    let (config, source, kv) = (&files.config, files.weights.as_ref(), KvFormat::F32);
    let request = LoadRequest::new(config, source, pool, CONTEXT, kv);
    let cpu = CpuTarget::load(&request).unwrap();
    PlacedTarget::reading_prompts(cpu, gpu, &request).map_err(|failed| failed.1).unwrap()
}

/// This many tokens of some text.
fn text(length: usize, seed: usize) -> Vec<u32> {
    let some = arch_recording("qwen3", "logits").0;
    (0..length).map(|i| some[(i * i + seed * i + i / 5) % some.len()]).collect()
}

/// A conversation: a long question, a long one after an answer, a short one after the next.
#[derive(Default)]
struct Talk {
    tokens: Vec<u32>,
    asked: Vec<Range<usize>>,
}

impl Talk {
    fn ask(&mut self, length: usize) -> Request {
        let begin = self.tokens.len();
        self.tokens.extend(text(length, begin + 1));
        self.asked.push(begin..self.tokens.len());
        Request { asked: self.asked.clone(), ..request(&self.tokens, LENGTH) }
    }
}

/// The answers of a conversation, from one engine that forgets before each of them or before the
/// first.
fn answers(
    engine: &mut Engine,
    forgets: bool,
    options: impl Fn(usize) -> RoundOptions,
) -> Vec<Vec<u32>> {
    let mut talk = Talk::default();
    engine.forget();
    let mut all = Vec::new();
    for length in [150, 170, 6] {
        if forgets {
            engine.forget();
        }
        let (tokens, _) = answer(engine, &talk.ask(length), &options);
        talk.tokens.extend(&tokens);
        all.push(tokens);
    }
    all
}

/// What is drafted changes which positions an answer leaves in the cache; the rows that the GPU
/// reads are the same. The reference has no drafter and reads every prompt from the start. The
/// strategies take the samplers in turns.
#[test]
fn every_strategy_gives_plain_text_in_every_turn() {
    let Some(gpu) = gpu() else { return };
    let files = files();
    let mut alone = Engine::new(Box::new(target(&files, &gpu)), []);
    let own = target(&files, &gpu);
    let drafters = drafters(&files, own.cpu(), &text(200, 3), CONTEXT);
    let mut engine = Engine::new(Box::new(own), drafters);
    for (number, sampler) in two_samplers().into_iter().enumerate() {
        let want = answers(&mut alone, true, plain(sampler));
        for row in on_the_cpu().skip(number).step_by(2) {
            let got = answers(&mut engine, false, rounds_of(row, sampler, ON_GPU));
            assert_eq!(got, want, "{} with {sampler:?}", row.name);
        }
        // In one cache without drafters, and with drafters that are not used.
        for engine in [&mut alone, &mut engine] {
            assert_eq!(answers(engine, false, plain(sampler)), want);
        }
    }
}

/// An answer that was stopped and continued equals the answer that was not stopped.
#[test]
fn an_answer_that_goes_on_is_the_same() {
    let Some(gpu) = gpu() else { return };
    let mut engine = Engine::new(Box::new(target(&files(), &gpu)), []);
    let sampler = samplers()[0];
    let whole = Talk::default().ask(150);
    let want = answer(&mut engine, &whole, plain(sampler)).0;
    for begun in [1, 4] {
        engine.forget();
        let prompt = [&whole.prompt[..], &want[..begun]].concat();
        let rest = Request { prompt, max_tokens: LENGTH - begun, ..whole.clone() };
        assert_eq!(answer(&mut engine, &rest, plain(sampler)).0, want[begun..]);
    }
}

/// Only the prefill uses the bus, and the summary says so.
#[test]
fn the_prefill_says_what_went_over_the_bus() {
    let Some(gpu) = another_gpu(GpuLimits::default()) else { return };
    let mut engine = Engine::new(Box::new(target(&files(), &gpu)), []);
    assert!(engine.is_on_gpu());
    let mut read = |length: usize| -> Summary {
        let before = gpu.traffic_meter().read();
        let mut answer = engine.generate(Talk::default().ask(length), &Letters).unwrap();
        finish(&mut answer, plain(samplers()[0]));
        let summary = answer.summary().clone();
        assert!(summary.traffic.is_none());
        assert_eq!(summary.prefill_traffic, gpu.traffic_meter().read().since(before));
        summary
    };
    let long = read(150).prefill_traffic;
    assert!(long.submissions >= 2 && long.up > 0 && long.down > 0, "{long:?}");
    let short = read(60);
    assert!(short.prefill_traffic.is_none());
    assert!(!serde_json::to_string(&short).unwrap().contains("traffic"));
}

/// Lost before a prompt or in the middle of it: the CPU then computes all of it, in this turn and
/// the next.
#[test]
fn a_gpu_that_is_lost_in_a_prompt_leaves_the_cpus_text() {
    let files = files();
    let sampler = samplers()[2];
    for read_before in [0, 1, 2] {
        let Some(gpu) = another_gpu(GpuLimits::default()) else { return };
        let own = target(&files, &gpu);
        let drafters = drafters(&files, own.cpu(), &text(60, 3), CONTEXT);
        let mut engine = Engine::new(Box::new(own), drafters);
        let mut talk = Talk::default();
        let first = talk.ask(150);
        let mut begun = engine.generate(first.clone(), &Letters).unwrap();
        for _ in 0..read_before {
            begun.prefill().unwrap();
        }
        let all_read = begun.progress().is_complete();
        gpu.destroy();
        let tokens = finish(&mut begun, plain(sampler));
        let mut notices = begun.take_notices();
        talk.tokens.extend(&tokens);
        let mut alone = Engine::new(Box::new(load_files(&files, CONTEXT, 2)), []);
        if read_before == 0 {
            let want = answer(&mut alone, &first, plain(sampler)).0;
            assert_eq!(tokens, want, "the prompt was read on the CPU");
        }
        // The next long question needs the GPU, if the first did not.
        let second = talk.ask(170);
        let (next, _, more) = generate(&mut engine, &Letters, second.clone(), plain(sampler));
        notices.extend(more);
        assert_eq!(notices.len(), 1, "one line tells: {notices:?}");
        assert!(notices[0].contains("the GPU was lost"), "{notices:?}");
        assert!(notices[0].ends_with("from now on the CPU reads the prompts"), "{notices:?}");
        let want = answer(&mut alone, &second, plain(sampler)).0;
        assert_eq!(next, want, "{read_before} slices were read, all: {all_read}");
    }
}

/// In the middle: the GPU reads the first of two slices, but not the second.
#[test]
fn a_gpu_that_is_lost_between_two_slices_leaves_the_cpus_text() {
    let files = files();
    let Some(gpu) = another_gpu(GpuLimits::default()) else { return };
    let mut engine = Engine::new(Box::new(target(&files, &gpu)), []);
    // Two runs of one slice each, with an answer between them.
    let mut talk = Talk::default();
    talk.ask(150);
    talk.tokens.extend(text(5, 9));
    let both = talk.ask(200);
    let mut begun = engine.generate(both.clone(), &Letters).unwrap();
    while begun.progress().done < 150 {
        begun.prefill().unwrap();
    }
    assert!(!gpu.traffic_meter().read().is_none());
    gpu.destroy();
    let tokens = finish(&mut begun, plain(samplers()[0]));
    assert_eq!(begun.take_notices().len(), 1);
    let mut alone = Engine::new(Box::new(load_files(&files, CONTEXT, 2)), []);
    assert_eq!(tokens, answer(&mut alone, &both, plain(samplers()[0])).0);
}
