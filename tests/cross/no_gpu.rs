//! The GPU that an emulated processor does not have, and a head on it: types without values,
//! instead of `src/model/gpu` and `src/model/head/gpu_head.rs`.

use std::sync::Arc;

use super::{Candidates, HeadBackend, HeadError, HeadRequest, Pairs};
use crate::speculate::{BeamRow, Ranking};

/// There is none.
pub enum Gpu {}

/// There is none.
pub enum GpuHead {}

impl GpuHead {
    /// Never called, because `gpu` cannot be created.
    pub fn new(gpu: &Arc<Gpu>, _: &HeadRequest<'_>) -> Result<Self, HeadError> {
        match **gpu {}
    }
}

impl HeadBackend for GpuHead {
    fn describe(&self) -> String {
        match *self {}
    }
    fn extend(&mut self, _: usize, _: Pairs<'_>, _: usize) -> Result<(), HeadError> {
        match *self {}
    }
    fn rank_root(&mut self, _: &Ranking) -> Result<Vec<(u32, f32)>, HeadError> {
        match *self {}
    }
    fn step(&mut self, _: &[BeamRow], _: &Ranking) -> Result<Candidates, HeadError> {
        match *self {}
    }
    fn outputs(&self) -> Result<Vec<f32>, HeadError> {
        match *self {}
    }
    fn device_bytes(&self) -> u64 {
        match *self {}
    }
}
