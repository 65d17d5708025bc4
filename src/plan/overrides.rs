//! What is automatic and what the user has fixed. It must not depend on where the user set it.

/// A value that is automatic or fixed by the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Setting {
    /// The plan and its controller choose.
    #[default]
    Auto,
    /// The user's value.
    Fixed(usize),
}

impl Setting {
    /// The fixed value, or `auto` if there is none.
    pub fn or(self, auto: usize) -> usize {
        match self {
            Self::Auto => auto,
            Self::Fixed(value) => value,
        }
    }

    /// The fixed value, if there is one.
    pub fn fixed(self) -> Option<usize> {
        match self {
            Self::Auto => None,
            Self::Fixed(value) => Some(value),
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

/// How DuoDecoding's γ is chosen if it is not fixed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DuoBudget {
    /// As in the paper: γ = c, the number of draft steps in the time of one pass of the target.
    #[default]
    C,
    /// The budget that gains the most at the measured acceptance rate.
    Acceptance,
}

/// γ, M, k and D, each automatic or fixed: the record shared by settings, controls and controllers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeOverrides {
    /// γ.
    pub gamma: Setting,
    /// M.
    pub blocks: Setting,
    /// Tree width k.
    pub width: Setting,
    /// Tree depth D.
    pub depth: Setting,
    /// How an automatic γ of DuoDecoding is chosen.
    pub duo_budget: DuoBudget,
}

/// The minimum and maximum of a control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Smallest value.
    pub least: usize,
    /// Largest value.
    pub most: usize,
}

/// γ: 1 is plain decoding through the tree path. Automatic control stays within 64, beyond which no
/// CPU gains; SpecExec's 128 is the largest tree of any strategy.
pub const GAMMA: Limits = Limits { least: 1, most: 128 };
/// k: the published heads are used with 10.
pub const WIDTH: Limits = Limits { least: 1, most: 10 };
/// D: expansions below the first level.
pub const DEPTH: Limits = Limits { least: 0, most: 8 };
/// M: the paper's ablation goes to 6; a deeper head is refused only by its own config.
pub const BLOCKS: Limits = Limits { least: 1, most: 16 };

/// The minimum milliseconds from one round to the next; 0 does not wait.
pub const PACE: Limits = Limits { least: 0, most: 10_000 };

/// Tokens of an answer; automatic is as many as the context has room for.
pub const ANSWER: Limits = Limits { least: 1, most: 1_000_000 };

/// What automatic control optimises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefer {
    /// `Show` for the bundled pair in a chat, which is there to be looked at; otherwise `Speed`.
    #[default]
    Auto,
    /// The most tokens per second, even if that means no speculation.
    Speed,
    /// The most tokens per second among trees worth looking at.
    Show,
}

/// Where the draft runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The best GPU if there is one and the draft fits, otherwise the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// A GPU through its own driver: that of this number, or the best one; otherwise the CPU, and
    /// the reason is reported.
    Gpu(Option<usize>),
}
