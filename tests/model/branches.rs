//! A small model that grows a tree row by row, compared with the target's full passes: the bits are
//! the same for any order of the rows, and no matter what was kept, read or rolled back in between.

use std::sync::Arc;

use crate::support::exact::{deepest, tree_is_plain};
use crate::support::kernels::bits;
use crate::support::models::{load_small, small_config};
use dovetail::kernels::{Format, KvFormat, Pool, RecurrentShape, StateKind};
use dovetail::model::{
    BlockOptions, Config, CpuDraft, CpuTarget, RandomWeights, RecurrentLayers, SmallLm, Target,
    TargetError,
};
use dovetail::speculate::{BeamRow, Tree};
use proptest::prelude::*;

const VOCAB: usize = 90;
const CAPACITY: usize = 120;

fn config() -> Config {
    Config { vocab: VOCAB, tied_head: true, max_positions: CAPACITY, ..small_config() }
}

/// The same with states in the first of its two layers; with Mamba-2 it has attention too.
fn recurrent(kind: StateKind) -> Config {
    let shape = RecurrentShape {
        taps: 4,
        channels: 4 * 16 + 4 * 32,
        kind,
        heads: 4,
        key_heads: 2,
        key: 16,
        value: 32,
        tiled: false,
    };
    let layers = vec![true, false];
    let recurrent = RecurrentLayers {
        layers,
        beside_attention: kind == StateKind::Mamba2,
        norm: true,
        shape,
        log_decay: true,
        fused_gates: false,
    };
    let block =
        BlockOptions { recurrent: Some(recurrent), output_gate: true, ..BlockOptions::default() };
    Config { block, ..config() }
}

const SEED: u64 = 9;

fn small(config: &Config, format: Format, threads: usize) -> CpuDraft {
    let weights = RandomWeights::new(config, format, SEED);
    load_small(config, &weights, Pool::new(threads), CAPACITY, KvFormat::F16)
}

fn full(config: &Config, format: Format) -> CpuTarget {
    let pool = Arc::new(Pool::new(1));
    CpuTarget::random(config, format, SEED, pool, CAPACITY, KvFormat::F16).unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    /// Rows: what each row follows, and its token.
    Grow(Vec<(prop::sample::Index, u32)>),
    Keep(prop::sample::Index),
    Read(Vec<u32>),
    Truncate(prop::sample::Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let token = 0..VOCAB as u32;
    let rows = prop::collection::vec((any::<prop::sample::Index>(), token.clone()), 1..12);
    let step = prop_oneof![
        6 => rows.prop_map(Step::Grow),
        2 => any::<prop::sample::Index>().prop_map(Step::Keep),
        1 => prop::collection::vec(token, 1..9).prop_map(Step::Read),
        1 => any::<prop::sample::Index>().prop_map(Step::Truncate),
    ];
    prop::collection::vec(step, 1..14)
}

/// What the small model should hold: the committed tokens, and the parent and token of each row in
/// flight.
#[derive(Default)]
struct Expected {
    text: Vec<u32>,
    rows: Vec<BeamRow>,
}

impl Expected {
    fn path(&self, row: usize) -> Vec<usize> {
        [&self.rows[row].ancestors[..], &[row]].concat()
    }

    /// A row after another one, or after the text.
    fn row(&self, source: Option<usize>, token: u32) -> BeamRow {
        let ancestors = source.map_or_else(Vec::new, |source| self.path(source));
        BeamRow { token, source, ancestors }
    }

    /// The logits of every row in flight, from the target's pass over all of them at once. The last
    /// committed token serves as the root.
    fn verified(&self, target: &mut CpuTarget) -> Vec<Vec<u32>> {
        let (root, before) = self.text.split_last().unwrap();
        target.truncate(0);
        target.prefill(before).unwrap();
        let mut tree = Tree::root(*root);
        for row in &self.rows {
            tree.push(row.source.map_or(0, |source| source + 1), row.token, -1.0);
        }
        let pass = target.verify(&tree).unwrap();
        pass.logits.chunks(VOCAB).skip(1).map(bits).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn rows_run_one_after_the_other_are_the_tree_verified_at_once(
        steps in steps(),
        format in prop::sample::select(vec![Format::F32, Format::Q8_0]),
        threads in 1usize..3,
        states in prop::sample::select(vec![
            None,
            Some(StateKind::Delta),
            Some(StateKind::Mamba2),
        ]),
    ) {
        let config = states.map_or_else(config, recurrent);
        let (mut small, mut target) = (small(&config, format, threads), full(&config, format));
        let mut expected = Expected { text: vec![3], rows: Vec::new() };
        small.read(&expected.text).unwrap();
        for step in steps {
            match step {
                Step::Grow(rows) => {
                    let known = expected.rows.len();
                    let row = |(source, token): &(prop::sample::Index, u32)| {
                        expected.row(source.index(known + 1).checked_sub(1), *token)
                    };
                    let rows: Vec<BeamRow> = rows.iter().map(row).collect();
                    if expected.text.len() + known + rows.len() > CAPACITY {
                        continue;
                    }
                    let found = bits(small.grow(known, &rows).unwrap());
                    expected.rows.extend(rows);
                    let whole = expected.verified(&mut target);
                    prop_assert_eq!(found, whole[known..].concat());
                }
                Step::Keep(row) if !expected.rows.is_empty() => {
                    let path = expected.path(row.index(expected.rows.len()));
                    let last = *path.last().unwrap();
                    let below = |&row: &usize| expected.rows[row].ancestors.contains(&last);
                    let stay: Vec<usize> = (0..expected.rows.len()).filter(below).collect();
                    small.keep(&path, &stay);
                    expected.text.extend(path.iter().map(|&row| expected.rows[row].token));
                    let number = |above: &usize| stay.iter().position(|row| row == above);
                    let renumbered = |&row: &usize| {
                        let BeamRow { token, ref ancestors, .. } = expected.rows[row];
                        let ancestors: Vec<usize> = ancestors.iter().filter_map(number).collect();
                        BeamRow { token, source: ancestors.last().copied(), ancestors }
                    };
                    expected.rows = stay.iter().map(renumbered).collect();
                }
                Step::Read(tokens) if expected.text.len() + tokens.len() <= CAPACITY => {
                    let found = bits(small.read(&tokens).unwrap());
                    expected.text.extend(tokens);
                    expected.rows.clear();
                    target.truncate(0);
                    prop_assert_eq!(found, bits(&target.prefill(&expected.text).unwrap().logits));
                }
                Step::Truncate(len) => {
                    let len = 1 + len.index(expected.text.len());
                    small.truncate(len);
                    expected.text.truncate(len);
                    // A state cannot go back to every length.
                    let left = small.len();
                    prop_assert!(left == len || states.is_some() && left < len);
                    small.read(&expected.text[left..]).unwrap();
                    expected.rows.clear();
                }
                _ => {}
            }
            prop_assert_eq!(small.len(), expected.text.len());
        }
    }
}

#[test]
fn what_cannot_be_run_is_refused_and_nothing_is_lost() {
    let mut small = small(&config(), Format::F32, 1);
    small.read(&[1, 2, 3]).unwrap();
    let row = |source: Option<usize>, token| BeamRow {
        token,
        source,
        ancestors: source.into_iter().collect(),
    };
    let before = bits(small.grow(0, &[row(None, 4)]).unwrap());
    let outside = VOCAB as u32;
    assert!(matches!(small.read(&[outside]), Err(TargetError::Token { .. })));
    assert!(matches!(small.grow(1, &[row(Some(0), outside)]), Err(TargetError::Token { .. })));
    assert!(
        matches!(small.read(&[1; CAPACITY]), Err(TargetError::ContextFull { needed, capacity })
        if needed == CAPACITY + 3 && capacity == CAPACITY)
    );
    let many = vec![row(None, 1); small.room()];
    assert!(matches!(small.grow(1, &many), Err(TargetError::ContextFull { .. })));
    assert_eq!((small.len(), bits(small.grow(0, &[row(None, 4)]).unwrap())), (3, before));
    // A row at the last position is the last that can be run.
    small.read(&[1; CAPACITY - 4]).unwrap();
    small.grow(0, &[row(None, 1)]).unwrap();
    assert!(matches!(small.grow(1, &[row(Some(0), 1)]), Err(TargetError::ContextFull { .. })));
    assert!(small.read(&[]).unwrap().is_empty());
}

/// As many nodes as any strategy requests, in every format: more than in the trees that grow by
/// levels.
#[test]
fn a_tree_of_128_nodes_is_plain_decoding() {
    let config = Config {
        vocab: 40,
        hidden: 256,
        intermediate: 256,
        head_dim: 64,
        max_positions: 256,
        block: Default::default(),
        ..config()
    };
    let mut tree = Tree::root(5);
    for node in 1..128 {
        tree.push(if node % 3 == 0 { node - 1 } else { node / 2 }, node as u32 * 7 % 40, -1.0);
    }
    for format in Format::ALL {
        let pool = Arc::new(Pool::new(2));
        let mut target =
            CpuTarget::random(&config, format, SEED, pool, 200, KvFormat::F16).unwrap();
        let nodes = [64, 65, 97, 126, 127, deepest(&tree)];
        tree_is_plain(&mut target, &[1, 2, 3], &tree, &nodes, 126);
    }
}
