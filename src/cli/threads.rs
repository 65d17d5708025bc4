//! Compute threads of the commands that read no settings.

use crate::hardware::Cpu;

/// The given number, or one thread per fast core. This thread, which computes too, and those that
/// it starts are bound to the fast cores if they all fit there.
pub(super) fn compute_threads(asked: Option<usize>) -> usize {
    let cpu = Cpu::probe();
    let threads = cpu.threads(asked);
    cpu.prefer_fast(threads);
    threads
}
