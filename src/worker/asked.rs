//! Which tokens of a prompt are not part of an answer: a target may read these on another device
//! than the one on which it answers. It must not depend on devices.

use std::ops::Range;

use crate::chat::{Message, Role};

/// The text of some messages; with `true`, up to where an answer begins. `None` if there is none.
pub(super) type Render<'a> = &'a dyn Fn(&[Message], bool) -> Option<String>;

/// The runs of the tokens of `text`, the prompt for `messages`, that are not part of an answer.
/// `places` are the bytes of each token. A run begins where the previous answer ended and ends
/// where the next answer began, in both cases as far as the template still writes what it wrote
/// then. So a run is the same in the prompts of all later answers.
pub(super) fn asked(
    messages: &[Message],
    text: &str,
    places: &[Range<usize>],
    render: Render<'_>,
) -> Vec<Range<usize>> {
    let common = |other: &str| {
        let pairs = text.bytes().zip(other.bytes());
        pairs.take_while(|(a, b)| a == b).count()
    };
    let tokens = |run: Range<usize>| {
        let first = places.partition_point(|place| place.start < run.start);
        first..places.partition_point(|place| place.end <= run.end).max(first)
    };
    let mut runs = Vec::new();
    let mut begin = 0;
    let answers = messages.iter().enumerate();
    for (at, _) in answers.filter(|(_, message)| message.role == Role::Assistant) {
        let before = render(&messages[..at], true);
        let behind = render(&messages[..=at], false);
        // If a template does not accept a part of a conversation, what follows is unknown.
        let (Some(before), Some(behind)) = (before, behind) else { return runs };
        let end = common(&before).max(begin);
        runs.push(tokens(begin..end));
        begin = common(&behind).max(end);
    }
    runs.push(tokens(begin..text.len()));
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(role: Role, content: &str) -> Message {
        Message::new(role, content.to_owned())
    }

    /// Roles as one letter; `<think>` opens an answer and is left out once the answer is complete.
    fn write(messages: &[Message], generate: bool) -> String {
        let turn = |message: &Message| match message.role {
            Role::Assistant => format!("A:{};", message.content),
            _ => format!("U:{};", message.content),
        };
        let text: String = messages.iter().map(turn).collect();
        if generate { text + "A:<think>" } else { text }
    }

    /// One token per byte.
    fn places(text: &str) -> Vec<Range<usize>> {
        (0..text.len()).map(|at| at..at + 1).collect()
    }

    fn runs(messages: &[Message]) -> Vec<String> {
        let text = write(messages, true);
        let render = |some: &[Message], generate: bool| Some(write(some, generate));
        let found = asked(messages, &text, &places(&text), &render);
        found.into_iter().map(|run| text[run].to_owned()).collect()
    }

    #[test]
    fn runs_are_what_stands_around_the_answers() {
        let mut talk = vec![said(Role::User, "one")];
        assert_eq!(runs(&talk), ["U:one;A:<think>"]);
        talk.push(said(Role::Assistant, "two"));
        talk.push(said(Role::User, "three"));
        assert_eq!(runs(&talk), ["U:one;A:", "U:three;A:<think>"]);
        talk.push(said(Role::Assistant, "four"));
        talk.push(said(Role::User, "five"));
        assert_eq!(runs(&talk), ["U:one;A:", "U:three;A:", "U:five;A:<think>"]);
    }

    #[test]
    fn a_template_that_refuses_a_part_leaves_the_rest_unknown() {
        let talk =
            [said(Role::User, "one"), said(Role::Assistant, "two"), said(Role::User, "three")];
        let text = write(&talk, true);
        assert_eq!(asked(&talk, &text, &places(&text), &|_, _| None), [0..0; 0]);
    }

    #[test]
    fn a_token_that_reaches_into_an_answer_is_part_of_it() {
        let talk = [said(Role::User, "one"), said(Role::Assistant, "two"), said(Role::User, "x")];
        let text = write(&talk, true);
        // `:t` is one token: the beginning of the answer and what precedes it.
        let at = text.find(":two").unwrap();
        let mut places = places(&text);
        places[at].end += 1;
        places.remove(at + 1);
        let render = |some: &[Message], generate: bool| Some(write(some, generate));
        assert_eq!(asked(&talk, &text, &places, &render)[0], 0..at);
    }
}
