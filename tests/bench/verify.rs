//! `bench verify` on a small model: its measurements are consistent, and it reports what it cannot
//! do.

use std::sync::Arc;
use std::time::Instant;

use dovetail::bench::MeasureError;
use dovetail::bench::verify::{Subject, VerifyOptions, measure_target, run};
use dovetail::kernels::{Format, KvFormat, Pool};
use dovetail::library::Spec;
use dovetail::model::{Config, CpuTarget, KnownShape, RopeScaling, Target};
use dovetail::speculate::Tree;
use serde_json::Value;

fn small() -> CpuTarget {
    let config = Config {
        vocab: 512,
        hidden: 256,
        intermediate: 512,
        layers: 2,
        heads: 4,
        kv_heads: 4,
        head_dim: 64,
        rope_scaling: RopeScaling::None,
        ..KnownShape::B1.config()
    };
    let pool = Arc::new(Pool::new(2));
    CpuTarget::random(&config, Format::Q4K, 1, pool, 96, KvFormat::F16).unwrap()
}

#[test]
fn every_format_has_random_weights_to_be_timed() {
    for format in Format::ALL {
        let config = small().config().clone();
        let pool = Arc::new(Pool::new(2));
        let mut target = CpuTarget::random(&config, format, 1, pool, 8, KvFormat::F16).unwrap();
        let logits = target.verify(&Tree::root(1)).unwrap().logits;
        assert!(logits.iter().all(|logit| logit.is_finite()), "{format}");
    }
}

#[test]
fn times_shares_and_candle_add_up() {
    let options = VerifyOptions {
        gammas: vec![1, 8],
        context: 64,
        against_candle: true,
        quick: true,
        json: true,
        ..VerifyOptions::default()
    };
    let mut out = Vec::new();
    measure_target("small".to_owned(), small(), &options, Instant::now(), &mut out).unwrap();
    let result: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!((result["subject"].as_str(), result["kv"].as_str()), (Some("small"), Some("f16")));
    assert_eq!((result["threads"].as_u64(), result["context"].as_u64()), (Some(2), Some(64)));
    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for (row, gamma) in rows.iter().zip([1u64, 8]) {
        let figure = |name: &str| row[name].as_f64().unwrap();
        assert_eq!(row["gamma"], gamma);
        let parts = figure("products_ms") + figure("attention_ms") + figure("other_ms");
        assert!(parts > 0.0 && parts <= figure("ms"), "{row}");
        assert!(figure("candle_products_ms") > 0.0, "{row}");
        let bytes = result["weight_bytes"].as_f64().unwrap();
        assert!((figure("gb_s") * figure("ms") * 1e6 / bytes - 1.0).abs() < 1e-6, "{row}");
    }
    assert_eq!(rows[0]["ratio"], 1.0);
}

#[test]
fn what_cannot_be_measured_is_said() {
    let message = |gammas: &[usize], context: usize| {
        let options =
            VerifyOptions { gammas: gammas.to_vec(), context, ..VerifyOptions::default() };
        let started = Instant::now();
        match measure_target(String::new(), small(), &options, started, &mut Vec::new()) {
            Err(MeasureError::Options(message)) => message,
            other => panic!("{other:?}"),
        }
    };
    assert!(message(&[], 8).contains("--gammas"));
    assert!(message(&[0, 1], 8).contains("at least 1"));
    assert!(message(&[32], 90).contains("122 positions"));
}

#[test]
fn a_model_is_measured_and_its_prompt_too() {
    let options = VerifyOptions {
        gammas: vec![4],
        context: 16,
        threads: 2,
        kv: KvFormat::F32,
        ..VerifyOptions::default()
    };
    let mut out = Vec::new();
    run(&Subject::Model(Spec::Bundled), &options, &mut out).unwrap();
    let table = String::from_utf8(out).unwrap();
    assert!(table.contains("2 threads") && table.contains("context 16, KV f32"), "{table}");
    assert!(table.contains("prefill: ") && table.contains("\n  4 "), "{table}");
}
