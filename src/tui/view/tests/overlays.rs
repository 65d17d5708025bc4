//! Boxes over the panels.

use std::time::Duration;

use super::{answering, check};
use crate::chat::{BranchOf, SessionHead};
use crate::plan::{STRATEGIES, Strategy};
use crate::tui::actions::ModelPart;
use crate::tui::display::Focus;
use crate::tui::event::{Effect, ScreenEvent};
use crate::tui::markdown::text_of;
use crate::tui::models::ModelRow;
use crate::tui::overlays::sessions::rows;
use crate::tui::overlays::{Overlay, SessionList};
use crate::tui::state::ScreenState;
use crate::tui::tests::{colour_of, drawn, loaded, said, say, screen_of, shows, type_keys};
use crate::tui::update::update;
use crate::worker::{Event, MemoryFit, ModelChoice, StrategyStatus};

#[test]
fn the_help_opens_pages_and_goes_back() {
    for (width, height) in [(40, 12), (80, 24), (200, 50)] {
        let mut state = loaded(width, height);
        type_keys(&mut state, "<f1>exactness<enter>");
        shows(&mut state, &["help · Exactness"]);
        // It is read to its end, and back to its beginning.
        let last = text_of(state.overlays.guide_page.rows().last().unwrap());
        type_keys(&mut state, "<end>");
        shows(&mut state, &[last.trim()]);
        type_keys(&mut state, "<home>jk<pgdn>q");
        // The list is as it was.
        shows(&mut state, &["help · exactness▏"]);
        type_keys(&mut state, "<esc>");
        assert_eq!(state.overlays.open, None);
    }
}

#[test]
fn the_help_lists_the_keys_of_the_text_field() {
    let mut state = loaded(80, 24);
    // The row below the cursor has no page: the box is closed.
    type_keys(&mut state, "<f1><enter>");
    assert_eq!(state.overlays.open, None);
    type_keys(&mut state, "<f1><pgdn><down>");
    shows(&mut state, &["Writing"]);
    type_keys(&mut state, "<enter>");
    shows(&mut state, &["help · Writing", "↑ ↓", "Ctrl+W", "Ctrl+U", "undo", "Home End"]);
}

#[test]
fn the_details_scroll_to_their_end() {
    let mut state = answering(80, 24, 16);
    let ready = state.models.ready.as_mut().unwrap();
    ready.reasons = (0..40).map(|n| format!("Reason {n}.")).collect();
    ready.target_detail = "a long description of the target ".repeat(4) + "ends here";
    type_keys(&mut state, "/stats<enter>");
    // What is too long is wrapped.
    let screen = shows(&mut state, &[" 1–", "ends here"]);
    assert!(!screen.contains("This answer"), "{screen}");
    let top_after = |state: &mut ScreenState, keys: &str| {
        type_keys(state, keys);
        drawn(state);
        match state.overlays.open {
            Some(Overlay::Details { top }) => top,
            _ => panic!("the details are closed"),
        }
    };
    for keys in ["<end>", "<pgdn><pgdn><pgdn><pgdn><pgdn>"] {
        let end = top_after(&mut state, keys);
        shows(&mut state, &[" tok/s ", "decoding "]);
        assert_eq!(top_after(&mut state, "<down>"), end, "there is nothing below the end");
        assert_eq!(top_after(&mut state, "<up>"), end - 1);
        assert_eq!(top_after(&mut state, "<home>"), 0);
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
    shows(&mut state, &["word399"]);
}

#[test]
fn what_was_typed_in_a_list_is_deleted_by_one_key() {
    let heads = vec![head("A fox and a lantern", 4), head("What is the sun?", 2)];
    let lists: [fn(&mut ScreenState, Vec<SessionHead>); 4] = [
        |state, heads| {
            state.overlays.open = Some(Overlay::Sessions(SessionList::new(rows(heads, false))))
        },
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
    state.overlays.open = Some(Overlay::Sessions(SessionList::new(rows(heads, false))));
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
    let screen = screen_of(&mut state);
    let dovetail = Strategy::named("dovetail").unwrap().summary;
    let duo = "DuoDecoding: a small model";
    let missing = "  Not available here";
    let order =
        ["  auto ", "  plain ", "  small-model ", dovetail, "  More", duo, missing, "needs a text"];
    let place = |words: &str| screen.lines().position(|row| row.contains(words));
    assert!(order.is_sorted_by_key(|words| place(words).unwrap()), "{screen}");
    assert_ne!(colour_of(&mut state, "needs a text"), colour_of(&mut state, "  plain "));
    // Headings are not chosen.
    for _ in 0..STRATEGIES.len() {
        type_keys(&mut state, "<down>");
    }
    let chosen = state.listed_strategies().last().unwrap().status.name.clone();
    assert_eq!(chosen, "rest");
    type_keys(&mut state, "<enter>");
    assert!(said(&state).contains("rest needs a text"));
}

#[test]
fn the_longest_name_of_a_strategy_stands_apart_from_what_it_does() {
    let mut state = loaded(80, 24);
    let longest = STRATEGIES.iter().max_by_key(|row| row.name.len()).unwrap();
    let ready = state.models.ready.as_mut().unwrap();
    ready.strategies[1].name = longest.name.to_string();
    ready.strategies[1].missing = None;
    type_keys(&mut state, "<c-p>");
    let begin: String = longest.summary.chars().take(20).collect();
    shows(&mut state, &[&format!("{}  {begin}", longest.name)]);
}

fn head(title: &str, messages: usize) -> SessionHead {
    let title = title.to_string();
    let ago = "3 h ago".to_string();
    SessionHead { id: title.clone(), title, messages, ago, ..SessionHead::default() }
}

#[test]
fn a_list_of_conversations_on_a_narrow_screen_keeps_titles_and_keys() {
    let mut state = loaded(40, 10);
    let list = SessionList::new(rows(vec![head("A fox and a lantern", 2)], false));
    state.overlays.open = Some(Overlay::Sessions(list));
    let parts = ["A fox and a lantern ", " 3 h ago", " Enter open ·", " Esc close "];
    shows(&mut state, &parts);
}

#[test]
fn saved_conversations() {
    let mut state = loaded(80, 24);
    let sun = SessionHead { target: "Qwen2.5 1.5B".to_string(), ..head("What is the sun?", 2) };
    let heads = vec![head("A fox and a lantern", 4), sun, head("", 1)];
    state.overlays.open = Some(Overlay::Sessions(SessionList::new(rows(heads, false))));
    type_keys(&mut state, "<down>");
    check("sessions_80", &mut state);
    type_keys(&mut state, "jk THE su<bs>");
    shows(&mut state, &["jk THE s▏ ", " 0 of 3 │", "No match found"]);
    type_keys(&mut state, "<bs><bs><bs><bs><bs><bs><bs><bs>LANTERN fo");
    let found = shows(&mut state, &["LANTERN fo▏ ", " 1 of 3 │", "A fox and a lantern "]);
    assert!(!found.contains("What is the sun?"), "{found}");
    let effects = type_keys(&mut state, "<enter>");
    let load = Effect::Load("A fox and a lantern".to_string());
    assert!(effects.contains(&load), "{effects:?}");
}

#[test]
fn conversations_that_say_the_same_are_one_row_and_branches_are_a_tree() {
    let mut state = loaded(80, 24);
    let said = |title: &str| SessionHead { said: "What is it?".to_string(), ..head(title, 2) };
    let heads = vec![said("What is it?"), said("Foxes"), said("What is it?")];
    type_keys(&mut state, "<c-s>");
    update(&mut state, ScreenEvent::Sessions(heads), Duration::ZERO);
    shows(&mut state, &["2 of 2", "What is it?  ×2"]);
    let effects = type_keys(&mut state, "<esc>/tree<enter>");
    assert_eq!(effects, [Effect::List { branches: true }]);
    let branch = |of: &str, title: &str| {
        let id = Some(of.to_string());
        let branch_of = Some(BranchOf { title: of.to_string(), id, messages: 1 });
        SessionHead { branch_of, ..said(title) }
    };
    let tree = vec![said("What?"), branch("What?", "And?"), branch("And?", "Then?")];
    update(&mut state, ScreenEvent::Sessions(tree), Duration::ZERO);
    shows(&mut state, &["branches of this conversation", "│ ╰╴And?", "   ╰╴Then?"]);
    // What is renamed is listed again as a branch.
    let effects = type_keys(&mut state, "<f2>x<enter>");
    assert_eq!(effects.last(), Some(&Effect::List { branches: true }));
    type_keys(&mut state, "<esc>/tree<enter>");
    update(&mut state, ScreenEvent::Sessions(Vec::new()), Duration::ZERO);
    shows(&mut state, &["This conversation has no branches"]);
}

#[test]
fn models_are_listed_with_sizes_and_what_fits() {
    let mut state = answering(80, 24, 16);
    type_keys(&mut state, "<esc><c-n>");
    let row = |title: &str, bytes: u64, fit| ModelRow {
        title: title.to_string(),
        parameters: Some(bytes * 8 / 5),
        quantisation: Some("Q4_K_M".to_string()),
        bytes,
        place: "Ollama".to_string(),
        aliases: "tagged:latest".to_string(),
        fit,
        speed: "~6.1–11 tok/s".to_string(),
        models: ModelChoice { target: Some(title.to_string()), ..ModelChoice::default() },
        ..ModelRow::default()
    };
    let mut rows = vec![
        row("dovetail-demo", 12_000_000, MemoryFit::Fits),
        row("Qwen2.5 0.5B Instruct", 398_000_000, MemoryFit::Fits),
        row("Llama 2 7B Chat", 4_100_000_000, MemoryFit::Tight),
        row("Llama 2 70B Chat", 41_000_000_000, MemoryFit::TooLarge),
        row("Odd 1B", 800_000_000, MemoryFit::Fits),
        row("Qwen2.5 7B Instruct", 5_060_000_000, MemoryFit::Fits),
    ];
    rows[0].in_use = true;
    rows[0].place = "bundled".into();
    rows[4].refused = Some("why".into());
    rows[5].parameters = None;
    rows[5].quantisation = None;
    rows[5].place = "Apache-2.0".into();
    rows[5].download = true;
    let found = ScreenEvent::Models { part: ModelPart::Target, rows };
    update(&mut state, found, Duration::from_secs(9));
    type_keys(&mut state, "<down>");
    check("models_80", &mut state);
    type_keys(&mut state, "LLAMA tagged");
    let found = shows(&mut state, &["LLAMA tagged▏ ", " 4 of 6 │", "Llama 2 70B Chat", "Odd 1B"]);
    assert!(!found.contains("Qwen2.5 7B"), "{found}");
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
