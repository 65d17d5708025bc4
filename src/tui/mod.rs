//! The screen. Owns what a person sees and types; must never know tensors.
//!
//! | file | owns |
//! |---|---|
//! | [`state`] | the pure state of the screen |
//! | [`update`] | an event in, effects out |
//! | [`view`] | the state as a frame, one file a panel |
//! | [`actions`] | what keys and commands do |
//! | [`keymap`], [`commands`] | one table of keys, one of slash commands |
//! | [`markdown`] | answers as rows, with every token's origin |
//! | [`theme`] | every style |
//! | [`run`](mod@run), `effects`, `terminal` | the loop, the effects, the terminal |
//! | `model_finder` | the models that can be chosen, and what to expect of them |
//! | `exchange` | conversations in other programs' files |
//! | `race_frame` | a race as text, without a full screen |
//! | `editor` | the message in the user's own editor |
//! | `presets` | named system prompts and samplers, in their file |
//! | `input`, `output`, `signals` | what may block or end the process, on threads of its own |

pub mod actions;
pub mod commands;
mod editor;
mod effects;
mod exchange;
mod input;
pub mod keymap;
pub mod markdown;
mod model_finder;
mod output;
mod presets;
mod race_frame;
pub mod run;
mod signals;
pub mod state;
mod terminal;
#[cfg(test)]
mod testing;
pub mod theme;
pub mod update;
pub mod view;

pub use effects::{Left, Lost};
pub use model_finder::ModelFinder;
pub use presets::Preset;
pub use race_frame::race_frame;
pub use run::{NotOpened, Opening, ScreenConfig, run};
