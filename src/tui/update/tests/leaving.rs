//! Leaving loses nothing that was typed: `Ctrl+C` ends the nearest thing, and a message that was
//! not sent is kept and there again.

use super::*;

/// What is kept of a message that was not sent: with the conversation, and on its own.
fn kept(effects: &[Effect]) -> (Option<&str>, Option<&str>) {
    let [.., Effect::Save { extras, .. }, Effect::KeepUnsent(alone), Effect::Quit { .. }] = effects
    else {
        panic!("{effects:?}")
    };
    (extras.unsent.as_deref(), alone.as_deref())
}

#[test]
fn ctrl_c_ends_the_nearest_thing_and_leaves_last() {
    let mut state = exchange("one", "First answer.");
    type_keys(&mut state, "two<enter>");
    begun(&mut state, "Half of an answer is better than none.", 3);
    // A box is nearest.
    for (opens, written) in [("a thought<f1>", "a thought"), ("<c-p>", "a thought")] {
        type_keys(&mut state, opens);
        assert!(state.overlays.open.is_some() && type_keys(&mut state, "<c-c>").is_empty());
        assert!(state.overlays.open.is_none() && state.answering());
        assert_eq!(state.input.text(), written);
    }
    let effects = type_keys(&mut state, "<c-c>");
    assert!(!effects.contains(&Effect::Quit { anyway: false }) && !state.answering());
    assert_eq!(state.chat.turns()[3].outcome, Some(AnswerOutcome::STOPPED));
    assert_eq!(state.input.text(), "a thought");
    type_keys(&mut state, "<tab>");
    assert!(type_keys(&mut state, "<c-c>").is_empty());
    assert!(state.input.is_empty() && state.display.focus == Focus::Input);
    assert_said(&state, Tone::Done, "↑ brings it back");
    type_keys(&mut state, "<up>");
    assert_eq!(state.input.text(), "a thought");
    assert!(type_keys(&mut state, "<c-c><c-c>").is_empty());
    assert_eq!(kept(&type_keys(&mut state, "<c-c>")), (Some("a thought"), None));
}

#[test]
fn ctrl_c_quits_only_if_it_is_pressed_again_at_once() {
    let press = |state: &mut ScreenState, at: u64| {
        let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        update(state, ScreenEvent::Key(key), Duration::from_millis(at))
    };
    let mut state = loaded(80, 24);
    assert!(press(&mut state, 1000).is_empty());
    assert_eq!(said(&state), "Press Ctrl+C again to quit");
    assert_eq!(state.deadline(), Some(Duration::from_millis(3000)));
    // Too late, it has to be pressed twice again.
    update(&mut state, ScreenEvent::Tick, Duration::from_millis(3000));
    assert_eq!(said(&state), "");
    assert!(press(&mut state, 3001).is_empty());
    kept(&press(&mut state, 5000));
    // What is done between the two counts as a change of mind.
    for keys in ["a<bs>", "<f2>", "<tab><esc>", "a<c-c>"] {
        let mut state = loaded(80, 24);
        press(&mut state, 0);
        type_keys(&mut state, keys);
        assert!(press(&mut state, 1).is_empty(), "{keys}");
        assert_eq!(said(&state), "Press Ctrl+C again to quit", "{keys}");
    }
    let mut state = loaded(80, 24);
    press(&mut state, 0);
    tell(&mut state, burst("ab"));
    assert!(press(&mut state, 1).is_empty() && press(&mut state, 2).is_empty());
    // A notice that the question replaced comes back.
    let mut state = loaded(80, 24);
    let now = state.now;
    state.toasts.notice("the GPU is lost", now);
    press(&mut state, 0);
    update(&mut state, ScreenEvent::Tick, Duration::from_secs(2));
    assert_eq!(said(&state), "the GPU is lost");
}

#[test]
fn what_was_not_sent_is_kept_on_every_way_out() {
    for (written, way, wanted) in [
        ("half a mess", "<c-q>", Some("half a mess")),
        ("half a mess", "<c-c><c-c><c-c>", Some("half a mess")),
        ("half a mess<c-c>", "<c-d>", Some("half a mess")),
        ("half a mess<c-c>", "/quit<enter>", Some("half a mess")),
        ("", "<c-c><c-c>", None),
        ("  ", "<c-c><c-c>", None),
        ("/gamma 999<enter>", "<c-q>", None),
        ("half a mess<c-c>/gamma 999<enter>", "<c-q>", Some("half a mess")),
        ("half<c-c>", "whole<enter><c-q>", None),
    ] {
        let mut state = typed(written);
        assert_eq!(kept(&type_keys(&mut state, way)), (None, wanted), "{written:?} {way}");
        let mut state = exchange("one", "First answer.");
        type_keys(&mut state, written);
        assert_eq!(kept(&type_keys(&mut state, way)), (wanted, None), "{written:?} {way}");
    }
    // While an answer comes, the key stops it first, which brings the question back.
    for way in ["<c-q>", "/quit<enter>", "<c-c><c-c><c-c><c-c>", "<c-d>"] {
        let mut state = typed("one<enter>");
        let effects = type_keys(&mut state, way);
        assert_eq!(effects.last(), Some(&Effect::Quit { anyway: false }), "{way}");
        assert!(kept_turns(&effects).is_some(), "{way}");
    }
    // After a signal, or without a terminal, there is no second question.
    let mut state = exchange("one", "First answer.");
    type_keys(&mut state, "half a mess");
    let effects = tell(&mut state, ScreenEvent::Terminate);
    assert_eq!(kept(&effects), (Some("half a mess"), None));
    assert_eq!(effects.last(), Some(&Effect::Quit { anyway: true }));
}

#[test]
fn ctrl_d_deletes_and_with_nothing_written_quits() {
    let mut state = loaded(80, 24);
    assert!(type_keys(&mut state, "ab<left><c-d>").is_empty());
    assert_eq!(state.input.text(), "a");
    assert!(type_keys(&mut state, "<c-d>").is_empty(), "nothing stands behind the cursor");
    assert_eq!(kept(&type_keys(&mut state, "<bs><c-d>")), (None, None));
}

#[test]
fn it_is_there_again_with_its_conversation_and_on_its_own() {
    let unsent = || {
        let extras = Extras { unsent: Some("half\na mess".to_string()), ..Extras::default() };
        ScreenEvent::Loaded(Ok(SavedChat { extras, ..vec![saved("one", false)].into() }))
    };
    let mut state = loaded(80, 24);
    state.display.focus = Focus::Tree;
    tell(&mut state, unsent());
    assert_eq!((state.input.text().as_str(), state.display.focus), ("half\na mess", Focus::Input));
    assert_said(&state, Tone::Done, "was not sent");
    // Left again as it is, it is kept again; sent, it is not.
    assert_eq!(kept(&type_keys(&mut state, "<c-q>")), (Some("half\na mess"), None));
    // What is being written is not written over.
    let mut state = typed("mine");
    tell(&mut state, unsent());
    assert_eq!(state.input.text(), "mine");
    type_keys(&mut state, "<up>");
    assert_eq!(state.input.text(), "half\na mess");
    let mut state = loaded(80, 24);
    tell(&mut state, ScreenEvent::Unsent("see @a".to_string()));
    tell(&mut state, ScreenEvent::Folder(String::new(), vec!["a.txt".to_string()]));
    assert_eq!(state.input.text(), "see @a");
    assert!(state.input.offered().is_empty(), "Enter sends it");
    state.input.set("alone");
    job(&type_keys(&mut state, "<enter>"));
}

#[test]
fn what_cannot_be_saved_is_said_before_it_is_left() {
    let why = "cannot save the conversation to x: No space left on device";
    let quits = |state: &mut ScreenState, way: &str| match type_keys(state, way).last() {
        Some(Effect::Quit { anyway }) => *anyway,
        other => panic!("{way}: {other:?}"),
    };
    let refused = |state: &mut ScreenState| {
        tell(state, ScreenEvent::Saved { asked: false, result: Err(why.to_string()) });
        tell(state, ScreenEvent::NotLeft(why.to_string()));
    };
    for way in ["<c-c><c-c>", "<c-q>", "/quit<enter>", "<c-d>", "<f1><c-q>"] {
        let mut state = exchange("one", "First answer.");
        assert!(!quits(&mut state, way), "{way}");
        refused(&mut state);
        assert!(!state.leaving.quitting && state.overlays.open.is_none(), "{way}");
        assert_said(&state, Tone::Wrong, "Ctrl+Q again quits without saving it");
        assert!(quits(&mut state, way), "{way} again leaves");
        // Another answer would be lost as well, which has to be said again.
        let mut state = exchange("one", "First answer.");
        refused(&mut state);
        asked(&mut state, "two", "Second answer.");
        assert!(!quits(&mut state, way), "{way}");
        // So has what was saved since.
        refused(&mut state);
        let result = Ok(Saved { path: "x".into(), copied: false });
        tell(&mut state, ScreenEvent::Saved { asked: false, result });
        assert!(!quits(&mut state, way), "{way}");
    }
}
