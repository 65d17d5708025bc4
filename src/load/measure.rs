//! The short measurement during loading: T_V(γ) and T_D by M and width, on the models themselves.
//! It must never choose a budget.
//!
//! It is bounded: a measurement that would not fit in the remaining time is not begun, and the plan
//! keeps its estimate for it.

use std::time::{Duration, Instant};

use super::drafter::LoadedDrafter;
use super::shared_target::SharedTarget;
use crate::draft::{Budget, DraftRequest, Drafter};
use crate::kernels::Roofline;
use crate::model::{ModelEngine, Target, TargetError, TargetPlace};
use crate::plan::{
    DraftSize, DrafterId, LevelCost, Measured, PassFit, TargetSize, Throughput, WIDTH,
};
use crate::speculate::{Shape, Tree};

/// The time for the target, and for each draft.
const LIMIT: Duration = Duration::from_millis(600);
/// Committed positions before the measured pass: enough that attention contributes.
const PREFIX: usize = 16;
/// Values of γ in the order of their importance to the plan.
const GAMMAS: [usize; 8] = [1, 16, 2, 8, 4, 3, 32, 64];
/// The depth of the trees that are drafted for the measurement.
const DEPTH: usize = 3;

/// Measures `target` and `drafters`, with the fewest and the most blocks that each can run. Leaves
/// no trace in any of them. `None` if the target computes no numbers.
pub(super) fn measure(
    target: &mut dyn Target,
    drafters: Vec<&mut LoadedDrafter>,
    engine: ModelEngine,
) -> Option<(Measured, Vec<(DrafterId, LevelCost)>)> {
    let mut found = Measured::default();
    let mut levels = Vec::new();
    let prefix = PREFIX.min(target.capacity() / 2).max(1);
    let token = 1.min(target.vocab().saturating_sub(1)) as u32;
    let prompt = vec![token; prefix];
    target.truncate(0);
    let features = drafters.iter().find_map(|drafter| drafter.drafter.features());
    target.set_features(features.unwrap_or_default());
    match target.prefill(&prompt) {
        Ok(read) if read.logits.iter().all(|logit| logit.is_nan()) => return None,
        Ok(read) => {
            // The nodes of a tree take candle's models a pass each.
            let gammas = if engine.is_own() { &GAMMAS[..] } else { &GAMMAS[..1] };
            found.verify = verify_times(target, token, gammas, LIMIT);
            for LoadedDrafter { kind, drafter, size, .. } in drafters {
                let level = level_times(drafter.as_mut(), &read.features, &prompt, size);
                levels.extend(level.map(|level| (*kind, level)));
                drafter.truncate(0);
            }
        }
        Err(error) => tracing::warn!("cannot measure the times: {error}"),
    }
    target.truncate(0);
    tracing::info!(?found, ?levels, "measured");
    Some((found, levels))
}

/// T_V for `gammas` after what is committed, ms, as far as `limit` allows.
pub(super) fn verify_times(
    target: &mut dyn Target,
    token: u32,
    gammas: &[usize],
    limit: Duration,
) -> Vec<(usize, f64)> {
    let began = Instant::now();
    let mut found: Vec<(usize, f64)> = Vec::new();
    for &gamma in gammas {
        let room = target.capacity().saturating_sub(target.len());
        // At worst every node costs as much as a separate pass.
        let single = found.first().map_or(0.0, |&(_, ms)| ms);
        let left = limit.saturating_sub(began.elapsed()).as_secs_f64() * 1e3;
        if gamma > room || (gamma > 1 && single * gamma as f64 / 2.0 > left) {
            continue;
        }
        let tree = bushy(token, gamma);
        match best_of(3, began + limit, || target.verify(&tree).map(|_| ())) {
            Ok(ms) => found.push((gamma, ms)),
            Err(error) => {
                let error: TargetError = error;
                tracing::warn!("cannot measure T_V({gamma}): {error}");
            }
        }
    }
    found
}

/// How near passes of a target come to the limits of the CPU that runs them.
#[derive(Clone, Copy, Debug)]
pub struct FittedCosts {
    /// T_c, T_p and β.
    pub fit: PassFit,
    /// By what fraction it deviates from a measured pass at most.
    pub deviation: f64,
    /// What the passes reach.
    pub reached: Throughput,
    /// What the threads can do, measured without a model; its overhead and β are 0.
    pub limits: Throughput,
}

impl SharedTarget {
    /// Fits the cost model to the passes that were measured during loading, and measures the
    /// machine's limits. `None` if another engine or a GPU runs a part of the target, or there is
    /// nothing to fit.
    pub fn fit_costs(&self) -> Option<FittedCosts> {
        let is_on_cpu = matches!(self.place, TargetPlace::Cpu | TargetPlace::Prompts);
        if !is_on_cpu || self.tables.is_none() {
            return None;
        }
        let passes = &self.measured.verify;
        let fit = PassFit::of(passes)?;
        let TargetSize { weights, bytes, .. } = self.size;
        let roofline = Roofline::measure(&self.pool).ok()?;
        let limits = Throughput {
            // A multiplication and an addition.
            multiply_adds: roofline.int8_gop_s * 1e9 / 2.0,
            bandwidth: roofline.read_gb_s * 1e9,
            overhead: 0.0,
            beta: 0.0,
        };
        let reached = fit.throughput(weights, bytes as f64);
        Some(FittedCosts { fit, deviation: fit.largest_deviation(passes), reached, limits })
    }
}

/// A tree of `gamma` nodes in which every node has two children.
fn bushy(token: u32, gamma: usize) -> Tree {
    let mut tree = Tree::root(token);
    for node in 1..gamma {
        tree.push((node - 1) / 2, token, -1.0);
    }
    tree
}

fn level_times(
    drafter: &mut dyn Drafter,
    features: &[f32],
    prompt: &[u32],
    size: &DraftSize,
) -> Option<LevelCost> {
    let (fewest, most) = size.range();
    let mut level = LevelCost {
        blocks: [fewest, most],
        widths: [WIDTH.least, WIDTH.most],
        ms: [[0.0; 2]; 2],
        whole: size.pass_rows > 0,
    };
    let began = Instant::now();
    // The features may belong to any text: the pairs only have to exist.
    drafter.observe(features, prompt).ok()?;
    let mut text = [&prompt[..1], prompt].concat();
    let last = &features[features.len() / prompt.len() * (prompt.len() - 1)..];
    for (i, blocks) in [fewest, most].into_iter().enumerate() {
        for (j, width) in level.widths.into_iter().enumerate() {
            if i == 1 && fewest == most {
                level.ms[1][j] = level.ms[0][j];
                continue;
            }
            let shape = Shape { gamma: 64, width, depth: DEPTH };
            let budget = Budget::new(shape, blocks);
            // Another root each time, because a drafter may remember what it has drafted for a
            // text.
            let mut root = 0;
            let mut round = || {
                root = u32::from(root == 0);
                drafter.truncate(prompt.len() - 1);
                drafter.observe(last, &[root])?;
                text[prompt.len()] = root;
                drafter.propose(&text, &DraftRequest::new(root, budget)).map(|_| ())
            };
            // The first pass with an M fills its cache; the best of the others counts.
            round().ok()?;
            let ms = best_of(3, began + LIMIT, round).ok()?;
            level.ms[i][j] = ms / level.passes(DEPTH) as f64;
        }
    }
    Some(level)
}

/// The shortest of up to `times` runs in ms; only one run may begin after `until`.
fn best_of<E>(
    times: usize,
    until: Instant,
    mut run: impl FnMut() -> Result<(), E>,
) -> Result<f64, E> {
    let mut best = f64::INFINITY;
    for i in 0..times {
        if i > 0 && Instant::now() >= until {
            break;
        }
        let start = Instant::now();
        run()?;
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(best)
}
