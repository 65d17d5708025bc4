//! The drafters and what happens when one fails. Nothing here decides a token.
//!
//! All of them observe all the time, which is cheap: work waits until a tree is asked for. So any
//! of them can propose in any round. One that fails for good loses its own place only.

use super::draft_thread::LazyDraftThread;
use crate::draft::{Budget, DraftRequest, Drafter};
use crate::speculate::Tree;

/// Drafters that may fail at any time, by the places they were given.
pub(super) struct DrafterSet {
    pub(super) slots: Vec<DrafterSlot>,
    /// Pairs that every drafter has observed.
    observed: usize,
    /// The text's token at position 0.
    first: u32,
    pub(super) notices: Vec<String>,
    /// Where one of them works while the target does.
    pub(super) thread: LazyDraftThread,
}

/// A drafter's place.
pub(super) struct DrafterSlot {
    /// `None` while it works ahead, and once it is lost.
    pub(super) drafter: Option<Box<dyn Drafter>>,
    /// Whether the user was told that the context is beyond the drafter's.
    reported_full: bool,
}

impl DrafterSet {
    pub(super) fn new(drafters: Vec<Box<dyn Drafter>>) -> Self {
        let slot = |mut drafter: Box<dyn Drafter>| {
            drafter.truncate(0);
            DrafterSlot { drafter: Some(drafter), reported_full: false }
        };
        let slots = drafters.into_iter().map(slot).collect();
        let (notices, thread) = (Vec::new(), LazyDraftThread::default());
        Self { slots, observed: 0, first: 0, notices, thread }
    }

    /// The drafter at a place, if it works.
    pub(super) fn drafter(&self, at: usize) -> Option<&dyn Drafter> {
        self.slots.get(at)?.drafter.as_deref()
    }

    /// Whether any of them works.
    pub(super) fn any(&self) -> bool {
        self.slots.iter().any(|slot| slot.drafter.is_some())
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
            self.working().for_each(|drafter| drafter.truncate(pairs));
        }
    }

    /// Tells the drafters how the text begins.
    pub(super) fn begin(&mut self, first: u32) {
        self.first = first;
        self.working().for_each(|drafter| drafter.begin(first));
    }

    /// Tells the drafters of the pairs that follow those observed.
    pub(super) fn observe(&mut self, features: &[f32], tokens: &[u32]) {
        for at in 0..self.slots.len() {
            while let Some(drafter) = &mut self.slots[at].drafter {
                let Err(error) = drafter.observe(features, tokens) else { break };
                // Whatever it took of these pairs is told again.
                if self.fall_back(at, &error.to_string()) {
                    self.resume(at);
                }
            }
        }
        if self.any() {
            self.observed += tokens.len();
        }
    }

    /// Lets a drafter do now what it would otherwise do before its next tree.
    pub(super) fn prepare(&mut self, at: usize, blocks: usize) {
        let drafter = self.slots.get_mut(at).and_then(|slot| slot.drafter.as_mut());
        if let Some(Err(error)) = drafter.map(|drafter| drafter.prepare(blocks)) {
            self.fall_back(at, &error.to_string());
        }
    }

    /// The tree of the drafter at a place under `request.root`, the last token observed; the root
    /// alone if there is none or it fails.
    pub(super) fn propose(&mut self, at: usize, request: &DraftRequest, vocab: usize) -> Tree {
        let &DraftRequest { root, budget, .. } = request;
        let drafter = self.slots.get_mut(at).and_then(|slot| slot.drafter.as_mut());
        let Some(drafter) = drafter else { return Tree::root(root) };
        let proposed = drafter.propose(request).map_err(|e| e.to_string());
        match proposed.and_then(|tree| check(tree, root, &budget, vocab)) {
            Ok(tree) => tree,
            Err(error) => {
                self.fall_back(at, &error);
                Tree::root(root)
            }
        }
    }

    /// Whether the last tree of the drafter at a place was drafted ahead.
    pub(super) fn was_drafted_ahead(&self, at: usize) -> bool {
        self.drafter(at).is_some_and(Drafter::was_drafted_ahead)
    }

    /// Tells the drafters what the target made of the tree.
    pub(super) fn verified(&mut self, tree: &Tree, logits: &[f32]) {
        self.working().for_each(|drafter| drafter.verified(tree, logits));
    }

    /// Levels below the root for which the drafter has room; tells the user when there are none
    /// left.
    pub(super) fn room(&mut self, at: usize) -> usize {
        let Some(DrafterSlot { drafter: Some(drafter), reported_full }) = self.slots.get_mut(at)
        else {
            return 0;
        };
        let capacity = drafter.capacity();
        let room = capacity.saturating_sub(self.observed);
        if room == 0 && !*reported_full {
            self.notices.push(format!(
                "the draft's context of {capacity} tokens is full; decoding goes on without a draft"
            ));
        }
        *reported_full = room == 0;
        room
    }

    /// Takes back the drafter that was ahead; `None` if it is lost.
    pub(super) fn returned(
        &mut self,
        at: usize,
        drafter: Option<Box<dyn Drafter>>,
        failure: Option<String>,
    ) {
        self.slots[at].drafter = drafter;
        let Some(failure) = failure else { return };
        if self.slots[at].drafter.is_none() {
            self.lost(&failure, "the draft");
        } else if self.fall_back(at, &failure) {
            self.resume(at);
        }
    }

    fn working(&mut self) -> impl Iterator<Item = &mut Box<dyn Drafter>> {
        self.slots.iter_mut().filter_map(|slot| slot.drafter.as_mut())
    }

    /// Moves the failed drafter to its other device, or does without. Returns whether it goes on.
    fn fall_back(&mut self, at: usize, error: &str) -> bool {
        let Some(drafter) = &mut self.slots[at].drafter else { return false };
        let name = drafter.describe();
        let goes_on = drafter.fall_back().is_ok();
        let now = drafter.describe();
        if goes_on {
            self.notices.push(format!("{error}; drafting goes on with {now}"));
        } else {
            self.slots[at].drafter = None;
            self.lost(error, &name);
        }
        goes_on
    }

    /// Says that a drafter is lost.
    fn lost(&mut self, error: &str, name: &str) {
        self.notices.push(if self.any() {
            format!("{error}; {name} is not used any more")
        } else {
            self.observed = 0;
            format!("{error}; decoding goes on without a draft")
        });
    }

    /// Brings a drafter that has moved back to what all have observed.
    fn resume(&mut self, at: usize) {
        let (observed, first) = (self.observed, self.first);
        if let Some(drafter) = &mut self.slots[at].drafter {
            drafter.truncate(observed);
            if observed == 0 {
                drafter.begin(first);
            }
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
