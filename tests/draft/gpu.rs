//! What a draft head on a GPU sends over the bus.

use std::sync::Arc;

use dovetail::kernels::Pool;
use dovetail::model::GpuLimits;
use dovetail::model::head::{DraftPrecision, GpuHead, HeadBackend, HeadRequest, Pairs};
use dovetail::speculate::{BeamRow, Ranking};

use crate::support::gpu::another_gpu;
use crate::support::heads::Case;

const WIDTH: usize = 4;

#[test]
fn a_level_is_one_submission_of_which_only_candidates_come_back() {
    let Some(gpu) = another_gpu(GpuLimits::default()) else { return };
    let case = Case::load("draft_dgf_m2");
    let held = gpu.held();
    let precision = DraftPrecision::Eight;
    let request = HeadRequest::new(&case.weights, &case.shared, Arc::new(Pool::new(1)), 512);
    let mut head = GpuHead::new(&gpu, &HeadRequest { precision, ..request }).unwrap();
    assert_eq!(gpu.held() - held, head.device_bytes(), "every byte is counted");
    let (features, tokens) = case.input("p0");
    let ranking = Ranking::new(WIDTH);
    let before = gpu.traffic_meter().read();
    head.extend(0, Pairs { features: &features, tokens: &tokens }, 2).unwrap();
    let extended = gpu.traffic_meter().read().since(before);
    assert_eq!((extended.submissions, extended.down), (1, 0));
    let before = gpu.traffic_meter().read();
    let root = head.rank_root(&ranking).unwrap();
    let ranked = gpu.traffic_meter().read().since(before);
    assert_eq!((ranked.submissions, ranked.up, ranked.down), (1, 0, 8 * WIDTH as u64));
    let beam: Vec<BeamRow> = root
        .iter()
        .map(|&(token, _)| BeamRow { token, source: None, ancestors: Vec::new() })
        .collect();
    let before = gpu.traffic_meter().read();
    assert_eq!(head.step(&beam, &ranking).unwrap().len(), WIDTH);
    let level = gpu.traffic_meter().read().since(before);
    assert_eq!((level.submissions, level.down), (1, (8 * WIDTH * WIDTH) as u64));
    // Embeddings and positions of four rows.
    let hidden = case.weights.config.body.hidden as u64;
    assert!(level.up < 4 * WIDTH as u64 * (2 * hidden + 16), "{level:?}");
    drop(head);
    // The buffer through which results are read stays with the device.
    assert!(gpu.held() - held <= 4096, "{}", gpu.held() - held);
}
