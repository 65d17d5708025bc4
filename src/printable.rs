//! What may be written on a terminal: text from files and models with everything a terminal would
//! obey made visible. Must never know where the text comes from or where it goes.

use std::borrow::Cow;
use std::fmt::Write as _;

/// `text` with its control characters and direction overrides made visible: `␛` for an escape,
/// `\u{9b}` for one without a picture of its own. Newlines and tabs stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    shown(text, |c| obeyed(c) && !matches!(c, '\n' | '\t'))
}

/// As [`printable`], newlines and tabs included: for a name or a title on one line.
pub fn printable_line(text: &str) -> Cow<'_, str> {
    shown(text, obeyed)
}

/// Whether a terminal may act on `c` instead of drawing it.
fn obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn shown(text: &str, replace: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&replace) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            c if !replace(c) => out.push(c),
            '\u{7f}' => out.push('\u{2421}'),
            // Unicode draws the first 32 control characters in the same order.
            c if c < ' ' => out.extend(char::from_u32(0x2400 + u32::from(c))),
            c => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_terminal_obeys_is_shown() {
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

    proptest! {
        #[test]
        fn nothing_obeyed_is_left_and_the_rest_is_kept(text in any::<String>()) {
            let line = printable_line(&text);
            prop_assert!(!line.contains(obeyed));
            prop_assert!(!printable(&text).contains(|c| obeyed(c) && c != '\n' && c != '\t'));
            if !text.contains(obeyed) {
                prop_assert!(matches!(line, Cow::Borrowed(_)));
            }
            let kept = |text: &str| text.chars().filter(|c| *c == '日' || *c == 'a').count();
            prop_assert!(kept(&line) >= kept(&text));
        }
    }
}
