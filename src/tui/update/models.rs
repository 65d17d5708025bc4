//! Other models in the chat: the list to choose from, and a load from its start to its end. Must
//! never do IO.

use super::controls::apply;
use super::event::Effect;
use super::replay;
use crate::tui::keymap::Action;
use crate::tui::state::{
    ModelLoad, ModelPart, ModelPicker, ModelRow, Overlay, Phase, PlainPace, ScreenState,
};
use crate::worker::{Command, LoadJob, ModelChoice, Ready};

/// Opens the list and looks for models; `filter` is what was typed already.
pub(super) fn open(state: &mut ScreenState, part: ModelPart, filter: &str) -> Vec<Effect> {
    if replay::refuses(state, Action::Models(part)) {
        return Vec::new();
    }
    let Some(ready) = &state.ready else {
        state.refuse("the models are still being loaded");
        return Vec::new();
    };
    let models = ready.models.clone();
    state.overlay = Some(Overlay::Models(ModelPicker::new(part, filter)));
    vec![Effect::FindModels { part, models, busy: state.answering() }]
}

/// Models were found; they are dropped if the list was closed meanwhile.
pub(super) fn found(state: &mut ScreenState, part: ModelPart, rows: Vec<ModelRow>) {
    if let Some(Overlay::Models(picker)) = &mut state.overlay
        && picker.part == part
    {
        picker.list.replace(rows);
        picker.searching = false;
    }
}

/// Takes the model under the cursor, or what was typed if no row fits it and it may name a file or
/// a repository. The list stays open if nothing can be taken.
pub(super) fn take(state: &mut ScreenState, picker: ModelPicker) -> Vec<Effect> {
    let chosen = match picker.list.chosen() {
        Some(row) => match &row.refused {
            Some(why) => Err(why.clone()),
            None if row.in_use => Err(format!("{} is in use already", row.title)),
            None => Ok((row.title.clone(), row.models.clone())),
        },
        None => named(&picker),
    };
    match chosen {
        Ok((title, models)) => load(state, title, models),
        Err(why) => {
            state.complain(why);
            state.overlay = Some(Overlay::Models(picker));
            Vec::new()
        }
    }
}

/// What was typed, as the name of a target that no list holds.
fn named(picker: &ModelPicker) -> Result<(String, ModelChoice), String> {
    let name = picker.list.filter().trim();
    match picker.part {
        _ if picker.searching => Err("models are still being looked for".to_string()),
        ModelPart::Target if name.contains(['/', '\\', ':']) || name.ends_with(".gguf") => {
            let models = ModelChoice { target: Some(name.to_string()), ..ModelChoice::default() };
            Ok((name.to_string(), models))
        }
        _ => Err("no model has these words".to_string()),
    }
}

fn load(state: &mut ScreenState, title: String, models: ModelChoice) -> Vec<Effect> {
    // After the former models were let go, only the end of that load says what is loaded.
    if state.load.as_ref().is_some_and(|load| load.alone) || state.phase == Phase::Broken {
        state.refuse("no other model can be loaded now");
        return Vec::new();
    }
    state.controls.load += 1;
    let load = state.controls.load;
    let stage = "begun".to_string();
    state.load = Some(ModelLoad { load, title, stage, fraction: None, alone: false });
    let mut effects = apply(state);
    effects.push(Effect::Send(Command::Load(LoadJob { load, models })));
    effects
}

/// Stops the load on its way.
pub(super) fn stop_load(state: &mut ScreenState) -> Vec<Effect> {
    let Some(load) = &mut state.load else { return Vec::new() };
    if load.alone {
        // The former models are loaded again before anything can be asked.
        load.stage = "stopping".to_string();
    } else {
        state.load = None;
    }
    state.controls.load += 1;
    let target = state.ready.as_ref().map_or("", |ready| &ready.target).to_string();
    state.say(format!("loading stopped: {target} stays"));
    apply(state)
}

/// How far a load is.
pub(super) fn progress(state: &mut ScreenState, load: u64, stage: String, fraction: Option<f32>) {
    if let Some(now) = state.load.as_mut().filter(|now| now.load == load) {
        now.stage = stage;
        now.fraction = fraction;
    }
}

/// The models in use were let go to make room.
pub(super) fn unloaded(state: &mut ScreenState, load: u64, reason: String) {
    let known = state.load.take().filter(|now| now.load == load);
    let title = known.map_or_else(|| "the models again".to_string(), |now| now.title);
    let stage = "making room".to_string();
    // A question sent meanwhile waits and is answered by whatever is loaded then.
    if state.phase == Phase::Idle {
        state.phase = Phase::Loading { stage: stage.clone(), fraction: None };
    }
    state.load = Some(ModelLoad { load, title, stage, fraction: None, alone: true });
    state.notice(format!("{reason}: those in use were let go first"));
}

/// Other models are in use. What is loaded is the worker's to say, also if it was too late to stop.
pub(super) fn swapped(state: &mut ScreenState, ready: Box<Ready>) -> Vec<Effect> {
    let target = ready.target.clone();
    let part =
        state.ready.as_ref().is_some_and(|former| former.models.target == ready.models.target);
    let sampler = ready.sampler;
    // The answer on the screen is the former models'.
    state.meters.settled = Some(state.speedup());
    state.ready = Some(ready);
    state.plain = PlainPace::default();
    state.load = None;
    loading_ended(state);
    // A strategy was chosen for the former drafter.
    state.controls.strategy = None;
    if let Some(sampler) = sampler {
        state.take_sampler(sampler);
    }
    let name = if part { state.draft().unwrap_or("nothing").to_string() } else { target };
    let verb = if part { "drafts now" } else { "answers now" };
    let again = "the conversation is read anew with the next message";
    state.say(match state.chat.turns().is_empty() {
        true => format!("{name} {verb}"),
        false => format!("{name} {verb}; {again}"),
    });
    apply(state)
}

/// Other models were not loaded: those in use go on.
pub(super) fn not_swapped(state: &mut ScreenState, load: u64, error: Option<String>) {
    let Some(now) = state.load.take_if(|now| now.load == load) else { return };
    loading_ended(state);
    if let Some(error) = error {
        let target = state.ready.as_ref().map_or("", |ready| &ready.target);
        let text =
            format!("{error}\n\n{target} stays in use; nothing of the conversation is lost.");
        let title = format!("{} was not loaded", now.title);
        state.overlay = Some(Overlay::Error { title, text });
    }
}

/// Questions can be asked again.
fn loading_ended(state: &mut ScreenState) {
    if let Phase::Loading { .. } = state.phase {
        state.phase = Phase::Idle;
    }
}
