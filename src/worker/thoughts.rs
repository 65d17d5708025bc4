//! The thoughts in the tokens of one answer, separated from its text. It must not depend on where
//! they are shown.

use crate::chat::{Message, Opened, Split, ThoughtSplitter};
use crate::decode::{Committed, Origin, TextStream, TokenText};

/// Divides the tokens of one answer, in order.
#[derive(Debug)]
pub(super) struct Thoughts(ThoughtSplitter);

impl Thoughts {
    /// For an answer whose prompt may have opened a block of thoughts.
    pub(super) fn new(opened: Option<Opened>) -> Self {
        Self(ThoughtSplitter::new(opened))
    }

    /// For an answer that begins with `tokens`.
    pub(super) fn after(tokens: &[u32], names: &dyn TokenText, opened: Option<Opened>) -> Self {
        let mut thoughts = Self::new(opened);
        let mut stream = TextStream::new(&[]);
        for &token in tokens {
            thoughts.read(token, &mut stream, names);
        }
        thoughts
    }

    /// Reads a token of an answer again.
    fn read(&mut self, token: u32, stream: &mut TextStream, names: &dyn TokenText) -> Committed {
        let text = stream.push(token, names).text;
        let origin = Origin::Target;
        let mut next = Committed { token, text, thought: None, origin, logprobs: None };
        self.split(std::slice::from_mut(&mut next), false, names);
        next
    }

    /// Moves what `committed` adds to the thoughts out of its text. With `ends`, the answer ends
    /// with the last of them.
    pub(super) fn split(&mut self, committed: &mut [Committed], ends: bool, names: &dyn TokenText) {
        for token in committed.iter_mut() {
            let text = self.0.text(&token.text);
            token.text.clear();
            add(token, text);
            if let Some(name) = names.control(token.token) {
                add(token, self.0.control(&name));
            }
        }
        if ends && let Some(last) = committed.last_mut() {
            add(last, self.0.finish());
        }
    }
}

/// How many of `tokens` make up the text of `message`: more may have been decoded than were shown.
pub(super) fn length_of(
    message: &Message,
    tokens: &[u32],
    names: &dyn TokenText,
    opened: Option<Opened>,
) -> Option<usize> {
    let mut thoughts = Thoughts::new(opened);
    let mut stream = TextStream::new(&[]);
    let mut text = String::new();
    let mut thought = String::new();
    let mut found = None;
    for (at, &token) in tokens.iter().enumerate() {
        let next = thoughts.read(token, &mut stream, names);
        text.push_str(&next.text);
        thought.push_str(next.thought.as_deref().unwrap_or_default());
        if text == message.content && thought == message.thought.as_deref().unwrap_or_default() {
            found = Some(at + 1);
        } else if found.is_some() {
            break;
        }
    }
    found
}

fn add(token: &mut Committed, split: Split) {
    token.text.push_str(&split.answer);
    if let Some(thought) = split.thought {
        token.thought.get_or_insert_default().push_str(&thought);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Origin;

    /// Token 0 is special and called `[THINK]`, 1 `[/THINK]`; others have no name.
    struct Names;

    impl TokenText for Names {
        fn label(&self, token: u32) -> String {
            ["[THINK]", "[/THINK]"].get(token as usize).copied().unwrap_or_default().to_owned()
        }
        fn text(&self, _tokens: &[u32]) -> String {
            String::new()
        }
        fn control(&self, token: u32) -> Option<String> {
            (token < 2).then(|| self.label(token))
        }
    }

    fn token(token: u32, text: &str) -> Committed {
        let origin = Origin::Target;
        Committed { token, text: text.to_owned(), thought: None, origin, logprobs: None }
    }

    #[test]
    fn tokens_keep_the_part_that_is_theirs() {
        let mut tokens = [
            token(0, ""),
            token(7, "A "),
            token(7, "thought."),
            token(1, ""),
            token(7, "\n\n"),
            token(7, "Yes"),
        ];
        let mut thoughts = Thoughts::new(None);
        let (first, rest) = tokens.split_at_mut(2);
        thoughts.split(first, false, &Names);
        thoughts.split(rest, true, &Names);
        let parts: Vec<_> =
            tokens.iter().map(|t| (t.thought.as_deref(), t.text.as_str())).collect();
        let thought = |text| (Some(text), "");
        assert_eq!(
            parts,
            [
                thought(""),
                thought("A"),
                thought(" thought."),
                thought(""),
                (None, ""),
                (None, "Yes")
            ]
        );
    }

    #[test]
    fn what_is_held_goes_to_the_last_token() {
        let mut tokens = [token(7, "<thi"), token(7, "n")];
        Thoughts::new(None).split(&mut tokens, true, &Names);
        assert_eq!((tokens[0].text.as_str(), tokens[1].text.as_str()), ("", "<thin"));
        assert_eq!(tokens[1].thought, None);
    }
}
