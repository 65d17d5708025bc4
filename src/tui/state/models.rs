//! The models that can be chosen in the chat, and a load on its way. Must never know how a model is
//! found or loaded.

use super::list::{FilteredList, Listed};
use crate::tui::actions::ModelPart;
use crate::worker::ModelChoice;

/// Whether a model fits the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Beside the models in use.
    Beside,
    /// In their place only.
    Alone,
    /// Not on this machine.
    TooLarge,
}

/// A model that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRow {
    /// A name to read.
    pub title: String,
    /// Weights in all.
    pub parameters: Option<u64>,
    /// Type of its weights, e.g. `Q4_K_M`.
    pub quantisation: Option<String>,
    /// Bytes of its files; 0 for what has none.
    pub bytes: u64,
    /// Where it is, e.g. `Ollama`.
    pub place: String,
    /// Further names that it is found by.
    pub aliases: String,
    /// Whether it fits the memory.
    pub fit: Fit,
    /// What to expect of it in words, e.g. `~6.1–11 tok/s`; empty where that is not known.
    pub speed: String,
    /// It is not on this machine; by this name `dovetail pull` fetches it.
    pub pull: Option<String>,
    /// Why it cannot be chosen, with the remedy.
    pub refused: Option<String>,
    /// What is loaded if it is chosen.
    pub models: ModelChoice,
    /// Whether that is in use.
    pub in_use: bool,
}

impl Listed for ModelRow {
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
    /// The models.
    pub list: FilteredList<ModelRow>,
    /// Whether models are still being looked for.
    pub searching: bool,
}

impl ModelPicker {
    /// An empty list while models are looked for.
    pub fn new(part: ModelPart, filter: &str) -> Self {
        let mut list = FilteredList::new(Vec::new());
        list.filter_by(filter.to_string());
        Self { part, list, searching: true }
    }
}

/// Other models on their way, while those in use go on.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelLoad {
    /// Its number.
    pub load: u64,
    /// What is loaded.
    pub title: String,
    /// What is being done.
    pub stage: String,
    /// From 0 to 1, where known.
    pub fraction: Option<f32>,
    /// Whether the former models were let go to make room: nothing can be asked meanwhile.
    pub alone: bool,
}

impl ModelLoad {
    /// How far it is, in words; `stop` is the key that stops it.
    pub fn words(&self, stop: &str) -> String {
        let Self { title, stage, fraction, .. } = self;
        let share = fraction.filter(|share| share.is_finite());
        let share = share.map(|share| format!(" {:.0} %", share.clamp(0.0, 1.0) * 100.0));
        format!("loading {title}: {stage}{} · {stop} stops it", share.unwrap_or_default())
    }
}
