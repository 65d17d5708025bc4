//! The chat in a pseudo-terminal.

mod models;
mod screen;
mod terminal;
