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
    /// A CPU used with `threads` threads. Passes of a 4-bit model reach these rates at 3.7 GHz with
    /// AVX-512, AVX-VNNI and AVX2 (benchmarks.md), reduced for slower clocks; bandwidth grows with
    /// cores until the memory channels are saturated (two on a laptop, eight or more on a server,
    /// which has correspondingly more cores).
    pub fn of_cpu(cpu: &Cpu, threads: usize) -> Self {
        let has = |name: &str| cpu.features.contains(&name);
        let per_core = if has("AVX-512 VNNI") {
            110e9
        } else if has("AVX-VNNI") {
            90e9
        } else if has("AVX2") {
            70e9
        } else if has("dotprod") {
            40e9
        } else if has("NEON") || has("SSE4.1") {
            10e9
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
    /// Bytes in memory of all weights that a pass can read. It reads them once, except for the
    /// experts that none of its rows uses.
    pub bytes: u64,
    /// How many layers, for the overhead of each product.
    pub layers: usize,
    /// The part of them that a router chooses from; `None` without a mixture of experts.
    pub routed: Option<RoutedExperts>,
}

/// The experts of all layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoutedExperts {
    /// Their bytes in memory.
    pub bytes: u64,
    /// The fraction of them that one row uses.
    pub used: f64,
}

impl TargetSize {
    /// A target without a mixture of experts.
    pub const fn dense(weights: u64, bytes: u64, layers: usize) -> Self {
        Self { weights, bytes, layers, routed: None }
    }

    /// The same with the weights of all experts that a router chooses from and the fraction of them
    /// that a row uses, which `weights` includes. A weight takes as many bytes there as elsewhere.
    pub fn with_experts(self, routed: Option<(u64, f64)>) -> Self {
        let routed = routed.map(|(experts, used)| {
            let all = self.weights as f64 + experts as f64 * (1.0 - used);
            let bytes = self.bytes as f64 * experts as f64 / all.max(1.0);
            RoutedExperts { bytes: bytes as u64, used }
        });
        Self { routed, ..self }
    }

    /// The bytes that a pass over `rows` rows is expected to read, if each row's experts are drawn
    /// independently.
    pub fn bytes_read(&self, rows: usize) -> f64 {
        let unused = self.routed.map_or(0.0, |routed| {
            routed.bytes as f64 * (1.0 - routed.used).powi(rows.try_into().unwrap_or(i32::MAX))
        });
        self.bytes as f64 - unused
    }
}

/// The draft head from the cost model's point of view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DraftSize {
    /// Weights of fusion and LM head, used on every level for any M.
    pub fixed: u64,
    /// Weights that are held but not multiplied with: the embedding, and rows of the LM head.
    pub lookup: u64,
    /// Weights of one block.
    pub block: u64,
    /// Bytes per weight on the draft's device.
    pub bytes_per_weight: f64,
    /// How many blocks the head has.
    pub blocks: usize,
    /// Whether any first m of its blocks can be used.
    pub elastic: bool,
    /// How many rows the only pass of a tree has; 0 if each level takes a pass.
    pub pass_rows: usize,
    /// How many levels of a tree it can draft.
    pub levels: usize,
}

impl DraftSize {
    /// A draft without a model.
    pub const NOTHING: Self = Self {
        fixed: 0,
        lookup: 0,
        block: 0,
        bytes_per_weight: 0.0,
        blocks: 0,
        elastic: false,
        pass_rows: 0,
        levels: usize::MAX,
    };

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
        let target = TargetSize::dense(1_000_000, 2_000_000, 4);
        Self { verifier: throughput, target, draft: Some((DraftSize::NOTHING, throughput)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_nodes_touch_more_experts() {
        // 200 weights for all rows, and 800 in experts, of which a row uses a quarter.
        let size = TargetSize::dense(400, 1000, 4).with_experts(Some((800, 0.25)));
        assert_eq!([1, 2].map(|rows| size.bytes_read(rows)), [400.0, 550.0]);
        assert!(size.bytes_read(32) > 999.0);
        assert_eq!(TargetSize::dense(1000, 1000, 4).bytes_read(1), 1000.0);
    }
}
