//! Commands to the worker and events from it. Ordered events go through channels; values that
//! overwrite each other go through [`super::SharedControls`]. Must never know widgets.

use crate::chat::Message;
use crate::decode::{PendingRound, Round, Summary};
use crate::draft::Depths;
use crate::plan::{DraftKind, LevelCost};
use crate::speculate::SamplerSettings;
use serde::{Deserialize, Serialize};

/// One answer to make.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Job {
    /// Number of the answer, rising; events of an older one are dropped.
    pub generation: u64,
    /// The conversation up to and including the user's last message; if the beginning of an answer
    /// follows it, the answer goes on from there.
    pub messages: Vec<Message>,
    /// Most tokens of the answer.
    pub max_tokens: usize,
    /// Whether the model is to think before it answers; `None` leaves it to the template.
    pub thinking: Option<bool>,
    /// Whether nothing is left of what was decoded before, neither in caches nor with the drafters:
    /// an answer that is made again would else be drafted from the first one.
    pub afresh: bool,
    /// Name of the saved conversation that it belongs to: its KV cache is kept under it, and goes
    /// with it. `None` keeps none.
    pub conversation: Option<String>,
}

/// The models of a session, as flags name them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelChoice {
    /// The target; `None` is the bundled one.
    pub target: Option<String>,
    /// A draft head, or `lookup`; `None` is the bundled one where the target is, else `lookup`.
    pub draft: Option<String>,
    /// A small language model to draft with.
    pub draft_model: Option<String>,
}

impl ModelChoice {
    /// Whether the target is the bundled one, which has a name as well.
    pub fn is_bundled(&self) -> bool {
        self.target.as_deref().is_none_or(|target| target == "bundled")
    }
}

/// Other models to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadJob {
    /// Every load has a number of its own, rising.
    pub load: u64,
    /// What is to be loaded.
    pub models: ModelChoice,
}

/// To the worker. Dropping the sender ends it.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Make this answer; stopped by `Controls::generation` becoming another number.
    Generate(Job),
    /// Load these models while those in use go on, and take them into use between two answers;
    /// stopped by `Controls::load` becoming another number.
    Load(LoadJob),
    /// The saved conversation of this name was deleted: nothing is kept of it any more.
    Discard(String),
}

/// Whether a strategy can run here, and with which drafter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StrategyStatus {
    /// Its name in the table.
    pub name: String,
    /// Its drafter's own description; `None` where there is none.
    pub draft: Option<String>,
    /// Which M can be chosen under it.
    pub depths: Depths,
    /// Why M ends below the blocks that its head has, a clause; `None` where it does not.
    #[serde(default)]
    pub limit: Option<String>,
    /// Trained weights of its drafter with 1, 2, … blocks, what it shares with the target left out;
    /// a single number where there are no blocks, none where there is no model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<u64>,
    /// What it lacks to run here, with the remedy.
    pub missing: Option<String>,
}

/// What was loaded and chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// Name of the target for the title, e.g. `dovetail-demo 6M`.
    pub target: String,
    /// Size and format, e.g. `6.1 M parameters, bf16, 12 MB`.
    pub target_detail: String,
    /// The drafter's own description; `None` when there is no draft model.
    pub draft: Option<String>,
    /// Which M can be chosen.
    pub depths: Depths,
    /// KV capacity in tokens.
    pub context: usize,
    /// Tokens the model was made for: `--context` goes no further. 0 if that is not known.
    #[serde(default)]
    pub most_context: usize,
    /// What `Auto` starts with.
    pub gamma: usize,
    /// What `Auto` starts with.
    pub blocks: usize,
    /// What `Auto` starts with.
    pub width: usize,
    /// What `Auto` starts with.
    pub depth: usize,
    /// Why these were chosen, one sentence a line.
    pub reasons: Vec<String>,
    /// VRAM held by our draft, bytes; 0 without a GPU.
    pub vram_used: u64,
    /// The GPU that reads long prompts for a target on the CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts_on: Option<String>,
    /// The initial strategy.
    #[serde(default)]
    pub strategy: String,
    /// All strategies, in the order of the table.
    #[serde(default)]
    pub strategies: Vec<StrategyStatus>,
    /// How tokens are sampled until the user changes it: what the user set, else what the
    /// model's files recommend. `None` leaves the controls as they are.
    #[serde(default)]
    pub sampler: Option<SamplerSettings>,
    /// Whether the target's template can be told to switch its thoughts on or off.
    #[serde(default)]
    pub switches_thinking: bool,
    /// Milliseconds of the target's pass over one token, as measured while loading; `None` if it
    /// was not.
    #[serde(default)]
    pub plain_ms: Option<f64>,
    /// (nodes, milliseconds) of the target's passes, as measured while loading.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verify_ms: Vec<(usize, f64)>,
    /// What the passes of each kind of draft take, as measured while loading.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub draft_levels: Vec<(DraftKind, LevelCost)>,
    /// Whether trees are drafted to be looked at, be it that they cost more than they save.
    #[serde(default)]
    pub for_show: bool,
    /// What was asked for.
    #[serde(default)]
    pub models: ModelChoice,
}

/// From the worker, in order. Rounds are small and an answer is bounded, so the channel is
/// unbounded: the worker never waits for the screen.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Models are being loaded; `fraction` from 0 to 1 where it is known.
    Loading {
        /// What is being done, e.g. `reading model.gguf`.
        stage: String,
        /// Progress of the stage.
        fraction: Option<f32>,
    },
    /// Ready for the first job.
    Ready(Box<Ready>),
    /// The prompt is being read.
    Prefill {
        /// The answer.
        generation: u64,
        /// Tokens done, those taken over from the cache included.
        done: usize,
        /// Tokens of the prompt.
        total: usize,
    },
    /// The context does not hold the prompt; `Failed` follows.
    TooLong {
        /// The answer.
        generation: u64,
        /// Tokens of the prompt.
        total: usize,
        /// Tokens that it would have without what was said before the last message; `None` if that
        /// is not known.
        alone: Option<usize>,
    },
    /// The prompt's last logits gave the first token (it precedes round 0).
    First {
        /// The answer.
        generation: u64,
        /// The token, chosen by the target.
        token: crate::decode::Committed,
        /// Totals so far: prompt and reused tokens, prefill time.
        summary: Box<Summary>,
    },
    /// The target verifies a tree while sequences are drafted ahead (DuoDecoding): how far they
    /// are. Only while `Controls::watched`, of passes that take long, and not more often than a
    /// screen shows. It may be late: what `Round` says of the same round counts.
    Verifying {
        /// The answer.
        generation: u64,
        /// What is known so far.
        round: Box<PendingRound>,
    },
    /// One round is done.
    Round {
        /// The answer.
        generation: u64,
        /// What happened.
        round: Box<Round>,
    },
    /// The answer is complete (or was stopped).
    Finished {
        /// The answer.
        generation: u64,
        /// Its totals.
        summary: Box<Summary>,
    },
    /// Automatic control changed its choice: the reasons, one sentence a line, in place of
    /// `Ready::reasons`.
    Reasons(Vec<String>),
    /// Something changed that the user should know; work goes on.
    Notice(String),
    /// Of a record that is shown again: how what follows was sampled.
    Sampled(SamplerSettings),
    /// Other models are being loaded while those in use go on.
    LoadProgress {
        /// The load.
        load: u64,
        /// What is being done.
        stage: String,
        /// From 0 to 1, where it is known.
        fraction: Option<f32>,
    },
    /// The models in use were let go, since others do not fit beside them: nothing can be asked
    /// until `Swapped`, or until `NotSwapped` says that they were loaded again.
    Unloaded {
        /// The load.
        load: u64,
        /// Why, with both sizes.
        reason: String,
    },
    /// Other models are in use from now on.
    Swapped {
        /// The load.
        load: u64,
        /// What was loaded and chosen.
        ready: Box<Ready>,
    },
    /// Other models were not loaded: those in use go on.
    NotSwapped {
        /// The load.
        load: u64,
        /// Why, with the remedy; `None` if it was stopped.
        error: Option<String>,
    },
    /// An answer failed (`Some`) or the models could not be loaded (`None`). The text names the
    /// value, the file and the remedy.
    Failed {
        /// The answer, if it was one.
        generation: Option<u64>,
        /// The message for the user.
        error: String,
    },
}

impl Event {
    /// Whose answer it belongs to; `None` if to none.
    pub fn generation(&self) -> Option<u64> {
        match self {
            Self::Prefill { generation, .. }
            | Self::TooLong { generation, .. }
            | Self::First { generation, .. }
            | Self::Verifying { generation, .. }
            | Self::Round { generation, .. }
            | Self::Finished { generation, .. } => Some(*generation),
            Self::Failed { generation, .. } => *generation,
            Self::Loading { .. }
            | Self::Ready(_)
            | Self::Reasons(_)
            | Self::Notice(_)
            | Self::Sampled(_) => None,
            // Loads have numbers of their own.
            Self::LoadProgress { .. }
            | Self::Unloaded { .. }
            | Self::Swapped { .. }
            | Self::NotSwapped { .. } => None,
        }
    }
}
