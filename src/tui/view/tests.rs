//! Snapshots of whole screens: text and styles, separate from each other.

use std::fmt::Write as _;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use unicode_width::UnicodeWidthStr;

use super::*;
use crate::chat::SessionHead;
use crate::decode::Timing;
use crate::tui::state::SessionList;
use crate::tui::testing::{answer, loaded, model, say, type_keys};
use crate::tui::theme::ThemeName;
use crate::tui::update::{Effect, Message, update};
use crate::worker::Event;

const STORY: &str = "Once upon a time there was a little fox who lived by the sea. Every night \
    she lit a **lantern** and waited for the boats.\n\nShe kept three rules:\n\n- never leave the \
    lamp\n- share the *warm* bread\n- listen to the wind\n\nOne evening the wind said nothing at \
    all, and the fox began to worry about the old fisherman.";

fn drawn(model: &mut Model) -> Buffer {
    let (width, height) = model.size;
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, model)).unwrap();
    terminal.backend().buffer().clone()
}

fn text(buffer: &Buffer) -> String {
    let mut out = String::new();
    for row in buffer.content.chunks(usize::from(buffer.area.width.max(1))) {
        let mut line = String::new();
        let mut skip = 0;
        for cell in row {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            line.push_str(cell.symbol());
            skip = cell.symbol().width().saturating_sub(1);
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

/// Runs of one style a row: first and last column, colours, modifiers.
fn styles(buffer: &Buffer) -> String {
    let mut out = String::new();
    let width = usize::from(buffer.area.width.max(1));
    for (y, row) in buffer.content.chunks(width).enumerate() {
        let mut runs = Vec::new();
        let mut start = 0;
        for x in 1..=row.len() {
            if x == row.len() || style(&row[x]) != style(&row[start]) {
                let name = style(&row[start]);
                if !name.is_empty() {
                    runs.push(format!("{start}-{} {name}", x - 1));
                }
                start = x;
            }
        }
        if !runs.is_empty() {
            let _ = writeln!(out, "{y:>2}| {}", runs.join(", "));
        }
    }
    out
}

fn style(cell: &Cell) -> String {
    let colour = |colour: Color| match colour {
        Color::Indexed(index) => index.to_string(),
        other => other.to_string(),
    };
    let mut parts = Vec::new();
    if cell.fg != Color::Reset {
        parts.push(colour(cell.fg));
    }
    if cell.bg != Color::Reset {
        parts.push(format!("on {}", colour(cell.bg)));
    }
    let marks = [
        (Modifier::BOLD, "bold"),
        (Modifier::DIM, "dim"),
        (Modifier::ITALIC, "italic"),
        (Modifier::UNDERLINED, "under"),
        (Modifier::REVERSED, "reversed"),
    ];
    parts.extend(
        marks.iter().filter(|mark| cell.modifier.contains(mark.0)).map(|mark| mark.1.to_string()),
    );
    parts.join(" ")
}

fn check(name: &str, model: &mut Model) {
    let buffer = drawn(model);
    insta::assert_snapshot!(format!("{name}_text"), text(&buffer));
    insta::assert_snapshot!(format!("{name}_styles"), styles(&buffer));
}

/// A screen in the middle of its second answer.
fn answering(width: u16, height: u16, nodes: usize) -> Model {
    let mut model = loaded(width, height);
    type_keys(&mut model, "What is a fox?<enter>");
    for event in answer(1, "A fox is a small wild animal with a bushy tail.", nodes) {
        say(&mut model, event);
    }
    type_keys(&mut model, "Tell me a story about a fox and a lantern, please.<enter>");
    let events = answer(2, STORY, nodes);
    let rounds = events.len();
    for (at, event) in events.into_iter().enumerate().take(rounds - 3) {
        let now = Duration::from_millis(400 + at as u64 * 45);
        update(&mut model, Message::Worker(event), now);
    }
    model
}

#[test]
fn empty() {
    check("empty_80", &mut loaded(80, 24));
    check("empty_120", &mut loaded(120, 40));
    check("empty_200", &mut loaded(200, 50));
}

#[test]
fn loading() {
    let mut model = model();
    let stage = "reading the target from model.gguf".to_string();
    say(&mut model, Event::Loading { stage, fraction: Some(0.4) });
    check("loading_80", &mut model);
}

#[test]
fn mid_answer() {
    check("answer_80", &mut answering(80, 24, 16));
    check("answer_120", &mut answering(120, 40, 16));
    check("answer_200", &mut answering(200, 50, 16));
}

#[test]
fn reading_the_prompt() {
    let mut model = loaded(80, 24);
    type_keys(&mut model, "A long question<enter>");
    say(&mut model, Event::Prefill { generation: 1, done: 600, total: 1800 });
    check("prefill_80", &mut model);
}

#[test]
fn tree_of_64_nodes() {
    let mut model = answering(120, 40, 64);
    type_keys(&mut model, "<f2>");
    check("tree_120", &mut model);
    type_keys(&mut model, "f<pgdn>");
    check("tree_all_120", &mut model);
    let mut model = answering(80, 24, 64);
    type_keys(&mut model, "<f2>");
    check("tree_80", &mut model);
}

#[test]
fn paused_and_looking_back() {
    let mut model = answering(120, 40, 16);
    type_keys(&mut model, "<f5><f2><left><left>");
    check("look_back_120", &mut model);
}

#[test]
fn panels_below_the_chat() {
    let mut model = answering(80, 24, 16);
    type_keys(&mut model, "<f3>");
    check("meters_80", &mut model);
    type_keys(&mut model, "<f4><down><right>");
    check("controls_80", &mut model);
}

#[test]
fn help_and_details() {
    let mut model = loaded(80, 24);
    type_keys(&mut model, "<f1>");
    check("help_80", &mut model);
    let mut model = loaded(200, 50);
    type_keys(&mut model, "<f1>");
    check("help_200", &mut model);
    let mut model = answering(80, 24, 16);
    type_keys(&mut model, "/stats<enter>");
    check("details_80", &mut model);
}

#[test]
fn the_picker_says_what_each_strategy_does_or_lacks() {
    let mut model = answering(80, 24, 16);
    type_keys(&mut model, "<c-p><down>");
    check("strategies_80", &mut model);
    type_keys(&mut model, "<enter>");
    let screen = text(&drawn(&mut model));
    assert!(screen.contains("← eagle2-60 · DGF head"), "{screen}");
}

#[test]
fn drafting_beside_the_target_shows_in_the_meters() {
    let mut model = answering(120, 40, 16);
    let mut round = model.rounds.latest().unwrap().clone();
    round.timing = Timing { ahead_ms: 30.0, wait_ms: 1.5, ..round.timing };
    say(&mut model, Event::Round { generation: 2, round: Box::new(round) });
    let screen = text(&drawn(&mut model));
    assert!(screen.contains("ahead ") && screen.contains("idle: draft "), "{screen}");
    assert!(screen.contains(", ahead 30 ms"), "{screen}");
}

#[test]
fn suggestions() {
    let mut model = loaded(80, 24);
    type_keys(&mut model, "/s<down>");
    check("suggestions_80", &mut model);
}

#[test]
fn failures_and_notices() {
    let mut model = loaded(80, 24);
    type_keys(&mut model, "Hello<enter>");
    let error = "The prompt has 3,120 tokens, but the context of dovetail-demo 6M holds 2,048. \
        Shorten it, or begin anew with /new."
        .to_string();
    say(&mut model, Event::Failed { generation: Some(1), error });
    check("error_80", &mut model);
    let mut model = loaded(80, 24);
    type_keys(&mut model, "/gamma 999<enter>");
    check("complaint_80", &mut model);
}

#[test]
fn saved_conversations() {
    let mut model = loaded(80, 24);
    let head = |title: &str, messages| SessionHead {
        id: title.to_string(),
        title: title.to_string(),
        updated: 0,
        messages,
    };
    let heads = vec![head("A fox and a lantern", 4), head("What is the sun?", 2), head("", 1)];
    model.overlay = Some(Overlay::Sessions(SessionList::new(heads)));
    type_keys(&mut model, "<down>");
    check("sessions_80", &mut model);
    type_keys(&mut model, "jk THE su<bs>");
    check("sessions_none_80", &mut model);
    type_keys(&mut model, "<bs><bs><bs><bs><bs><bs><bs><bs>LANTERN fo");
    check("sessions_filtered_80", &mut model);
    let effects = type_keys(&mut model, "<enter>");
    let load = Effect::Load("A fox and a lantern".to_string());
    assert!(effects.contains(&load), "{effects:?}");
}

#[test]
fn what_the_user_typed_is_shown_as_it_was_typed() {
    let mut model = loaded(80, 24);
    let typed = "  def __init__(self, *args*):\n    # not a heading\n\n- **no** list `or` <b>";
    update(&mut model, Message::Paste(typed.to_string()), Duration::ZERO);
    type_keys(&mut model, "<enter>");
    let screen = text(&drawn(&mut model));
    let rows: Vec<&str> = screen.lines().skip(1).take(4).collect();
    assert_eq!(
        rows,
        [
            " ❯   def __init__(self, *args*):",
            "       # not a heading",
            "",
            "   - **no** list `or` <b>"
        ]
    );
}

#[test]
fn a_notice_covers_neither_keys_nor_answer() {
    let mut model = answering(80, 24, 16);
    let rows = |model: &mut Model| {
        let screen = text(&drawn(model));
        screen.lines().map(str::to_string).collect::<Vec<_>>()
    };
    let before = rows(&mut model);
    model.say("theme: light");
    let short = rows(&mut model);
    let changed: Vec<usize> = (0..24).filter(|&row| before[row] != short[row]).collect();
    assert_eq!(changed, [18], "{short:#?}");
    assert!(short[18].starts_with("╭─ ✓ theme: light ─"), "{}", short[18]);
    // Longer than the edge: rows of its own, and the answer moves up.
    model.complain("a remedy in so many words that it needs two rows ".repeat(2));
    let long = rows(&mut model);
    assert_eq!(long[23], before[23]);
    assert!(long[16].starts_with(" ✗ a remedy") && long[15] == before[17], "{long:#?}");
}

#[test]
fn a_context_that_is_nearly_full_is_reported() {
    for (width, height) in [(80, 24), (120, 36), (200, 50)] {
        let mut model = answering(width, height, 16);
        assert!(!text(&drawn(&mut model)).contains("context full"));
        model.ready.as_mut().unwrap().context = 80;
        let screen = text(&drawn(&mut model));
        assert!(screen.contains("% full") && screen.contains("/new, /save"), "{screen}");
        model.ready.as_mut().unwrap().context = 70;
        check_full(&text(&drawn(&mut model)));
    }
}

fn check_full(screen: &str) {
    for words in ["context full", "/new", "/save", "--context"] {
        assert!(screen.contains(words), "{screen}");
    }
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
        // The branches of a tree are no corners.
        let branch = |x: usize| row[x] == '╰' && row.get(x + 1) == Some(&'╴');
        right += (0..row.len()).filter(|&x| "╮╰╯".contains(row[x]) && !branch(x)).count();
    }
    assert_eq!(right, 3 * found, "{what}: a corner is left over\n{screen}");
}

#[test]
fn overlays_leave_no_partial_frames() {
    for (width, height) in [(80, 24), (120, 36), (200, 50), (100, 17), (30, 8)] {
        for side in ["", "<f2>", "<f3>", "<f4>"] {
            for keys in ["", "<f1>", "<c-p>", "/stats<enter>", "/", "/s", "/gamma 9999<enter>"] {
                let mut model = answering(width, height, 16);
                type_keys(&mut model, side);
                model.focus = Focus::Input;
                type_keys(&mut model, keys);
                let what = format!("{width}x{height} {side} {keys}");
                assert_whole_frames(&text(&drawn(&mut model)), &what);
            }
            let mut model = answering(width, height, 16);
            type_keys(&mut model, side);
            let error = "What went wrong, and what to do about it.".to_string();
            say(&mut model, Event::Failed { generation: Some(2), error });
            assert_whole_frames(&text(&drawn(&mut model)), "failed");
        }
    }
}

#[test]
fn other_themes() {
    let mut model = answering(120, 40, 16);
    model.theme = ThemeName::Light;
    check("light_120", &mut model);
    let mut model = answering(120, 40, 16);
    model.theme = ThemeName::Mono;
    check("mono_120", &mut model);
}

#[test]
fn without_colours_origin_is_still_marked() {
    let mut model = answering(80, 24, 16);
    model.colours = false;
    let buffer = drawn(&mut model);
    assert!(buffer.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    assert!(buffer.content.iter().any(|cell| cell.modifier.contains(Modifier::UNDERLINED)));
    insta::assert_snapshot!("no_color_80_styles", styles(&buffer));
    model.marks = false;
    let buffer = drawn(&mut model);
    assert!(!buffer.content.iter().any(|cell| cell.modifier.contains(Modifier::UNDERLINED)));
}

#[test]
fn wide_characters() {
    let mut model = loaded(80, 24);
    type_keys(&mut model, "日本語で答えて 👩‍👩‍👧 e\u{301}<enter>");
    let text = "狐は 海辺 の小さな家に 住んでいました。 毎晩、灯りをともして、 船を待ちました。 🦊🏮 \
        それから、 とても 長い夜が 来ました。 cafe\u{301} ok";
    let events = answer(1, text, 16);
    let last = events.len() - 1;
    for event in events.into_iter().take(last) {
        say(&mut model, event);
    }
    type_keys(&mut model, "<f2>i漢字もここに書けます👍");
    check("wide_80", &mut model);
}

#[test]
fn code_and_scrolling() {
    let mut model = loaded(80, 24);
    type_keys(&mut model, "Show code<enter>");
    let code = "Here it is:\n\n```rust\nfn main() {\n    let x = 42; // the answer\n    \
        println!(\"{x}\");\n}\n```\n\nAnd a quote:\n\n> Everything is real.\n\n1. one\n2. two\n3. \
        three\n4. four\n5. five";
    for event in answer(1, code, 16) {
        say(&mut model, event);
    }
    drawn(&mut model);
    type_keys(&mut model, "<pgup>");
    check("code_80", &mut model);
    type_keys(&mut model, "<f9><c-end>");
    check("code_unmarked_80", &mut model);
}

#[test]
fn any_size_is_drawn() {
    for (width, height) in [(0, 0), (1, 1), (2, 30), (300, 1), (30, 5), (40, 10), (119, 11)] {
        let mut model = answering(width, height, 64);
        type_keys(&mut model, "<f2>");
        drawn(&mut model);
        type_keys(&mut model, "<f1>");
        drawn(&mut model);
    }
    check("tiny_30x8", &mut answering(30, 8, 16));
}

#[test]
fn the_cursor_is_where_the_next_character_goes() {
    let mut model = loaded(80, 24);
    type_keys(&mut model, "ab漢");
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| draw(frame, &mut model)).unwrap();
    let position = terminal.get_cursor_position().unwrap();
    let row = usize::from(position.y);
    let line = text(terminal.backend().buffer()).lines().nth(row).unwrap().to_string();
    assert!(line.contains("ab漢"), "{line}");
    assert_eq!(position.x, 2 + 4);
}
