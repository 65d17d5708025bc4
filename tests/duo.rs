//! Drafting while the target checks, against the recorded rounds of the original loop
//! (tests/golden/duodec_trace.json) with the recorded models as draft and target.
//!
//! Three things differ on purpose, and are undone here to compare:
//! - the original returns the last tail without having checked it; ours is never returned;
//! - it knows no end of a text; the engine stops at the first one committed;
//! - for budgets other than 12, 16 and 24 it always takes one sequence; ours takes any divisor.

use crate::target::File;
use dovetail::kernels::{KvFormat, Pool};
use dovetail::model::{Config, CpuTarget, Target};
use dovetail::speculate::duo::{Ahead, MOST_SEQUENCES, Sequences, count, divisor};
use dovetail::speculate::{History, Sampler, Tree, accept, top_log_probs};
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;

fn json(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect()
}

fn number(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

fn recorded(name: &str) -> CpuTarget {
    let config = Config::from_hf_json(&json(&format!("{name}/config.json"))).unwrap();
    let weights = File::golden(&format!("{name}/model.safetensors"));
    let pool = Pool::new(1).into();
    CpuTarget::load(&config, &weights, pool, 160, KvFormat::F32, &mut |_| {}).unwrap()
}

type Ranks = Vec<(u32, f32)>;

/// The draft as a function of the text: its likeliest next tokens. The cases have most texts in
/// common, so each is run once.
struct Draft {
    model: CpuTarget,
    text: Vec<u32>,
    known: HashMap<(u32, Vec<u32>), Ranks>,
}

impl Draft {
    fn ranks(&mut self, scale: f32, text: &[u32]) -> Ranks {
        let key = (scale.to_bits(), text.to_vec());
        if let Some(ranks) = self.known.get(&key) {
            return ranks.clone();
        }
        let alike = self.text.iter().zip(text).take_while(|(a, b)| a == b).count();
        let common = alike.min(text.len() - 1);
        self.model.truncate(common);
        let mut logits = self.model.prefill(&text[common..]).unwrap().logits;
        self.text = text.to_vec();
        logits.iter_mut().for_each(|x| *x *= scale);
        let ranks = top_log_probs(&logits, MOST_SEQUENCES);
        self.known.insert(key, ranks.clone());
        ranks
    }

    /// Sequences behind `text`, and how many times the draft was asked.
    fn ahead(
        &mut self,
        scale: f32,
        text: &[u32],
        gamma: usize,
        fixed: Option<usize>,
    ) -> (Tree, usize) {
        let mut sequences = Sequences::new(gamma, fixed, &self.ranks(scale, text));
        let mut run: Vec<u32> = Vec::new();
        while !sequences.beam().is_empty() {
            let beam = sequences.beam().to_vec();
            let candidates: Vec<Ranks> = beam
                .iter()
                .map(|row| {
                    assert_eq!(row.source, row.ancestors.last().copied());
                    let path = row.ancestors.iter().map(|&above| run[above]);
                    let text: Vec<u32> =
                        text.iter().copied().chain(path).chain([row.token]).collect();
                    self.ranks(scale, &text)
                })
                .collect();
            run.extend(beam.iter().map(|row| row.token));
            sequences.expand(&candidates);
        }
        assert_eq!(sequences.rows(), run.len());
        (sequences.finish(text[text.len() - 1]), 1 + run.len())
    }
}

/// The branches of a tree, in order.
fn branches(tree: &Tree) -> Vec<Vec<u32>> {
    let down = |&node: &usize| tree.children(node).next();
    let branch = |first| std::iter::successors(Some(first), down);
    let tokens = |first| branch(first).map(|node| tree.nodes()[node].token).collect();
    tree.children(0).map(tokens).collect()
}

fn replay(case: &Value, target: &mut CpuTarget, draft: &mut Draft) {
    let prompt = numbers(&case["prompt"]);
    let gamma = number(&case["gamma"]);
    let scale = case["draft_logit_scale"].as_f64().unwrap() as f32;
    let fixed = if [12, 16, 24].contains(&gamma) { None } else { Some(1) };
    let end = prompt.len() + number(&case["max_tokens"]);
    let mut rounds = case["rounds"].as_array().unwrap().iter();
    let (mut sampler, mut history) = (Sampler::default(), History::default());

    // Round 0 reads the prompt, while the draft guesses one token. The target's own token becomes
    // the root whatever that guess was; right or wrong, there is no tail.
    let first = rounds.next().unwrap();
    target.truncate(0);
    let logits = target.prefill(&prompt).unwrap().logits;
    let root = sampler.draw(&logits, prompt.len(), &history);
    let guess = draft.ranks(scale, &prompt)[0].0;
    assert_eq!(numbers(&first["seqs"][0]), [guess]);
    assert_eq!(number(&first["mode_out"]), usize::from(guess != root));
    assert_eq!(first["token"].as_u64().map_or(guess, |token| token as u32), root);

    let mut text = [prompt.as_slice(), &[root]].concat();
    let mut tree = Tree::root(root);
    let mut adopted = guess == root;
    let mut length = 1;
    // The original runs the guessed token too, though it asks nothing of it.
    let mut asked = 2;
    for round in rounds {
        let tail = Ahead::tail(&tree);
        assert_eq!(text.len() + tail.len(), number(&round["prefix_len"]));
        assert_eq!(usize::from(!adopted), number(&round["mode_in"]));
        assert_eq!(length, number(&round["prev_size"]));
        if adopted {
            assert_eq!(tail.len() + 1, length);
        }

        let prefix = [text.as_slice(), &tail].concat();
        let (sequences, rows) = draft.ahead(scale, &prefix, gamma, fixed);
        asked += rows;
        let recorded: Vec<Vec<u32>> =
            round["seqs"].as_array().unwrap().iter().map(numbers).collect();
        assert_eq!(branches(&sequences), recorded);
        assert_eq!(recorded.len(), number(&round["k"]));
        length = gamma / recorded.len();

        let verified = target.verify(&tree).unwrap();
        let position = target.len();
        let won = accept(&tree, &verified.logits, &mut sampler, position, &mut history);
        target.commit(&won.path);
        text.extend(won.tokens(&tree));
        let ahead = Ahead::new(position, tail, sequences);
        match ahead.adopt(&text) {
            Some(next) => {
                assert_eq!(number(&round["mode_out"]), 0);
                assert_eq!(number(&round["chosen_seq"]), next.sequence);
                tree = next.tree;
                adopted = true;
            }
            None => {
                assert_eq!(number(&round["mode_out"]), 1);
                assert_eq!(number(&round["token"]), won.bonus as usize);
                if won.path.len() < tree.len() {
                    assert_eq!(number(&round["tail_accepted"]), won.path.len() - 1);
                    assert_eq!(number(&round["tail_len"]), tree.len() - 1);
                }
                tree = Tree::root(won.bonus);
                adopted = false;
            }
        }
        let ends = text.len() + tree.len() - 1 >= end;
        assert_eq!(ends, std::ptr::eq(round, case["rounds"].as_array().unwrap().last().unwrap()));
    }
    assert_eq!(asked, number(&case["draft_evals"]));
    assert_eq!(text.len() - prompt.len(), number(&case["verified_new_tokens"]));
    let tail = Ahead::tail(&tree);
    assert_eq!(tail.len(), number(&case["unverified_tail"]));
    let output = [&text[prompt.len()..], &tail].concat();
    assert_eq!(output, numbers(&case["output"]));
}

#[test]
fn the_recorded_rounds() {
    let trace = json("duodec_trace.json");
    let mut target = recorded("target_mha");
    let mut draft =
        Draft { model: recorded("target_gqa"), text: Vec::new(), known: HashMap::new() };
    let cases = trace["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 36);
    for case in cases {
        replay(case, &mut target, &mut draft);
    }
}

#[test]
fn the_recorded_numbers_of_sequences() {
    let trace = json("duodec_trace.json");
    let mut several = 0;
    for case in trace["k_rule"].as_array().unwrap() {
        let real = |value: &Value| value.as_f64().unwrap().ln() as f32;
        let first: Vec<f32> =
            case["p_first_sorted_top8"].as_array().unwrap().iter().map(real).collect();
        let (gamma, k) = (number(&case["gamma"]), number(&case["k"]));
        let wanted = count(&first, real(&case["p_second_max"]));
        if [12, 16, 24].contains(&gamma) {
            assert_eq!(divisor(gamma, wanted), k, "{case}");
            several += usize::from(k > 1);
        } else {
            assert_eq!(k, 1, "{case}");
        }
    }
    assert!(several > 25, "{several}");
}
