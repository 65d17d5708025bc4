//! Models on a GPU: close to the CPU's numbers, and on one GPU the same bits however a token is
//! computed.

use std::sync::Arc;
use std::time::Duration;

use dovetail::kernels::{Format, KvFormat, Pool};
use dovetail::model::{
    BlockOptions, Config, CpuDraft, CpuTarget, FeatureSource, Gpu, GpuDraft, GpuLimits,
    LoadRequest, PlacedTarget, RandomWeights, SmallLm, Target, TargetError,
};
use dovetail::speculate::{BeamRow, Tree};
use proptest::strategy::{Strategy as _, ValueTree};
use proptest::test_runner::TestRunner;

use crate::support::exact::{deepest, plain_rows, row, slices_are_plain, tree_is_plain, trees};
use crate::support::golden::assert_close;
use crate::support::gpu::{another_gpu, gpu};
use crate::support::journey::{assert_alike, gapped_tree, journey};
use crate::support::kernels::bits;
use crate::support::models::{families, small_config};

const CAPACITY: usize = 320;
/// The length of a prompt in tokens: more than the 64 positions that attention takes at once.
const PROMPT: usize = 70;

fn config() -> Config {
    Config { vocab: 280, layers: 3, ..small_config() }
}

/// Wide enough for the 256-column formats.
fn wide() -> Config {
    Config { hidden: 256, intermediate: 512, head_dim: 64, layers: 2, ..config() }
}

fn request<'a>(config: &'a Config, source: &'a RandomWeights, kv: KvFormat) -> LoadRequest<'a> {
    LoadRequest::new(config, source, Arc::new(Pool::new(2)), CAPACITY, kv)
}

fn whole(gpu: &Arc<Gpu>, config: &Config, format: Format, kv: KvFormat) -> PlacedTarget {
    let source = RandomWeights::new(config, format, 5);
    PlacedTarget::on_gpu(gpu, &request(config, &source, kv)).unwrap()
}

fn split(gpu: &Arc<Gpu>, config: &Config, format: Format, layers: usize) -> PlacedTarget {
    let source = RandomWeights::new(config, format, 5);
    let request = request(config, &source, KvFormat::F32);
    PlacedTarget::split(gpu, layers, 0, &request).unwrap().0
}

fn on_cpu(config: &Config, format: Format) -> CpuTarget {
    let source = RandomWeights::new(config, format, 5);
    CpuTarget::load(&request(config, &source, KvFormat::F32)).unwrap()
}

#[test]
fn a_target_on_the_gpu_computes_what_the_cpu_does() {
    let Some(gpu) = gpu() else { return };
    for (name, config) in families(config()) {
        let expected = journey(&mut on_cpu(&config, Format::F32), PROMPT);
        let mut target = whole(&gpu, &config, Format::F32, KvFormat::F32);
        assert_alike(name, &journey(&mut target, PROMPT), &expected, 5e-4);
        let mut target = split(&gpu, &config, Format::F32, 2);
        assert_alike(name, &journey(&mut target, PROMPT), &expected, 5e-4);
    }
}

#[test]
fn a_target_on_the_gpu_is_tapped_as_the_cpus_is() {
    let Some(gpu) = gpu() else { return };
    let config = config();
    // States below, at and above the cut, for any cut.
    for states in [vec![0, 1, 2], vec![0, 2, 3]] {
        let source = FeatureSource::States(states);
        let mut target = on_cpu(&config, Format::F32);
        target.set_features(source.clone());
        let expected = journey(&mut target, PROMPT);
        let whole = whole(&gpu, &config, Format::F32, KvFormat::F32);
        let mut targets: Vec<(&str, Box<dyn Target>)> = vec![("whole", Box::new(whole))];
        for layers in [1, 2] {
            targets.push(("split", Box::new(split(&gpu, &config, Format::F32, layers))));
        }
        for (name, mut target) in targets {
            target.set_features(source.clone());
            assert_alike(name, &journey(target.as_mut(), PROMPT), &expected, 5e-4);
        }
    }
}

/// SpecExec's tree takes one pass, so that the weights are sent once for all of its nodes.
#[test]
fn a_tree_of_128_nodes_streams_the_weights_once() {
    let Some(gpu) = another_gpu(GpuLimits::default()) else { return };
    let config = Config { layers: 3, ..wide() };
    let source = RandomWeights::new(&config, Format::F16, 5);
    let request = LoadRequest { capacity: 160, ..request(&config, &source, KvFormat::F16) };
    let mut tree = Tree::root(3);
    for node in 1..128 {
        tree.push(0, node as u32, -1.0);
    }
    let mut resident = PlacedTarget::on_gpu(&gpu, &request).unwrap();
    let expected = resident.verify(&tree).unwrap();
    let mut streamed = PlacedTarget::streamed(&gpu, &request).unwrap();
    let before = gpu.traffic_meter().read();
    let found = streamed.verify(&tree).unwrap();
    let passed = gpu.traffic_meter().read().since(before);
    let bytes = streamed.streamed_bytes();
    assert!(passed.up > bytes && passed.up < bytes * 3 / 2, "{bytes} bytes once: {passed:?}");
    assert_eq!(bits(&found.logits), bits(&expected.logits));
}

/// The same kernels with the same weights, no matter where these come from: one format for all
/// blocks, and matrices in parts.
#[test]
fn streamed_blocks_give_the_bits_of_resident_ones() {
    let binding = GpuLimits { binding: 300 << 10, ..GpuLimits::default() };
    for (limits, format) in [
        (GpuLimits::default(), Format::Q4K),
        (GpuLimits::default(), Format::F16),
        (binding, Format::F32),
    ] {
        let Some(gpu) = another_gpu(limits) else { return };
        let config = Config { layers: 3, ..wide() };
        let source = RandomWeights::new(&config, format, 5);
        let request = request(&config, &source, KvFormat::F16);
        let mut resident = PlacedTarget::on_gpu(&gpu, &request).unwrap();
        let expected = journey(&mut resident, PROMPT);
        assert_eq!(resident.streamed_bytes(), 0);
        drop(resident);
        let held = gpu.held();
        let mut streamed = PlacedTarget::streamed(&gpu, &request).unwrap();
        assert!(journey(&mut streamed, PROMPT) == expected, "{format}: other bits");
        assert_eq!(gpu.held() - held, streamed.device_bytes());
        let bytes = streamed.streamed_bytes();
        let before = gpu.traffic_meter().read();
        streamed.verify(&Tree::root(3)).unwrap();
        let passed = gpu.traffic_meter().read().since(before);
        assert!(passed.up > bytes, "a pass sends all of {bytes} bytes: {passed:?}");
        assert_eq!(passed.submissions, 4, "one a block, and one for the head");
        drop(streamed);
        assert_eq!(gpu.held(), held);
    }
}

/// On the CPU activations are rounded to 8 bits; here they are not, so the results are only close.
#[test]
fn every_format_computes_near_what_the_cpu_does() {
    let Some(gpu) = gpu() else { return };
    for format in Format::ALL {
        let expected = on_cpu(&wide(), format).prefill(&[5, 6, 7, 8]).unwrap();
        let mut target = whole(&gpu, &wide(), format, KvFormat::F16);
        let found = target.prefill(&[5, 6, 7, 8]).unwrap();
        let size = expected.logits.iter().map(|x| x * x).sum::<f32>();
        let pairs = found.logits.iter().zip(&expected.logits);
        let off = pairs.map(|(a, b)| (a - b).powi(2)).sum::<f32>();
        assert!(off <= 0.01 * size, "{format}: {}", (off / size).sqrt());
    }
}

#[test]
fn a_tree_is_plain_decoding_in_every_bit() {
    let Some(gpu) = gpu() else { return };
    let mut runner = TestRunner::deterministic();
    let mut check = |target: &mut dyn Target| {
        let tree = trees(280, 1..20).new_tree(&mut runner).unwrap().current();
        let end = deepest(&tree);
        tree_is_plain(target, &[3, 1, 4, 1, 5, 9, 2, 6], &tree, &[end], end);
    };
    for format in [Format::F32, Format::F16, Format::BF16, Format::Q8_0, Format::Q4K, Format::Q5K] {
        check(&mut whole(&gpu, &wide(), format, KvFormat::F16));
        check(&mut split(&gpu, &wide(), format, 1));
    }
    for (_, config) in families(config()) {
        check(&mut whole(&gpu, &config, Format::F32, KvFormat::F16));
    }
}

/// A row alone and as the last of any number of rows, of which kernels take eight at once, up to 64
/// and of more than one submission.
#[test]
fn a_row_is_the_same_bits_among_any_number_of_rows() {
    let Some(gpu) = gpu() else { return };
    let counts = (1..=17).chain([24, 25, 31, 32, 33, 63, 64]).collect();
    for (format, counts) in [(Format::Q4K, counts), (Format::F16, vec![1, 7, 65, 90])] {
        let mut target = whole(&gpu, &wide(), format, KvFormat::F16);
        target.prefill(&[1, 2, 3]).unwrap();
        let star = |rows: usize| {
            let mut tree = Tree::root(9);
            (1..rows).for_each(|i| _ = tree.push(0, (i as u32 * 31) % 280, -1.0));
            tree
        };
        let all = target.verify(&star(90)).unwrap();
        for rows in counts {
            let pass = target.verify(&star(rows)).unwrap();
            for at in [0, rows / 2, rows - 1] {
                assert_eq!(row(&target, &pass, at), row(&target, &all, at), "{at} of {rows}");
            }
        }
    }
}

#[test]
fn prefill_in_any_slices_is_plain_decoding() {
    let Some(gpu) = gpu() else { return };
    let one = Config { layers: 1, ..config() };
    let mut target = whole(&gpu, &one, Format::F16, KvFormat::F16);
    let text: Vec<u32> = (0..300).map(|i| i * 13 % 280).collect();
    let expected = plain_rows(&mut target, &text);
    // A submission takes 256 rows.
    for cuts in [
        &[300][..],
        &[1, 300],
        &[63, 65, 100, 300],
        &[64, 100, 200, 300],
        &[255, 300],
        &[256, 257, 300],
        &[257, 300],
    ] {
        slices_are_plain(&mut target, &text, &expected, cuts);
    }
}

#[test]
fn a_matrix_too_large_for_a_binding_is_held_in_parts() {
    let Some(gpu) = gpu() else { return };
    // Less than the matrices of an MLP need, more than everything else.
    let limits = GpuLimits { binding: 300 << 10, ..GpuLimits::default() };
    let small = another_gpu(limits).unwrap();
    let expected = journey(&mut whole(&gpu, &wide(), Format::F32, KvFormat::F16), PROMPT);
    let found = journey(&mut whole(&small, &wide(), Format::F32, KvFormat::F16), PROMPT);
    assert!(found == expected, "other bits");
}

/// The numbers of a drafting model's rows, on any device.
fn growth(lm: &mut dyn SmallLm) -> Vec<Vec<f32>> {
    let rows = |rows: &[(&[usize], u32)]| -> Vec<BeamRow> {
        let row = |&(above, token): &(&[usize], u32)| BeamRow {
            token,
            source: above.last().copied(),
            ancestors: above.to_vec(),
        };
        rows.iter().map(row).collect()
    };
    let mut seen = vec![lm.read(&[4, 8, 15, 16, 23]).unwrap().to_vec()];
    seen.push(lm.grow(0, &rows(&[(&[], 1), (&[], 2)])).unwrap().to_vec());
    seen.push(lm.grow(2, &rows(&[(&[1], 3), (&[0], 4), (&[1], 5)])).unwrap().to_vec());
    seen.push(lm.grow(5, &rows(&[(&[1, 2], 6), (&[1, 4], 7)])).unwrap().to_vec());
    // Rows 2 and 5 stay below row 1, as do 4 and 6; then one of them is kept, immediately.
    lm.keep(&[1], &[2, 4, 5, 6]);
    lm.keep(&[1], &[3]);
    seen.push(lm.grow(1, &rows(&[(&[0], 9), (&[], 10)])).unwrap().to_vec());
    assert_eq!(lm.len(), 7);
    lm.truncate(3);
    seen.push(lm.read(&[42]).unwrap().to_vec());
    seen
}

#[test]
fn a_small_model_drafts_on_the_gpu_as_on_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let config = config();
    let source = RandomWeights::new(&config, Format::F32, 7);
    let request = request(&config, &source, KvFormat::F32);
    let expected = growth(&mut CpuDraft::load(&request).unwrap());
    let mut lm = GpuDraft::load(&gpu, &request).unwrap();
    for (i, (found, expected)) in growth(&mut lm).iter().zip(&expected).enumerate() {
        assert_close(&format!("step {i}"), found, expected, 5e-4);
    }
}

#[test]
fn what_is_held_is_counted_and_given_back() {
    let Some(gpu) = another_gpu(GpuLimits::default()) else { return };
    let before = gpu.held();
    let tiny = Config { layers: 1, vocab: 64, ..config() };
    let source = RandomWeights::new(&tiny, Format::F16, 5);
    let request = LoadRequest { capacity: 16, ..request(&tiny, &source, KvFormat::F16) };
    for _ in 0..100 {
        let target = PlacedTarget::on_gpu(&gpu, &request).unwrap();
        assert_eq!(gpu.held() - before, target.device_bytes());
    }
    assert_eq!(gpu.held(), before);
    // It can still be used.
    let read = PlacedTarget::on_gpu(&gpu, &request).unwrap().prefill(&[1, 2]).unwrap();
    assert!(read.logits.iter().all(|x| x.is_finite()));
}

#[test]
fn a_full_device_is_told_with_its_figures() {
    let limits = GpuLimits { room: 1 << 20, ..GpuLimits::default() };
    let Some(gpu) = another_gpu(limits) else { return };
    let (config, held) = (wide(), gpu.held());
    let source = RandomWeights::new(&config, Format::F16, 5);
    let request = request(&config, &source, KvFormat::F16);
    let error = PlacedTarget::on_gpu(&gpu, &request).err().unwrap().to_string();
    assert!(error.contains("the GPU's memory is full: cannot allocate 1 MiB"), "{error}");
    assert_eq!(gpu.held(), held);
    gpu.check().unwrap();
}

/// With more and more room: none, some, or all of the requested blocks fit; those that fit can be
/// used.
#[test]
fn blocks_that_a_full_device_does_not_take_are_the_cpus() {
    let config = Config { layers: 6, ..wide() };
    let source = RandomWeights::new(&config, Format::F16, 5);
    let request = request(&config, &source, KvFormat::F32);
    let asked = config.layers - 1;
    let mut counts = Vec::new();
    for room in (2..20).map(|mib| mib << 20) {
        let limits = GpuLimits { room, ..GpuLimits::default() };
        let Some(full) = another_gpu(limits) else { return };
        let fitting = |spare| PlacedTarget::split(&full, asked, spare, &request);
        let (mut target, refused) = match fitting(0) {
            Ok(fitting) => fitting,
            Err(error) => {
                assert!(error.to_string().contains("the GPU's memory is full"), "{error}");
                counts.push(0);
                continue;
            }
        };
        let count = target.gpu_layers();
        assert_eq!(refused.is_some(), count < asked);
        assert!(full.held() <= room);
        counts.push(count);
        let read = target.prefill(&[1; 10]).unwrap();
        let Some(roomy) = gpu() else { return };
        let mut expected = split(&roomy, &config, Format::F16, count);
        let expected = expected.prefill(&[1; 10]).unwrap();
        assert_eq!(bits(&read.logits), bits(&expected.logits), "{count} blocks");
        drop(target);
        assert!(full.held() < 1 << 20, "only what is read back is kept: {}", full.held());
        if refused.is_some() {
            // Enough for others is left free.
            let left_over = fitting(1 << 20).map(|(target, _)| target.gpu_layers());
            assert!(left_over.is_ok_and(|left_over| left_over <= count) || count == 1);
            assert!(fitting(room).is_err());
        }
    }
    assert!(counts.is_sorted(), "{counts:?}");
    counts.dedup();
    assert!(counts.len() > 3 && counts.ends_with(&[asked]), "{counts:?}");
}

#[test]
fn what_the_kernels_lack_stays_on_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let block = BlockOptions { inner_norms: true, ..BlockOptions::default() };
    let config = Config { block, ..config() };
    let source = RandomWeights::new(&config, Format::F16, 5);
    let request = request(&config, &source, KvFormat::F16);
    let error = PlacedTarget::split(&gpu, 1, 0, &request).err().unwrap();
    assert!(
        error.to_string().contains("do not support norms inside of attention and MLP"),
        "{error}"
    );
}

#[test]
fn a_lost_device_is_told_and_never_waited_for() {
    let patience = Duration::from_secs(5);
    let limits = GpuLimits { patience, ..GpuLimits::default() };
    let Some(gpu) = another_gpu(limits) else { return };
    let mut target = whole(&gpu, &config(), Format::F16, KvFormat::F16);
    target.prefill(&[1, 2, 3]).unwrap();
    gpu.destroy();
    let error = target.verify(&Tree::root(4)).unwrap_err();
    assert!(matches!(&error, TargetError::Device(reason) if reason.contains("lost")), "{error}");
    assert_eq!(target.len(), 3);
    assert!(target.prefill(&[5]).is_err());
    assert!(gpu.check().is_err());
}

#[test]
fn a_device_that_does_not_answer_in_time_is_told() {
    let limits = GpuLimits { patience: Duration::from_nanos(1), ..GpuLimits::default() };
    let Some(gpu) = another_gpu(limits) else { return };
    let mut target = whole(&gpu, &config(), Format::F16, KvFormat::F16);
    let error = target.prefill(&[1; 100]).unwrap_err();
    assert!(error.to_string().contains("the GPU has not responded"), "{error}");
    assert_eq!(target.len(), 0);
    assert!(gpu.check().is_err(), "it is not asked again");
}

/// A pass is one submission, and only what is requested is sent over the bus.
#[test]
fn a_pass_is_one_submission() {
    let Some(gpu) = another_gpu(GpuLimits::default()) else { return };
    let config = config();
    let mut target = whole(&gpu, &config, Format::F16, KvFormat::F16);
    target.prefill(&[1, 2, 3]).unwrap();
    let before = gpu.traffic_meter().read();
    target.verify(&gapped_tree()).unwrap();
    let passed = gpu.traffic_meter().read().since(before);
    assert_eq!(passed.submissions, 1);
    assert_eq!(passed.down as usize, 4 * 7 * (config.vocab + config.hidden));
    assert!((passed.up as usize) < 4 * 7 * (config.hidden + config.head_dim + 16), "{passed:?}");
}
