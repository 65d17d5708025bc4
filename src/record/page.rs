//! A record as a page: see [`crate::page`].

use super::{Line, Record};
use crate::chat::{Message, Role};
use crate::decode::{Committed, Round};
use crate::page::{PageMessage, page};

impl Record {
    /// All questions and answers as one HTML page.
    pub fn page(&self) -> String {
        let mut said: Vec<PageMessage<'_>> = Vec::new();
        let mut target = "";
        for line in &self.lines {
            match (line, said.last_mut()) {
                (Line::Ready(ready), _) => target = &ready.target,
                (Line::Question(question), before) => {
                    let asked = &question.messages;
                    // A later question repeats the conversation before it.
                    let from = before.map_or(0, |_| asked.len().saturating_sub(1));
                    let answer = Message::new(Role::Assistant, "");
                    said.extend(asked[from..].iter().cloned().chain([answer]).map(Into::into));
                }
                (Line::First { token, .. }, Some(answer)) => {
                    target.clone_into(&mut answer.minds.target);
                    push(answer, std::slice::from_ref(token), None);
                }
                (Line::Round(round), Some(answer)) => push(answer, &round.committed, Some(round)),
                _ => {}
            }
        }
        page(&said)
    }
}

/// Appends tokens of an answer, which `round` wrote unless they are its first.
fn push<'a>(answer: &mut PageMessage<'a>, tokens: &[Committed], round: Option<&'a Round>) {
    let PageMessage { message, minds, rounds } = answer;
    minds.push(tokens, round, message.content.len(), message.thought.is_some());
    for token in tokens {
        token.append_to(&mut message.content, &mut message.thought);
    }
    rounds.extend(round);
}
