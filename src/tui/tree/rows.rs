//! A round's tree as rows: one node a row, the accepted path first at every fork, so that it is at
//! the top and reads downwards. Must never know colours.

use crate::decode::Round;
use crate::overlap::{OutcomeRecord, PendingRound, SequencesRecord};
use crate::printable::visible;
use crate::speculate::Tree;

/// What of a tree is hidden.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fold {
    /// Nothing where there is room, else dead branches.
    #[default]
    Fit,
    /// Whatever hangs below a rejected node.
    Branches,
    Nothing,
    /// All rejected nodes.
    Path,
}

impl Fold {
    /// The one after this.
    pub fn next(self) -> Self {
        match self {
            Self::Fit => Self::Nothing,
            Self::Nothing => Self::Branches,
            Self::Branches => Self::Path,
            Self::Path => Self::Fit,
        }
    }

    /// For the panel.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fit => "as much as fits",
            Self::Branches => "dead branches folded",
            Self::Nothing => "all nodes",
            Self::Path => "accepted path only",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeOutcome {
    /// The last committed token: known before the round.
    Root,
    /// Drafted and accepted.
    Accepted,
    /// The bonus token: not in the tree, chosen by the target after the accepted path.
    Target,
    /// Drafted and rejected.
    Rejected,
    /// A whole sequence that was drafted ahead, while the target verified the tree, and then not
    /// used; or an outcome that did not come.
    Ahead,
    /// The sequence drafted ahead that the next round continues; or the outcome that came.
    Adopted,
    /// Drafted, and being verified: not judged yet.
    Pending,
}

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeRow {
    /// Tree lines before the glyph.
    pub lines: String,
    pub outcome: NodeOutcome,
    /// Its token, whitespace made visible; all tokens of a sequence that was drafted ahead.
    pub label: String,
    /// The draft's probability of it after its parent; `None` for root and target. Of a sequence
    /// that of its first token, since the target's own choice of that decides about it.
    pub probability: Option<f32>,
    /// Nodes hidden below it (or next to it, if only the path is shown).
    pub hidden: usize,
}

/// Levels that are set off from each other; in a higher tree, only children run straight down, or a
/// chain would leave the panel at its right.
const STEEP: usize = 9;

/// The rows of `round` for a panel of `fit` rows; there may be more than that.
pub fn tree_rows(round: &Round, fold: Fold, fit: usize) -> Vec<TreeRow> {
    let Round { tree, labels, ahead, outcomes, .. } = round;
    TreeWalk::new(tree, labels, Some(round), fold).rows(ahead.as_ref(), outcomes, fit)
}

/// The rows of a round that is being verified, for a panel of `fit` rows. Tokens that follow each
/// other and have no room for a row each share one, as those of a sequence do: the sequences, which
/// grow, are below.
pub fn pending_rows(round: &PendingRound, fold: Fold, fit: usize) -> Vec<TreeRow> {
    let PendingRound { tree, labels, ahead, outcomes, .. } = round;
    let mut rows = TreeWalk::new(tree, labels, None, fold).rows(Some(ahead), outcomes, fit);
    let is_chain = tree.height() + 1 == tree.len();
    if fold == Fold::Fit && is_chain && tree.len() > 2 && rows.len() > fit {
        let labels = rows[1..tree.len()].iter().map(|row| row.label.as_str()).collect();
        rows[1] = TreeRow { lines: "╰╴".to_owned(), label: labels, ..rows[1].clone() };
        rows.drain(2..tree.len());
    }
    rows
}

/// A tree that was drafted ahead, in a row: the path and the token that it was drafted for, and
/// after `⋯` its likeliest path; its other nodes are hidden. The probability is the outcome's.
fn outcome_row(tree: &Tree, labels: &[String], outcome: &OutcomeRecord) -> TreeRow {
    let mut path: Vec<usize> = tree.ancestors(outcome.node).filter(|&node| node != 0).collect();
    path.reverse();
    let text = |labels: &[String], nodes: &[usize]| -> String {
        let labels = nodes.iter().filter_map(|&node| labels.get(node));
        labels.map(|label| visible(label)).collect()
    };
    let nodes = outcome.tree.nodes();
    let likeliest = |&node: &usize| {
        let children = outcome.tree.children(node);
        children.max_by(|&a, &b| nodes[a].log_prob.total_cmp(&nodes[b].log_prob).then(b.cmp(&a)))
    };
    let behind: Vec<usize> = std::iter::successors(likeliest(&0), likeliest).collect();
    let mut label = text(labels, &path) + &text(&outcome.labels, &[0]);
    if !behind.is_empty() {
        label.push_str(&format!(" ⋯ {}", text(&outcome.labels, &behind)));
    }
    let hidden = outcome.tree.len().saturating_sub(1 + behind.len());
    TreeRow { hidden, ..row_ahead(outcome.came, label, Some(outcome.log_prob)) }
}

/// A row of what was drafted ahead, set off from the tree.
fn row_ahead(adopted: bool, label: String, log_prob: Option<f32>) -> TreeRow {
    let outcome = if adopted { NodeOutcome::Adopted } else { NodeOutcome::Ahead };
    let probability = log_prob.map(f32::exp);
    TreeRow { lines: "╎ ".to_owned(), outcome, label, probability, hidden: 0 }
}

/// A tree, what is known of it, and what of it is shown.
struct TreeWalk<'a> {
    tree: &'a Tree,
    labels: &'a [String],
    /// What came of it; `None` while it is being verified.
    judged: Option<&'a Round>,
    fold: Fold,
    /// The accepted nodes.
    path: &'a [usize],
    /// Whether an only child stands right below its parent.
    straight: bool,
}

impl<'a> TreeWalk<'a> {
    fn new(tree: &'a Tree, labels: &'a [String], judged: Option<&'a Round>, fold: Fold) -> Self {
        let path = judged.map_or(&[][..], |round| &round.accepted);
        Self { tree, labels, judged, fold, path, straight: tree.height() > STEEP }
    }

    /// Its rows and those of what was drafted ahead, for a panel of `fit` rows.
    fn rows(
        mut self,
        ahead: Option<&SequencesRecord>,
        outcomes: &[OutcomeRecord],
        fit: usize,
    ) -> Vec<TreeRow> {
        // Every node has a row, and so have what the target chose and what was drafted ahead.
        let beside = ahead.map_or(0, SequencesRecord::k) + outcomes.len();
        self.fold = match self.fold {
            Fold::Fit if self.tree.len() + beside < fit => Fold::Nothing,
            Fold::Fit => Fold::Branches,
            fold => fold,
        };
        let mut rows = Vec::new();
        self.node(0, "", "", &mut rows);
        let sequences = ahead.iter().flat_map(|ahead| {
            ahead.sequences.iter().enumerate().map(|(at, sequence)| {
                let label = sequence.iter().map(|token| visible(&token.label)).collect();
                let log_prob = sequence.first().map(|first| first.log_prob);
                row_ahead(ahead.adopted == Some(at), label, log_prob)
            })
        });
        let outcomes = outcomes.iter().map(|outcome| outcome_row(self.tree, self.labels, outcome));
        let seen = |row: &TreeRow| self.fold != Fold::Path || row.outcome == NodeOutcome::Adopted;
        rows.extend(sequences.chain(outcomes).filter(seen));
        rows
    }

    /// The accepted child first, then by probability. Where an accepted token ended the answer,
    /// there is nothing after it: nodes that the draft hung there were never reached.
    fn children(&self, index: usize) -> Vec<usize> {
        let Self { tree, judged, .. } = *self;
        if self.is_end(index) && judged.is_some_and(|round| !round.has_bonus()) {
            return Vec::new();
        }
        let mut children: Vec<usize> = tree.children(index).collect();
        children.sort_by(|a, b| {
            let accepted = self.path.contains(b).cmp(&self.path.contains(a));
            let likelier = tree.nodes()[*b].log_prob.total_cmp(&tree.nodes()[*a].log_prob);
            accepted.then(likelier).then(b.cmp(a))
        });
        children
    }

    /// Whether it is the last accepted node.
    fn is_end(&self, index: usize) -> bool {
        index == self.path.last().copied().unwrap_or(0)
    }

    /// Nodes of the branch that begins with it.
    fn size(&self, index: usize) -> usize {
        self.children(index).into_iter().map(|child| self.size(child)).sum::<usize>() + 1
    }

    fn node(&self, index: usize, lead: &str, below: &str, rows: &mut Vec<TreeRow>) {
        let Self { tree, labels, judged, .. } = *self;
        let outcome = match judged {
            _ if index == 0 => NodeOutcome::Root,
            None => NodeOutcome::Pending,
            Some(_) if self.path.contains(&index) => NodeOutcome::Accepted,
            Some(_) => NodeOutcome::Rejected,
        };
        let is_shown = |child: &usize| match self.fold {
            Fold::Nothing | Fold::Fit => true,
            Fold::Branches => outcome != NodeOutcome::Rejected,
            Fold::Path => judged.is_none() || self.path.contains(child),
        };
        let (shown, hidden): (Vec<usize>, Vec<usize>) =
            self.children(index).into_iter().partition(is_shown);
        rows.push(TreeRow {
            lines: lead.to_string(),
            outcome,
            label: visible(labels.get(index).map_or("", String::as_str)),
            probability: (index > 0).then(|| tree.nodes()[index].log_prob.exp()),
            hidden: hidden.into_iter().map(|child| self.size(child)).sum(),
        });
        let bonus = judged.filter(|round| self.is_end(index) && round.has_bonus());
        if let Some(round) = bonus {
            rows.push(TreeRow {
                lines: branch(below, shown.is_empty()).0,
                outcome: NodeOutcome::Target,
                label: visible(&round.bonus_label),
                probability: None,
                hidden: 0,
            });
        }
        if self.straight && bonus.is_none() && shown.len() == 1 {
            return self.node(shown[0], below, below, rows);
        }
        for (at, &child) in shown.iter().enumerate() {
            let (tee, bar) = branch(below, at + 1 == shown.len());
            self.node(child, &tee, &bar, rows);
        }
    }
}

fn branch(below: &str, last: bool) -> (String, String) {
    let (tee, bar) = if last { ("╰╴", "  ") } else { ("├╴", "│ ") };
    (format!("{below}{tee}"), format!("{below}{bar}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlap::sequences_for_tests as ahead;
    use crate::tui::tests::round_of;

    fn fork() -> Round {
        // root ─ the(accepted) ─ cat(accepted) ─ sat
        //      │               ╰ dog ─ ran
        //      ╰ a ─ bird
        round_of(
            &[
                ("<s>", 0, 1.0),
                (" the", 0, 0.6),
                (" a", 0, 0.3),
                (" cat", 1, 0.5),
                (" dog", 1, 0.4),
                (" bird", 2, 0.9),
                (" sat", 3, 0.2),
                (" ran", 4, 0.7),
            ],
            &[1, 3],
            "\n",
        )
    }

    fn sketch(rows: Vec<TreeRow>) -> Vec<String> {
        let row = |row: TreeRow| {
            let mark = match row.outcome {
                NodeOutcome::Root => '○',
                NodeOutcome::Accepted => '●',
                NodeOutcome::Target => '◆',
                NodeOutcome::Rejected => '×',
                NodeOutcome::Ahead => '·',
                NodeOutcome::Adopted => '→',
                NodeOutcome::Pending => '?',
            };
            let hidden = if row.hidden > 0 { format!(" +{}", row.hidden) } else { String::new() };
            format!("{}{mark} {}{hidden}", row.lines, row.label)
        };
        rows.into_iter().map(row).collect()
    }

    fn sketch_of(round: &Round, fold: Fold, fit: usize) -> Vec<String> {
        sketch(tree_rows(round, fold, fit))
    }

    #[test]
    fn the_path_comes_first_and_dead_branches_fold() {
        assert_eq!(
            sketch_of(&fork(), Fold::Branches, 0),
            [
                "○ <s>",
                "├╴● ␣the",
                "│ ├╴● ␣cat",
                "│ │ ├╴◆ ⏎",
                "│ │ ╰╴× ␣sat",
                "│ ╰╴× ␣dog +1",
                "╰╴× ␣a +1"
            ]
        );
        assert_eq!(sketch_of(&fork(), Fold::Nothing, 0).len(), 9);
        assert_eq!(sketch_of(&fork(), Fold::Fit, 9), sketch_of(&fork(), Fold::Nothing, 0));
        assert_eq!(sketch_of(&fork(), Fold::Fit, 8), sketch_of(&fork(), Fold::Branches, 0));
        assert_eq!(
            sketch_of(&fork(), Fold::Path, 0),
            ["○ <s> +2", "╰╴● ␣the +2", "  ╰╴● ␣cat +1", "    ╰╴◆ ⏎"]
        );
    }

    #[test]
    fn what_was_drafted_ahead_stands_below_the_tree() {
        let outcome = |node, came| {
            let nodes = [(" on", 0, 1.0), (" the", 0, 0.7), (" a", 0, 0.2), (" mat", 1, 0.5)];
            let Round { tree, labels, .. } = round_of(&nodes, &[], "");
            OutcomeRecord { node, log_prob: 0.25f32.ln(), tree, labels, came }
        };
        let trees = Round { outcomes: vec![outcome(0, false), outcome(3, true)], ..fork() };
        let rows = tree_rows(&trees, Fold::Path, 0);
        assert_eq!(rows.last().unwrap().probability, Some(0.25), "the outcome's own");
        let sequences = Some(ahead(6, &[&[7, 8, 9], &[900, 4, 5]], Some(1)));
        // A tree is listed by what it was drafted for.
        for (round, below) in [
            (trees, ["╎ · ␣on ⋯ ␣the␣mat +1", "╎ → ␣the␣cat␣on ⋯ ␣the␣mat +1"]),
            (Round { ahead: sequences, ..fork() }, ["╎ · <7><8><9>", "╎ → <900><4><5>"]),
        ] {
            let all = sketch_of(&round, Fold::Nothing, 0);
            assert_eq!(all[..9], sketch_of(&fork(), Fold::Nothing, 0)[..]);
            assert_eq!(all[9..], below);
            assert_eq!(sketch_of(&round, Fold::Path, 0)[4..], below[1..]);
            // They need room as nodes do.
            assert_eq!(sketch_of(&round, Fold::Fit, 11), all);
            assert_eq!(sketch_of(&round, Fold::Fit, 10).len(), 9);
        }
    }

    #[test]
    fn the_tree_ends_at_an_accepted_end_of_text() {
        let nodes = [
            ("<s>", 0, 1.0),
            (" bye", 0, 0.6),
            ("<|im_end|>", 1, 0.5),
            (" and", 1, 0.4),
            (" so", 2, 0.9),
            (" on", 4, 0.7),
        ];
        let mut round = round_of(&nodes, &[1, 2], " never");
        round.committed.pop();
        let all = ["○ <s>", "╰╴● ␣bye", "  ├╴● <|im_end|>", "  ╰╴× ␣and"];
        assert_eq!(sketch_of(&round, Fold::Nothing, 20), all);
        let path = ["○ <s>", "╰╴● ␣bye +1", "  ╰╴● <|im_end|>"];
        assert_eq!(sketch_of(&round, Fold::Path, 20), path);
    }

    #[test]
    fn a_long_chain_runs_straight_down() {
        let mut nodes = vec![("root", 0, 1.0)];
        nodes.extend((0..30).map(|at| ("next", at, 0.9)));
        let round = round_of(&nodes, &[1, 2], "end");
        let rows = tree_rows(&round, Fold::Nothing, 40);
        assert_eq!(rows.len(), 32);
        assert_eq!(rows[1].lines, "");
        assert_eq!((rows[3].outcome, rows[3].lines.as_str()), (NodeOutcome::Target, "├╴"));
        assert_eq!(rows[4].lines, "╰╴");
        assert!(rows[5..].iter().all(|row| row.lines == "  "), "{rows:?}");
    }

    fn verifying(nodes: &[(&str, usize, f32)]) -> PendingRound {
        let Round { tree, labels, .. } = round_of(nodes, &[], "");
        let ahead = ahead(6, &[&[7, 8], &[900]], None);
        PendingRound { index: 3, tree, labels, ahead, outcomes: Vec::new() }
    }

    fn sketch_pending(round: &PendingRound, fold: Fold, fit: usize) -> Vec<String> {
        sketch(pending_rows(round, fold, fit))
    }

    #[test]
    fn a_tree_that_is_being_verified_has_no_outcome() {
        let round = verifying(&[
            ("<s>", 0, 1.0),
            (" the", 0, 0.6),
            (" a", 0, 0.3),
            (" cat", 1, 0.5),
            (" dog", 1, 0.4),
        ]);
        let all = ["○ <s>", "├╴? ␣the", "│ ├╴? ␣cat", "│ ╰╴? ␣dog", "╰╴? ␣a"];
        let ahead = ["╎ · <7><8>", "╎ · <900>"];
        assert_eq!(sketch_pending(&round, Fold::Fit, 20), [&all[..], &ahead].concat());
        // No branch is dead yet, and none of the sequences is on the path.
        for (fold, fit) in [(Fold::Fit, 3), (Fold::Branches, 20), (Fold::Nothing, 3)] {
            assert_eq!(sketch_pending(&round, fold, fit), sketch_pending(&round, Fold::Fit, 20));
        }
        assert_eq!(sketch_pending(&round, Fold::Path, 20), all);
    }

    #[test]
    fn a_chain_leaves_room_for_the_sequences() {
        let round =
            verifying(&[("<s>", 0, 1.0), (" the", 0, 0.6), (" cat", 1, 0.5), ("!", 2, 0.4)]);
        let ahead = ["╎ · <7><8>", "╎ · <900>"];
        let all = ["○ <s>", "╰╴? ␣the", "  ╰╴? ␣cat", "    ╰╴? !"];
        assert_eq!(sketch_pending(&round, Fold::Fit, 6), [&all[..], &ahead].concat());
        let short = ["○ <s>", "╰╴? ␣the␣cat!"];
        assert_eq!(sketch_pending(&round, Fold::Fit, 5), [&short[..], &ahead].concat());
        assert_eq!(pending_rows(&round, Fold::Fit, 5)[1].probability, Some(0.6));
        // With all nodes shown, each has a row.
        assert_eq!(sketch_pending(&round, Fold::Nothing, 5), [&all[..], &ahead].concat());
    }
}
