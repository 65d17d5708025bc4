use super::*;
use crate::draft::Budget;
use crate::speculate::{Sampler, Shape, TokenUses, accept};

const VOCAB: usize = 40;

/// A language in which the next token usually follows from the last one.
fn next(text: &[u32]) -> u32 {
    let last = text[text.len() - 1];
    let odd = text.len().is_multiple_of(13);
    if odd { (last * 7 + text.len() as u32) % 40 } else { (last * 3 + 1) % 40 }
}

fn logits(text: &[u32], tree: &Tree) -> Vec<f32> {
    let mut logits = vec![0.0; tree.len() * VOCAB];
    for node in 0..tree.len() {
        let seen = [text, &tree.tokens_to(node)].concat();
        logits[node * VOCAB + next(&seen) as usize] = 1.0;
    }
    logits
}

fn propose(drafter: &mut Lookahead, text: &[u32], gamma: usize) -> Tree {
    let budget = Budget::new(Shape { gamma, width: 1, depth: 8 }, 0);
    drafter.propose(text, &DraftRequest::new(text[text.len() - 1], budget)).unwrap()
}

/// Decodes `count` tokens after `prompt` as the engine does; returns the text and the rounds.
fn decode(drafter: &mut Lookahead, gamma: usize, count: usize) -> (Vec<u32>, usize) {
    let mut text = vec![3, 5];
    drafter.truncate(0);
    let mut rounds = 0;
    while text.len() < count {
        let tree = propose(drafter, &text, gamma);
        assert!(tree.len() <= gamma);
        let logits = logits(&text, &tree);
        drafter.verified(&text, &tree, &logits);
        let mut sampler = Sampler::default();
        let mut history = TokenUses::default();
        let accepted = accept(&tree, &logits, &mut sampler, text.len() - 1, &mut history);
        let won: Vec<u32> = accepted.tokens(&tree).collect();
        // The engine reports the bonus token separately.
        drafter.observe(&[], &won[..won.len() - 1]).unwrap();
        drafter.observe(&[], &won[won.len() - 1..]).unwrap();
        text.extend(won);
        rounds += 1;
    }
    (text, rounds)
}

#[test]
fn what_the_window_finds_is_won_later() {
    let mut drafter = Lookahead::default();
    let (text, rounds) = decode(&mut drafter, 64, 400);
    assert!((1..text.len()).skip(1).all(|i| text[i] == next(&text[..i])));
    assert!(rounds * 2 < text.len(), "{rounds} rounds for {} tokens", text.len());
    assert!(drafter.guess_stats.log_prob() > drafter.window_stats.log_prob());
    assert_eq!(decode(&mut drafter, 64, 400), (text, rounds), "a fresh start is a fresh start");
}

#[test]
fn a_guess_that_is_right_to_its_end_keeps_its_bonus() {
    let mut drafter = Lookahead::default();
    let text = [3u32, 10];
    let mut seen = text.to_vec();
    let guess = [0; REACH].map(|_| {
        seen.push(next(&seen));
        seen[seen.len() - 1]
    });
    drafter.pool.insert(10, guess);
    let tree = propose(&mut drafter, &text, 64);
    let logits = logits(&text, &tree);
    let mut sampler = Sampler::default();
    let mut history = TokenUses::default();
    let accepted = accept(&tree, &logits, &mut sampler, 1, &mut history);
    assert_eq!(accepted.tokens(&tree).count(), REACH + 1);
}

#[test]
fn any_budget_is_kept_and_a_small_one_still_guesses() {
    for gamma in [2, 3, 5, 8, 16, 33, 64] {
        let (_, rounds) = decode(&mut Lookahead::default(), gamma, 200);
        assert!(rounds < 199 || gamma < 16, "nothing won with γ = {gamma}");
    }
    // A window that was made narrow becomes wide again.
    let mut drafter = Lookahead::default();
    for (gamma, columns) in [(64, COLUMNS), (16, 2), (2, 0), (64, COLUMNS)] {
        propose(&mut drafter, &[3, 5], gamma);
        assert_eq!(drafter.window.columns(), columns, "γ = {gamma}");
    }
}

#[test]
fn a_tree_that_another_proposed_teaches_nothing() {
    let mut drafter = Lookahead::default();
    let text = [3, 5];
    let proposed = propose(&mut drafter, &text, 64);
    let before = drafter.window.clone();
    let mut other = Tree::root(5);
    other.push(0, 1, -1.0);
    drafter.verified(&text, &other, &logits(&text, &other));
    assert_eq!(drafter.window, before);
    drafter.verified(&text, &proposed, &logits(&text, &proposed));
    assert_ne!(drafter.window, before);
}
