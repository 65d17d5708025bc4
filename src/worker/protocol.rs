//! Commands to the worker and events from it. Ordered events go through channels; values that
//! overwrite each other go through [`super::SharedControls`]. It must not depend on widgets.

use super::ready::Ready;
use crate::chat::Message;
pub use crate::chat::ModelChoice;
use crate::decode::{Committed, Round, Summary};
use crate::overlap::PendingRound;
use crate::speculate::SamplerSettings;

/// An answer to generate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Job {
    /// The ascending number of the answer; events of an older answer are dropped.
    pub generation: u64,
    /// The conversation up to and including the user's last message. If the beginning of an answer
    /// follows it, the answer continues from there.
    pub messages: Vec<Message>,
    /// The most tokens of the answer; [`Self::ROOM_LEFT`] for as many as the context has room for.
    pub max_tokens: usize,
    /// Whether the model should think before it answers; `None` leaves that to the template.
    pub thinking: Option<bool>,
    /// Whether everything decoded before is forgotten, both in caches and in the drafters.
    /// Otherwise an answer that is generated again would be drafted from the first one.
    pub afresh: bool,
    /// The name of the saved conversation that it belongs to: its KV cache is saved under this name
    /// and deleted with it. `None` saves none.
    pub conversation: Option<String>,
    /// The tokens with which the answer begins, if it is not `messages` that have its beginning.
    pub begun: Vec<u32>,
    /// Tokens that the user forces in the place of the target's, by their number in the answer,
    /// `begun` included.
    pub forced: Vec<(usize, u32)>,
}

impl Job {
    /// More tokens than any context has room for.
    pub const ROOM_LEFT: usize = u32::MAX as usize;
}

/// Other models to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadJob {
    /// Every load has its own ascending number.
    pub load: u64,
    /// What is to be loaded.
    pub models: ModelChoice,
}

/// Commands to the worker. Dropping the sender ends it.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Generates this answer; stopped when `Controls::generation` becomes another number.
    Generate(Job),
    /// Loads these models while the current ones continue, and starts using them between two
    /// answers; stopped when `Controls::load` becomes another number.
    Load(LoadJob),
    /// The saved conversation with this name was deleted: nothing saved of it is kept.
    Discard(String),
}

/// Events from the worker, in order. Rounds are small and an answer is bounded, so the channel is
/// unbounded: the worker never waits for the screen. `generation` is the answer's number and `load`
/// that of the load; `fraction` is progress from 0 to 1, if it is known.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "a variant's comment says what its fields are")]
pub enum Event {
    /// Models are being loaded, at a stage such as `reading model.gguf`.
    Loading { stage: String, fraction: Option<f32> },
    /// Ready for the first job.
    Ready(Box<Ready>),
    /// The prompt is being read: tokens that are done, including those reused from the cache, and
    /// all.
    Prefill { generation: u64, done: usize, total: usize },
    /// The prompt does not fit in the context; `Failed` follows. How many tokens it has, and how
    /// many it would have without what was said before the last message, if that is known.
    TooLong { generation: u64, total: usize, alone: Option<usize> },
    /// The prompt's last logits gave the first token (it precedes round 0); with the totals so far:
    /// prompt and reused tokens, prefill time.
    First { generation: u64, token: Committed, summary: Box<Summary> },
    /// The target verifies a tree while sequences are drafted ahead (DuoDecoding): their state so
    /// far. Only while `Controls::watched`, for passes that take long, and not more often than a
    /// screen shows. It may arrive late: the `Round` event of the same round takes precedence.
    Verifying { generation: u64, round: Box<PendingRound> },
    /// One round is done.
    Round { generation: u64, round: Box<Round> },
    /// The answer is complete (or was stopped).
    Finished { generation: u64, summary: Box<Summary> },
    /// Automatic control changed its choice: the reasons, one sentence per line, which replace
    /// `Ready::reasons`.
    Reasons(Vec<String>),
    /// Something changed that the user should know; the work continues.
    Notice(String),
    /// Replay of a record: how what follows was sampled.
    Sampled(SamplerSettings),
    /// Other models are being loaded while the current ones continue.
    LoadProgress { load: u64, stage: String, fraction: Option<f32> },
    /// The current models were unloaded, because the others do not fit in addition (the reason has
    /// both sizes). No question can be answered until `Swapped`, or until `NotSwapped` reports that
    /// they were loaded again.
    Unloaded { load: u64, reason: String },
    /// Other models are used from now on.
    Swapped { load: u64, ready: Box<Ready> },
    /// Other models were not loaded: the current ones continue. Why, and what to do; `None` if the
    /// load was stopped.
    NotSwapped { load: u64, error: Option<String> },
    /// An answer failed (`Some`) or the models could not be loaded (`None`). The text names the
    /// value, the file and what to do.
    Failed { generation: Option<u64>, error: String },
}

impl Event {
    /// The tokens that it adds to the answer.
    pub fn committed(&self) -> &[Committed] {
        match self {
            Self::First { token, .. } => std::slice::from_ref(token),
            Self::Round { round, .. } => &round.committed,
            _ => &[],
        }
    }

    /// The answer that it belongs to; `None` if it belongs to none.
    pub fn generation(&self) -> Option<u64> {
        match self {
            Self::Prefill { generation, .. }
            | Self::TooLong { generation, .. }
            | Self::First { generation, .. }
            | Self::Verifying { generation, .. }
            | Self::Round { generation, .. }
            | Self::Finished { generation, .. } => Some(*generation),
            Self::Failed { generation, .. } => *generation,
            // Loads have separate numbers.
            _ => None,
        }
    }
}
