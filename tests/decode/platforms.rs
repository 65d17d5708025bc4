//! The same seed gives the same text on every processor: answers of the bundled pair on each
//! instruction set that this machine has, against a hash that was recorded once for all.

use std::sync::Arc;

use crate::support::generate::{generate, heldout, plain, request, samplers};
use crate::support::library::{open_head, open_target};
use crate::support::models::load_target;
use crate::support::toy::Letters;
use dovetail::chat::{Message, Role};
use dovetail::decode::{Engine, RoundOptions};
use dovetail::draft::{Budget, Drafter, FeatureHead};
use dovetail::files::{FNV_START, fnv1a};
use dovetail::kernels::{Isa, KvFormat, Pool};
use dovetail::library::Spec;
use dovetail::model::head::{HeadPrecision, HeadWeights, PackedHead, SharedTables};
use dovetail::speculate::Shape;

/// Of the tokens of all answers below, four bytes each, the lowest first.
const TEXTS: u64 = 0x2299_8093_c9b8_0914;
/// Few: without vector instructions a fused product takes a function call.
const PROMPTS: usize = 1;
const TOKENS: usize = 24;
const CONTEXT: usize = 256;

/// The bundled target on `pool`, with its head if one is wanted.
fn engine(pool: Arc<Pool>, with_head: bool) -> Engine {
    let files = open_target(&Spec::Bundled).unwrap();
    let target =
        load_target(&files.config, &*files.weights, Arc::clone(&pool), CONTEXT, KvFormat::F16);
    let head = with_head.then(|| {
        let head = open_head(&Spec::Bundled).unwrap();
        let weights = HeadWeights::load(&head.config, &*head.tensors).unwrap();
        let shared = SharedTables::of(&target);
        let (precision, kv) = (HeadPrecision::Eight, KvFormat::F16);
        let backend = PackedHead::new(&weights, &shared, pool, CONTEXT, precision, kv).unwrap();
        let head = FeatureHead::new(&head.config, weights.kind(), Box::new(backend), CONTEXT);
        Box::new(head) as Box<dyn Drafter>
    });
    Engine::new(Box::new(target), head)
}

/// The held-out questions as the target reads them.
fn prompts() -> Vec<Vec<u32>> {
    let files = open_target(&Spec::Bundled).unwrap();
    let prompt = |turns: Vec<String>| {
        let messages = [Message::new(Role::User, turns.into_iter().next().unwrap())];
        let controls = |text: &str| files.tokenizer.controls_in(text);
        let prompt = files.template.prompt(&messages, true, &controls).unwrap();
        let tokens = files.tokenizer.encode_prompt(&prompt, files.template.wants_bos()).unwrap();
        tokens.into_iter().map(|(token, _)| token).collect()
    };
    heldout().into_iter().take(PROMPTS).map(prompt).collect()
}

#[test]
fn a_seed_gives_the_same_text_on_every_processor() {
    let prompts = prompts();
    let tree = Budget::new(Shape { gamma: 12, width: 4, depth: 4 }, 4);
    let mut sets = 0;
    for isa in Isa::ALL.into_iter().filter(|isa| isa.available()) {
        let pool = |threads| Arc::new(Pool::with_isa(threads, isa));
        let (mut alone, mut drafted) = (engine(pool(1), false), engine(pool(3), true));
        let mut hash = FNV_START;
        let mut accepted = 0;
        for prompt in &prompts {
            for sampler in [samplers()[0], samplers()[3]] {
                let request = request(prompt, TOKENS);
                let text = generate(&mut alone, &Letters, request.clone(), plain(sampler)).0;
                let (tokens, rounds, _) =
                    generate(&mut drafted, &Letters, request, |_| RoundOptions::new(tree, sampler));
                assert_eq!(tokens, text, "{} {sampler:?}", isa.name());
                accepted += rounds.iter().map(|round| round.accepted.len()).sum::<usize>();
                hash = fnv1a(hash, text.into_iter().flat_map(u32::to_le_bytes));
            }
        }
        assert!(accepted > 0, "{}: nothing was accepted", isa.name());
        assert_eq!(hash, TEXTS, "{}: {hash:#x}", isa.name());
        sets += 1;
    }
    assert!(sets > 0);
}
