//! The conversation itself: continued, written anew, deleted, in versions, with a full context.

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::{job, texts};
use crate::chat::{Message, Role, SavedChat, WhenFull};
use crate::decode::Finish;
use crate::tui::state::{Overlay, Phase, ScreenState, Tone};
use crate::tui::testing::{answer, loaded, say, type_keys};
use crate::tui::update::{Effect, ScreenEvent, update};
use crate::tui::view;
use crate::worker::Event;

/// A whole answer to the question under way.
fn answered(state: &mut ScreenState, text: &str) -> Vec<Effect> {
    let events = answer(state.generation(), text, 8);
    events.into_iter().flat_map(|event| say(state, event)).collect()
}

/// An answer that the limit of tokens cut off.
fn cut(state: &mut ScreenState, text: &str) {
    cut_by(state, text, Finish::MaxTokens);
}

/// An answer that ends so.
fn cut_by(state: &mut ScreenState, text: &str, finish: Finish) {
    for event in answer(state.generation(), text, 8) {
        let event = match event {
            Event::Finished { generation, mut summary } => {
                summary.finish = Some(finish);
                Event::Finished { generation, summary }
            }
            other => other,
        };
        say(state, event);
    }
}

/// Three questions with their answers.
fn talk() -> ScreenState {
    let mut state = loaded(80, 24);
    for (question, reply) in [("one", "First."), ("two", "Second."), ("three", "Third.")] {
        type_keys(&mut state, &format!("{question}<enter>"));
        answered(&mut state, reply);
    }
    state
}

/// What is saved, and read again.
fn reloaded(state: &ScreenState) -> ScreenState {
    let chat = SavedChat { turns: state.chat.saved_turns(), extras: state.chat.extras() };
    let mut other = loaded(80, 24);
    let now = other.now;
    update(&mut other, ScreenEvent::Loaded(Ok(chat)), now);
    other
}

fn contents(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.content.as_str()).collect()
}

#[test]
fn enter_continues_an_answer_that_was_cut_off() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "one<enter>");
    cut(&mut state, "Once upon a time");
    let effects = type_keys(&mut state, "<enter>");
    assert_eq!(contents(&job(&effects).messages), ["one", "Once upon a time"]);
    answered(&mut state, " there was a fox.");
    assert_eq!(texts(&state)[1].1, "Once upon a time there was a fox.");
    assert!(type_keys(&mut state, "<enter>").is_empty(), "it has its end");
    assert!(type_keys(&mut state, "/continue<enter>").is_empty());
}

#[test]
fn what_was_there_stays_if_nothing_comes_of_a_continuation() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "one<enter>");
    cut(&mut state, "Once upon a time");
    type_keys(&mut state, "<enter><esc>");
    assert_eq!(texts(&state)[1].1, "Once upon a time");
    let effects = type_keys(&mut state, "/continue<enter>");
    assert_eq!(job(&effects).messages.len(), 2, "it can be tried again");
    let error = "device lost".to_string();
    let generation = Some(state.generation());
    say(&mut state, Event::Failed { generation, error });
    assert_eq!(texts(&state)[1].1, "Once upon a time");
    // A stopped answer that was saved goes on after the next start too.
    let mut again = reloaded(&state);
    assert!(state.chat.saved_turns()[1].interrupted || !again.chat.can_go_on());
    type_keys(&mut state, "/continue<enter>");
    for event in answer(state.generation(), " there was", 8).into_iter().take(2) {
        say(&mut state, event);
    }
    type_keys(&mut state, "<esc>");
    again = reloaded(&state);
    let effects = type_keys(&mut again, "<enter>");
    assert_eq!(job(&effects).messages.last().unwrap().role, Role::Assistant);
}

#[test]
fn versions_of_an_answer_are_kept_and_switched_and_saved() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "/temperature 1<enter>one<enter>");
    for text in ["First.", "Second.", "Third."] {
        answered(&mut state, text);
        type_keys(&mut state, "<c-r>");
    }
    answered(&mut state, "Third.");
    let last = |state: &ScreenState| texts(state).last().unwrap().1.clone();
    let place = |state: &ScreenState| state.chat.turns().last().unwrap().versions.place();
    assert_eq!(place(&state), (3, 3), "the same text again is no version");
    type_keys(&mut state, "<a-,>");
    assert_eq!((last(&state).as_str(), place(&state)), ("Second.", (2, 3)));
    let mut again = reloaded(&state);
    for state in [&mut state, &mut again] {
        type_keys(state, "<a-,>");
        assert_eq!((last(state).as_str(), place(state)), ("First.", (1, 3)));
        assert!(type_keys(state, "<a-,>").is_empty());
        type_keys(state, "<a-.><a-.>");
        assert_eq!((last(state).as_str(), place(state)), ("Third.", (3, 3)));
        type_keys(state, "<a-,>");
        // What is shown is what the conversation goes on from.
        let effects = type_keys(state, "more<enter>");
        assert_eq!(contents(&job(&effects).messages), ["one", "Second.", "more"]);
    }
}

#[test]
fn a_version_that_gets_no_token_leaves_those_there_are() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "one<enter>");
    answered(&mut state, "First.");
    type_keys(&mut state, "<c-r><esc>");
    let turn = state.chat.turns().last().unwrap();
    assert_eq!((turn.text.as_str(), turn.versions.place()), ("First.", (1, 1)));
}

#[test]
fn a_message_written_anew_begins_a_branch() {
    let mut state = talk();
    type_keys(&mut state, "half a thought/edit");
    // What was written is put aside by the key too.
    type_keys(&mut state, "<c-u>half a thought<a-e>");
    assert!(matches!(state.overlay, Some(Overlay::Questions { .. })));
    type_keys(&mut state, "<down><enter>");
    assert_eq!((state.input.text().as_str(), state.editing), ("two", Some(2)));
    let effects = type_keys(&mut state, " and a half<enter>");
    let whole = effects
        .iter()
        .position(|effect| matches!(effect, Effect::Save { turns, .. } if turns.len() == 6));
    let branch = effects.iter().position(|effect| *effect == Effect::Branch { messages: 2 });
    assert!(whole.is_some() && whole < branch, "{effects:?}");
    assert_eq!(contents(&job(&effects).messages), ["one", "First.", "two and a half"]);
    answered(&mut state, "Anew.");
    assert_eq!(state.chat.turns().len(), 4);
    type_keys(&mut state, "<up><up>");
    assert_eq!(state.input.text(), "half a thought");
}

#[test]
fn a_branch_goes_on_behind_an_earlier_answer() {
    let mut state = talk();
    assert!(type_keys(&mut state, "/branch<enter><enter>").is_empty(), "the end is no branch");
    let effects = type_keys(&mut state, "/branch<enter><down><down><enter>");
    assert!(effects.contains(&Effect::Branch { messages: 2 }), "{effects:?}");
    let effects = type_keys(&mut state, "else<enter>");
    assert_eq!(contents(&job(&effects).messages), ["one", "First.", "else"]);
}

#[test]
fn the_last_exchange_is_deleted_and_brought_back() {
    let mut state = talk();
    let effects = type_keys(&mut state, "/delete<enter>");
    assert!(
        effects.iter().any(|e| matches!(e, Effect::Save { turns, .. } if turns.len() == 4)),
        "{effects:?}"
    );
    type_keys(&mut state, "/undo<enter>");
    assert_eq!(texts(&state)[5].1, "Third.");
    type_keys(&mut state, "/delete<enter>four<enter>");
    answered(&mut state, "Fourth.");
    type_keys(&mut state, "/undo<enter>");
    assert_eq!(texts(&state)[5].1, "Fourth.", "something was said since");
}

/// The context refuses the question under way.
fn refuse(state: &mut ScreenState, total: usize) -> Vec<Effect> {
    let generation = state.generation();
    say(state, Event::Prefill { generation, done: 0, total });
    say(state, Event::Failed { generation: Some(generation), error: "too long".to_string() })
}

#[test]
fn a_full_context_offers_three_ways_once() {
    let mut state = talk();
    state.ready.as_mut().unwrap().context = 100;
    type_keys(&mut state, "four<enter>");
    refuse(&mut state, 120);
    assert_eq!(state.overlay, Some(Overlay::Full { selected: 0 }));
    let effects = type_keys(&mut state, "<enter>");
    let sent = contents(&job(&effects).messages).join(" ");
    assert!(sent.ends_with("four") && !sent.contains("one"), "{sent}");
    assert_eq!(state.chat.when_full, Some(WhenFull::Forget));
    answered(&mut state, "Fourth.");
    assert_eq!(state.chat.turns().len(), 8, "what is forgotten is still there to read");
    let mut again = reloaded(&state);
    assert_eq!(again.chat.forgotten, state.chat.forgotten);
    // The choice holds: the next time nothing is asked.
    again.ready.as_mut().unwrap().context = 100;
    let before = again.chat.forgotten.messages;
    type_keys(&mut again, "five<enter>");
    let effects = refuse(&mut again, 130);
    assert!(again.overlay.is_none() && again.chat.forgotten.messages > before);
    assert!(job(&effects).messages.last().unwrap().content == "five");
}

#[test]
fn nothing_is_forgotten_for_a_message_that_cannot_fit() {
    // Told by the worker before anything is offered.
    let mut state = talk();
    state.ready.as_mut().unwrap().context = 100;
    type_keys(&mut state, "four<enter>");
    let generation = state.generation();
    say(&mut state, Event::TooLong { generation, total: 150, alone: Some(110) });
    let error = "too long".to_string();
    say(&mut state, Event::Failed { generation: Some(generation), error });
    let Some(Overlay::Error { text, .. }) = &state.overlay else { panic!("it is not told") };
    assert!(text.contains("110 tokens") && text.contains("holds 100"), "{text}");
    assert_eq!((state.input.text().as_str(), state.chat.turns().len()), ("four", 6));
    assert_eq!(state.chat.extras().forgotten, None);
    // Found out by forgetting all there is.
    for stopped in [false, true] {
        let mut state = talk();
        state.ready.as_mut().unwrap().context = 100;
        type_keys(&mut state, "four<enter>");
        refuse(&mut state, 150);
        type_keys(&mut state, "<enter>");
        assert!(state.chat.forgotten.messages > 0);
        while !stopped && state.answering() {
            refuse(&mut state, 140);
        }
        let effects = if stopped { type_keys(&mut state, "<esc>") } else { Vec::new() };
        assert_eq!((state.input.text().as_str(), state.chat.turns().len()), ("four", 6));
        assert_eq!(state.chat.extras().forgotten, None, "{effects:?}");
        // The next one is told all that was said.
        type_keys(&mut state, "<esc><c-u>");
        let effects = type_keys(&mut state, "five<enter>");
        assert!(contents(&job(&effects).messages).contains(&"one"));
    }
}

#[test]
fn the_model_summarises_what_does_not_fit() {
    let mut state = talk();
    state.chat.system = Some("Be brief.".to_string());
    state.ready.as_mut().unwrap().context = 100;
    type_keys(&mut state, "four<enter>");
    refuse(&mut state, 120);
    let effects = type_keys(&mut state, "<down><enter>");
    let asked = job(&effects).messages.last().unwrap().content.clone();
    assert!(asked.starts_with("Summarise our conversation"), "{asked}");
    assert!(contents(&job(&effects).messages).contains(&"one"));
    let effects = answered(&mut state, "They counted to three.");
    let sent = job(&effects);
    assert_eq!(sent.messages[0].content, "Be brief.");
    assert!(sent.messages[1].content.contains("They counted to three."), "{sent:?}");
    assert!(sent.messages.last().unwrap().content.ends_with("four"));
    answered(&mut state, "Fourth.");
    assert_eq!(texts(&state).last().unwrap().1, "Fourth.");
    assert_eq!(reloaded(&state).chat.forgotten, state.chat.forgotten);
}

#[test]
fn a_summary_that_fails_or_is_stopped_loses_nothing() {
    for stopped in [true, false] {
        let mut state = talk();
        state.ready.as_mut().unwrap().context = 100;
        type_keys(&mut state, "/when-full summarise<enter>four<enter>");
        refuse(&mut state, 120);
        assert!(state.summarising.is_some() && state.answering());
        if stopped {
            type_keys(&mut state, "<esc>");
            assert_eq!((state.input.text().as_str(), &state.phase), ("four", &Phase::Idle));
        } else {
            let generation = Some(state.generation());
            let effects = say(&mut state, Event::Failed { generation, error: "x".to_string() });
            assert_eq!(job(&effects).messages.last().unwrap().content, "four");
        }
        assert!(state.summarising.is_none());
    }
}

#[test]
fn stopping_gives_the_question_back() {
    for keys in ["<down><down><enter>", "<esc>"] {
        let mut state = talk();
        state.ready.as_mut().unwrap().context = 100;
        type_keys(&mut state, "four<enter>");
        refuse(&mut state, 120);
        type_keys(&mut state, keys);
        assert_eq!(state.input.text(), "four", "{keys}");
        assert_eq!(state.chat.turns().len(), 6);
    }
}

#[test]
fn a_folded_paste_is_folded_again_however_it_comes_back() {
    let long = "a line\n".repeat(200);
    let marked = |state: &ScreenState| state.input.area().lines() == ["Sum up: ⟦200 lines⟧"];
    let written = |state: &mut ScreenState| {
        type_keys(state, "Sum up: ");
        let now = state.now;
        update(state, ScreenEvent::Paste(long.clone()), now);
    };
    // Refused, stopped, and stopped while it waits for the answer before.
    for keys in ["", "<esc>", "<enter><esc>"] {
        let mut state = talk();
        if keys.len() > 5 {
            type_keys(&mut state, "four<enter>");
        }
        written(&mut state);
        if keys.is_empty() {
            type_keys(&mut state, "<enter>");
            let generation = state.generation();
            say(&mut state, Event::TooLong { generation, total: 3000, alone: Some(2180) });
            let error = "too long".to_string();
            say(&mut state, Event::Failed { generation: Some(generation), error });
            type_keys(&mut state, "<esc>");
        } else {
            type_keys(&mut state, if keys.len() > 5 { keys } else { "<enter><esc>" });
        }
        assert!(marked(&state), "{keys}: {:?}", state.input.area().lines());
        assert_eq!(state.input.text(), format!("Sum up: {long}"));
    }
    // Put aside, and to be written anew.
    let mut state = loaded(80, 24);
    written(&mut state);
    type_keys(&mut state, "<c-c>");
    assert!(state.input.is_empty());
    type_keys(&mut state, "<up>");
    assert!(marked(&state));
    type_keys(&mut state, "<enter>");
    answered(&mut state, "Long.");
    type_keys(&mut state, "<a-e><enter>");
    assert!(marked(&state) && state.editing == Some(0));
}

#[test]
fn words_are_found_from_the_end_up() {
    let mut state = loaded(80, 24);
    for (question, reply) in [("one fox", "First."), ("two", "A fox again."), ("three", "Third.")] {
        type_keys(&mut state, &format!("{question}<enter>"));
        let long = format!("{reply} {}", "\n\nline".repeat(30));
        answered(&mut state, &long);
    }
    let seen = |state: &mut ScreenState| {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| view::draw(frame, state)).unwrap();
        terminal.backend().to_string()
    };
    seen(&mut state);
    type_keys(&mut state, "/find FOX<enter>");
    assert!(seen(&mut state).contains("A fox again."));
    type_keys(&mut state, "/find<enter>");
    assert!(seen(&mut state).contains("one fox"));
    type_keys(&mut state, "<esc>");
    assert!(state.chat.find.is_none() && state.chat.follows());
    type_keys(&mut state, "/find cat<enter>");
    seen(&mut state);
    assert_eq!(state.toasts.shown().unwrap().tone, Tone::Wrong);
}

#[test]
fn a_code_block_is_copied_by_number() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "code<enter>");
    answered(&mut state, "Run\n\n```sh\nls\n```\n\nor\n\n```sh\npwd\n```\n");
    let copied = |text: &str| vec![Effect::Copy(text.to_string())];
    assert_eq!(type_keys(&mut state, "/copy code<enter>"), copied("pwd\n"));
    assert_eq!(type_keys(&mut state, "/copy code 1<enter>"), copied("ls\n"));
    assert!(type_keys(&mut state, "/copy code 3<enter>").is_empty());
    assert!(state.toasts.shown().unwrap().text.contains("1 to 2"));
}

/// The screen as it is drawn.
fn screen(state: &mut ScreenState) -> String {
    let (width, height) = state.size;
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view::draw(frame, state)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn an_answer_that_filled_the_context_goes_on_when_there_is_room() {
    for (choice, summarised) in [("<enter>", false), ("<down><enter>", true)] {
        let mut state = talk();
        state.ready.as_mut().unwrap().context = 100;
        type_keys(&mut state, "four<enter>");
        cut_by(&mut state, "Half a sentence", Finish::ContextFull);
        assert!(screen(&mut state).contains("Enter for ways to go on"));
        let effects = type_keys(&mut state, "<enter>");
        assert_eq!(job(&effects).messages.last().unwrap().content, "Half a sentence");
        refuse(&mut state, 101);
        assert_eq!(state.overlay, Some(Overlay::Full { selected: 0 }));
        assert!(screen(&mut state).contains("no room to go on"));
        assert!(!screen(&mut state).contains("With this message"));
        let mut effects = type_keys(&mut state, choice);
        if summarised {
            effects = answered(&mut state, "They counted.");
        }
        let sent = contents(&job(&effects).messages);
        assert_eq!(sent.last(), Some(&"Half a sentence"), "{sent:?}");
        assert!(!sent.contains(&"one") && sent.iter().any(|said| said.ends_with("four")));
        answered(&mut state, " and its end.");
        assert_eq!(texts(&state)[7].1, "Half a sentence and its end.");
        assert_eq!(state.chat.turns()[7].versions.place(), (1, 1));
    }
}

#[test]
fn an_answer_without_room_says_why_it_cannot_go_on_and_goes_on_in_a_larger_context() {
    let mut state = loaded(80, 24);
    state.ready.as_mut().unwrap().context = 100;
    type_keys(&mut state, "one<enter>");
    cut_by(&mut state, "Half a sentence", Finish::ContextFull);
    type_keys(&mut state, "<enter>");
    refuse(&mut state, 101);
    let Some(Overlay::Error { text, .. }) = &state.overlay else { panic!("nothing is said") };
    assert!(text.contains("go on") && text.contains("--context"), "{text}");
    assert!(state.input.is_empty());
    assert_eq!(texts(&state)[1].1, "Half a sentence");
    // After the next start it is marked, and has room.
    let mut again = reloaded(&state);
    let shown = screen(&mut again);
    assert!(shown.contains("interrupted") && shown.contains("Enter continues"), "{shown}");
    type_keys(&mut again, "<enter>");
    answered(&mut again, " and its end.");
    assert_eq!(texts(&again)[1].1, "Half a sentence and its end.");
}

#[test]
fn a_question_that_lost_its_answer_says_how_it_gets_one() {
    for keys in ["<enter>", "<c-r>", "/continue<enter>"] {
        let mut state = talk();
        type_keys(&mut state, "four<enter>");
        // What was saved when the question was sent.
        let mut again = reloaded(&state);
        again.toasts.sent(again.now);
        let shown = screen(&mut again);
        assert!(shown.contains("no answer yet") && shown.contains("Enter answers it"), "{shown}");
        type_keys(&mut again, "x");
        assert!(!screen(&mut again).contains("Enter answers it"), "it sends what is written");
        type_keys(&mut again, "<bs>");
        let effects = type_keys(&mut again, keys);
        assert_eq!(job(&effects).messages.last().unwrap().content, "four", "{keys}");
        assert_eq!(again.toasts.shown(), None, "there is no text that it could be like");
        assert!(!screen(&mut again).contains("no answer yet"));
        answered(&mut again, "Fourth.");
        assert_eq!(texts(&again).len(), 8);
    }
}

/// Tokens and rounds in the line below the last answer, as it is drawn.
fn below(state: &mut ScreenState) -> String {
    let seen = screen(state);
    let row = seen.lines().find(|row| row.contains(" tokens")).unwrap_or_default();
    row.trim_matches(['"', ' ']).split(" ·").next().unwrap_or_default().to_string()
}

#[test]
fn the_line_below_an_answer_that_went_on_counts_all_its_parts() {
    let counts = |text: &str| {
        let mut state = loaded(80, 24);
        type_keys(&mut state, "one<enter>");
        answered(&mut state, text);
        let summary = state.meters.summary.unwrap();
        (summary.tokens, summary.rounds)
    };
    let (first, then) = ("Once upon a time there", " was a fox who lived by the sea.");
    let (one, two) = (counts(first), counts(then));
    let mut state = loaded(80, 24);
    type_keys(&mut state, "one<enter>");
    cut(&mut state, first);
    type_keys(&mut state, "<enter>");
    cut(&mut state, then);
    let both = format!("{} tokens in {} steps", one.0 + two.0, one.1 + two.1);
    assert_eq!(below(&mut state), both);
    // Stopped in the middle of the next part: its first token and round are counted too.
    type_keys(&mut state, "<enter>");
    for event in answer(state.generation(), then, 8).into_iter().take(2) {
        say(&mut state, event);
    }
    type_keys(&mut state, "<esc>");
    assert_eq!(below(&mut state), format!("{} tokens", one.0 + two.0 + 1));
    // What an earlier run counted is not known.
    let mut again = reloaded(&state);
    type_keys(&mut again, "<enter>");
    answered(&mut again, then);
    assert_eq!(below(&mut again), format!("{} tokens in {} steps since it went on", two.0, two.1));
    // Another version is another answer.
    type_keys(&mut again, "<c-r>");
    answered(&mut again, first);
    assert_eq!(below(&mut again), format!("{} tokens in {} steps", one.0, one.1));
}
