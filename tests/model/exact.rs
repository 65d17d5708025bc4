//! Exactness: a token's logits and feature have the same bits however the target computed them.

use std::sync::Arc;

use crate::support::exact::{leaves, plain_rows, slices_are_plain, tree_is_plain, trees};
use crate::support::kernels::bits;
use crate::support::models::small_config;
use dovetail::kernels::{Format, KvFormat, Pool};
use dovetail::model::{Config, CpuTarget, Target, TargetError, Verified};
use dovetail::speculate::{Tree, argmax};
use proptest::prelude::*;

const VOCAB: usize = 280;
const CAPACITY: usize = 160;

/// Wide enough for the 256-column formats, and a vocabulary that is not a multiple of a tile.
fn config() -> Config {
    Config { vocab: VOCAB, hidden: 256, intermediate: 512, head_dim: 64, ..small_config() }
}

fn target(config: &Config, format: Format, kv: KvFormat, threads: usize) -> CpuTarget {
    CpuTarget::random(config, format, 3, Arc::new(Pool::new(threads)), CAPACITY, kv).unwrap()
}

fn tokens(length: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(0..VOCAB as u32, length)
}

/// With another sum, [`dovetail::kernels::NUMERICS`] is to be raised: KV caches on users' disks
/// were computed otherwise.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_numbers_are_those_of_their_version() {
    let mut sums = Vec::new();
    for (format, kv) in Format::ALL.into_iter().zip(KvFormat::ALL.into_iter().cycle()) {
        let mut target = target(&config(), format, kv, 2);
        let rows = plain_rows(&mut target, &[1, 7, 279, 3, 7]);
        let bits = rows.iter().flat_map(|row| bits(&row.logits));
        sums.push(bits.fold(7_u64, |sum, bits| sum.wrapping_mul(31).wrapping_add(bits.into())));
    }
    let all = sums.iter().fold(0_u64, |all, sum| all.rotate_left(5) ^ sum);
    assert_eq!((dovetail::kernels::NUMERICS, all), (1, 0xa180_816b_13fe_026c), "{all:#x}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, ..ProptestConfig::default() })]

    #[test]
    fn a_tree_is_plain_decoding_in_every_format(
        prompt in tokens(1..40),
        tree in trees(VOCAB as u32, 0..40),
        chosen in any::<prop::sample::Index>(),
        threads in 1usize..4,
    ) {
        let kvs = KvFormat::ALL.into_iter().cycle().skip(threads);
        for (format, kv) in Format::ALL.into_iter().zip(kvs) {
            let mut target = target(&config(), format, kv, threads);
            let chosen = chosen.index(tree.len());
            tree_is_plain(&mut target, &prompt, &tree, &leaves(&tree), chosen);
        }
    }

    #[test]
    fn a_tree_is_plain_decoding_with_every_option(
        prompt in tokens(1..40),
        tree in trees(VOCAB as u32, 0..90),
        chosen in any::<prop::sample::Index>(),
    ) {
        let options = Config {
            kv_heads: 1,
            head_dim: 48,
            qkv_bias: true,
            o_bias: true,
            qk_norm: true,
            tied_head: true,
            ..config()
        };
        let mut target = target(&options, Format::F32, KvFormat::F16, 2);
        tree_is_plain(&mut target, &prompt, &tree, &leaves(&tree), chosen.index(tree.len()));
    }

    /// However a text is cut into passes, and no matter what was in the cache before, the bits
    /// agree.
    #[test]
    fn prefill_in_any_slices_is_plain_decoding(
        text in tokens(2..150),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        stale in tokens(1..150),
        kept in any::<prop::sample::Index>(),
        format in prop::sample::select(Format::ALL.to_vec()),
    ) {
        let mut target = target(&config(), format, KvFormat::F16, 2);
        let expected = plain_rows(&mut target, &text);
        target.truncate(0);
        target.prefill(&stale).unwrap();
        let kept = kept.index(text.len());
        let mut cuts: Vec<usize> = cuts.iter().map(|c| c.index(text.len())).collect();
        cuts.extend([kept, text.len()]);
        cuts.sort_unstable();
        cuts.dedup();
        cuts.retain(|&cut| cut > 0);
        slices_are_plain(&mut target, &text, &expected, &cuts);
        // Back to a prefix, as between the turns of a chat, then the rest again.
        target.truncate(kept);
        let rest = target.prefill(&text[kept..]).unwrap();
        prop_assert_eq!(bits(&rest.logits), bits(&expected[text.len() - 1].logits));
    }
}

/// A greedy text of a few thousand tokens, plain and through trees whose guesses are partly right.
#[test]
fn long_texts_agree_with_and_without_trees() {
    for format in [Format::Q4K, Format::Q8_0, Format::F32] {
        let mut target = target(&config(), format, KvFormat::F16, 2);
        for seed in 0..6 {
            target.truncate(0);
            let prompt = [seed, 7, 99, 30 + seed];
            let mut text = vec![argmax(&target.prefill(&prompt).unwrap().logits)];
            while text.len() < 150 {
                let pass = target.verify(&Tree::root(text[text.len() - 1])).unwrap();
                target.commit(&[0]);
                text.push(argmax(&pass.logits));
            }

            target.truncate(prompt.len());
            let mut found = vec![text[0]];
            let mut rounds = 0;
            while found.len() < text.len() {
                // A chain of the right tokens with one wrong guess next to each, cut at a length
                // that changes from round to round.
                let mut tree = Tree::root(found[found.len() - 1]);
                let mut parent = 0;
                for &right in text[found.len()..].iter().take(rounds % 6) {
                    tree.push(parent, (right + 1) % VOCAB as u32, -2.0);
                    parent = tree.push(parent, right, -1.0);
                }
                if target.len() + tree.len() > CAPACITY {
                    break;
                }
                let pass = target.verify(&tree).unwrap();
                let (mut node, mut path) = (0, vec![0]);
                loop {
                    let token = argmax(&pass.logits[node * VOCAB..(node + 1) * VOCAB]);
                    found.push(token);
                    let Some(child) = tree.child(node, token) else { break };
                    path.push(child);
                    node = child;
                }
                target.commit(&path);
                rounds += 1;
            }
            assert!(found.len() >= 140 && rounds * 2 < found.len(), "{} in {rounds}", found.len());
            let both = found.len().min(text.len());
            assert_eq!(found[..both], text[..both], "{format} seed {seed}");
        }
    }
}

#[test]
fn what_cannot_be_run_is_refused_and_nothing_is_lost() {
    let mut target = target(&config(), Format::F32, KvFormat::F32, 1);
    target.prefill(&[1, 2, 3]).unwrap();
    let before = target.verify(&Tree::root(4)).unwrap();

    let outside = VOCAB as u32;
    assert!(matches!(target.prefill(&[0, outside]), Err(TargetError::Token { token, vocab })
        if token == outside && vocab == VOCAB));
    assert!(matches!(target.verify(&Tree::root(outside)), Err(TargetError::Token { .. })));
    let long = vec![1; CAPACITY - 2];
    assert!(matches!(target.prefill(&long), Err(TargetError::ContextFull { needed, capacity })
        if needed == CAPACITY + 1 && capacity == CAPACITY));
    let mut wide = Tree::root(1);
    for _ in 0..CAPACITY {
        wide.push(0, 2, -1.0);
    }
    assert!(matches!(target.verify(&wide), Err(TargetError::ContextFull { .. })));

    assert_eq!(target.len(), 3);
    assert_eq!(target.verify(&Tree::root(4)).unwrap(), before);
    target.prefill(&long[1..]).unwrap();
    assert_eq!(target.len(), CAPACITY);
    assert!(matches!(target.verify(&Tree::root(1)), Err(TargetError::ContextFull { .. })));
    assert_eq!(target.prefill(&[]).unwrap(), Verified::default());
}
