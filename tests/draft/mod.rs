//! The drafters.

mod assistant;
mod dflash;
mod eagle3;
mod gpu;
mod head;
mod head_ahead;
mod mtp;
mod small_model;
mod without_model;
