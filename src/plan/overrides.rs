//! What is automatic and what the user has fixed. Must never know where the user set it.

/// A value that is automatic or fixed by the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The plan and its controller choose.
    Auto,
    /// The user's value.
    Fixed(usize),
}

impl Setting {
    /// The fixed value, or `auto` where there is none.
    pub fn or(self, auto: usize) -> usize {
        match self {
            Self::Auto => auto,
            Self::Fixed(value) => value,
        }
    }

    /// Whether the user has fixed it.
    pub fn is_fixed(self) -> bool {
        matches!(self, Self::Fixed(_))
    }
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Fixed(value) => write!(f, "{value}"),
        }
    }
}

/// γ, M, k and D, each automatic or fixed: the record that settings, controls and controllers
/// share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeOverrides {
    /// γ.
    pub gamma: Setting,
    /// M.
    pub blocks: Setting,
    /// Tree width k.
    pub width: Setting,
    /// Tree depth D.
    pub depth: Setting,
}

impl Default for TreeOverrides {
    /// Everything automatic.
    fn default() -> Self {
        Self {
            gamma: Setting::Auto,
            blocks: Setting::Auto,
            width: Setting::Auto,
            depth: Setting::Auto,
        }
    }
}

/// The least that a control can be set to and the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Smallest value.
    pub least: usize,
    /// Largest value.
    pub most: usize,
}

/// γ: 1 is plain decoding through the tree path; automatic control stays within 64, beyond which no
/// CPU gains, and SpecExec's 128 is the largest tree of any strategy.
pub const GAMMA: Limits = Limits { least: 1, most: 128 };
/// k: the published heads are used with 10.
pub const WIDTH: Limits = Limits { least: 1, most: 10 };
/// D: expansions below the first level.
pub const DEPTH: Limits = Limits { least: 0, most: 8 };
/// M: the paper's ablation goes to 6; a deeper head is refused only by its own config.
pub const BLOCKS: Limits = Limits { least: 1, most: 16 };

/// Least milliseconds from round to round: 0 does not wait.
pub const PACE: Limits = Limits { least: 0, most: 10_000 };

/// What automatic control optimises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefer {
    /// `Show` for the bundled pair in a chat, which is there to be looked at; otherwise `Speed`.
    #[default]
    Auto,
    /// Most tokens per second, be it without speculation.
    Speed,
    /// Most tokens per second among trees worth looking at.
    Show,
}

/// Where the draft runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The GPU when this build can use it and the draft fits, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// A GPU by its own driver: that of this number, or the best one; or the CPU with the reason
    /// said.
    Gpu(Option<usize>),
    /// An NVIDIA GPU, or the CPU with the reason said.
    Cuda,
    /// An Apple GPU, or the CPU with the reason said.
    Metal,
}
