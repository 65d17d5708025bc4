//! A record as a page: see [`crate::page`]. An answer that was continued, or begun again from a
//! forced token, is one answer there.

use super::{Line, Question, Record};
use crate::chat::{Message, Role};
use crate::decode::{Committed, Round};
use crate::page::{PageMessage, page};

impl Record {
    /// All questions and answers as one HTML page, without those of races.
    pub fn page(&self) -> String {
        let mut talk = PageTalk::default();
        let mut target = "";
        let mut races = false;
        for line in &self.lines {
            match (line, talk.said.last_mut()) {
                (Line::Ready(ready), _) => target = &ready.target,
                (Line::Question(question), _) => {
                    races = question.race;
                    if !races {
                        talk.ask(question);
                    }
                }
                (Line::First { token, .. }, Some(answer)) if !races => {
                    target.clone_into(&mut answer.minds.target);
                    push(answer, std::slice::from_ref(token), None);
                }
                (Line::Round(round), Some(answer)) if !races => {
                    push(answer, &round.committed, Some(round));
                }
                _ => {}
            }
        }
        page(&talk.said)
    }
}

/// What was said so far.
#[derive(Default)]
struct PageTalk<'a> {
    said: Vec<PageMessage<'a>>,
    /// Answers that others have replaced, the latest last.
    former: Vec<PageMessage<'a>>,
    /// What the last answer was given, without its own beginning.
    asked: &'a [Message],
}

impl<'a> PageTalk<'a> {
    /// Makes room for the answer to a question at the end of `said`.
    fn ask(&mut self, question: &'a Question) {
        let (asked, begun) = question.parts();
        let again = self.asked == asked && !self.said.is_empty();
        self.asked = asked;
        let answer = match begun {
            Some(begun) => {
                let cut = |said: &&PageMessage<'_>| {
                    let text = said.message.content.trim_end_matches(char::REPLACEMENT_CHARACTER);
                    said.message.role == Role::Assistant && text == begun.content
                };
                let found = self.said.iter().rev().chain(self.former.iter().rev()).find(cut);
                let mut answer = found.cloned().unwrap_or_else(|| begun.clone().into());
                answer.message.content.clone_from(&begun.content);
                answer
            }
            None => self.beginning(&question.begun),
        };
        let replaces = again
            && self.said.last().is_some_and(|said| {
                let is_empty = said.message.content.is_empty() && said.message.thought.is_none();
                begun.is_some() || !question.begun.is_empty() || is_empty
            });
        if replaces {
            self.former.extend(self.said.pop());
        } else if !again {
            // A later question repeats the conversation before it.
            let from = if self.said.is_empty() { 0 } else { asked.len().saturating_sub(1) };
            self.said.extend(asked[from..].iter().cloned().map(Into::into));
        }
        self.said.push(answer);
    }

    /// The latest answer that begins with these tokens, up to their end.
    fn beginning(&self, tokens: &[u32]) -> PageMessage<'a> {
        let empty = Message::new(Role::Assistant, "").into();
        let Some(last) = tokens.len().checked_sub(1) else { return empty };
        let begins = |said: &&PageMessage<'_>| {
            let own = said.minds.tokens.iter().map(|token| token.token).take(tokens.len());
            said.minds.is_whole() && own.eq(tokens.iter().copied())
        };
        let Some(found) = self.said.iter().rev().chain(self.former.iter().rev()).find(begins)
        else {
            return empty;
        };
        let mut answer = found.clone();
        answer.message.content.truncate(answer.minds.bytes(last).end);
        answer.minds.truncate(tokens.len());
        answer.rounds.retain(|(first, round)| first + round.committed.len() <= tokens.len());
        answer
    }
}

/// Appends tokens of an answer, which `round` wrote unless they are its first.
fn push<'a>(answer: &mut PageMessage<'a>, tokens: &[Committed], round: Option<&'a Round>) {
    let PageMessage { message, minds, rounds } = answer;
    rounds.extend(round.map(|round| (minds.tokens.len(), round)));
    minds.push(tokens, round, message.content.len(), message.thought.is_some());
    for token in tokens {
        token.append_to(&mut message.content, &mut message.thought);
    }
}
