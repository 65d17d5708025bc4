//! The list of saved conversations, files of other programs, presets.

use super::saved;
use crate::chat::{Role, SessionHead};
use crate::speculate::SamplerSettings;
use crate::tui::presets::Preset;
use crate::tui::state::{Overlay, ScreenState};
use crate::tui::testing::{answer, loaded, say, type_keys};
use crate::tui::update::{Effect, ScreenEvent, update};

fn listed() -> ScreenState {
    let mut state = loaded(80, 24);
    let head = |id: &str, title: &str, said: &str| SessionHead {
        id: id.to_string(),
        title: title.to_string(),
        said: said.to_string(),
        ..SessionHead::default()
    };
    let heads = vec![head("1", "Rome", "Where is it? In Italy."), head("2", "Foxes", "A tail.")];
    assert_eq!(type_keys(&mut state, "<c-s>"), [Effect::List]);
    tell(&mut state, ScreenEvent::Sessions(Ok(heads)));
    state
}

fn tell(state: &mut ScreenState, event: ScreenEvent) -> Vec<Effect> {
    let now = state.now;
    update(state, event, now)
}

#[test]
fn what_was_said_is_searched_too() {
    let mut state = listed();
    let effects = type_keys(&mut state, "ITALY<enter>");
    assert!(effects.contains(&Effect::Load("1".to_string())), "{effects:?}");
}

#[test]
fn a_conversation_gets_another_title() {
    let mut state = listed();
    type_keys(&mut state, "<down><f2><bs><bs>");
    let effects = type_keys(&mut state, "tail<enter>");
    let renamed = Effect::RenameSession { id: "2".to_string(), title: "Foxtail".to_string() };
    assert_eq!(effects, [renamed, Effect::List]);
    assert!(matches!(state.overlay, Some(Overlay::Sessions(_))), "the list stays");
    type_keys(&mut state, "<f2>x<esc>");
    assert!(state.renaming.is_none() && state.overlay.is_some());
}

#[test]
fn a_deleted_conversation_comes_back() {
    let mut state = listed();
    assert!(type_keys(&mut state, "<c-u>").is_empty());
    let effects = type_keys(&mut state, "<del>");
    assert_eq!(effects, [Effect::DeleteSession("1".to_string()), Effect::List]);
    tell(&mut state, ScreenEvent::SessionDeleted(Ok("1".to_string())));
    tell(&mut state, ScreenEvent::Sessions(Ok(Vec::new())));
    let effects = type_keys(&mut state, "<c-u>");
    assert_eq!(effects, [Effect::RestoreSession("1".to_string()), Effect::List]);
}

#[test]
fn export_and_import_name_a_file() {
    let mut state = loaded(80, 24);
    assert!(type_keys(&mut state, "/export a.md<enter>").is_empty(), "there is nothing yet");
    type_keys(&mut state, "<c-u>one<enter>");
    for event in answer(1, "First.", 8) {
        say(&mut state, event);
    }
    let effects = type_keys(&mut state, "/export a.md<enter>");
    assert!(
        matches!(&effects[..], [Effect::Export { path, turns }]
            if path == "a.md" && turns.len() == 2),
        "{effects:?}"
    );
    assert_eq!(
        type_keys(&mut state, "/import b.json<enter>"),
        [Effect::Import("b.json".to_string())]
    );
    let chat = vec![saved("Hi", false), saved("Yes?", true)].into();
    let effects = tell(&mut state, ScreenEvent::Imported(Ok(chat)));
    let order: Vec<_> = effects
        .iter()
        .map(|effect| match effect {
            Effect::Save { turns, .. } => turns[0].message.content.as_str(),
            Effect::Forget => "forget",
            _ => "other",
        })
        .collect();
    assert_eq!(order, ["one", "forget", "Hi"], "what was there stays saved");
    assert_eq!(state.chat.turns()[1].role, Role::Assistant);
}

#[test]
fn a_preset_is_kept_taken_and_remembered_by_the_conversation() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "/system You rhyme.<enter>/temperature 1.2<enter>");
    let effects = type_keys(&mut state, "/preset save poet<enter>");
    let sampler = SamplerSettings { temperature: 1.2, ..state.controls.sampler };
    let preset = Preset { system: Some("You rhyme.".to_string()), sampler };
    assert_eq!(effects, [Effect::SavePreset("poet".to_string(), preset.clone())]);
    type_keys(&mut state, "/system<enter>/temperature 0<enter>");
    let effects = type_keys(&mut state, "/preset poet<enter>");
    assert_eq!(effects, [Effect::TakePreset("poet".to_string())]);
    let effects = tell(&mut state, ScreenEvent::PresetFound(Ok(("poet".to_string(), preset))));
    assert!(matches!(&effects[..], [Effect::Apply(c)] if c.sampler.temperature == 1.2));
    assert_eq!(state.chat.system.as_deref(), Some("You rhyme."));
    assert_eq!(state.chat.extras().preset.as_deref(), Some("poet"));
    assert_eq!(type_keys(&mut state, "/preset<enter>"), [Effect::ListPresets]);
}

#[test]
fn a_file_stands_in_the_message_as_a_mark_and_is_sent_whole() {
    let mut state = loaded(80, 24);
    let effects = type_keys(&mut state, "/file notes.md<enter>");
    assert_eq!(effects, [Effect::ReadFile("notes.md".to_string())]);
    type_keys(&mut state, "Sum up: ");
    let text = "```sh\nls\n```\n".to_string();
    tell(&mut state, ScreenEvent::FileRead(Ok(("notes.md".to_string(), text))));
    assert_eq!(state.input.area().lines(), ["Sum up: ⟦notes.md, 13 bytes, about 4 tokens⟧"]);
    let effects = type_keys(&mut state, "<enter>");
    let sent = &super::job(&effects).messages[0].content;
    assert_eq!(sent, "Sum up: notes.md:\n````\n```sh\nls\n```\n````");
}
