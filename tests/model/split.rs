//! A target split over two devices gives what the whole one gives. The other device is candle's CPU
//! here: the same code runs on a GPU.

use std::sync::Arc;

use crate::support::models::small_config;
use candle_core::{DType, Device};
use dovetail::kernels::{Format, KvFormat, Pool};
use dovetail::model::{
    Config, CpuTarget, DeviceLayers, FeatureSource, LoadError, LoadRequest, RandomWeights,
    RopeLayout, SplitTarget, Target, Verified,
};
use dovetail::speculate::Tree;

use crate::support::golden::assert_close;

const CAPACITY: usize = 600;

fn config() -> Config {
    Config { layers: 4, max_positions: 1024, ..small_config() }
}

fn split(config: &Config, layers: usize, dtype: DType) -> Result<SplitTarget, LoadError> {
    let source = RandomWeights::new(config, Format::F32, 5);
    let lower_layers = DeviceLayers { layers, device: Device::Cpu, dtype };
    let (pool, capacity, kv) = (Arc::new(Pool::new(2)), CAPACITY, KvFormat::F32);
    let request = LoadRequest { config, source: &source, pool, capacity, kv };
    SplitTarget::load(&lower_layers, &request, &mut |_| {})
}

fn whole(config: &Config) -> CpuTarget {
    let pool = Arc::new(Pool::new(2));
    CpuTarget::random(config, Format::F32, 5, pool, CAPACITY, KvFormat::F32).unwrap()
}

/// Node 3 is the child of node 1, node 5 of node 3: a path with gaps.
fn tree() -> Tree {
    let mut tree = Tree::root(7);
    for (parent, token) in [(0, 11), (0, 12), (1, 13), (2, 14), (3, 15), (3, 16)] {
        tree.push(parent, token, -1.0);
    }
    tree
}

/// A prompt longer than a chunk, a tree, a path with gaps, a second tree, a step back, a third.
fn journey(target: &mut dyn Target) -> Vec<Verified> {
    let prompt: Vec<u32> = (0..300).map(|i| i % 70).collect();
    let mut seen = vec![target.prefill(&prompt).unwrap(), target.verify(&tree()).unwrap()];
    target.commit(&[0, 1, 3, 5]);
    assert_eq!(target.len(), 304);
    seen.push(target.verify(&tree()).unwrap());
    target.commit(&[0]);
    target.truncate(290);
    seen.push(target.verify(&tree()).unwrap());
    target.commit(&[0, 2, 4]);
    seen.push(target.prefill(&[1, 2, 3]).unwrap());
    seen
}

fn assert_alike(found: &[Verified], expected: &[Verified], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_close(&format!("features {i}"), &found.features, &expected.features, tolerance);
        assert_close(&format!("logits {i}"), &found.logits, &expected.logits, tolerance);
    }
}

#[test]
fn a_split_target_computes_what_the_whole_one_does() {
    let biased = Config { qkv_bias: true, ..config() };
    let interleaved = Config { rope_layout: RopeLayout::Interleaved, ..config() };
    for config in [config(), biased, interleaved] {
        let expected = journey(&mut whole(&config));
        for layers in [1, 3] {
            let mut split = split(&config, layers, DType::F32).unwrap();
            assert_alike(&journey(&mut split), &expected, 2e-4);
        }
    }
}

/// States below, at and above the cut, wherever that is.
#[test]
fn a_split_target_is_tapped_as_the_whole_one_is() {
    let config = config();
    for states in [vec![0, 1, 3], vec![2, 3, 4]] {
        let source = FeatureSource::States(states);
        let mut target = whole(&config);
        target.set_features(source.clone());
        let expected = journey(&mut target);
        assert_eq!(expected[0].features.len(), 300 * 3 * config.hidden);
        for layers in [1, 2, 3] {
            let mut split = split(&config, layers, DType::F32).unwrap();
            split.set_features(source.clone());
            assert_alike(&journey(&mut split), &expected, 5e-4);
        }
    }
}

#[test]
fn half_precision_is_near() {
    let expected = journey(&mut whole(&config()));
    let mut split = split(&config(), 2, DType::F16).unwrap();
    assert!(split.device_bytes() > 2 * 2 * 64 * 96 * 3, "weights in half precision, and a cache");
    assert_alike(&journey(&mut split), &expected, 0.05);
}

#[test]
fn what_cannot_be_split_says_why() {
    let refused = |config: &Config, layers: usize| match split(config, layers, DType::F32) {
        Ok(_) => panic!("{layers} layers were taken"),
        Err(error) => error.to_string(),
    };
    let error = refused(&config(), 4);
    assert!(error.contains("at most 3 of its 4 can leave the CPU"), "{error}");
    assert!(error.contains("gpu_layers"), "{error}");
    let error = refused(&Config { qk_norm: true, ..config() }, 2);
    assert!(error.contains("only Llama's and Qwen2's blocks"), "{error}");
}
