//! Text that is safe to write on a terminal: control characters from files and models are replaced
//! by visible ones. It must not depend on where the text comes from or where it goes.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Serialize;

/// `text` with its control characters and direction overrides made visible: `␛` for an escape,
/// `\u{9b}` for one without a Unicode picture. Line feeds and tabs stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    replaced(text, |c| is_control(c) && !matches!(c, '\n' | '\t'), picture)
}

/// As [`printable`], including line feeds and tabs: for a name or a title on one line.
pub fn printable_line(text: &str) -> Cow<'_, str> {
    replaced(text, is_control, picture)
}

/// The text of a token, with the whitespace that would be lost where it stands alone made visible.
pub fn visible(label: &str) -> String {
    if label.is_empty() {
        return "∅".to_owned();
    }
    let shown = label.replace(' ', "␣").replace('\n', "⏎").replace('\t', "⇥");
    printable_line(&shown).into_owned()
}

/// `text` as one word of a shell's command line.
pub fn shell_word(text: &str) -> String {
    let word = printable_line(text);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@+~".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A number of bytes in decimal units: `640 kB`, `6.1 MB`, `398 MB`, `4.1 GB`.
pub fn bytes(bytes: u64) -> String {
    scaled(bytes, ["kB", "MB", "GB"])
}

/// A number of weights: `10 K`, `6.1 M`, `494 M`, `7.2 B`.
pub fn count(weights: u64) -> String {
    scaled(weights, ["K", "M", "B"])
}

fn scaled(number: u64, [thousand, million, billion]: [&str; 3]) -> String {
    let millions = number as f64 / 1e6;
    match millions {
        ..0.9995 => format!("{:.0} {thousand}", millions * 1e3),
        ..9.95 => format!("{millions:.1} {million}"),
        ..999.5 => format!("{millions:.0} {million}"),
        _ => format!("{:.1} {billion}", millions / 1e3),
    }
}

/// `value` as JSON on one line, with the control characters that JSON permits in strings escaped in
/// its own way (`\u009b`): safe on a terminal, and the same value to a parser.
///
/// # Errors
/// `value` cannot be serialised.
pub fn json_line(value: &impl Serialize) -> serde_json::Result<String> {
    let mut line = serde_json::to_string(value)?;
    if let Cow::Owned(escaped) = replaced(&line, is_control, json_escape) {
        line = escaped;
    }
    line.push('\n');
    Ok(line)
}

/// Whether a terminal may interpret `c` instead of drawing it.
fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Writes the replacement of a control character.
type Replacement = fn(char, &mut String);

fn picture(c: char, out: &mut String) {
    match c {
        '\u{7f}' => out.push('\u{2421}'),
        // Unicode has pictures of the first 32 control characters in the same order.
        c if c < ' ' => out.extend(char::from_u32(0x2400 + u32::from(c))),
        c => {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        }
    }
}

fn json_escape(c: char, out: &mut String) {
    let mut units = [0; 2];
    for unit in c.encode_utf16(&mut units) {
        // Writing to a String cannot fail.
        let _ = write!(out, "\\u{unit:04x}");
    }
}

fn replaced(text: &str, select: impl Fn(char) -> bool, replacement: Replacement) -> Cow<'_, str> {
    if !text.contains(&select) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if select(c) {
            replacement(c, &mut out);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        assert_eq!(shell_word("qwen2.5:0.5b"), "qwen2.5:0.5b");
        assert_eq!(shell_word("it's mine"), r"'it'\''s mine'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn control_characters_are_made_visible() {
        let cases = [
            ("\u{1b}]52;c;QQ==\u{7}", "␛]52;c;QQ==␇"),
            ("a\u{1b}[2Jb\u{7f}\u{9b}2J\rc", "a␛[2Jb␡\\u{9b}2J␍c"),
            ("cod\u{202e}exe\u{2066}", "cod\\u{202e}exe\\u{2066}"),
            ("\0", "␀"),
        ];
        for (given, expected) in cases {
            assert_eq!(printable(given), expected);
        }
        assert_eq!(printable("a\tb\nc"), "a\tb\nc");
        assert_eq!(printable_line("a\tb\nc"), "a␉b␊c");
    }

    #[test]
    fn numbers_have_two_or_three_digits() {
        let sizes = [640_000, 6_100_000, 12_000_000, 4_200_000_000].map(bytes);
        assert_eq!(sizes, ["640 kB", "6.1 MB", "12 MB", "4.2 GB"]);
        assert_eq!([494_000_000, 7_200_000_000].map(count), ["494 M", "7.2 B"]);
    }

    #[test]
    fn json_escapes_control_characters_as_json_does() {
        let text = "a\u{1b}\u{7f}\u{9b}2J\u{202e}\t\n\"é";
        let line = json_line(&[text]).unwrap();
        let expected = r#"["a\u001b\u007f\u009b2J\u202e\t\n\"é"]"#.to_owned() + "\n";
        assert_eq!(line, expected);
        assert_eq!(serde_json::from_str::<Vec<String>>(&line).unwrap(), [text]);
        assert_eq!(printable(&line), line);
    }

    proptest! {
        #[test]
        fn no_control_character_is_left_and_the_rest_is_kept(text in any::<String>()) {
            let line = printable_line(&text);
            prop_assert!(!line.contains(is_control));
            prop_assert!(!printable(&text).contains(|c| is_control(c) && c != '\n' && c != '\t'));
            if !text.contains(is_control) {
                prop_assert!(matches!(line, Cow::Borrowed(_)));
            }
            let kept = |text: &str| text.chars().filter(|c| *c == '日' || *c == 'a').count();
            prop_assert!(kept(&line) >= kept(&text));
        }
    }

    #[test]
    fn numbers_round_into_the_next_unit() {
        let sizes = [12_000_000, 4_200_000_000].map(bytes);
        assert_eq!(sizes, ["12 MB", "4.2 GB"]);
        let sizes = [140_000, 999_400, 999_600, 9_960_000, 999_600_000].map(bytes);
        assert_eq!(sizes, ["140 kB", "999 kB", "1.0 MB", "10 MB", "1.0 GB"]);
        assert_eq!([10_000, 494_000_000].map(count), ["10 K", "494 M"]);
    }
}
