//! The same seed gives the same text on every processor: answers of the bundled pair on each
//! instruction set that this machine has, compared with hashes that were recorded once for all.

use std::hash::Hasher as _;
use std::sync::Arc;

use crate::support::generate::{generate, plain, request};
use crate::support::library::{open_head, open_target};
use crate::support::models::load_target;
use crate::support::toy::Letters;
use dovetail::chat::{Message, Role};
use dovetail::decode::{Engine, Request, RoundOptions};
use dovetail::draft::{Budget, Drafter, FeatureHead};
use dovetail::kernels::{Isa, KvFormat, Pool};
use dovetail::library::{Spec, TargetFiles};
use dovetail::model::head::{DraftPrecision, HeadRequest, HeadWeights, PackedHead, SharedTables};
use dovetail::speculate::{SamplerSettings, Shape};
use fnv::FnvHasher;
use sha2::{Digest as _, Sha256};

/// The questions and the hashes of the answers, separated by tabs: "temperature top_p seed
/// max_tokens, FNV-1a of the tokens (four bytes each, the lowest first), SHA-256 of what `dovetail
/// run` prints, prompt". `tests/cross/program.sh` asks the program the same questions on other
/// processors.
const ANSWERS: &str = include_str!("../golden/answers.tsv");
const CONTEXT: usize = 256;

/// The bundled target on `pool`, optionally with its head.
fn engine(pool: Arc<Pool>, with_head: bool) -> Engine {
    let files = open_target(&Spec::Bundled).unwrap();
    let target =
        load_target(&files.config, &*files.weights, Arc::clone(&pool), CONTEXT, KvFormat::F16);
    let head = with_head.then(|| {
        let head = open_head(&Spec::Bundled).unwrap();
        let weights = HeadWeights::load(&head.config, &*head.tensors).unwrap();
        let shared = SharedTables::of(&target);
        let precision = DraftPrecision::Eight;
        let request = HeadRequest::new(&weights, &shared, pool, CONTEXT);
        let backend = PackedHead::new(&HeadRequest { precision, ..request }).unwrap();
        let head = FeatureHead::new(&head.config, Box::new(backend), CONTEXT);
        Box::new(head) as Box<dyn Drafter>
    });
    Engine::new(Box::new(target), head)
}

/// A line of [`ANSWERS`].
struct Asked {
    sampler: SamplerSettings,
    max_tokens: usize,
    tokens: u64,
    printed: &'static str,
    prompt: &'static str,
}

fn asked() -> Vec<Asked> {
    let asked = |line: &'static str| {
        let cells: Vec<&str> = line.split('\t').collect();
        let [temperature, top_p, seed, max_tokens, tokens, printed, prompt] = cells[..] else {
            panic!("seven columns: {line}");
        };
        let sampler = SamplerSettings {
            temperature: temperature.parse().unwrap(),
            top_p: top_p.parse().unwrap(),
            seed: seed.parse().unwrap(),
            ..SamplerSettings::default()
        };
        let tokens = u64::from_str_radix(tokens, 16).unwrap();
        Asked { sampler, max_tokens: max_tokens.parse().unwrap(), tokens, printed, prompt }
    };
    ANSWERS.lines().filter(|line| !line.starts_with('#')).map(asked).collect()
}

/// `prompt` as the target reads it.
fn prompt_tokens(files: &TargetFiles, prompt: &str) -> Vec<u32> {
    let messages = [Message::new(Role::User, prompt.to_owned())];
    let controls = |text: &str| files.tokenizer.controls_in(text);
    let prompt = files.template.prompt(&messages, true, &controls).unwrap();
    let tokens = files.tokenizer.encode_prompt(&prompt, files.template.wants_bos()).unwrap();
    tokens.into_iter().map(|(token, _)| token).collect()
}

#[test]
fn a_seed_gives_the_same_text_on_every_processor() {
    let files = open_target(&Spec::Bundled).unwrap();
    let asked = asked();
    let tree = Budget::new(Shape { gamma: 6, width: 3, depth: 3 }, 4);
    let (mut sets, mut other) = (0, Vec::new());
    for isa in Isa::here() {
        let pool = |threads| Arc::new(Pool::with_isa(threads, isa));
        let (mut alone, mut drafted) = (engine(pool(1), false), engine(pool(3), true));
        let mut accepted = 0;
        for line in &asked {
            let sampler = line.sampler;
            let prompt = prompt_tokens(&files, line.prompt);
            let request = Request { eos: files.eos.clone(), ..request(&prompt, line.max_tokens) };
            let text = generate(&mut alone, &Letters, request.clone(), plain(sampler)).0;
            let (tokens, rounds, _) =
                generate(&mut drafted, &Letters, request, |_| RoundOptions::new(tree, sampler));
            let name = isa.name();
            assert_eq!(tokens, text, "{name} {sampler:?}: {}", line.prompt);
            accepted += rounds.iter().map(|round| round.accepted.len()).sum::<usize>();
            let printed = format!("{}\n", files.tokenizer.text(&text));
            let sha: String =
                Sha256::digest(&printed).iter().map(|byte| format!("{byte:02x}")).collect();
            let mut tokens = FnvHasher::default();
            for token in text {
                tokens.write(&token.to_le_bytes());
            }
            let tokens = tokens.finish();
            if (tokens, sha.as_str()) != (line.tokens, line.printed) {
                let found = format!("{name} {sampler:?}: {tokens:016x}\t{sha}\t{}", line.prompt);
                other.push(format!("{found}: {printed}"));
            }
        }
        assert!(accepted > 0, "{}: nothing was accepted", isa.name());
        sets += 1;
    }
    assert!(other.is_empty(), "not as recorded:\n{}", other.concat());
    assert!(sets > 0 && asked.len() >= 6);
}
