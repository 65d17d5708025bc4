//! The conversation itself: continued, edited, deleted, in versions.

use super::*;

/// An answer that the limit of tokens cut off.
fn cut(state: &mut ScreenState, text: &str) {
    cut_by(state, text, Finish::MaxTokens);
}

#[test]
fn enter_continues_an_answer_that_was_cut_off() {
    let mut state = typed("one<enter>");
    cut(&mut state, "Once upon a time");
    assert_eq!(contents(&type_keys(&mut state, "<enter>")), ["one", "Once upon a time"]);
    answered(&mut state, " there was a fox.");
    assert_eq!(texts(&state)[1].1, "Once upon a time there was a fox.");
    assert!(type_keys(&mut state, "<enter>").is_empty(), "it has its end");
    assert!(type_keys(&mut state, "/continue<enter>").is_empty());
}

#[test]
fn what_was_there_stays_if_nothing_comes_of_a_continuation() {
    let mut state = typed("one<enter>");
    cut(&mut state, "Once upon a time");
    type_keys(&mut state, "<enter><esc>");
    assert_eq!(texts(&state)[1].1, "Once upon a time");
    let effects = type_keys(&mut state, "/continue<enter>");
    assert_eq!(contents(&effects).len(), 2, "it can be tried again");
    fails(&mut state, "device lost");
    assert_eq!(texts(&state)[1].1, "Once upon a time");
    // A stopped answer that was saved continues after the next start too.
    assert!(state.chat.saved_turns()[1].interrupted || !reloaded(&state).chat.can_go_on());
    type_keys(&mut state, "/continue<enter>");
    begun(&mut state, " there was", 2);
    type_keys(&mut state, "<esc>");
    let effects = type_keys(&mut reloaded(&state), "<enter>");
    assert_eq!(job(&effects).messages.last().unwrap().role, Role::Assistant);
}

#[test]
fn versions_of_an_answer_are_kept_and_switched_and_saved() {
    let mut state = typed("/temperature 1<enter>one<enter>");
    for text in ["First.", "Second.", "Third."] {
        answered(&mut state, text);
        type_keys(&mut state, "<c-r>");
    }
    answered(&mut state, "Third.");
    let last = |state: &ScreenState| {
        let turn = state.chat.turns().last().unwrap();
        (turn.text.clone(), turn.versions.place())
    };
    let version = |text: &str, at| (text.to_string(), (at, 3));
    assert_eq!(last(&state), version("Third.", 3), "the same text again is not a version");
    type_keys(&mut state, "<a-,>");
    assert_eq!(last(&state), version("Second.", 2));
    let mut again = reloaded(&state);
    for state in [&mut state, &mut again] {
        type_keys(state, "<a-,>");
        assert_eq!(last(state), version("First.", 1));
        assert!(type_keys(state, "<a-,>").is_empty());
        type_keys(state, "<a-.><a-.>");
        assert_eq!(last(state), version("Third.", 3));
        type_keys(state, "<a-,>");
        // The conversation continues from the version that is shown.
        assert_eq!(contents(&type_keys(state, "more<enter>")), ["one", "Second.", "more"]);
    }
}

#[test]
fn a_message_written_anew_begins_a_branch() {
    let mut state = talk();
    // What was written is put aside by the key too.
    type_keys(&mut state, "half a thought<a-e>");
    assert!(matches!(state.overlays.open, Some(Overlay::Questions { .. })));
    type_keys(&mut state, "<down><enter>");
    assert_eq!((state.input.text().as_str(), state.input.editing), ("two", Some(2)));
    let effects = type_keys(&mut state, " and a half<enter>");
    assert_saved_before(&effects, 6, &Effect::Branch { messages: 2 });
    assert_eq!(contents(&effects), ["one", "First.", "two and a half"]);
    answered(&mut state, "Anew.");
    assert_eq!(state.chat.turns().len(), 4);
    type_keys(&mut state, "<up><up>");
    assert_eq!(state.input.text(), "half a thought");
}

#[test]
fn a_branch_goes_on_behind_an_earlier_answer() {
    let mut state = talk();
    assert!(type_keys(&mut state, "/branch<enter><enter>").is_empty(), "the end is not a branch");
    let effects = type_keys(&mut state, "/branch<enter><down><down><enter>");
    assert!(effects.contains(&Effect::Branch { messages: 2 }), "{effects:?}");
    assert_eq!(contents(&type_keys(&mut state, "else<enter>")), ["one", "First.", "else"]);
}

#[test]
fn the_last_exchange_is_deleted_and_brought_back() {
    let mut state = talk();
    let effects = type_keys(&mut state, "/delete<enter>");
    assert_eq!(kept_turns(&effects).map(<[_]>::len), Some(4), "{effects:?}");
    type_keys(&mut state, "/undo<enter>");
    assert_eq!(texts(&state)[5].1, "Third.");
    type_keys(&mut state, "/delete<enter>");
    asked(&mut state, "four", "Fourth.");
    type_keys(&mut state, "/undo<enter>");
    assert_eq!(texts(&state)[5].1, "Fourth.", "something was said since");
}

#[test]
fn a_folded_paste_is_folded_again_however_it_comes_back() {
    let long = "a line\n".repeat(200);
    let marked = |state: &ScreenState| state.input.area().lines() == ["Sum up: ⟦200 lines⟧"];
    let written = |state: &mut ScreenState| {
        type_keys(state, "Sum up: ");
        tell(state, ScreenEvent::Paste(long.clone()));
    };
    // Refused, stopped, and stopped while it waits for the answer before.
    for way in ["refused", "stopped", "waiting"] {
        let mut state = talk();
        if way == "waiting" {
            type_keys(&mut state, "four<enter>");
        }
        written(&mut state);
        type_keys(&mut state, "<enter>");
        if way == "refused" {
            let generation = state.generation();
            say(&mut state, Event::TooLong { generation, total: 3000, alone: Some(2180) });
            fails(&mut state, "too long");
        }
        type_keys(&mut state, "<esc>");
        assert!(marked(&state), "{way}: {:?}", state.input.area().lines());
        assert_eq!(state.input.text(), format!("Sum up: {long}"));
    }
    // Put aside, so that another one can be written.
    let mut state = loaded(80, 24);
    written(&mut state);
    type_keys(&mut state, "<c-c>");
    assert!(state.input.is_empty());
    type_keys(&mut state, "<up>");
    assert!(marked(&state));
    type_keys(&mut state, "<enter>");
    answered(&mut state, "Long.");
    type_keys(&mut state, "<a-e><enter>");
    assert!(marked(&state) && state.input.editing == Some(0));
}

#[test]
fn words_are_found_from_the_end_up() {
    let mut state = loaded(80, 24);
    for (question, reply) in [("one fox", "First."), ("two", "A fox again."), ("three", "Third.")] {
        asked(&mut state, question, &format!("{reply} {}", "\n\nline".repeat(30)));
    }
    screen_of(&mut state);
    for (keys, row, says) in [
        ("/find FOX<enter>", "▸  A fox again.", "Match 2 of 2 rows"),
        ("/find<enter>", "▸❯ one fox", "Match 1 of 2 rows"),
    ] {
        type_keys(&mut state, keys);
        let screen = screen_of(&mut state);
        assert!(screen.contains(row) && screen.matches('▸').count() == 1, "{screen}");
        assert!(said(&state).starts_with(says), "{}", said(&state));
    }
    type_keys(&mut state, "<esc>");
    assert!(state.chat.find.is_none() && state.chat.follows());
    type_keys(&mut state, "/find cat<enter>");
    screen_of(&mut state);
    assert_said(&state, Tone::Wrong, "");
}

#[test]
fn a_question_that_lost_its_answer_says_how_it_gets_one() {
    for keys in ["<enter>", "<c-r>", "/continue<enter>"] {
        let mut state = talk();
        type_keys(&mut state, "four<enter>");
        // What was saved when the question was sent.
        let mut again = reloaded(&state);
        again.toasts.sent(again.now);
        let screen = screen_of(&mut again);
        assert!(
            screen.contains("no answer yet") && screen.contains("Enter answers it"),
            "{screen}"
        );
        type_keys(&mut again, "x");
        assert!(!screen_of(&mut again).contains("Enter answers it"), "it sends what is written");
        type_keys(&mut again, "<bs>");
        assert_eq!(contents(&type_keys(&mut again, keys)).last(), Some(&"four"), "{keys}");
        assert_eq!(shown(&again), None, "there is no text that it could be like");
        assert!(!screen_of(&mut again).contains("no answer yet"));
        answered(&mut again, "Fourth.");
        assert_eq!(texts(&again).len(), 8);
    }
}

/// Tokens and rounds in the line below the last answer, as it is drawn.
fn below(state: &mut ScreenState) -> String {
    let seen = screen_of(state);
    let row = seen.lines().find(|row| row.contains(" tokens")).unwrap_or_default();
    row.trim_matches(['"', ' ']).split(" ·").next().unwrap_or_default().to_string()
}

#[test]
fn the_line_below_an_answer_that_went_on_counts_all_its_parts() {
    let counts = |text: &str| {
        let mut state = loaded(80, 24);
        asked(&mut state, "one", text);
        let summary = state.meters.answer.summary;
        (summary.tokens, summary.rounds)
    };
    let first = "Once upon a time there";
    let then = " was a fox who lived by the sea.";
    let one = counts(first);
    let two = counts(then);
    let mut state = typed("one<enter>");
    cut(&mut state, first);
    type_keys(&mut state, "<enter>");
    cut(&mut state, then);
    // The first token of each part comes with its prefill, whether or not anything is drafted.
    let told = |tokens: usize, rounds: usize, prefills: usize| {
        format!("{tokens} tokens in {rounds} rounds instead of {}", tokens - prefills)
    };
    assert_eq!(below(&mut state), told(one.0 + two.0, one.1 + two.1, 2));
    // Stopped in the middle of the next part: its first token and round are counted too.
    type_keys(&mut state, "<enter>");
    begun(&mut state, then, 2);
    type_keys(&mut state, "<esc>");
    let stopped = format!("{} tokens", one.0 + two.0 + 1);
    assert_eq!(below(&mut state), stopped);
    // After the next start it continues with the figures of before.
    let mut again = reloaded(&state);
    assert_eq!(below(&mut again), stopped);
    type_keys(&mut again, "<enter>");
    answered(&mut again, then);
    assert_eq!(below(&mut again), told(one.0 + 2 * two.0 + 1, one.1 + 2 * two.1, 4));
    // An earlier version of the program saved none.
    let mut turns = state.chat.saved_turns();
    turns[1].end = None;
    let mut again = loaded(80, 24);
    tell(&mut again, ScreenEvent::Loaded(Ok(turns.into())));
    type_keys(&mut again, "<enter>");
    answered(&mut again, then);
    assert_eq!(below(&mut again), format!("{} since it continued", told(two.0, two.1, 1)));
    // Another version is another answer.
    type_keys(&mut again, "<c-r>");
    answered(&mut again, first);
    assert_eq!(below(&mut again), told(one.0, one.1, 1));
}
