//! Which kind of head a checkpoint holds, judged by the names of its tensors. It must never read a
//! tensor.

use serde::{Deserialize, Serialize};

use super::assistant::AssistantConfig;
use super::eagle3::Eagle3Config;
use super::mtp::MtpConfig;
use crate::kernels::Format;

/// What kind of head it is, with what only heads of this kind have.
#[derive(Clone, Debug, PartialEq)]
pub enum HeadKind {
    /// Dynamic gated fusion (method.md, Draft heads).
    Dgf,
    /// EAGLE's `fc` (method.md, Draft heads).
    Eagle,
    /// EAGLE-3's `fc` over tapped states (method.md, EAGLE-3).
    Eagle3(Eagle3Config),
    /// The blocks at the end of a target's own file (method.md, MTP heads).
    Mtp(MtpConfig),
    /// Gemma 4's assistant (method.md, Assistants).
    Assistant(AssistantConfig),
}

impl HeadKind {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Dgf => "DGF",
            Self::Eagle => "EAGLE",
            Self::Eagle3(_) => "EAGLE-3",
            Self::Mtp(_) => "MTP",
            Self::Assistant(_) => "assistant",
        }
    }

    /// Whether it has a row for the first token of a text, which belongs to no pair.
    pub(crate) fn opens(&self) -> bool {
        matches!(self, Self::Mtp(_))
    }

    /// What only an EAGLE-3 head has. Such a head reads tapped states of the target instead of its
    /// features, and so has its own norm and LM head.
    pub fn eagle3(&self) -> Option<&Eagle3Config> {
        if let Self::Eagle3(own) = self { Some(own) } else { None }
    }

    /// The format of the largest matrix of a head that is packed from a model's files; `None` for
    /// one with [`HeadWeights`](super::HeadWeights) of its own.
    pub fn format(&self) -> Option<Format> {
        match self {
            Self::Mtp(own) => Some(own.format),
            Self::Assistant(own) => Some(own.format),
            Self::Dgf | Self::Eagle | Self::Eagle3(_) => None,
        }
    }
}

/// How a head in its own file computes its blocks' input from feature and token.
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
}

/// The published name, without the prefixes of a training framework.
pub(super) fn published(name: &str) -> &str {
    let mut name = name;
    while let Some(rest) = name.strip_prefix("module.").or(name.strip_prefix("model.")) {
        name = rest;
    }
    name
}
