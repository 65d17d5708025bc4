//! The drafters that the settings make available, each loaded once for all strategies that share
//! it, and for the others what is missing.

use std::path::Path;
use std::sync::Arc;

use super::LoadError;
use super::head::OpenDevice;
use crate::draft::{Drafter, Lookahead, PromptLookup, Retrieval};
use crate::hardware::Machine;
use crate::kernels::Pool;
use crate::library::{Datastore, HeadFiles, TargetFiles};
use crate::model::{Config, CpuTarget};
use crate::plan::{
    DraftKind, DraftSize, TargetSize, ThreadSplit, Throughput, split_threads,
    split_threads_with_gpu,
};
use crate::settings::{LOOKUP, Settings};

/// A drafter on its device.
pub(super) struct LoadedDrafter {
    pub(super) kind: DraftKind,
    pub(super) drafter: Box<dyn Drafter>,
    /// Whether `drafter` holds memory of a GPU's own.
    pub(super) on_gpu: bool,
    pub(super) size: DraftSize,
    pub(super) throughput: Throughput,
    /// Fewest and most blocks that can be used.
    pub(super) blocks: (usize, usize),
    /// Why the most are fewer than the head has, a clause.
    pub(super) limit: Option<String>,
    /// Where it runs and why, a sentence.
    pub(super) reason: String,
    /// What it has of the cores while it works beside the target and why, a sentence; `None` where
    /// it never does.
    pub(super) beside: Option<String>,
    /// Set when the user asked for something else.
    pub(super) notice: Option<String>,
}

impl LoadedDrafter {
    /// What is true of it whatever is chosen, for the reasons.
    pub(super) fn preface(&self) -> Vec<String> {
        std::iter::once(&self.reason).chain(&self.beside).cloned().collect()
    }
}

/// What drafters are made of and for.
pub(super) struct LoadContext<'a> {
    pub(super) settings: &'a Settings,
    pub(super) machine: &'a Machine,
    pub(super) files: &'a TargetFiles,
    pub(super) target: &'a CpuTarget,
    pub(super) head: Option<&'a HeadFiles>,
    /// A small language model.
    pub(super) small: Option<&'a TargetFiles>,
    /// What the CPU can do with the threads in use.
    pub(super) cpu: Throughput,
    /// Compute threads in use.
    pub(super) threads: usize,
    /// KV positions of the target.
    pub(super) context: usize,
    pub(super) open_device: OpenDevice,
}

impl LoadContext<'_> {
    /// Every drafter that can be had.
    pub(super) fn drafters(
        &self,
        progress: &mut dyn FnMut(&str, Option<f32>),
    ) -> Result<Vec<LoadedDrafter>, LoadError> {
        let mut all = Vec::new();
        if let Some(head) = self.head {
            progress("reading the draft head", None);
            all.push(super::head::load(self, head)?);
        }
        if let Some(small) = self.small {
            all.push(super::small::load(self, small, progress)?);
        }
        all.push(self.lookup());
        if let Some(path) = &self.settings.rest_text {
            all.push(self.rest(path, progress)?);
        }
        let reason = "The target's own guesses are iterated beside the text.".to_owned();
        let lookahead = Box::new(Lookahead::new(self.context));
        all.push(self.without_weights(DraftKind::Lookahead, lookahead, reason));
        Ok(all)
    }

    /// Threads for a draft model of this size: those of the target while they take turns, its own
    /// share of the cores while it works beside it; and why as many.
    pub(super) fn pool(&self, size: DraftSize, on_gpu: bool) -> (Arc<Pool>, String) {
        let ThreadSplit { draft, reason } = if on_gpu {
            split_threads_with_gpu(self.threads)
        } else {
            let (cpu, held) = (&self.machine.cpu, self.settings.draft_threads);
            split_threads(cpu, self.threads, held, self.target_size(), size)
        };
        (Arc::new(Pool::borrowing(Arc::clone(self.target.pool()), draft)), reason)
    }

    /// The target as the cost model sees it.
    pub(super) fn target_size(&self) -> TargetSize {
        let layers = self.target.layers();
        TargetSize {
            weights: Config { layers, ..self.files.config.clone() }.linear_weights(),
            bytes: self.target.pass_bytes(),
            layers,
        }
    }

    fn lookup(&self) -> LoadedDrafter {
        let reason = match (self.settings.draft.as_deref(), self.head) {
            (Some(LOOKUP), _) => "The draft is looked up in the conversation, as you asked.",
            (_, Some(_)) => "The draft is looked up in the conversation.",
            (_, None) => {
                "No draft head was named (--draft): the draft is looked up in the conversation."
            }
        };
        let drafter = Box::new(PromptLookup::new(self.context));
        self.without_weights(DraftKind::Lookup, drafter, reason.to_owned())
    }

    fn rest(
        &self,
        path: &Path,
        progress: &mut dyn FnMut(&str, Option<f32>),
    ) -> Result<LoadedDrafter, LoadError> {
        let folder = Datastore::cache_folder();
        let mut report = |stage: &str, done: f32| progress(stage, Some(done));
        let tokenizer = &self.files.tokenizer;
        let mut text = Datastore::open(path, tokenizer, folder.as_deref(), &mut report)?;
        let (notice, name) = (text.take_notice(), text.name().to_owned());
        let reason = format!("Drafts are looked up in {name}, which you named.");
        let drafter = Retrieval::new(text.into_suffixes(), name, self.context);
        let drafter = self.without_weights(DraftKind::Rest, Box::new(drafter), reason);
        Ok(LoadedDrafter { notice, ..drafter })
    }

    /// A drafter that needs next to no computing.
    fn without_weights(
        &self,
        kind: DraftKind,
        drafter: Box<dyn Drafter>,
        reason: String,
    ) -> LoadedDrafter {
        LoadedDrafter {
            kind,
            drafter,
            on_gpu: false,
            size: DraftSize::NOTHING,
            throughput: self.cpu,
            blocks: (0, 0),
            limit: None,
            reason,
            beside: None,
            notice: None,
        }
    }

    /// What a strategy that drafts with `kind` lacks here, with the remedy.
    pub(super) fn missing(&self, kind: DraftKind) -> String {
        self.settings.lacks(kind).unwrap_or("a drafter that this build does not have").to_owned()
    }
}
