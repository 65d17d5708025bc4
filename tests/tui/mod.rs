//! The chat in a pseudo-terminal.

mod screen;
mod terminal;
