//! Passes of a small model: the measurements are consistent, and what cannot be measured is
//! reported.

use std::sync::Arc;
use std::time::Duration;

use dovetail::bench::pass::{PassOptions, time_passes};
use dovetail::bench::{MeasureError, TableStyle};
use dovetail::kernels::{Format, KvFormat, Pool};
use dovetail::library::{Spec, open_target};
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
fn shapes_with_experts_have_random_weights() {
    for known in [KnownShape::Qwen3Moe, KnownShape::Mixtral] {
        // Few and narrow experts, so that this is quick; the number that a row uses stays.
        let mut config = Config { layers: 1, vocab: 512, hidden: 256, ..known.config() };
        let mut experts = config.block.experts.take().unwrap();
        experts.count = experts.count.min(16);
        experts.intermediate = 256;
        config.block.experts = Some(experts);
        let pool = Arc::new(Pool::new(2));
        let mut target =
            CpuTarget::random(&config, Format::Q4K, 1, pool, 96, KvFormat::F16).unwrap();
        let passes = time_passes(&mut target, &options(&[1, 8], 16)).unwrap();
        let result: Value = serde_json::to_value(passes).unwrap();
        let read = |row: usize| {
            let figure = |name: &str| result["rows"][row][name].as_f64().unwrap();
            figure("gb_s") * figure("ms")
        };
        assert!(read(1) > 1.2 * read(0), "more nodes touch more experts: {result}");
    }
}

fn options(gammas: &[usize], context: usize) -> PassOptions {
    PassOptions { gammas: gammas.to_vec(), context, limit: Duration::ZERO, prefill: false }
}

#[test]
fn times_and_shares_add_up() {
    let passes = time_passes(&mut small(), &options(&[1, 8], 64)).unwrap();
    let result: Value = serde_json::to_value(passes).unwrap();
    assert_eq!((result["kv"].as_str(), result.get("prefill_tokens_s")), (Some("f16"), None));
    assert_eq!((result["threads"].as_u64(), result["context"].as_u64()), (Some(2), Some(64)));
    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for (row, gamma) in rows.iter().zip([1u64, 8]) {
        let figure = |name: &str| row[name].as_f64().unwrap();
        assert_eq!(row["gamma"], gamma);
        let parts = figure("products_ms") + figure("attention_ms") + figure("other_ms");
        assert!(parts > 0.0 && parts <= figure("ms"), "{row}");
        let bytes = result["weight_bytes"].as_f64().unwrap();
        assert!((figure("gb_s") * figure("ms") * 1e6 / bytes - 1.0).abs() < 1e-6, "{row}");
    }
    assert_eq!(rows[0]["ratio"], 1.0);
}

#[test]
fn what_cannot_be_measured_is_said() {
    for (gammas, context, words) in
        [(&[][..], 8, "--gammas"), (&[0, 1], 8, "at least 1"), (&[32], 90, "122 positions")]
    {
        match time_passes(&mut small(), &options(gammas, context)) {
            Err(MeasureError::Options(message)) => assert!(message.contains(words), "{message}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_model_is_measured_and_its_prompt_too() {
    let files = open_target(&Spec::Bundled, &mut |_| {}).unwrap();
    let mut target = files.on_cpu(Pool::new(2), 32, KvFormat::F32).unwrap();
    let options = PassOptions { prefill: true, ..options(&[4], 16) };
    let mut out = Vec::new();
    time_passes(&mut target, &options).unwrap().table().write(TableStyle::Plain, &mut out).unwrap();
    let table = String::from_utf8(out).unwrap();
    assert!(table.contains("2 threads") && table.contains("context 16, KV f32"), "{table}");
    assert!(table.contains("Reading a prompt: ") && table.contains("\n4 "), "{table}");
    assert_eq!(target.len(), 0);
}
