//! Which kind of head a checkpoint holds, judged by the names of its tensors. It must never read a
//! tensor.

use serde::{Deserialize, Serialize};

/// How a head computes its blocks' input from feature and token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FusionKind {
    /// Dynamic gated fusion (method.md, Draft heads).
    Dgf,
    /// EAGLE's `fc` (method.md, Draft heads).
    Eagle,
    /// EAGLE-3's `fc` over tapped states (method.md, EAGLE-3).
    Eagle3,
    /// The blocks at the end of a target's own file (method.md, MTP heads).
    Mtp,
    /// Gemma 4's assistant (method.md, Assistants).
    Assistant,
}

impl FusionKind {
    /// The kind of a checkpoint with tensors of these names; `None` if it is not a draft head.
    pub fn of<'a>(names: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut gated = false;
        let mut joined = false;
        for name in names {
            match published(name) {
                "W_1" | "W_2" | "W_z" => gated = true,
                "midlayer.hidden_norm.weight" | "layers.0.hidden_norm.weight" => {
                    return Some(Self::Eagle3);
                }
                "fc.weight" => joined = true,
                _ => {}
            }
        }
        match (gated, joined) {
            (true, false) => Some(Self::Dgf),
            (false, true) => Some(Self::Eagle),
            (true, true) | (false, false) => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dgf => "DGF",
            Self::Eagle => "EAGLE",
            Self::Eagle3 => "EAGLE-3",
            Self::Mtp => "MTP",
            Self::Assistant => "assistant",
        }
    }

    /// Whether it has a row for the first token of a text, which belongs to no pair.
    pub(crate) fn opens(self) -> bool {
        self == Self::Mtp
    }

    /// Whether it reads tapped states of the target instead of its features, and so has its own
    /// norm and LM head.
    pub fn taps(self) -> bool {
        self == Self::Eagle3
    }
}

/// The published name, without the prefixes of a training framework.
pub(super) fn published(name: &str) -> &str {
    let mut name = name;
    while let Some(rest) = name.strip_prefix("module.").or(name.strip_prefix("model.")) {
        name = rest;
    }
    name
}
