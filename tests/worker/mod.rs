//! The decode thread and what it loads.

mod forced;
mod heads;
mod loading;
mod pending;
mod scripted;
mod snapshots;
mod strategies;
mod thread;
