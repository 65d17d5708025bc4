//! Why a choice was made, as data: `messages` has the sentences. It must never hold English.
#![allow(missing_docs, reason = "a variant's comment says what its fields are")]

use super::DrafterId;
use super::place::HeadForecast;
use super::placements::PlacementForecast;
use crate::speculate::Shape;

/// Why something runs on the CPU, a draft head cannot be used, or placements cannot be compared.
/// Sizes are bytes; `room` is what may be used on the GPU.
#[derive(Clone, Debug, PartialEq)]
pub enum Obstacle {
    /// The user chose the CPU.
    Chosen,
    /// The CPU is expected to be faster.
    CpuIsFaster,
    /// The strategy leaves the GPU to the target.
    TargetHasGpu,
    /// No driver lists a GPU.
    NoGpu,
    /// The only adapter is software.
    SoftwareOnly { name: String, number: usize },
    /// No GPU has the number that the user gave; numbers and names of those that exist.
    NoSuchGpu { number: usize, others: Vec<(usize, String)> },
    /// This NVIDIA GPU has no Vulkan driver.
    NoVulkan(String),
    /// The GPU failed.
    Failed,
    /// The draft needs at least so much and is larger than what the GPU has free.
    DraftTooLarge { needed: u64, gpu: String, room: u64, memory: GpuMemory },
    /// Not a single block of the target fits next to what the draft needs.
    BlockTooLarge { block: u64, draft: u64, gpu: String, room: u64 },
    /// The main memory is too small.
    MainMemory { needed: u64, free: u64 },
    /// All blocks of a head do not fit next to those of the target.
    NoRoomNextToTarget,
    /// What a device or a measurement said when it failed.
    Error(String),
    /// For a GPU to read prompts, the main memory must hold the target twice.
    TargetTwice { needed: u64, free: u64 },
    /// For a GPU to read prompts, it needs so much next to the draft.
    PromptsTooLarge { needed: u64, draft: u64, gpu: String, room: u64 },
    /// Other models are working, and nothing was measured before.
    ModelsInUse,
    /// The target has only one block.
    OneBlock,
    /// A pass took no measurable time.
    NoTime,
    /// Drafters with this name, if they have such things, run only on the CPU.
    OnlyCpu { drafter: &'static str, with: &'static str },
    /// Nothing can be placed.
    NoPlacement,
    /// candle-transformers runs the target.
    Candle,
}

/// What is known of a GPU's memory. Sizes are bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuMemory {
    /// Its driver says.
    Known { free: u64, total: u64 },
    /// The user said how much there is.
    Given(u64),
    /// It shares the main memory.
    Shared,
    /// The driver does not say.
    Unknown,
}

/// Why γ is what it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GammaReason {
    /// The user fixed it.
    Fixed,
    /// No tree pays: tokens per second of the best small one, and without any.
    NoTree { tree: f64, plain: f64 },
    /// T_V(γ) / T_V(1); more nodes would cost more than they save.
    Enough(f64),
}

/// Why γ of DuoDecoding is what it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DuoGammaReason {
    /// The user fixed it.
    Fixed,
    /// The paper's rule.
    C,
    /// It gains the most at the measured acceptance rate.
    Acceptance,
}

/// Why M is what it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BlocksReason {
    /// The head allows no other.
    Only,
    /// The user fixed it.
    Fixed,
    /// Each block costs so many ms of a round's draft; all of them, or no more than these, pay.
    Each(f64),
}

/// Where the times come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The machine's description.
    Estimated,
    /// A measurement during loading.
    Measured,
    /// The same for the draft alone.
    DraftMeasured,
    /// So many rounds with a tree.
    Rounds(usize),
}

/// What drafting ahead brings when both share the cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OverlapEffect {
    /// There is one thread for both.
    OneThread,
    /// So many per cent of a round, if its tree was drafted ahead.
    Saves(f64),
    /// Nothing.
    Nothing,
}

/// Why a choice was made: one sentence each. Times are ms, `rate` and `plain` tokens per second
/// with and without speculation; `of` is how many blocks the target has.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// The draft is on the CPU.
    DraftOnCpu(Obstacle),
    /// The draft is on a GPU; if not all of its blocks fit, how many do, and how many it has.
    DraftOnGpu { gpu: String, memory: GpuMemory, fit: Option<(usize, usize)> },
    /// The whole target is on the CPU.
    TargetOnCpu(Obstacle),
    /// The whole target is on a GPU.
    TargetOnGpu { gpu: String },
    /// The first `layers` blocks of the target are on a GPU, and how many the user asked for if
    /// that is more.
    TargetSplit { gpu: String, layers: usize, of: usize, asked: Option<usize> },
    /// As [`Self::TargetSplit`], because the GPU took no more than these when they were loaded.
    TargetCut { gpu: String, layers: usize, of: usize },
    /// The target's blocks are streamed to a GPU.
    TargetStreamed { gpu: String },
    /// T_V of one block on both devices, and how many fit on the GPU without a draft.
    BlockTimes { cpu_ms: f64, gpu_ms: f64, gpu: String, fit: usize, of: usize },
    /// What is expected of the placement to use, of the best one on the CPU alone if that is
    /// another, and by what fraction a placement on the GPU would have to be faster.
    Placed {
        best: Box<PlacementForecast>,
        on_cpu: Option<Box<PlacementForecast>>,
        gpu: String,
        worth: f64,
    },
    /// Dovetail's comparison with streaming the target at so many bytes per second: T_offload, the
    /// fastest placement that does not stream it, and whether its T_V < Ω·T_offload.
    Offload {
        gpu: String,
        offload_ms: f64,
        transfer: f64,
        other: Box<PlacementForecast>,
        beats: bool,
    },
    /// The best of several draft heads, and whether it runs on the GPU.
    HeadChosen { heads: Vec<HeadForecast>, taken: usize, on_gpu: bool },
    /// The only one of several heads that fits the target.
    OnlyHead(String),
    /// The draft's threads, of all, when it works at the same time as its target; whether the user
    /// chose this, and what it brings.
    ThreadsShared { draft: usize, threads: usize, chosen: bool, effect: OverlapEffect },
    /// One of so many threads serves the GPU.
    ThreadForGpu { threads: usize },
    /// Whether the draft reads a prompt while the target does, or after it because they share a
    /// processor.
    ReadsPrompt { beside: bool },
    /// There is no draft model.
    NoDraft,
    /// The choice of γ.
    Gamma(usize, GammaReason),
    /// The choice of M, of at most so many.
    Blocks { blocks: usize, most: usize, why: BlocksReason },
    /// The tree's shape, whether the user fixed its width and its depth, how many draft passes it
    /// takes, T_D and T_V.
    Tree { shape: Shape, fixed: (bool, bool), passes: usize, draft_ms: f64, verify_ms: f64 },
    /// A tree that loses, kept for display: tokens per second with and without it.
    KeptForShow { tree: f64, plain: f64 },
    /// What is expected of the tree: Ω and the rate.
    Expected { tokens: f64, rate: f64, plain: f64 },
    /// Where the times come from.
    Basis(Basis),
    /// What `auto` chooses from, in tokens per second: the draft from the context, each model, no
    /// draft.
    Sources { context: f64, models: Vec<(DrafterId, f64)>, plain: f64 },
    /// γ of DuoDecoding, and the times of one draft step, of one pass of the target and of a pass
    /// over γ nodes.
    DuoGamma { gamma: usize, why: DuoGammaReason, step_ms: f64, pass_ms: f64, verify_ms: f64 },
    /// k of DuoDecoding; `None` if the draft decides.
    DuoSequences(Option<usize>),
    /// The recent acceptance rate; `None` before there is one.
    Acceptance(Option<f64>),
    /// γ is what pays, by T_V of 1 and 8 nodes.
    GammaByTime { one_ms: f64, eight_ms: f64 },
    /// Mean nodes and tokens of the last rounds; `None` before the first.
    Lately(Option<(f64, f64)>),
}

impl Reason {
    /// c of DuoDecoding.
    pub fn duo_c(&self) -> Option<f64> {
        match self {
            Self::DuoGamma { step_ms, pass_ms, .. } => {
                Some(pass_ms / step_ms.max(f64::MIN_POSITIVE))
            }
            _ => None,
        }
    }

    /// How many blocks of a head a GPU has room for, with its name and the head's number of blocks;
    /// `None` if all fit.
    pub fn cut(&self) -> Option<(&str, usize, usize)> {
        match self {
            Self::DraftOnGpu { gpu, fit: Some((fit, of)), .. } => Some((gpu, *fit, *of)),
            _ => None,
        }
    }
}
