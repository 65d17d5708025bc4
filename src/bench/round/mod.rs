//! `bench round`: what a draft head or a small model would bring. Times of a round, T_D and T_V,
//! measured here over γ and the head's M or the small model's k, on loaded models or on a draft
//! and a target of random weights of known shapes; with acceptance from recorded rounds they give
//! the tokens a second to expect. Must never know terminals.

mod accept;
mod check;
mod predict;
mod published;
mod random;
mod report;
mod small;
mod small_passes;
mod times;
mod turned;

pub use accept::{AcceptanceError, AcceptanceProfile};
pub use check::{check_settings, decode};
pub use predict::{Check, Predicted, Prediction, Won};
pub use published::{NotPublished, PREFIX as PUBLISHED_PREFIX};
pub use random::{RandomDraft, RandomModels, random_models};
pub use report::{chart, tables};
pub use small_passes::{PassTimes, drafted_in_passes};
pub use times::{RoundTimes, TimesRequest, measure};
pub use turned::Turned;
