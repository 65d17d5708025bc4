//! What the plan is a function of: the machine's throughput and the models' sizes, as plain
//! numbers. Must never know formats or devices.

use crate::hardware::{Cpu, Gpu};

/// What a processor can do in a second, guessed from its description. The guesses only have to be
/// right in their proportions: a short measurement at load replaces the times made of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    /// Multiply-adds per second, all cores together.
    pub multiply_adds: f64,
    /// Bytes per second from memory.
    pub bandwidth: f64,
    /// Seconds lost on every matrix product (kernel launch on a GPU, waking threads on a CPU).
    pub overhead: f64,
}

impl Throughput {
    /// A CPU used with `threads` threads: a skinny product sustains about a third of the peak of
    /// the widest instruction set; bandwidth grows with cores until the memory channels are full
    /// (two on a laptop, eight or more on a server, which has the cores to go with them).
    pub fn of_cpu(cpu: &Cpu, threads: usize) -> Self {
        let has = |name: &str| cpu.features.contains(&name);
        let per_core = if has("AVX-512 VNNI") || has("AVX-512 BF16") || has("i8mm") {
            36e9
        } else if has("AVX-512") || has("AVX-VNNI") {
            28e9
        } else if has("AVX2") || has("dotprod") {
            18e9
        } else if has("NEON") || has("SSE4.1") {
            8e9
        } else {
            4e9
        };
        let cores = threads.clamp(1, cpu.physical.max(1)) as f64;
        Self {
            multiply_adds: per_core * cores,
            bandwidth: (11e9 * cores).min(36e9 + 2.2e9 * cores),
            overhead: 4e-6,
        }
    }

    /// A GPU: its bandwidth decides, since drafts are read whole for every level; a card that does
    /// not say is taken for a weak one (a GTX 1050's 112 GB/s).
    pub fn of_gpu(gpu: Option<&Gpu>) -> Self {
        let bandwidth = gpu.and_then(|gpu| gpu.bandwidth).unwrap_or(112e9);
        Self { multiply_adds: bandwidth * 15.0, bandwidth: bandwidth * 0.7, overhead: 30e-6 }
    }
}

/// The target as the cost model sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TargetSize {
    /// Weights that every row is multiplied with (layers and head, not the embedding).
    pub weights: u64,
    /// Bytes of these weights as they lie in memory: read once a pass.
    pub bytes: u64,
    /// Layers, for what is lost on each product.
    pub layers: usize,
}

/// The draft head as the cost model sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DraftSize {
    /// Weights of fusion and LM head, passed on every level whatever M is.
    pub fixed: u64,
    /// Weights that are held but only looked up: the embedding.
    pub lookup: u64,
    /// Weights of one block.
    pub block: u64,
    /// Bytes of a weight on the draft's device.
    pub bytes_per_weight: f64,
    /// Blocks the head has.
    pub blocks: usize,
    /// Whether any first m of them can be used.
    pub elastic: bool,
}

impl DraftSize {
    /// A draft without a model.
    pub const NOTHING: Self =
        Self { fixed: 0, lookup: 0, block: 0, bytes_per_weight: 0.0, blocks: 0, elastic: false };
}

/// Everything the first choice depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostInputs {
    /// The processor that verifies.
    pub verifier: Throughput,
    /// The target.
    pub target: TargetSize,
    /// The draft head and the processor it runs on; `None` when there is no draft.
    pub draft: Option<(DraftSize, Throughput)>,
}

#[cfg(test)]
impl CostInputs {
    /// A target of a million weights and a draft without a model, on one processor.
    pub(super) fn for_tests() -> Self {
        let throughput = Throughput { multiply_adds: 1e10, bandwidth: 1e10, overhead: 1e-6 };
        let target = TargetSize { weights: 1_000_000, bytes: 2_000_000, layers: 4 };
        Self { verifier: throughput, target, draft: Some((DraftSize::NOTHING, throughput)) }
    }
}
