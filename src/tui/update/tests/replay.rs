//! A record shown again: it is not a chat.

use super::texts;
use crate::chat::Role;
use crate::speculate::SamplerSettings;
use crate::tui::event::{Effect, ScreenEvent};
use crate::tui::models::Phase;
use crate::tui::state::ScreenState;
use crate::tui::tests::{answer, loaded, said, say, say_all, type_keys};
use crate::tui::update::update;
use crate::worker::Event;

/// A record whose only answer has been shown.
fn shown() -> ScreenState {
    let mut state = loaded(80, 24);
    state.models.replay = true;
    let now = state.now;
    update(&mut state, ScreenEvent::Ask("one".to_string()), now);
    let of = state.generation();
    say_all(&mut state, answer(of, "A recorded answer.", 8));
    state
}

#[test]
fn nothing_is_answered_behind_a_record() {
    for keys in [
        "hello<enter>",
        "<enter>",
        "<c-r>",
        "<f12>",
        "<c-n>",
        "<c-p>",
        "<a-e>",
        "/race<enter>",
        "/continue<enter>",
        "/model<enter>",
        "/model other<enter>",
        "/branch<enter>",
        "/regenerate<enter>",
    ] {
        let mut state = shown();
        let effects = type_keys(&mut state, keys);
        let asks = |effect: &Effect| {
            matches!(effect, Effect::Send(_) | Effect::FindModels { .. } | Effect::Save { .. })
        };
        assert!(!effects.iter().any(asks), "{keys}: {effects:?}");
        assert!(said(&state).starts_with("Replay: read only"), "{keys}: {}", said(&state));
        assert!(state.overlays.open.is_none() && state.models.phase == Phase::Idle, "{keys}");
        assert!(state.overlays.race.is_none() && state.input.editing.is_none(), "{keys}");
        let recorded = [(Role::User, "one"), (Role::Assistant, "A recorded answer.")];
        let recorded = recorded.map(|(role, text)| (role, text.to_string()));
        assert_eq!(texts(&state), recorded, "{keys}");
    }
    // What was typed is still there.
    let mut state = shown();
    type_keys(&mut state, "hello<enter>");
    assert_eq!(state.input.text(), "hello");
}

#[test]
fn the_controls_keep_what_was_recorded() {
    for keys in [
        "/gamma 4<enter>",
        "/speculate off<enter>",
        "<f7>",
        "/blocks 2<enter>",
        "/width 3<enter>",
        "/depth 2<enter>",
        "/strategy pld<enter>",
        "/overlap on<enter>",
        "/coupled off<enter>",
        "<a-right>",
    ] {
        let mut state = shown();
        let before = state.controls.worker.clone();
        let effects = type_keys(&mut state, keys);
        assert_eq!(state.controls.worker, before, "{keys}");
        let other = |effect: &Effect| matches!(effect, Effect::Apply(c) if *c != before);
        assert!(!effects.iter().any(other), "{keys}: {effects:?}");
        assert!(said(&state).starts_with("Replay: read only"), "{keys}: {}", said(&state));
    }
    // How it was drawn is the record's own, as it tells.
    let recorded = SamplerSettings { temperature: 0.7, seed: 5, ..SamplerSettings::default() };
    let mut state = shown();
    say(&mut state, Event::Sampled(recorded));
    for keys in ["/temperature 0.2<enter>", "/top-p 0.5<enter>", "/seed 9<enter>"] {
        type_keys(&mut state, keys);
        assert_eq!(state.controls.worker.sampler, recorded, "{keys}");
        let words = "This was recorded at temperature 0.70, which";
        assert!(said(&state).starts_with(words), "{keys}: {}", said(&state));
    }
    let mut state = shown();
    type_keys(&mut state, "/pace 0.5s<enter>");
    assert_eq!(state.controls.worker.pace, 500);
}
