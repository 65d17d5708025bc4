//! The chat in a pseudo-terminal.

mod daily;
mod models;
mod replay;
mod screen;
mod terminal;
