use super::*;

/// The field after these messages were sent.
fn after(sent: &[&str]) -> Input {
    let mut input = Input::default();
    for text in sent {
        input.set(text);
        input.sent();
    }
    input
}

/// What is written, and what of all that was written is not sent.
#[track_caller]
fn assert_field(input: &Input, text: &str, unsent: Option<&str>) {
    assert_eq!((input.text().as_str(), input.unsent().as_deref()), (text, unsent));
}

#[test]
fn history_gives_the_unsent_message_back() {
    let mut input = after(&["one", "two\nlines"]);
    input.set("unsent");
    // From the last row of a message, the first `up` moves in it.
    let up: fn(&mut Input) = Input::up;
    let down: fn(&mut Input) = Input::down;
    for (press, text) in [
        (up, "two\nlines"),
        (up, "two\nlines"),
        (up, "one"),
        (up, "one"),
        (down, "two\nlines"),
        (down, "unsent"),
        (down, "unsent"),
    ] {
        press(&mut input);
        assert_eq!(input.text(), text);
    }
}

#[test]
fn an_earlier_message_that_was_changed_stays_so_until_one_is_sent() {
    let mut input = after(&["one", "two"]);
    input.set("three");
    input.up();
    input.paste(", changed");
    input.up();
    assert_field(&input, "one", Some("three\n\ntwo, changed"));
    input.down();
    assert_eq!(input.text(), "two, changed");
    input.down();
    assert_field(&input, "three", Some("two, changed\n\nthree"));
    input.up();
    input.set("two");
    input.down();
    assert_field(&input, "three", Some("three"));
    input.up();
    input.paste(" again");
    input.down();
    input.sent();
    input.up();
    input.up();
    assert_eq!(input.text(), "two", "what was sent is what it was");
}

#[test]
fn what_was_not_sent_is_known_wherever_it_stands() {
    assert_field(&Input::default(), "", None);
    let mut input = after(&["one"]);
    assert_field(&input, "", None);
    input.set("two");
    assert_field(&input, "two", Some("two"));
    input.up();
    assert_field(&input, "one", Some("two"));
    input.paste(", changed");
    assert_field(&input, "one, changed", Some("two\n\none, changed"));
    input.set("three");
    input.stash();
    assert_field(&input, "", Some("three"));
    input.up();
    assert_field(&input, "three", Some("three"));
    input.set("/theme");
    input.sent();
    assert_field(&input, "", Some("three"));
    input.set("four");
    input.sent();
    assert_field(&input, "", None);
    input.set("  \n ");
    assert!(input.is_blank() && input.unsent().is_none());
}

#[test]
fn a_command_that_is_put_aside_is_no_unsent_message() {
    let mut input = Input::default();
    input.set("/temperature 0.");
    assert_field(&input, "/temperature 0.", Some("/temperature 0."));
    input.stash();
    assert_field(&input, "", None);
    input.up();
    assert_eq!(input.text(), "/temperature 0.");
    input.set("a message");
    input.stash();
    input.set("/theme");
    input.stash();
    assert_eq!(input.unsent().as_deref(), Some("a message"));
}

#[test]
fn characters_of_several_code_points_are_one() {
    let mut input = Input::default();
    input.paste("a\r\nb\rc");
    assert_eq!(input.text(), "a\nb\nc", "ends of lines are one kind");
    input.set("");
    input.paste("a👩‍👩‍👧e\u{301}");
    input.backspace();
    assert_eq!(input.text(), "a👩‍👩‍👧");
    input.step(false);
    input.delete();
    assert_eq!(input.text(), "a");
}

#[test]
fn a_long_paste_stands_as_a_mark_and_is_sent_whole() {
    let long = "a line\n".repeat(200);
    let mut input = Input::default();
    input.paste("Sum up: ");
    input.paste(&long);
    input.paste(&long.replace('a', "b"));
    assert_eq!(input.area().lines(), ["Sum up: ⟦200 lines⟧⟦200 lines #2⟧"]);
    assert_eq!(input.text(), format!("Sum up: {long}{}", long.replace('a', "b")));
    input.backspace();
    assert_eq!(input.text(), format!("Sum up: {long}"));
    input.sent();
    assert!(input.is_empty());
    input.up();
    assert_eq!(input.text(), format!("Sum up: {long}"), "the history has it whole");
    assert_eq!(input.area().lines(), ["Sum up: ⟦200 lines⟧"], "and folded");
    input.down();
    input.paste(&long);
    input.paste(" and");
    input.up();
    input.down();
    assert_eq!(input.area().lines(), ["⟦200 lines⟧ and"], "as is what was being written");
}

/// The field wraps all of a line for each key.
#[test]
fn a_long_line_is_folded_as_many_lines_are() {
    let long = "é".repeat(5000);
    let mut input = Input::default();
    input.paste(&long);
    assert_eq!(input.area().lines(), ["⟦5000 characters⟧"]);
    assert_eq!(input.text(), long);
    input.set("");
    let short = "y".repeat(5000);
    input.paste(&short);
    assert_eq!(input.area().lines(), [short]);
}

#[test]
fn messages_come_back_as_they_were_written() {
    let one = "one\n".repeat(20);
    let two = "two\n".repeat(20);
    let mut input = Input::default();
    input.paste("Sum up: ");
    input.paste(&one);
    let sent = format!("{two}\n\na.txt:\n…");
    let said = [format!("Sum up: {one}"), sent, "by me".to_string()];
    input.sent_as(Some(&said[0]));
    input.paste(&two);
    input.paste(" @a.txt");
    input.sent_as(Some(&said[1]));
    input.paste(&one);
    input.take_back(&said);
    let lines =
        ["Sum up: ⟦20 lines⟧", "", "⟦20 lines #2⟧ @a.txt", "", "by me", "", "⟦20 lines #3⟧"];
    assert_eq!(input.area().lines(), lines);
    let whole = format!("Sum up: {one}\n\n{two} @a.txt\n\nby me\n\n{one}");
    assert_eq!(input.text(), whole, "each mark stands for its own text");
}

#[test]
fn control_characters_that_are_pasted_can_be_seen_and_deleted() {
    let mut input = Input::default();
    input.paste("a\u{1b}[31mb\u{0}\tc\r\nd");
    assert_eq!(input.text(), "a␛[31mb␀\tc\nd");
    // A long text is sent as it is.
    let long = "\u{1b}[31m\n".repeat(20);
    input.set("");
    input.paste(&long);
    assert_eq!(input.text(), long);
}

#[test]
fn a_mark_is_whole_or_gone_whatever_edits_it() {
    use crossterm::event::{KeyCode::Char, KeyEvent, KeyModifiers as With};
    let long = "line\n".repeat(20);
    type Edit = fn(&mut Input);
    let cases: [(&str, Edit, Option<&str>); 12] = [
        ("Backspace behind", |input| input.backspace(), Some("a  b")),
        ("a word before", |input| input.edit(TextArea::delete_word), Some("a  b")),
        ("a step back and Backspace", |input| (input.step(false), input.backspace()).1, None),
        ("Delete in front", |input| (input.step(false), input.delete()).1, Some("a  b")),
        (
            "a word behind",
            |input| (input.step(false), input.edit(TextArea::delete_next_word)).1,
            Some("a  b"),
        ),
        (
            "a letter inside",
            |input| (input.step(false), input.edit(|at| at.insert_char('x'))).1,
            None,
        ),
        (
            "words back and a letter",
            |input| {
                input.edit(|area| area.move_cursor(CursorMove::WordBack));
                input.edit(|area| area.insert_char('x'));
            },
            None,
        ),
        (
            "half of it selected and typed over",
            |input| {
                input.edit(TextArea::start_selection);
                input.edit(|area| area.move_cursor(CursorMove::WordBack));
                input.edit(|area| area.input(KeyEvent::new(Char('x'), With::NONE)));
            },
            Some("a x b"),
        ),
        ("to the start of the line", |input| input.edit(TextArea::delete_line_by_head), Some(" b")),
        (
            "to the start from behind",
            |input| (input.step(false), input.edit(TextArea::delete_line_by_head)).1,
            None,
        ),
        (
            "vi's x",
            |input| (input.step(false), input.vi = ViMode::Normal(None), input.command('x')).2,
            Some("a  b"),
        ),
        ("brackets of one's own", |input| input.paste("⟦⟧ ⟦"), None),
    ];
    for (name, edit, gone) in cases {
        let mut input = Input::default();
        input.set("a ");
        input.paste(&long);
        input.paste(" b");
        input.step(false);
        input.step(false);
        edit(&mut input);
        match gone {
            Some(rest) => {
                assert_eq!(input.text(), rest, "{name}");
                input.edit(TextArea::undo);
                if !input.text().contains(&long) {
                    input.edit(TextArea::undo);
                }
                assert!(input.text().contains(&long), "undone: {name}: {:?}", input.area().lines());
                input.edit(TextArea::redo);
                assert!(!input.area().lines().join("").contains('⟦'), "done again: {name}");
            }
            None => assert!(input.text().contains(&long), "{name}: {:?}", input.area().lines()),
        }
    }
}
