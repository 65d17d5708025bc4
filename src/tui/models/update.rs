//! Other models in the chat: the list to choose from, and a load or download from its start to its
//! end. Must never do IO.

use super::{ModelLoad, ModelPicker, ModelRow, Phase, pair_models};
use crate::chat::AnsweredBy;
use crate::library::pair;
use crate::tui::actions::{Action, ModelPart};
use crate::tui::chat::answer::{STILL_LOADING, return_queued, send_queued};
use crate::tui::event::Effect;
use crate::tui::meters::PlainPace;
use crate::tui::overlays::Overlay;
use crate::tui::state::ScreenState;
use crate::worker::{Command, LoadJob, ModelChoice, Ready};

/// Opens the list and looks for models; `filter` is what was typed already.
pub(crate) fn open(state: &mut ScreenState, part: ModelPart, filter: &str) {
    let Some(ready) = &state.models.ready else {
        return state.refuse(STILL_LOADING);
    };
    let models = ready.models.clone();
    state.overlays.open = Some(Overlay::Models(ModelPicker::new(part, filter)));
    state.emit(Effect::FindModels { part, models, busy: state.answering() });
}

/// Models were found; they are dropped if the list is closed.
pub(crate) fn found(state: &mut ScreenState, part: ModelPart, rows: Vec<ModelRow>) {
    if let Some(Overlay::Models(picker)) = &mut state.overlays.open
        && picker.part == part
    {
        picker.list.replace(rows);
        picker.searching = false;
    }
}

/// Takes the model under the cursor, or what was typed if no row fits it and it may name a file, a
/// repository or a pair of the catalogue. The list stays open if nothing can be taken.
pub(crate) fn take(state: &mut ScreenState, picker: ModelPicker) {
    let chosen = match picker.list.chosen() {
        Some(ModelRow { refused: Some(why), .. }) => Err(why.clone()),
        Some(row) if row.in_use => Err(format!("{} is already in use", row.title)),
        // The row may have had no room for the licence.
        Some(row) if row.download => {
            Ok(ModelRow { title: format!("{} ({})", row.title, row.place), ..row.clone() })
        }
        Some(row) => Ok(row.clone()),
        None if picker.searching => Err("Still looking for models".to_string()),
        None if picker.part == ModelPart::Target => {
            named(picker.list.filter()).ok_or_else(no_match)
        }
        None => Err(no_match()),
    };
    match chosen {
        Ok(chosen) => load(state, chosen),
        Err(why) => {
            state.complain(why);
            state.overlays.open = Some(Overlay::Models(picker));
        }
    }
}

fn no_match() -> String {
    "No model matches these words".to_string()
}

/// What was typed, as a pair of the catalogue, a file or a repository.
pub(crate) fn named(typed: &str) -> Option<ModelRow> {
    let name = typed.trim();
    match pair(name) {
        Ok(pair) => Some(ModelRow {
            title: format!("{} ({})", pair.title, pair.licence),
            models: pair_models(pair),
            download: true,
            ..ModelRow::default()
        }),
        _ if name.contains(['/', '\\', ':']) || name.ends_with(".gguf") => Some(row(name)),
        _ => None,
    }
}

/// A target by any name that `--target` takes.
pub(crate) fn row(name: &str) -> ModelRow {
    let models = ModelChoice { target: Some(name.to_string()), ..ModelChoice::default() };
    ModelRow { title: name.to_string(), models, ..ModelRow::default() }
}

/// Loads it next to the models in use, which stay in use until it is there.
pub(crate) fn load(state: &mut ScreenState, chosen: ModelRow) {
    // After the models in use were unloaded, only the end of that load says what is loaded.
    if state.models.load.as_ref().is_some_and(|load| load.alone)
        || state.models.phase == Phase::Broken
    {
        return state.refuse("No other model can be loaded now");
    }
    state.controls.worker.load += 1;
    let load = state.controls.worker.load;
    let ModelRow { title, models, download, .. } = chosen;
    let stage = if download { "asking the hub" } else { "starting to load" }.to_string();
    state.models.load =
        Some(ModelLoad { load, title, download, stage, fraction: None, alone: false });
    state.send(Command::Load(LoadJob { load, models }));
}

/// Offers the models of the conversation that was opened, if others are in use; says so if they
/// are not there any more.
pub(crate) fn reopened(state: &mut ScreenState) {
    let (Some(ready), Some(by)) = (&state.models.ready, &state.chat.answered_by) else { return };
    let same = match &by.models {
        Some(models) => models.same_target(&ready.models) || by.target == ready.target,
        None => by.target == ready.target,
    };
    if same || state.models.replay {
        return;
    }
    let former = &by.target;
    let now = &ready.target;
    if by.gone {
        state.refuse(format!("{former} is not on this machine any more; {now} continues"));
    } else if by.models.is_none() {
        state.refuse(format!("This chat used {former}; {now} continues it"));
    } else if state.overlays.open.is_none() {
        state.overlays.open = Some(Overlay::Reopened);
    }
}

/// Loads the models of the conversation that was opened.
pub(crate) fn load_former(state: &mut ScreenState) {
    if let Some(AnsweredBy { target, models: Some(models), .. }) = state.chat.answered_by.clone() {
        load(state, ModelRow { title: target, models, ..ModelRow::default() });
    }
}

/// Stops the load under way.
pub(crate) fn stop_load(state: &mut ScreenState) {
    let Some(load) = &mut state.models.load else { return };
    let what = match load.download {
        true => "Download stopped, what has arrived is kept",
        false => "Loading stopped",
    };
    if load.alone {
        // The models from before are loaded again before the next question.
        load.stage = "stopping".to_string();
    } else {
        state.models.load = None;
    }
    return_queued(state);
    state.controls.worker.load += 1;
    state.say(format!("{what}; {} stays in use", state.models.target()));
    state.apply();
}

/// How far the load is.
pub(crate) fn progress(state: &mut ScreenState, load: u64, stage: String, fraction: Option<f32>) {
    if let Some(now) = state.models.load.as_mut().filter(|now| now.load == load) {
        now.stage = stage;
        now.fraction = fraction;
    }
}

/// The models in use were unloaded to make room.
pub(crate) fn unloaded(state: &mut ScreenState, load: u64, reason: String) {
    let known = state.models.load.take().filter(|now| now.load == load);
    let title = known.map_or_else(|| "The models in use".to_string(), |now| now.title);
    let stage = "making room".to_string();
    // A question that is sent now waits, and is answered by the models that are loaded then.
    if state.models.phase == Phase::Idle {
        state.models.phase = Phase::Loading { stage: stage.clone(), fraction: None };
    }
    let download = false;
    state.models.load =
        Some(ModelLoad { load, title, download, stage, fraction: None, alone: true });
    let text = format!("{reason}: the models in use were unloaded first");
    state.toasts.notice(&text, state.now);
}

/// Other models are in use. The worker says which, even if it was too late to stop it.
pub(crate) fn swapped(state: &mut ScreenState, ready: Box<Ready>) {
    let target = ready.target.clone();
    let part = state
        .models
        .ready
        .as_ref()
        .is_some_and(|former| former.models.target == ready.models.target);
    let sampler = ready.sampler;
    // The answer on the screen is by the models from before.
    state.meters.answer.settled = Some(state.speedup());
    state.models.ready = Some(ready);
    state.meters.plain = PlainPace::default();
    state.models.load = None;
    loading_ended(state);
    // The strategy was chosen for the drafter from before.
    state.controls.worker.strategy = None;
    if let Some(sampler) = sampler {
        state.controls.take_sampler(sampler);
    }
    let now = match (part, state.draft()) {
        (true, Some(draft)) => format!("{draft} drafts now"),
        (true, None) => "Nothing drafts now".to_string(),
        (false, _) => format!("{target} answers now"),
    };
    if state.overlays.race.is_none() {
        state.say(match part || state.chat.turns().is_empty() {
            true => now,
            false => format!("{now}; it reads the conversation with your next message"),
        });
    }
    state.apply();
    send_queued(state);
}

/// Other models were not loaded: those in use stay. What waits was meant for the others.
pub(crate) fn not_swapped(state: &mut ScreenState, load: u64, error: Option<String>) {
    let Some(now) = state.models.load.take_if(|now| now.load == load) else { return };
    loading_ended(state);
    if !state.answering() {
        return_queued(state);
    }
    if let Some(error) = error {
        let target = state.models.target();
        let mut text = format!("{error}\n\n{target} stays in use, with the whole conversation.");
        if now.download {
            let models = state.display.keys.name(Action::Models(ModelPart::Target));
            text.push_str(&format!(
                " To continue the download, press {models} and choose the model again."
            ));
        }
        let title = match now.download {
            true => format!("{} was not downloaded", now.title),
            false => format!("{} was not loaded", now.title),
        };
        state.fail(title, text);
    }
}

/// The next question can be sent.
fn loading_ended(state: &mut ScreenState) {
    if let Phase::Loading { .. } = state.models.phase {
        state.models.phase = Phase::Idle;
    }
}
