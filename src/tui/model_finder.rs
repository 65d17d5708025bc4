//! The models that the chat offers: those on this machine, with what fits. It takes some
//! milliseconds a model, on a thread of its own. Must never know the screen beyond its rows.

use super::state::{Fit, ModelPart, ModelRow};
use crate::hardware::{Machine, Memory};
use crate::library::{ModelEntry, ModelPlaces, Runs, bundled_drafts, find};
use crate::settings::LOOKUP;
use crate::worker::ModelChoice;

/// Looks for models.
#[derive(Clone, Debug, Default)]
pub struct ModelFinder {
    /// Folders that the settings name.
    folders: Vec<String>,
}

impl ModelFinder {
    /// Looks in these folders, beside the stores of other programs.
    pub fn new(folders: Vec<String>) -> Self {
        Self { folders }
    }

    /// Models that can be chosen for `part` while `current` are in use.
    pub fn find(&self, part: ModelPart, current: &ModelChoice) -> Vec<ModelRow> {
        let found = find(&ModelPlaces::of_machine(&self.folders));
        for skipped in &found.skipped {
            tracing::info!("{skipped}");
        }
        let memory = Machine::probe().memory;
        match part {
            ModelPart::Target => targets(&found.models, current, memory),
            ModelPart::Draft => drafts(&found.models, &bundled_drafts(), current, memory),
        }
    }
}

/// Every model that can be a target. A head or a small model of the former target is not kept.
fn targets(models: &[ModelEntry], current: &ModelChoice, memory: Memory) -> Vec<ModelRow> {
    let models = models.iter().filter(|model| !model.is_head());
    let row = |model: &ModelEntry| {
        let choice = ModelChoice { target: name(model), ..ModelChoice::default() };
        ModelRow { in_use: is(model, current.target.as_deref()), ..row(model, choice, memory) }
    };
    models.map(row).collect()
}

/// Heads that were made for the target in use, small models with its vocabulary, and lookup.
fn drafts(
    models: &[ModelEntry],
    bundled: &[ModelEntry; 2],
    current: &ModelChoice,
    memory: Memory,
) -> Vec<ModelRow> {
    let of_target = |draft: Option<&str>, draft_model: Option<&str>| ModelChoice {
        target: current.target.clone(),
        draft: draft.map(str::to_string),
        draft_model: draft_model.map(str::to_string),
    };
    let mut choices: Vec<(&ModelEntry, ModelChoice)> = Vec::new();
    let target = models.iter().find(|model| is(model, current.target.as_deref()));
    if target.is_some_and(|target| name(target).is_none()) {
        let [head, small] = bundled;
        choices.push((head, of_target(None, None)));
        choices.push((small, of_target(None, Some("bundled"))));
    }
    for model in models {
        match target.and_then(|target| goes_with(model, target)) {
            Some(ModelPartOfDraft::Head) => {
                choices.push((model, of_target(name(model).as_deref(), None)));
            }
            Some(ModelPartOfDraft::Small) => {
                choices.push((model, of_target(None, name(model).as_deref())));
            }
            None => {}
        }
    }
    let row = |(model, choice)| row(model, choice, memory);
    let mut rows: Vec<ModelRow> = choices.into_iter().map(row).collect();
    rows.push(ModelRow {
        title: "prompt lookup".to_string(),
        parameters: None,
        quantisation: None,
        bytes: 0,
        place: "from the conversation".to_string(),
        aliases: LOOKUP.to_string(),
        fit: Fit::Beside,
        refused: None,
        models: of_target(Some(LOOKUP), None),
        in_use: false,
    });
    for row in &mut rows {
        row.in_use = row.models == *current;
    }
    rows
}

/// How a model drafts.
enum ModelPartOfDraft {
    Head,
    Small,
}

/// How `model` can draft for `target`, if it can: a head of its sizes, or a model of the same
/// vocabulary that reads at most half as many bytes a token.
fn goes_with(model: &ModelEntry, target: &ModelEntry) -> Option<ModelPartOfDraft> {
    let Some(Runs::Model { config, pass_bytes: all }) = &target.facts.runs else { return None };
    match model.facts.runs.as_ref()? {
        Runs::Head { config: head, .. } => {
            head.fits(config.hidden, config.vocab).ok().map(|()| ModelPartOfDraft::Head)
        }
        Runs::Model { pass_bytes, .. } => {
            let same = model.facts.vocabulary.is_some()
                && model.facts.vocabulary == target.facts.vocabulary;
            (same && *pass_bytes <= all / 2).then_some(ModelPartOfDraft::Small)
        }
    }
}

/// What flags call it; `None` for the bundled one.
fn name(model: &ModelEntry) -> Option<String> {
    let spec = model.located.spec.to_string();
    (spec != "bundled").then_some(spec)
}

/// Whether flags name it so.
fn is(model: &ModelEntry, named: Option<&str>) -> bool {
    let named = named.unwrap_or("bundled");
    model.located.spec.to_string() == named || model.located.names().any(|name| name == named)
}

fn row(model: &ModelEntry, models: ModelChoice, memory: Memory) -> ModelRow {
    let (located, facts) = (&model.located, &model.facts);
    // Weights, and a twentieth for what is computed with them.
    let needed = located.bytes + located.bytes / 20;
    let fit = match memory {
        Memory { total: 0, .. } => Fit::Beside,
        Memory { total, .. } if needed > total => Fit::TooLarge,
        Memory { free, .. } if needed > free => Fit::Alone,
        _ => Fit::Beside,
    };
    let too_large = || {
        let (needed, total) = (needed >> 20, memory.total >> 20);
        format!("{} needs {needed} MiB and this machine has {total}", model.title())
    };
    ModelRow {
        title: facts.title.as_ref().unwrap_or(&located.name).clone(),
        parameters: facts.parameters,
        quantisation: facts.quantisation.clone(),
        bytes: located.bytes,
        place: located.store.to_string(),
        aliases: located.names().collect::<Vec<_>>().join(" "),
        fit,
        refused: model
            .problem()
            .map(str::to_string)
            .or_else(|| (fit == Fit::TooLarge).then(too_large)),
        models,
        in_use: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Memory = Memory { total: 8 << 30, free: 4 << 30 };

    #[test]
    fn the_bundled_target_is_offered_and_in_use_at_first() {
        let found = find(&ModelPlaces::default());
        let rows = targets(&found.models, &ModelChoice::default(), ROOM);
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert!(rows[0].in_use && rows[0].refused.is_none() && rows[0].fit == Fit::Beside);
        let small = Memory { total: 8 << 30, free: 1000 };
        let rows = targets(&found.models, &ModelChoice::default(), small);
        assert_eq!(rows[0].fit, Fit::Alone);
        let tiny = Memory { total: 1000, free: 1000 };
        let rows = targets(&found.models, &ModelChoice::default(), tiny);
        let why = rows[0].refused.as_deref().unwrap();
        assert!(why.contains("this machine has"), "{why}");
    }

    #[test]
    fn drafts_are_those_that_go_with_the_target_and_lookup() {
        let found = find(&ModelPlaces::default());
        let offered = |current: &ModelChoice| {
            let rows = drafts(&found.models, &bundled_drafts(), current, ROOM);
            let used = rows.iter().position(|row| row.in_use);
            (rows.into_iter().map(|row| row.models).collect::<Vec<_>>(), used)
        };
        let small = ModelChoice { draft_model: Some("bundled".into()), ..ModelChoice::default() };
        let lookup = ModelChoice { draft: Some(LOOKUP.into()), ..ModelChoice::default() };
        let all = vec![ModelChoice::default(), small.clone(), lookup];
        assert_eq!(offered(&ModelChoice::default()), (all.clone(), Some(0)));
        assert_eq!(offered(&small), (all, Some(1)));
        // Of a target that is not on this machine only lookup is known to go with it.
        let other = ModelChoice { target: Some("owner/name".into()), ..ModelChoice::default() };
        assert_eq!(offered(&other).0.len(), 1);
    }

    #[test]
    fn a_model_of_the_same_vocabulary_and_half_the_size_can_draft() {
        let found = find(&ModelPlaces::default());
        let target = &found.models[0];
        let [head, small] = bundled_drafts();
        assert!(matches!(goes_with(&head, target), Some(ModelPartOfDraft::Head)));
        assert!(matches!(goes_with(&small, target), Some(ModelPartOfDraft::Small)));
        assert!(goes_with(target, target).is_none(), "it is no smaller than itself");
        assert!(goes_with(target, &head).is_none(), "a head is no target");
    }
}
