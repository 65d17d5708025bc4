//! The screen. Owns what a person sees and types; must never know tensors.
//!
//! A component has its state in `mod.rs`, what events do to it in `update`, and how it is drawn in
//! `view`; a small one is one file:
//!
//! | component | owns |
//! |---|---|
//! | `chat` | the conversation, its answers and thoughts, a full context |
//! | `input` | the message being written |
//! | `tree` | the draft trees of the latest answer |
//! | `meters` | the figures of the answer and of the machine |
//! | `controls` | the dials and the strategies |
//! | `models` | the models in use and those to choose from |
//! | `overlays` | help, lists and boxes over the panels |
//! | `race` | one question answered plain and speculatively |
//! | `toasts` | what is said in passing |
//! | `tips` | features that were not used here yet |
//!
//! The root joins them and routes events:
//!
//! | file | owns |
//! |---|---|
//! | `state`, `display` | the components as one state; size, focus and looks |
//! | `event`, `update` | what happens and what is to be done; an event in, effects out |
//! | `view` | the state as a frame |
//! | `actions`, `keymap`, `commands` | what keys and commands do, and the tables of both |
//! | `theme`, `draw`, `markdown` | every style, rows and frames, answers as rows |
//! | `pictures` | images that messages name |
//! | `run`, `effects`, `terminal` | the loop, the effects, the terminal |

pub(crate) mod actions;
pub(crate) mod chat;
pub mod commands;
pub(crate) mod controls;
pub(crate) mod display;
mod draw;
mod effects;
pub(crate) mod event;
pub(crate) mod input;
pub(crate) mod keymap;
pub(crate) mod markdown;
pub(crate) mod meters;
pub(crate) mod models;
pub(crate) mod overlays;
pub(crate) mod pictures;
pub(crate) mod race;
pub(crate) mod run;
pub(crate) mod state;
mod terminal;
#[cfg(test)]
mod tests;
pub(crate) mod theme;
pub(crate) mod tips;
pub(crate) mod toasts;
pub(crate) mod tree;
pub(crate) mod update;
pub(crate) mod view;

pub(crate) use draw::figures::many;
pub(crate) use effects::exchange::write_whole;
pub(crate) use effects::model_finder::ModelFinder;
pub(crate) use effects::{Left, Opening};
pub use input::Starters;
pub use keymap::Keymap;
pub(crate) use run::{NotOpened, ScreenConfig, run, run_lines};
pub(crate) use terminal::faults;
