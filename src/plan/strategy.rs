//! The table of strategies: who drafts, when, how the tree grows, and how much is drafted.
//!
//! A strategy is only a row of [`STRATEGIES`]: `--strategy`, the picker, `doctor`, the bench, and
//! the test that every text is the target's own all read this table. It is pure data; the worker
//! decides which rows can run with the current models.

use super::overrides::{Setting, TreeOverrides};
use crate::nearest::nearest;
use crate::speculate::{DrafterId, Method, Shape};

/// When drafting happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// Draft and target take turns (Dovetail).
    #[default]
    Alternate,
    /// Both work at the same time; the draft works on what may come next (DuoDecoding).
    Overlap,
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
    /// What drafts and how, in a line.
    pub summary: &'static str,
    /// The paper or program that it comes from; empty if that is none.
    pub origin: &'static str,
    /// Who drafts.
    pub draft: DrafterId,
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
    summary: "the target alone, one token per pass",
    origin: "",
    draft: DrafterId::None,
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
        summary: "each round, the fastest source: context, model or nothing",
        draft: DrafterId::Auto,
        sizing: Sizing::After,
        ..PLAIN
    },
    Strategy {
        name: "dovetail",
        summary: "the draft head's dynamic tree, sized for this machine",
        origin: "Dovetail",
        draft: DrafterId::Head,
        ..PLAIN
    },
    Strategy {
        name: "eagle2-60",
        summary: "EAGLE-2's tree of 60 nodes, grown by the draft head",
        origin: "EAGLE-2",
        draft: DrafterId::Head,
        shape: Some(Shape { gamma: 60, width: 10, depth: 5 }),
        ..PLAIN
    },
    Strategy {
        name: "dflash",
        summary: "a DFlash drafter's most probable tree, from one pass",
        origin: "DFlash, DDTree",
        draft: DrafterId::Dflash,
        ..PLAIN
    },
    Strategy {
        name: "small-model",
        summary: "a small model's dynamic tree",
        draft: DrafterId::SmallModel,
        ..PLAIN
    },
    Strategy {
        name: "sps",
        summary: "a small model's chain of up to five tokens",
        origin: "speculative sampling",
        draft: DrafterId::SmallModel,
        shape: Some(Shape { gamma: 6, width: 1, depth: 4 }),
        ..PLAIN
    },
    Strategy {
        name: "duo",
        summary: "DuoDecoding: a small model drafts as the target verifies",
        origin: "DuoDecoding",
        draft: DrafterId::SmallModel,
        schedule: Schedule::Overlap,
        method: Method::Sequences { fixed: None },
        ..PLAIN
    },
    Strategy {
        name: "specexec",
        summary: "a small model's best-first search, 128 nodes",
        origin: "SpecExec",
        draft: DrafterId::SmallModel,
        method: Method::Search,
        shape: Some(Shape { gamma: 128, width: 32, depth: 31 }),
        ..PLAIN
    },
    Strategy {
        name: "pld",
        summary: "prompt lookup: what followed the same words earlier",
        origin: "prompt lookup decoding",
        draft: DrafterId::Lookup,
        ..PLAIN
    },
    Strategy {
        name: "rest",
        summary: "retrieval: what followed the last words in a text of yours",
        origin: "REST",
        draft: DrafterId::Retrieval,
        // 64 nodes below the root, with continuations of ten tokens.
        shape: Some(Shape { gamma: 65, width: 10, depth: 9 }),
        ..PLAIN
    },
    Strategy {
        name: "lookahead",
        summary: "the target's own guesses, refined in every pass",
        origin: "lookahead decoding",
        draft: DrafterId::Lookahead,
        // The root, a window of 27 nodes, and seven guesses of four.
        shape: Some(Shape { gamma: 56, width: 7, depth: 8 }),
        ..PLAIN
    },
    Strategy {
        name: "suffix",
        summary: "what followed the same phrase earlier, from a suffix tree",
        origin: "SAM decoding, SuffixDecoding",
        draft: DrafterId::Suffix,
        sizing: Sizing::After,
        ..PLAIN
    },
    Strategy {
        name: "recycling",
        summary: "token recycling: what the target found likely before",
        origin: "token recycling",
        draft: DrafterId::Recycling,
        sizing: Sizing::After,
        ..PLAIN
    },
    Strategy {
        name: "context",
        summary: "suffix and recycling in one tree, as much of it as pays",
        draft: DrafterId::Context,
        sizing: Sizing::After,
        ..PLAIN
    },
    Strategy {
        name: "offload",
        summary: "the target alone on the GPU, its blocks streamed each pass",
        origin: "the papers' baseline",
        streamed: true,
        ..PLAIN
    },
    Strategy {
        name: "partial-plain",
        summary: "the target alone, as many of its blocks on the GPU as fit",
        origin: "Dovetail's partial offload",
        gpu_layers: true,
        ..PLAIN
    },
    Strategy {
        name: "partial",
        summary: "the draft head's tree, target blocks in the remaining VRAM",
        origin: "Dovetail's partial offload",
        draft: DrafterId::Head,
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
        Self::first_with(DrafterId::Auto)
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
        self.streamed || (self.gpu_layers && self.draft == DrafterId::None)
    }

    /// The first strategy in the table that drafts in this way.
    pub fn first_with(kind: DrafterId) -> &'static Self {
        // The table's first row is used if a kind should ever have no row.
        STRATEGIES.iter().find(|strategy| strategy.draft == kind).unwrap_or(&STRATEGIES[0])
    }

    /// The most similar name, if one is close to `name`.
    pub fn nearest(name: &str) -> Option<&'static str> {
        nearest(name, STRATEGIES.iter().map(|strategy| strategy.name), 0.5)
    }

    /// All names, for display.
    pub fn names() -> String {
        STRATEGIES.iter().map(|strategy| strategy.name).collect::<Vec<_>>().join(", ")
    }

    /// When drafting happens: as the strategy says, or at the same time as the target if the user
    /// wants that and the drafter is a model that takes time.
    pub fn schedule_with(&self, overlap: bool) -> Schedule {
        match self.draft {
            drafter if overlap && (drafter.is_model() || drafter == DrafterId::Auto) => {
                Schedule::Overlap
            }
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
            ..*user
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
        let own = |row: &&Strategy| row.draft.is_model() && row.is_own_tree();
        let names: Vec<_> = STRATEGIES.iter().filter(own).map(|row| row.name).collect();
        assert_eq!(names, ["dovetail", "dflash", "small-model"]);
    }
}
