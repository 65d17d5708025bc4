//! A prompt with the positions of the messages' text in it: only the template's own text may
//! contain control tokens. It must not depend on tokenizers: they report where they read control
//! tokens.
//!
//! Templates trim, cut and join messages, so the positions are found with marks: every character of
//! a message is followed by a mark that occurs nowhere else, and the marks are removed from the
//! rendered text.

use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};

use super::Message;

const SIGNS: [RangeInclusive<char>; 2] = ['\u{FDD0}'..='\u{FDEF}', '\u{F0000}'..='\u{F0FFF}'];

/// The text for the target, and which parts of it are the messages'.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// The whole text.
    pub text: String,
    /// The bytes of `text` that come from messages, in ascending order. White space at the ends of
    /// a message belongs to the template, because templates trim it.
    pub said: Vec<Range<usize>>,
}

impl Prompt {
    /// Whether `place` overlaps with a message.
    pub fn says(&self, place: &Range<usize>) -> bool {
        let next = self.said.partition_point(|said| said.end <= place.start);
        self.said.get(next).is_some_and(|said| said.start < place.end && !place.is_empty())
    }

    /// Removes the marks from a rendered text.
    pub(super) fn read(marked: &str, sign: char) -> Self {
        let mut prompt = Self::default();
        for piece in marked.split_inclusive(sign) {
            let Some(plain) = piece.strip_suffix(sign) else {
                prompt.text.push_str(piece);
                continue;
            };
            prompt.text.push_str(plain);
            let end = prompt.text.len();
            let Some(last) = plain.chars().next_back() else { continue };
            let start = end - last.len_utf8();
            match prompt.said.last_mut() {
                Some(said) if said.end == start => said.end = end,
                _ => prompt.said.push(start..end),
            }
        }
        prompt
    }

    /// The control tokens of the template's own text, in order.
    pub(super) fn own_controls(&self, controls: FindControls<'_>) -> Vec<&str> {
        let found = controls(&self.text).into_iter();
        found.filter(|place| !self.says(place)).map(|place| &self.text[place]).collect()
    }
}

/// Finds every place in a text where a control token is spelled, including overlapping ones,
/// ordered by their start.
pub type FindControls<'a> = &'a dyn Fn(&str) -> Vec<Range<usize>>;

/// The messages with `sign` after every character of a control token, or, without `controls`, after
/// every character except white space at the ends.
pub(super) fn marked(
    messages: &[Message],
    sign: char,
    controls: Option<FindControls<'_>>,
) -> Vec<Message> {
    let with_signs = |content: &str| {
        let places = match controls {
            Some(controls) => controls(content),
            None => {
                let start = content.len() - content.trim_start().len();
                std::iter::once(start..start + content.trim().len()).collect()
            }
        };
        let mut out = String::with_capacity(content.len() + 8);
        let mut next = 0;
        // How far an earlier place reaches.
        let mut until = 0;
        for (at, c) in content.char_indices() {
            while let Some(place) = places.get(next).filter(|place| place.start <= at) {
                until = until.max(place.end);
                next += 1;
            }
            out.push(c);
            if at < until {
                out.push(sign);
            }
        }
        out
    };
    let mark = |message: &Message| Message {
        role: message.role,
        content: with_signs(&message.content),
        thought: message.thought.as_deref().map(with_signs),
    };
    messages.iter().map(mark).collect()
}

/// A character that occurs in none of the texts: a noncharacter, or, if all of those occur, an
/// unassigned one.
pub(super) fn unused_sign<'a>(texts: impl Iterator<Item = &'a str>) -> Option<char> {
    let there: HashSet<char> = texts
        .flat_map(str::chars)
        .filter(|&c| SIGNS.iter().any(|signs| signs.contains(&c)))
        .collect();
    SIGNS.iter().cloned().flatten().find(|sign| !there.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::Role;

    fn spells(text: &str) -> Vec<Range<usize>> {
        text.match_indices("<s>").map(|(at, found)| at..at + found.len()).collect()
    }

    fn message(content: &str) -> Message {
        Message::new(Role::User, content.to_owned())
    }

    #[test]
    fn signs_go_in_and_come_out() {
        for text in ["", " ", "a", " é<s>x<s> \n", "<s>", "a b"] {
            for controls in [None, Some(&spells as FindControls<'_>)] {
                let with = &marked(&[message(text)], '\u{FDD0}', controls)[0].content;
                let prompt = Prompt::read(&format!("<s>{with}<s>"), '\u{FDD0}');
                assert_eq!(prompt.text, format!("<s>{text}<s>"));
                assert_eq!(prompt.own_controls(&spells), ["<s>", "<s>"], "{text:?}");
            }
        }
    }

    #[test]
    fn places_touch_only_where_they_share_a_byte() {
        let prompt = Prompt { text: "abcdef".into(), said: vec![1..2, 3..5] };
        for (place, says) in
            [(0..1, false), (0..2, true), (2..3, false), (2..4, true), (4..9, true)]
        {
            assert_eq!(prompt.says(&place), says, "{place:?}");
        }
        assert!(!prompt.says(&(5..6)) && !prompt.says(&(4..4)));
    }

    #[test]
    fn the_sign_is_one_that_stands_nowhere() {
        assert_eq!(unused_sign(["abc"].into_iter()), Some('\u{FDD0}'));
        let texts = ["\u{FDD1}", "\u{FDD0}x"];
        let sign = unused_sign(texts.into_iter()).unwrap();
        assert!(texts.iter().all(|text| !text.contains(sign)), "{sign:?}");
        let all: String = ('\u{FDD0}'..='\u{FDEF}').collect();
        assert_eq!(unused_sign([all.as_str()].into_iter()), Some('\u{F0000}'));
    }
}
