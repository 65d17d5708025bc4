//! The chat in a pseudo-terminal.

mod models;
mod replay;
mod screen;
mod terminal;
