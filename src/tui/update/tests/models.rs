//! Other models: chosen, loaded next to those in use, stopped, failed.

use super::*;
use crate::tui::models::{ModelRow, pair_models};

fn row(title: &str) -> ModelRow {
    let place = "Ollama".to_string();
    ModelRow { title: title.to_string(), place, models: named(title), ..ModelRow::default() }
}

fn found(state: &mut ScreenState, part: ModelPart, rows: Vec<ModelRow>) {
    assert!(tell(state, ScreenEvent::Models { part, rows }).is_empty());
}

/// Opens the list by `keys`, which finds `rows`, and chooses from it by `choice`.
fn choose(state: &mut ScreenState, keys: &str, rows: Vec<ModelRow>, choice: &str) -> LoadJob {
    type_keys(state, keys);
    found(state, ModelPart::Target, rows);
    load(&type_keys(state, choice))
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
    let rows = vec![row("Llama"), row("Qwen")];
    let job = choose(&mut state, "/model<enter>", rows, "qwen<enter>");
    (state, job)
}

fn swapped_to(job: &LoadJob, ready: Ready) -> Event {
    let ready = Ready { target: "Qwen".into(), models: job.models.clone(), ..ready };
    Event::Swapped { load: job.load, ready: Box::new(ready) }
}

fn swapped(job: &LoadJob) -> Event {
    swapped_to(job, ready())
}

/// The load that is sent among other effects.
fn sent(effects: &[Effect]) -> LoadJob {
    let load = effects.iter().find_map(|effect| match effect {
        Effect::Send(Command::Load(job)) => Some(job.clone()),
        _ => None,
    });
    load.unwrap_or_else(|| panic!("no load: {effects:?}"))
}

fn unloaded_for(job: &LoadJob) -> Event {
    Event::Unloaded { load: job.load, reason: "Qwen needs 9000 MiB, and 5000 are free".into() }
}

fn not_swapped(job: &LoadJob, error: Option<&str>) -> Event {
    Event::NotSwapped { load: job.load, error: error.map(str::to_string) }
}

#[test]
fn an_answer_keeps_its_speed_up_when_the_models_are_changed() {
    let (mut state, job) = loading();
    state.models.ready.as_mut().unwrap().models = named("first.gguf");
    asked(&mut state, "one", "A first answer of several words, some of them drafted.");
    let before = state.speedup().unwrap();
    say(&mut state, swapped_to(&job, Ready { plain_ms: Some(4.0), ..ready() }));
    assert_eq!(state.speedup(), Some(before), "it is the former model's answer");
    asked(&mut state, "two", "A first answer of several words, some drafted.");
    let after = state.speedup().unwrap();
    assert!(after.ratio < before.ratio / 2.0, "{after:?} {before:?}");
}

#[test]
fn two_models_answer_the_last_question_and_the_first_stays_in_use() {
    let mut state = exchange("one", "First answer.");
    state.models.ready.as_mut().unwrap().models = named("first.gguf");
    let before = (texts(&state), ready());
    assert_eq!(contents(&type_keys(&mut state, "/compare qwen.gguf<enter>")), ["one"]);
    let other = sent(&answered(&mut state, "What the first says."));
    assert_eq!(other.models, named("qwen.gguf"));
    assert!(state.racing() && screen_of(&mut state).contains("Esc stops it"));
    let effects = say(&mut state, swapped(&other));
    assert_eq!(contents(&effects), ["one"]);
    let back = sent(&answered(&mut state, "Another text."));
    assert_eq!(back.models, named("first.gguf"));
    type_keys(&mut state, "<enter>");
    let shown = screen_of(&mut state);
    for words in ["What the first says.", "Another text.", "Qwen: ", " tok/s"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    // A question waits for the first model.
    type_keys(&mut state, "<esc>");
    let effects = type_keys(&mut state, "two<enter>");
    assert!(!effects.iter().any(|e| matches!(e, Effect::Send(_))), "{effects:?}");
    let first = Ready { models: back.models.clone(), ..before.1 };
    let effects = say(&mut state, Event::Swapped { load: back.load, ready: Box::new(first) });
    assert_eq!(contents(&effects), ["one", "First answer.", "two"]);
    assert_eq!(texts(&state)[..2], before.0);
}

#[test]
fn a_comparison_that_is_stopped_or_fails_leaves_the_first_model_in_use() {
    for stopped in [true, false] {
        let mut state = exchange("one", "First answer.");
        let models = state.models.ready.as_ref().unwrap().models.clone();
        type_keys(&mut state, "/compare qwen.gguf<enter>");
        let other = sent(&answered(&mut state, "What the first says."));
        if stopped {
            type_keys(&mut state, "<esc>");
        } else {
            say(&mut state, not_swapped(&other, Some("no such file")));
            assert!(failure(&state).1.contains("No such file"));
        }
        assert!(state.overlays.race.is_none() && state.models.load.is_none());
        assert_eq!(state.models.phase, Phase::Idle);
        assert_eq!(state.models.ready.as_ref().unwrap().models, models);
    }
}

#[test]
fn a_model_is_chosen_from_the_list_and_the_conversation_goes_on_with_it() {
    let mut state = exchange("one", "First answer.");
    let models = ModelChoice::default();
    let find = Effect::FindModels { part: ModelPart::Target, models, busy: false };
    assert_eq!(type_keys(&mut state, "<c-n>"), [find]);
    assert!(type_keys(&mut state, "<enter>").is_empty(), "nothing is found yet");
    found(&mut state, ModelPart::Target, vec![row("Llama"), row("Qwen")]);
    let job = load(&type_keys(&mut state, "QWE<enter>"));
    assert_eq!((job.load, job.models.clone()), (1, named("Qwen")));
    assert!(state.overlays.open.is_none());
    // Meanwhile the former model answers.
    assert_eq!(state.models.phase, Phase::Idle);
    for (load, fraction) in [(1, 0.25), (7, 0.75)] {
        let stage = "reading Qwen".to_string();
        say(&mut state, Event::LoadProgress { load, stage, fraction: Some(fraction) });
    }
    let words = state.models.load.as_ref().unwrap().words("Esc");
    assert!(words.contains("reading Qwen (25%)") && words.contains("Esc"), "{words}");
    asked(&mut state, "two", "Second answer.");
    state.controls.worker.strategy = crate::plan::Strategy::named("pld");
    assert!(only_applied(&say(&mut state, swapped(&job))).strategy.is_none());
    assert_eq!((state.models.load.is_none(), state.models.target()), (true, "Qwen"));
    assert_said(&state, Tone::Done, "reads the conversation");
    assert_eq!(contents(&type_keys(&mut state, "three<enter>")).len(), 5, "all of it");
}

#[test]
fn a_load_is_stopped_and_the_former_model_stays() {
    let (mut state, job) = loading();
    assert_ne!(only_applied(&type_keys(&mut state, "<esc>")).load, job.load);
    assert!(state.models.load.is_none());
    assert_said(&state, Tone::Done, "dovetail-demo");
    say(&mut state, not_swapped(&job, None));
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
fn a_message_sent_while_the_first_model_loads_waits_for_it() {
    let mut state = unloaded();
    assert!(type_keys(&mut state, "one<enter>two<enter>").is_empty() && state.input.is_empty());
    assert_said(&state, Tone::Done, "once the model is loaded");
    let sent = say(&mut state, Event::Ready(Box::new(ready())));
    assert_eq!(contents(&sent), ["one"]);
    assert_eq!(state.input.queue, ["two"], "it waits for the answer");
    // A key brings it back; so does another conversation, and a failure.
    for keys in ["<esc>", "<c-c>", "/new<enter>"] {
        let mut state = unloaded();
        type_keys(&mut state, &format!("one<enter>{keys}"));
        assert_eq!((state.input.queue.len(), state.input.text()), (0, "one".to_string()));
        assert!(say(&mut state, Event::Ready(Box::new(ready()))).is_empty());
    }
    for event in [
        ScreenEvent::Worker(Event::Failed { generation: None, error: "no file".into() }),
        ScreenEvent::WorkerGone(None),
    ] {
        let mut state = unloaded();
        type_keys(&mut state, "one<enter>");
        tell(&mut state, event);
        assert_eq!((&state.models.phase, state.input.text()), (&Phase::Broken, "one".to_string()));
    }
}

#[test]
fn while_the_former_model_is_unloaded_a_message_waits() {
    let waiting = || {
        let (mut state, job) = loading();
        say(&mut state, unloaded_for(&job));
        assert_said(&state, Tone::Told, "9000 MiB");
        assert!(type_keys(&mut state, "one<enter>").is_empty());
        assert_eq!(state.input.queue, ["one"]);
        (state, job)
    };
    let (mut state, job) = waiting();
    assert_eq!(contents(&say(&mut state, swapped(&job))), ["one"]);
    // It comes back if the load fails.
    let (mut state, job) = waiting();
    say(&mut state, not_swapped(&job, Some("no file")));
    assert_eq!((&state.models.phase, state.input.text()), (&Phase::Idle, "one".to_string()));
    // Stopped, it comes back and the former model is loaded again.
    let (mut state, job) = waiting();
    type_keys(&mut state, "<esc>");
    assert_eq!(state.input.text(), "one");
    assert!(matches!(state.models.phase, Phase::Loading { .. }) && state.models.load.is_some());
    say(&mut state, not_swapped(&job, None));
    assert!(state.models.phase == Phase::Idle && state.models.load.is_none());
    assert_eq!(job_of(&mut state, "<enter>"), 1);
}

/// The number of the answer that these keys ask for.
fn job_of(state: &mut ScreenState, keys: &str) -> u64 {
    job(&type_keys(state, keys)).generation
}

#[test]
fn a_question_that_a_load_overtakes_is_answered_after_it() {
    for alone in [false, true] {
        let (mut state, job) = loading();
        let generation = job_of(&mut state, "one<enter>");
        if alone {
            say(&mut state, unloaded_for(&job));
        }
        say(&mut state, swapped(&job));
        assert!(state.answering() && state.generation() == generation, "alone: {alone}");
        answered(&mut state, "Answered by the new one.");
        assert_eq!(state.chat.last_answer(), Some("Answered by the new one."));
    }
    // Where nothing can be loaded any more, the question comes back.
    let (mut state, job) = loading();
    type_keys(&mut state, "one<enter>");
    say(&mut state, unloaded_for(&job));
    say(&mut state, Event::Failed { generation: None, error: "no file".into() });
    assert_eq!((&state.models.phase, state.input.text()), (&Phase::Broken, "one".to_string()));
}

#[test]
fn what_cannot_be_loaded_says_why_and_the_list_stays() {
    let mut state = typed("<c-n>");
    let why = "Its tensor type is not known; take another file";
    let refused = ModelRow { refused: Some(why.to_string()), ..row("Odd") };
    let used = ModelRow { in_use: true, ..row("Used") };
    found(&mut state, ModelPart::Target, vec![refused, used]);
    for (keys, words) in [
        ("<enter>", why),
        ("<down><enter>", "already in use"),
        ("nothing of it<enter>", "No model matches these words"),
    ] {
        assert!(type_keys(&mut state, keys).is_empty());
        assert_said(&state, Tone::Wrong, words);
        assert!(matches!(state.overlays.open, Some(Overlay::Models(_))));
    }
    // Found for a list that was closed, they are dropped.
    type_keys(&mut state, "<esc>");
    found(&mut state, ModelPart::Target, vec![row("Late")]);
    assert!(state.overlays.open.is_none());
    let mut starting = unloaded();
    assert!(type_keys(&mut starting, "<c-n>").is_empty() && starting.overlays.open.is_none());
}

#[test]
fn a_pair_of_the_catalogue_a_path_or_a_hub_id_is_taken_by_its_name() {
    let mut state = loaded(80, 24);
    let job = choose(&mut state, "/model Qwen2.5-7B<enter>", vec![row("Llama")], "<enter>");
    let pair = crate::library::pair("qwen2.5-7b").unwrap();
    assert_eq!(job.models, pair_models(pair));
    assert!(state.models.load.as_ref().unwrap().title.contains(&pair.licence));
    let typed = "/model ~/models/my.gguf<enter>";
    let job = choose(&mut loaded(80, 24), typed, vec![row("Qwen")], "<enter>");
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
    say(&mut state, swapped_to(&job, Ready { strategy: "pld".into(), ..ready() }));
    assert_said(&state, Tone::Done, "drafts now");
    assert_eq!(state.strategy(), "pld");
}

#[test]
fn how_far_a_load_is_does_not_cover_where_keys_go() {
    let (mut state, job) = loading();
    let stage = "reading".to_string();
    say(&mut state, Event::LoadProgress { load: job.load, stage, fraction: None });
    assert!(screen_of(&mut state).lines().any(|row| row.starts_with("╭─ ◌ Qwen: reading")));
    type_keys(&mut state, "<backtab>");
    let screen = screen_of(&mut state);
    assert!(screen.contains("╭ Keys go to the conversation"), "{screen}");
    assert!(screen.contains("\n ◌ Qwen: reading · "), "{screen}");
}

#[test]
fn an_error_begins_with_a_capital_and_a_name_with_its_own_letter() {
    let mut state = loaded(80, 24);
    for (error, shown) in [
        ("cannot read a.md: it is a folder", "Cannot read a.md: it is a folder"),
        ("a.md is not a conversation", "a.md is not a conversation"),
        ("qwen3 needs a draft", "qwen3 needs a draft"),
        ("γ is automatic", "γ is automatic"),
        ("", ""),
    ] {
        state.complain(error);
        assert_eq!(said(&state), shown);
        state.fail("Not loaded", error);
        assert_eq!(failure(&state).1, shown);
    }
}
