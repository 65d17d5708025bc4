//! Placements: what fits is evaluated, the best is chosen if it pays off, and the reasons say so.

use super::*;
use crate::plan::placement_reasons::{offload_ms, placement_reasons};
use crate::plan::tests::MIB;
use crate::plan::{Reason, Setting};

/// Llama-2-7B in 4 bits with its head of five blocks and a small model, on a machine with a card.
fn inputs(room: u64) -> PlacementInputs {
    let head = DraftSize {
        fixed: 198_000_000,
        lookup: 0,
        block: 202_000_000,
        bytes_per_weight: 36.0 / 32.0,
        blocks: 5,
        elastic: true,
        ..DraftSize::NOTHING
    };
    let small = DraftSize {
        fixed: 68_000_000,
        block: 0,
        blocks: 0,
        elastic: false,
        bytes_per_weight: 1.06,
        ..head
    };
    let choice = |kind, size: DraftSize, bytes| DraftChoice {
        head: None,
        kind,
        on_cpu: size,
        on_gpu: size,
        bytes,
    };
    PlacementInputs {
        target: TargetSize::dense(6_607_000_000, 3_716_000_000, 32),
        block_weights: 202_000_000,
        layers: LayerSize { layers: 32, layer: 160 * MIB, cache: 8 * MIB, head: 160 * MIB },
        streams: true,
        room,
        drafts: vec![
            choice(DrafterId::Head, head, 1400 * MIB),
            choice(DrafterId::SmallModel, small, 200 * MIB),
        ],
        overrides: TreeOverrides::default(),
    }
}

/// A CPU that reads 20 GB/s and a card `faster` times as fast at everything.
fn times(faster: f64) -> DeviceTimes {
    let cpu: Vec<BlockTime> = [(1, 5.0), (4, 5.5), (16, 9.0), (32, 17.0)]
        .map(|(gamma, block_ms)| BlockTime { gamma, block_ms, rest_ms: block_ms })
        .to_vec();
    let trip_ms = 0.1;
    let gpu = cpu.iter().map(|at| BlockTime {
        block_ms: at.block_ms / faster,
        rest_ms: trip_ms + at.rest_ms / faster,
        ..*at
    });
    DeviceTimes { gpu: gpu.collect(), cpu, transfer: 12e9, trip_ms }
}

/// Who drafts, whether on the GPU, how many blocks of the target are there, and whether both work
/// at the same time.
fn places(rows: &[PlacementForecast]) -> Vec<(DrafterId, bool, usize, bool)> {
    rows.iter().map(|row| (row.draft, row.draft_on_gpu, row.layers, row.beside)).collect()
}

#[test]
fn every_way_to_share_out_is_weighed() {
    use DrafterId::{Head, None, SmallModel};
    let all = places(&inputs(12_000 * MIB).forecasts(&times(10.0), Option::None));
    let expected = [
        (None, false, 0, false),
        (None, false, 32, false),
        (Head, false, 0, false),
        (Head, false, 32, false),
        (SmallModel, false, 0, false),
        (SmallModel, false, 32, false),
        (Head, true, 0, false),
        (Head, true, 32, false),
        (SmallModel, true, 0, false),
        (SmallModel, true, 32, false),
        (SmallModel, false, 32, true),
        (SmallModel, true, 0, true),
    ];
    assert_eq!(all, expected);
    let some = places(&inputs(3000 * MIB).forecasts(&times(10.0), Option::None));
    for part in [(None, false, 18, false), (Head, true, 10, false)] {
        assert!(some.contains(&part), "{part:?} is not in {some:?}");
    }
}

#[test]
fn blocks_on_a_fast_card_save_their_time_and_cost_a_trip() {
    let inputs = inputs(3000 * MIB);
    let times = times(10.0);
    let plain = |layers| inputs.cost(&times, Candidate::plain(layers)).verify_ms;
    // 33 parts of 5 ms; 18 of them take a tenth of that; one transfer in both directions.
    assert!((plain(0) - 165.0).abs() < 1e-6, "{}", plain(0));
    assert!((plain(18) - (75.0 + 9.0 + 0.1)).abs() < 1e-6, "{}", plain(18));
    assert!((plain(32) - (16.5 + 0.1)).abs() < 1e-6, "{}", plain(32));
}

#[test]
fn the_paper_s_equations() {
    // 3.7 GB at 12 GB/s.
    let offload = offload_ms(3_700_000_000, 12e9);
    assert!((offload - 308.33).abs() < 0.01, "{offload}");
    // If nothing is right, every pass gains only its own token; if everything is, a whole budget.
    assert_eq!(duo::expected(5, 0.0).1, 1.0);
    assert_eq!(duo::expected(5, 1.0).1, 5.0);
}

#[test]
fn reasons_name_both_devices_the_gain_and_the_baseline() {
    for (room, faster) in [(12_000 * MIB, 10.0), (0, 10.0)] {
        let inputs = inputs(room);
        let times = times(faster);
        let rows = inputs.forecasts(&times, None);
        let best = best_placement(&rows).unwrap();
        let reasons = placement_reasons(&inputs, &times, &rows, best, "a card");
        let [blocks, placed, offload] = &reasons[..] else { panic!("{reasons:?}") };
        let Reason::BlockTimes { cpu_ms, gpu_ms, .. } = *blocks else { panic!("{blocks:?}") };
        assert!((cpu_ms - 5.0).abs() < 1e-9 && (gpu_ms - 0.5).abs() < 1e-9, "{blocks:?}");
        let Reason::Placed { on_cpu, best: told, .. } = placed else { panic!("{placed:?}") };
        assert_eq!((on_cpu.is_none(), **told), (best.is_on_cpu(), *best));
        let Reason::Offload { transfer, offload_ms: offload, beats, other, .. } = offload else {
            panic!("{offload:?}")
        };
        // T_V < Ω·T_offload, and (T_D + T_V) / Ω of a draft that takes turns with the target.
        let expected = best.verify_ms < best.omega * offload;
        assert_eq!((*transfer, *beats, **other), (12e9, expected, *best));
        assert!((best.token_ms() - 1e3 / best.rate).abs() < 1e-6, "{best:?}");
    }
}

#[test]
fn times_that_cannot_be_are_not_sound() {
    assert!(times(3.0).is_sound());
    let broken: [fn(&mut DeviceTimes); 6] = [
        |times| times.transfer = 0.0,
        |times| times.trip_ms = f64::NAN,
        |times| times.cpu.clear(),
        |times| times.cpu[0].gamma = 2,
        |times| times.gpu[1].block_ms = -1.0,
        |times| times.gpu.truncate(2),
    ];
    for spoil in broken {
        let mut spoilt = times(3.0);
        spoil(&mut spoilt);
        assert!(!spoilt.is_sound(), "{spoilt:?}");
    }
}

#[test]
fn what_the_user_has_fixed_is_kept() {
    let overrides = TreeOverrides { gamma: Setting::Fixed(7), ..TreeOverrides::default() };
    let inputs = PlacementInputs { overrides, ..inputs(3000 * MIB) };
    let rows = inputs.forecasts(&times(10.0), None);
    let trees = rows.iter().filter(|row| row.draft != DrafterId::None && !row.beside);
    assert!(trees.clone().count() > 4);
    assert!(trees.clone().all(|row| row.budget.shape.gamma == 7));
}

/// Where further tokens cost no time, DuoDecoding drafts as many as on the paper's machine.
#[test]
fn a_draft_beside_the_target_is_forecast_up_to_24_tokens() {
    let mut times = times(1.0);
    for at in times.cpu.iter_mut().chain(&mut times.gpu) {
        (at.block_ms, at.rest_ms) = (5.0, 5.0);
    }
    let rows = inputs(12_000 * MIB).forecasts(&times, None);
    let beside: Vec<_> = rows.iter().filter(|row| row.beside).collect();
    assert!(beside.len() == 2 && beside.iter().all(|row| row.budget.shape.gamma == 24));
    assert!(beside.iter().all(|row| row.draft_ms <= row.verify_ms), "{beside:?}");
}

/// A slice takes the time of the slower of bus and card, block by block. It pays off if even the
/// shortest part is read faster than by the CPU.
#[test]
fn prompts_go_through_a_card_where_bus_and_card_beat_the_cpu() {
    let inputs = inputs(0);
    let forecast = |faster: f64, transfer: f64| {
        let times = DeviceTimes { transfer, ..times(faster) };
        inputs.prefill(&times, 128, 512).unwrap()
    };
    // 32 blocks of 17 ms for 32 rows.
    let expected = 512e3 / (32.0 * 17.0 * 16.0);
    let fast = forecast(10.0, 12e9);
    assert!((fast.cpu - expected).abs() < 1e-6 && fast.pays, "{fast:?}");
    // Bound by the card: 27.2 ms per block and a transfer in both directions.
    assert!((fast.gpu - 512e3 / (32.0 * (27.2 + 0.1))).abs() < 1e-6, "{fast:?}");
    // Bound by the bus: 160 MiB at 1 GB/s take 168 ms per block, 128 rows on the CPU 68 ms.
    let slow = forecast(10.0, 1e9);
    assert!((slow.gpu - 512e3 / (32.0 * (167.77216 + 0.1))).abs() < 1e-6 && !slow.pays, "{slow:?}");
    // A card that is as fast as the CPU only adds its transfers.
    let same = forecast(1.0, 12e9);
    assert!(same.gpu < same.cpu && !same.pays, "{same:?}");
}

/// A CPU that takes 100 ms per block, a card that takes 1 ms and has no room for all blocks, and a
/// bus.
fn slow_cpu(transfer: f64) -> (PlacementInputs, DeviceTimes) {
    let fast = times(5.0);
    let cpu = fast.cpu.iter().map(|at| BlockTime { block_ms: 20.0 * at.block_ms, ..*at });
    (inputs(2500 * MIB), DeviceTimes { cpu: cpu.collect(), transfer, ..fast })
}

/// T_V of a streamed target is the larger of a block's time on the card and its bytes over the bus,
/// for each block (Dovetail, "cost model"); keys and values stay there.
#[test]
fn a_streamed_block_takes_the_time_of_the_card_or_of_the_bus() {
    for (transfer, block_ms) in [(24e9, 152.0 * MIB as f64 / 24e6), (1e12, 1.0)] {
        let (inputs, times) = slow_cpu(transfer);
        let target = BlocksOnGpu { held: 0, streamed: 32 };
        let plain = Candidate { target, ..Candidate::plain(0) };
        let found = inputs.cost(&times, plain);
        let expected = 32.0 * (block_ms + 0.1) + times.gpu[0].rest_ms;
        assert!((found.verify_ms - expected).abs() < 1e-6, "{} {expected}", found.verify_ms);
        assert!(found.streamed && found.layers == 32 && !found.is_on_cpu());
    }
}

#[test]
fn a_slow_cpu_and_a_fast_bus_stream_the_target_with_the_draft_next_to_it() {
    let (inputs, times) = slow_cpu(24e9);
    let rows = inputs.forecasts(&times, None);
    let best = best_placement(&rows).unwrap();
    assert!(best.streamed && best.draft_on_gpu && best.draft != DrafterId::None, "{best:?}");
    // The paper's inequality says so too: verifying on the CPU loses to streaming without a draft.
    let offload = offload_ms(inputs.target.bytes, times.transfer);
    let on_cpu = rows.iter().filter(|row| row.layers == 0 && row.draft == DrafterId::Head);
    assert!(on_cpu.clone().count() > 0);
    assert!(on_cpu.clone().all(|row| row.verify_ms > row.omega * offload), "{rows:?}");
    let reasons = placement_reasons(&inputs, &times, &rows, best, "a card");
    let Some(Reason::Offload { other, .. }) = reasons.last() else { panic!("{reasons:?}") };
    assert!(!other.streamed && other.rate < best.rate, "{other:?}");

    // Over a slow bus it holds, and what is held is more than nothing.
    let (inputs, times) = slow_cpu(5e8);
    let best = *best_placement(&inputs.forecasts(&times, None)).unwrap();
    assert!(!best.streamed && best.layers > 0, "{best:?}");
    let offload = offload_ms(inputs.target.bytes, times.transfer);
    assert!(best.verify_ms < best.omega * offload, "{best:?}");
}

#[test]
fn a_target_is_streamed_only_where_it_has_to_be_and_can_be() {
    let (inputs, times) = slow_cpu(24e9);
    let streams = |inputs: &PlacementInputs| {
        inputs.forecasts(&times, None).iter().filter(|row| row.streamed).count()
    };
    // Alone, with either draft on either device, and with a small model at the same time.
    assert_eq!(streams(&inputs), 1 + 2 + 2 + 1);
    assert_eq!(streams(&PlacementInputs { streams: false, ..inputs.clone() }), 0, "main memory");
    assert_eq!(streams(&PlacementInputs { room: 12_000 * MIB, ..inputs.clone() }), 0, "all fits");
    assert_eq!(streams(&PlacementInputs { room: 600 * MIB, ..inputs.clone() }), 0, "no stages");
    // One that is streamed stays so.
    let fixed = Some(BlocksOnGpu { held: 0, streamed: 32 });
    let rows = inputs.forecasts(&times, fixed);
    assert!(rows.len() == 6 && rows.iter().all(|row| row.streamed), "{rows:?}");
    let held = inputs.forecasts(&times, Some(BlocksOnGpu::default()));
    let best = |rows| *best_placement(rows).unwrap();
    assert!(is_worth_moving_for(&best(&rows), &best(&held)));
    let all_held = PlacementForecast { streamed: false, ..best(&rows) };
    let slower = PlacementForecast { rate: all_held.rate / 2.0, ..all_held };
    assert!(is_worth_moving_for(&best(&rows), &slower), "the same number in another way");
}
