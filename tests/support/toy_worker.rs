//! A worker around toy models.

use dovetail::chat::{Message, Role};
use dovetail::decode::{Engine, Request, Round, RoundOptions};
use dovetail::draft::{Budget, Depths, Drafter};
use dovetail::load::SharedTarget;
use dovetail::model::{ModelEngine, Target};
use dovetail::plan::{DrafterId, Strategy};
use dovetail::speculate::{SamplerSettings, Shape};
use dovetail::worker::{
    Backend, Controls, Job, LoadFailure, Loader, Loading, ModelChoice, NewModels, Planner,
    PromptTokens, Ready, SharedControls, Sink, Worker,
};
use std::sync::{Arc, Mutex};

use super::toy::{Guess, Letters, Toy, ToyDrafter, alone};

/// Chooses γ = 6, k = 2, D = 3 if the user does not.
pub struct Fixed;

impl Planner for Fixed {
    fn choose(&mut self, controls: &Controls) -> RoundOptions {
        let shape = Shape {
            gamma: controls.tree.gamma.or(6),
            width: controls.tree.width.or(2),
            depth: controls.tree.depth.or(3),
        };
        let budget = Budget::new(shape, controls.tree.blocks.or(1));
        RoundOptions {
            speculate: controls.speculate,
            coupled: controls.coupled,
            strategy: "dovetail",
            schedule: Strategy::first_with(DrafterId::Head).schedule_with(controls.overlap),
            ..RoundOptions::new(budget, controls.sampler)
        }
    }
    fn observe(&mut self, _: &Round) {}
}

/// A decode thread with models that `load` makes once.
pub fn spawn(
    controls: SharedControls,
    sink: Sink,
    load: impl FnOnce(Loading<'_>) -> Result<Backend, String> + Send + 'static,
) -> std::io::Result<Worker> {
    struct Once<F>(Mutex<Option<F>>);
    impl<F> Loader for Once<F>
    where
        F: FnOnce(Loading<'_>) -> Result<Backend, String> + Send + 'static,
    {
        fn beside(
            &self,
            _: &ModelChoice,
            _: Option<&SharedTarget>,
            _: Loading<'_>,
        ) -> Result<NewModels, LoadFailure> {
            Err(LoadFailure::Stopped)
        }
        fn alone(
            &self,
            _: Option<&ModelChoice>,
            progress: Loading<'_>,
        ) -> Result<Backend, LoadFailure> {
            let load = self.0.lock().unwrap().take();
            load.ok_or(LoadFailure::Stopped)?(progress).map_err(LoadFailure::Failed)
        }
    }
    dovetail::worker::spawn(controls, sink, Once(Mutex::new(Some(load))))
}

/// The toy's description of itself.
pub fn ready() -> Ready {
    Ready {
        target: "toy".into(),
        target_detail: String::new(),
        engine: ModelEngine::Dovetail,
        draft: None,
        depths: Depths::Elastic(4),
        context: 2000,
        most_context: 0,
        gamma: 6,
        blocks: 1,
        width: 2,
        depth: 3,
        reasons: Vec::new(),
        vram_used: 0,
        target_place: "on the CPU".to_owned(),
        prompts_on: None,
        strategy: "dovetail".into(),
        strategies: Vec::new(),
        sampler: None,
        switches_thinking: false,
        plain_ms: None,
        verify_ms: Vec::new(),
        for_show: false,
        models: ModelChoice::default(),
    }
}

pub fn backend(target: Box<dyn Target>, drafter: ToyDrafter) -> Backend {
    let drafters: Vec<Box<dyn Drafter>> = vec![Box::new(drafter)];
    Backend {
        engine: Engine::new(target, drafters),
        names: Arc::new(Letters),
        // One token per byte, and no token for an exclamation mark.
        prompter: Box::new(|messages, _| {
            let (messages, begun) = match messages {
                [rest @ .., begun] if begun.role == Role::Assistant => (rest, begun.content.len()),
                all => (all, 0),
            };
            let text: String = messages.iter().map(|m| m.content.as_str()).collect();
            let token = |byte: u8| {
                if byte == b'!' { Err("no !".to_owned()) } else { Ok(u32::from(byte) % 30) }
            };
            let tokens = text.bytes().map(token).collect::<Result<_, _>>()?;
            // These tokens are wrong: the right ones are those that were decoded.
            Ok(PromptTokens { tokens, opened: None, begun: vec![0; begun], asked: Vec::new() })
        }),
        eos: Vec::new(),
        stop: Vec::new(),
        planner: Box::new(Fixed),
        ready: ready(),
        notices: vec!["mind the gap".into()],
        shared: None,
        snapshots: None,
    }
}

pub fn knowing() -> ToyDrafter {
    ToyDrafter::new(Guess::Knowing, 3, 30)
}

pub fn job(generation: u64, prompt: &str, max_tokens: usize) -> Job {
    let message = Message::new(Role::User, prompt);
    Job { generation, messages: vec![message], max_tokens, ..Job::default() }
}

/// The plain answer of the toy with this seed to a prompt.
pub fn wanted_of(seed: u64, prompt: &str, max_tokens: usize, sampler: SamplerSettings) -> Vec<u32> {
    let prompt = prompt.bytes().map(|byte| u32::from(byte) % 30).collect();
    let request = Request { prompt, max_tokens, ..Request::default() };
    alone(Toy::new(seed, 30, 2000), request, sampler).tokens
}

/// The plain answer to a prompt.
pub fn wanted(prompt: &str, max_tokens: usize, sampler: SamplerSettings) -> Vec<u32> {
    wanted_of(3, prompt, max_tokens, sampler)
}
