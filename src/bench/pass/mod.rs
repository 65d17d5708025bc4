//! `bench pass`: what a pass of the target, a draft and a round cost here, and what a draft head
//! would bring. Passes are timed alone, against the limits of the machine. Rounds, with T_D and
//! T_V, are timed over γ and M, on loaded models or on random weights of known shapes. With the
//! acceptance of recorded rounds they give the expected tokens per second. It must not depend on
//! terminals.

mod accept;
mod passes;
mod predict;
mod random;
mod report;
mod times;

pub use accept::{AcceptanceProfile, PUBLISHED_PREFIX};
pub use passes::{PassOptions, Passes, time_passes};
pub use predict::{Prediction, RoundPoint};
pub use random::{Numbers, with_head};
pub use report::PassReport;
pub use times::{TimesRequest, measure};
