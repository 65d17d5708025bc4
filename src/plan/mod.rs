//! Cost model, first choice of γ and M with its reasons, the live controller. These are pure
//! functions. It must not depend on tensors.
//!
//! The rule, after Dovetail (method.md, Cost model): a round costs T_D + T_V(γ) and commits Ω
//! tokens, so the best choice of tree and depth M is that with the largest Ω / (T_D + T_V(γ)).
//! - **γ.** While a pass over the target is bound by reading its weights, more nodes are almost
//!   free; once computing them dominates, each costs its share. So few cores need a small γ, many
//!   cores a large one. The paper's 16 suits a CPU whose products are bound by computation from
//!   there on.
//! - **M.** Every block improves the guesses, each less than the previous one, and costs time in
//!   every draft pass. If the draft has its own GPU, that time is small compared with T_V, so M is
//!   as large as fits; on a CPU shared with the target it is not small, so M is.
//! - **Width and depth.** Every level of depth costs another draft pass; width costs rows in each
//!   pass.
//!
//! [`choose`] does this from the machine's description and from times measured during loading, and
//! a [`Controller`] repeats it with the rounds as they come.

mod acceptance_history;
mod arm;
mod auto_controller;
#[cfg(test)]
mod auto_tests;
mod choose;
mod confidence_controller;
mod context_arm;
mod controller;
mod cost;
mod cost_inputs;
#[cfg(test)]
mod decisions_tests;
mod duo_controller;
mod learned;
mod model_arm;
mod overrides;
mod pace;
mod pass_fit;
mod place;
mod placement_reasons;
mod placements;
mod prior;
mod reason;
mod reasons;
mod search_space;
mod strategy;
#[cfg(test)]
mod tests;
mod thread_split;
mod tree_controller;
mod verify_times;

pub use crate::speculate::DrafterId;
pub use arm::Arm;
pub use choose::{Plan, choose};
pub use controller::{Controller, RoundObservation};
pub use cost::{Costs, LevelCost, Measured};
pub use cost_inputs::{CostInputs, DraftSize, TargetSize, Throughput};
pub use learned::Learned;
use learned::LearnedArm;
pub use model_arm::ModelArm;
pub use overrides::{
    ANSWER, BLOCKS, DEPTH, DeviceChoice, DuoBudget, GAMMA, Limits, PACE, Prefer, Setting,
    TreeOverrides, WIDTH,
};
pub use pass_fit::PassFit;
pub use place::{
    BUFFER_BYTES, DraftBytes, GpuLayers, GpuRoom, HeadForecast, LAYERS, LayerSize, Placement,
    best_adapter, best_head, chosen_adapter, gpu_room, place_draft, place_layers, stream_layers,
};
pub use placement_reasons::placement_reasons;
pub use placements::{
    BlockTime, BlocksOnGpu, DeviceTimes, DraftChoice, PlacementForecast, PlacementInputs,
    PrefillForecast, best_placement, is_worth_moving_for,
};
pub use reason::{
    Basis, BlocksReason, DuoGammaReason, GammaReason, GpuMemory, Obstacle, OverlapEffect, Reason,
};
pub use search_space::{SearchSpace, rate};
pub use strategy::{STRATEGIES, Schedule, Sizing, Strategy};
pub use thread_split::split_threads;
pub use verify_times::VerifyTimes;
