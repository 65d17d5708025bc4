//! What drafting needs of a draft head, on any backend. It must not depend on a backend.

use super::HeadError;
use crate::model::TrafficMeter;
use crate::speculate::{BeamRow, Ranking};

/// KV slots after the context, for the rows of a tree and for those grown ahead of the target.
pub const TREE_ROWS: usize = 1024;

/// For each row, its likeliest children as (token, log-probability), the likeliest first.
pub type Candidates = Vec<Vec<(u32, f32)>>;

/// Pairs (f_i, x_{i+1}), one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a> {
    /// `[pairs, H]`; for an EAGLE-3 head, the tapped states.
    pub features: &'a [f32],
    /// `[pairs]`.
    pub tokens: &'a [u32],
}

/// A head with its caches on some device. Pair i is (f_i, x_{i+1}) at RoPE position i.
///
/// A round is `extend` (once or in chunks), `rank_root`, then `step` for each level. The KV rows
/// that `extend` writes are stable; those of the steps are scratch rows that the next `extend`
/// drops. Until then scratch rows and their outputs stay, so that any of them can be continued
/// later: a tree may keep growing from the head's own outputs while it waits for the target's
/// features.
pub trait HeadBackend: Send {
    /// Precision and device, e.g. `4 bits on CPU`.
    fn describe(&self) -> String;

    /// Runs `pairs`, the first of which is row `start`, causally through the first `blocks` blocks
    /// and keeps their KV rows as stable rows. The rows below `start` must exist in each of these
    /// blocks; rows from `start` on are overwritten.
    ///
    /// # Errors
    /// [`HeadError::Device`]; rows below `start` are unharmed.
    fn extend(&mut self, start: usize, pairs: Pairs<'_>, blocks: usize) -> Result<(), HeadError>;

    /// Ranks the children of the root, the last row of the last `extend`, by `ranking`.
    ///
    /// # Errors
    /// [`HeadError::Device`].
    fn rank_root(&mut self, ranking: &Ranking) -> Result<Vec<(u32, f32)>, HeadError>;

    /// Runs further rows of the tree, through as many blocks as the last `extend`, and ranks the
    /// children of each by `ranking`. A row's feature is the output of its source, which may be any
    /// scratch row. The row's position is as far after the stable rows as it has ancestors, and it
    /// sees the stable rows, its ancestors and itself. If there is no room for the rows, nothing is
    /// run and nothing is returned.
    ///
    /// # Errors
    /// [`HeadError::Device`].
    fn step(&mut self, beam: &[BeamRow], ranking: &Ranking) -> Result<Candidates, HeadError>;

    /// The outputs of the last pass, `[rows, H]`: estimates of the next features. For inspection.
    ///
    /// # Errors
    /// [`HeadError::Device`].
    fn outputs(&self) -> Result<Vec<f32>, HeadError>;

    /// Bytes held on the device: weights and caches.
    fn device_bytes(&self) -> u64;

    /// The traffic counters of the GPU; `None` on the CPU.
    fn traffic(&self) -> Option<TrafficMeter> {
        None
    }
}

/// Where the features of a pass come from. It matters only in EAGLE-3, which applies `fc` only to
/// the target's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureOrigin {
    /// The target.
    Target,
    /// The head's own outputs.
    Head,
}

/// Which output is the feature of `row`, in the list of the root's output and then those of the
/// scratch rows.
pub(super) fn feature_of(row: &BeamRow) -> usize {
    row.source.map_or(0, |source| source + 1)
}

/// Checks that a head with `room` positions can hold `wanted`.
pub(super) fn check_room(wanted: usize, room: usize) -> Result<(), HeadError> {
    if wanted <= room {
        return Ok(());
    }
    Err(HeadError::Device(format!("{wanted} positions do not fit into {room}")))
}
