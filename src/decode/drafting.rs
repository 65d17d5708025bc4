//! The drafter and what happens when it fails. Nothing here decides a token.

use super::companion::Beside;
use crate::draft::{Ask, Budget, Drafter};
use crate::speculate::Tree;

/// An optional drafter that may fail at any time.
pub(super) struct Drafting {
    pub(super) drafter: Option<Box<dyn Drafter>>,
    /// Pairs the drafter has observed.
    observed: usize,
    /// Whether the user was told that the context is beyond the drafter's.
    told_full: bool,
    pub(super) notices: Vec<String>,
    /// Where it works while the target does.
    pub(super) beside: Beside,
}

impl Drafting {
    pub(super) fn new(drafter: Option<Box<dyn Drafter>>) -> Self {
        let (notices, beside) = (Vec::new(), Beside::default());
        let mut drafting = Self { drafter, observed: 0, told_full: false, notices, beside };
        if let Some(drafter) = &mut drafting.drafter {
            drafter.truncate(0);
        }
        drafting
    }

    pub(super) fn drafter(&self) -> Option<&dyn Drafter> {
        self.drafter.as_deref()
    }

    /// What the user should know and was not told yet.
    pub(super) fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// Pairs observed.
    pub(super) fn observed(&self) -> usize {
        self.observed
    }

    /// Forgets what was observed beyond the first `pairs`.
    pub(super) fn truncate(&mut self, pairs: usize) {
        if pairs < self.observed {
            self.observed = pairs;
            if let Some(drafter) = &mut self.drafter {
                drafter.truncate(pairs);
            }
        }
    }

    /// Tells the drafter of the pairs that follow those observed.
    pub(super) fn observe(&mut self, features: &[f32], tokens: &[u32]) {
        while let Some(drafter) = &mut self.drafter {
            match drafter.observe(features, tokens) {
                Ok(()) => {
                    self.observed += tokens.len();
                    return;
                }
                Err(error) => {
                    // Whatever it took of these pairs is told again.
                    if self.fall_back(&error.to_string()) {
                        self.resume();
                    }
                }
            }
        }
    }

    /// Lets the drafter do now what it would otherwise do before its next tree.
    pub(super) fn prepare(&mut self, blocks: usize) {
        if let Some(Err(error)) = self.drafter.as_mut().map(|drafter| drafter.prepare(blocks)) {
            self.fall_back(&error.to_string());
        }
    }

    /// A tree under `root`, the last token observed; the root alone if there is no drafter or it
    /// fails.
    pub(super) fn propose(&mut self, ask: &Ask<'_>, vocab: usize) -> Tree {
        let &Ask { root, budget, .. } = ask;
        let Some(drafter) = &mut self.drafter else { return Tree::root(root) };
        let proposed = drafter.propose(ask).map_err(|e| e.to_string());
        match proposed.and_then(|tree| check(tree, root, budget, vocab)) {
            Ok(tree) => tree,
            Err(error) => {
                self.fall_back(&error);
                Tree::root(root)
            }
        }
    }

    /// Tells the drafter what the target made of the tree.
    pub(super) fn verified(&mut self, tree: &Tree, logits: &[f32]) {
        if let Some(drafter) = &mut self.drafter {
            drafter.verified(tree, logits);
        }
    }

    /// Tells the drafter how the text begins.
    pub(super) fn begin(&mut self, first: u32) {
        if let Some(drafter) = &mut self.drafter {
            drafter.begin(first);
        }
    }

    /// Levels below the root for which the drafter has room; tells the user when there are none
    /// left.
    pub(super) fn room(&mut self) -> usize {
        let Some(drafter) = &self.drafter else { return 0 };
        let capacity = drafter.capacity();
        let room = capacity.saturating_sub(self.observed);
        if room == 0 && !self.told_full {
            self.notices.push(format!(
                "the draft's context of {capacity} tokens is full; decoding goes on without a draft"
            ));
        }
        self.told_full = room == 0;
        room
    }

    /// Takes back the drafter that was ahead; `None` if it is lost.
    pub(super) fn returned(&mut self, drafter: Option<Box<dyn Drafter>>, failure: Option<String>) {
        self.drafter = drafter;
        let Some(failure) = failure else { return };
        if self.drafter.is_none() {
            self.notices.push(format!("{failure}; decoding goes on without a draft"));
            self.observed = 0;
        } else if self.fall_back(&failure) {
            self.resume();
        }
    }

    /// Moves the failed drafter to its other device, or does without. Returns whether it goes on.
    fn fall_back(&mut self, error: &str) -> bool {
        let Some(drafter) = &mut self.drafter else { return false };
        match drafter.fall_back() {
            Ok(()) => {
                let name = drafter.describe();
                self.notices.push(format!("{error}; drafting goes on with {name}"));
                true
            }
            Err(_) => {
                self.notices.push(format!("{error}; decoding goes on without a draft"));
                self.drafter = None;
                self.observed = 0;
                false
            }
        }
    }

    fn resume(&mut self) {
        if let Some(drafter) = &mut self.drafter {
            drafter.truncate(self.observed);
        }
    }
}

/// The tree, unless it is one that the target cannot be given.
fn check(tree: Tree, root: u32, budget: &Budget, vocab: usize) -> Result<Tree, String> {
    let gamma = budget.shape.gamma.max(1);
    if tree.len() > gamma {
        return Err(format!("the draft made a tree of {} nodes for γ = {gamma}", tree.len()));
    }
    if tree.nodes()[0].token != root {
        return Err("the draft's tree has another root".to_owned());
    }
    match tree.nodes().iter().find(|node| node.token as usize >= vocab) {
        Some(node) => {
            let token = node.token;
            Err(format!("the draft proposed token {token} outside the vocabulary of {vocab}"))
        }
        None => Ok(tree),
    }
}
