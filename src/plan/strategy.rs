//! Strategies as data: which drafter, in which schedule, within which budget.

use crate::speculate::{Method, Shape};

/// When drafting happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// Draft and target take turns (Dovetail).
    #[default]
    Alternate,
    /// Both work at the same time, the draft on what may come next (DuoDecoding).
    Overlap,
}

/// Who drafts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftKind {
    /// Nobody.
    None,
    /// The target's draft head (DGF or EAGLE).
    Head,
    /// The conversation itself.
    Lookup,
}

/// One way to decode. None of them changes the text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Strategy {
    /// As it is typed.
    pub name: &'static str,
    /// What it does, one line.
    pub summary: &'static str,
    /// Who drafts.
    pub draft: DraftKind,
    /// When.
    pub schedule: Schedule,
    /// How candidates are looked for.
    pub method: Method,
    /// The tree, where the strategy prescribes one; otherwise the controller chooses.
    pub shape: Option<Shape>,
}

/// Every strategy, in the order of the tables.
pub const STRATEGIES: &[Strategy] = &[
    Strategy {
        name: "plain",
        summary: "the target alone, one token a pass",
        draft: DraftKind::None,
        schedule: Schedule::Alternate,
        method: Method::Tree,
        shape: None,
    },
    Strategy {
        name: "dovetail",
        summary: "the draft head's dynamic tree, sized for this machine",
        draft: DraftKind::Head,
        schedule: Schedule::Alternate,
        method: Method::Tree,
        shape: None,
    },
    Strategy {
        name: "eagle2-60",
        summary: "the draft head's tree as EAGLE-2 has it on a GPU: 60 nodes, 5 expansions",
        draft: DraftKind::Head,
        schedule: Schedule::Alternate,
        method: Method::Tree,
        shape: Some(Shape { gamma: 60, width: 10, depth: 5 }),
    },
    Strategy {
        name: "pld",
        summary: "prompt lookup: what followed the last tokens earlier in the conversation",
        draft: DraftKind::Lookup,
        schedule: Schedule::Alternate,
        method: Method::Tree,
        shape: None,
    },
];
