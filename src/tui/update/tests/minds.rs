//! Both minds: what the target wanted next to what was drafted, and another token forced.

use super::*;
use crate::decode::{Committed, Origin};
use crate::tui::tests::{minded, shows};

const TEXT: &str = "A fox is a small wild animal with a bushy tail that lives in a den.";

/// An answer with what both thought of its tokens.
fn told() -> ScreenState {
    let mut state = loaded(120, 40);
    type_keys(&mut state, "What is a fox?<enter>");
    let of = state.generation();
    say_all(&mut state, minded(answer(of, TEXT, 16)));
    drawn(&mut state);
    state
}

/// Goes to the token with this text.
fn go(state: &mut ScreenState, text: &str) {
    state.tree.follow();
    type_keys(state, "<esc><backtab>");
    assert_eq!(state.display.focus, Focus::Chat);
    for _ in 0..40 {
        type_keys(state, "<left>");
        let Some((turn, at)) = state.token_looked_at() else { continue };
        let said = &state.chat.turns()[turn];
        if said.text[said.minds.bytes(at)].trim() == text {
            return;
        }
    }
    panic!("no {text}");
}

/// The worker's first token of a branch.
fn forced(job: &Job, text: &str) -> Event {
    let origin = Origin::Forced;
    let (_, token) = *job.forced.last().unwrap();
    let token = Committed { token, text: text.to_owned(), thought: None, origin, logprobs: None };
    Event::First { generation: job.generation, token, summary: Default::default() }
}

#[test]
fn a_word_shows_what_both_wanted() {
    let mut state = told();
    type_keys(&mut state, "<backtab>");
    for at in (0..state.chat.turns()[1].minds.tokens.len()).rev() {
        type_keys(&mut state, "<left>");
        assert_eq!(state.token_looked_at(), Some((1, at)));
        let said = &state.chat.turns()[1];
        let text = said.text[said.minds.bytes(at)].replace(' ', "␣");
        let here = &said.minds.tokens[at];
        let drafted = here.guesses.first().map_or("nothing drafted", |_| ", drafted ");
        assert!(here.drafted() || here.origin != Origin::Accepted);
        let wanted = format!("wanted {text} 41%");
        shows(&mut state, &[&wanted, drafted, "1 to 0 continues from it", "target  draft"]);
    }
    type_keys(&mut state, "<esc>");
    assert!(!screen_of(&mut state).contains("wanted"), "nobody looks at it any more");
    // A layout without the tree shows it as long as somebody looks at a word.
    type_keys(&mut state, "/layout chat<enter>");
    assert!(!screen_of(&mut state).contains("draft tree"));
    type_keys(&mut state, "<backtab><left>");
    shows(&mut state, &["draft tree", "target  draft"]);
    type_keys(&mut state, "<esc>");
    assert!(!screen_of(&mut state).contains("draft tree"));
}

#[test]
fn another_token_begins_another_version_from_there() {
    let mut state = told();
    assert!(type_keys(&mut state, "<backtab>2").is_empty(), "no word is looked at");
    assert!(said(&state).contains("Click a word"));
    go(&mut state, "wild");
    let minds = state.chat.turns()[1].minds.clone();
    let at = state.tree.token.unwrap().1;
    assert!(type_keys(&mut state, "1").is_empty());
    assert!(said(&state).contains("already"));
    let effects = type_keys(&mut state, "2");
    let sent = job(&effects).clone();
    assert_eq!(contents(&effects), ["What is a fox?"], "the tokens say how the answer begins");
    let before: Vec<u32> = minds.tokens[..at].iter().map(|token| token.token).collect();
    let other = minds.tokens[at].wanted.as_ref().unwrap().top[1].token;
    assert_eq!((sent.begun.clone(), sent.forced.clone()), (before, vec![(at, other)]));
    assert_eq!(texts(&state)[1].1, "A fox is a small");

    // Nothing comes of it: the answer is as it was.
    let mut stopped = told();
    go(&mut stopped, "wild");
    type_keys(&mut stopped, "2<esc><esc>");
    let turn = &stopped.chat.turns()[1];
    assert_eq!((turn.text.as_str(), turn.versions.place()), (TEXT, (1, 1)));

    say(&mut state, forced(&sent, " tame"));
    answered_on(&mut state, " animal.");
    let turn = &state.chat.turns()[1];
    assert_eq!(
        (turn.text.as_str(), turn.versions.place()),
        ("A fox is a small tame animal.", (2, 2))
    );
    assert_eq!(turn.saved().forced, vec![(at, other)]);
    let pieces: Vec<_> = turn.minds.origins(16..21).collect();
    assert_eq!(pieces, [(16..21, Some(Origin::Forced))]);
    shows(&mut state, &["1 forced token", "version 2 of 2"]);
    assert_eq!(reloaded(&state).chat.turns()[1].forced, vec![(at, other)]);
    // A token after it keeps it in its place.
    go(&mut state, "tame");
    assert!(type_keys(&mut state, "1").is_empty(), "nothing is known of what was wanted there");
}

/// The rest of a branch.
fn answered_on(state: &mut ScreenState, text: &str) {
    let of = state.generation();
    let mut events = answer(of, &format!("x{text}"), 4);
    events.drain(..2);
    say_all(state, events);
}

#[test]
fn an_earlier_answer_is_left_for_a_branch_of_the_conversation() {
    let mut state = told();
    asked(&mut state, "And a bear?", "Bears are big.");
    go(&mut state, "small");
    let effects = type_keys(&mut state, "3");
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Branch { messages: 2 })));
    assert_eq!(job(&effects).begun.len(), 4);
    assert_eq!(texts(&state).len(), 2);
}

#[test]
fn the_tokens_of_another_target_are_not_forced() {
    let mut state = told();
    let other = Ready { target: "another 7B".to_owned(), ..ready() };
    say(&mut state, Event::Swapped { load: 0, ready: Box::new(other) });
    go(&mut state, "wild");
    assert!(type_keys(&mut state, "2").is_empty());
    assert!(said(&state).contains("Another model"));
}

#[test]
fn the_stats_say_where_drafts_fail() {
    let mut state = loaded(120, 40);
    type_keys(&mut state, "Where?<enter>");
    let of = state.generation();
    let text = "In Rome it is 12 and in Paris the 14 of us met Ann at 7 near the Tiber and the \
                Seine of which Bob told me that it was old and that it was wide";
    say_all(&mut state, minded(answer(of, text, 16)));
    type_keys(&mut state, "/stats<enter>");
    shows(&mut state, &["Where drafts fail", "This chat's drafts miss", "are by head and are at"]);
}

#[test]
fn the_heat_line_comes_and_goes_with_its_key() {
    let mut state = told();
    type_keys(&mut state, "<f10>");
    shows(&mut state, &["drafted · 1.3 bits per token"]);
    type_keys(&mut state, "<f10>");
    assert!(!screen_of(&mut state).contains("bits per token"));
    // The cursor of an answer under way stays with its text.
    type_keys(&mut state, "Go on<enter><f10>");
    let of = state.generation();
    say_all(&mut state, minded(answer(of, TEXT, 16)).into_iter().take(3));
    let screen = shows(&mut state, &["▍", "bits per token"]);
    assert!(!screen.contains("bits per token▍"), "{screen}");
}

#[test]
fn a_word_of_another_run_says_why_it_cannot_be_looked_at() {
    let mut state = loaded(120, 40);
    type_keys(&mut state, "<backtab><left>");
    assert_eq!(said(&state), "", "there is no answer yet");
    let mut state = reloaded(&told());
    type_keys(&mut state, "<esc><backtab><left>");
    assert_said(&state, Tone::Told, "another run wrote it");
    assert_eq!(state.token_looked_at(), None);
    // Before the first word of an answer of this run.
    type_keys(&mut state, "<esc>Again<enter>");
    let of = state.generation();
    say_all(&mut state, minded(answer(of, "Yes.", 16)));
    type_keys(&mut state, "<backtab>");
    for _ in 0..state.chat.turns()[3].minds.tokens.len() {
        type_keys(&mut state, "<left>");
        assert_eq!(said(&state), "");
    }
    type_keys(&mut state, "<left>");
    assert_said(&state, Tone::Told, "another run wrote it");
}
