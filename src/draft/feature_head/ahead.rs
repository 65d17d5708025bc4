//! Growing the next round's trees while the target checks this one (`--overlap`).
//!
//! A round ends somewhere in its tree and with a token that the tree does not hold there: an
//! outcome. The head knows the outcomes' probabilities by its own lights: that of a node, the
//! product down to it, times that of a token below it. From the likeliest on, each gets the tree
//! that would be grown if it came, with the head's own outputs in the place of the target's
//! features. Its rows are scratch rows behind those of the tree itself: since a level's rows are
//! the pairs (own output, token) already, the tree of an outcome is nothing but this tree grown
//! further. When the target has spoken, the tree of what came is taken as it is and the rest is
//! dropped; the target's true features are caught up with beside its next pass.

use std::sync::atomic::{AtomicBool, Ordering};

use super::FeatureHead;
use super::forest::Sprout;
use crate::draft::{Ask, Budget};
use crate::model::head::HeadError;
use crate::speculate::{SamplerSettings, Tree};

/// Outcomes that trees are grown for: each takes as long as drafting in turn does.
const OUTCOMES: usize = 4;

/// Trees for what may come.
#[derive(Debug)]
pub(super) struct Foreseen {
    /// Pairs observed before the outcomes.
    pairs: usize,
    budget: Budget,
    coupled: Option<SamplerSettings>,
    outcomes: Vec<Outcome>,
}

#[derive(Debug)]
struct Outcome {
    /// The tokens it commits: accepted ones, then the next root.
    tokens: Vec<u32>,
    /// The tree below the last of them.
    sprout: Sprout,
}

/// A step that the target may take.
struct Guess {
    /// Log-probability, from the root on.
    score: f32,
    /// The node up to which the tree is right.
    node: usize,
    /// How it goes on from there: with another token than the node's children hold, which makes an
    /// outcome. `None`: not decided, the node only is accepted.
    token: Option<u32>,
    /// The row of `node` where a token follows, of its parent where none does; `None` is the root.
    row: Option<usize>,
}

impl FeatureHead {
    /// Outcomes that trees are ready for: the tokens that each commits after the last pair.
    pub fn foreseen(&self) -> impl Iterator<Item = &[u32]> {
        let outcomes = self.foreseen.iter().flat_map(|foreseen| &foreseen.outcomes);
        outcomes.map(|outcome| outcome.tokens.as_slice())
    }

    /// Grows trees for the likeliest outcomes of `tree` until told to stop.
    pub(super) fn foresee(
        &mut self,
        tree: &Tree,
        ask: &Ask<'_>,
        stop: &AtomicBool,
    ) -> Result<(), HeadError> {
        self.settle(ask)?;
        self.foreseen = Some(Foreseen {
            pairs: self.tokens.len(),
            budget: *ask.budget,
            coupled: ask.coupling.map(|coupling| coupling.sampler),
            outcomes: Vec::new(),
        });
        let mut guesses = Vec::new();
        self.accept(tree, 0, None, &mut guesses);
        let mut grown = 0;
        while grown < OUTCOMES && !stop.load(Ordering::Acquire) {
            let likelier = |a: &Guess, b: &Guess| a.score.total_cmp(&b.score);
            let best = (0..guesses.len()).max_by(|&a, &b| likelier(&guesses[a], &guesses[b]));
            let Some(best) = best else { break };
            let Guess { node, token, row, .. } = guesses.swap_remove(best);
            let depth = tree.nodes()[node].depth;
            let Some(bonus) = token else {
                let Some(row) = self.run(tree.nodes()[node].token, row, ask, depth)? else { break };
                self.accept(tree, node, Some(row), &mut guesses);
                continue;
            };
            let Some(row) = self.run(bonus, row, ask, depth + 1)? else { break };
            let growth = ask.growth(self.forest.children(Some(row)));
            let mut sprout = Sprout::new(growth, Some(row));
            while !sprout.growth.beam().is_empty() && !stop.load(Ordering::Acquire) {
                self.advance(&mut sprout, ask, depth + 1)?;
            }
            let mut tokens: Vec<u32> =
                tree.ancestors(node).map(|node| tree.nodes()[node].token).collect();
            tokens.pop(); // the root is committed
            tokens.reverse();
            tokens.push(bonus);
            if let Some(foreseen) = &mut self.foreseen {
                foreseen.outcomes.push(Outcome { tokens, sprout });
            }
            grown += 1;
        }
        Ok(())
    }

    /// The tree grown for what came, if this was foreseen and grown for the same wishes.
    pub(super) fn take_foreseen(&mut self, ask: &Ask<'_>) -> Option<Sprout> {
        let Foreseen { pairs, budget, coupled, outcomes } = self.foreseen.take()?;
        let came = self.tokens.get(pairs..)?;
        let asked = ask.coupling.map(|coupling| coupling.sampler);
        if budget != *ask.budget || coupled != asked {
            return None;
        }
        let sprout = outcomes.into_iter().find(|outcome| outcome.tokens == came)?.sprout;
        // What is hardly begun is better grown anew, from the target's own features.
        let well_grown = 2 * sprout.levels > ask.budget.shape.depth + 1;
        (well_grown || sprout.growth.beam().is_empty()).then_some(sprout)
    }

    /// Brings the stable rows up to the last pair, unless they are.
    fn settle(&mut self, ask: &Ask<'_>) -> Result<(), HeadError> {
        let blocks = self.blocks_for(ask.budget.blocks);
        if self.settled != Some((self.tokens.len(), blocks)) {
            self.plant(ask)?;
        }
        Ok(())
    }

    /// Adds what may come after `node`, of row `row`, was accepted.
    fn accept(&self, tree: &Tree, node: usize, row: Option<usize>, guesses: &mut Vec<Guess>) {
        let nodes = tree.nodes();
        let further = tree.children(node);
        guesses.extend(further.map(|node| Guess {
            score: nodes[node].score,
            node,
            token: None,
            row,
        }));
        let others = self.forest.children(row).iter();
        let others = others.filter(|&&(token, _)| tree.child(node, token).is_none());
        guesses.extend(others.map(|&(token, log_prob)| {
            let score = nodes[node].score + log_prob;
            Guess { score, node, token: Some(token), row }
        }));
    }

    /// The row of `token` at `depth` below `source`, run if it was not; `None` without room.
    fn run(
        &mut self,
        token: u32,
        source: Option<usize>,
        ask: &Ask<'_>,
        depth: usize,
    ) -> Result<Option<usize>, HeadError> {
        if let Some(row) = self.forest.find(token, source) {
            return Ok(Some(row));
        }
        let row = self.forest.row(token, source);
        let (row, _) = self.step(vec![row], ask, depth + 1)?;
        Ok(row)
    }
}
