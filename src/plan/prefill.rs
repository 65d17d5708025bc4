//! Whether a prompt is read faster by a GPU to which the target's blocks are streamed than by the
//! CPU (method.md, Placement). These are pure functions. It must never measure.

use serde::Serialize;

use super::placements::{BlockTime, BlocksOnGpu, DeviceTimes, PlacementInputs, WORTH};

/// What to expect of reading a prompt on both devices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PrefillForecast {
    /// Tokens per second on the CPU.
    pub cpu: f64,
    /// Tokens per second through the GPU, in slices.
    pub gpu: f64,
    /// How many rows a slice has.
    pub slice: usize,
    /// Whether the shortest part that would go to the GPU is read faster there.
    pub pays: bool,
}

impl PlacementInputs {
    /// The forecast for prompts in slices of `slice` rows; `least` is the smallest number of rows
    /// that goes to the GPU. Weights, keys and values are sent over the bus while the previous
    /// block is computed.
    pub fn prefill(
        &self,
        times: &DeviceTimes,
        (least, slice): (usize, usize),
    ) -> Option<PrefillForecast> {
        let cpu = times.cpu.last()?;
        let gpu = times.gpu.last()?;
        // Beyond the largest measured γ, every row costs as much as the rows before.
        let block = |at: &BlockTime, rows: usize| at.block_ms * rows as f64 / at.gamma as f64;
        let pass = |target: BlocksOnGpu, rows: usize| {
            self.blocks_ms(times, target, block(cpu, rows), block(gpu, rows))
        };
        let on_cpu = |rows: usize| pass(BlocksOnGpu::default(), rows);
        let streamed = BlocksOnGpu { held: 0, streamed: self.layers.layers };
        let on_gpu = |rows: usize| pass(streamed, rows);
        let rate = |ms: f64| slice as f64 * 1e3 / ms.max(f64::MIN_POSITIVE);
        Some(PrefillForecast {
            cpu: rate(on_cpu(slice)),
            gpu: rate(on_gpu(slice)),
            slice,
            pays: on_gpu(least) * WORTH < on_cpu(least),
        })
    }
}
