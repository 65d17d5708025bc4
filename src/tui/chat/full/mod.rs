//! What happens when the context is full: how much of a conversation makes room, and a summary on
//! its way. Must never know how it is drawn.

pub(crate) mod update;
pub(crate) mod view;

use super::{Chat, ContextUsage};
use crate::chat::{Forgotten, Message, Role, WhenFull};

/// The choices, in the order of the list.
pub const CHOICES: [(WhenFull, &str, &str); 3] = [
    (
        WhenFull::Forget,
        "forget the oldest exchanges",
        "The model no longer sees them; they stay on the screen and in the file.",
    ),
    (
        WhenFull::Summarise,
        "summarise the oldest exchanges",
        "The model writes a short summary of them and continues from that.",
    ),
    (
        WhenFull::Stop,
        "stop here",
        "Your message returns to the input box; /new starts over and keeps this chat saved.",
    ),
];

/// The oldest exchanges being summarised, while their question waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summarising {
    /// Turns that the summary will stand for.
    pub turns: usize,
    /// What there is of it.
    pub text: String,
}

impl Chat {
    /// How many turns from the first on must go, so that about half of the context is free again;
    /// `None` if nothing but the last question is left, or that does not fit by itself. `context`
    /// says what was too much.
    pub fn turns_to_forget(&self, context: ContextUsage) -> Option<usize> {
        if context.never_fits() {
            return None;
        }
        let turns = self.turns();
        let begin = self.forgotten.messages;
        let length = |at: usize| -> usize {
            turns[at..].iter().map(|turn| turn.text.len()).sum::<usize>().max(1)
        };
        // Tokens are to characters as they were in the prompt that did not fit.
        let wanted = length(begin) * context.holds / (2 * context.used.max(1));
        let starts = (begin + 1..turns.len())
            .filter(|&at| turns[at].role == Role::User && turns[at - 1].role == Role::Assistant);
        let mut best = None;
        for at in starts {
            best = Some(at);
            if length(at) <= wanted {
                break;
            }
        }
        best
    }

    /// The model is not given the first `turns` turns any more, but what `summary` says of them.
    /// [`Self::remember`] takes that back until [`Self::forgot`] was called.
    pub fn forget(&mut self, turns: usize, summary: Option<String>) {
        let messages = turns.min(self.turns().len());
        let before = std::mem::replace(&mut self.forgotten, Forgotten { messages, summary });
        self.remembered.get_or_insert(before);
    }

    /// Forgetting has made room: an answer has begun.
    pub fn forgot(&mut self) {
        self.remembered = None;
    }

    /// The model is given again what was forgotten for an answer that never began.
    pub fn remember(&mut self) {
        if let Some(before) = self.remembered.take() {
            self.forgotten = before;
        }
    }

    /// The question that has the model summarise the first `turns` turns, with them before it.
    pub fn summary_messages(&self, turns: usize) -> Vec<Message> {
        let mut part = Self::new(None);
        part.forgotten = self.forgotten.clone();
        part.take_turns(self, turns);
        let mut messages = part.messages();
        messages.push(Message::new(
            Role::User,
            "Summarise our conversation so far in at most a hundred words: what was asked, what \
             was answered, and every name, number and decision that may be needed later. Give \
             the summary alone.",
        ));
        messages
    }
}
