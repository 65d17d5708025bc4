//! `bench round`: what a draft head would bring. Times of a round, T_D and T_V, measured here over
//! γ × M, on loaded models or on a head and a target of random weights of a known shape; with
//! acceptance from recorded rounds they give the tokens a second to expect. Must never know
//! terminals.

mod accept;
mod check;
mod predict;
mod published;
mod random;
mod report;
mod times;

pub use accept::{AcceptanceError, AcceptanceProfile};
pub use check::{check_settings, decode};
pub use predict::{Check, Predicted, Prediction};
pub use published::{NotPublished, PREFIX as PUBLISHED_PREFIX};
pub use random::random_models;
pub use report::{chart, tables};
pub use times::{RoundTimes, TimesRequest, measure};
