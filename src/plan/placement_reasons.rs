//! Dovetail's equations of the cost model as code, and why a placement is chosen (method.md,
//! Placement). It must never decide.

use super::placements::{DeviceTimes, PlacementForecast, PlacementInputs, WORTH};
use super::reason::Reason;

/// T_offload, ms: how long it takes to stream this many bytes to the GPU, once per token
/// (Dovetail's baseline `offload`: P / (B_p·E_p), here with the measured transfer speed).
pub fn offload_ms(bytes: u64, transfer: f64) -> f64 {
    bytes as f64 / transfer.max(f64::MIN_POSITIVE) * 1e3
}

/// Why `best` of `rows` is chosen; `gpu` is the device's name.
pub fn placement_reasons(
    inputs: &PlacementInputs,
    times: &DeviceTimes,
    rows: &[PlacementForecast],
    best: &PlacementForecast,
    gpu: &str,
) -> Vec<Reason> {
    let gpu = || gpu.to_owned();
    let mut reasons = Vec::new();
    if let (Some(cpu), Some(card)) = (times.cpu.first(), times.gpu.first()) {
        reasons.push(Reason::BlockTimes {
            cpu_ms: cpu.block_ms,
            gpu_ms: card.block_ms,
            gpu: gpu(),
            fit: inputs.fitting(0),
            of: inputs.layers.layers,
        });
    }
    let fastest = |is: fn(&&PlacementForecast) -> bool| {
        rows.iter().filter(is).max_by(|a, b| a.rate.total_cmp(&b.rate))
    };
    let own = fastest(|row| row.is_on_cpu()).filter(|own| *own != best);
    reasons.push(Reason::Placed {
        best: Box::new(*best),
        on_cpu: own.map(|own| Box::new(*own)),
        gpu: gpu(),
        worth: WORTH - 1.0,
    });
    let offload = offload_ms(inputs.target.bytes, times.transfer);
    // Compared with streaming is what does not stream.
    let held = if best.streamed { fastest(|row| !row.streamed) } else { None };
    let other = held.unwrap_or(best);
    reasons.push(Reason::Offload {
        gpu: gpu(),
        offload_ms: offload,
        transfer: times.transfer,
        other: Box::new(*other),
        beats: other.verify_ms < other.omega * offload,
    });
    reasons
}
