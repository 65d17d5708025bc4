//! The decode thread and what it loads.

mod scripted;
mod strategies;
mod thread;
