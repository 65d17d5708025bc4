//! What can run before the CPU's blocks: the first blocks of the same model on another device. It
//! must not depend on a backend.

use crate::kernels::TreeMask;
use crate::model::TargetError;
use crate::model::taps::Taps;

/// The first blocks of a target, with their own KV cache for the same committed positions.
pub(in crate::model) trait Lower: Send {
    /// Runs the embedded rows `[rows, H]` through the blocks in place; row i sees the committed
    /// positions and `mask.visible(i)`, and its own position is the next. Gives `taps` the states
    /// that enter its blocks. Commits nothing.
    fn pass(
        &mut self,
        stream: &mut [f32],
        mask: &TreeMask,
        taps: &mut Taps<'_>,
    ) -> Result<(), TargetError>;
    /// Keeps these rows of the last pass (ascending) as the next committed positions.
    fn commit(&mut self, path: &[usize]);
    /// Forgets every position from `len` on.
    fn truncate(&mut self, len: usize);
}
