//! Why a GPU cannot do what was requested. It must not depend on what the request was for.

/// Why a device cannot be used, or can no longer be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// It is missing something that every kernel needs.
    #[error("{name} lacks {what}")]
    Lacks {
        /// The device.
        name: String,
        /// What is missing.
        what: String,
    },
    /// It cannot be opened.
    #[error("{name} cannot be opened: {reason}")]
    Closed {
        /// The device.
        name: String,
        /// What its driver says.
        reason: String,
    },
    /// Its memory is full, or the part of it that we may use.
    #[error("its memory is full: {asked} MiB more were asked for beside {held} MiB held")]
    Full {
        /// The requested MiB, rounded up.
        asked: u64,
        /// What this program holds there, MiB.
        held: u64,
    },
    /// A single buffer is larger than the device allows.
    #[error("it takes no buffer of {asked} MiB, {most} MiB at most: shorten the context")]
    Buffer {
        /// The requested MiB.
        asked: u64,
        /// The limit in MiB.
        most: u64,
    },
    /// It was removed, reset or destroyed, or its driver failed.
    #[error("it is lost ({0})")]
    Lost(String),
    /// It does not answer.
    #[error("it has not answered for {0} s")]
    Hangs(u64),
    /// The kernels do not support this.
    #[error("{0}")]
    Unsupported(String),
}
