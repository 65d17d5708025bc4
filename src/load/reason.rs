//! Why models run as they do, and what the user should know, as data: `messages` has the sentences.
//! It must never hold English.
#![allow(missing_docs, reason = "a variant's comment says what its fields are")]

use super::repack::Repacking;
use crate::kernels::Format;
use crate::plan::{DrafterId, Obstacle, PrefillForecast, Reason};

/// Why the target or a drafter runs as it does: one sentence each. Sizes are bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadReason {
    /// A reason of the plan.
    Plan(Reason),
    /// The numbers that several heads have in the names of placements: names and blocks in order.
    HeadNumbers(Vec<(String, usize)>),
    /// The draft head of this name was not named, but found because it was made for the target.
    HeadFound(String),
    /// The draft head is in the target's own file, with a block for each of so many levels.
    HeadInFile { blocks: usize },
    /// How many tokens the draft head was trained to score.
    HeadVocabulary(usize),
    /// How many of the target's `vocab` tokens the draft head scores: the most frequent ones of a
    /// text, if its path is given.
    RequestedVocabulary { tokens: usize, vocab: usize, text: Option<String> },
    /// Layers of the target whose inputs the draft head reads; whether its config.json counts
    /// layers from 1.
    HeadStates { layers: Vec<usize>, from_one: bool },
    /// Where a small model drafts (`None` is the CPU), how many of the target's tokens it shares if
    /// not all, and the context beyond which it cannot draft.
    SmallModel {
        name: String,
        gpu: Option<String>,
        shared: Option<SharedTokens>,
        most_context: Option<usize>,
    },
    /// Drafts are looked up in the conversation.
    Lookup(WhyLookup),
    /// Drafts are looked up in the user's text of this name.
    Text(String),
    /// The target refines its own guesses.
    Lookahead,
    /// Drafts come from what the conversation and the target's passes have shown.
    Context(DrafterId),
    /// Drafts also come from so many tokens of earlier chats.
    History(usize),
    /// An n-gram table with so many contexts is used.
    Ngrams { name: String, contexts: usize },
    /// A GPU reads long prompts in slices of so many rows and receives so many bytes for each.
    PromptsOnGpu { gpu: String, rows: usize, bytes: u64 },
    /// What is expected of long prompts.
    LongPrompt { gpu: String, forecast: PrefillForecast },
    /// How many bytes each pass of a streamed target transfers.
    PassTransfers(u64),
    /// Whether weights are repacked that have this format, which would be expanded in every
    /// product.
    Repack { format: Format, repacking: Repacking },
    /// candle-transformers runs the target.
    Candle,
}

/// Tokens of the target that a small model has too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedTokens {
    /// How many both have.
    pub shared: usize,
    /// How many the target has.
    pub of: usize,
}

/// Why drafts are looked up in the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyLookup {
    /// The user chose it.
    Chosen,
    /// The user chose to have no draft head.
    NoHeadChosen,
    /// There is no draft head.
    NoHead,
    /// It is one strategy next to the draft head.
    NextToHead,
}

/// What the user should know of a load: one notice each. Sizes are bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// A sentence of the settings or of the library.
    Text(String),
    /// Something does not run where the user wanted it.
    Reason(LoadReason),
    /// The target supports fewer positions than requested.
    Context { requested: usize, most: usize, target: String },
    /// The memory has room for fewer positions: what all of them would need, of what is free, in
    /// bytes.
    ContextForMemory { requested: usize, used: usize, needed: u64, free: u64 },
    /// The template of this target cannot switch its thoughts.
    NoThinking(String),
    /// This target has no chat template.
    BaseModel(String),
    /// This target was trained to embed texts.
    Embeds(String),
    /// A draft was named for this target, which cannot verify one.
    NoDrafts(String),
    /// A recommended value cannot be used.
    Recommended { origin: String, problem: String },
    /// Nothing runs on the requested device.
    AllOnCpu(Obstacle),
    /// The head cannot be loaded on the GPU.
    HeadFailed(String),
    /// The GPU cannot be opened.
    GpuFailed(String),
    /// The small model cannot be loaded on the GPU.
    SmallModelFailed(String),
    /// The target cannot be loaded on the GPU.
    TargetFailed { layers: usize, error: String },
    /// Fewer blocks of the target fit on the GPU than planned.
    TargetCut { layers: usize, planned: usize, gpu: String, error: String },
    /// Other blocks of the target are on the GPU than planned.
    Misplaced { layers: usize, of: usize, planned: usize },
    /// The CPU reads the prompts although the user wanted a GPU to.
    PromptsOnCpu(Obstacle),
    /// The head cannot run with the number of blocks that the user fixed.
    Blocks { requested: usize, used: usize, why: BlocksLimit },
    /// One of several heads is not used.
    HeadIgnored { name: String, why: HeadMismatch },
}

/// Why a head uses another number of blocks.
#[derive(Clone, Debug, PartialEq)]
pub enum BlocksLimit {
    /// The GPU has room for fewer: the plan's reason.
    Room(Reason),
    /// It always uses all of them.
    Always(usize),
    /// It has no more.
    Most(usize),
}

/// Why a head does not fit the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadMismatch {
    /// Its shape differs.
    Shape(String),
    /// It was made for another model.
    MadeFor { model: String, target: String },
}

/// What a strategy needs and does not have.
#[derive(Clone, Debug, PartialEq)]
pub enum Missing {
    /// A drafter, with what to do: a clause of the settings.
    Drafter(&'static str),
    /// A drafter that this build does not include.
    NotBuilt,
    /// An engine that verifies trees: candle-transformers runs the target.
    Trees,
    /// Blocks of the target on a GPU; with the reason, if the user has requested them.
    GpuLayers(Option<Box<Notice>>),
    /// A GPU to stream the target to; with the reason, if the user has requested it.
    Streaming(Option<Box<Notice>>),
}

/// What has no room next to the models in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Needs {
    /// The model of this name.
    Model(String),
    /// The draft head.
    Head,
    /// The draft on this GPU.
    DraftOn(String),
}

impl From<Reason> for LoadReason {
    fn from(reason: Reason) -> Self {
        Self::Plan(reason)
    }
}

impl LoadReason {
    /// Why something runs on the CPU.
    pub(super) fn obstacle(&self) -> Option<&Obstacle> {
        match self {
            Self::Plan(Reason::DraftOnCpu(why) | Reason::TargetOnCpu(why)) => Some(why),
            _ => None,
        }
    }
}

impl Notice {
    /// The obstacle that it reports.
    pub(super) fn obstacle(&self) -> Option<&Obstacle> {
        match self {
            Self::Reason(reason) => reason.obstacle(),
            Self::PromptsOnCpu(why) => Some(why),
            _ => None,
        }
    }
}
