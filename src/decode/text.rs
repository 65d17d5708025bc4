//! Token ids to streamed text: handles characters and stop strings that are split over tokens, and
//! decides when an answer ends. It must not depend on why a token was chosen.

use super::engine::Request;
use super::round::{Committed, Finish, Origin, Summary};

/// What decoding needs of a tokenizer.
pub trait TokenText: Send + Sync {
    /// How a token is shown on its own: whitespace kept, bytes of split characters as `\xNN`,
    /// special tokens by their name.
    fn label(&self, token: u32) -> String;
    /// The text of `tokens` decoded together; special tokens are left out, and an incomplete
    /// character becomes U+FFFD.
    fn text(&self, tokens: &[u32]) -> String;
    /// The name of a special token, which [`Self::text`] leaves out.
    fn control(&self, _token: u32) -> Option<String> {
        None
    }
}

/// What one token added to the visible text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextDelta {
    /// Text that is now certain; empty while a character or a stop string is undecided.
    pub text: String,
    /// A stop string is complete: `text` ends just before it and nothing may follow.
    pub stopped: bool,
}

/// The text of one answer while it grows. Text that has been given out is never taken back: text
/// that may be the beginning of a stop string waits until it is decided.
#[derive(Debug)]
pub struct TextStream {
    stop: Vec<String>,
    /// The tokens from `prefix` on are decoded together, because a token's text may depend on the
    /// previous token; the first `read` of them have been given out.
    window: Vec<u32>,
    read: usize,
    held: String,
}

impl TextStream {
    /// A stream that ends at the first of `stop` (empty strings are ignored).
    pub fn new(stop: &[String]) -> Self {
        let stop = stop.iter().filter(|s| !s.is_empty()).cloned().collect();
        Self { stop, window: Vec::new(), read: 0, held: String::new() }
    }

    /// `tokens` have already been shown, and what follows continues their text.
    pub fn go_on_from(&mut self, tokens: &[u32], names: &dyn TokenText) {
        for &token in tokens {
            self.window.push(token);
            self.decode(names, false);
        }
    }

    /// Appends a token and returns the text that it makes certain.
    pub fn push(&mut self, token: u32, names: &dyn TokenText) -> TextDelta {
        self.window.push(token);
        let fresh = self.decode(names, false);
        self.held.push_str(&fresh);
        let first = self.stop.iter().filter_map(|s| self.held.find(s.as_str())).min();
        if let Some(at) = first {
            self.held.truncate(at);
            return TextDelta { text: std::mem::take(&mut self.held), stopped: true };
        }
        let keep = self.undecided();
        let rest = self.held.split_off(self.held.len() - keep);
        TextDelta { text: std::mem::replace(&mut self.held, rest), stopped: false }
    }

    /// Ends the answer: returns everything still held, with incomplete characters as U+FFFD.
    pub fn finish(&mut self, names: &dyn TokenText) -> String {
        let fresh = self.decode(names, true);
        let mut text = std::mem::take(&mut self.held);
        text.push_str(&fresh);
        text
    }

    /// The text of the window that has not been given out yet; empty while it ends inside a
    /// character, unless `all`.
    fn decode(&mut self, names: &dyn TokenText, all: bool) -> String {
        let before = names.text(&self.window[..self.read]);
        let after = names.text(&self.window);
        // A tokenizer may decode the longer window to other text than the shorter window plus a
        // suffix; then there is no safe boundary yet.
        let fresh = match after.get(before.len()..) {
            Some(fresh) if !fresh.is_empty() && (all || !fresh.ends_with('\u{FFFD}')) => fresh,
            _ => return String::new(),
        };
        self.window.drain(..self.read);
        self.read = self.window.len();
        fresh.to_owned()
    }

    /// How many bytes at the end of the held text may yet become a stop string.
    fn undecided(&self) -> usize {
        let longest = |stop: &String| {
            (1..stop.len().min(self.held.len() + 1))
                .rev()
                .find(|&n| stop.is_char_boundary(n) && self.held.ends_with(&stop[..n]))
                .unwrap_or(0)
        };
        self.stop.iter().map(longest).max().unwrap_or(0)
    }
}

/// An answer while its tokens arrive: its text, and what ends it.
pub(super) struct Answer {
    eos: Vec<u32>,
    /// The most tokens, at least 1.
    pub(super) max_tokens: usize,
    pub(super) stream: TextStream,
}

impl Answer {
    pub(super) fn new(request: &Request) -> Self {
        let stream = TextStream::new(&request.stop);
        Self { eos: request.eos.clone(), max_tokens: request.max_tokens.max(1), stream }
    }

    /// Appends a token, counts it in `summary` and decides whether the answer ends with it.
    pub(super) fn emit(
        &mut self,
        token: u32,
        origin: Origin,
        summary: &mut Summary,
        names: &dyn TokenText,
    ) -> Committed {
        summary.tokens += 1;
        let text = String::new();
        let mut committed = Committed { token, text, thought: None, origin, logprobs: None };
        if self.eos.contains(&token) {
            summary.finish = Some(Finish::Eos);
        } else {
            let piece = self.stream.push(token, names);
            committed.text = piece.text;
            if piece.stopped {
                summary.finish = Some(Finish::StopString);
                return committed;
            }
            if summary.tokens >= self.max_tokens {
                summary.finish = Some(Finish::MaxTokens);
            }
        }
        if summary.finish.is_some() {
            committed.text.push_str(&self.stream.finish(names));
        }
        committed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One token per byte.
    struct ByteTokens;

    impl TokenText for ByteTokens {
        fn label(&self, token: u32) -> String {
            format!("{token}")
        }
        fn text(&self, tokens: &[u32]) -> String {
            let bytes: Vec<u8> = tokens.iter().map(|&t| t as u8).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        }
    }

    fn stream(text: &str, stop: &[&str]) -> (Vec<String>, bool) {
        let stop: Vec<String> = stop.iter().map(|s| (*s).to_owned()).collect();
        let mut stream = TextStream::new(&stop);
        let mut pieces = Vec::new();
        for byte in text.bytes() {
            let piece = stream.push(u32::from(byte), &ByteTokens);
            pieces.push(piece.text);
            if piece.stopped {
                return (pieces, true);
            }
        }
        pieces.push(stream.finish(&ByteTokens));
        (pieces, false)
    }

    #[test]
    fn a_character_appears_with_its_last_byte() {
        let (pieces, _) = stream("aé🦀", &[]);
        assert_eq!(pieces, ["a", "", "é", "", "", "", "🦀", ""]);
    }

    #[test]
    fn an_unfinished_character_is_shown_at_the_end() {
        let mut stream = TextStream::new(&[]);
        assert_eq!(stream.push(0xC3, &ByteTokens).text, "");
        assert_eq!(stream.finish(&ByteTokens), "\u{FFFD}");
    }

    #[test]
    fn the_beginning_of_a_stop_string_waits() {
        let (pieces, stopped) = stream("ab<x<end>never", &["<end>"]);
        assert!(stopped);
        assert_eq!(pieces, ["a", "b", "", "<x", "", "", "", "", ""]);
        assert_eq!(stream("ab<en", &["<end>"]).0.concat(), "ab<en");
    }

    proptest! {
        #[test]
        fn text_before_the_first_stop_string_is_kept(
            text in "[abé]{0,24}", stops in proptest::collection::vec("[abé]{1,4}", 0..3)
        ) {
            let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
            let (pieces, stopped) = stream(&text, &stops);
            // The stream stops at the stop string that is complete first, not at the one that
            // begins first; if two end at the same place, the longer one wins.
            let end = stops.iter().filter_map(|s| text.find(s).map(|at| (at + s.len(), at))).min();
            match end {
                Some((_, at)) => {
                    prop_assert!(stopped);
                    prop_assert_eq!(pieces.concat(), &text[..at]);
                }
                None => {
                    prop_assert!(!stopped);
                    prop_assert_eq!(pieces.concat(), text);
                }
            }
        }
    }
}
