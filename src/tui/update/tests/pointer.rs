//! Rounds and words light each other up; the mouse selects and copies.

use super::*;

const TEXT: &str = "A fox is a **small** wild animal with a bushy tail that lives in a den.";

/// Cell of the first place that says `words`.
fn cell(state: &mut ScreenState, words: &str) -> (u16, u16) {
    let rows = rows(state);
    let found = rows.iter().enumerate().find_map(|(y, row)| Some((y, row.find(words)?)));
    let (y, byte) = found.unwrap_or_else(|| panic!("no {words:?} in\n{}", rows.join("\n")));
    (rows[y][..byte].chars().count() as u16, y as u16)
}

fn button(state: &mut ScreenState, button: Button, at: (u16, u16)) -> Vec<Effect> {
    tell(state, ScreenEvent::Button(button, at.0, at.1))
}

fn click(state: &mut ScreenState, words: &str) -> Vec<Effect> {
    let at = cell(state, words);
    let mut effects = button(state, Button::Pressed, at);
    effects.extend(button(state, Button::Released, at));
    effects
}

fn drag(state: &mut ScreenState, from: &str, to: &str) -> Vec<Effect> {
    let from = cell(state, from);
    let to = cell(state, to);
    button(state, Button::Pressed, from);
    button(state, Button::Moved, to);
    button(state, Button::Released, to)
}

fn told(width: u16, height: u16) -> ScreenState {
    let mut state = loaded(width, height);
    asked(&mut state, "What is a fox?", TEXT);
    drawn(&mut state);
    state
}

fn copy(text: &str) -> Vec<Effect> {
    vec![Effect::Copy(text.to_string())]
}

/// The text of the bytes that are lit.
fn lit(state: &ScreenState) -> Option<String> {
    let (turn, bytes) = state.lit()?;
    Some(state.chat.turns()[turn].text[bytes].to_string())
}

/// The text of the token that is looked at.
fn looked_at(state: &ScreenState) -> Option<String> {
    let (turn, at) = state.token_looked_at()?;
    let said = &state.chat.turns()[turn];
    Some(said.text[said.minds.bytes(at)].to_string())
}

#[test]
fn each_round_lights_up_its_own_words() {
    let mut state = told(120, 36);
    assert_eq!(lit(&state), None, "the rounds are not looked at");
    type_keys(&mut state, "<f2><tab><home>");
    let mut said = TEXT.split(' ').next().unwrap().to_string();
    for at in 0..state.tree.len() {
        let (shown, round) = state.tree.shown().unwrap();
        let words: String = round.committed.iter().map(|token| token.text.as_str()).collect();
        assert_eq!((shown, lit(&state)), (at, Some(words.clone())));
        said += &words;
        type_keys(&mut state, "<right>");
    }
    assert_eq!(said, TEXT, "together they are the answer");
    type_keys(&mut state, "<esc>");
    assert_eq!(lit(&state), None);
    // The conversation goes from word to word, and the tree with it.
    type_keys(&mut state, "<backtab>");
    assert_eq!(state.display.focus, Focus::Chat);
    for word in TEXT.split_inclusive(' ').rev().map(str::trim) {
        type_keys(&mut state, "<left>");
        assert_eq!(looked_at(&state).as_deref().map(str::trim), Some(word));
        let at = state.tree.token.unwrap().1;
        let round = state.tree.shown().unwrap().1;
        assert!(at == 0 || round.committed.iter().any(|token| token.text.trim() == word));
        assert!(at == 0 || lit(&state).unwrap().contains(word));
    }
    type_keys(&mut state, "<left>");
    assert_eq!(looked_at(&state).as_deref(), Some("A"), "there is none before");
    (0..TEXT.split(' ').count()).for_each(|_| drop(type_keys(&mut state, "<right>")));
    assert_eq!((looked_at(&state), lit(&state)), (None, None), "after the last it follows");
}

#[test]
fn an_answer_under_way_is_not_lit_unless_somebody_looks_back() {
    let mut state = loaded(120, 36);
    type_keys(&mut state, "Hi<enter>");
    begun(&mut state, TEXT, 5);
    type_keys(&mut state, "<f2><tab>");
    assert_eq!(lit(&state), None);
    type_keys(&mut state, "<left>");
    assert!(lit(&state).is_some());
}

#[test]
fn words_out_of_sight_are_scrolled_into_it() {
    let mut state = loaded(80, 14);
    let long: String = (0..400).map(|n| format!("word{n} ")).collect();
    asked(&mut state, "Count", long.trim());
    drawn(&mut state);
    type_keys(&mut state, "<f2><tab><home>");
    let first = lit(&state).unwrap().trim().to_string();
    let screen = screen_of(&mut state);
    assert!(screen.contains(&first), "{first}:\n{screen}");
    type_keys(&mut state, "<end>");
    assert!(screen_of(&mut state).contains("word399"));
}

#[test]
fn a_click_on_a_word_goes_to_its_round() {
    for (width, height) in [(120, 36), (80, 24)] {
        for word in ["small", "wild", "bushy", "lives"] {
            let mut state = told(width, height);
            let effects = click(&mut state, word);
            // Where it lies below the chat the tree has come on the screen.
            assert_eq!(effects.len(), usize::from(!state.display.beside()), "{effects:?}");
            assert!(lit(&state).unwrap().contains(word), "{word}: {:?}", lit(&state));
            assert!(looked_at(&state).unwrap().contains(word));
            assert_eq!((state.display.focus, state.display.side), (Focus::Tree, Some(Focus::Tree)));
            assert!(screen_of(&mut state).contains("Keys go to the tree panel"));
            assert_eq!(state.chat.selection, None);
        }
    }
    // The first word precedes all rounds: it is the root of the first one's tree.
    let mut state = told(120, 36);
    click(&mut state, "A fox is");
    assert_eq!(state.tree.shown().unwrap().0, 0);
}

#[test]
fn clicks_elsewhere_change_nothing_and_on_older_answers_look_at_the_word_alone() {
    let mut state = told(120, 36);
    asked(&mut state, "And a bear?", "Bears are big.");
    for words in ["What is a fox?", "tokens in", "draft tree"] {
        click(&mut state, words);
        assert_eq!((state.display.focus, lit(&state)), (Focus::Input, None), "{words}");
    }
    click(&mut state, "bushy");
    assert_eq!(state.display.focus, Focus::Tree);
    for words in [looked_at(&state), lit(&state)] {
        assert_eq!(words.as_deref(), Some(" bushy"));
    }
    assert!(state.tree.live(), "the tree is that of the other answer");
    let mut again = reloaded(&state);
    drawn(&mut again);
    click(&mut again, "bushy");
    assert!(said(&again).contains("another run"));
    assert_eq!(again.display.focus, Focus::Input);
}

#[test]
fn the_rounds_of_another_version_are_not_lit() {
    let mut state = told(120, 36);
    type_keys(&mut state, "<c-r>");
    answered(&mut state, "Another text of the same length, more or less.");
    type_keys(&mut state, "<f2><tab><left>");
    assert!(lit(&state).is_some());
    type_keys(&mut state, "<esc><a-,><tab>");
    assert_eq!(lit(&state), None, "its rounds are not kept");
}

#[test]
fn a_drag_selects_and_the_release_copies() {
    let mut state = told(120, 36);
    let effects = drag(&mut state, "small", "bushy");
    let copied = "small wild animal with a b";
    assert_eq!(effects, copy(copied));
    assert!(state.chat.selection.is_some(), "it stays visible");
    assert!(lit(&state).is_none(), "and the keys stay where they were");
    let shown = state.tree.bytes().unwrap();
    assert!(state.chat.turns()[1].text[shown].contains("small"), "its round is in the tree");
    type_keys(&mut state, "x");
    assert_eq!(state.chat.selection, None);
    assert_eq!(state.input.text(), "x");
    // From the bottom to the top, over both messages and what stands between them.
    let effects = drag(&mut state, "bushy", "is a fox?");
    assert_eq!(effects, copy(&format!("is a fox?\n\nA fox is a {copied}")));
}

#[test]
fn open_thoughts_are_selected_too() {
    const THOUGHT: &str = "They ask about the sun.\n\nIt is a star, so a short answer that says \
        what it is made of will do, and no need for *numbers*.";
    let mut state = typed("What is the sun?<enter>");
    say_all(&mut state, thinking(1, THOUGHT, "A star of hydrogen."));
    // Folded, they are not part of what is selected.
    let effects = drag(&mut state, "is the sun?", "hydrogen");
    assert_eq!(effects, copy("is the sun?\n\nA star of h"));
    type_keys(&mut state, "<c-o>");
    // As it was written, without our bar and our line breaks.
    let effects = drag(&mut state, "about the sun.", "numbers*");
    let from = THOUGHT.find("about").unwrap();
    let copied = THOUGHT[from..].strip_suffix("umbers*.").unwrap();
    assert_eq!(effects, copy(copied));
    let effects = drag(&mut state, "numbers*", "hydrogen");
    assert_eq!(effects, copy("numbers*.\n\nA star of h"));
    // What is marked is what is copied.
    let from = cell(&mut state, "numbers*");
    let buffer = drawn(&mut state);
    let marked = |x: u16| buffer[(x, from.1)].modifier.contains(ratatui::style::Modifier::REVERSED);
    assert!(!marked(from.0 - 1) && marked(from.0) && marked(from.0 + 8) && !marked(from.0 + 9));
    // A click on them goes nowhere.
    click(&mut state, "short answer");
    assert_eq!((state.display.focus, state.chat.selection), (Focus::Input, None));
}

#[test]
fn a_drag_to_the_edge_scrolls() {
    let mut state = loaded(80, 14);
    let long: String = (0..200).map(|n| format!("word{n} ")).collect();
    asked(&mut state, "Count", long.trim());
    let from = cell(&mut state, "word199");
    button(&mut state, Button::Pressed, from);
    for _ in 0..60 {
        let top = state.chat.seen.area.y;
        button(&mut state, Button::Moved, (from.0, top));
        drawn(&mut state);
    }
    let at = cell(&mut state, "❯ Count");
    let effects = button(&mut state, Button::Released, at);
    let [Effect::Copy(text)] = effects.as_slice() else { panic!("{effects:?}") };
    assert!(text.contains("word7 word8") && text.contains(" word198"), "{text}");
}

#[test]
fn nothing_is_selected_below_a_box_or_outside_the_conversation() {
    let mut state = told(120, 36);
    type_keys(&mut state, "<f1>");
    assert!(drag(&mut state, "The first keys", "send the message").is_empty());
    assert_eq!(state.chat.selection, None);
    type_keys(&mut state, "<esc>");
    assert!(drag(&mut state, "draft tree", "small").is_empty());
    assert_eq!(state.chat.selection, None);
    // A selection ends with the width.
    drag(&mut state, "small", "bushy");
    state.display.size = (80, 24);
    drawn(&mut state);
    assert_eq!(state.chat.selection, None);
}

#[test]
fn any_message_is_copied_from_the_list() {
    let mut state = told(80, 24);
    asked(&mut state, "And a bear?", "Bears are **big**.");
    assert_eq!(type_keys(&mut state, "<a-y><down>bear?<enter>"), copy("And a bear?"));
    assert_eq!(type_keys(&mut state, "<a-y><down><down><enter>"), copy(TEXT));
    assert_eq!(state.overlays.open, None);
}
