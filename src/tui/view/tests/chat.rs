//! The conversation and the message being written.

use std::time::Duration;

use super::{answering, check};
use crate::tui::event::{Button, Effect, ScreenEvent};
use crate::tui::pictures::{Graphics, Protocol};
use crate::tui::state::ScreenState;
use crate::tui::tests::{
    answer, drawn, loaded, rows, say, say_all, screen_of, shows, thinking, type_keys, unloaded,
};
use crate::tui::update::update;
use crate::worker::Event;

#[test]
fn loading() {
    let mut state = unloaded();
    let stage = "reading the target from model.gguf".to_string();
    say(&mut state, Event::Loading { stage, fraction: Some(0.4) });
    check("loading_80", &mut state);
}

#[test]
fn thoughts_are_one_row_until_they_are_opened() {
    const THOUGHT: &str = "They ask about the sun. It is a star, so a short answer that names \
        what it is made of will do.\n\nNo need for *numbers*.";
    let mut state = loaded(80, 24);
    type_keys(&mut state, "What is the sun?<enter>");
    let events = thinking(1, THOUGHT, "A star of **hydrogen** and helium.");
    let (thoughts, text) = events.split_at(3);
    say_all(&mut state, thoughts.to_vec());
    check("thinking_80", &mut state);
    say_all(&mut state, text.to_vec());
    check("thought_80", &mut state);
    type_keys(&mut state, "<c-o>");
    check("thought_open_80", &mut state);
}

#[test]
fn paths_to_choose_from() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "see @s<down>");
    let names = ["sample.txt", "src/", "strange\u{202e}name"].map(str::to_string).to_vec();
    update(&mut state, ScreenEvent::Folder(String::new(), names), Duration::ZERO);
    check("paths_80", &mut state);
    state.display.size = (30, 8);
    drawn(&mut state);
    state.display.size = (1, 1);
    drawn(&mut state);
}

#[test]
fn what_the_user_typed_is_shown_as_it_was_typed() {
    let mut state = loaded(80, 24);
    let typed = "  def __init__(self, *args*):\n    # not a heading\n\n- **no** list `or` <b>";
    update(&mut state, ScreenEvent::Paste(typed.to_string()), Duration::ZERO);
    type_keys(&mut state, "<enter>");
    let shown =
        " ❯   def __init__(self, *args*):\n       # not a heading\n\n   - **no** list `or` <b>\n";
    assert!(screen_of(&mut state).contains(shown));
}

#[test]
fn the_rows_below_an_answer_are_never_cut() {
    let mut state = loaded(120, 36);
    let ready = state.models.ready.as_mut().unwrap();
    ready.models.target = Some("q.gguf".to_string());
    ready.for_show = true;
    ready.plain_ms = Some(1.0);
    type_keys(&mut state, "Tell me a story<enter>");
    let mut events = answer(1, &"many words ".repeat(70), 8);
    if let Some(Event::Finished { summary, .. }) = events.last_mut() {
        summary.finish = Some(crate::decode::Finish::MaxTokens);
    }
    say_all(&mut state, events);
    for (width, rows) in [(200, 2), (120, 2), (80, 2), (45, 3)] {
        state.display.size = (width, 50);
        let screen = screen_of(&mut state);
        let all = screen.lines().map(|line| line.split('│').next().unwrap_or_default().trim());
        let below: Vec<&str> = all.skip_while(|line| !line.contains(" tokens in ")).collect();
        let below: Vec<&str> = below.into_iter().take_while(|line| !line.is_empty()).collect();
        assert!(below.len() >= rows, "{width}: {below:#?}");
        let words = below.join(" · ");
        for part in ["tokens in", "at the limit of", "tok/s", "kept for show", "continues"] {
            assert!(words.contains(part), "{width}: {part} is cut: {words}");
        }
    }
    type_keys(&mut state, "What then?");
    assert!(!screen_of(&mut state).contains("Enter continues"), "it sends what is written");
}

#[test]
fn the_empty_chat_says_what_the_demo_is_and_nothing_of_other_models() {
    let is = "Demo model, 6M parameters: it shows how guessing works.";
    let other = "For real answers press Ctrl+N.";
    for (width, height, rows) in [(200, 50, 1), (80, 24, 2), (40, 24, 2)] {
        let mut state = loaded(width, height);
        let screen = screen_of(&mut state);
        let told =
            screen.lines().filter(|row| row.contains("Demo mod") || row.contains("For real"));
        assert_eq!(told.count(), rows, "{screen}");
        assert_eq!(screen.contains(&format!("{is} {other}")), rows == 1, "{screen}");
        state.models.ready.as_mut().unwrap().models.target = Some("q.gguf".to_string());
        let screen = screen_of(&mut state);
        assert!(!screen.contains("Demo") && !screen.contains("For real answers"), "{screen}");
    }
}

#[test]
fn of_the_demo_only_rounds_are_compared() {
    for (target, is_demo) in [(None, true), (Some("q.gguf".to_string()), false)] {
        let mut state = loaded(120, 36);
        state.models.ready.as_mut().unwrap().models.target = target;
        type_keys(&mut state, "Tell me a story<enter>");
        say_all(&mut state, answer(1, "Once upon a time a fox lived by the sea with her cubs.", 8));
        let summary = state.meters.answer.summary.clone();
        let counts = format!("{} tokens in {} rounds", summary.tokens, summary.rounds);
        let gain = format!("{counts} instead of {}", summary.tokens - 1);
        for (width, height) in [(120, 36), (80, 24)] {
            state.display.size = (width, height);
            let screen = screen_of(&mut state);
            assert!(screen.contains(&counts) && screen.contains(" tok/s"), "{screen}");
            assert_eq!(screen.contains(&gain), is_demo, "{screen}");
            assert_eq!(screen.contains("× plain"), !is_demo, "{screen}");
            let below = screen.lines().find(|row| row.contains(&counts)).unwrap();
            let below = below.split('│').next().unwrap();
            assert_eq!(below.contains("tok/s"), !is_demo, "{below}");
        }
    }
}

#[test]
fn the_key_line_says_what_enter_does() {
    let mut state = loaded(80, 24);
    let names = vec!["sample.txt".to_string(), "src/".to_string()];
    // What `Tab` does too is named with it.
    for (keys, word) in
        [("see @s", None), ("/sys", None), ("/s", Some("run")), ("hi", Some("send"))]
    {
        state.input.set("");
        type_keys(&mut state, keys);
        update(&mut state, ScreenEvent::Folder(String::new(), names.clone()), Duration::ZERO);
        let screen = screen_of(&mut state);
        let line = screen.lines().last().unwrap();
        let said = ["send", "run", "complete", "continue"]
            .into_iter()
            .find(|word| line.contains(&format!("Enter {word} ")));
        assert_eq!(said, word, "{keys}: {line}");
        assert_eq!(line.contains("Tab complete "), keys != "hi", "{line}");
    }
}

#[test]
fn a_notice_covers_neither_keys_nor_answer() {
    let mut state = answering(80, 24, 16);
    let before = rows(&mut state);
    state.say("theme: light");
    let short = rows(&mut state);
    let changed: Vec<usize> = (0..24).filter(|&row| before[row] != short[row]).collect();
    assert_eq!(changed, [19], "{short:#?}");
    assert!(short[19].starts_with("╭─ ✓ theme: light ─"), "{}", short[19]);
    // Longer than the edge: rows of its own, and the answer moves up.
    state.complain("A remedy in so many words that it needs two rows ".repeat(2));
    let long = rows(&mut state);
    assert_eq!(long[23], before[23]);
    assert!(long[17].starts_with(" ✗ A remedy") && long[16] == before[17], "{long:#?}");
}

#[test]
fn a_context_that_is_nearly_full_is_reported() {
    for (width, height) in [(80, 24), (120, 36), (200, 50)] {
        let mut state = answering(width, height, 16);
        assert!(!screen_of(&mut state).contains("context full"));
        for (context, full) in [(80, "% full"), (70, "context full")] {
            state.models.ready.as_mut().unwrap().context = context;
            let screen = screen_of(&mut state);
            for words in [full, "/new", "/when-full", "--context"] {
                assert!(screen.contains(words), "{words}: {screen}");
            }
        }
    }
}

#[test]
fn a_long_file_in_a_message_is_one_row_until_it_is_opened() {
    let mut state = loaded(80, 40);
    let lines: Vec<String> = (1..=20).map(|line| format!("line {line} of it")).collect();
    let text = format!("What is this?\n\nnotes.txt:\n```\n{}\n```", lines.join("\n"));
    update(&mut state, ScreenEvent::Ask(crate::tui::event::Asked::Question(text)), Duration::ZERO);
    let folded = shows(&mut state, &["What is this?", "notes.txt:", "▸ 20 rows"]);
    assert!(!folded.contains("line 1 of it"), "{folded}");
    type_keys(&mut state, "<backtab><enter>");
    let open = shows(&mut state, &["line 1 of it", "line 20 of it"]);
    assert!(!open.contains('▸'), "{open}");
    type_keys(&mut state, "<enter>");
    let screen = shows(&mut state, &["▸ 20 rows"]);
    // A click opens it too, and so does a search.
    let y = screen.lines().position(|row| row.contains('▸')).unwrap() as u16;
    update(&mut state, ScreenEvent::Button(Button::Pressed, 10, y), Duration::ZERO);
    shows(&mut state, &["line 7 of it"]);
    type_keys(&mut state, "<enter><esc>/find line 7<enter>");
    shows(&mut state, &["line 7 of it"]);
}

#[test]
fn an_image_lies_below_the_line_that_names_it_where_the_terminal_shows_images() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fox.png");
    image::RgbaImage::new(40, 30).save(&file).unwrap();
    let said = format!("Look at ![it](<{}>)!\n\n```\n![no](<a.png>)\n```", file.display());
    let mut state = loaded(100, 24);
    type_keys(&mut state, "Show me<enter>");
    say_all(&mut state, answer(1, &said, 4));
    let line = |state: &mut ScreenState| {
        let rows = rows(state);
        let at = rows.iter().position(|row| row.contains("Look at image: it")).unwrap();
        (rows[at].clone(), rows[at + 1].clone())
    };
    let look = |state: &mut ScreenState| {
        line(state);
        let request = state.pictures.request().unwrap();
        let read = request.read();
        assert_eq!(read.len(), 1);
        update(state, ScreenEvent::PicturesRead(request, read), Duration::ZERO)
    };
    // Its size is said anywhere.
    assert_eq!(look(&mut state), []);
    let (named, below) = line(&mut state);
    assert!(named.contains("! 40 × 30 px") && below.trim().is_empty(), "{named}{below}");
    // Where the terminal shows it, it lies below.
    state.pictures.graphics = Some(Graphics { protocol: Protocol::Kitty, cell: (10, 20) });
    state.pictures.forget();
    assert!(matches!(&look(&mut state)[..], [Effect::Put(data)] if data.contains("c=4,r=2")));
    let (named, below) = line(&mut state);
    assert!(named.contains("! 40 × 30 px"), "{named}");
    assert_eq!(below.matches('\u{10eeee}').count(), 4, "{below}");
    // A box lies over it.
    type_keys(&mut state, "<f1>");
    assert!(!screen_of(&mut state).contains('\u{10eeee}'));
    type_keys(&mut state, "<esc>");
    assert!(screen_of(&mut state).contains('\u{10eeee}'));
}
