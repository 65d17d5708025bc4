//! What the plan depends on: the machine's throughput and the models' sizes, as plain numbers. It
//! must not depend on formats or devices.

use crate::hardware::Cpu;

/// β as it is assumed before any measurement.
pub(super) const BETA: f64 = 0.3;

/// What a processor can do per second, estimated from its description. The estimates need only be
/// right in proportion, because a short measurement during loading replaces the times computed from
/// them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    /// Multiply-adds per second, all cores together.
    pub multiply_adds: f64,
    /// Bytes per second from memory.
    pub bandwidth: f64,
    /// Seconds lost on every matrix product (kernel launch on a GPU, waking threads on a CPU).
    pub overhead: f64,
    /// The fraction of the shorter of computing and reading that the longer does not hide (β).
    pub beta: f64,
}

impl Throughput {
    /// A CPU used with `threads` threads. A skinny product reaches about a third of the peak of the
    /// widest instruction set; bandwidth grows with cores until the memory channels are saturated
    /// (two on a laptop, eight or more on a server, which has correspondingly more cores).
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
            beta: BETA,
        }
    }

    /// A GPU: its bandwidth decides, because a draft is read completely for every level. A card
    /// whose bandwidth is unknown is assumed to be a weak one (a GTX 1050's 112 GB/s).
    pub fn of_gpu(bandwidth: Option<f64>) -> Self {
        let bandwidth = bandwidth.unwrap_or(112e9);
        Self {
            multiply_adds: bandwidth * 15.0,
            bandwidth: bandwidth * 0.7,
            overhead: 30e-6,
            beta: BETA,
        }
    }
}

/// The target from the cost model's point of view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TargetSize {
    /// Weights that every row is multiplied with (layers and LM head, not the embedding).
    pub weights: u64,
    /// Bytes of these weights in memory, which each pass reads once.
    pub bytes: u64,
    /// How many layers, for the overhead of each product.
    pub layers: usize,
}

/// The draft head from the cost model's point of view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DraftSize {
    /// Weights of fusion and LM head, used on every level for any M.
    pub fixed: u64,
    /// Weights that are held but only looked up: the embedding.
    pub lookup: u64,
    /// Weights of one block.
    pub block: u64,
    /// Bytes per weight on the draft's device.
    pub bytes_per_weight: f64,
    /// How many blocks the head has.
    pub blocks: usize,
    /// Whether any first m of its blocks can be used.
    pub elastic: bool,
}

impl DraftSize {
    /// A draft without a model.
    pub const NOTHING: Self =
        Self { fixed: 0, lookup: 0, block: 0, bytes_per_weight: 0.0, blocks: 0, elastic: false };

    /// The fewest and the most blocks with which it can run.
    pub fn range(&self) -> (usize, usize) {
        (if self.elastic { 1 } else { self.blocks }, self.blocks)
    }

    /// Bytes of its weights with this many blocks.
    pub fn bytes(&self, blocks: usize) -> u64 {
        let weights = self.fixed + self.lookup + blocks as u64 * self.block;
        (weights as f64 * self.bytes_per_weight) as u64
    }
}

/// Everything the first choice depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostInputs {
    /// The processor that verifies.
    pub verifier: Throughput,
    /// The target.
    pub target: TargetSize,
    /// The draft head and the processor on which it runs; `None` if there is no draft.
    pub draft: Option<(DraftSize, Throughput)>,
}

#[cfg(test)]
impl CostInputs {
    /// A target of a million weights and a draft without a model, on one processor.
    pub(crate) fn for_tests() -> Self {
        let throughput =
            Throughput { multiply_adds: 1e10, bandwidth: 1e10, overhead: 1e-6, beta: BETA };
        let target = TargetSize { weights: 1_000_000, bytes: 2_000_000, layers: 4 };
        Self { verifier: throughput, target, draft: Some((DraftSize::NOTHING, throughput)) }
    }
}
