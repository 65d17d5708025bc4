//! Compute threads of the commands that read no settings. Must never compute.

use crate::hardware::Cpu;

/// As many as are asked for, else one a fast core; this thread, which computes too, and those that
/// it starts are kept to the fast cores where they fit there.
pub(super) fn compute_threads(asked: Option<usize>) -> usize {
    let cpu = Cpu::probe();
    let threads = cpu.threads(asked);
    cpu.prefer_fast(threads);
    threads
}
