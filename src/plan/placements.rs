//! Where target and drafts should run: one list of candidates that fit, and one cost, which is how
//! many tokens per second are expected of a candidate (method.md, Placement). The times are
//! those that both devices took for some of the target's own blocks, or assumed ones. It must never
//! measure, and must not depend on the device.

use serde::{Deserialize, Serialize};

use super::DrafterId;
use super::cost::{LevelCost, Measured};
use super::cost_inputs::{CostInputs, DraftSize, TargetSize, Throughput};
use super::overrides::TreeOverrides;
use super::pass_fit::PassFit;
use super::place::LayerSize;
use super::placement_reasons::offload_ms;
use super::search_space::SearchSpace;
use super::{Costs, prior};
use crate::files::Cached;
use crate::speculate::{Budget, Shape, duo};

/// By what factor a placement must beat the best one on the CPU alone, because these are estimates.
pub(super) const WORTH: f64 = 1.05;
/// The largest γ for which drafting alongside the target is evaluated: c of the paper's machine.
const MOST_BESIDE: usize = 24;

/// The time of a pass over γ rows on a device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockTime {
    /// Rows.
    pub gamma: usize,
    /// One block of the target, ms.
    pub block_ms: f64,
    /// Everything outside of blocks, ms: final norm, LM head and, on a GPU, the transfer in both
    /// directions.
    pub rest_ms: f64,
}

/// What was measured on both devices with some of the target's blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceTimes {
    /// On the CPU, in ascending order of γ.
    pub cpu: Vec<BlockTime>,
    /// On the GPU, for the same γ.
    pub gpu: Vec<BlockTime>,
    /// Bytes per second from main memory to the GPU.
    pub transfer: f64,
    /// A submission to the GPU and an answer back, ms.
    pub trip_ms: f64,
}

impl Cached for DeviceTimes {
    const VERSION: u32 = 1;

    fn is_sound(&self) -> bool {
        let time = |ms: f64| ms.is_finite() && ms >= 0.0;
        let rising = |times: &[BlockTime]| {
            times.first().is_some_and(|first| first.gamma == 1)
                && times.windows(2).all(|pair| pair[0].gamma < pair[1].gamma)
                && times.iter().all(|at| time(at.rest_ms) && time(at.block_ms) && at.block_ms > 0.0)
        };
        let gammas = |times: &[BlockTime]| times.iter().map(|at| at.gamma).collect::<Vec<_>>();
        rising(&self.cpu)
            && rising(&self.gpu)
            && gammas(&self.cpu) == gammas(&self.gpu)
            && time(self.trip_ms)
            && self.transfer.is_finite()
            && self.transfer > 0.0
    }
}

/// A draft that could be used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DraftChoice {
    /// A model: [`DrafterId::Head`], [`DrafterId::Dflash`] or [`DrafterId::SmallModel`].
    pub kind: DrafterId,
    /// Which of several heads it is, starting at 0; `None` if there is at most one.
    pub head: Option<usize>,
    /// Its size for the cost model on the CPU.
    pub on_cpu: DraftSize,
    /// And on the GPU.
    pub on_gpu: DraftSize,
    /// How many bytes it takes on the GPU, including caches.
    pub bytes: u64,
}

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

/// What is to be placed.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementInputs {
    /// The whole target, in main memory.
    pub target: TargetSize,
    /// How many of these weights belong to one block.
    pub block_weights: u64,
    /// Bytes of the target's parts on the GPU.
    pub layers: LayerSize,
    /// Whether main memory can hold the blocks as they are sent to the GPU.
    pub streams: bool,
    /// How many bytes may be used on the GPU.
    pub room: u64,
    /// The available drafts.
    pub drafts: Vec<DraftChoice>,
    /// The values of the tree that the user has fixed.
    pub overrides: TreeOverrides,
}

/// How many of the target's blocks are computed on the GPU. If these are all, the LM head is there
/// too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlocksOnGpu {
    /// Those that are held there.
    pub held: usize,
    /// Those that every pass sends there from main memory.
    pub streamed: usize,
}

impl BlocksOnGpu {
    /// All of them.
    fn count(self) -> usize {
        self.held + self.streamed
    }
}

/// A placement of target and draft that could be chosen.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Who drafts; `None` if nothing is drafted.
    pub draft: Option<&'a DraftChoice>,
    /// Whether the draft is on the GPU.
    pub draft_on_gpu: bool,
    /// The target's blocks on the GPU.
    pub target: BlocksOnGpu,
    /// Whether draft and target work at the same time (DuoDecoding).
    pub beside: bool,
}

impl<'a> Candidate<'a> {
    /// `draft` on one device, the target on the CPU.
    pub fn drafted_by(draft: &'a DraftChoice, draft_on_gpu: bool) -> Self {
        let target = BlocksOnGpu::default();
        Self { draft: Some(draft), draft_on_gpu, target, beside: false }
    }

    /// The target alone, with this many of its blocks held on the GPU.
    fn plain(held: usize) -> Self {
        let target = BlocksOnGpu { held, streamed: 0 };
        Self { draft: None, draft_on_gpu: false, target, beside: false }
    }
}

/// One placement of target and draft, and what to expect of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PlacementForecast {
    /// Who drafts; [`DrafterId::None`] if nothing is drafted.
    pub draft: DrafterId,
    /// Which of several heads drafts, starting at 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<usize>,
    /// Whether the draft is on the GPU.
    pub draft_on_gpu: bool,
    /// How many blocks of the target are computed on the GPU.
    pub layers: usize,
    /// Whether every pass sends these there from main memory.
    pub streamed: bool,
    /// How many blocks the target has.
    pub of: usize,
    /// Whether draft and target work at the same time (DuoDecoding).
    pub beside: bool,
    /// γ, k, D and M with which it was evaluated.
    pub budget: Budget,
    /// T_V of this γ, ms.
    pub verify_ms: f64,
    /// T_D, ms; for a draft that works at the same time as the target, its time during a pass.
    pub draft_ms: f64,
    /// Tokens per round.
    pub omega: f64,
    /// Tokens per second.
    pub rate: f64,
}

impl PlacementForecast {
    /// Whether no part of it is on the GPU.
    pub fn is_on_cpu(&self) -> bool {
        self.layers == 0 && !self.draft_on_gpu
    }

    /// The expected time per token, ms: (T_D + T_V) / Ω, where T_D includes all of a round's
    /// drafting.
    pub fn token_ms(&self) -> f64 {
        if self.beside { 1e3 / self.rate } else { (self.draft_ms + self.verify_ms) / self.omega }
    }
}

impl PlacementInputs {
    /// Every placement that fits, the target alone first. The target may be on the CPU or, as far
    /// as it fits, on the GPU; if not all of it fits, it may be streamed there. It stays where it
    /// is if it has `fixed` blocks on the GPU.
    pub fn forecasts(
        &self,
        times: &DeviceTimes,
        fixed: Option<BlocksOnGpu>,
    ) -> Vec<PlacementForecast> {
        self.costs_of(self.candidates(fixed), times)
    }

    /// The target alone with more and more of the blocks that fit on the GPU, by quarters.
    pub fn by_layers(&self, times: &DeviceTimes) -> Vec<PlacementForecast> {
        let most = self.fitting(0);
        let mut counts: Vec<usize> = (1..=4).map(|quarter| most * quarter / 4).collect();
        counts.dedup();
        counts.retain(|&layers| layers > 0);
        self.costs_of(counts.into_iter().map(Candidate::plain).collect(), times)
    }

    /// The forecast for prompts in slices of `slice` rows; `least` is the smallest number of rows
    /// that goes to the GPU. Weights, keys and values are sent over the bus while the previous
    /// block is computed.
    pub fn prefill(
        &self,
        times: &DeviceTimes,
        least: usize,
        slice: usize,
    ) -> Option<PrefillForecast> {
        let cpu = times.cpu.last()?;
        let gpu = times.gpu.last()?;
        // Beyond the largest measured γ, every row costs as much as the rows before.
        let block = |at: &BlockTime, rows: usize| at.block_ms * rows as f64 / at.gamma as f64;
        let pass = |streamed: usize, rows: usize| {
            let target = BlocksOnGpu { held: 0, streamed };
            self.blocks_ms(times, target, self.layers.layer, block(cpu, rows), block(gpu, rows))
        };
        let of = self.layers.layers;
        let rate = |ms: f64| slice as f64 * 1e3 / ms.max(f64::MIN_POSITIVE);
        Some(PrefillForecast {
            cpu: rate(pass(0, slice)),
            gpu: rate(pass(of, slice)),
            slice,
            pays: pass(of, least) * WORTH < pass(0, least),
        })
    }

    fn costs_of(&self, all: Vec<Candidate<'_>>, times: &DeviceTimes) -> Vec<PlacementForecast> {
        all.into_iter().map(|candidate| self.cost(times, candidate)).collect()
    }

    fn candidates(&self, fixed: Option<BlocksOnGpu>) -> Vec<Candidate<'_>> {
        let of = self.layers.layers;
        let on_cpu = self.drafts.iter().map(|draft| Candidate::drafted_by(draft, false));
        let on_gpu = self.drafts.iter().map(|draft| Candidate::drafted_by(draft, true));
        let mut found = Vec::new();
        for drafting in std::iter::once(Candidate::plain(0)).chain(on_cpu).chain(on_gpu) {
            let bytes = match drafting.draft {
                Some(draft) if drafting.draft_on_gpu => draft.bytes,
                _ => 0,
            };
            let fitting = self.fitting(bytes);
            let held = |held| BlocksOnGpu { held, streamed: 0 };
            let mut targets = fixed.map_or_else(|| vec![held(0), held(fitting)], |own| vec![own]);
            let has_stages = bytes.saturating_add(self.layers.streamed()) <= self.room;
            if fixed.is_none() && fitting < of && self.streams && has_stages {
                targets.push(BlocksOnGpu { held: 0, streamed: of });
            }
            targets.dedup();
            targets.retain(|&target| bytes <= self.room.saturating_sub(self.device_bytes(target)));
            found.extend(targets.into_iter().map(|target| Candidate { target, ..drafting }));
        }
        // A small model on one device can draft while the whole target works on the other.
        let apart = |it: &&Candidate<'_>| {
            let is_small = it.draft.is_some_and(|draft| draft.kind == DrafterId::SmallModel);
            is_small && it.target.count() == if it.draft_on_gpu { 0 } else { of }
        };
        let beside: Vec<_> =
            found.iter().filter(apart).map(|&one| Candidate { beside: true, ..one }).collect();
        found.extend(beside);
        found
    }

    /// How many blocks of the target fit next to this many bytes.
    pub(super) fn fitting(&self, beside: u64) -> usize {
        self.layers.fitting(self.room, beside)
    }

    /// How many bytes of the GPU these blocks of the target take.
    fn device_bytes(&self, target: BlocksOnGpu) -> u64 {
        match target {
            BlocksOnGpu { streamed: 0, held } => self.layers.held(held),
            BlocksOnGpu { .. } => self.layers.streamed(),
        }
    }

    /// The time of the target's blocks in a pass in which one takes `cpu_ms` or `gpu_ms`. A block
    /// of which `sent` bytes are sent to the GPU travels while the previous one is computed.
    pub(super) fn blocks_ms(
        &self,
        times: &DeviceTimes,
        target: BlocksOnGpu,
        sent: u64,
        cpu_ms: f64,
        gpu_ms: f64,
    ) -> f64 {
        let BlocksOnGpu { held, streamed } = target;
        let sent_ms = gpu_ms.max(offload_ms(sent, times.transfer)) + times.trip_ms;
        (self.layers.layers - held - streamed) as f64 * cpu_ms
            + held as f64 * gpu_ms
            + streamed as f64 * sent_ms
    }

    /// T_V with these blocks on the GPU, ms by γ.
    fn verify(&self, times: &DeviceTimes, target: BlocksOnGpu) -> Vec<(usize, f64)> {
        let is_whole = target.count() == self.layers.layers;
        let trip = if target.held > 0 { times.trip_ms } else { 0.0 };
        let pairs = times.cpu.iter().zip(&times.gpu);
        // Keys and values stay there.
        let sent = self.layers.layer - self.layers.cache;
        let total = pairs.map(|(cpu, gpu)| {
            let rest = if is_whole { gpu.rest_ms } else { cpu.rest_ms + trip };
            (cpu.gamma, rest + self.blocks_ms(times, target, sent, cpu.block_ms, gpu.block_ms))
        });
        total.collect()
    }

    /// A device that would give these times for a block.
    fn throughput(&self, times: &[BlockTime]) -> Throughput {
        let block_bytes = self.target.bytes as f64 * self.block_weights as f64
            / self.target.weights.max(1) as f64;
        let passes: Vec<_> = times.iter().map(|at| (at.gamma, at.block_ms)).collect();
        // There is a time for γ = 1 (`DeviceTimes::is_sound`); a second per block says the least.
        let second = PassFit { row_ms: 1e3, read_ms: 1e3, beta: 0.0 };
        PassFit::of(&passes).unwrap_or(second).throughput(self.block_weights, block_bytes)
    }

    /// T_V and T_D of a candidate.
    fn times_of(&self, times: &DeviceTimes, candidate: Candidate<'_>) -> Costs {
        let verifier = self.throughput(&times.cpu);
        let level = candidate.draft.map(|draft| match candidate.draft_on_gpu {
            true => LevelCost::guess(&draft.on_gpu, &self.throughput(&times.gpu), times.trip_ms),
            false => LevelCost::guess(&draft.on_cpu, &verifier, 0.0),
        });
        let draft = candidate.draft.map(|draft| (draft.on_cpu, verifier));
        let verify = self.verify(times, candidate.target);
        let inputs = CostInputs { verifier, target: self.target, draft };
        Costs::guess(&inputs).measured(&Measured { verify, level })
    }

    /// What to expect of a candidate, with the budget that is best for it.
    fn cost(&self, times: &DeviceTimes, candidate: Candidate<'_>) -> PlacementForecast {
        let costs = self.times_of(times, candidate);
        // T_V, T_D and the time of a round in which they give Ω tokens.
        let forecast =
            |budget: Budget, verify_ms: f64, draft_ms: f64, omega: f64, round_ms: f64| {
                PlacementForecast {
                    draft: candidate.draft.map_or(DrafterId::None, |draft| draft.kind),
                    head: candidate.draft.and_then(|draft| draft.head),
                    draft_on_gpu: candidate.draft_on_gpu,
                    layers: candidate.target.count(),
                    streamed: candidate.target.streamed > 0,
                    of: self.layers.layers,
                    beside: candidate.beside,
                    budget,
                    verify_ms,
                    draft_ms,
                    omega,
                    rate: omega * 1e3 / round_ms.max(f64::MIN_POSITIVE),
                }
            };
        let Some(draft) = candidate.draft else {
            let budget = Budget::new(Shape { gamma: 1, width: 1, depth: 0 }, 0);
            let verify_ms = costs.verify_ms(1);
            return forecast(budget, verify_ms, 0.0, 1.0, verify_ms);
        };
        if !candidate.beside {
            let space = SearchSpace::new(self.overrides, Some(draft.on_gpu));
            let space = SearchSpace { always: true, ..space };
            let (budget, _) = space.best(&costs, prior::omega);
            let Budget { shape, blocks, .. } = budget;
            let draft_ms = costs.draft_ms(&shape, blocks);
            let round_ms = costs.round_ms(&shape, blocks);
            let verify_ms = costs.verify_ms(shape.gamma);
            return forecast(budget, verify_ms, draft_ms, prior::omega(&budget), round_ms);
        }
        // Tokens are drafted during the pass (DuoDecoding): the best of every γ.
        let blocks = draft.on_gpu.blocks;
        let token_ms = costs.draft_ms(&Shape { gamma: 2, width: 1, depth: 0 }, blocks);
        let right = prior::chain_acceptance(blocks);
        let of = |gamma: usize| {
            let verify_ms = costs.verify_ms(gamma + 1);
            let draft_ms = gamma as f64 * token_ms;
            let (_, omega) = duo::expected(gamma + 1, right);
            let budget = Budget::new(Shape { gamma, width: 1, depth: gamma }, blocks);
            forecast(budget, verify_ms, draft_ms, omega, verify_ms.max(draft_ms))
        };
        let better = |best: PlacementForecast, other: PlacementForecast| {
            if other.rate > best.rate { other } else { best }
        };
        (2..=MOST_BESIDE).map(of).fold(of(1), better)
    }
}

/// The placement to use: the fastest, if it is sufficiently better than the fastest on the CPU
/// alone.
pub fn best_placement(rows: &[PlacementForecast]) -> Option<&PlacementForecast> {
    let by_rate = |a: &&PlacementForecast, b: &&PlacementForecast| a.rate.total_cmp(&b.rate);
    let on_cpu = rows.iter().filter(|row| row.is_on_cpu()).max_by(by_rate);
    let any = rows.iter().max_by(by_rate);
    match (on_cpu, any) {
        (Some(on_cpu), Some(any)) if any.rate <= on_cpu.rate * WORTH => Some(on_cpu),
        (on_cpu, any) => any.or(on_cpu),
    }
}

/// Whether a placement is worth loading the target again, compared with those in `here`, where it
/// stays in place.
pub fn is_worth_moving_for(placement: &PlacementForecast, here: &PlacementForecast) -> bool {
    let moves = (placement.layers, placement.streamed) != (here.layers, here.streamed);
    moves && placement.rate > here.rate * WORTH
}

#[cfg(test)]
#[path = "placements_tests.rs"]
mod tests;
