//! Slash commands and their suggestions.

use super::job;
use crate::chat::WhenFull;
use crate::draft::Depths;
use crate::settings::SettingKey;
use crate::tui::actions::Dial;
use crate::tui::commands::{COMMANDS, SlashAction};
use crate::tui::event::Effect;
use crate::tui::overlays::Overlay;
use crate::tui::state::ScreenState;
use crate::tui::tests::{loaded, screen_of, type_keys};
use crate::tui::toasts::Tone;
use crate::worker::{Job, Setting};

#[test]
fn commands_set_what_they_name_and_are_remembered_when_wrong() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "/gamma 24<enter>");
    assert_eq!(state.controls.worker.tree.gamma, Setting::Fixed(24));
    type_keys(&mut state, "/gamma auto<enter>");
    assert_eq!(state.controls.worker.tree.gamma, Setting::Auto);
    type_keys(&mut state, "/top-p 0.9<enter>/max-tokens 9<enter>");
    assert_eq!(state.controls.worker.sampler.top_p, 0.9);
    assert_eq!(state.controls.max_tokens, Setting::Fixed(9));
    let sent = type_keys(&mut state, "one<enter><esc><c-u>");
    assert_eq!(job(&sent).max_tokens, 9);
    type_keys(&mut state, "/max-tokens auto<enter>");
    let sent = type_keys(&mut state, "two<enter><esc><c-u>");
    assert_eq!(job(&sent).max_tokens, Job::ROOM_LEFT);
    type_keys(&mut state, "/system Be brief.<enter>");
    assert_eq!(state.chat.system.as_deref(), Some("Be brief."));
    type_keys(&mut state, "/gamma 999<enter>");
    assert!(state.input.is_empty() && state.input.unsent().is_none());
    assert!(
        state
            .toasts
            .shown()
            .is_some_and(|toast| toast.tone == Tone::Wrong && toast.text.contains("128"))
    );
    type_keys(&mut state, "<up>");
    assert_eq!(state.input.text(), "/gamma 999", "to be corrected");
    type_keys(&mut state, "<c-u>/mouse on<enter>");
    assert!(state.display.mouse);
}

/// What is said after a command alone.
fn said(state: &mut ScreenState, command: &str) -> String {
    type_keys(state, &format!("{command}<enter>"));
    let toast = state.toasts.shown().unwrap_or_else(|| panic!("{command} says nothing"));
    assert_eq!(toast.tone, Tone::Done, "{command}: {}", toast.text);
    toast.text.clone()
}

#[test]
fn a_setting_alone_shows_its_value_and_what_it_takes() {
    let mut state = loaded(80, 24);
    for command in COMMANDS.iter() {
        let SlashAction::Setting(key) = command.action else { continue };
        if SettingKey::named(key).unwrap().is_switch() {
            continue;
        }
        let tree = state.controls.worker.tree;
        let sampler = state.controls.worker.sampler;
        let text = said(&mut state, &format!("/{} ", command.name));
        let (value, takes) = text.split_once(" · ").unwrap();
        let value = value.split_once(": ").unwrap().1;
        assert!(!value.is_empty(), "{text}");
        let values = SettingKey::named(key).unwrap().values();
        assert_eq!(takes, format!("/{} takes {values}", command.name));
        assert_eq!((state.controls.worker.tree, state.controls.worker.sampler), (tree, sampler));
    }
    assert!(said(&mut state, "/gamma").starts_with("Tree size: 16, automatic · "));
    type_keys(&mut state, "/gamma 24<enter>/temperature 0.5<enter>");
    assert!(said(&mut state, "/gamma").starts_with("Tree size: 24, fixed · "));
    assert!(said(&mut state, "/temperature").starts_with("Temperature: 0.50, sampled · "));
}

#[test]
fn a_switch_alone_shows_its_state() {
    let mut state = loaded(80, 24);
    for (command, says) in [
        ("/speculate", "is on · /speculate off"),
        ("/overlap", "is off · /overlap on"),
        ("/coupled", "is on · /coupled off"),
        ("/mouse", "is off · /mouse on"),
        ("/theme", "Theme: dark · /theme takes \"dark\", \"light\" or \"mono\""),
        ("/think", "as the model decides, thoughts folded · /think takes on, off"),
    ] {
        let before = state.controls.worker.clone();
        let theme = state.display.theme;
        let mouse = state.display.mouse;
        let text = said(&mut state, command);
        assert!(text.contains(says), "{text}");
        assert_eq!(state.controls.worker, before, "{command}");
        assert_eq!(
            (state.display.theme, state.display.mouse, state.chat.shows_thoughts),
            (theme, mouse, false)
        );
    }
    type_keys(&mut state, "/strategy<enter>");
    assert!(matches!(state.overlays.open, Some(Overlay::Strategies { .. })));
}

#[test]
fn the_system_prompt_is_shown_and_deleted_only_on_request() {
    let mut state = loaded(80, 24);
    assert!(said(&mut state, "/system").contains("/system TEXT sets one"));
    type_keys(&mut state, "/system Be brief.<enter>/system<enter>");
    assert_eq!(state.chat.system.as_deref(), Some("Be brief."));
    assert_eq!(state.overlays.open, Some(Overlay::System { top: 0 }));
    assert!(screen_of(&mut state).contains("Be brief."));
    type_keys(&mut state, "<esc>/system clear<enter>");
    assert_eq!(state.chat.system, None);
}

#[test]
fn the_temperature_has_one_range() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "/temperature 5<enter>");
    let toast = state.toasts.shown().unwrap();
    assert_eq!(toast.text, "/temperature takes a number from 0 to 2, not 5");
    assert_eq!(state.controls.worker.sampler.temperature, 0.0);
    let dials = state.dials();
    assert_eq!(dials.view(Dial::Temperature, &state.controls.worker).range, "0–2");
    type_keys(&mut state, "/temperature 2<enter><f4><tab>T");
    assert_eq!(state.controls.worker.sampler.temperature, 2.0);
}

#[test]
fn errors_name_commands_and_not_keys_of_the_settings() {
    for command in COMMANDS.iter() {
        let SlashAction::Setting(key) = command.action else { continue };
        let mut state = loaded(80, 24);
        type_keys(&mut state, &format!("/{} wrong<enter>", command.name));
        let toast = state.toasts.shown().unwrap();
        assert_eq!(toast.tone, Tone::Wrong, "{}", toast.text);
        assert!(toast.text.starts_with(&format!("/{} takes ", command.name)), "{}", toast.text);
        assert!(!key.contains('.') || !toast.text.contains(key), "{}", toast.text);
    }
}

#[test]
fn a_head_without_a_choice_of_blocks_says_so_and_nothing_changes() {
    let mut state = loaded(80, 24);
    let ready = state.models.ready.as_mut().unwrap();
    for status in &mut ready.strategies {
        status.depths = Depths::Fixed(3);
    }
    for argument in ["", " 2"] {
        type_keys(&mut state, &format!("/blocks{argument}<enter>"));
        let toast = state.toasts.shown().unwrap();
        assert!(toast.text.contains("all of its 3 blocks"), "{}", toast.text);
        assert_eq!(state.controls.worker.tree.blocks, Setting::Auto);
    }
}

#[test]
fn other_names_of_a_command_are_completed_and_run() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "/cl");
    let screen = screen_of(&mut state);
    assert!(screen.contains("/clear ") && screen.contains("/new: "), "{screen}");
    type_keys(&mut state, "<tab>");
    assert_eq!(state.input.text(), "/clear");
    type_keys(&mut state, "<c-u>one<enter><esc><c-u>/exi");
    assert!(matches!(type_keys(&mut state, "<enter>").last(), Some(Effect::Quit { .. })));
    let mut state = super::talk();
    type_keys(&mut state, "/clear<enter>");
    assert!(state.chat.turns().is_empty());
    let mut state = super::talk();
    super::job(&type_keys(&mut state, "/retry<enter>"));
}

#[test]
fn suggestions_complete_and_run() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "/ga<tab>");
    assert_eq!(state.input.text(), "/gamma ");
    type_keys(&mut state, "<c-u>/sta<enter>");
    assert_eq!(state.overlays.open, Some(Overlay::Details { top: 0 }));
    type_keys(&mut state, "<esc>/<down><down><enter>");
    assert_eq!(state.input.text(), "/load ");
}

/// Although `/editor` begins like `/edit`.
#[test]
fn a_command_that_is_written_out_is_the_one_that_is_run() {
    for command in COMMANDS.iter() {
        let mut state = loaded(80, 24);
        type_keys(&mut state, &format!("/{}", command.name));
        assert_eq!(state.input.suggestion().map(|found| found.name), Some(command.name));
    }
}

#[test]
fn commands_confirm_what_they_did() {
    let mut state = loaded(80, 24);
    for (command, says) in [
        ("/mouse on", "The chat handles"),
        ("/mouse off", "The terminal handles"),
        ("/theme light", "Theme: light"),
        ("/think show", "shown"),
        ("/think hide", "folded"),
        ("/when-full", "A full context: ask"),
        ("/when-full forget", "A full context: forget"),
        ("/when-full ", "A full context: forget"),
    ] {
        type_keys(&mut state, &format!("{command}<enter>"));
        let said = state.toasts.shown().map(|toast| (toast.tone, toast.text.as_str()));
        assert!(
            said.is_some_and(|(tone, text)| tone == Tone::Done && text.contains(says)),
            "{command}: {said:?}"
        );
        assert!(state.input.is_empty(), "{command}");
    }
    assert_eq!(state.chat.when_full, Some(WhenFull::Forget));
}
