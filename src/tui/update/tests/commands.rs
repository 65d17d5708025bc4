//! Slash commands and their suggestions.

use super::*;
use crate::chat::{Exchange, WhenFull};
use crate::settings::SettingKey;
use crate::tui::commands::SlashCommand;

#[test]
fn commands_set_what_they_name_and_are_remembered_when_wrong() {
    let mut state = typed("/gamma 24<enter>");
    assert_eq!(state.controls.worker.tree.gamma, Setting::Fixed(24));
    type_keys(&mut state, "/gamma auto<enter>/top-p 0.9<enter>/mouse on<enter>");
    assert_eq!(state.controls.worker.tree.gamma, Setting::Auto);
    assert!(state.controls.worker.sampler.top_p == 0.9 && state.display.mouse);
    for (most, wanted) in [("9", 9), ("auto", Job::ROOM_LEFT)] {
        type_keys(&mut state, &format!("/max-tokens {most}<enter>"));
        let sent = type_keys(&mut state, "one<enter><esc><c-u>");
        assert_eq!(job(&sent).max_tokens, wanted);
    }
    type_keys(&mut state, "/gamma 999<enter>");
    assert!(state.input.is_empty() && state.input.unsent().is_none());
    assert_said(&state, Tone::Wrong, "128");
    type_keys(&mut state, "<up>");
    assert_eq!(state.input.text(), "/gamma 999", "to be corrected");
}

/// What is said after a command alone.
fn told(state: &mut ScreenState, command: &str) -> String {
    type_keys(state, &format!("{command}<enter>"));
    let (tone, text) = shown(state).unwrap_or_else(|| panic!("{command} says nothing"));
    // A tick is for what was done alone.
    let shows = text.contains(" · /");
    assert_eq!(tone, if shows { Tone::Shown } else { Tone::Done }, "{command}: {text}");
    text.to_string()
}

/// The commands that show and set a value, each with its row of the settings.
fn values() -> impl Iterator<Item = (&'static SlashCommand, &'static SettingKey)> {
    let others = ["target", "draft", "strategy", "system", "thinking"];
    COMMANDS.iter().filter_map(move |command| match command.action {
        Action::Setting(key) if !others.contains(&key) => {
            Some((command, SettingKey::named(key).unwrap()))
        }
        _ => None,
    })
}

#[test]
fn a_setting_alone_shows_its_value_and_what_it_takes() {
    let mut state = loaded(80, 24);
    let before = state.controls.worker.clone();
    for (command, key) in values() {
        let text = told(&mut state, &format!("/{} ", command.name));
        let (value, takes) = text.split_once(" · ").unwrap();
        if !key.is_switch() {
            assert!(value.split_once(": ").is_some_and(|(_, value)| !value.is_empty()), "{text}");
            // The panel and the command offer the same blocks.
            let values = match command.name {
                "blocks" => format!("{}, or \"auto\"", state.dial(Dial::Blocks).range),
                _ => key.values(),
            };
            assert_eq!(takes, format!("/{} takes {values}", command.name));
        }
        assert_eq!(state.controls.worker, before);
    }
    type_keys(&mut state, "/gamma 24<enter>/temperature 0.5<enter>");
    for (command, says) in [
        ("/gamma", "Tree size: 24, fixed · "),
        ("/depth", "Tree depth: 5, automatic · "),
        ("/temperature", "Temperature: 0.50, sampled · "),
        ("/max-tokens", "Max tokens: auto · "),
        ("/top-p", "Top-p: "),
        ("/speculate", "Speculation is on · /speculate off"),
        ("/overlap", "Drafting during verification is off · /overlap on"),
        ("/coupled", "Coupled drafting is on · /coupled off"),
        ("/mouse", "Mouse support is off · /mouse on"),
        ("/theme", "Theme: auto · /theme takes \"auto\", \"dark\", \"light\" or \"mono\""),
        ("/think", "Thinking: as the model decides, thoughts folded · /think takes on, off"),
    ] {
        let text = told(&mut state, command);
        assert!(text.starts_with(says), "{text}");
    }
    assert!(!state.display.mouse && !state.chat.shows_thoughts);
    type_keys(&mut state, "/strategy<enter>");
    assert!(matches!(state.overlays.open, Some(Overlay::Strategies { .. })));
}

/// What keys and commands want done outside the screen.
#[test]
fn keys_and_commands_read_write_and_copy() {
    let mut state = talk();
    let code = "Run\n\n```sh\nls\n```\n\nor\n\n```sh\npwd\n```\n";
    asked(&mut state, "code", code);
    let copy = |text: &str| Effect::Copy(text.to_string());
    for (keys, effect) in [
        ("<c-l>", Effect::Redraw),
        ("<c-s>", Effect::List { branches: false }),
        ("/load<enter>", Effect::List { branches: false }),
        ("/editor<enter>", Effect::Edit(String::new())),
        ("/file notes.md<enter>", Effect::ReadFile("notes.md".to_string())),
        ("/import b.json<enter>", Effect::Import("b.json".to_string())),
        ("/preset<enter>", Effect::ListPresets),
        ("/preset poet<enter>", Effect::TakePreset("poet".to_string())),
        ("<c-y>", copy(code)),
        ("/copy 1<enter>", copy("one")),
        ("/copy 6<enter>", copy("Third.")),
        ("/copy code<enter>", copy("pwd\n")),
        ("/copy code 1<enter>", copy("ls\n")),
    ] {
        assert_eq!(type_keys(&mut state, keys), [effect], "{keys}");
    }
    let markdown = Exchange::Markdown.write(&state.chat.saved_turns());
    for (path, text) in [("a.md", markdown), ("a.html", state.page())] {
        let export = Effect::Export { path: path.to_string(), text };
        assert_eq!(type_keys(&mut state, &format!("/export {path}<enter>")), [export]);
    }
    for (command, says) in [
        ("/copy 0", "1 to 8"),
        ("/copy 9", "1 to 8"),
        ("/copy code 3", "1 to 2"),
        ("/copy all", "/copy code 2"),
        ("/import", "/import FILE: read a conversation"),
        ("/export chat.txt", "a page (.html)"),
        ("/find", "/find fox"),
    ] {
        assert!(type_keys(&mut state, &format!("{command}<enter>")).is_empty(), "{command}");
        assert_said(&state, Tone::Wrong, says);
    }
    assert!(type_keys(&mut loaded(80, 24), "/export a.md<enter>").is_empty(), "nothing to export");
}

#[test]
fn a_page_has_the_rounds_of_the_latest_answer() {
    let mut state = exchange("Go on", "Once there was a fox.");
    let rounds = |state: &ScreenState| {
        let page = state.page();
        let answers = page.split("\"role\":\"assistant\"").skip(1);
        answers.map(|answer| answer.contains("\"rounds\":[{")).collect::<Vec<_>>()
    };
    assert_eq!(rounds(&state), [true]);
    asked(&mut state, "And then?", "It lived by the sea.");
    assert_eq!(rounds(&state), [false, true]);
}

#[test]
fn the_system_prompt_is_shown_and_deleted_only_on_request() {
    let mut state = loaded(80, 24);
    assert!(told(&mut state, "/system").contains("/system TEXT sets one"));
    type_keys(&mut state, "/system Be brief.<enter>/system<enter>");
    assert_eq!(state.chat.system.as_deref(), Some("Be brief."));
    assert_eq!(state.overlays.open, Some(Overlay::System { top: 0 }));
    assert!(screen_of(&mut state).contains("Be brief."));
    type_keys(&mut state, "<esc>/system clear<enter>");
    assert_eq!(state.chat.system, None);
}

#[test]
fn the_temperature_has_one_range() {
    let mut state = typed("/temperature 5<enter>");
    assert_eq!(said(&state), "/temperature takes a number from 0 to 2, not 5");
    assert_eq!(state.controls.worker.sampler.temperature, 0.0);
    assert_eq!(state.dial(Dial::Temperature).range, "0–2");
    type_keys(&mut state, "/temperature 2<enter><f4><tab>T");
    assert_eq!(state.controls.worker.sampler.temperature, 2.0);
}

#[test]
fn errors_name_commands_and_not_keys_of_the_settings() {
    for (command, key) in values() {
        let mut state = loaded(80, 24);
        type_keys(&mut state, &format!("/{} wrong<enter>", command.name));
        assert_said(&state, Tone::Wrong, &format!("/{} takes ", command.name));
        assert!(!key.name.contains('.') || !said(&state).contains(key.name), "{}", said(&state));
    }
}

#[test]
fn the_blocks_of_the_head_limit_what_is_set() {
    let state = typed("/blocks 9<enter>");
    assert_eq!(state.controls.worker.tree.blocks, Setting::Fixed(4));
    assert_said(&state, Tone::Done, "4, as many as this head has");
    // A head without a choice says so, and nothing changes.
    let mut state = loaded(80, 24);
    for status in &mut state.models.ready.as_mut().unwrap().strategies {
        status.depths = Depths::Fixed(3);
    }
    for argument in ["", " 2"] {
        type_keys(&mut state, &format!("/blocks{argument}<enter>"));
        assert_said(&state, Tone::Wrong, "all of its 3 blocks");
        assert_eq!(state.controls.worker.tree.blocks, Setting::Auto);
    }
}

#[test]
fn suggestions_complete_and_run_by_any_name() {
    let mut state = typed("/nothing-like-it");
    assert_eq!(state.input.suggestion(), None);
    type_keys(&mut state, "<c-u>/ga<tab>");
    assert_eq!((state.input.text().as_str(), state.input.offered().len()), ("/gamma ", 0));
    type_keys(&mut state, "<c-u>/sta<enter>");
    assert_eq!(state.overlays.open, Some(Overlay::Details { top: 0 }));
    type_keys(&mut state, "<esc>/<down><down><enter>");
    assert_eq!(state.input.text(), "/load ");
    type_keys(&mut state, "<c-u>/cl");
    let screen = screen_of(&mut state);
    assert!(screen.contains("/clear ") && screen.contains("/new: "), "{screen}");
    type_keys(&mut state, "<tab>");
    assert_eq!(state.input.text(), "/clear");
    type_keys(&mut state, "<c-u>/exi");
    assert!(matches!(type_keys(&mut state, "<enter>").last(), Some(Effect::Quit { .. })));
    let mut state = talk();
    job(&type_keys(&mut state, "/retry<enter>"));
    type_keys(&mut state, "/clear<enter>");
    assert!(state.chat.turns().is_empty());
}

/// Although `/editor` begins like `/edit`.
#[test]
fn a_command_that_is_written_out_is_the_one_that_is_run() {
    for command in COMMANDS.iter() {
        let mut state = loaded(80, 24);
        type_keys(&mut state, &format!("/{}", command.name));
        assert_eq!(suggested(&state), command.name);
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
        let text = told(&mut state, command);
        assert!(text.contains(says) && state.input.is_empty(), "{command}: {text}");
    }
    assert_eq!(state.chat.when_full, Some(WhenFull::Forget));
}

#[test]
fn a_key_that_turns_a_dial_says_the_value_unless_a_panel_shows_it() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "<a-up><a-up>");
    let (tone, text) = shown(&state).unwrap();
    assert!(tone == Tone::Done && text.starts_with("Tree size: ") && text.ends_with(", fixed"));
    type_keys(&mut state, "/layout lab<enter>");
    let before = shown(&state).unwrap().1.to_string();
    type_keys(&mut state, "<a-up>");
    assert_eq!(shown(&state).unwrap().1, before);
}
