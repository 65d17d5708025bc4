//! A target split over two devices gives the same as a whole one. The other device is candle's CPU
//! here: the same code runs on a GPU.

use std::sync::Arc;

use crate::support::models::small_config;
use candle_core::{DType, Device};
use dovetail::kernels::{Format, KvFormat, Pool};
use dovetail::model::{
    Config, CpuTarget, DeviceLayers, FeatureSource, LoadError, LoadRequest, RandomWeights,
    RopeLayout, SplitTarget, Target,
};

use crate::support::journey::{assert_alike, journey};

const CAPACITY: usize = 600;
/// Tokens of a prompt longer than a chunk.
const PROMPT: usize = 300;

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

#[test]
fn a_split_target_computes_what_the_whole_one_does() {
    let biased = Config { qkv_bias: true, ..config() };
    let interleaved = Config { rope_layout: RopeLayout::Interleaved, ..config() };
    for config in [config(), biased, interleaved] {
        let expected = journey(&mut whole(&config), PROMPT);
        for layers in [1, 3] {
            let mut split = split(&config, layers, DType::F32).unwrap();
            assert_alike("split", &journey(&mut split, PROMPT), &expected, 2e-4);
        }
    }
}

/// States below, at and above the cut, for any cut.
#[test]
fn a_split_target_is_tapped_as_the_whole_one_is() {
    let config = config();
    for states in [vec![0, 1, 3], vec![2, 3, 4]] {
        let source = FeatureSource::States(states);
        let mut target = whole(&config);
        target.set_features(source.clone());
        let expected = journey(&mut target, PROMPT);
        assert_eq!(expected[0].features.len(), 300 * 3 * config.hidden);
        for layers in [1, 2, 3] {
            let mut split = split(&config, layers, DType::F32).unwrap();
            split.set_features(source.clone());
            assert_alike("split", &journey(&mut split, PROMPT), &expected, 5e-4);
        }
    }
}

#[test]
fn half_precision_is_near() {
    let expected = journey(&mut whole(&config()), PROMPT);
    let mut split = split(&config(), 2, DType::F16).unwrap();
    assert!(split.device_bytes() > 2 * 2 * 64 * 96 * 3, "weights in half precision, and a cache");
    assert_alike("split", &journey(&mut split, PROMPT), &expected, 0.05);
}

#[test]
fn what_cannot_be_split_says_why() {
    let refused = |config: &Config, layers: usize| match split(config, layers, DType::F32) {
        Ok(_) => panic!("{layers} layers were taken"),
        Err(error) => error.to_string(),
    };
    let error = refused(&config(), 4);
    assert!(error.contains("at most 3 of its 4 blocks can run outside the CPU"), "{error}");
    assert!(error.contains("gpu_layers"), "{error}");
    let error = refused(&Config { qk_norm: true, ..config() }, 2);
    assert!(error.contains("only blocks of Llama and Qwen2"), "{error}");
}
