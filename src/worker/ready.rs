//! What was loaded and chosen, with its reasons as sentences, for the screen and for records. It
//! must not depend on how models are loaded.

use serde::{Deserialize, Serialize};

use crate::chat::ModelChoice;
use crate::draft::Depths;
use crate::load::{Setup, StrategySetup};
use crate::messages;
use crate::model::ModelEngine;
use crate::speculate::SamplerSettings;

/// Whether a strategy can run here, and with which drafter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StrategyStatus {
    /// Its name in the table.
    pub name: String,
    /// Its drafter's own description; `None` if it has none.
    pub draft: Option<String>,
    /// Which M can be chosen with it.
    pub depths: Depths,
    /// Why M ends below the number of blocks that its head has, as a clause; `None` if it does not.
    #[serde(default)]
    pub limit: Option<String>,
    /// Trained weights of its drafter with 1, 2, … blocks, without what it shares with the target;
    /// a single number if there are no blocks, none if there is no model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<u64>,
    /// What is missing for it to run here, and what to do.
    pub missing: Option<String>,
}

/// What was loaded and chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// The target's name for the title, e.g. `dovetail-demo 6M`.
    pub target: String,
    /// Size and format, e.g. `6.1 M parameters, bf16, 12 MB`.
    pub target_detail: String,
    /// Who computes the target.
    #[serde(default, skip_serializing_if = "ModelEngine::is_own")]
    pub engine: ModelEngine,
    /// The drafter's own description; `None` if there is no draft model.
    pub draft: Option<String>,
    /// Which M can be chosen.
    pub depths: Depths,
    /// The capacity of the KV cache in tokens.
    pub context: usize,
    /// The context for which the model was made, in tokens, which `--context` cannot exceed. 0 if
    /// it is unknown.
    #[serde(default)]
    pub most_context: usize,
    /// The initial value of `Auto`.
    pub gamma: usize,
    /// The initial value of `Auto`.
    pub blocks: usize,
    /// The initial value of `Auto`.
    pub width: usize,
    /// The initial value of `Auto`.
    pub depth: usize,
    /// Why these were chosen, one sentence per line.
    pub reasons: Vec<String>,
    /// How many bytes of VRAM our draft uses; 0 without a GPU.
    pub vram_used: u64,
    /// Where the target runs, in words.
    #[serde(default)]
    pub target_place: String,
    /// The GPU that reads long prompts for a target on the CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts_on: Option<String>,
    /// The initial strategy.
    #[serde(default)]
    pub strategy: String,
    /// All strategies, in the order of the table.
    #[serde(default)]
    pub strategies: Vec<StrategyStatus>,
    /// How tokens are sampled until the user changes it: what the user set, otherwise what the
    /// model's files recommend. `None` leaves the controls unchanged.
    #[serde(default)]
    pub sampler: Option<SamplerSettings>,
    /// Whether the target's template can switch its thoughts on or off.
    #[serde(default)]
    pub switches_thinking: bool,
    /// Milliseconds of the target's pass over one token, as measured during loading; `None` if it
    /// was not measured.
    #[serde(default)]
    pub plain_ms: Option<f64>,
    /// (nodes, milliseconds) of the target's passes, as measured during loading.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verify_ms: Vec<(usize, f64)>,
    /// Whether trees are drafted for display, even if they cost more than they save.
    #[serde(default)]
    pub for_show: bool,
    /// The requested models.
    #[serde(default)]
    pub models: ModelChoice,
}

impl Ready {
    /// Why no strategy but plain decoding can run; `None` if one can.
    pub fn lacks_drafts(&self) -> Option<&str> {
        let can = self.strategies.iter().filter(|status| status.missing.is_none()).count();
        let missing = self.strategies.iter().find_map(|status| status.missing.as_deref());
        if can > 1 { None } else { missing }
    }
}

impl From<&Setup> for Ready {
    fn from(setup: &Setup) -> Self {
        let initial = setup.initial();
        let shape = setup.budget.shape;
        let verify = &setup.verify_times;
        Self {
            target: setup.target.clone(),
            target_detail: setup.target_detail.clone(),
            engine: setup.engine,
            draft: initial.and_then(|row| row.draft.clone()),
            depths: initial.map_or(Depths::Fixed(0), |row| row.depths),
            context: setup.context,
            most_context: setup.most_context,
            gamma: shape.gamma,
            blocks: setup.budget.blocks,
            width: shape.width,
            depth: shape.depth,
            reasons: messages::load_reasons(&setup.reasons),
            vram_used: setup.device_bytes,
            target_place: messages::target_runs(&setup.reasons),
            prompts_on: setup.prompts_on.clone(),
            strategy: setup.strategy.name.to_owned(),
            strategies: setup.strategies.iter().map(StrategyStatus::from).collect(),
            sampler: Some(setup.sampler),
            switches_thinking: setup.switches_thinking,
            plain_ms: verify.iter().find(|(rows, _)| *rows == 1).map(|(_, ms)| *ms),
            verify_ms: verify.clone(),
            for_show: setup.for_show,
            models: setup.models.clone(),
        }
    }
}

impl From<&StrategySetup> for StrategyStatus {
    fn from(row: &StrategySetup) -> Self {
        Self {
            name: row.strategy.name.to_owned(),
            draft: row.draft.clone(),
            depths: row.depths,
            limit: row.limit.as_ref().and_then(messages::cut),
            parameters: row.parameters.clone(),
            missing: row.missing.as_ref().map(messages::missing),
        }
    }
}
