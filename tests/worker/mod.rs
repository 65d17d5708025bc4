//! The decode thread and what it loads.

mod kept_kv;
mod loading;
mod scripted;
mod strategies;
mod thread;
