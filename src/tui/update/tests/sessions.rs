//! The list of saved conversations, files of other programs, presets.

use super::*;
use crate::chat::SessionHead;
use crate::tui::effects::presets::Preset;

fn listed() -> ScreenState {
    let mut state = loaded(80, 24);
    let head = |id: &str, title: &str, said: &str| SessionHead {
        id: id.to_string(),
        title: title.to_string(),
        said: said.to_string(),
        ..SessionHead::default()
    };
    let heads = vec![head("1", "Rome", "Where is it? In Italy."), head("2", "Foxes", "A tail.")];
    assert_eq!(type_keys(&mut state, "<c-s>"), [Effect::List { branches: false }]);
    tell(&mut state, ScreenEvent::Sessions(heads));
    state
}

/// A conversation that Qwen has answered.
fn of_qwen() -> SavedChat {
    let target = "Qwen 1.5B".to_string();
    let by = AnsweredBy { target, models: Some(named("/models/qwen.gguf")), gone: false };
    SavedChat { answered_by: Some(by), ..vec![saved("Hi", false), saved("Hello", true)].into() }
}

#[test]
fn a_conversation_of_another_model_offers_to_load_it() {
    let mut state = loaded(80, 24);
    tell(&mut state, ScreenEvent::Loaded(Ok(of_qwen())));
    assert_eq!(state.overlays.open, Some(Overlay::Reopened));
    let shown = screen_of(&mut state);
    for words in
        ["This chat used Qwen 1.5B.", "dovetail-demo 6M is loaded", "Load Qwen", "Enter yes"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let effects = type_keys(&mut state, "<enter>");
    let job = LoadJob { load: 1, models: named("/models/qwen.gguf") };
    assert_eq!(effects.last(), Some(&Effect::Send(Command::Load(job))));
    assert!(state.overlays.open.is_none());
    // With the same model there is no question, also if its file has another name here.
    let mut state = loaded(80, 24);
    state.models.ready.as_mut().unwrap().target = "Qwen 1.5B".to_string();
    tell(&mut state, ScreenEvent::Loaded(Ok(of_qwen())));
    assert_eq!(state.overlays.open, None);
    let mut chat = of_qwen();
    chat.answered_by = state.models.in_use();
    tell(&mut state, ScreenEvent::Loaded(Ok(chat)));
    assert_eq!(state.overlays.open, None);
}

#[test]
fn who_stays_with_the_present_model_writes_on_and_the_conversation_is_its_own_then() {
    for keys in ["<esc>And y", "And y"] {
        let mut state = loaded(80, 24);
        tell(&mut state, ScreenEvent::Loaded(Ok(of_qwen())));
        type_keys(&mut state, keys);
        assert!(state.overlays.open.is_none() && state.input.text() == "And y");
        type_keys(&mut state, "ou?<enter>");
        assert_eq!(state.chat.answered_by, of_qwen().answered_by, "no other has answered yet");
        answered(&mut state, "I am the demo.");
        assert_eq!(state.chat.answered_by, state.models.in_use());
    }
}

#[test]
fn a_conversation_that_is_opened_first_asks_once_the_models_are_there() {
    let mut state = unloaded();
    tell(&mut state, ScreenEvent::Loaded(Ok(of_qwen())));
    assert_eq!(state.overlays.open, None);
    type_keys(&mut state, "And you?<enter>");
    let effects = say(&mut state, Event::Ready(Box::new(ready())));
    assert_eq!(state.overlays.open, Some(Overlay::Reopened));
    assert!(effects.is_empty(), "the model is chosen first: {effects:?}");
    assert_eq!((state.input.queue.len(), state.input.text()), (0, "And you?".to_string()));
    let mut state = unloaded();
    tell(&mut state, ScreenEvent::Loaded(Ok(of_qwen())));
    let own = Box::new(Ready { models: named("/models/qwen.gguf"), ..ready() });
    say(&mut state, Event::Ready(own));
    assert_eq!(state.overlays.open, None, "its own model was loaded");
}

#[test]
fn a_model_that_is_gone_or_unknown_is_named_and_nothing_is_offered() {
    let mut gone = of_qwen();
    gone.answered_by.as_mut().unwrap().gone = true;
    let mut old = of_qwen();
    old.answered_by.as_mut().unwrap().models = None;
    for (chat, words) in [(gone, "Qwen 1.5B is not on this machine"), (old, "used Qwen 1.5B")] {
        let mut state = loaded(80, 24);
        tell(&mut state, ScreenEvent::Loaded(Ok(chat)));
        assert_eq!(state.overlays.open, None);
        assert_said(&state, Tone::Told, words);
        assert!(said(&state).contains("dovetail-demo 6M"), "{}", said(&state));
    }
}

#[test]
fn what_was_said_is_searched_too_and_a_conversation_gets_another_title() {
    let mut state = listed();
    type_keys(&mut state, "<down><f2><bs><bs>");
    let effects = type_keys(&mut state, "tail<enter>");
    let renamed = Effect::RenameSession { id: "2".to_string(), title: "Foxtail".to_string() };
    assert_eq!(effects, [renamed, Effect::List { branches: false }]);
    assert!(matches!(state.overlays.open, Some(Overlay::Sessions(_))), "the list stays");
    type_keys(&mut state, "<f2>x<esc>");
    assert!(state.overlays.renaming.is_none() && state.overlays.open.is_some());
    let effects = type_keys(&mut state, "ITALY<enter>");
    assert!(effects.contains(&Effect::Load("1".to_string())), "{effects:?}");
}

#[test]
fn what_is_imported_is_saved_after_what_was_there() {
    let mut state = exchange("one", "First.");
    let chat = vec![saved("Hi", false), saved("Yes?", true), saved("More", false)].into();
    let effects = tell(&mut state, ScreenEvent::Imported(chat, Default::default()));
    assert_saved_before(&effects, 2, &Effect::Forget);
    assert_eq!(kept_turns(&effects).map(<[_]>::len), Some(3), "{effects:?}");
    assert_eq!(state.chat.turns()[1].role, Role::Assistant);
}

#[test]
fn a_preset_is_kept_taken_and_remembered_by_the_conversation() {
    let mut state = typed("/system You rhyme.<enter>/temperature 1.2<enter>");
    let effects = type_keys(&mut state, "/preset save poet<enter>");
    let sampler = SamplerSettings { temperature: 1.2, ..state.controls.worker.sampler };
    let preset = Preset { system: Some("You rhyme.".to_string()), sampler };
    assert_eq!(effects, [Effect::SavePreset("poet".to_string(), preset.clone())]);
    type_keys(&mut state, "/system clear<enter>/temperature 0<enter>");
    let effects = tell(&mut state, ScreenEvent::PresetFound("poet".to_string(), preset));
    assert_eq!(only_applied(&effects).sampler.temperature, 1.2);
    assert_eq!(state.chat.system.as_deref(), Some("You rhyme."));
    assert_eq!(state.chat.extras().preset.as_deref(), Some("poet"));
}

#[test]
fn a_title_that_is_not_there_costs_no_answer_and_another_conversation_is_saved_first() {
    let mut state = exchange("one", "First.");
    type_keys(&mut state, "two<enter>");
    let effects = type_keys(&mut state, "/load nowhere<enter>");
    assert!(effects.contains(&Effect::Load("nowhere".to_string())), "{effects:?}");
    tell(&mut state, ScreenEvent::Loaded(Err("no such title".to_string())));
    assert!(state.answering());
    let name = Some("another".to_string());
    let chat = SavedChat { name: name.clone(), ..vec![saved("Hi", false)].into() };
    let effects = tell(&mut state, ScreenEvent::Loaded(Ok(chat)));
    assert!(!state.answering());
    assert_saved_before(&effects, 3, &Effect::Adopt(name));
}
