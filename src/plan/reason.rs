//! Why a choice was made, as data: `messages` has the sentences. Must never hold English.

use super::DrafterId;
use super::heads::HeadForecast;
use super::placements::PlacementForecast;
use crate::speculate::Shape;

/// Why something runs on the CPU, or a draft head cannot be used. Sizes are bytes.
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
    SoftwareOnly {
        /// Its name.
        name: String,
        /// Its number.
        number: usize,
    },
    /// No GPU has the number that the user gave.
    NoSuchGpu {
        /// The number.
        number: usize,
        /// Numbers and names of those that exist.
        others: Vec<(usize, String)>,
    },
    /// This NVIDIA GPU has no Vulkan driver.
    NoVulkan(String),
    /// The GPU failed.
    Failed,
    /// The draft is larger than what the GPU has free.
    DraftTooLarge {
        /// What it needs at least.
        needed: u64,
        /// The GPU.
        gpu: String,
        /// What may be used there.
        room: u64,
        /// Its memory.
        memory: GpuMemory,
    },
    /// Not a single block of the target fits.
    BlockTooLarge {
        /// What a block needs.
        block: u64,
        /// What the draft needs.
        draft: u64,
        /// The GPU.
        gpu: String,
        /// What may be used there.
        room: u64,
    },
    /// The main memory is too small.
    MainMemory {
        /// What is needed.
        needed: u64,
        /// What is free.
        free: u64,
    },
    /// All blocks of a head do not fit next to those of the target.
    NoRoomNextToTarget,
}

/// What is known of a GPU's memory. Sizes are bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuMemory {
    /// Its driver says.
    Known {
        /// Free.
        free: u64,
        /// In all.
        total: u64,
    },
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
    NoTree {
        /// With the tree.
        tree: f64,
        /// Without.
        plain: f64,
    },
    /// T_V(γ) / T_V(1); more nodes would cost more than they save.
    Enough(f64),
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
    /// A measurement while loading.
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
    /// So many per cent of a round, where its tree was drafted ahead.
    Saves(f64),
    /// Nothing.
    Nothing,
}

/// Why a choice was made: one sentence each.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// The draft is on the CPU.
    DraftOnCpu(Obstacle),
    /// The draft is on a GPU.
    DraftOnGpu {
        /// The GPU.
        gpu: String,
        /// Its memory.
        memory: GpuMemory,
        /// Blocks that fit, and blocks of the head, where not all do.
        fit: Option<(usize, usize)>,
    },
    /// The whole target is on the CPU.
    TargetOnCpu(Obstacle),
    /// The whole target is on a GPU.
    TargetOnGpu {
        /// The GPU.
        gpu: String,
    },
    /// The first blocks of the target are on a GPU.
    TargetSplit {
        /// The GPU.
        gpu: String,
        /// How many.
        layers: usize,
        /// Blocks of the target.
        of: usize,
        /// How many the user asked for, where that is more.
        asked: Option<usize>,
    },
    /// As [`Self::TargetSplit`], since the GPU took no more than these when they were loaded.
    TargetCut {
        /// The GPU.
        gpu: String,
        /// How many.
        layers: usize,
        /// Blocks of the target.
        of: usize,
    },
    /// The target's blocks are streamed to a GPU.
    TargetStreamed {
        /// The GPU.
        gpu: String,
    },
    /// T_V of one block on both devices, and how many fit on the GPU.
    BlockTimes {
        /// ms on the CPU.
        cpu_ms: f64,
        /// ms on the GPU.
        gpu_ms: f64,
        /// The GPU.
        gpu: String,
        /// Blocks that fit without a draft.
        fit: usize,
        /// Blocks of the target.
        of: usize,
    },
    /// What is expected of the placement taken.
    Placed {
        /// The placement.
        best: Box<PlacementForecast>,
        /// The best on the CPU alone, if that is another.
        on_cpu: Option<Box<PlacementForecast>>,
        /// The GPU.
        gpu: String,
        /// What a placement there would have to be faster by, a share.
        worth: f64,
    },
    /// Dovetail's comparison with streaming the target.
    Offload {
        /// The GPU.
        gpu: String,
        /// T_offload, ms.
        offload_ms: f64,
        /// Bytes per second.
        transfer: f64,
        /// What a token takes here, ms.
        token_ms: f64,
        /// T_V, ms.
        verify_ms: f64,
        /// Whether T_V < Ω·T_offload.
        beats: bool,
    },
    /// The best of several draft heads.
    HeadChosen {
        /// All of them.
        heads: Vec<HeadForecast>,
        /// The one to use.
        taken: usize,
        /// Whether it runs on the GPU.
        on_gpu: bool,
    },
    /// The only one of several heads that fits the target.
    OnlyHead(String),
    /// Threads of a draft that works at the same time as its target.
    ThreadsShared {
        /// The draft's.
        draft: usize,
        /// All.
        threads: usize,
        /// Whether the user chose this.
        chosen: bool,
        /// What it brings.
        effect: OverlapEffect,
    },
    /// One of so many threads serves the GPU.
    ThreadForGpu {
        /// All.
        threads: usize,
    },
    /// There is no draft model.
    NoDraft,
    /// The choice of γ.
    Gamma(usize, GammaReason),
    /// The choice of M, of at most so many.
    Blocks {
        /// M.
        blocks: usize,
        /// The most.
        most: usize,
        /// Why.
        why: BlocksReason,
    },
    /// The tree's shape.
    Tree {
        /// Width and depth.
        shape: Shape,
        /// Whether the user fixed the width and the depth.
        fixed: (bool, bool),
        /// T_D, ms.
        draft_ms: f64,
        /// T_V, ms.
        verify_ms: f64,
    },
    /// A tree that loses, kept to be looked at: tokens per second.
    KeptForShow {
        /// With the tree.
        tree: f64,
        /// Without.
        plain: f64,
    },
    /// What is expected of the tree.
    Expected {
        /// Ω.
        tokens: f64,
        /// Tokens per second.
        rate: f64,
        /// Without speculation.
        plain: f64,
    },
    /// Where the times come from.
    Basis(Basis),
    /// What `auto` chooses from: tokens per second.
    Sources {
        /// Drafts from the context.
        context: f64,
        /// Each model.
        models: Vec<(DrafterId, f64)>,
        /// No draft.
        plain: f64,
    },
    /// γ of DuoDecoding.
    DuoGamma {
        /// γ.
        gamma: usize,
        /// Whether the user fixed it.
        fixed: bool,
        /// Drafting, ms.
        draft_ms: f64,
        /// Verifying, ms.
        verify_ms: f64,
    },
    /// k of DuoDecoding; `None` where the draft decides.
    DuoSequences(Option<usize>),
    /// The acceptance rate lately; `None` before there is one.
    Acceptance(Option<f64>),
    /// γ is what pays, by T_V of 1 and 8 nodes, ms.
    GammaByTime {
        /// One.
        one_ms: f64,
        /// Eight.
        eight_ms: f64,
    },
    /// Mean nodes and tokens of the last rounds; `None` before the first.
    Lately(Option<(f64, f64)>),
}

impl Reason {
    /// Blocks of a head that a GPU has room for, with its name and the head's, where not all fit.
    pub fn cut(&self) -> Option<(&str, usize, usize)> {
        match self {
            Self::DraftOnGpu { gpu, fit: Some((fit, of)), .. } => Some((gpu, *fit, *of)),
            _ => None,
        }
    }
}
