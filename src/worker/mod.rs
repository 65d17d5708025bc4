//! The decode thread: protocol, controls, loop, cancellation. Must never know widgets.
//!
//! [`load`] makes the parts, [`Backend`] drives them through one answer, [`spawn`] puts both on a
//! thread behind [`Command`]s and [`Event`]s. `run` and `bench` call [`Backend::answer`]
//! themselves. [`scripted`] speaks the same protocol without models.

mod answer;
mod backend;
mod controls;
mod gate;
mod handle;
mod load;
mod protocol;
pub mod scripted;
mod strategy_planner;
mod thread;
mod trace;

pub use backend::{Backend, Planner, Prompter, RoundPlan};
pub use controls::{Controls, Setting, SharedControls};
pub use handle::{Sink, Worker};
pub use load::{LoadError, Loaded, Purpose, SampledBy, load};
pub use protocol::{Command, Event, Job, Ready, StrategyStatus};
pub use strategy_planner::{StrategyController, StrategyPlanner};
pub use thread::{Loading, THREAD, spawn};
pub use trace::{Line, Recorder};
