//! The decode thread and what it loads.

mod heads;
mod kept_kv;
mod loading;
mod pending;
mod scripted;
mod strategies;
mod thread;
