//! A sequence of calls that uses everything a target can do, for comparing targets with each other.

use dovetail::model::{Target, Verified};
use dovetail::speculate::Tree;

use super::golden::assert_close;

/// Node 3 is the child of node 1, node 5 of node 3: a path with gaps.
pub fn gapped_tree() -> Tree {
    let mut tree = Tree::root(7);
    for (parent, token) in [(0, 11), (0, 12), (1, 13), (2, 14), (3, 15), (3, 16)] {
        tree.push(parent, token, -1.0);
    }
    tree
}

/// A prompt of this many tokens, a tree, a path with gaps, a second tree, a step back, a third
/// tree.
pub fn journey(target: &mut dyn Target, length: usize) -> Vec<Verified> {
    let prompt: Vec<u32> = (0..length as u32).map(|i| i % 70).collect();
    let mut seen = vec![target.prefill(&prompt).unwrap(), target.verify(&gapped_tree()).unwrap()];
    target.commit(&[0, 1, 3, 5]);
    assert_eq!(target.len(), length + 4);
    seen.push(target.verify(&gapped_tree()).unwrap());
    target.commit(&[0]);
    target.truncate(length - 10);
    seen.push(target.verify(&gapped_tree()).unwrap());
    target.commit(&[0, 2, 4]);
    seen.push(target.prefill(&[1, 2, 3]).unwrap());
    seen
}

/// Compares two journeys; `what` made the first.
pub fn assert_alike(what: &str, found: &[Verified], expected: &[Verified], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let (features, logits) = (&expected.features, &expected.logits);
        assert_close(&format!("{what}: features {i}"), &found.features, features, tolerance);
        assert_close(&format!("{what}: logits {i}"), &found.logits, logits, tolerance);
    }
}
