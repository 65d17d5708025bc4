//! The decode thread and what it loads.

mod loading;
mod scripted;
mod strategies;
mod thread;
