//! A record shown again: it is not a chat.

use super::*;
use crate::tui::event::Asked;

/// A record whose only answer has been shown.
fn replayed() -> ScreenState {
    let mut state = loaded(80, 24);
    state.models.replay = true;
    tell(&mut state, ScreenEvent::Ask(Asked::Question("one".to_string())));
    answered(&mut state, "A recorded answer.");
    state
}

#[test]
fn nothing_is_answered_behind_a_record() {
    let keys = ["hello<enter>", "<enter>", "<c-r>", "<f12>", "<c-n>", "<c-p>", "<a-e>"];
    let commands = ["race", "continue", "model", "model other", "branch", "regenerate"];
    let commands = commands.map(|command| format!("/{command}<enter>"));
    for keys in keys.into_iter().chain(commands.iter().map(String::as_str)) {
        let mut state = replayed();
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
    let mut state = replayed();
    type_keys(&mut state, "hello<enter>");
    assert_eq!(state.input.text(), "hello");
}

#[test]
fn the_controls_keep_what_was_replayed() {
    let tree = ["gamma 4", "blocks 2", "width 3", "depth 2"];
    let others = ["speculate off", "strategy pld", "overlap on", "coupled off"];
    let commands = tree.iter().chain(&others).map(|command| format!("/{command}<enter>"));
    for keys in commands.chain(["<f7>", "<a-right>"].map(String::from)) {
        let mut state = replayed();
        let before = state.controls.worker.clone();
        let effects = type_keys(&mut state, &keys);
        assert_eq!(state.controls.worker, before, "{keys}");
        let other = |effect: &Effect| matches!(effect, Effect::Apply(c) if *c != before);
        assert!(!effects.iter().any(other), "{keys}: {effects:?}");
        assert!(said(&state).starts_with("Replay: read only"), "{keys}: {}", said(&state));
    }
    // How it was drawn is the record's own, as it tells.
    let recorded = SamplerSettings { temperature: 0.7, seed: 5, ..SamplerSettings::default() };
    let mut state = replayed();
    say(&mut state, Event::Sampled(recorded));
    for keys in ["/temperature 0.2<enter>", "/top-p 0.5<enter>", "/seed 9<enter>"] {
        type_keys(&mut state, keys);
        assert_eq!(state.controls.worker.sampler, recorded, "{keys}");
        let words = "This was recorded at temperature 0.70, which";
        assert!(said(&state).starts_with(words), "{keys}: {}", said(&state));
    }
    let mut state = replayed();
    type_keys(&mut state, "/pace 0.5s<enter>");
    assert_eq!(state.controls.worker.pace, 500);
}
