use super::*;
use crate::draft::Budget;
use crate::speculate::ngrams::NgramBuilder;
use crate::speculate::{SamplerSettings, Shape};
use proptest::prelude::*;

const VOCAB: usize = 40;

fn request(root: u32, gamma: usize, width: usize) -> DraftRequest {
    DraftRequest::new(root, Budget::new(Shape { gamma, width, depth: 3 }, 0))
}

fn propose(drafter: &mut ContextDraft, text: &[u32], gamma: usize, width: usize) -> Tree {
    drafter.propose(text, &request(*text.last().unwrap(), gamma, width)).unwrap()
}

/// The tokens of the tree's likeliest path.
fn first_path(tree: &Tree) -> Vec<u32> {
    let mut path = Vec::new();
    let mut node = 0;
    while let Some(child) = tree.children(node).next() {
        path.push(tree.nodes()[child].token);
        node = child;
    }
    path
}

/// Logits in which these tokens are the largest, in this order.
fn row(best: &[u32]) -> Vec<f32> {
    let mut row = vec![0.0; VOCAB];
    for (rank, &token) in best.iter().enumerate() {
        row[token as usize] = 20.0 - 3.0 * rank as f32;
    }
    row
}

#[test]
fn a_repeated_passage_is_proposed_to_its_end_and_beyond_the_longest_phrase() {
    let passage: Vec<u32> = (1..=30).collect();
    let text: Vec<u32> = passage.iter().chain(&[35, 36, 1, 2, 3]).copied().collect();
    let mut drafter = ContextDraft::new(DrafterId::Suffix);
    let tree = propose(&mut drafter, &text, 64, 2);
    assert_eq!(first_path(&tree)[..20], passage[3..23]);
    let short = propose(&mut drafter, &text, 6, 2);
    assert_eq!(first_path(&short), [4, 5, 6, 7, 8]);
    assert_eq!(propose(&mut drafter, &text, 1, 2).len(), 1);
}

#[test]
fn the_commoner_continuation_goes_first_and_the_other_beside_it() {
    let text = [1, 2, 5, 10, 1, 2, 6, 11, 1, 2, 5, 12, 1, 2];
    let mut drafter = ContextDraft::new(DrafterId::Suffix);
    let tree = propose(&mut drafter, &text, 8, 4);
    let children: Vec<u32> = tree.children(0).map(|i| tree.nodes()[i].token).collect();
    assert_eq!(children, [5, 6]);
    let chain = propose(&mut drafter, &text, 8, 1);
    assert_eq!(chain.children(0).count(), 1, "k bounds the children of a node");
}

#[test]
fn what_the_target_held_likely_is_proposed_where_the_same_tokens_come_again() {
    let mut drafter = ContextDraft::new(DrafterId::Recycling);
    let text = [1, 2, 3];
    assert_eq!(propose(&mut drafter, &text, 16, 8).len(), 1, "nothing is known yet");
    let mut tree = Tree::root(3);
    let child = tree.push(0, 4, -0.1);
    tree.push(child, 9, -0.1);
    // After 3: 4 or 7; after 3 4: 8; after 3 4 9: 5.
    let logits = [row(&[4, 7]), row(&[8]), row(&[5])].concat();
    drafter.verified(&text, &tree, &logits);
    let text = [1, 2, 3, 4, 8, 2, 3, 4, 9];
    let tree = propose(&mut drafter, &text[..7], 16, 8);
    assert_eq!(first_path(&tree)[..2], [4, 8]);
    assert!(tree.child(0, 7).is_some());
    assert_eq!(first_path(&propose(&mut drafter, &text, 16, 8))[0], 5);
}

#[test]
fn a_text_that_is_made_again_after_a_new_start_is_not_drafted_from_itself() {
    let mut drafter = ContextDraft::new(DrafterId::Context);
    let text = [1, 2, 3];
    drafter.verified(&text, &Tree::root(3), &row(&[4, 7]));
    drafter.truncate(0);
    assert!(propose(&mut drafter, &text, 16, 8).child(0, 4).is_some(), "kept from text to text");
    drafter.start_over();
    assert_eq!(propose(&mut drafter, &text, 16, 8).len(), 1);
}

#[test]
fn every_node_names_the_sources_that_claim_it() {
    let mut drafter = ContextDraft::new(DrafterId::Context);
    let text = [1, 2, 3, 1, 2, 3];
    drafter.verified(&text, &Tree::root(3), &row(&[1, 9]));
    let tree = propose(&mut drafter, &text, 16, 8);
    let sources = |token| {
        let node = tree.child(0, token).unwrap();
        tree.nodes()[node].sources.iter().collect::<Vec<_>>()
    };
    assert_eq!(sources(1), [DrafterId::Suffix, DrafterId::Recycling]);
    assert_eq!(sources(9), [DrafterId::Recycling]);
    let below = tree.child(tree.child(0, 1).unwrap(), 2).unwrap();
    assert_eq!(tree.nodes()[below].sources.iter().collect::<Vec<_>>(), [DrafterId::Suffix]);
}

#[test]
fn a_table_claims_what_it_knows_of_the_longest_context() {
    let mut builder = NgramBuilder::default();
    for text in [[1u32, 2, 3, 5], [9, 2, 3, 6]] {
        builder.begin();
        text.windows(2).for_each(|pair| builder.push(pair[0], &[(pair[1], 1.0)]));
    }
    let table = Arc::new(builder.table(100));
    let tree_of = |sources| {
        let mut drafter = ContextDraft::new(sources).with_ngrams(Arc::clone(&table));
        propose(&mut drafter, &[7, 1, 2, 3], 16, 8)
    };
    for sources in [DrafterId::Recycling, DrafterId::Context] {
        let tree = tree_of(sources);
        let node = tree.child(0, 5).unwrap();
        assert_eq!(tree.nodes()[node].sources.iter().collect::<Vec<_>>(), [DrafterId::Ngram]);
        assert_eq!(first_path(&tree), [5], "1 2 3 was followed by 5");
        assert!(tree.child(0, 6).is_some(), "2 3 by 6 too");
    }
    assert_eq!(tree_of(DrafterId::Suffix).len(), 1, "of phrases alone");
}

#[test]
fn with_the_noise_of_the_draw_the_token_it_favours_goes_first() {
    let mut drafter = ContextDraft::new(DrafterId::Recycling);
    let text = [1, 2, 3];
    let mut logits = vec![-30.0; VOCAB];
    (4..12).for_each(|token| logits[token] = 1.0);
    drafter.verified(&text, &Tree::root(3), &logits);
    let mut seen = Vec::new();
    for seed in 0..20 {
        let sampler = SamplerSettings { temperature: 1.0, seed, ..SamplerSettings::default() };
        let coupling = Coupling { sampler, root: 2 };
        let noise = coupling.noise(1);
        let favoured =
            (4u32..12).max_by(|&a, &b| noise.gumbel(a).total_cmp(&noise.gumbel(b))).unwrap();
        let request = DraftRequest { coupling: Some(coupling), ..request(3, 8, 8) };
        let tree = drafter.propose(&text, &request).unwrap();
        assert_eq!(tree.nodes()[1].token, favoured);
        seen.push(favoured);
    }
    seen.sort_unstable();
    seen.dedup();
    assert!(seen.len() > 3, "the noise decides: {seen:?}");
}

#[test]
fn claims_that_turn_out_wrong_lose_their_weight() {
    let mut drafter = ContextDraft::new(DrafterId::Suffix);
    let mut text = vec![1, 2, 1];
    let sure = |tree: &Tree| tree.nodes().get(1).map_or(f32::NEG_INFINITY, |node| node.log_prob);
    let before = sure(&propose(&mut drafter, &text, 4, 1));
    for token in 5..35 {
        propose(&mut drafter, &text, 4, 1);
        drafter.observe(&[], &[token, 1]).unwrap();
        text.extend([token, 1]);
    }
    assert!(sure(&propose(&mut drafter, &text, 4, 1)) < before - 0.5);
}

proptest! {
    #[test]
    fn trees_are_sound_whatever_the_text_was(
        mut text in prop::collection::vec(0u32..6, 2..80),
        rows in prop::collection::vec(prop::collection::vec(-5f32..5.0, VOCAB), 4),
        kept in 0usize..60, gamma in 1usize..40, width in 1usize..9, seed in any::<Option<u64>>(),
    ) {
        let mut drafter = ContextDraft::new(DrafterId::Context);
        let root = *text.last().unwrap();
        let coupling = seed.map(|seed| {
            let sampler =
                SamplerSettings { temperature: 0.8, seed, ..SamplerSettings::default() };
            Coupling { sampler, root: text.len() - 1 }
        });
        let asked = DraftRequest { coupling, ..request(root, gamma, width) };
        let mut tree = drafter.propose(&text, &asked).unwrap();
        for row in rows {
            let logits: Vec<f32> =
                (0..tree.len()).flat_map(|i| row.iter().map(move |x| x * (i + 1) as f32)).collect();
            drafter.verified(&text, &tree, &logits);
            drafter.observe(&[], &[root, 1, root]).unwrap();
            text.extend([root, 1, root]);
            tree = drafter.propose(&text, &asked).unwrap();
            prop_assert!(tree.len() <= gamma);
            for (i, node) in tree.nodes().iter().enumerate().skip(1) {
                prop_assert!(node.parent < i && (node.token as usize) < VOCAB);
                prop_assert!(node.log_prob < 0.0 && node.score >= LEAST.ln() - 1e-4);
                prop_assert!(tree.children(i).count() <= width);
                // The most probable nodes come first.
                prop_assert!(i < 2 || node.score <= tree.nodes()[i - 1].score + 1e-4);
                let is_twin = |&j: &usize| tree.nodes()[j].token == node.token;
                prop_assert_eq!(tree.children(node.parent).filter(is_twin).count(), 1);
            }
        }
        drafter.truncate(kept);
        let known = if kept == 0 { 0 } else { text.len().min(kept + 1) };
        prop_assert_eq!(drafter.phrases.text(), &text[..known]);
    }
}
