//! What the cost model reads of a machine, in place of `src/hardware`, which asks the system.

/// A CPU.
pub struct Cpu {
    /// What its instructions are called.
    pub features: Vec<&'static str>,
    /// Cores.
    pub physical: usize,
}

/// A GPU.
pub struct Gpu {
    /// Bytes a second.
    pub bandwidth: Option<f64>,
}
