//! The screen. Owns what a person sees and types; must never know tensors.
//!
//! | file | owns |
//! |---|---|
//! | [`state`] | a pure model of the screen |
//! | [`update`] | a message in, effects out |
//! | [`view`] | the model as a frame, one file a panel |
//! | [`keymap`], [`commands`] | one table of keys, one of slash commands |
//! | [`markdown`] | answers as rows, with every token's origin |
//! | [`theme`] | every style |
//! | [`run`](mod@run), `effects`, `terminal` | the loop, the effects, the terminal |
//! | `input`, `output`, `signals` | what may block or end the process, on threads of its own |

pub mod commands;
mod effects;
mod input;
pub mod keymap;
pub mod markdown;
mod output;
pub mod run;
mod signals;
pub mod state;
mod terminal;
#[cfg(test)]
mod testing;
pub mod theme;
pub mod update;
pub mod view;

pub use run::{NotOpened, ScreenConfig, run};
