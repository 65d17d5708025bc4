//! What was loaded and chosen, as data. It must not depend on how models are loaded.

use super::reason::{LoadReason, Missing, Notice};
use super::sampling::SampledBy;
use crate::chat::ModelChoice;
use crate::draft::{Budget, Depths};
use crate::model::ModelEngine;
use crate::plan::{Reason, Strategy};
use crate::speculate::SamplerSettings;

/// A target and its drafters as they were loaded, whichever of them has just been loaded.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The target's name for the title, e.g. `dovetail-demo 6M`.
    pub target: String,
    /// Size and format, e.g. `6.1 M parameters, bf16, 12 MB`.
    pub target_detail: String,
    /// Who computes the target.
    pub engine: ModelEngine,
    /// The requested models; of several heads, the one in use.
    pub models: ModelChoice,
    /// The capacity of the KV cache in tokens.
    pub context: usize,
    /// The context for which the model was made, in tokens.
    pub most_context: usize,
    /// The initial strategy.
    pub strategy: &'static Strategy,
    /// All strategies, in the order of the table.
    pub strategies: Vec<StrategySetup>,
    /// The initial budget.
    pub budget: Budget,
    /// Whether trees are drafted for display, even if they cost more than they save.
    pub for_show: bool,
    /// T_V by γ, ms, as measured during loading; empty if that failed.
    pub verify_times: Vec<(usize, f64)>,
    /// How many bytes are used on the GPU.
    pub device_bytes: u64,
    /// The GPU that reads long prompts for a target on the CPU.
    pub prompts_on: Option<String>,
    /// How tokens are sampled.
    pub sampler: SamplerSettings,
    /// The same with the origin of each value.
    pub sampling: Vec<SampledBy>,
    /// Whether the target's template can switch its thoughts on or off.
    pub switches_thinking: bool,
    /// Why things run as they do.
    pub reasons: Vec<LoadReason>,
    /// What the user should know.
    pub notices: Vec<Notice>,
}

/// Whether a strategy can run here, and with which drafter.
#[derive(Clone, Debug, PartialEq)]
pub struct StrategySetup {
    /// The row of the table.
    pub strategy: &'static Strategy,
    /// Its drafter's own description; `None` if it has none.
    pub draft: Option<String>,
    /// Which M can be chosen with it.
    pub depths: Depths,
    /// Why M ends below the number of blocks that its head has: the plan's reason.
    pub limit: Option<Reason>,
    /// Trained weights of its drafter with 1, 2, … blocks, without what it shares with the target;
    /// a single number if there are no blocks, none if there is no model.
    pub parameters: Vec<u64>,
    /// What is missing for it to run here.
    pub missing: Option<Missing>,
}

impl Setup {
    /// The initial strategy as it can run here.
    pub fn initial(&self) -> Option<&StrategySetup> {
        self.strategies.iter().find(|row| row.strategy.name == self.strategy.name)
    }
}
