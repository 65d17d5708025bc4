//! Where target and drafts should run: every placement that fits, with its expected tokens per
//! second, computed from the times that both devices took for some of the target's own blocks
//! (method.md, Placement). These are pure functions. It must never measure, and must not depend on
//! the device.

use serde::{Deserialize, Serialize};

use super::DrafterId;
use super::cost::{LevelCost, Measured, pass_ms};
use super::cost_inputs::{CostInputs, DraftSize, TargetSize, Throughput};
use super::layers::LayerSize;
use super::overrides::{Prefer, TreeOverrides, WIDTH};
use super::placement_reasons::beside_target;
use super::search_space::{SearchSpace, rate};
use super::{Costs, prior};
use crate::files::Cached;
use crate::speculate::{Budget, Shape};

/// By what factor a placement must beat the best one on the CPU alone, because these are estimates.
pub(super) const WORTH: f64 = 1.05;
/// The largest γ for which drafting alongside the target is evaluated.
const MOST_BESIDE: usize = 16;

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
    /// [`DrafterId::Head`] or [`DrafterId::SmallModel`].
    pub kind: DrafterId,
    /// Which of several heads it is, starting at 0; `None` if there is at most one.
    pub head: Option<usize>,
    /// Its size for the cost model on the CPU.
    pub on_cpu: DraftSize,
    /// And on the GPU.
    pub on_gpu: DraftSize,
    /// How many bytes it takes on the GPU, including caches.
    pub bytes: u64,
    /// The fewest and the most blocks with which it can run.
    pub blocks: (usize, usize),
}

/// What is to be placed.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementInputs {
    /// The whole target, in main memory.
    pub target: TargetSize,
    /// How many of these weights belong to one block.
    pub block_weights: u64,
    /// Bytes of the target's parts on the GPU; `draft` and `small` are not used.
    pub layers: LayerSize,
    /// How many bytes may be used on the GPU.
    pub room: u64,
    /// The available drafts.
    pub drafts: Vec<DraftChoice>,
    /// The values of the tree that the user has fixed.
    pub overrides: TreeOverrides,
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
    /// How many blocks of the target are on the GPU.
    pub layers: usize,
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

    /// In words: `head on the GPU, 12 of 32 blocks too`.
    pub fn name(&self) -> String {
        let who = match (self.draft, self.head) {
            (DrafterId::Head, None) => "draft head",
            (DrafterId::Head, Some(head)) => &format!("draft head {}", head + 1),
            (DrafterId::SmallModel, _) => "small model",
            _ => "plain",
        };
        let place = if self.draft_on_gpu { "the GPU" } else { "the CPU" };
        let target = target_place(self.layers, self.of);
        let duo = if self.beside { "duo: " } else { "" };
        match self.draft {
            DrafterId::None => format!("plain, {target}"),
            _ => format!("{duo}{who} on {place}, {target}"),
        }
    }
}

impl PlacementInputs {
    /// Every placement that fits; the first has everything on the CPU and no draft.
    pub fn forecasts(&self, times: &DeviceTimes) -> Vec<PlacementForecast> {
        let mut rows = vec![self.plain(times, 0)];
        for draft in &self.drafts {
            rows.push(self.drafted(times, draft, false, 0));
        }
        let fits = |draft: &&DraftChoice| draft.bytes <= self.room;
        for draft in self.drafts.iter().filter(fits) {
            rows.push(self.drafted(times, draft, true, 0));
        }
        let (alone, all) = (self.fitting(0), self.layers.layers);
        if alone > 0 {
            rows.push(self.plain(times, alone));
            for draft in &self.drafts {
                rows.push(self.drafted(times, draft, false, alone));
            }
        }
        for draft in self.drafts.iter().filter(fits) {
            let beside = self.fitting(draft.bytes);
            if beside > 0 {
                rows.push(self.drafted(times, draft, true, beside));
            }
        }
        for draft in self.drafts.iter().filter(|draft| draft.kind == DrafterId::SmallModel) {
            if draft.bytes <= self.room {
                rows.push(self.beside(times, draft, true));
            }
            if alone == all {
                rows.push(self.beside(times, draft, false));
            }
        }
        rows
    }

    /// Every placement of the drafts that fits while the target stays where it is, with `layers` of
    /// its blocks on the GPU. The first has no draft.
    pub fn forecasts_beside(&self, times: &DeviceTimes, layers: usize) -> Vec<PlacementForecast> {
        let LayerSize { layers: all, layer, head, .. } = self.layers;
        let own = layers as u64 * layer + if layers == all { head } else { 0 };
        let left = self.room.saturating_sub(own);
        let mut rows = vec![self.plain(times, layers)];
        for draft in &self.drafts {
            let fits = draft.bytes <= left;
            rows.push(self.drafted(times, draft, false, layers));
            if fits {
                rows.push(self.drafted(times, draft, true, layers));
            }
            if draft.kind == DrafterId::SmallModel && layers == 0 && fits {
                rows.push(self.beside(times, draft, true));
            }
            if draft.kind == DrafterId::SmallModel && layers == all {
                rows.push(self.beside(times, draft, false));
            }
        }
        rows
    }

    /// The target alone with more and more of the blocks that fit on the GPU, by quarters.
    pub fn by_layers(&self, times: &DeviceTimes) -> Vec<PlacementForecast> {
        let most = self.fitting(0);
        let mut counts: Vec<usize> = (1..=4).map(|quarter| most * quarter / 4).collect();
        counts.dedup();
        counts.retain(|&layers| layers > 0);
        counts.into_iter().map(|layers| self.plain(times, layers)).collect()
    }

    /// How many blocks of the target fit next to this many bytes.
    pub(super) fn fitting(&self, beside: u64) -> usize {
        self.layers.fitting(self.room, beside)
    }

    /// T_V with this many blocks on the GPU, ms by γ.
    fn verify(&self, times: &DeviceTimes, layers: usize) -> Vec<(usize, f64)> {
        let all = self.layers.layers;
        let pairs = times.cpu.iter().zip(&times.gpu);
        let total = pairs.map(|(cpu, gpu)| {
            let on_gpu = layers as f64 * gpu.block_ms;
            let ms = if layers == all {
                gpu.rest_ms + on_gpu
            } else {
                let trip = if layers > 0 { times.trip_ms } else { 0.0 };
                cpu.rest_ms + (all - layers) as f64 * cpu.block_ms + on_gpu + trip
            };
            (cpu.gamma, ms)
        });
        total.collect()
    }

    /// A device that would give these times for a block.
    fn throughput(&self, times: &[BlockTime]) -> Throughput {
        let block_bytes = self.target.bytes as f64 * self.block_weights as f64
            / self.target.weights.max(1) as f64;
        let seconds = |at: &BlockTime| (at.block_ms / 1e3).max(f64::MIN_POSITIVE);
        let first = times.first().map_or(1.0, seconds);
        let products = |at: &BlockTime| at.gamma as f64 * self.block_weights as f64 / seconds(at);
        Throughput {
            multiply_adds: times.iter().map(products).fold(1.0, f64::max),
            bandwidth: (block_bytes / first).max(1.0),
            overhead: 0.0,
        }
    }

    /// T_D of a draft on a device, by M and k.
    fn level(&self, times: &DeviceTimes, draft: &DraftChoice, on_gpu: bool) -> LevelCost {
        let (size, times_there, trip) = if on_gpu {
            (draft.on_gpu, &times.gpu, times.trip_ms)
        } else {
            (draft.on_cpu, &times.cpu, 0.0)
        };
        let throughput = self.throughput(times_there);
        let (widths, blocks) = ([WIDTH.least, WIDTH.most], [draft.blocks.0, draft.blocks.1]);
        let ms = blocks.map(|m| {
            let weights = (size.fixed + m as u64 * size.block) as f64;
            let bytes = weights * size.bytes_per_weight;
            widths.map(|rows| trip + pass_ms(&throughput, rows, weights, bytes, 0))
        });
        LevelCost { blocks, widths, ms }
    }

    fn costs(
        &self,
        times: &DeviceTimes,
        draft: Option<(&DraftChoice, bool)>,
        layers: usize,
    ) -> Costs {
        let throughput = self.throughput(&times.cpu);
        let size = draft.map(|(draft, _)| (draft.on_cpu, throughput));
        let inputs = CostInputs { verifier: throughput, target: self.target, draft: size };
        let level = draft.map(|(draft, on_gpu)| self.level(times, draft, on_gpu));
        let measured = Measured { verify: self.verify(times, layers), level };
        Costs::guess(&inputs).measured(&measured)
    }

    fn plain(&self, times: &DeviceTimes, layers: usize) -> PlacementForecast {
        let costs = self.costs(times, None, layers);
        let verify_ms = costs.verify_ms(1);
        PlacementForecast {
            draft: DrafterId::None,
            head: None,
            draft_on_gpu: false,
            layers,
            of: self.layers.layers,
            beside: false,
            budget: Budget::new(Shape { gamma: 1, width: 1, depth: 0 }, 0),
            verify_ms,
            draft_ms: 0.0,
            omega: 1.0,
            rate: 1e3 / verify_ms,
        }
    }

    fn drafted(
        &self,
        times: &DeviceTimes,
        draft: &DraftChoice,
        draft_on_gpu: bool,
        layers: usize,
    ) -> PlacementForecast {
        let costs = self.costs(times, Some((draft, draft_on_gpu)), layers);
        let space = SearchSpace {
            overrides: self.overrides,
            blocks: Some(draft.blocks),
            prefer: Prefer::Speed,
            always: true,
        };
        let (budget, _) = space.best(&costs, prior::omega);
        let omega = prior::omega(&budget);
        PlacementForecast {
            draft: draft.kind,
            head: draft.head,
            draft_on_gpu,
            layers,
            of: self.layers.layers,
            beside: false,
            budget,
            verify_ms: costs.verify_ms(budget.shape.gamma),
            draft_ms: costs.draft_ms(&budget.shape, budget.blocks),
            omega,
            rate: rate(&costs, &budget, omega),
        }
    }

    /// DuoDecoding: the draft on one device, the whole target on the other.
    fn beside(
        &self,
        times: &DeviceTimes,
        draft: &DraftChoice,
        draft_on_gpu: bool,
    ) -> PlacementForecast {
        let layers = if draft_on_gpu { 0 } else { self.layers.layers };
        let costs = self.costs(times, Some((draft, draft_on_gpu)), layers);
        let step_ms = self.level(times, draft, draft_on_gpu).at(draft.blocks.1, 1);
        let right = prior::chain_acceptance(draft.blocks.1);
        let weighed = (1..=MOST_BESIDE).map(|gamma| {
            let verify_ms = costs.verify_ms(gamma + 1);
            let (omega, round_ms) = beside_target(gamma, right, verify_ms, step_ms);
            let shape = Shape { gamma, width: 1, depth: gamma };
            PlacementForecast {
                draft: draft.kind,
                head: draft.head,
                draft_on_gpu,
                layers,
                of: self.layers.layers,
                beside: true,
                budget: Budget::new(shape, draft.blocks.1),
                verify_ms,
                draft_ms: gamma as f64 * step_ms,
                omega,
                rate: omega * 1e3 / round_ms.max(f64::MIN_POSITIVE),
            }
        });
        // There is always a first element.
        let first = self.plain(times, layers);
        weighed.fold(
            first,
            |best, other| {
                if !best.beside || other.rate > best.rate { other } else { best }
            },
        )
    }
}

/// Where a target with `layers` of its `of` blocks on the GPU is, in words.
pub fn target_place(layers: usize, of: usize) -> String {
    match layers {
        0 => "target on the CPU".to_owned(),
        all if all == of => "target on the GPU".to_owned(),
        some => format!("{some} of {of} target blocks on the GPU"),
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
    placement.layers != here.layers && placement.rate > here.rate * WORTH
}

#[cfg(test)]
#[path = "placements_tests.rs"]
mod tests;
