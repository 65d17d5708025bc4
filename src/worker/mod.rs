//! The decode thread: protocol, controls, loop, cancellation. It must not depend on widgets.
//!
//! [`load`](mod@crate::load) makes the parts, [`Backend`] runs them through one answer, and
//! [`spawn`] puts both on a thread that is controlled by [`Command`]s and sends [`Event`]s. `run`
//! and `bench` call [`Backend::answer`] themselves. [`Forecaster`] estimates, before any model is
//! loaded, how fast each would be on this machine.

mod answer;
mod asked;
mod backend;
mod controls;
mod forecast;
mod gate;
mod handle;
mod loader;
mod protocol;
mod ready;
mod repetition;
mod strategy_planner;
mod swap;
mod thoughts;
mod thread;

pub use backend::{Backend, Planner, PromptTokens, Prompter};
pub use controls::{Controls, Setting, SharedControls};
pub use forecast::{DraftForecast, Forecast, Forecaster, MemoryFit, estimate, goes_with};
pub(crate) use gate::RoundGate;
pub use handle::{Sink, Worker};
pub use loader::SettingsLoader;
pub use protocol::{Command, Event, Job, LoadJob, ModelChoice};
pub use ready::{Ready, StrategyStatus};
pub use strategy_planner::StrategyPlanner;
pub use swap::{LoadFailure, Loader, Loading, NewModels};
pub use thread::{THREAD, spawn};
