//! The table of strategies: who drafts, when, how the tree grows, and how much is drafted.
//!
//! A strategy is only a row of [`STRATEGIES`]: `--strategy`, the picker, `doctor`, the bench, and
//! the test that every text is the target's own all read this table. It is pure data; the worker
//! decides which rows can run with the current models.

use serde::{Deserialize, Serialize};

use super::overrides::{Setting, TreeOverrides};
use crate::speculate::{Method, Shape};

/// When drafting happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// Draft and target take turns (Dovetail).
    #[default]
    Alternate,
    /// Both work at the same time; the draft works on what may come next (DuoDecoding).
    Overlap,
}

/// Who drafts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DraftKind {
    /// Nothing is drafted.
    None,
    /// The target's draft head (DGF or EAGLE).
    Head,
    /// A separate small language model.
    Small,
    /// The conversation itself.
    Lookup,
    /// A text that the user names (REST).
    Rest,
    /// The target's own guesses in earlier passes (lookahead decoding).
    Lookahead,
    /// What followed the same phrase in the conversation.
    Suffix,
    /// What the target considered likely in the same context.
    Recycling,
    /// The previous two, in one tree.
    Context,
    /// Whichever of these, the head and the small model pays best in a round.
    Auto,
}

/// How much of a drafted tree is verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sizing {
    /// All of it: the controller chooses its size beforehand, because drafting it takes time.
    #[default]
    Before,
    /// The part that pays off according to the probabilities of its nodes, which cost almost
    /// nothing to find.
    After,
}

/// One way to decode. None of them changes the text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Strategy {
    /// The name as it is typed.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Who drafts.
    pub draft: DraftKind,
    /// When drafting happens.
    pub schedule: Schedule,
    /// How candidates are searched for.
    pub method: Method,
    /// The tree, if the strategy prescribes one; otherwise the controller chooses.
    pub shape: Option<Shape>,
    /// How much of the drafted tree is verified.
    pub sizing: Sizing,
    /// Whether it is meant for target blocks on a GPU. The other strategies run with such blocks
    /// too, if there are any.
    pub gpu_layers: bool,
    /// Whether it is meant for a target whose blocks are streamed to the GPU in every pass. The
    /// other strategies run with such a target too.
    pub streamed: bool,
}

/// The first row; the others state how they differ.
const PLAIN: Strategy = Strategy {
    name: "plain",
    summary: "the target alone, one token a pass",
    draft: DraftKind::None,
    schedule: Schedule::Alternate,
    method: Method::Tree,
    shape: None,
    sizing: Sizing::Before,
    gpu_layers: false,
    streamed: false,
};

/// Every strategy, in the order of the tables.
pub const STRATEGIES: &[Strategy] = &[
    PLAIN,
    Strategy {
        name: "auto",
        summary: "whatever drafter pays most, round by round",
        draft: DraftKind::Auto,
        schedule: Schedule::Alternate,
        method: Method::Tree,
        shape: None,
        sizing: Sizing::After,
        gpu_layers: false,
        streamed: false,
    },
    Strategy {
        name: "dovetail",
        summary: "the draft head's dynamic tree, sized for this machine",
        draft: DraftKind::Head,
        ..PLAIN
    },
    Strategy {
        name: "eagle2-60",
        summary: "EAGLE-2's tree of 60 nodes, grown by the draft head",
        draft: DraftKind::Head,
        shape: Some(Shape { gamma: 60, width: 10, depth: 5 }),
        ..PLAIN
    },
    Strategy {
        name: "small-model",
        summary: "a small language model's dynamic tree",
        draft: DraftKind::Small,
        ..PLAIN
    },
    Strategy {
        name: "sps",
        summary: "a small language model's chain of five tokens",
        draft: DraftKind::Small,
        shape: Some(Shape { gamma: 6, width: 1, depth: 4 }),
        ..PLAIN
    },
    Strategy {
        name: "duo",
        summary: "DuoDecoding: a small model drafts while the target checks",
        draft: DraftKind::Small,
        schedule: Schedule::Overlap,
        method: Method::Sequences { fixed: None },
        ..PLAIN
    },
    Strategy {
        name: "specexec",
        summary: "a small language model's best-first search, 128 nodes",
        draft: DraftKind::Small,
        method: Method::Search,
        shape: Some(Shape { gamma: 128, width: 32, depth: 31 }),
        ..PLAIN
    },
    Strategy {
        name: "pld",
        summary: "prompt lookup: what followed the last words before",
        draft: DraftKind::Lookup,
        ..PLAIN
    },
    Strategy {
        name: "rest",
        summary: "retrieval: what followed the last words in a text you name",
        draft: DraftKind::Rest,
        // 64 nodes below the root, with continuations of ten tokens.
        shape: Some(Shape { gamma: 65, width: 10, depth: 9 }),
        ..PLAIN
    },
    Strategy {
        name: "lookahead",
        summary: "the target's own guesses, iterated beside the text",
        draft: DraftKind::Lookahead,
        // The root, a window of 27 nodes, and seven guesses of four.
        shape: Some(Shape { gamma: 56, width: 7, depth: 8 }),
        ..PLAIN
    },
    Strategy {
        name: "suffix",
        summary: "what followed the same phrase before, from a suffix tree",
        draft: DraftKind::Suffix,
        sizing: Sizing::After,
        ..PLAIN
    },
    Strategy {
        name: "recycling",
        summary: "token recycling: what the target held likely before",
        draft: DraftKind::Recycling,
        sizing: Sizing::After,
        ..PLAIN
    },
    Strategy {
        name: "context",
        summary: "suffix and recycling in one tree, as much as pays",
        draft: DraftKind::Context,
        sizing: Sizing::After,
        ..PLAIN
    },
    Strategy {
        name: "offload",
        summary: "the target alone on the GPU, its blocks streamed each pass",
        streamed: true,
        ..PLAIN
    },
    Strategy {
        name: "partial-plain",
        summary: "the target alone, as many of its blocks on the GPU as fit",
        gpu_layers: true,
        ..PLAIN
    },
    Strategy {
        name: "partial",
        summary: "the draft head's tree, target blocks in what VRAM is left",
        draft: DraftKind::Head,
        gpu_layers: true,
        ..PLAIN
    },
];

impl Strategy {
    /// The strategy with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        STRATEGIES.iter().find(|strategy| strategy.name == name)
    }

    /// The default strategy.
    pub fn automatic() -> &'static Self {
        Self::first_with(DraftKind::Auto)
    }

    /// Whether its budgets are those of a dynamic tree that is sized before it is drafted, like
    /// those of the model drafters that `auto` chooses from.
    pub fn is_own_tree(&self) -> bool {
        self.shape.is_none()
            && self.method == Method::Tree
            && self.sizing == Sizing::Before
            && !self.gpu_layers
    }

    /// Whether the target has the GPU to itself: nothing drafts there if this strategy was
    /// requested.
    pub fn leaves_gpu_to_target(&self) -> bool {
        self.streamed || (self.gpu_layers && self.draft == DraftKind::None)
    }

    /// The first strategy in the table that drafts in this way.
    pub fn first_with(kind: DraftKind) -> &'static Self {
        // The table's first row is used if a kind should ever have no row.
        STRATEGIES.iter().find(|strategy| strategy.draft == kind).unwrap_or(&STRATEGIES[0])
    }

    /// The most similar name, if one is close to `name`.
    pub fn nearest(name: &str) -> Option<&'static str> {
        STRATEGIES
            .iter()
            .map(|strategy| {
                (strsim::normalized_damerau_levenshtein(name, strategy.name), strategy.name)
            })
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .filter(|(likeness, _)| *likeness >= 0.5)
            .map(|(_, name)| name)
    }

    /// All names, for display.
    pub fn names() -> String {
        STRATEGIES.iter().map(|strategy| strategy.name).collect::<Vec<_>>().join(", ")
    }

    /// When drafting happens: as the strategy says, or at the same time as the target if the user
    /// wants that and the drafter is a model that takes time.
    pub fn schedule_with(&self, overlap: bool) -> Schedule {
        match self.draft {
            DraftKind::Head | DraftKind::Small | DraftKind::Auto if overlap => Schedule::Overlap,
            _ => self.schedule,
        }
    }

    /// How candidates are searched for: as the strategy says; a width that the user has fixed
    /// becomes the number of sequences.
    pub fn method_with(&self, user: &TreeOverrides) -> Method {
        match (self.method, user.width) {
            (Method::Sequences { fixed: None }, Setting::Fixed(k)) => {
                Method::Sequences { fixed: Some(k) }
            }
            (method, _) => method,
        }
    }

    /// What is fixed in a round: the user's own values, then the strategy's size.
    pub fn overrides(&self, user: &TreeOverrides) -> TreeOverrides {
        let Some(shape) = self.shape else { return *user };
        let held = |setting: Setting, own: usize| Setting::Fixed(setting.or(own));
        TreeOverrides {
            gamma: held(user.gamma, shape.gamma),
            width: held(user.width, shape.width),
            depth: held(user.depth, shape.depth),
            blocks: user.blocks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for (index, strategy) in STRATEGIES.iter().enumerate() {
            assert_eq!(Strategy::named(strategy.name), Some(strategy));
            assert!(STRATEGIES[index + 1..].iter().all(|other| other.name != strategy.name));
            assert!(strategy.summary.chars().count() <= 58, "{}", strategy.name);
        }
        assert_eq!(Strategy::nearest("dovetial"), Some("dovetail"));
        assert_eq!(Strategy::nearest("quantum"), None);
    }

    #[test]
    fn a_published_size_gives_way_to_fixed_values() {
        let eagle = Strategy::named("eagle2-60").unwrap();
        let user = TreeOverrides { gamma: Setting::Fixed(9), ..TreeOverrides::default() };
        let overrides = eagle.overrides(&user);
        assert_eq!((overrides.gamma, overrides.depth), (Setting::Fixed(9), Setting::Fixed(5)));
        assert_eq!(overrides.blocks, Setting::Auto);
        assert_eq!(Strategy::named("dovetail").unwrap().overrides(&user), user);
    }

    #[test]
    fn a_fixed_width_is_the_number_of_sequences_where_there_are_some() {
        let user = TreeOverrides { width: Setting::Fixed(3), ..TreeOverrides::default() };
        let method = |name: &str, overrides: &TreeOverrides| {
            Strategy::named(name).unwrap().method_with(overrides)
        };
        assert_eq!(method("duo", &user), Method::Sequences { fixed: Some(3) });
        assert_eq!(method("duo", &TreeOverrides::default()), Method::Sequences { fixed: None });
        assert_eq!(method("small-model", &user), Method::Tree);
    }

    #[test]
    fn the_default_chooses_among_the_models_own_trees() {
        assert_eq!(Strategy::automatic().name, "auto");
        let own = |row: &&Strategy| {
            matches!(row.draft, DraftKind::Head | DraftKind::Small) && row.is_own_tree()
        };
        let names: Vec<_> = STRATEGIES.iter().filter(own).map(|row| row.name).collect();
        assert_eq!(names, ["dovetail", "small-model"]);
    }
}
