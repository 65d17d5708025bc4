//! EAGLE-3 heads of every published layout against the original program's numbers, from the
//! target's taps to whole generations, on every backend.

use candle_core::Tensor;
use dovetail::draft::{Budget, DraftRequest, Drafter};
use dovetail::kernels::KvFormat;
use dovetail::model::head::{DraftPrecision, HeadBackend, Pairs};
use dovetail::model::{FeatureSource, Target};
use dovetail::speculate::{Ranking, Tree, top_log_probs};

use crate::support::eagle3::{EAGLE3_HEADS, Eagle3Case, eagle3_target, eagle3_trees};
use crate::support::golden::{assert_close, floats, numbers, tensors};
use crate::support::heads::{Backend, assert_tree, backends, recorded_beam};

/// As the vectors' README requires; 1e-4 would hide a wrong epsilon.
const TOLERANCE: f32 = 5e-5;
const LOGITS: f32 = 3e-4;

/// Features and tokens of a prompt's pairs, with the target that has read it.
fn pairs(case: &Eagle3Case, prompt: &[u32], root: u32) -> (Vec<f32>, Vec<u32>) {
    let features = case.target().prefill(prompt).unwrap().features;
    (features, [&prompt[1..], &[root]].concat())
}

/// The token that the target itself would choose after a prompt.
fn root_of(case: &Eagle3Case, prompt: &[u32]) -> u32 {
    top_log_probs(&case.target().prefill(prompt).unwrap().logits, 1)[0].0
}

fn log_softmax(logits: &[f32]) -> Vec<f32> {
    let max = logits.iter().copied().fold(f32::MIN, f32::max);
    let sum: f64 = logits.iter().map(|x| f64::from(x - max).exp()).sum();
    logits.iter().map(|x| x - max - sum.ln() as f32).collect()
}

/// All candidates of a row as log-probabilities by the head's own ids.
fn by_id(case: &Eagle3Case, candidates: &[(u32, f32)]) -> Vec<f32> {
    let tokens = case.weights.draft_vocab.as_ref().map(|tokens| tokens.tokens().to_vec());
    let mut all = vec![f32::NAN; case.weights.config.scored()];
    for &(token, log_prob) in candidates {
        let id = tokens.as_ref().map_or(token as usize, |all| all.binary_search(&token).unwrap());
        all[id] = log_prob;
    }
    all
}

#[test]
fn the_target_gives_the_states_that_a_head_taps() {
    let expected = tensors("eagle3/target_taps.safetensors");
    let prompt = expected["p0.input_ids"].to_vec1::<i64>().unwrap();
    let prompt: Vec<u32> = prompt.into_iter().map(|id| id as u32).collect();
    for (states, name) in [([2, 4, 5], "default.p0.taps"), ([3, 5, 7], "ids357.p0.taps")] {
        let mut target = eagle3_target();
        target.set_features(FeatureSource::States(states.to_vec()));
        assert_eq!(target.feature_width(), 192);
        let read = target.prefill(&prompt).unwrap();
        assert_close(name, &read.features, &floats(&expected[name]), TOLERANCE);
        let logits = floats(&expected["p0.logits"]);
        assert_close("logits", &read.logits, &logits[23 * 512..], LOGITS);
        // As a tree of one path, starting with the last token of the first half.
        target.truncate(0);
        target.prefill(&prompt[..10]).unwrap();
        let mut tree = Tree::root(prompt[10]);
        (11..24).for_each(|i| _ = tree.push(i - 11, prompt[i], -1.0));
        let seen = target.verify(&tree).unwrap();
        assert_eq!(seen.features, read.features[10 * 192..], "bit for bit");
        assert_close("tree logits", &seen.logits, &logits[10 * 512..], LOGITS);
    }
}

#[test]
fn state_0_is_the_embedding_and_the_last_one_enters_the_final_norm() {
    let mut target = eagle3_target();
    let normed = target.prefill(&[5, 6, 7]).unwrap().features;
    target.truncate(0);
    target.set_features(FeatureSource::States(vec![0, 8]));
    let states = target.prefill(&[5, 6, 7]).unwrap().features;
    let norm = &tensors("eagle3/target/model.safetensors")["model.norm.weight"];
    for (i, (row, normed)) in states.chunks_exact(128).zip(normed.chunks_exact(64)).enumerate() {
        let mut embedding = vec![0.0; 64];
        target.embedding().row(5 + i, &mut embedding);
        assert_eq!(row[..64], embedding);
        let x = Tensor::from_slice(&row[64..], (1, 64), norm.device()).unwrap();
        let again = candle_nn::ops::rms_norm(&x, norm, 1e-5).unwrap();
        assert_close("final norm", &floats(&again), normed, TOLERANCE);
    }
}

/// The block with its keys and values, and the LM head.
#[test]
fn the_prefill_is_the_originals() {
    let trees = eagle3_trees();
    for name in EAGLE3_HEADS {
        let case = Eagle3Case::load(name);
        for prompt_name in ["p0", "p1", "p2"] {
            let prompt = trees.prompt(prompt_name);
            let root = root_of(&case, &prompt);
            let (features, tokens) = pairs(&case, &prompt, root);
            let vector = |what: &str| floats(&case.vectors[&format!("{prompt_name}.{what}")]);
            for backend in backends() {
                let mut head = case.backend(backend);
                head.extend(0, Pairs { features: &features, tokens: &tokens }, 1).unwrap();
                let what = |what: &str| format!("{name} {prompt_name} {backend:?} {what}");
                let outputs = head.outputs().unwrap();
                assert_close(&what("out"), &outputs, &vector("out_hidden"), TOLERANCE);
                let scored = case.weights.config.scored();
                let found = by_id(&case, &head.rank_root(&Ranking::new(scored)).unwrap());
                let logits = vector("logits");
                let last = log_softmax(&logits[logits.len() - scored..]);
                assert_close(&what("log-probabilities"), &found, &last, TOLERANCE);
            }
        }
    }
}

/// The original's own beams, step by step: what each row reads, computes and proposes.
#[test]
fn tree_steps_compute_the_originals_rows() {
    let trees = eagle3_trees();
    let mut compared = 0;
    for name in EAGLE3_HEADS {
        let case = Eagle3Case::load(name);
        let prompt = trees.prompt("p0");
        for setting in ["k4d5t16", "k8d3t24"] {
            let golden = &trees.0["trees"][name][format!("{setting}.p0")];
            let steps = golden["steps"].as_array().unwrap();
            let root = golden["root"].as_u64().unwrap() as u32;
            assert_eq!(root, root_of(&case, &prompt));
            let width = trees.shape(setting).width;
            let (features, tokens) = pairs(&case, &prompt, root);
            for backend in backends() {
                let mut head = case.backend(backend);
                head.extend(0, Pairs { features: &features, tokens: &tokens }, 1).unwrap();
                let hidden = case.weights.config.body.hidden;
                let outputs = head.outputs().unwrap();
                // What a row can continue from: the root's output, then every row's.
                let mut sources = outputs[outputs.len() - hidden..].to_vec();
                let first = head.rank_root(&Ranking::new(width)).unwrap();
                let ids: Vec<u32> = first.iter().map(|child| child.0).collect();
                assert_eq!(ids, numbers(&steps[0]["topk_tokens"]));
                let mut paths = Vec::new();
                for number in 1..steps.len() {
                    let vector = |what: &str| {
                        case.vectors.get(&format!("{setting}.p0.step{}.{what}", number - 1))
                    };
                    let beam = recorded_beam(steps, number, width, &mut paths);
                    let read: Vec<f32> = beam
                        .iter()
                        .flat_map(|row| {
                            let at = row.source.map_or(0, |source| source + 1) * hidden;
                            sources[at..at + hidden].to_vec()
                        })
                        .collect();
                    let what = format!("{name} {setting} {backend:?} step {number}");
                    assert_close(&what, &read, &floats(vector("hidden_in").unwrap()), TOLERANCE);
                    let scored = case.weights.config.scored();
                    let found = head.step(&beam, &Ranking::new(scored)).unwrap();
                    let outputs = head.outputs().unwrap();
                    let expected = floats(vector("hidden_out").unwrap());
                    assert_close(&what, &outputs, &expected, TOLERANCE);
                    sources.extend(outputs);
                    let top: Vec<Vec<u32>> = found
                        .iter()
                        .map(|row| row.iter().take(width).map(|child| child.0).collect())
                        .collect();
                    let best = steps[number]["topk_tokens"].as_array().unwrap();
                    assert_eq!(top, best.iter().map(numbers).collect::<Vec<_>>(), "{what}");
                    if let Some(expected) = vector("logprobs") {
                        let found: Vec<f32> =
                            found.iter().flat_map(|row| by_id(&case, row)).collect();
                        assert_close(&what, &found, &floats(expected), TOLERANCE);
                        compared += 1;
                    }
                }
            }
        }
    }
    assert_eq!(compared, (4 * 5 + 3 * 3) * backends().len());
}

#[test]
fn trees_are_the_originals() {
    let trees = eagle3_trees();
    let mut compared = 0;
    for name in EAGLE3_HEADS {
        let case = Eagle3Case::load(name);
        for (shape, prompt, key, expected) in trees.of(name) {
            assert!(expected["margin"].as_f64().unwrap() > 2e-4, "{name} {key}");
            let root = expected["root"].as_u64().unwrap() as u32;
            assert_eq!(root, root_of(&case, &prompt));
            let (features, tokens) = pairs(&case, &prompt, root);
            for backend in backends() {
                let mut drafter = case.drafter(backend);
                drafter.observe(&features, &tokens).unwrap();
                let budget = Budget::new(shape, 1);
                let tree = drafter.propose(&[], &DraftRequest::new(root, budget)).unwrap();
                assert_tree(&tree, expected, &format!("{name} {key} {backend:?}"), TOLERANCE);
                assert_eq!(drafter.stable_len(0) as u64, expected["n_pairs"].as_u64().unwrap());
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 33 * backends().len());
}

/// Whole generations, round by round: the trees, what is accepted, and the states of what was
/// accepted; on a GPU one of every head.
#[test]
fn generations_are_the_originals() {
    let trees = eagle3_trees();
    for name in EAGLE3_HEADS {
        let case = Eagle3Case::load(name);
        for (key, expected) in trees.0["generate"][name].as_object().unwrap() {
            let (setting, prompt_name) = key.split_once('.').unwrap();
            let budget = Budget::new(trees.shape(setting), 1);
            let saved = expected["taps_saved_for_round"].as_u64();
            for backend in backends() {
                if matches!(backend, Backend::Gpu) && prompt_name != "p1" {
                    continue;
                }
                let what = format!("{name} {key} {backend:?}");
                let mut text = trees.prompt(prompt_name);
                let (mut target, mut drafter) = (case.target(), case.drafter(backend));
                let read = target.prefill(&text).unwrap();
                let best = |logits: &[f32]| top_log_probs(logits, 1)[0].0;
                let mut features = read.features;
                text.push(best(&read.logits));
                let mut new = text[1..].to_vec();
                let begin = text.len() - 1;
                let rounds = expected["rounds"].as_array().unwrap();
                for (round, length) in numbers(&expected["accept_lengths"]).into_iter().enumerate()
                {
                    if prompt_name == "p0" && saved == Some(round as u64) {
                        let taps = &case.vectors[&format!("p0.round{round}.taps")];
                        assert_close(&what, &features, &floats(taps), TOLERANCE);
                    }
                    let before = drafter.observed() as u64;
                    drafter.observe(&features, &new).unwrap();
                    let root = text[text.len() - 1];
                    let tree = drafter.propose(&[], &DraftRequest::new(root, budget)).unwrap();
                    if let Some(golden) = rounds.get(round) {
                        assert_eq!(golden["committed"].as_u64(), Some(target.len() as u64));
                        assert_eq!(golden["stable_kv_before"].as_u64(), Some(before));
                        assert_eq!(golden["new_pairs"].as_u64(), Some(new.len() as u64));
                        let stable = golden["stable_kv_after"].as_u64();
                        assert_eq!(stable, Some(drafter.stable_len(0) as u64));
                        assert_tree(&tree, golden, &what, TOLERANCE);
                    }
                    let seen = target.verify(&tree).unwrap();
                    let mut path = vec![0];
                    loop {
                        let node = path[path.len() - 1];
                        let token = best(&seen.logits[node * 512..(node + 1) * 512]);
                        text.push(token);
                        let mut below = (1..tree.len()).filter(|&n| tree.nodes()[n].parent == node);
                        let Some(next) = below.find(|&n| tree.nodes()[n].token == token) else {
                            break;
                        };
                        path.push(next);
                    }
                    assert_eq!(path.len() as u32 - 1, length, "{what} round {round}");
                    let rows = path.iter().flat_map(|n| &seen.features[n * 192..(n + 1) * 192]);
                    features = rows.copied().collect();
                    new = text[text.len() - path.len()..].to_vec();
                    target.commit(&path);
                }
                // The recorded output leaves out the last bonus token.
                let output = numbers(&expected["output"]);
                assert_eq!(text[begin..begin + output.len()], output, "{what}");
            }
        }
    }
}

/// 8-bit weights and 16-bit caches change log-probabilities only a little.
#[test]
fn lower_precision_is_close() {
    let trees = eagle3_trees();
    for name in EAGLE3_HEADS {
        let case = Eagle3Case::load(name);
        let prompt = trees.prompt("p0");
        let (features, tokens) = pairs(&case, &prompt, root_of(&case, &prompt));
        let ranked = |mut head: Box<dyn HeadBackend>| {
            head.extend(0, Pairs { features: &features, tokens: &tokens }, 1).unwrap();
            let scored = case.weights.config.scored();
            by_id(&case, &head.rank_root(&Ranking::new(scored)).unwrap())
        };
        let exact = ranked(case.backend(Backend::Packed));
        let eight = Box::new(case.packed(DraftPrecision::Eight, KvFormat::F16));
        for (head, tolerance) in [
            (
                Box::new(case.packed(DraftPrecision::Stored, KvFormat::F16))
                    as Box<dyn HeadBackend>,
                0.01,
            ),
            (eight, 0.3),
        ] {
            assert_close(&format!("{name} {}", head.describe()), &ranked(head), &exact, tolerance);
        }
    }
}
