//! Boxes over the panels.

use std::time::Duration;

use unicode_width::UnicodeWidthStr;

use super::{answering, check};
use crate::chat::SessionHead;
use crate::plan::{STRATEGIES, Strategy};
use crate::tui::actions::ModelPart;
use crate::tui::display::Focus;
use crate::tui::event::{Effect, ScreenEvent};
use crate::tui::models::{Fit, ModelRow};
use crate::tui::overlays::{Overlay, SessionList};
use crate::tui::state::ScreenState;
use crate::tui::tests::{drawn, loaded, say, screen_of, text, type_keys};
use crate::tui::update::update;
use crate::worker::{Event, ModelChoice, StrategyStatus};

#[test]
fn help_and_details() {
    for (name, width) in [("help_40", 40), ("help_80", 80)] {
        let mut state = loaded(width, 24);
        type_keys(&mut state, "<f1>");
        check(name, &mut state);
    }
    let mut state = loaded(200, 50);
    type_keys(&mut state, "<f1>");
    check("help_200", &mut state);
    let mut state = answering(80, 24, 16);
    type_keys(&mut state, "/stats<enter>");
    check("details_80", &mut state);
}

/// Opens the row of the help that these words find first.
fn open_help(state: &mut ScreenState, words: &str) -> String {
    type_keys(state, &format!("<f1>{words}<enter>"));
    screen_of(state)
}

#[test]
fn the_help_opens_pages_and_goes_back() {
    for (width, height) in [(40, 12), (80, 24), (200, 50)] {
        let mut state = loaded(width, height);
        let screen = open_help(&mut state, "exactness");
        assert!(screen.contains("help · Exactness"), "{screen}");
        // It is read to its end, and back to its beginning.
        let last = state.overlays.guide_page.rows().last().unwrap().clone();
        let last: String = last.iter().map(|span| span.text.as_str()).collect();
        type_keys(&mut state, "<end>");
        let screen = screen_of(&mut state);
        assert!(screen.contains(last.trim()), "{last}: {screen}");
        type_keys(&mut state, "<home>jk<pgdn>q");
        let screen = screen_of(&mut state);
        assert!(screen.contains("help · exactness▏"), "the list as it was: {screen}");
        type_keys(&mut state, "<esc>");
        assert_eq!(state.overlays.open, None);
    }
}

#[test]
fn the_help_lists_the_keys_of_the_text_field() {
    let mut state = loaded(80, 24);
    let mut screen = open_help(&mut state, "");
    // The row below the cursor has no page: the box is closed.
    assert_eq!(state.overlays.open, None, "{screen}");
    type_keys(&mut state, "<f1><pgdn><down>");
    screen = screen_of(&mut state);
    assert!(screen.contains("Writing"), "{screen}");
    type_keys(&mut state, "<enter>");
    screen = screen_of(&mut state);
    for words in ["help · Writing", "↑ ↓", "Ctrl+W", "Ctrl+U", "undo", "Home End"] {
        assert!(screen.contains(words), "{words}: {screen}");
    }
}

#[test]
fn the_details_scroll_to_their_end() {
    let mut state = answering(80, 24, 16);
    let ready = state.models.ready.as_mut().unwrap();
    ready.reasons = (0..40).map(|n| format!("Reason {n}.")).collect();
    ready.target_detail = "a long description of the target ".repeat(4) + "ends here";
    type_keys(&mut state, "/stats<enter>");
    let screen = screen_of(&mut state);
    assert!(screen.contains(" 1–") && !screen.contains("This answer"), "{screen}");
    assert!(screen.contains("ends here"), "it is wrapped: {screen}");
    for keys in ["<end>", "<pgdn><pgdn><pgdn><pgdn><pgdn>"] {
        type_keys(&mut state, keys);
        let screen = screen_of(&mut state);
        assert!(screen.contains(" tok/s ") && screen.contains("decoding "), "{screen}");
        let top = |state: &ScreenState| match state.overlays.open {
            Some(Overlay::Details { top }) => top,
            _ => panic!("the details are closed"),
        };
        let end = top(&state);
        type_keys(&mut state, "<down>");
        drawn(&mut state);
        assert_eq!(top(&state), end, "there is nothing below the end");
        type_keys(&mut state, "<up>");
        drawn(&mut state);
        assert_eq!(top(&state), end - 1);
        type_keys(&mut state, "<home>");
        assert_eq!(top(&state), 0);
    }
    type_keys(&mut state, "<esc>");
    assert!(state.overlays.open.is_none());
}

#[test]
fn a_long_system_prompt_scrolls_too() {
    let mut state = loaded(80, 24);
    let words: Vec<String> = (0..400).map(|n| format!("word{n}")).collect();
    state.chat.system = Some(words.join(" "));
    type_keys(&mut state, "/system<enter>");
    assert!(!screen_of(&mut state).contains("word399"));
    type_keys(&mut state, "<end>");
    assert!(screen_of(&mut state).contains("word399"));
}

#[test]
fn what_was_typed_in_a_list_is_deleted_by_one_key() {
    let head = |title: &str| SessionHead { title: title.to_string(), ..SessionHead::default() };
    let heads = vec![head("A fox and a lantern"), head("What is the sun?")];
    let lists: [fn(&mut ScreenState, Vec<SessionHead>); 4] = [
        |state, heads| state.overlays.open = Some(Overlay::Sessions(SessionList::new(heads))),
        |state, _| drop(type_keys(state, "<c-n>")),
        |state, _| drop(type_keys(state, "<a-e>")),
        |state, _| drop(type_keys(state, "<f1>")),
    ];
    for open in lists {
        let mut state = answering(80, 24, 16);
        type_keys(&mut state, "<esc>");
        open(&mut state, heads.clone());
        assert!(state.overlays.open.is_some());
        let before = screen_of(&mut state);
        type_keys(&mut state, "zzzz");
        assert_ne!(screen_of(&mut state), before);
        type_keys(&mut state, "<c-u>");
        assert_eq!(screen_of(&mut state), before);
    }
    // A title that is being written as well.
    let mut state = loaded(80, 24);
    state.overlays.open = Some(Overlay::Sessions(SessionList::new(heads)));
    type_keys(&mut state, "<f2><c-u>New");
    assert_eq!(
        state.overlays.renaming.as_ref().map(|renaming| renaming.title.as_str()),
        Some("New")
    );
}

#[test]
fn strategies_are_listed_by_use_and_those_that_cannot_run_are_dim() {
    let mut state = loaded(100, 40);
    let ready = state.models.ready.as_mut().unwrap();
    let plain = ready.strategies[0].clone();
    let status = |row: &Strategy| StrategyStatus {
        name: row.name.to_string(),
        missing: (row.name == "rest").then(|| "a text".to_string()),
        ..plain.clone()
    };
    ready.strategies = STRATEGIES.iter().map(status).collect();
    type_keys(&mut state, "<c-p>");
    let buffer = drawn(&mut state);
    let screen = text(&buffer);
    let place = |words: &str| {
        let found = screen.lines().position(|row| row.contains(words));
        found.unwrap_or_else(|| panic!("no {words}: {screen}"))
    };
    let dovetail = Strategy::named("dovetail").unwrap().summary;
    let duo = "DuoDecoding: a small model";
    let order = ["  Automatic ", "  Off ", "  Draft model ", dovetail, "  More", duo];
    for (before, after) in order.iter().zip(&order[1..]) {
        assert!(place(before) < place(after), "{before}, {after}: {screen}");
    }
    let last = place("  Not available here");
    assert!(place(duo) < last && last < place("needs a text"), "{screen}");
    let colour = |words: &str| {
        let y = place(words);
        let row = screen.lines().nth(y).unwrap();
        buffer[(row[..row.find(words).unwrap()].width() as u16, y as u16)].fg
    };
    assert_ne!(colour("needs a text"), colour("Off "));
    // Headings are not chosen.
    for _ in 0..STRATEGIES.len() {
        type_keys(&mut state, "<down>");
    }
    let chosen = state.listed_strategies().last().unwrap().status.name.clone();
    assert_eq!(chosen, "rest");
    type_keys(&mut state, "<enter>");
    assert!(state.toasts.shown().unwrap().text.contains("rest needs a text"));
}

#[test]
fn the_picker_says_what_each_strategy_does_or_lacks() {
    let mut state = answering(80, 24, 16);
    type_keys(&mut state, "<c-p><down>");
    check("strategies_80", &mut state);
    type_keys(&mut state, "<enter>");
    let screen = screen_of(&mut state);
    assert!(screen.contains("← eagle2-60 · DGF head"), "{screen}");
}

#[test]
fn the_longest_name_of_a_strategy_stands_apart_from_what_it_does() {
    let mut state = loaded(80, 24);
    let longest = STRATEGIES.iter().max_by_key(|row| row.name.len()).unwrap();
    let ready = state.models.ready.as_mut().unwrap();
    ready.strategies[1].name = longest.name.to_string();
    ready.strategies[1].missing = None;
    type_keys(&mut state, "<c-p>");
    let screen = screen_of(&mut state);
    let begin: String = longest.summary.chars().take(20).collect();
    assert!(screen.contains(&format!("{}  {begin}", longest.name)), "{screen}");
}

#[test]
fn a_list_of_conversations_on_a_narrow_screen_keeps_titles_and_keys() {
    let mut state = loaded(40, 10);
    let title = "A fox and a lantern".to_string();
    let head = SessionHead { id: "a".to_string(), title, messages: 2, ..SessionHead::default() };
    state.overlays.open = Some(Overlay::Sessions(SessionList::new(vec![head])));
    let screen = screen_of(&mut state);
    for words in ["A fox and a lantern ", " 1970-01-01", " Enter open ·", " Esc close "] {
        assert!(screen.contains(words), "{words}: {screen}");
    }
}

#[test]
fn failures_and_notices() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "Hello<enter>");
    let error = "The prompt has 3,120 tokens, but the context of dovetail-demo 6M holds 2,048. \
        Shorten it, or begin anew with /new."
        .to_string();
    say(&mut state, Event::Failed { generation: Some(1), error });
    check("error_80", &mut state);
    let mut state = loaded(80, 24);
    type_keys(&mut state, "/gamma 999<enter>");
    check("complaint_80", &mut state);
}

#[test]
fn saved_conversations() {
    let mut state = loaded(80, 24);
    let head = |title: &str, messages| SessionHead {
        id: title.to_string(),
        title: title.to_string(),
        updated: 0,
        messages,
        ..SessionHead::default()
    };
    let heads = vec![head("A fox and a lantern", 4), head("What is the sun?", 2), head("", 1)];
    state.overlays.open = Some(Overlay::Sessions(SessionList::new(heads)));
    type_keys(&mut state, "<down>");
    check("sessions_80", &mut state);
    type_keys(&mut state, "jk THE su<bs>");
    check("sessions_none_80", &mut state);
    type_keys(&mut state, "<bs><bs><bs><bs><bs><bs><bs><bs>LANTERN fo");
    check("sessions_filtered_80", &mut state);
    let effects = type_keys(&mut state, "<enter>");
    let load = Effect::Load("A fox and a lantern".to_string());
    assert!(effects.contains(&load), "{effects:?}");
}

#[test]
fn models_are_listed_with_sizes_and_what_fits() {
    let mut state = answering(80, 24, 16);
    type_keys(&mut state, "<esc><c-n>");
    check("models_searching_80", &mut state);
    let row = |title: &str, bytes: u64, fit| ModelRow {
        title: title.to_string(),
        parameters: Some(bytes * 8 / 5),
        quantisation: Some("Q4_K_M".to_string()),
        bytes,
        place: "Ollama".to_string(),
        aliases: "tagged:latest".to_string(),
        fit,
        speed: "~6.1–11 tok/s".to_string(),
        download: false,
        refused: None,
        models: ModelChoice { target: Some(title.to_string()), ..ModelChoice::default() },
        in_use: false,
    };
    let rows = vec![
        ModelRow {
            in_use: true,
            place: "bundled".into(),
            ..row("dovetail-demo", 12_000_000, Fit::Beside)
        },
        row("Qwen2.5 0.5B Instruct", 398_000_000, Fit::Beside),
        row("Llama 2 7B Chat", 4_100_000_000, Fit::Alone),
        row("Llama 2 70B Chat", 41_000_000_000, Fit::TooLarge),
        ModelRow { refused: Some("why".into()), ..row("Odd 1B", 800_000_000, Fit::Beside) },
        ModelRow {
            parameters: None,
            quantisation: None,
            place: "Apache-2.0".into(),
            download: true,
            ..row("Qwen2.5 7B Instruct", 5_060_000_000, Fit::Beside)
        },
    ];
    let found = ScreenEvent::Models { part: ModelPart::Target, rows };
    update(&mut state, found, Duration::from_secs(9));
    type_keys(&mut state, "<down>");
    check("models_80", &mut state);
    type_keys(&mut state, "LLAMA tagged");
    check("models_filtered_80", &mut state);
    type_keys(&mut state, "<enter>");
    let load = state.controls.worker.load;
    let stage = "reading llama-2-7b.gguf".to_string();
    say(&mut state, Event::LoadProgress { load, stage, fraction: Some(0.42) });
    check("model_loading_80", &mut state);
}

/// Every corner of a frame belongs to a whole frame: an overlay leaves no part of a panel.
fn assert_whole_frames(screen: &str, what: &str) {
    let cells: Vec<Vec<char>> = screen.lines().map(|line| line.chars().collect()).collect();
    let at = |y: usize, x: usize| cells.get(y).and_then(|row| row.get(x)).copied().unwrap_or(' ');
    let mut right = 0;
    let mut found = 0;
    for (y, row) in cells.iter().enumerate() {
        for x in (0..row.len()).filter(|&x| row[x] == '╭') {
            found += 1;
            let end = (x + 1..row.len()).find(|&x| "╭╮╰╯".contains(row[x]));
            let end = end.unwrap_or_else(|| panic!("{what}: open at {y}, {x}\n{screen}"));
            assert_eq!(at(y, end), '╮', "{what}\n{screen}");
            let below = (y + 1..cells.len()).find(|&y| at(y, x) != '│').unwrap_or(y);
            assert_eq!((at(below, x), at(below, end)), ('╰', '╯'), "{what}\n{screen}");
            let edge = |y| "│▲▼".contains(at(y, end));
            assert!((y + 1..below).all(edge), "{what}\n{screen}");
        }
        // The branches of a tree are not corners.
        let branch = |x: usize| row[x] == '╰' && row.get(x + 1) == Some(&'╴');
        right += (0..row.len()).filter(|&x| "╮╰╯".contains(row[x]) && !branch(x)).count();
    }
    assert_eq!(right, 3 * found, "{what}: a corner is left over\n{screen}");
}

#[test]
fn overlays_leave_no_partial_frames() {
    for (width, height) in [(80, 24), (120, 36), (200, 50), (100, 17), (30, 8)] {
        for side in ["", "<f2>", "<f3>", "<f4>"] {
            for keys in
                ["", "<f1>", "<c-p>", "<c-n>", "/stats<enter>", "/", "/s", "/gamma 9999<enter>"]
            {
                let mut state = answering(width, height, 16);
                type_keys(&mut state, side);
                state.display.focus = Focus::Input;
                type_keys(&mut state, keys);
                let what = format!("{width}x{height} {side} {keys}");
                assert_whole_frames(&screen_of(&mut state), &what);
            }
            let mut state = answering(width, height, 16);
            type_keys(&mut state, side);
            let error = "What went wrong, and what to do about it.".to_string();
            say(&mut state, Event::Failed { generation: Some(2), error });
            assert_whole_frames(&screen_of(&mut state), "failed");
        }
    }
}
