//! The drafters of an engine, and how decoding continues when one fails. Nothing here decides a
//! token.
//!
//! Every drafter observes every committed token, which is cheap because work waits until a tree is
//! requested, so any of them can propose in any round. A drafter that has failed is no longer used;
//! the others are.

use crate::caught::survived;
use crate::draft::{Ahead, Budget, DraftError, DraftRequest, Drafter};
use crate::model::FeatureSource;
use crate::overlap::{DraftThread, DraftWork, OverlapTimes, PassWatch, Returned};
use crate::speculate::{DrafterId, ModelRates, Tree};

/// Drafters that may fail at any time, by index.
pub(super) struct DrafterSet {
    slots: Vec<DrafterSlot>,
    /// How many pairs every drafter has observed.
    pub(super) observed: usize,
    /// Notices for the user.
    pub(super) notices: Vec<String>,
    /// How often a model's proposals were right.
    pub(super) rates: ModelRates,
    /// Where a drafter works at the same time as the target, started when it is first needed. The
    /// inner `None` means that the system has refused the thread.
    thread: Option<Option<DraftThread>>,
}

/// A drafter and whether it still works.
struct DrafterSlot {
    /// `None` while it drafts ahead on its thread, and after it has failed for good.
    drafter: Option<Box<dyn Drafter>>,
    /// Whether it has been reported that the drafter's context is full.
    reported_full: bool,
}

impl DrafterSet {
    pub(super) fn new(drafters: Vec<Box<dyn Drafter>>) -> Self {
        let slot = |mut drafter: Box<dyn Drafter>| {
            drafter.truncate(0);
            DrafterSlot { drafter: Some(drafter), reported_full: false }
        };
        let slots = drafters.into_iter().map(slot).collect();
        let notices = Vec::new();
        Self { slots, observed: 0, notices, rates: ModelRates::default(), thread: None }
    }

    /// The drafter of this index, if it works.
    pub(super) fn drafter(&self, at: usize) -> Option<&dyn Drafter> {
        self.slots.get(at)?.drafter.as_deref()
    }

    /// The drafters that work.
    pub(super) fn working(&self) -> impl Iterator<Item = &dyn Drafter> {
        self.slots.iter().filter_map(|slot| slot.drafter.as_deref())
    }

    /// Lets every working drafter do something that cannot fail, except by a panic.
    fn each(&mut self, work: impl Fn(&mut dyn Drafter)) {
        (0..self.slots.len()).for_each(|at| self.change(at, &work));
    }

    /// [`Self::each`] for one drafter.
    fn change(&mut self, at: usize, work: impl FnOnce(&mut dyn Drafter)) {
        let Some(DrafterSlot { drafter: Some(drafter), .. }) = self.slots.get_mut(at) else {
            return;
        };
        let worked = attempt(|| {
            work(drafter.as_mut());
            Ok(())
        });
        if let Err(error) = worked {
            self.fall_back(at, &error);
        }
    }

    /// Whether any drafter works.
    pub(super) fn any(&self) -> bool {
        self.working().next().is_some()
    }

    /// What the drafters read of the target, if any of them reads features. At most one of them is
    /// a draft head, so they do not disagree.
    pub(super) fn features(&self) -> Option<FeatureSource> {
        self.working().find_map(Drafter::features)
    }

    /// Rolls back what was observed beyond the first `pairs`.
    pub(super) fn truncate(&mut self, pairs: usize) {
        if pairs < self.observed {
            self.observed = pairs;
            self.each(|drafter| drafter.truncate(pairs));
        }
    }

    /// Lets the drafters forget what they remember of earlier texts.
    pub(super) fn start_over(&mut self) {
        self.each(|drafter| drafter.start_over());
    }

    /// Lets the drafters observe the pairs that follow those already observed.
    pub(super) fn observe(&mut self, features: &[f32], tokens: &[u32]) {
        for at in 0..self.slots.len() {
            while let Some(drafter) = &mut self.slots[at].drafter {
                let observed = attempt(|| drafter.observe(features, tokens));
                let Err(error) = observed else { break };
                // If the drafter stored some of these pairs, it observes them again.
                self.fall_back(at, &error);
            }
        }
        if self.any() {
            self.observed += tokens.len();
        }
    }

    /// A drafter's tree under `request.root`, the last token of `text`, or only the root without
    /// such a drafter, or if it fails.
    pub(super) fn propose(
        &mut self,
        at: usize,
        text: &[u32],
        request: &DraftRequest,
        vocab: usize,
    ) -> Tree {
        let &DraftRequest { root, budget, .. } = request;
        let drafter = self.slots.get_mut(at).and_then(|slot| slot.drafter.as_mut());
        let Some(drafter) = drafter else { return Tree::root(root) };
        let proposed = attempt(|| drafter.propose(text, request));
        let source = drafter.source();
        match proposed.and_then(|tree| check(tree, root, &budget, vocab)) {
            Ok(mut tree) => {
                if let Some(source) = source {
                    tree.credit_unclaimed(source);
                }
                tree
            }
            Err(error) => {
                self.fall_back(at, &error);
                Tree::root(root)
            }
        }
    }

    /// Whether the trees of drafter `calibrated` can be merged into those of drafter `model`.
    pub(super) fn merge(&self, calibrated: usize, model: usize) -> bool {
        self.drafter(calibrated).is_some_and(Drafter::is_calibrated)
            && self
                .drafter(model)
                .is_some_and(|drafter| drafter.source().is_some_and(DrafterId::is_model))
    }

    /// Gives these drafters the target's logits for the tree. The others would learn from rounds
    /// that they did not draft for, in time that is not theirs.
    pub(super) fn verified(
        &mut self,
        drafters: impl Iterator<Item = usize>,
        text: &[u32],
        tree: &Tree,
        logits: &[f32],
    ) {
        for at in drafters {
            self.change(at, |drafter| drafter.verified(text, tree, logits));
        }
    }

    /// For how many levels below the root the drafter's context has room; adds a notice once there
    /// are none left.
    pub(super) fn room(&mut self, at: usize) -> usize {
        let Some(DrafterSlot { drafter: Some(drafter), reported_full }) = self.slots.get_mut(at)
        else {
            return 0;
        };
        let capacity = drafter.capacity();
        let room = capacity.saturating_sub(self.observed);
        if room == 0 && !*reported_full {
            self.notices.push(format!(
                "the draft's context of {capacity} tokens is full; decoding continues without a \
                draft"
            ));
        }
        *reported_full = room == 0;
        room
    }

    /// Moves a failed drafter to its fallback device and back to what all of them have observed, or
    /// gives it up.
    fn fall_back(&mut self, at: usize, error: &str) {
        let Some(drafter) = &mut self.slots[at].drafter else { return };
        let name = drafter.describe();
        let observed = self.observed;
        let goes_on = attempt(|| {
            drafter.fall_back()?;
            drafter.truncate(observed);
            Ok(())
        });
        if goes_on.is_ok() {
            let now = drafter.describe();
            self.notices.push(format!("{error}; drafting continues with {now}"));
        } else {
            self.slots[at].drafter = None;
            self.lost(error, &name);
        }
    }

    /// Notes that a drafter has been given up.
    fn lost(&mut self, error: &str, name: &str) {
        self.notices.push(if self.any() {
            format!("{error}; {name} is no longer used")
        } else {
            self.observed = 0;
            format!("{error}; decoding continues without a draft")
        });
    }
}

/// While this guard lives, the drafter works on its thread. Dropping it brings the drafter back.
pub(super) struct OverlapGuard<'a> {
    drafting: &'a mut DrafterSet,
    /// The drafter's index.
    at: usize,
    over: bool,
}

impl DrafterSet {
    /// Starts drafting ahead of `tree`, which answers `request`, and reports to `watch`. `None` if
    /// that is not possible.
    pub(super) fn draft_ahead(
        &mut self,
        at: usize,
        tree: &Tree,
        request: DraftRequest,
        watch: Option<PassWatch>,
    ) -> Option<OverlapGuard<'_>> {
        self.start(at, DraftWork::Ahead(tree.clone(), request), watch)
    }

    /// Lets a drafter read `prompt`, for trees of `blocks` blocks. `None` if that is not possible.
    pub(super) fn read_beside(
        &mut self,
        at: usize,
        prompt: Vec<u32>,
        blocks: usize,
    ) -> Option<OverlapGuard<'_>> {
        self.start(at, DraftWork::Read(prompt, blocks), None)
    }

    /// Starts a drafter's work on the thread.
    fn start(
        &mut self,
        at: usize,
        work: DraftWork,
        watch: Option<PassWatch>,
    ) -> Option<OverlapGuard<'_>> {
        let thread = self.thread.get_or_insert_with(|| {
            let started = DraftThread::start().inspect_err(|error| {
                self.notices.push(format!(
                    "cannot start a thread to draft ahead ({error}); drafting and verifying take \
                     turns"
                ));
            });
            started.ok()
        });
        let slot = self.slots.get_mut(at)?;
        let drafter = slot.drafter.take()?;
        let sent = match thread {
            Some(thread) => thread.send(drafter, work, watch),
            None => Err(drafter),
        };
        match sent {
            Ok(()) => Some(OverlapGuard { drafting: self, at, over: false }),
            Err(drafter) => {
                slot.drafter = Some(drafter);
                None
            }
        }
    }
}

impl OverlapGuard<'_> {
    /// Stops the drafter and takes it back, with what it drafted.
    pub(super) fn end(mut self) -> (Ahead, OverlapTimes) {
        self.recall()
    }

    fn recall(&mut self) -> (Ahead, OverlapTimes) {
        let Self { drafting, at, over } = self;
        let Some(Some(thread)) = &drafting.thread else { return Default::default() };
        if std::mem::replace(over, true) {
            return Default::default();
        }
        let Returned { drafter, drafted, spent } = thread.recall();
        let is_lost = drafter.is_none();
        drafting.slots[*at].drafter = drafter;
        let drafted = drafted.unwrap_or_else(|failure| {
            if is_lost {
                drafting.lost(&failure, "the draft");
            } else {
                drafting.fall_back(*at, &failure);
            }
            Ahead::default()
        });
        (drafted, spent)
    }
}

impl Drop for OverlapGuard<'_> {
    fn drop(&mut self) {
        self.recall();
    }
}

/// A drafter's work on the thread that decodes; a panic is a failure like any other. What the
/// drafter was about to change is not read again: it falls back or is given up.
fn attempt<T>(work: impl FnOnce() -> Result<T, DraftError>) -> Result<T, String> {
    let panicked = |why| Err(format!("the draft failed: {why}"));
    survived(work).map_or_else(panicked, |done| done.map_err(|error| error.to_string()))
}

/// The tree, if the target can verify it.
fn check(tree: Tree, root: u32, budget: &Budget, vocab: usize) -> Result<Tree, String> {
    let gamma = budget.shape.gamma.max(1);
    if tree.len() > gamma {
        return Err(format!("the draft made a tree of {} nodes for γ = {gamma}", tree.len()));
    }
    if tree.nodes()[0].token != root {
        return Err("the draft's tree has the wrong root".to_owned());
    }
    match tree.nodes().iter().find(|node| node.token as usize >= vocab) {
        Some(node) => {
            let token = node.token;
            Err(format!(
                "the draft proposed token {token}, which is outside the vocabulary of {vocab}"
            ))
        }
        None => Ok(tree),
    }
}
