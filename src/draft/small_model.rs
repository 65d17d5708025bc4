//! A small language model of its own as the drafter (spec §9 of both methods): it grows the same
//! trees as a draft head, but from the text alone. It reads every token, the first one included,
//! and keeps its own KV cache, which goes back with the text.

mod ahead;
mod sequences;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::branches::{Branches, Grown};
use super::{Ask, Depths, DraftError, Drafter};
use crate::kernels::Pool;
use crate::model::{SharedVocabulary, SmallLm};
use crate::speculate::{Growth, Method, Tree};
use sequences::Prepared;

/// A small language model as a [`Drafter`].
pub struct SmallModel {
    name: String,
    branches: Branches,
    /// The threads that `branches` run on, if they can be parted from the target's.
    pool: Option<Arc<Pool>>,
    /// Sequences behind the tree that was checked last.
    prepared: Option<Prepared>,
}

impl SmallModel {
    /// Drafts with `lm`, whose tokens are the target's as far as `words` says. `name` is for the
    /// screen.
    pub fn new(name: &str, lm: Box<dyn SmallLm>, words: SharedVocabulary) -> Self {
        Self {
            name: name.to_owned(),
            branches: Branches::new(lm, words),
            pool: None,
            prepared: None,
        }
    }

    /// Works on threads of its own while it works ahead: `pool`, which its model runs on, is then
    /// parted from the one it borrows from.
    #[must_use]
    pub fn with_pool(mut self, pool: Arc<Pool>) -> Self {
        self.pool = Some(pool);
        self
    }

    /// Grows a tree behind `base`; ends early if `stop` says so.
    fn grow(
        &mut self,
        ask: &Ask<'_>,
        base: Option<usize>,
        stop: Option<&AtomicBool>,
    ) -> Result<Growth, DraftError> {
        let mut growth = ask.growth(self.branches.after(base));
        let mut grown = Grown::behind(base);
        while !growth.beam().is_empty() && !is_set(stop) {
            let candidates = self.branches.step(&mut grown, growth.beam())?;
            growth.expand(&candidates);
        }
        Ok(growth)
    }
}

fn is_set(stop: Option<&AtomicBool>) -> bool {
    stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
}

impl Drafter for SmallModel {
    fn describe(&self) -> String {
        format!("small model {}, {}", self.name, self.branches.lm().describe())
    }

    fn depths(&self) -> Depths {
        Depths::Fixed(0)
    }

    fn capacity(&self) -> usize {
        self.branches.lm().capacity()
    }

    fn truncate(&mut self, len: usize) {
        self.prepared = None;
        // Pair i holds the token after it: with the first one there is one token more.
        self.branches.truncate(if len == 0 { 0 } else { len + 1 });
    }

    fn begin(&mut self, first: u32) {
        self.branches.begin(first);
    }

    fn observe(&mut self, _features: &[f32], tokens: &[u32]) -> Result<(), DraftError> {
        self.branches.push_all(tokens);
        if let Some(prepared) = &mut self.prepared {
            prepared.observe(tokens);
        }
        Ok(())
    }

    fn prepare(&mut self, _blocks: usize) -> Result<(), DraftError> {
        self.branches.catch_up()
    }

    fn propose(&mut self, ask: &Ask<'_>) -> Result<Tree, DraftError> {
        let shape = ask.budget.shape;
        if let Method::Sequences { .. } = ask.budget.method {
            return Ok(self.adopted(ask));
        }
        self.prepared = None;
        if shape.gamma <= 1 || shape.width == 0 {
            return Ok(Tree::root(ask.root));
        }
        self.branches.rank_for(shape.width, ask.coupling.as_ref());
        self.branches.catch_up()?;
        if !self.branches.is_ready() {
            return Ok(Tree::root(ask.root));
        }
        Ok(self.grow(ask, None, None)?.finish(ask.root))
    }

    fn ahead(&mut self, tree: &Tree, ask: &Ask<'_>, stop: &AtomicBool) -> Result<(), DraftError> {
        let pool = self.pool.clone();
        let _apart = pool.as_ref().map(|pool| pool.work_apart());
        if let Method::Sequences { fixed } = ask.budget.method {
            return self.go_on(tree, ask, fixed);
        }
        let is_asked = ask.budget.shape.gamma > 1 && ask.budget.shape.width > 0;
        if is_asked && self.branches.is_ready() {
            self.foresee(tree, ask, stop)?;
        }
        Ok(())
    }

    fn device_bytes(&self) -> u64 {
        self.branches.lm().bytes()
    }
}

#[cfg(test)]
mod tests;
