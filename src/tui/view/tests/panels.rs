//! Tree, meters and controls.

use std::time::Duration;

use ratatui::layout::Rect;
use ratatui::style::Color;

use super::super::layout::areas;
use super::{STORY, answering, check, check_styles};
use crate::decode::{Round, Timing};
use crate::hardware::{GpuUsage, Usage};
use crate::model::{ModelEngine, Traffic};
use crate::overlap::{SequenceToken, SequencesRecord, sequences_for_tests};
use crate::speculate::{Budget, SamplerSettings, Shape};
use crate::tui::controls::FirstAnswer;
use crate::tui::event::{Button, ScreenEvent};
use crate::tui::meters::Speedup;
use crate::tui::tests::{
    answer, colour_of, drawn, loaded, minded, pending, round_of, say, say_all, screen_of, shows,
    type_keys, usage,
};
use crate::tui::theme::{self, Styles, ThemeName};
use crate::tui::update::update;
use crate::worker::Event;

#[test]
fn the_narrowest_controls_show_every_key() {
    let mut state = loaded(110, 36);
    type_keys(&mut state, "<f4>");
    let screen = screen_of(&mut state);
    for keys in ["x X", "g G", "m M", "w W", "d D", "t T", "p P", "s F7"] {
        assert!(screen.lines().any(|row| row.trim_end_matches([' ', '│']).ends_with(keys)));
    }
    // The empty chat is at its narrowest too, and cuts no word.
    assert!(
        screen.contains("checks every guess in one pass and keeps those it agrees"),
        "{screen}"
    );
    // What is said takes the place of the whole title.
    type_keys(&mut state, "<tab>");
    assert!(screen_of(&mut state).contains("Keys go to"));
    type_keys(&mut state, "A");
    let screen = screen_of(&mut state);
    assert!(!screen.contains("Keys go to") && !screen.contains("returns"), "{screen}");
}

#[test]
fn the_first_answer_plays_next_to_a_large_tree_with_a_caption() {
    for (name, width, height) in [("first_answer_80", 80, 24), ("first_answer_120", 120, 36)] {
        let mut state = loaded(width, height);
        state.controls.first_answer = FirstAnswer::ToCome;
        type_keys(&mut state, "Tell me a story about a fox.<enter>");
        let said = "Once upon a time there was a little fox who lived by the sea.";
        say_all(&mut state, answer(1, said, 16).into_iter().take(4));
        assert!(state.controls.worker.watched, "the tree is on the screen");
        check(name, &mut state);
        // At full speed the screen is as always.
        type_keys(&mut state, " ");
        let screen = screen_of(&mut state);
        assert!(!screen.contains("slowed") && !screen.contains("at once"), "{screen}");
        assert_eq!(screen.contains("draft tree"), width == 120, "{screen}");
    }
}

#[test]
fn a_pace_that_the_user_has_set_is_told_next_to_the_rate() {
    let mut state = answering(80, 24, 16);
    assert!(!screen_of(&mut state).contains("slowed"));
    state.controls.worker.pace = 200;
    shows(&mut state, &["slowed for watching · ", " tok/s"]);
}

#[test]
fn the_load_and_memory_of_the_card_are_in_the_lab_and_with_its_name_in_the_details() {
    let mut state = loaded(120, 50);
    state.meters.gpu = "TestForce".to_owned();
    type_keys(&mut state, "<f2>/stats<enter>");
    let mut draw = |vram_ours| {
        let card = GpuUsage { load: Some(0.5), vram_used: 3 << 30, vram_total: 8 << 30, vram_ours };
        let usage = Usage { gpu: Some(card), ..usage() };
        update(&mut state, ScreenEvent::Usage(usage), Duration::ZERO);
        screen_of(&mut state)
    };
    let known = draw(Some(2 << 30));
    assert!(known.contains("gpu         50% · TestForce"), "{known}");
    assert!(known.contains("vram        3.2 GB of 8.6 GB · ours 2.1 GB"), "{known}");
    assert!(known.contains("cpu 78%  memory 26%  gpu 50%  vram 38%"), "{known}");
    // Where the driver hides processes, we know what we put there.
    let hidden = draw(None);
    assert!(hidden.contains("vram        3.2 GB of 8.6 GB · ours 0"), "{hidden}");
}

#[test]
fn the_message_says_that_keys_go_elsewhere() {
    for (keys, panel) in [
        ("<f2><tab>", "tree panel"),
        ("<f4><tab>", "controls panel"),
        ("<backtab>", "conversation"),
    ] {
        for (width, height) in [(80, 24), (120, 40)] {
            let mut state = loaded(width, height);
            type_keys(&mut state, "half a message");
            assert!(!screen_of(&mut state).contains("Keys go to"));
            let before = colour_of(&mut state, "half");
            type_keys(&mut state, keys);
            shows(&mut state, &[&format!("Keys go to the {panel} · Esc returns to the message")]);
            assert_ne!(colour_of(&mut state, "half"), before, "{panel}");
            type_keys(&mut state, "<esc>");
            assert_eq!(colour_of(&mut state, "half"), before);
        }
    }
    // A narrow screen says at least how the keys come back.
    let mut state = loaded(36, 20);
    type_keys(&mut state, "<tab>");
    shows(&mut state, &["Esc returns to the message"]);
}

#[test]
fn the_tree_has_half_of_its_column_whatever_is_open() {
    for keys in ["", "<f3>", "<f4>", "<f2>", "<f2><f4>", "<f2><f4><tab>"] {
        for (width, height) in [(110, 16), (120, 36), (200, 50)] {
            let mut state = answering(width, height, 16);
            type_keys(&mut state, keys);
            drawn(&mut state);
            let (areas, _) = areas(Rect::new(0, 0, width, height), &state, &Styles::default());
            let tree = areas.tree.unwrap();
            assert!(tree.height * 2 >= areas.body.height, "{keys} {height}: {areas:?}");
            assert_eq!(
                areas.controls.is_some_and(|controls| controls.height > 1),
                keys.contains("f4")
            );
        }
    }
    // Above the message of a narrow terminal it has six rows at most.
    for height in 1..60 {
        let mut state = answering(80, height, 64);
        type_keys(&mut state, "<f2>");
        let (areas, _) = areas(Rect::new(0, 0, 80, height), &state, &Styles::default());
        assert!(areas.tree.is_none_or(|tree| tree.height <= 6 && tree.bottom() == areas.input.y));
        assert!(areas.tree.is_some() || height < 12, "{height}");
    }
}

#[test]
fn an_empty_tree_says_why() {
    let mut state = loaded(120, 36);
    shows(&mut state, &["The tree appears with the first words", "× guessed, but"]);
    state = answering(120, 36, 16);
    let plain = round_of(&[(" fox", 0, 1.0)], &[], " ran");
    let budget = Budget { shape: Shape { gamma: 1, ..plain.budget.shape }, ..plain.budget };
    let small = Round { budget, drafter: None, ..plain.clone() };
    let off = |strategy: &str| Round {
        speculative: false,
        strategy: strategy.to_string(),
        ..small.clone()
    };
    for (round, words) in [
        (small.clone(), "checking guesses would"),
        (plain, "no guess was likely"),
        (off("plain"), "the strategy has no"),
        (off(""), "without speculation"),
        (off("auto"), "without speculation"),
    ] {
        say(&mut state, Event::Round { generation: 2, round: Box::new(round) });
        shows(&mut state, &["Nothing guessed: ", words]);
    }
    type_keys(&mut state, "<f7>");
    let off = "Nothing guessed: without speculation";
    shows(&mut state, &[off, " plain decoding · ", "the text stays the same"]);
    type_keys(&mut state, "<f7>");
    shows(&mut state, &[off]);
}

#[test]
fn the_meters_name_the_engine_if_it_is_not_ours() {
    let mut state = loaded(120, 40);
    type_keys(&mut state, "<f2>");
    assert!(!screen_of(&mut state).contains("candle"));
    state.models.ready.as_mut().unwrap().engine = ModelEngine::Candle;
    shows(&mut state, &["meters · ", " · candle-transformers "]);
}

#[test]
fn drafting_beside_the_target_shows_in_the_meters() {
    let mut state = answering(120, 40, 16);
    type_keys(&mut state, "<f2>");
    let mut round = state.tree.latest().unwrap().clone();
    round.timing = Timing { ahead_ms: 30.0, wait_ms: 1.5, ..round.timing };
    say(&mut state, Event::Round { generation: 2, round: Box::new(round.clone()) });
    shows(&mut state, &["ahead ", "idle: draft ", ", ahead 30 ms"]);
    round.ahead = Some(SequencesRecord { c: Some(6.41), ..sequences_for_tests(4, &[], None) });
    say(&mut state, Event::Round { generation: 2, round: Box::new(round) });
    shows(&mut state, &["6.4 draft steps in a pass (c)"]);
}

#[test]
fn the_clock_shows_both_lanes_to_scale_and_the_mouse_shows_a_round() {
    let mut state = answering(200, 50, 16);
    type_keys(&mut state, "<f2>");
    let slow = Timing { draft_ms: 60.0, verify_ms: 120.0, other_ms: 20.0, ..Timing::default() };
    let ahead = Timing { verify_ms: 100.0, ahead_ms: 50.0, wait_ms: 100.0, ..Timing::default() };
    for timing in [slow, ahead] {
        let round = Round { timing, ..state.tree.latest().unwrap().clone() };
        say(&mut state, Event::Round { generation: 2, round: Box::new(round) });
    }
    let screen = screen_of(&mut state);
    let lane = |name: &str| screen.lines().find_map(|row| row.split(name).nth(1)).unwrap();
    // Two rounds of 200 ms fill nearly all of it, in the middle of the second only the target
    // is at work.
    let count = |lane: &str, stroke| lane.chars().filter(|c| *c == stroke).count();
    let (draft, target) = (lane("│ draft  "), lane("│ target "));
    assert!(count(target, '═') > count(draft, '━') && count(target, '┄') > 3, "{screen}");
    assert!(draft.contains("━━··") && target.contains("══┄┄"), "{screen}");
    // The mouse points at the round before the latest, and leaves it.
    let latest = state.tree.len();
    let row = screen.lines().position(|row| row.contains("│ target ")).unwrap();
    let before = screen.lines().find_map(|row| row.split_once("│ round ")).unwrap().0;
    let (x, y) = ((before.chars().count() + 8) as u16, row as u16);
    let pointed = state.meters.clock.round(x, y);
    update(&mut state, ScreenEvent::Pointed(pointed), Duration::ZERO);
    let at = pointed.unwrap();
    assert!(at + 1 < latest && state.tree.live(), "{at} of {latest}");
    let times = format!("round {} ━ draft", at + 1);
    shows(&mut state, &[&times]);
    assert_eq!(state.meters.clock.pointed, pointed, "the next frame shows it too");
    let pointed = state.meters.clock.round(x, 0);
    update(&mut state, ScreenEvent::Pointed(pointed), Duration::ZERO);
    assert!(!shows(&mut state, &["mean ━ draft"]).contains(&times));
    // A click goes to it.
    update(&mut state, ScreenEvent::Button(Button::Pressed, x, y), Duration::ZERO);
    assert_eq!(state.tree.shown().unwrap().0, at);
    assert!(!state.tree.live());
    shows(&mut state, &[&times]);
}

#[test]
fn sequences_drafted_ahead_stand_below_the_tree() {
    let mut state = answering(80, 24, 16);
    let nodes = [(" the", 0, 1.0), (" little", 0, 0.8), (" fox", 1, 0.7)];
    let mut round = round_of(&nodes, &[1, 2], " ran");
    let token = |token, word: &str| SequenceToken { token, label: word.to_owned(), log_prob: -0.5 };
    let sequences = vec![
        vec![token(0, " sat"), token(0, " on")],
        vec![token(round.bonus, " ran"), token(0, " over")],
    ];
    round.ahead = Some(SequencesRecord { gamma: 4, c: Some(6.41), sequences, adopted: Some(1) });
    round.budget = Budget::new(Shape { gamma: 4, width: 2, depth: 2 }, 0);
    round.timing = Timing { draft_ms: 0.1, verify_ms: 41.0, ahead_ms: 38.0, ..round.timing };
    assert!(round.check_ahead().is_ok());
    say(&mut state, Event::Round { generation: 2, round: Box::new(round) });
    type_keys(&mut state, "<f2>");
    check("sequences_80", &mut state);
}

#[test]
fn a_round_shows_while_it_is_verified() {
    let mut state = answering(80, 24, 16);
    type_keys(&mut state, "<f2>");
    let index = state.tree.len();
    say(&mut state, pending(2, index));
    check("verifying_80", &mut state);
    // It is a round as any other for who looks back.
    type_keys(&mut state, "<tab><left>");
    shows(&mut state, &[&format!(" round {} of {index} ", index - 1)]);
}

#[test]
fn a_replay_shows_the_recorded_temperature() {
    let mut state = answering(120, 40, 16);
    let recorded = SamplerSettings { temperature: 0.7, ..SamplerSettings::default() };
    say(&mut state, Event::Sampled(recorded));
    type_keys(&mut state, "<f4>");
    state.models.replay = true;
    let screen = shows(&mut state, &["temperature"]);
    let dial = screen.lines().find(|line| line.contains("temperature"));
    assert!(dial.is_some_and(|dial| dial.contains("0.70  recorded")), "{screen}");
}

#[test]
fn what_goes_over_the_bus_shows_in_the_details() {
    let mut state = answering(120, 40, 16);
    assert!(!screen_of(&mut state).contains("submissions"), "nothing without a GPU");
    let mut round = state.tree.latest().unwrap().clone();
    let rounds = 1 + state.meters.answer.summary.rounds as u64;
    round.traffic = Traffic { submissions: 6 * rounds, up: 24_000 * rounds, down: 900 * rounds };
    say(&mut state, Event::Round { generation: 2, round: Box::new(round) });
    type_keys(&mut state, "/stats<enter>");
    shows(&mut state, &["6.0 submissions, 24 kB up, 0.9 kB down per round"]);
}

#[test]
fn what_the_mouse_selects_stands_out() {
    let mut state = answering(80, 24, 16);
    drawn(&mut state);
    let area = state.chat.seen.area;
    for (button, x, y) in [
        (Button::Pressed, area.x + 12, area.y + 7),
        (Button::Moved, area.x + 20, area.y + 11),
        (Button::Released, area.x + 20, area.y + 11),
    ] {
        update(&mut state, ScreenEvent::Button(button, x, y), Duration::ZERO);
    }
    check_styles("selection_80", &drawn(&mut state));
}

#[test]
fn only_what_is_won_has_the_colour_of_a_win() {
    let styles = theme::styles(ThemeName::Dark);
    for (ratio, wanted) in [(9.1, styles.accepted), (0.3, styles.warning), (1.0, styles.text)] {
        let mut state = answering(120, 36, 16);
        let speedup = Speedup { ratio, measured: true, for_show: false };
        state.meters.answer.settled = Some(Some(speedup));
        let colour = colour_of(&mut state, &speedup.factor());
        assert_eq!(colour, wanted.fg.unwrap_or(Color::Reset), "{ratio}");
    }
}

#[test]
fn the_times_of_a_round_keep_their_unit() {
    for (draft_ms, verify_ms, other_ms) in
        [(0.7, 9.9, 0.7), (3.1, 41.0, 0.6), (120.0, 1200.0, 120.0)]
    {
        let mut state = answering(80, 24, 16);
        let timing = Timing { draft_ms, verify_ms, other_ms, ..Timing::default() };
        let summary = &mut state.meters.answer.summary;
        summary.timing = Timing::default();
        for _ in 0..summary.rounds {
            summary.timing += timing;
        }
        type_keys(&mut state, "<f3>");
        let screen = screen_of(&mut state);
        let row = screen.lines().rfind(|row| row.contains("draft ")).unwrap();
        assert!(row.contains(" ms ") && !row.contains('…'), "{row}");
        for width in 34..60 {
            state.display.size = (width, 24);
            let screen = screen_of(&mut state);
            let rows: Vec<&str> = screen.lines().filter(|row| row.contains('═')).collect();
            let row = rows.last().unwrap();
            assert!(row.contains(" ms"), "{width}: {row}");
        }
    }
}

#[test]
fn what_the_meters_say_before_the_first_round_is_not_cut() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "<f3>");
    shows(&mut state, &["by depth: from the first round"]);
}

#[test]
fn both_minds_stand_below_the_tree() {
    for (name, width, height) in [("minds_120", 120, 40), ("minds_80", 80, 24)] {
        let mut state = loaded(width, height);
        type_keys(&mut state, "Tell me a story<enter>");
        say_all(&mut state, minded(answer(1, STORY, 16)));
        drawn(&mut state);
        type_keys(&mut state, "<f10><f2><tab><left><left>");
        check(name, &mut state);
    }
}

#[test]
fn speculation_switched_off_between_answers_does_not_rename_the_last_speed() {
    let mut state = loaded(120, 40);
    type_keys(&mut state, "What is a fox?<enter>");
    let mut events = answer(1, "A fox is a small wild animal.", 16);
    let end = events.pop().unwrap();
    say_all(&mut state, events);
    type_keys(&mut state, "<f7>");
    shows(&mut state, &["  plain decoding · "]);
    say(&mut state, end);
    let next = " tok/s · plain decoding next";
    shows(&mut state, &["  3.00 tokens per round · ", next]);
    type_keys(&mut state, "Again<enter>");
    assert!(!screen_of(&mut state).contains("decoding next"));
}
