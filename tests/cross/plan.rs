//! The part of `src/plan/mod.rs` that decoding reads.
#![allow(dead_code, unused_imports)]

#[path = "../../src/plan/arm.rs"]
mod arm;
#[path = "../../src/plan/cost.rs"]
mod cost;
#[path = "../../src/plan/cost_inputs.rs"]
mod cost_inputs;
#[path = "../../src/plan/overrides.rs"]
mod overrides;
#[path = "../../src/plan/strategy.rs"]
mod strategy;
#[path = "../../src/plan/verify_times.rs"]
mod verify_times;

pub use arm::Arm;
pub use cost::Costs;
pub use cost_inputs::{CostInputs, TargetSize, Throughput};
pub use overrides::{DeviceChoice, Setting, TreeOverrides};
pub use strategy::{Schedule, Strategy};
pub use verify_times::VerifyTimes;
