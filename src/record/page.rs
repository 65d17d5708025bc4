//! A record as a page: see [`crate::page`].

use super::{Line, Question, Record};
use crate::chat::Role;
use crate::decode::{BothMinds, Committed, Round};
use crate::page::{PageMessage, page};

/// An answer of a record with its tokens and rounds.
struct ShownAnswer<'a> {
    question: &'a Question,
    text: String,
    thought: Option<String>,
    minds: BothMinds,
    rounds: Vec<&'a Round>,
}

impl<'a> ShownAnswer<'a> {
    fn push(&mut self, tokens: &[Committed], round: Option<&'a Round>) {
        self.minds.push(tokens, round, self.text.len(), self.thought.is_some());
        for token in tokens {
            token.append_to(&mut self.text, &mut self.thought);
        }
        self.rounds.extend(round);
    }
}

impl Record {
    /// All questions and answers as one HTML page.
    pub fn page(&self) -> String {
        let mut answers: Vec<ShownAnswer<'_>> = Vec::new();
        let mut target = "";
        for line in &self.lines {
            match (line, answers.last_mut()) {
                (Line::Ready(ready), _) => target = &ready.target,
                (Line::Question(question), _) => answers.push(ShownAnswer {
                    question,
                    text: String::new(),
                    thought: None,
                    minds: BothMinds::default(),
                    rounds: Vec::new(),
                }),
                (Line::First { token, .. }, Some(answer)) => {
                    target.clone_into(&mut answer.minds.target);
                    answer.push(std::slice::from_ref(token), None);
                }
                (Line::Round(round), Some(answer)) => answer.push(&round.committed, Some(round)),
                _ => {}
            }
        }
        let mut messages = Vec::new();
        for (at, answer) in answers.iter().enumerate() {
            let asked = &answer.question.messages;
            // A later question repeats the conversation before it.
            let from = if at == 0 { 0 } else { asked.len().saturating_sub(1) };
            messages.extend(asked[from..].iter().map(PageMessage::from));
            messages.push(PageMessage {
                role: Role::Assistant,
                text: &answer.text,
                thought: answer.thought.as_deref(),
                minds: Some(&answer.minds),
                rounds: answer.rounds.clone(),
            });
        }
        page(&messages)
    }
}
