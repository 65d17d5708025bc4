//! What terminals send, whole and cut, among what people type.

use proptest::prelude::*;

use super::*;

fn all(bytes: &[u8]) -> Vec<Received> {
    let mut parser = InputParser::default();
    let mut out = parser.feed(bytes);
    out.extend(parser.give_up());
    out
}

/// What was typed, for people; answers are left out.
fn typed(received: impl IntoIterator<Item = Received>) -> String {
    let mut out = String::new();
    for received in received {
        match received {
            Received::Event(Event::Key(key)) => {
                let held = key.modifiers - KeyModifiers::SHIFT;
                match key.code {
                    KeyCode::Char(c) if held.is_empty() => out.push(c),
                    code => out.push_str(&format!("<{}{code}>", held_names(key.modifiers))),
                }
            }
            Received::Event(Event::Paste(text)) => out.push_str(&format!("[{text}]")),
            Received::Event(other) => out.push_str(&format!("<{other:?}>")),
            Received::Answer(_) => {}
        }
    }
    out
}

fn held_names(held: KeyModifiers) -> String {
    let names =
        [(KeyModifiers::CONTROL, "C-"), (KeyModifiers::ALT, "A-"), (KeyModifiers::SHIFT, "S-")];
    names.iter().filter(|(one, _)| held.contains(*one)).map(|(_, name)| *name).collect()
}

#[test]
fn keys_are_what_terminals_send_for_them() {
    for (bytes, expected) in [
        ("a\r\t\x7f", "a<Enter><Tab><Backspace>"),
        ("é日👍", "é日👍"),
        ("\x03\x1f\x00", "<C-c><C-7><C-Space>"),
        ("\x1b", "<Esc>"),
        ("\x1b\x1b", "<Esc><Esc>"),
        ("\x1bx\x1bé\x1b\r", "<A-x><A-é><A-Enter>"),
        ("\x1b[A\x1bOB\x1b[1;5C\x1b[Z", "<Up><Down><C-Right><BackTab>"),
        ("\x1b[3~\x1b[5;2~\x1b[17~\x1b[24~", "<Del><S-Page Up><F6><F12>"),
        ("\x1bOP\x1b[15~\x1b[[A\x1b[1;2R", "<F1><F5><F1><S-F3>"),
        // Alt as a prefix; the keypad; rxvt.
        ("\x1b\x1b[A\x1b\x1bOD", "<A-Up><A-Left>"),
        ("\x1bOM\x1bOp\x1bOa\x1b[a\x1b[3^", "<Enter>0<C-Up><S-Up><C-Del>"),
        // kitty and modifyOtherKeys.
        ("\x1b[13;2u\x1b[27;2;13~", "<S-Enter><S-Enter>"),
        ("\x1b[97;5u\x1b[97:65;6u\x1b[1089::99;5u", "<C-a><C-S-a><C-c>"),
        ("\x1b[45;6u\x1b[45:95;6u", "<C-S-_><C-S-_>"),
        ("\x1b[9;2u\x1b[27u\x1b[57400u\x1b[57414u", "<S-BackTab><Esc>1<Enter>"),
        // Half of what a person can type.
        ("\x1b[", "<A-[>"),
        ("\x1bO", "<A-S-O>"),
        ("\x1b]", "<A-]>"),
        ("\x1bPat", "<A-S-P>at"),
        ("\x1b[200~one\ntwo\x1b[201~x", "[one\ntwo]x"),
        ("\x1b[200~cut \x1b[20", "[cut \x1b[20]"),
        // Bytes that are no text.
        ("a\x1b[M !!b", "ab"),
    ] {
        let shown = typed(all(bytes.as_bytes())).replace(" Arrow", "");
        assert_eq!(shown.replace("Back Tab", "BackTab"), expected, "{bytes:?}");
    }
    assert_eq!(typed(all(b"a\xffb\xc3c\xe9")), "abc");
}

#[test]
fn a_released_key_and_the_mouse_are_told_apart() {
    let Received::Event(Event::Key(key)) = &all(b"\x1b[97;1:3u")[0] else { panic!() };
    assert_eq!(key.kind, KeyEventKind::Release);
    let kinds: Vec<_> =
        all(b"\x1b\x1b[<64;10;12M\x1b[<0;1;2M\x1b[<32;1;2M\x1b[<0;1;2m\x1b[<35;1;2M")
            .into_iter()
            .map(|received| match received {
                Received::Event(Event::Mouse(mouse)) => format!("{:?}", mouse.kind),
                Received::Event(Event::Key(key)) => key.code.to_string(),
                other => format!("{other:?}"),
            })
            .collect();
    let expected = ["Esc", "ScrollUp", "Down(Left)", "Drag(Left)", "Up(Left)", "Moved"];
    assert_eq!(kinds, expected);
}

#[test]
fn answers_are_read() {
    let answers = |bytes: &str| {
        let only = |received| match received {
            Received::Answer(answer) => Some(answer),
            Received::Event(_) => None,
        };
        all(bytes.as_bytes()).into_iter().filter_map(only).collect::<Vec<_>>()
    };
    for (colour, light) in [
        ("rgb:ffff/ffff/ffff", Some(true)),
        ("rgb:1e1e/1e1e/1e1e", Some(false)),
        ("rgb:f/f/f", Some(true)),
        ("rgba:00/00/40/ff", Some(false)),
        ("#fdf6e3", Some(true)),
        ("?", None),
        ("rgb:", None),
    ] {
        for end in ["\x07", "\x1b\\"] {
            let expected: Vec<_> =
                light.map(|light| Answer::Background { light }).into_iter().collect();
            assert_eq!(answers(&format!("\x1b]11;{colour}{end}")), expected, "{colour}");
        }
    }
    assert_eq!(answers("\x1bP>|foot(1.2)\x1b\\"), [Answer::Name("foot(1.2)".to_string())]);
    assert_eq!(answers("\x1b[?62;22;52c"), [Answer::Attributes(vec![62, 22, 52])]);
}

/// What terminals answer and report that nobody typed.
const ANSWERS: [&str; 16] = [
    "\x1b]11;rgb:1e1e/1e1e/1e1e\x07",
    "\x1b]10;rgb:ffff/ffff/ffff\x1b\\",
    "\x1b]4;1;rgb:cc/00/00\x1b\\",
    "\x1b]52;c;aGVsbG8=\x07",
    "\x1bP>|kitty(0.43.1)\x1b\\",
    "\x1bP1+r436f=323536\x1b\\",
    "\x1bP!|00000000\x1b\\",
    "\x1b_Gi=31;OK\x1b\\",
    "\x1b[?62;22;52c",
    "\x1b[>1;4000;29c",
    "\x1b[?0u",
    "\x1b[?2026;2$y",
    "\x1b[24;80R",
    "\x1b[4;600;800t",
    "\x1b[48;24;80;480;800t",
    "\x1b[0n",
];

const TYPED: [(&str, &str); 8] = [
    ("hello", "hello"),
    ("é日", "é日"),
    ("\r", "<Enter>"),
    ("\x1b[A", "<Up>"),
    ("\x1b[13;2u", "<S-Enter>"),
    ("\x1b[200~a\x1b]b\nc\x1b[201~", "[a\x1b]b\nc]"),
    ("\x1bx", "<A-x>"),
    (";:11", ";:11"),
];

proptest! {
    #[test]
    fn answers_are_never_typed_wherever_they_are_cut(
        parts in prop::collection::vec((0..TYPED.len(), 0..ANSWERS.len(), any::<bool>()), 1..8),
        cuts in prop::collection::vec(0_usize..200, 0..8),
    ) {
        let (mut bytes, mut expected) = (Vec::new(), String::new());
        for (key, answer, first) in parts {
            let (sent, meant) = TYPED[key];
            let pair = if first { [ANSWERS[answer], sent] } else { [sent, ANSWERS[answer]] };
            pair.iter().for_each(|part| bytes.extend_from_slice(part.as_bytes()));
            expected.push_str(meant);
        }
        let mut parser = InputParser::default();
        let mut received = Vec::new();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        for pair in cuts.windows(2) {
            received.extend(parser.feed(&bytes[pair[0]..pair[1]]));
        }
        received.extend(parser.give_up());
        prop_assert_eq!(typed(received).replace(" Arrow", ""), expected);
    }

    #[test]
    fn no_bytes_stop_the_parser(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let mut parser = InputParser::default();
        parser.feed(&bytes);
        parser.give_up();
        prop_assert!(parser.patience().is_none());
        // What is typed after it is read.
        prop_assert_eq!(typed(parser.feed(b"x")), "x");
    }
}

#[test]
fn half_an_answer_is_waited_for_longer_than_a_key() {
    let patience = |bytes: &[u8], answers_due: bool| {
        let mut parser = InputParser { answers_due, ..InputParser::default() };
        parser.feed(bytes);
        parser.patience()
    };
    assert_eq!(patience(b"abc", false), None);
    assert_eq!(patience(b"\x1b", false), Some(ESCAPE));
    assert_eq!(patience(b"\x1b", true), Some(ESCAPE_OF_ANSWER));
    assert_eq!(patience(b"\x1b]11;r", false), Some(REST));
    assert_eq!(patience(b"\x1b[?6", false), Some(REST));
    // Alt and P, then another letter.
    assert_eq!(patience(b"\x1bPa", false), Some(ESCAPE));
}
