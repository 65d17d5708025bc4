//! The chat in a pseudo-terminal.

mod daily;
mod first;
mod models;
mod picture;
mod replay;
mod screen;
mod terminal;
