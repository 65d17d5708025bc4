//! Dovetail: speculative decoding split over two devices, live and steerable in a terminal.
//!
//! A small draft model proposes a tree of tokens, the big target model on the CPU checks the whole
//! tree in one forward pass and keeps the longest right path. The text is the target's own, token
//! for token, but it arrives sooner.
//!
//! [`method`] describes how that works, with its notation and the papers it comes from.
//!
//! The crate is divided into floors. A module imports only from floors below its own and from
//! modules of its floor that are listed after it, which a test checks against this table:
//!
//! | floor | module | owns |
//! |---|---|---|
//! | 7 | [`cli`] | one file per command, exit codes |
//! | 6 | [`tui`] | the screen as components, each with its state, update and view |
//! | 6 | [`bench`](mod@bench) | measurements and their tables |
//! | 5 | [`record`] | runs written to a file, read, shown again and verified |
//! | 5 | [`page`] | a conversation as one HTML page |
//! | 5 | [`worker`] | the decode thread, its protocol and controls |
//! | 5 | [`messages`] | the reasons of plan and load as sentences |
//! | 5 | [`train`] | the draft-head trainer: net, losses, optimiser, checkpoints |
//! | 4 | [`load`](mod@load) | from settings to loaded models: open, place, build, measure |
//! | 4 | [`decode`] | one round, the loop over rounds, the [`decode::Round`] record |
//! | 4 | [`overlap`] | what is drafted while the target verifies |
//! | 3 | [`draft`] | the [`draft::Drafter`] trait and its members |
//! | 3 | [`library`] | models on disk and on the hub, tokenizer, the bundled pair |
//! | 3 | [`settings`] | the TOML file and the flags, merged and checked |
//! | 2 | [`model`] | the transformer on its backends, KV cache, the [`model::Target`] trait |
//! | 2 | [`plan`] | cost model, first choice of γ and M, the controllers |
//! | 1 | [`chat`] | conversation, template, saved sessions |
//! | 1 | [`speculate`] | the algorithm without tensors: tree, growth, acceptance, sampler |
//! | 1 | [`chart`] | curves, bars and heat maps as SVG |
//! | 1 | [`hardware`] | cores, memory, VRAM and load |
//! | 1 | [`printable`] | what may be written on a terminal |
//! | 1 | [`kernels`] | skinny matrix products, attention, packed weights, the compute pool |
//! | 0 | [`caught`] | panics of libraries, as errors |
//! | 0 | [`files`] | files written whole or not at all, read within limits |
//! | 0 | [`guide`] | the guide's pages, compiled in |
//! | 0 | `nearest` | names like a misspelt one |
//!
//! The path of a token: keyboard → `tui::update` → `worker::Command` → `worker` → `decode` (draft →
//! tree → target → accept) → `worker::Event` → `tui::state` → `tui::view`.

pub mod bench;
pub mod caught;
pub mod chart;
pub mod chat;
pub mod cli;
pub mod decode;
pub mod draft;
pub mod files;
pub mod guide;
pub mod hardware;
pub mod kernels;
pub mod library;
pub mod load;
pub mod messages;
pub mod method;
pub mod model;
mod nearest;
pub mod overlap;
pub mod page;
pub mod plan;
pub mod printable;
pub mod record;
pub mod settings;
pub mod speculate;
pub mod train;
pub mod tui;
pub mod worker;
