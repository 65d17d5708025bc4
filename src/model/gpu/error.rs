//! Why a GPU cannot do what was requested. It must not depend on what the request was for.

/// Why a device cannot be used, or can no longer be used, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GpuError(pub(super) String);
