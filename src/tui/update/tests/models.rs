//! Other models: chosen, loaded next to those in use, stopped, failed.

use super::job as asked;
use crate::tui::actions::ModelPart;
use crate::tui::event::{Effect, ScreenEvent};
use crate::tui::models::{Fit, ModelRow, Phase, pair_models};
use crate::tui::overlays::Overlay;
use crate::tui::state::ScreenState;
use crate::tui::tests::{
    answer, loaded, ready, said, say, say_all, screen_of, type_keys, unloaded,
};
use crate::tui::update::update;
use crate::worker::{Command, Event, LoadJob, ModelChoice, Ready};

fn named(name: &str) -> ModelChoice {
    ModelChoice { target: Some(name.to_string()), ..ModelChoice::default() }
}

fn row(title: &str) -> ModelRow {
    ModelRow {
        title: title.to_string(),
        parameters: Some(494_000_000),
        quantisation: Some("Q4_K_M".to_string()),
        bytes: 398_000_000,
        place: "Ollama".to_string(),
        aliases: String::new(),
        fit: Fit::Beside,
        speed: String::new(),
        download: false,
        refused: None,
        models: named(title),
        in_use: false,
    }
}

fn found(state: &mut ScreenState, part: ModelPart, rows: Vec<ModelRow>) {
    let now = state.now;
    assert!(update(state, ScreenEvent::Models { part, rows }, now).is_empty());
}

/// The load that the effects send, after the controls that want it.
fn load(effects: &[Effect]) -> LoadJob {
    let [Effect::Apply(controls), Effect::Send(Command::Load(job))] = effects else {
        panic!("no load: {effects:?}")
    };
    assert_eq!(controls.load, job.load);
    job.clone()
}

/// A screen on which `Qwen` is being loaded.
fn loading() -> (ScreenState, LoadJob) {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "/model<enter>");
    found(&mut state, ModelPart::Target, vec![row("Llama"), row("Qwen")]);
    let job = load(&type_keys(&mut state, "qwen<enter>"));
    (state, job)
}

fn swapped(job: &LoadJob) -> Event {
    let ready = Ready { target: "Qwen".into(), models: job.models.clone(), ..ready() };
    Event::Swapped { load: job.load, ready: Box::new(ready) }
}

#[test]
fn an_answer_keeps_its_speed_up_when_the_models_are_changed() {
    let (mut state, job) = loading();
    state.models.ready.as_mut().unwrap().models = named("first.gguf");
    type_keys(&mut state, "one<enter>");
    say_all(&mut state, answer(1, "A first answer of several words, some of them drafted.", 8));
    let before = state.speedup().unwrap();
    let Event::Swapped { load, mut ready } = swapped(&job) else { unreachable!() };
    ready.plain_ms = Some(4.0);
    say(&mut state, Event::Swapped { load, ready });
    assert_eq!(state.speedup(), Some(before), "it is the former model's answer");
    type_keys(&mut state, "two<enter>");
    let of = state.generation();
    say_all(&mut state, answer(of, "A first answer of several words, some drafted.", 8));
    let after = state.speedup().unwrap();
    assert!(after.ratio < before.ratio / 2.0, "{after:?} {before:?}");
}

#[test]
fn a_model_is_chosen_from_the_list_and_the_conversation_goes_on_with_it() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "one<enter>");
    say_all(&mut state, answer(1, "First answer.", 8));
    let effects = type_keys(&mut state, "<c-n>");
    let models = ModelChoice::default();
    let find = Effect::FindModels { part: ModelPart::Target, models, busy: false };
    assert_eq!(effects, [find]);
    assert!(type_keys(&mut state, "<enter>").is_empty(), "nothing is found yet");
    found(&mut state, ModelPart::Target, vec![row("Llama"), row("Qwen")]);
    let job = load(&type_keys(&mut state, "QWE<enter>"));
    assert_eq!((job.load, job.models.clone()), (1, named("Qwen")));
    assert!(state.overlays.open.is_none());
    // Meanwhile the former model answers.
    assert_eq!(state.models.phase, Phase::Idle);
    let progress = |load, fraction| {
        let stage = "reading Qwen".to_string();
        Event::LoadProgress { load, stage, fraction: Some(fraction) }
    };
    say(&mut state, progress(1, 0.25));
    say(&mut state, progress(7, 0.75));
    let words = state.models.load.as_ref().unwrap().words("Esc");
    assert!(words.contains("reading Qwen (25%)") && words.contains("Esc"), "{words}");
    let sent = type_keys(&mut state, "two<enter>");
    assert_eq!(job_generation(&sent), 2);
    say_all(&mut state, answer(2, "Second answer.", 8));
    state.controls.worker.strategy = crate::plan::Strategy::named("pld");
    let effects = say(&mut state, swapped(&job));
    assert!(
        matches!(&effects[..], [Effect::Apply(controls)] if controls.strategy.is_none()),
        "{effects:?}"
    );
    assert_eq!(
        (state.models.load.is_none(), state.models.ready.as_ref().unwrap().target.as_str()),
        (true, "Qwen")
    );
    assert!(said(&state).contains("reads the conversation"), "{}", said(&state));
    let sent = type_keys(&mut state, "three<enter>");
    assert_eq!(asked(&sent).messages.len(), 5, "the whole conversation");
}

fn job_generation(effects: &[Effect]) -> u64 {
    asked(effects).generation
}

#[test]
fn a_load_is_stopped_and_the_former_model_stays() {
    let (mut state, job) = loading();
    let effects = type_keys(&mut state, "<esc>");
    assert!(
        matches!(&effects[..], [Effect::Apply(controls)] if controls.load != job.load),
        "{effects:?}"
    );
    assert!(
        state.models.load.is_none() && said(&state).contains("dovetail-demo"),
        "{}",
        said(&state)
    );
    say(&mut state, Event::NotSwapped { load: job.load, error: None });
    assert!(state.overlays.open.is_none());
    // An answer is stopped before a load.
    let (mut state, job) = loading();
    type_keys(&mut state, "one<enter><esc>");
    assert!(!state.answering() && state.models.load.is_some());
    type_keys(&mut state, "<esc>");
    assert!(state.models.load.is_none());
    // If it was too late to stop, what is loaded is what the worker says.
    say(&mut state, swapped(&job));
    assert_eq!(state.models.ready.as_ref().unwrap().models, job.models);
}

#[test]
fn a_failed_load_says_why_and_changes_nothing() {
    let (mut state, job) = loading();
    type_keys(&mut state, "half a mess");
    let error = "qwen.gguf: a shard is missing; fetch it".to_string();
    say(&mut state, Event::NotSwapped { load: job.load, error: Some(error.clone()) });
    let Some(Overlay::Error { title, text }) = &state.overlays.open else {
        panic!("nothing is said")
    };
    assert!(title.contains("Qwen") && text.contains(&error), "{title}: {text}");
    assert!(text.contains("dovetail-demo 6M stays"), "{text}");
    type_keys(&mut state, "age<enter>");
    assert_eq!(state.chat.turns()[0].text, "half a message");
    assert_eq!(state.models.ready.as_ref().unwrap().models, ModelChoice::default());
}

#[test]
fn a_message_sent_while_the_first_model_loads_waits_for_it() {
    let mut state = unloaded();
    assert!(type_keys(&mut state, "one<enter>two<enter>").is_empty());
    assert!(state.input.is_empty() && said(&state).contains("once the model is loaded"));
    let sent = say(&mut state, Event::Ready(Box::new(ready())));
    assert_eq!(asked(&sent).messages[0].content, "one");
    assert_eq!(state.input.queue, ["two"], "it waits for the answer");
    // Esc or Ctrl+C brings it back.
    for key in ["<esc>", "<c-c>"] {
        let mut state = unloaded();
        type_keys(&mut state, &format!("one<enter>{key}"));
        assert_eq!(state.input.text(), "one");
        assert!(say(&mut state, Event::Ready(Box::new(ready()))).is_empty());
    }
    // So does a failure.
    let mut state = unloaded();
    type_keys(&mut state, "one<enter>");
    say(&mut state, Event::Failed { generation: None, error: "no file".into() });
    assert_eq!((&state.models.phase, state.input.text()), (&Phase::Broken, "one".to_string()));
    let mut state = unloaded();
    type_keys(&mut state, "one<enter>");
    let now = state.now;
    update(&mut state, ScreenEvent::WorkerGone(None), now);
    assert_eq!(state.input.text(), "one");
    // It belongs to the conversation that it was written in.
    let mut state = unloaded();
    type_keys(&mut state, "one<enter>/new<enter>");
    assert_eq!((state.input.queue.len(), state.input.text()), (0, "one".to_string()));
}

#[test]
fn a_message_for_another_model_waits_for_it_and_comes_back_if_it_fails() {
    let waiting = || {
        let (mut state, job) = loading();
        say(&mut state, Event::Unloaded { load: job.load, reason: "no room".into() });
        assert!(type_keys(&mut state, "one<enter>").is_empty());
        assert_eq!(state.input.queue, ["one"]);
        (state, job)
    };
    let (mut state, job) = waiting();
    let sent = say(&mut state, swapped(&job));
    assert_eq!(asked(&sent).messages[0].content, "one");
    let (mut state, job) = waiting();
    say(&mut state, Event::NotSwapped { load: job.load, error: Some("no file".into()) });
    assert_eq!((&state.models.phase, state.input.text()), (&Phase::Idle, "one".to_string()));
}

#[test]
fn while_the_former_model_is_unloaded_nothing_is_asked() {
    let (mut state, job) = loading();
    let reason = "Qwen needs 9000 MiB next to the models in use, and 5000 are free".to_string();
    say(&mut state, Event::Unloaded { load: job.load, reason });
    assert!(said(&state).contains("9000 MiB"), "{}", said(&state));
    assert!(type_keys(&mut state, "one<enter>").is_empty());
    // Stopped, it comes back and the former model is loaded again.
    type_keys(&mut state, "<esc>");
    assert_eq!(state.input.text(), "one");
    assert!(matches!(state.models.phase, Phase::Loading { .. }) && state.models.load.is_some());
    say(&mut state, Event::NotSwapped { load: job.load, error: None });
    assert_eq!((&state.models.phase, state.models.load.is_none()), (&Phase::Idle, true));
    assert_eq!(job_generation(&type_keys(&mut state, "<enter>")), 1);
}

#[test]
fn a_question_that_a_load_overtakes_is_answered_after_it() {
    for alone in [false, true] {
        let (mut state, job) = loading();
        let sent = type_keys(&mut state, "one<enter>");
        let generation = job_generation(&sent);
        if alone {
            say(&mut state, Event::Unloaded { load: job.load, reason: "no room".into() });
        }
        say(&mut state, swapped(&job));
        assert!(state.answering(), "alone: {alone}");
        say_all(&mut state, answer(generation, "Answered by the new one.", 8));
        assert_eq!(state.chat.last_answer(), Some("Answered by the new one."));
    }
    // Where nothing can be loaded any more, the question comes back.
    let (mut state, job) = loading();
    type_keys(&mut state, "one<enter>");
    say(&mut state, Event::Unloaded { load: job.load, reason: "no room".into() });
    say(&mut state, Event::Failed { generation: None, error: "no file".into() });
    assert_eq!((&state.models.phase, state.input.text()), (&Phase::Broken, "one".to_string()));
}

#[test]
fn what_cannot_be_loaded_says_why_and_the_list_stays() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "<c-n>");
    let why = "its tensor type is not known; take another file";
    let refused = ModelRow { refused: Some(why.to_string()), ..row("Odd") };
    let used = ModelRow { in_use: true, ..row("Used") };
    found(&mut state, ModelPart::Target, vec![refused, used]);
    for (keys, words) in [("<enter>", why), ("<down><enter>", "already in use")] {
        assert!(type_keys(&mut state, keys).is_empty());
        assert!(said(&state).contains(words), "{}", said(&state));
        assert!(matches!(state.overlays.open, Some(Overlay::Models(_))));
    }
    assert!(type_keys(&mut state, "nothing of it<enter>").is_empty());
    assert!(said(&state).contains("No model matches these words"), "{}", said(&state));
    // Found for a list that was closed, they are dropped.
    type_keys(&mut state, "<esc>");
    found(&mut state, ModelPart::Target, vec![row("Late")]);
    assert!(state.overlays.open.is_none());
    let mut starting = unloaded();
    assert!(type_keys(&mut starting, "<c-n>").is_empty() && starting.overlays.open.is_none());
}

/// A model of the catalogue that the list offers.
fn offered(title: &str) -> ModelRow {
    ModelRow { place: "Apache-2.0".to_string(), download: true, ..row(title) }
}

#[test]
fn a_download_runs_while_the_model_in_use_answers_and_can_be_stopped() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "<c-n>");
    found(&mut state, ModelPart::Target, vec![row("Llama"), offered("Qwen")]);
    let job = load(&type_keys(&mut state, "<down><enter>"));
    assert_eq!(job.models, named("Qwen"));
    let stage = "downloading qwen.gguf: 1203 of 4081 MB, 12.3 MB/s, 3:54 left".to_string();
    say(&mut state, Event::LoadProgress { load: job.load, stage, fraction: Some(0.29) });
    let told = screen_of(&mut state);
    for part in ["Qwen (Apache-2.0)", "1203 of 4081 MB", "12.3 MB/s", "(29%)", "Esc stops it"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    type_keys(&mut state, "one<enter>");
    let of = state.generation();
    say_all(&mut state, answer(of, "Answered meanwhile.", 8));
    assert_eq!(state.chat.last_answer(), Some("Answered meanwhile."));
    let effects = type_keys(&mut state, "<esc>");
    assert!(matches!(&effects[..], [Effect::Apply(controls)] if controls.load != job.load));
    assert!(state.models.load.is_none() && said(&state).contains("is kept"), "{}", said(&state));
    // It continues the same conversation once it is here.
    type_keys(&mut state, "<c-n>");
    found(&mut state, ModelPart::Target, vec![offered("Qwen")]);
    let job = load(&type_keys(&mut state, "<enter>"));
    say(&mut state, swapped(&job));
    assert_eq!(asked(&type_keys(&mut state, "two<enter>")).messages.len(), 3);
}

#[test]
fn a_failed_download_says_why_and_how_to_continue_it() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "<c-n>");
    found(&mut state, ModelPart::Target, vec![offered("Qwen")]);
    let job = load(&type_keys(&mut state, "<enter>"));
    let error = "the connection broke at 5 of 10 bytes".to_string();
    say(&mut state, Event::NotSwapped { load: job.load, error: Some(error.clone()) });
    let Some(Overlay::Error { title, text }) = &state.overlays.open else {
        panic!("nothing is said")
    };
    assert!(title.contains("Qwen") && title.contains("not downloaded"), "{title}");
    for part in [error.as_str(), "dovetail-demo 6M stays in use", "press Ctrl+N"] {
        assert!(text.contains(part), "{text}");
    }
    type_keys(&mut state, "<esc>one<enter>");
    assert!(state.answering(), "the demo is usable");
}

#[test]
fn a_name_of_the_catalogue_downloads_its_pair() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "/model Qwen2.5-7B<enter>");
    found(&mut state, ModelPart::Target, vec![row("Llama")]);
    let job = load(&type_keys(&mut state, "<enter>"));
    let pair = crate::library::pair("qwen2.5-7b").unwrap();
    assert_eq!(job.models, pair_models(pair));
    assert!(state.models.load.as_ref().unwrap().title.contains(&pair.licence));
}

#[test]
fn a_path_or_a_hub_id_is_taken_as_it_is() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "/model ~/models/my.gguf<enter>");
    found(&mut state, ModelPart::Target, vec![row("Qwen")]);
    let job = load(&type_keys(&mut state, "<enter>"));
    assert_eq!(job.models, named("~/models/my.gguf"));
}

#[test]
fn drafts_are_chosen_likewise() {
    let mut state = loaded(80, 24);
    let effects = type_keys(&mut state, "<c-g>");
    assert!(matches!(effects[..], [Effect::FindModels { part: ModelPart::Draft, .. }]));
    let models = ModelChoice { draft: Some("lookup".into()), ..ModelChoice::default() };
    let lookup = ModelRow { models: models.clone(), ..row("prompt lookup") };
    found(&mut state, ModelPart::Draft, vec![row("A head"), lookup]);
    let job = load(&type_keys(&mut state, "<down><enter>"));
    assert_eq!(job.models, models);
    let ready = Ready { strategy: "pld".into(), models, ..ready() };
    say(&mut state, Event::Swapped { load: job.load, ready: Box::new(ready) });
    assert!(said(&state).contains("drafts now"), "{}", said(&state));
    assert_eq!(state.strategy(), "pld");
}
