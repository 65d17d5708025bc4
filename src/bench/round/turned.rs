//! What is turned beside γ: the blocks of a head, or how wide a small model drafts; and the budget
//! that both make. Must never know times.

use serde::Serialize;

use crate::plan::{Setting, Strategy, TreeOverrides};
use crate::speculate::duo::{MOST_SEQUENCES, divisor};
use crate::speculate::{Budget, Method, Shape};

/// A row of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Turned {
    /// M: blocks of a head; 0 for a draft that has none.
    Blocks(usize),
    /// k: candidates a node of a small model's tree has, or its sequences (DuoDecoding).
    Width(usize),
}

impl Turned {
    /// M or k itself.
    pub fn value(self) -> usize {
        let (Self::Blocks(value) | Self::Width(value)) = self;
        value
    }

    /// How it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Blocks(_) => "M",
            Self::Width(_) => "k",
        }
    }

    /// What `strategy` may spend with γ of at least 2, and width and depth where nothing else says
    /// them; `None` where γ is no multiple of the sequences that are to share it.
    pub fn budget(
        self,
        strategy: &Strategy,
        gamma: usize,
        shape: (usize, usize),
    ) -> Option<Budget> {
        let (width, depth) = shape;
        let chain = gamma.saturating_sub(2);
        let k = match self {
            Self::Blocks(blocks) => {
                return Some(Budget::new(Shape { gamma, width, depth }, blocks));
            }
            Self::Width(k) => k,
        };
        let (method, width, depth) = match strategy.method {
            Method::Tree if k == 1 => (Method::Tree, 1, chain),
            Method::Tree => (Method::Tree, k, depth),
            Method::Search => (Method::Search, k, strategy.shape.map_or(depth, |own| own.depth)),
            Method::Sequences { .. } if divisor(gamma, k) != k => return None,
            Method::Sequences { .. } => {
                (Method::Sequences { fixed: Some(k) }, MOST_SEQUENCES, chain)
            }
        };
        Some(Budget { shape: Shape { gamma, width, depth }, blocks: 0, method })
    }

    /// The same, as a user would fix it.
    pub fn overrides(self, budget: &Budget) -> TreeOverrides {
        let fixed = Setting::Fixed;
        let Shape { gamma, width, depth } = budget.shape;
        let sequences = matches!(budget.method, Method::Sequences { .. });
        TreeOverrides {
            gamma: fixed(gamma),
            blocks: match self {
                Self::Blocks(blocks) if blocks > 0 => fixed(blocks),
                _ => Setting::Auto,
            },
            width: fixed(if sequences { self.value() } else { width }),
            depth: if sequences { Setting::Auto } else { fixed(depth) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(name: &str, turned: Turned, gamma: usize) -> Option<(usize, usize, usize)> {
        let budget = turned.budget(Strategy::named(name).unwrap(), gamma, (10, 7))?;
        let Shape { gamma, width, depth } = budget.shape;
        Some((gamma, width, depth))
    }

    #[test]
    fn each_strategy_spends_in_its_own_way() {
        assert_eq!(shape("dovetail", Turned::Blocks(2), 16), Some((16, 10, 7)));
        assert_eq!(shape("small-model", Turned::Width(4), 16), Some((16, 4, 7)));
        // A chain of five tokens, as the strategy itself has it.
        let sps = Strategy::named("sps").unwrap().shape.unwrap();
        assert_eq!(shape("sps", Turned::Width(1), 6), Some((sps.gamma, sps.width, sps.depth)));
        assert_eq!(shape("specexec", Turned::Width(32), 64), Some((64, 32, 31)));
        assert_eq!(shape("duo", Turned::Width(3), 12), Some((12, MOST_SEQUENCES, 10)));
        assert_eq!(shape("duo", Turned::Width(3), 8), None, "8 tokens are not three times as many");
    }

    #[test]
    fn what_is_timed_is_what_a_user_would_fix() {
        for (name, turned) in [
            ("dovetail", Turned::Blocks(2)),
            ("small-model", Turned::Width(4)),
            ("sps", Turned::Width(1)),
            ("specexec", Turned::Width(32)),
            ("duo", Turned::Width(3)),
        ] {
            let strategy = Strategy::named(name).unwrap();
            let budget = turned.budget(strategy, 12, (10, 7)).unwrap();
            let user = turned.overrides(&budget);
            let fixed = strategy.overrides(&user);
            assert_eq!(strategy.method_with(&user), budget.method, "{name}");
            assert_eq!(fixed.gamma, Setting::Fixed(12));
            if !matches!(budget.method, Method::Sequences { .. }) {
                let of = (budget.shape.width, budget.shape.depth);
                assert_eq!((fixed.width.or(0), fixed.depth.or(0)), of, "{name}");
            }
        }
    }
}
