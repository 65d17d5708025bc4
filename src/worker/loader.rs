//! Loads the models that the settings name, and others instead of them later. It must not depend on
//! what they are used for.

use super::backend::Backend;
use super::protocol::ModelChoice;
use super::swap::{LoadFailure, Loader, Loading, NewModels};
use crate::hardware::Machine;
use crate::load::{Purpose, SharedTarget, StartError, load, load_beside, load_drafts};
use crate::messages;
use crate::settings::{HeadChoice, Settings};

/// Loads what settings name.
pub struct SettingsLoader {
    settings: Settings,
    purpose: Purpose,
}

impl SettingsLoader {
    /// Loads according to these settings, which have been checked.
    pub fn new(settings: Settings, purpose: Purpose) -> Self {
        Self { settings, purpose }
    }

    /// The settings with other models. What was set for the previous models is left out: a strategy
    /// that needs their drafter, and flags that would be reported as having no effect.
    fn with(&self, models: &ModelChoice) -> Settings {
        let ModelChoice { target, draft, draft_model } = models.clone();
        let draft = HeadChoice::named(draft.as_deref());
        let strategy = None;
        let mut settings =
            Settings { target, draft, draft_model, strategy, ..self.settings.clone() };
        for key in ["target", "draft", "draft_model", "strategy"] {
            settings.given.remove(key);
        }
        settings
    }
}

impl Loader for SettingsLoader {
    fn beside(
        &self,
        models: &ModelChoice,
        target: Option<&SharedTarget>,
        progress: Loading<'_>,
    ) -> Result<NewModels, LoadFailure> {
        let settings = self.with(models);
        let machine = Machine::probe();
        let purpose = self.purpose;
        match target {
            Some(target) if target.is(settings.target.as_deref()) => {
                load_drafts(&settings, &machine, purpose, target, progress)
                    .map(|drafts| NewModels::Drafts(Box::new(drafts)))
            }
            _ => load_beside(&settings, &machine, purpose, progress)
                .map(|loaded| NewModels::All(Box::new(Backend::from(loaded)))),
        }
        .map_err(failure)
    }

    fn alone(
        &self,
        models: Option<&ModelChoice>,
        progress: Loading<'_>,
    ) -> Result<Backend, LoadFailure> {
        let settings = models.map_or_else(|| self.settings.clone(), |models| self.with(models));
        let loaded = load(&settings, &Machine::probe(), self.purpose, progress);
        loaded.map(Backend::from).map_err(failure)
    }
}

fn failure(error: StartError) -> LoadFailure {
    let reason = messages::start_error(&error);
    match error {
        StartError::NoRoom { .. } | StartError::Moves { .. } => LoadFailure::NoRoom(reason),
        _ => LoadFailure::Failed(reason),
    }
}
