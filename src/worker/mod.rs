//! The decode thread: protocol, controls, loop, cancellation. Must never know widgets.

mod controls;
mod protocol;

pub use controls::{Choice, Controls, SharedControls};
pub use protocol::{Command, Event, Job, Ready};
