//! Gemma 4's assistant against llama.cpp's numbers over two rounds, what the target gives it, and
//! what is kept between rounds.

use crate::support::assistant::{AssistantCase, assistant_spec};
use crate::support::golden::assert_close;
use crate::support::library::{arch, open_head, refusal};
use dovetail::draft::{Budget, DraftRequest, Drafter};
use dovetail::library::check_fit;
use dovetail::model::Target;
use dovetail::model::head::{AssistantHead, HeadBackend, Pairs};
use dovetail::speculate::{BeamRow, Ranking, Shape, Tree, top_log_probs};

/// As the recordings' README requires: with the exact GELU, and next to llama.cpp's table of it.
const EXACT: f32 = 1e-4;
const TABLE: f32 = 2e-2;
/// Next to that table over all steps of a draft.
const STEPS: f32 = 5e-2;

const PARTS: [&str; 4] = ["k_local", "v_local", "k_global", "v_global"];

fn best(logits: &[f32]) -> u32 {
    top_log_probs(logits, 1)[0].0
}

fn by_token(ranked: &[(u32, f32)]) -> Vec<f32> {
    let mut all = vec![f32::NAN; ranked.len()];
    for &(token, log_prob) in ranked {
        all[token as usize] = log_prob;
    }
    all
}

/// The recorded features of the rows of a round that were kept.
fn features(case: &AssistantCase, round: &str) -> Vec<Vec<f32>> {
    let parts: Vec<Vec<f32>> =
        PARTS.iter().map(|part| case.floats(&format!("{round}.{part}"))).collect();
    let hidden = case.floats(&format!("{round}.target_hidden"));
    let rows = parts[0].len() / 16;
    let of = |all: &[f32], width: usize, row: usize| all[row * width..(row + 1) * width].to_vec();
    let row = |row| {
        let [a, b] = [&parts[0], &parts[1]].map(|part| of(part, 16, row));
        let [c, d] = [&parts[2], &parts[3]].map(|part| of(part, 32, row));
        [of(&hidden, 64, row), a, b, c, d].concat()
    };
    (0..rows).map(row).collect()
}

/// Compares the drafts after `root`; `last` is the feature before it, at position `n` - 1.
fn assert_round(
    case: &AssistantCase,
    round: &str,
    head: &mut AssistantHead,
    n: usize,
    last: &[f32],
    root: u32,
) {
    let recorded = |what: String| case.floats(&format!("{round}.{what}"));
    let drafts = case.tokens(&format!("{round}.draft_tokens"));
    let all = Ranking::new(278);
    // Each step from the recorded row.
    let mut last = last.to_vec();
    let before = [&[root], &drafts[..]].concat();
    for (step, &token) in drafts.iter().enumerate() {
        let what = format!("{round} step {step}");
        head.extend(n - 1, Pairs { features: &last, tokens: &[before[step]] }, 4).unwrap();
        let ranked = head.rank_root(&all).unwrap();
        let logits = recorded(format!("draft{step}_logits_exact_gelu"));
        let expected = by_token(&top_log_probs(&logits, logits.len()));
        assert_close(&what, &by_token(&ranked), &expected, EXACT);
        let expected = recorded(format!("draft{step}_hidden_exact_gelu"));
        assert_close(&what, &head.outputs().unwrap(), &expected, EXACT);
        assert_eq!(ranked[0].0, token, "{what}");
        last[..64].copy_from_slice(&recorded(format!("draft{step}_hidden")));
    }
    // And from its own rows, next to a sibling.
    let kept = case.floats(&format!("{round}.target_hidden"));
    let row = if round == "r1" { 23 } else { 2 };
    last[..64].copy_from_slice(&kept[row * 64..(row + 1) * 64]);
    head.extend(n - 1, Pairs { features: &last, tokens: &[root] }, 4).unwrap();
    let mut ranked = head.rank_root(&all).unwrap();
    for (step, &token) in drafts.iter().enumerate() {
        let logits = recorded(format!("draft{step}_logits"));
        let expected = by_token(&top_log_probs(&logits, logits.len()));
        assert_close(round, &by_token(&ranked), &expected, STEPS);
        assert_eq!(ranked[0].0, token, "{round} {step}");
        let source = step.checked_sub(1).map(|above| 2 * above + 1);
        let ancestors: Vec<usize> = (0..step).map(|above| 2 * above + 1).collect();
        let row = |token| BeamRow { token, source, ancestors: ancestors.clone() };
        ranked = head.step(&[row(token ^ 1), row(token)], &all).unwrap().remove(1);
    }
}

#[test]
fn two_rounds_are_llama_cpp_s() {
    two_rounds(&AssistantCase::load());
}

#[test]
fn an_assistant_of_safetensors_is_the_same() {
    let case = AssistantCase::published();
    assert_eq!(case.files.config, AssistantCase::load().files.config);
    two_rounds(&case);
}

fn two_rounds(case: &AssistantCase) {
    let mut head = case.head();
    let tokens = case.tokens("tokens");
    let read = features(case, "r1");
    let verified = case.tokens("r2.tokens");
    let pairs = [&tokens[1..], &verified[..1]].concat();
    head.extend(0, Pairs { features: &read.concat(), tokens: &pairs }, 4).unwrap();
    assert_round(case, "r1", &mut head, 24, &read[23], verified[0]);
    // The kept rows of the target, and its next token.
    let kept = features(case, "r2");
    let accepted = case.tokens("r2.accepted")[0] as usize;
    let logits = case.floats("r2.target_logits");
    let bonus = best(&logits[accepted * 278..(accepted + 1) * 278]);
    let pairs = [&verified[1..=accepted], &[bonus]].concat();
    head.extend(24, Pairs { features: &kept.concat(), tokens: &pairs }, 4).unwrap();
    assert_round(case, "r2", &mut head, 27, &kept[accepted], bonus);
}

/// The target gives the recorded rows, of a prompt and of a verified tree.
#[test]
fn the_targets_keys_and_values_are_llama_cpp_s() {
    let case = AssistantCase::load();
    let mut target = case.target();
    let read = target.prefill(&case.tokens("tokens")).unwrap();
    assert_close("r1", &read.features, &features(&case, "r1").concat(), TABLE);
    let verified = case.tokens("r2.tokens");
    let mut tree = Tree::root(verified[0]);
    for (parent, &token) in verified[1..].iter().enumerate() {
        tree.push(parent, token, -1.0);
    }
    let seen = target.verify(&tree).unwrap();
    let kept = features(&case, "r2").concat();
    assert_close("r2", &seen.features[..kept.len()], &kept, TABLE);
}

/// A text's tree after any history of the drafter is that of a new drafter, in every bit.
#[test]
fn what_was_dropped_leaves_no_trace() {
    let case = AssistantCase::load();
    let mut target = case.target();
    let request =
        |root| DraftRequest::new(root, Budget::new(Shape { gamma: 12, width: 3, depth: 4 }, 4));
    let text = case.tokens("tokens");
    let mut used = case.drafter(&target);
    for length in [24, 2, 17, 9] {
        let text = &text[..length];
        target.truncate(0);
        let read = target.prefill(&text[..length - 1]).unwrap().features;
        let width = read.len() / (length - 1);
        let mut fresh = case.drafter(&target);
        fresh.observe(&read, &text[1..]).unwrap();
        let root = text[length - 1];
        let expected = fresh.propose(text, &request(root)).unwrap();
        assert_eq!(expected.len(), 12, "{expected:?}");
        let half = length / 2;
        used.truncate(0);
        used.observe(&read[..half * width], &text[1..=half]).unwrap();
        used.propose(&text[..=half], &request(text[half])).unwrap();
        used.truncate(half - 1);
        used.observe(&read[(half - 1) * width..], &text[half..]).unwrap();
        assert_eq!(used.propose(text, &request(root)).unwrap(), expected, "{length}");
    }
}

#[test]
fn an_assistant_for_another_target_is_refused_with_the_figures() {
    let files = open_head(&assistant_spec()).unwrap();
    let mut target = arch("gemma4").config;
    assert!(check_fit(&target, &files).is_ok());
    target.hidden = 32;
    let error = refusal(check_fit(&target, &files));
    assert!(error.contains("hidden size is 64, but the target's is 32"), "{error}");
    let mut other = arch("gemma3").config;
    (other.hidden, other.vocab) = (64, 278);
    let error = refusal(check_fit(&other, &files));
    assert!(error.contains("width of key heads without a window is 32"), "{error}");
}
