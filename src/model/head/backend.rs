//! What drafting needs of a head, whatever computes it. Must never know a backend.

use super::HeadError;
use crate::model::TrafficMeter;
use crate::speculate::{BeamRow, Ranking};

/// For each row its likeliest children, (token, log-probability), likeliest first.
pub type Candidates = Vec<Vec<(u32, f32)>>;

/// Pairs (f_i, x_{i+1}) one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a> {
    /// `[pairs, H]`, of an EAGLE-3 head the tapped states.
    pub features: &'a [f32],
    /// `[pairs]`.
    pub tokens: &'a [u32],
}

/// A head with its caches on some device. Pair i is (f_i, x_{i+1}) at RoPE position i.
///
/// A round is `extend` (once or in chunks), `rank_root`, then `step` for each level. The KV rows
/// that `extend` writes are stable; those of the steps are scratch that the next `extend` drops.
/// Until then scratch rows and their outputs stay, so that any of them can be continued later: a
/// tree may go on growing from the head's own outputs while the target's features are awaited.
pub trait HeadBackend: Send {
    /// Precision and device, e.g. `f16 on CUDA 0`.
    fn describe(&self) -> String;

    /// Runs `pairs`, the first of which is pair `start`, causally through the first `blocks` blocks
    /// and keeps their KV rows as stable ones. The rows below `start` must be there in each of
    /// these blocks; rows from `start` on are overwritten.
    ///
    /// # Errors
    /// [`HeadError::Device`]; rows below `start` are unharmed.
    fn extend(&mut self, start: usize, pairs: Pairs<'_>, blocks: usize) -> Result<(), HeadError>;

    /// The children of the root, the last row of the last `extend`, by `ranking`.
    ///
    /// # Errors
    /// [`HeadError::Device`].
    fn rank_root(&mut self, ranking: &Ranking) -> Result<Vec<(u32, f32)>, HeadError>;

    /// Runs further rows of the tree, through as many blocks as the last `extend`, and ranks the
    /// children of each by `ranking`. A row's feature is the output of its source, any scratch row
    /// there is; it stands as many positions behind the stable rows as it has ancestors, and sees
    /// the stable rows, its ancestors and itself. Without room for them nothing is run, and nothing
    /// returned.
    ///
    /// # Errors
    /// [`HeadError::Device`].
    fn step(&mut self, beam: &[BeamRow], ranking: &Ranking) -> Result<Candidates, HeadError>;

    /// Outputs of the last pass, `[rows, H]`: estimates of the next features. For inspection.
    ///
    /// # Errors
    /// [`HeadError::Device`].
    fn outputs(&self) -> Result<Vec<f32>, HeadError>;

    /// Keys (after RoPE) and values of one block, `[kv_heads, len, d]` each: the stable rows, then
    /// the scratch rows of the steps so far. For inspection.
    ///
    /// # Errors
    /// [`HeadError::Device`].
    fn keys_and_values(&self, block: usize) -> Result<(Vec<f32>, Vec<f32>), HeadError>;

    /// Bytes held on the device: weights and caches.
    fn device_bytes(&self) -> u64;

    /// The counters of the GPU that it runs on by our own shaders; `None` without one.
    fn traffic(&self) -> Option<TrafficMeter> {
        None
    }
}

/// Where the features of a pass come from. Decides in EAGLE-3 alone, which has `fc` for the
/// target's only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The target.
    Target,
    /// The head's own outputs.
    Head,
}

/// Counts the KV rows of a round: what every backend has to know of the tree.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RowCounts {
    /// Stable rows.
    pub stable: usize,
    /// Scratch rows so far.
    pub scratch: usize,
}

impl RowCounts {
    /// `stable` rows and no tree.
    pub fn stable(stable: usize) -> Self {
        Self { stable, scratch: 0 }
    }

    /// All rows.
    pub fn total(&self) -> usize {
        self.stable + self.scratch
    }

    /// RoPE position of a row: one a level behind the stable rows.
    pub fn position(&self, row: &BeamRow) -> usize {
        self.stable + row.ancestors.len()
    }

    /// Which output is the feature of `row`: those of the root and of the scratch rows in a row.
    pub fn feature_of(row: &BeamRow) -> usize {
        row.source.map_or(0, |source| source + 1)
    }
}
