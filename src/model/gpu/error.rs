//! Why a GPU cannot do what was requested. It must not depend on what the request was for.

/// Why a device cannot be used, or can no longer be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// It is missing something that every kernel needs.
    #[error("{name} does not support {what}")]
    Lacks {
        /// The device.
        name: String,
        /// What is missing.
        what: String,
    },
    /// It cannot be opened.
    #[error("cannot open {name}: {reason}")]
    Closed {
        /// The device.
        name: String,
        /// What its driver says.
        reason: String,
    },
    /// Its memory is full, or the part of it that we may use.
    #[error("the GPU's memory is full: cannot allocate {asked} MiB in addition to {held} MiB")]
    Full {
        /// The requested MiB, rounded up.
        asked: u64,
        /// What this program holds there, MiB.
        held: u64,
    },
    /// A single buffer is larger than the device allows.
    #[error("the GPU allows buffers of at most {most} MiB, not {asked} MiB; use a shorter context")]
    Buffer {
        /// The requested MiB.
        asked: u64,
        /// The limit in MiB.
        most: u64,
    },
    /// It was removed, reset or destroyed, or its driver failed.
    #[error("the GPU was lost ({0})")]
    Lost(String),
    /// It does not answer.
    #[error("the GPU has not responded for {0} s")]
    Hangs(u64),
    /// The kernels do not support this.
    #[error("{0}")]
    Unsupported(String),
}
