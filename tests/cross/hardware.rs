//! What the cost model reads about a machine, instead of `src/hardware`, which asks the system.

/// A CPU.
pub struct Cpu {
    /// The names of its instruction sets.
    pub features: Vec<&'static str>,
    /// Cores.
    pub physical: usize,
}

/// A GPU.
pub struct Gpu {
    /// Bytes per second.
    pub bandwidth: Option<f64>,
}
