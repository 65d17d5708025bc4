//! The models in use, those that can be chosen in the chat, and a load or download under way. Must
//! never know how a model is found or loaded.

pub(crate) mod update;
pub(crate) mod view;

use std::time::Duration;

use crate::chat::AnsweredBy;
use crate::library::{CataloguePair, PairDraft};
use crate::tui::actions::ModelPart;
use crate::tui::overlays::{FilteredList, ListRow};
use crate::worker::{MemoryFit, ModelChoice, Ready};

/// What the worker is doing, as far as the screen knows.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// Models are being loaded: what is being done, and how much of it from 0 to 1, where known.
    Loading { stage: String, fraction: Option<f32> },
    /// Waiting for a question.
    Idle,
    /// An answer is on its way since then.
    Answering { since: Duration },
    /// The models could not be loaded, or the decode thread ended: there are no answers.
    Broken,
}

/// The models in use and what the worker does with them.
#[derive(Debug)]
pub struct ModelState {
    /// What the worker is doing.
    pub phase: Phase,
    /// What was loaded; `None` before.
    pub ready: Option<Box<Ready>>,
    /// Other models on their way.
    pub load: Option<ModelLoad>,
    /// Whether a record is shown, for which there is no model.
    pub replay: bool,
}

impl ModelState {
    /// Nothing is loaded yet.
    pub fn new(replay: bool) -> Self {
        let phase = Phase::Loading { stage: "starting".to_string(), fraction: None };
        Self { phase, ready: None, load: None, replay }
    }

    /// Name of the target in use; empty before it is loaded.
    pub fn target(&self) -> &str {
        self.ready.as_ref().map_or("", |ready| &ready.target)
    }

    /// The models in use; `None` before they are loaded.
    pub fn in_use(&self) -> Option<AnsweredBy> {
        let ready = self.ready.as_deref()?;
        let target = ready.target.clone();
        Some(AnsweredBy { target, models: Some(ready.models.clone()), gone: false })
    }

    /// Whether only rounds show the gain. The demo is so small that its speed depends on the load
    /// of the machine more than on speculation.
    pub fn counts_rounds(&self) -> bool {
        self.ready.as_ref().is_some_and(|ready| ready.models.is_bundled())
    }
}

/// A model that can be chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelRow {
    /// Its name as people know it.
    pub title: String,
    /// Weights in all.
    pub parameters: Option<u64>,
    /// Type of its weights, e.g. `Q4_K_M`.
    pub quantisation: Option<String>,
    /// Bytes of its files, an estimate for a download; 0 where there are none or they are unknown.
    pub bytes: u64,
    /// Where it is, e.g. `Ollama`; the licence of a download.
    pub place: String,
    /// Further names by which it is found.
    pub aliases: String,
    /// Whether it fits the memory next to the models in use; `Tight` fits only in their place.
    pub fit: MemoryFit,
    /// Its expected speed, e.g. `~6.1–11 tok/s`; empty where it is not known.
    pub speed: String,
    /// Whether it is not on this machine, so that choosing it downloads it.
    pub download: bool,
    /// Why it cannot be chosen, with the remedy.
    pub refused: Option<String>,
    /// What is loaded when it is chosen.
    pub models: ModelChoice,
    pub in_use: bool,
}

impl ListRow for ModelRow {
    fn words(&self) -> String {
        let Self { title, quantisation, place, aliases, .. } = self;
        format!("{title} {} {place} {aliases}", quantisation.as_deref().unwrap_or_default())
    }
}

/// The list of models from which one is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelPicker {
    /// What is chosen.
    pub part: ModelPart,
    pub list: FilteredList<ModelRow>,
    /// Whether models are still being looked for.
    pub searching: bool,
}

impl ModelPicker {
    /// An empty list while models are looked for.
    pub fn new(part: ModelPart, filter: &str) -> Self {
        let mut list = FilteredList::new(Vec::new());
        list.search(|words| words.push_str(filter));
        Self { part, list, searching: true }
    }
}

/// The models of a pair of the catalogue.
pub fn pair_models(pair: &CataloguePair) -> ModelChoice {
    let target = Some(pair.target.to_string());
    let id = |draft: &PairDraft| Some(draft.id().to_string());
    let (draft, draft_model) = match &pair.draft {
        Some(head @ PairDraft::Head(_)) => (id(head), None),
        Some(small @ PairDraft::Small(_)) => (None, id(small)),
        None => (None, None),
    };
    ModelChoice { target, draft, draft_model }
}

/// Other models being loaded, while those in use continue to answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelLoad {
    /// Its number.
    pub load: u64,
    /// What is loaded.
    pub title: String,
    /// Whether they are downloaded first.
    pub download: bool,
    /// What is being done.
    pub stage: String,
    /// From 0 to 1, where known.
    pub fraction: Option<f32>,
    /// Whether the models in use were unloaded to make room: no question is answered meanwhile.
    pub alone: bool,
}

impl ModelLoad {
    /// How far it is, in words; `stop` is the key that stops it.
    pub fn words(&self, stop: &str) -> String {
        let Self { title, stage, fraction, download, .. } = self;
        let share = fraction.filter(|share| share.is_finite());
        let share = share.map(|share| format!(" ({:.0}%)", share.clamp(0.0, 1.0) * 100.0));
        let share = share.unwrap_or_default();
        let kept = if *download { " and keeps what has arrived" } else { "" };
        format!("{title}: {stage}{share} · {stop} stops it{kept}")
    }
}
