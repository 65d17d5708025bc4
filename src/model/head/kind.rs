//! Which kind of head a checkpoint holds, told by its tensors' names. Must never read a tensor.

use serde::{Deserialize, Serialize};

/// How a head makes its blocks' input of feature and token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FusionKind {
    /// Dynamic gated fusion (method.md, Draft heads).
    Dgf,
    /// EAGLE's `fc` (method.md, Draft heads).
    Eagle,
    /// EAGLE-3's `fc` over tapped states (method.md, EAGLE-3).
    Eagle3,
}

impl FusionKind {
    /// The kind of a checkpoint with tensors of these names; `None` if it is no draft head.
    pub fn of<'a>(names: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut kind = None;
        for name in names {
            match published(name) {
                "W_1" | "W_2" | "W_z" => return Some(Self::Dgf),
                "midlayer.hidden_norm.weight" | "layers.0.hidden_norm.weight" => {
                    return Some(Self::Eagle3);
                }
                "fc.weight" => kind = Some(Self::Eagle),
                _ => {}
            }
        }
        kind
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dgf => "DGF",
            Self::Eagle => "EAGLE",
            Self::Eagle3 => "EAGLE-3",
        }
    }
}

/// The published name behind what a training framework wrote.
pub(super) fn published(name: &str) -> &str {
    let mut name = name;
    while let Some(rest) = name.strip_prefix("module.").or(name.strip_prefix("model.")) {
        name = rest;
    }
    name
}
