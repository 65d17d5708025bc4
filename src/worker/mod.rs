//! The decode thread: protocol, controls, loop, cancellation. Must never know widgets.

mod controls;
mod gate;
mod handle;
mod load;
mod protocol;
pub mod scripted;
mod trace;

pub use controls::{Choice, Controls, SharedControls};
pub use handle::{Sink, Worker};
pub use load::{LoadError, Loaded, Purpose, load};
pub use protocol::{Command, Event, Job, Ready};
pub use trace::{Line, Recorder};
