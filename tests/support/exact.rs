//! Exactness: a token's logits and feature have the same bits however a target computed them.

use super::kernels::bits;
use dovetail::model::{Target, Verified};
use dovetail::speculate::Tree;
use proptest::prelude::*;

/// The bits of row `row` of a pass: logits and feature.
pub fn row(target: &dyn Target, pass: &Verified, row: usize) -> (Vec<u32>, Vec<u32>) {
    let part = |all: &[f32], width: usize| bits(&all[row * width..(row + 1) * width]);
    (part(&pass.logits, target.vocab()), part(&pass.features, target.feature_width()))
}

/// Plain decoding of `tokens`: one pass and one commit each.
pub fn plain_rows(target: &mut dyn Target, tokens: &[u32]) -> Vec<Verified> {
    let mut step = |&token: &u32| {
        let pass = target.verify(&Tree::root(token)).unwrap();
        target.commit(&[0]);
        pass
    };
    tokens.iter().map(&mut step).collect()
}

pub fn path_to(tree: &Tree, node: usize) -> Vec<usize> {
    let mut path: Vec<usize> = tree.ancestors(node).collect();
    path.reverse();
    path
}

/// The nodes without children: the others are on their paths.
pub fn leaves(tree: &Tree) -> Vec<usize> {
    (0..tree.len()).filter(|&node| tree.children(node).next().is_none()).collect()
}

pub fn deepest(tree: &Tree) -> usize {
    (0..tree.len()).max_by_key(|&node| tree.nodes()[node].depth).unwrap()
}

/// Trees of tokens below `vocab`, with this many nodes below the root.
pub fn trees(vocab: u32, nodes: std::ops::Range<usize>) -> impl Strategy<Value = Tree> {
    let node = (any::<prop::sample::Index>(), 0..vocab);
    (0..vocab, prop::collection::vec(node, nodes)).prop_map(|(root, nodes)| {
        let mut tree = Tree::root(root);
        for (parent, token) in nodes {
            tree.push(parent.index(tree.len()), token, -1.0);
        }
        tree
    })
}

/// Rolls a target back to the beginning `text` of what it holds; a part that it forgets as well is
/// read again.
pub fn roll_back(target: &mut dyn Target, text: &[u32]) {
    target.truncate(text.len());
    let left = target.len();
    target.prefill(&text[left..]).unwrap();
    assert_eq!(target.len(), text.len());
}

/// The paths to `nodes` in a tree after `prompt` against plain decoding along them, then what
/// follows the commit of the path to `chosen` against what follows the same tokens in plain
/// decoding.
pub fn tree_is_plain(
    target: &mut dyn Target,
    prompt: &[u32],
    tree: &Tree,
    nodes: &[usize],
    chosen: usize,
) {
    let tokens = |path: &[usize]| -> Vec<u32> {
        path.iter().map(|&node| tree.nodes()[node].token).collect()
    };
    target.truncate(0);
    target.prefill(prompt).unwrap();
    let pass = target.verify(tree).unwrap();
    for &node in nodes {
        roll_back(target, prompt);
        let path = path_to(tree, node);
        for (&node, one) in path.iter().zip(plain_rows(target, &tokens(&path))) {
            assert_eq!(row(target, &one, 0), row(target, &pass, node), "node {node} of {path:?}");
        }
    }
    let path = path_to(tree, chosen);
    roll_back(target, prompt);
    plain_rows(target, &tokens(&path));
    let expected = plain_rows(target, &[17, 18]);

    roll_back(target, prompt);
    target.verify(tree).unwrap();
    target.commit(&path);
    assert_eq!(target.len(), prompt.len() + path.len());
    for (found, expected) in plain_rows(target, &[17, 18]).iter().zip(&expected) {
        assert_eq!(row(target, found, 0), row(target, expected, 0), "after {path:?}");
    }
}

/// A text read in slices that end at `cuts`, against plain decoding of it.
pub fn slices_are_plain(
    target: &mut dyn Target,
    text: &[u32],
    expected: &[Verified],
    cuts: &[usize],
) {
    target.truncate(0);
    let width = target.feature_width();
    for slice in [&[0], cuts].concat().windows(2) {
        let pass = target.prefill(&text[slice[0]..slice[1]]).unwrap();
        for (at, feature) in (slice[0]..).zip(pass.features.chunks_exact(width)) {
            assert_eq!(bits(feature), bits(&expected[at].features), "position {at}");
        }
        assert_eq!(bits(&pass.logits), bits(&expected[slice[1] - 1].logits));
    }
}
