//! Long prompts of a target on the CPU, read on a GPU: close to the CPU's own rows, the same bits
//! no matter what was read before and in which pieces, and never on the GPU where the prompt does
//! not require it.

#![allow(clippy::single_range_in_vec_init, reason = "lists of one run are meant")]

use std::ops::Range;
use std::sync::Arc;

use dovetail::kernels::{Format, KvFormat, Pool};
use dovetail::model::{
    BlockOptions, Config, CpuTarget, FeatureSource, Gpu, GpuLimits, LoadRequest, PlacedTarget,
    RandomWeights, Target, TargetError, Verified,
};
use dovetail::speculate::Tree;

use crate::support::golden::assert_close;
use crate::support::gpu::{another_gpu, gpu};
use crate::support::kernels::bits;
use crate::support::models::{families, load_target, small_config};

const CAPACITY: usize = 800;

fn config() -> Config {
    Config { max_positions: CAPACITY, ..small_config() }
}

fn on_cpu(config: &Config, kv: KvFormat) -> CpuTarget {
    let source = RandomWeights::new(config, Format::F32, 5);
    load_target(config, &source, Pool::new(2), CAPACITY, kv)
}

fn try_on(gpu: &Arc<Gpu>, config: &Config, kv: KvFormat) -> Result<PlacedTarget, String> {
    let source = RandomWeights::new(config, Format::F32, 5);
    let pool = Arc::new(Pool::new(2));
    let request = LoadRequest::new(config, &source, pool, CAPACITY, kv);
    let loaded = PlacedTarget::reading_prompts(on_cpu(config, kv), gpu, &request);
    loaded.map_err(|failed| failed.1.to_string())
}

fn on_gpu(gpu: &Arc<Gpu>, config: &Config, kv: KvFormat) -> PlacedTarget {
    try_on(gpu, config, kv).unwrap()
}

fn tokens(count: usize) -> Vec<u32> {
    (0..count as u32).map(|i| (i * i + i / 7) % 70).collect()
}

/// Reads a prompt as the engine does, in pieces of at most `piece` rows where the CPU reads.
fn read(target: &mut dyn Target, prompt: &[u32], asked: &[Range<usize>], piece: usize) -> Verified {
    let kept = target.begin_prompt(asked, target.len().min(prompt.len() - 1));
    target.truncate(kept);
    let mut all = Verified::default();
    while target.len() < prompt.len() {
        let rest = &prompt[target.len()..];
        let rows = target.next_rows(piece).min(rest.len());
        let read = target.prefill(&rest[..rows]).unwrap();
        all.features.extend(read.features);
        all.logits = read.logits;
    }
    all
}

/// Keys and values of the first positions, layer by layer.
fn kv(target: &CpuTarget, positions: Range<usize>) -> Vec<f32> {
    let rows = (0..target.layers()).flat_map(|layer| {
        let rows = positions.clone().map(move |at| target.kv_row(layer, at));
        rows.flat_map(|(key, value)| [key, value].concat())
    });
    rows.collect()
}

#[test]
fn rows_that_a_gpu_has_read_are_near_the_cpus() {
    let Some(gpu) = gpu() else { return };
    let mut cases: Vec<_> = families(config())
        .into_iter()
        .map(|(name, config)| (name, config, KvFormat::F32, 200))
        .collect();
    // Two slices, the second after positions that come from main memory.
    cases[0].3 = 700;
    cases.push(("in 16 bits", config(), KvFormat::F16, 200));
    cases.push(("in 8 bits", config(), KvFormat::Q8, 200));
    for (name, config, kv_format, length) in cases {
        let prompt = tokens(length);
        let mut alone = on_cpu(&config, kv_format);
        let expected = alone.prefill(&prompt).unwrap();
        let mut target = on_gpu(&gpu, &config, kv_format);
        let before = gpu.traffic_meter().read();
        let found = read(&mut target, &prompt, &[0..length], 64);
        let there = (length - 16) / 64 * 64;
        assert_eq!(target.computed_there(), [0..there], "{name}");
        assert_eq!(target.len(), length);
        let tolerance = match kv_format {
            KvFormat::F32 => 5e-4,
            KvFormat::F16 => 1e-2,
            KvFormat::Q8 => 5e-2,
        };
        let rows = kv(target.cpu(), 0..length);
        assert_close(&format!("{name}: rows"), &rows, &kv(&alone, 0..length), tolerance);
        assert_close(&format!("{name}: features"), &found.features, &expected.features, tolerance);
        assert_close(&format!("{name}: logits"), &found.logits, &expected.logits, tolerance);
        // Weights were sent and rows came back: one submission per block of each slice.
        let passed = gpu.traffic_meter().read().since(before);
        let slices = there.div_ceil(512);
        assert!(passed.submissions as usize >= slices * config.layers, "{name}: {passed:?}");
        assert!(passed.up >= slices as u64 * target.streamed_bytes(), "{name}: {passed:?}");
    }
}

#[test]
fn states_on_the_way_are_tapped_of_rows_on_either_device() {
    let Some(gpu) = gpu() else { return };
    let (config, prompt) = (Config { layers: 3, ..config() }, tokens(180));
    let states = FeatureSource::States(vec![0, 2, 3]);
    let mut alone = on_cpu(&config, KvFormat::F32);
    alone.set_features(states.clone());
    let expected = alone.prefill(&prompt).unwrap();
    let mut target = on_gpu(&gpu, &config, KvFormat::F32);
    target.set_features(states);
    let found = read(&mut target, &prompt, &[0..180], 64);
    assert_eq!(found.features.len(), 180 * 3 * config.hidden);
    assert_close("states", &found.features, &expected.features, 5e-4);
    assert_close("logits", &found.logits, &expected.logits, 5e-4);
}

/// A prompt always gives the same bits: read in any pieces, after any other prompt, or alone.
#[test]
fn a_prompts_rows_are_the_same_bits_whatever_was_read_before() {
    let Some(gpu) = gpu() else { return };
    let config = config();
    let text = tokens(430);
    // Prompts of a conversation that grows, is cut and grows again, with their runs.
    let prompts: [(usize, Vec<Range<usize>>); 7] = [
        (60, vec![0..60]),
        (200, vec![0..200]),
        // An answer of 30 tokens, then a long question.
        (430, vec![0..200, 230..430]),
        // Another answer to it.
        (430, vec![0..200, 230..430]),
        (300, vec![0..300]),
        (240, vec![0..200, 230..240]),
        // Nothing is known about who said what.
        (200, vec![]),
    ];
    let expected: Vec<(Vec<f32>, Vec<f32>)> = prompts
        .iter()
        .map(|(length, asked)| {
            let mut fresh = on_gpu(&gpu, &config, KvFormat::F32);
            let found = read(&mut fresh, &text[..*length], asked, 64);
            (kv(fresh.cpu(), 0..*length), found.logits)
        })
        .collect();
    let parts =
        [&[][..], &[0..128], &[0..128, 230..358], &[0..128, 230..358], &[0..256], &[0..128], &[]];
    for piece in [1000, 48] {
        let mut target = on_gpu(&gpu, &config, KvFormat::F32);
        for (((length, asked), expected), part) in prompts.iter().zip(&expected).zip(parts) {
            let found = read(&mut target, &text[..*length], asked, piece);
            assert_eq!(target.computed_there(), part, "{length} rows");
            let rows = kv(target.cpu(), 0..*length);
            assert_eq!(bits(&rows), bits(&expected.0), "{length} rows");
            assert_eq!(bits(&found.logits), bits(&expected.1), "{length} rows");
        }
        // A caller that does not use slices gets the same rows on the same devices.
        target.truncate(0);
        target.begin_prompt(&[0..200], 0);
        let mut at = 0;
        for cut in [1, 2, 61, 100, 36] {
            target.prefill(&text[at..at + cut]).unwrap();
            at += cut;
        }
        assert_eq!(target.computed_there(), [0..128]);
        assert_eq!(bits(&kv(target.cpu(), 0..200)), bits(&expected[1].0));
    }
    // The rows equal the CPU's where nothing goes to the GPU.
    let mut alone = on_cpu(&config, KvFormat::F32);
    alone.prefill(&text[..200]).unwrap();
    assert_eq!(bits(&kv(&alone, 0..200)), bits(&expected[6].0));
}

/// Neither another answer to a prompt nor a continued one reads any of it on the GPU again.
#[test]
fn rows_that_are_there_are_not_read_again() {
    let Some(gpu) = another_gpu(GpuLimits::default()) else { return };
    let text = tokens(260);
    let mut target = on_gpu(&gpu, &config(), KvFormat::F16);
    read(&mut target, &text[..210], &[0..210], 64);
    let before = gpu.traffic_meter().read();
    assert_eq!(target.begin_prompt(&[0..210], 208), 208);
    // The next question, after an answer of 20 tokens.
    assert_eq!(target.begin_prompt(&[0..208, 230..260], 209), 209);
    // A message that was changed in the middle.
    assert_eq!(target.begin_prompt(&[0..190], 150), 128);
    assert!(gpu.traffic_meter().read().since(before).is_none());
}

#[test]
fn rows_are_kept_for_another_run_with_the_devices_that_computed_them() {
    let Some(gpu) = gpu() else { return };
    let (config, text) = (config(), tokens(220));
    let mut first = on_gpu(&gpu, &config, KvFormat::F16);
    read(&mut first, &text[..200], &[0..200], 64);
    let saved = first.saved_kv(usize::MAX).unwrap();
    assert_eq!(first.saved_kv(saved.len() - 1), None);
    let mut second = on_gpu(&gpu, &config, KvFormat::F16);
    assert!(!second.restore_kv(100, &saved) && !second.restore_kv(200, &saved[1..]));
    assert!(second.is_empty() && second.computed_there().is_empty());
    assert!(second.restore_kv(200, &saved));
    assert_eq!(second.computed_there(), first.computed_there());
    assert_eq!(bits(&kv(second.cpu(), 0..200)), bits(&kv(first.cpu(), 0..200)));
    assert_eq!(second.begin_prompt(&[0..200], 199), 199);
    assert_eq!(second.begin_prompt(&[], 199), 0, "the CPU would have computed all of it");
}

#[test]
fn a_lost_gpu_leaves_the_prefix_and_a_way_back() {
    let Some(gpu) = another_gpu(GpuLimits::default()) else { return };
    let (config, text) = (config(), tokens(200));
    let mut target = on_gpu(&gpu, &config, KvFormat::F16);
    target.prefill(&text[..10]).unwrap();
    target.begin_prompt(&[0..200], 0);
    target.truncate(0);
    target.prefill(&text[..70]).unwrap();
    gpu.destroy();
    let error = target.prefill(&text[70..]).unwrap_err();
    assert!(matches!(&error, TargetError::Device(reason) if reason.contains("lost")), "{error}");
    assert_eq!((target.len(), target.computed_there()), (70, &[0..70][..]));
    // Decoding can continue after what is committed.
    assert_eq!(target.verify(&Tree::root(4)).unwrap().logits.len(), config.vocab);
    assert!(target.fall_back().is_ok());
    assert!(target.is_empty() && target.computed_there().is_empty());
    assert_eq!(target.prompts_on(), None);
    let found = read(&mut target, &text, &[0..200], 64);
    let mut alone = on_cpu(&config, KvFormat::F16);
    let expected = alone.prefill(&text).unwrap();
    assert_eq!(bits(&found.logits), bits(&expected.logits));
    assert_eq!(bits(&kv(target.cpu(), 0..200)), bits(&kv(&alone, 0..200)));
    assert!(target.fall_back().is_err(), "there is but one way back");
}

#[test]
fn what_is_held_is_counted_and_a_device_without_room_is_told() {
    let Some(gpu) = another_gpu(GpuLimits::default()) else { return };
    let before = gpu.held();
    let target = on_gpu(&gpu, &config(), KvFormat::F16);
    assert_eq!(gpu.held() - before, target.device_bytes());
    // Two blocks of weights and the keys and values of one, however many the model has.
    let deep = on_gpu(&gpu, &Config { layers: 6, ..config() }, KvFormat::F16);
    assert!(deep.device_bytes() < target.device_bytes() + (20 << 10));
    assert_eq!(deep.streamed_bytes(), 3 * target.streamed_bytes());
    drop((target, deep));
    assert_eq!(gpu.held(), before);
    let limits = GpuLimits { room: 200 << 10, ..GpuLimits::default() };
    let small = another_gpu(limits).unwrap();
    let error = try_on(&small, &config(), KvFormat::F16).err().unwrap();
    assert!(error.contains("the GPU's memory is full"), "{error}");
    let block = BlockOptions { inner_norms: true, ..BlockOptions::default() };
    let (own, config) = (config(), Config { block, ..config() });
    let source = RandomWeights::new(&config, Format::F32, 5);
    let (pool, kv) = (Arc::new(Pool::new(1)), KvFormat::F16);
    let request = LoadRequest::new(&config, &source, pool, CAPACITY, kv);
    let loaded = PlacedTarget::reading_prompts(on_cpu(&own, kv), &gpu, &request);
    let (target, error) = *loaded.err().unwrap();
    assert!(
        error.to_string().contains("do not support norms inside of attention and MLP"),
        "{error}"
    );
    assert_eq!(target.capacity(), CAPACITY, "the target is as it was");
}
