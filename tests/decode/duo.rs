//! Drafting while the target checks, against the recorded rounds of the original loop
//! (tests/golden/duodec_trace.json) with the recorded models as draft and target, and on the same
//! models through the engine.
//!
//! Three things differ on purpose, and are reversed here for the comparison:
//! - the original returns the last tail without having checked it; ours never returns it;
//! - it does not stop at an end token; the engine does;
//! - for budgets other than 12, 16 and 24 it always takes one sequence; ours takes any divisor.

use crate::support::duo::{CONTEXT, duo, pair, small};
use crate::support::generate::{answer, plain, request, samplers};
use crate::support::golden::{json, numbers, prompts, recorded_target};
use dovetail::decode::{Engine, Request, Round, RoundOptions};
use dovetail::draft::{AheadRequest, Budget, DraftRequest, Drafter, SmallModel};
use dovetail::kernels::Pool;
use dovetail::model::{CpuTarget, Target};
use dovetail::plan::Schedule;
use dovetail::speculate::duo::{MOST_SEQUENCES, Sequences, SequencesAhead, count, divisor};
use dovetail::speculate::{
    Method, Sampler, SamplerSettings, Shape, TokenUses, Tree, accept, top_log_probs,
};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn number(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

type Ranks = Vec<(u32, f32)>;

/// The draft as a function of the text: its likeliest next tokens. The cases share most texts, so
/// each text is run only once.
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

    /// Sequences after `text`, and how many times the draft was called.
    fn ahead(
        &mut self,
        scale: f32,
        text: &[u32],
        gamma: usize,
        fixed: Option<usize>,
    ) -> (Vec<Ranks>, usize) {
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
        (sequences.so_far().map(<[_]>::to_vec).collect(), 1 + run.len())
    }
}

fn tokens(tree: &Tree) -> Vec<u32> {
    tree.nodes().iter().map(|node| node.token).collect()
}

/// Replays a run with `draft` as the draft and, at the same time, with `small`, which must propose
/// the same.
fn replay(case: &Value, target: &mut CpuTarget, draft: &mut Draft, small: &mut SmallModel) {
    let prompt = numbers(&case["prompt"]);
    let gamma = number(&case["gamma"]);
    let scale = case["draft_logit_scale"].as_f64().unwrap() as f32;
    let fixed = if [12, 16, 24].contains(&gamma) { None } else { Some(1) };
    let end = prompt.len() + number(&case["max_tokens"]);
    let mut rounds = case["rounds"].as_array().unwrap().iter();
    let (mut sampler, mut history) = (Sampler::default(), TokenUses::default());

    // Round 0 reads the prompt, while the draft guesses one token. The target's own token becomes
    // the root, and there is no tail, whether the guess was right or wrong.
    let first = rounds.next().unwrap();
    target.truncate(0);
    let logits = target.prefill(&prompt).unwrap().logits;
    let root = sampler.draw(&logits, prompt.len(), &history);
    let guess = draft.ranks(scale, &prompt)[0].0;
    assert_eq!(numbers(&first["seqs"][0]), [guess]);
    assert_eq!(number(&first["mode_out"]), usize::from(guess != root));
    assert_eq!(first["token"].as_u64().map_or(guess, |token| token as u32), root);

    small.truncate(0);
    let shape = Shape { gamma, width: 1, depth: gamma };
    let budget = Budget { shape, blocks: 0, method: Method::Sequences { fixed } };

    let mut text = [prompt.as_slice(), &[root]].concat();
    let mut tree = Tree::root(root);
    let mut adopted = guess == root;
    let mut length = 1;
    // The original runs the guessed token too, though it does not use the result.
    let mut asked = 2;
    for round in rounds {
        let tail = SequencesAhead::tail(&tree);
        assert_eq!(text.len() + tail.len(), number(&round["prefix_len"]));
        assert_eq!(usize::from(!adopted), number(&round["mode_in"]));
        assert_eq!(length, number(&round["prev_size"]));
        if adopted {
            assert_eq!(tail.len() + 1, length);
        }

        let request = DraftRequest::new(tree.nodes()[0].token, budget);
        assert_eq!(tokens(&small.propose(&text, &request).unwrap()), tokens(&tree));
        small
            .draft_ahead(&AheadRequest {
                tree: &tree,
                request: &request,
                stop: &AtomicBool::new(false),
                grown: None,
            })
            .unwrap();

        let prefix = [text.as_slice(), &tail].concat();
        let (sequences, rows) = draft.ahead(scale, &prefix, gamma, fixed);
        asked += rows;
        let recorded: Vec<Vec<u32>> =
            round["seqs"].as_array().unwrap().iter().map(numbers).collect();
        let drafted = |all: &Ranks| all.iter().map(|&(token, _)| token).collect::<Vec<u32>>();
        assert_eq!(sequences.iter().map(drafted).collect::<Vec<_>>(), recorded);
        assert_eq!(recorded.len(), number(&round["k"]));
        length = gamma / recorded.len();

        let verified = target.verify(&tree).unwrap();
        let position = target.len();
        let won = accept(&tree, &verified.logits, &mut sampler, position, &mut history);
        target.commit(&won.path);
        let gained: Vec<u32> = won.tokens(&tree).collect();
        text.extend(&gained);
        match (SequencesAhead { tail, sequences }).adopt(&gained) {
            Some(next) => {
                assert_eq!(number(&round["mode_out"]), 0);
                assert_eq!(number(&round["chosen_seq"]), next.sequence);
                tree = Tree::root(won.bonus);
                next.rest.iter().fold(0, |end, &(token, p)| tree.push(end, token, p));
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
        let ends = text.len() + tree.len() > end;
        assert_eq!(ends, std::ptr::eq(round, case["rounds"].as_array().unwrap().last().unwrap()));
    }
    assert_eq!(asked, number(&case["draft_evals"]));
    assert_eq!(text.len() - prompt.len(), number(&case["verified_new_tokens"]));
    let tail = SequencesAhead::tail(&tree);
    assert_eq!(tail.len(), number(&case["unverified_tail"]));
    let output = [&text[prompt.len()..], &tail].concat();
    assert_eq!(output, numbers(&case["output"]));
}

#[test]
fn the_recorded_rounds() {
    let trace = json("duodec_trace.json");
    let pool = Arc::new(Pool::new(1));
    let mut target = recorded_target("target_mha", Arc::clone(&pool), CONTEXT);
    let model = recorded_target("target_gqa", Arc::clone(&pool), CONTEXT);
    let mut draft = Draft { model, text: Vec::new(), known: HashMap::new() };
    let mut smalls = [1.0, 0.3].map(|scale| (scale, small("target_gqa", scale, pool.clone())));
    let cases = trace["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 36);
    for case in cases {
        let scale = case["draft_logit_scale"].as_f64().unwrap() as f32;
        let small = smalls.iter_mut().find(|(of, _)| *of == scale).unwrap();
        replay(case, &mut target, &mut draft, &mut small.1);
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

fn engine(target: &str, draft: &str) -> Engine {
    let (target, drafter) = pair(target, draft);
    Engine::new(Box::new(target), [drafter])
}

#[test]
fn overlapping_draft_and_target_give_the_plain_text() {
    let (mut won, mut judged) = (0, 0);
    for draft in ["target_gqa", "target_mha"] {
        let mut engine = engine("target_mha", draft);
        for (i, prompt) in prompts().into_iter().enumerate() {
            for (j, sampler) in samplers().into_iter().enumerate() {
                let request = request(&prompt, LENGTH);
                let want = answer(&mut engine, &request, plain(sampler)).0;
                let fixed = [None, Some(1), Some(2), Some(3)][(i + j) % 4];
                let gamma = [8, 12, 16, 24, 5][(i * 4 + j) % 5];
                let (got, rounds) = answer(&mut engine, &request, |_| duo(gamma, fixed, sampler));
                assert_eq!(got, want, "{draft} γ {gamma} {fixed:?} {sampler:?}");
                // The tail at the end of an answer is not part of it.
                assert_eq!(got.len(), LENGTH);
                assert!(rounds.iter().all(|round| round.tree.len() <= gamma));
                // Nothing is drafted before the first token is known.
                assert_eq!(rounds[0].tree.len(), 1);
                check_records(&rounds, gamma, fixed);
                judged += rounds.iter().filter(|round| round.judged_count().is_some()).count();
                won += rounds.iter().map(|round| round.accepted.len()).sum::<usize>();
                // With every method and schedule in turn, round by round.
                let changing = |round: usize| match round % 5 {
                    0..=2 => duo(gamma, fixed, sampler),
                    3 => {
                        RoundOptions { schedule: Schedule::Alternate, ..duo(gamma, fixed, sampler) }
                    }
                    _ => {
                        let shape = Shape { gamma: 9, width: 2, depth: 3 };
                        RoundOptions::new(Budget::new(shape, 0), sampler)
                    }
                };
                assert_eq!(answer(&mut engine, &request, changing).0, want);
            }
        }
    }
    assert!(won > 0, "no tail was ever right");
    assert!(judged > 0, "no first token was ever judged");
}

/// The length of an answer in tokens.
const LENGTH: usize = 48;

/// What rounds record about their sequences is what the next rounds have: after an adopted
/// sequence, the next tree is what follows its first token; otherwise there is no tail.
fn check_records(rounds: &[Round], gamma: usize, fixed: Option<usize>) {
    // The first token comes before the rounds.
    let mut so_far = 1;
    for (at, round) in rounds.iter().enumerate() {
        if so_far + 1 == LENGTH {
            assert_eq!(round.ahead, None, "nothing is drafted for the last token");
            continue;
        }
        so_far += round.committed.len();
        let ahead = round.ahead.as_ref().unwrap_or_else(|| panic!("round {at} drafted nothing"));
        round.check_ahead().unwrap();
        assert!(ahead.gamma <= gamma && ahead.k() <= MOST_SEQUENCES);
        if let Some(fixed) = fixed {
            assert_eq!(ahead.k(), divisor(ahead.gamma, fixed));
        }
        for sequence in &ahead.sequences {
            assert_eq!(sequence.len(), ahead.gamma / ahead.k());
            assert!(sequence.iter().all(|token| token.log_prob <= 0.0 && !token.label.is_empty()));
        }
        let Some(next) = rounds.get(at + 1) else {
            assert_eq!(ahead.adopted, None, "nothing follows an answer's end");
            continue;
        };
        let tail = tokens(&next.tree);
        match ahead.adopted {
            Some(adopted) => {
                let sequence: Vec<u32> =
                    ahead.sequences[adopted].iter().map(|token| token.token).collect();
                // Only the end of the answer cuts it: the target's own token is one of the
                // remaining ones.
                assert_eq!(tail, sequence[..sequence.len().min(LENGTH - so_far)]);
            }
            None => assert_eq!(tail, [round.bonus]),
        }
        assert_eq!(next.drafted_ahead, tail.len() > 1);
        if let Some(judged) = round.judged_count() {
            assert_eq!(judged.drafted, ahead.k());
            assert_eq!(judged.one_was_enough, ahead.adopted == Some(0));
        }
    }
}

#[test]
fn an_answer_ends_at_its_last_token_whatever_was_drafted_beyond() {
    let mut engine = engine("target_mha", "target_mha");
    let sampler = SamplerSettings::default();
    let prompt = prompts().swap_remove(0);
    let free = request(&prompt, 40);
    let text = answer(&mut engine, &free, plain(sampler)).0;
    for token in &text[5..] {
        let ending = Request { eos: vec![*token], ..free.clone() };
        let end = text.iter().position(|other| other == token).unwrap();
        assert_eq!(answer(&mut engine, &ending, |_| duo(12, None, sampler)).0, text[..=end]);
    }
    for max_tokens in 1..20 {
        let short = Request { max_tokens, ..free.clone() };
        assert_eq!(answer(&mut engine, &short, |_| duo(16, None, sampler)).0, text[..max_tokens]);
    }
}
