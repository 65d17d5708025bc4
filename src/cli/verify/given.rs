//! What the model may have been given for an answer of a saved conversation: all that was said
//! before, or less where the beginning was forgotten for a full context.

use crate::chat::{Forgotten, Message, Role, SavedMessage, Session};

/// The conversations that an answer may have been given to.
pub(super) struct Given<'a> {
    system: Option<&'a SavedMessage>,
    /// What was said before the answer.
    said: &'a [SavedMessage],
    forgotten: Forgotten,
    /// Whether the instructions are newer than the answer: those it was given are not kept.
    pub other_instructions: bool,
}

/// Where the conversation began that the model was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// With the summary of what the chat forgot last.
    AfterForgotten,
    /// At this message. A summary of those before it is not kept.
    At(usize),
}

impl<'a> Given<'a> {
    /// What is known of message `at`. Of how much was forgotten the file has the latest state
    /// alone: an earlier answer may have been given more.
    pub(super) fn of(session: &'a Session, at: usize) -> Self {
        let (before, from) = session.messages.split_at(at);
        let system = before.first().filter(|entry| entry.turn.message.role == Role::System);
        let answered = from.first().map(|entry| entry.at);
        Self {
            system,
            said: &before[usize::from(system.is_some())..],
            forgotten: session.extras.forgotten.clone().unwrap_or_default(),
            other_instructions: system.zip(answered).is_some_and(|(system, at)| system.at > at),
        }
    }

    /// The conversations by their beginnings, the likeliest first, without those that begin before
    /// `from`.
    pub(super) fn begins(&self, from: usize) -> impl Iterator<Item = Begin> {
        let messages = self.forgotten.messages;
        let last = (1..self.said.len()).contains(&messages).then_some(Begin::AfterForgotten);
        let end = messages.min(self.said.len()).max(1);
        let is_begin = |&at: &usize| at == 0 || self.said[at].turn.message.role == Role::User;
        last.into_iter().chain((from..end).filter(is_begin).map(Begin::At))
    }

    pub(super) fn conversation(&self, begin: Begin) -> Vec<Message> {
        let at = match begin {
            Begin::AfterForgotten => self.forgotten.messages,
            Begin::At(at) => at,
        };
        let mut conversation = alternating(self.system, &self.said[at..]);
        if begin == Begin::AfterForgotten {
            self.forgotten.put_before(&mut conversation);
        }
        conversation
    }
}

/// As the chat gives it to the model: an answer without text is none, and questions that got none
/// are put together.
fn alternating(system: Option<&SavedMessage>, said: &[SavedMessage]) -> Vec<Message> {
    let mut all: Vec<Message> = system.iter().map(|entry| entry.turn.message.clone()).collect();
    for SavedMessage { turn, .. } in said {
        let message = &turn.message;
        match all.last_mut() {
            _ if message.role == Role::Assistant && message.content.is_empty() => {}
            Some(last) if last.role == message.role => {
                last.content.push_str("\n\n");
                last.content.push_str(&message.content);
            }
            _ => all.push(message.clone()),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{Extras, SavedTurn};

    fn session(forgotten: Option<Forgotten>) -> Session {
        let mut session = Session::new("demo");
        let roles = [Role::User, Role::Assistant].into_iter().cycle();
        let texts = ["q1", "a1", "q2", "a2", "q3", "a3"];
        let system = std::iter::once((Role::System, "s"));
        let turn = |(role, text): (Role, &str)| SavedTurn::whole(Message::new(role, text));
        session.update(system.chain(roles.zip(texts)).map(turn).collect());
        session.extras = Extras { forgotten, ..Extras::default() };
        session
    }

    fn conversations(session: &Session, at: usize) -> Vec<Vec<Message>> {
        let given = Given::of(session, at);
        given.begins(0).map(|begin| given.conversation(begin)).collect()
    }

    fn texts(all: &[Vec<Message>]) -> Vec<String> {
        let one = |messages: &Vec<Message>| {
            let texts: Vec<&str> = messages.iter().map(|m| m.content.as_str()).collect();
            texts.join(" ")
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn what_was_forgotten_is_left_out_and_what_came_before_it_is_not() {
        assert_eq!(texts(&conversations(&session(None), 4)), ["s q1 a1 q2"]);
        let forgotten = |messages, summary: Option<&str>| {
            Some(Forgotten { messages, summary: summary.map(str::to_owned) })
        };
        let two = session(forgotten(2, None));
        assert_eq!(texts(&conversations(&two, 2)), ["s q1"]);
        assert_eq!(texts(&conversations(&two, 4)), ["s q2", "s q1 a1 q2"]);
        let four = session(forgotten(4, None));
        assert_eq!(texts(&conversations(&four, 6)), ["s q3", "s q1 a1 q2 a2 q3", "s q2 a2 q3"]);
        assert_eq!(texts(&conversations(&four, 4)), ["s q1 a1 q2", "s q2"]);
        let from = Given::of(&four, 6).begins(1).collect::<Vec<_>>();
        assert_eq!(from, [Begin::AfterForgotten, Begin::At(2)]);
        // As the chat itself has it, with the summary.
        let four = session(forgotten(4, Some("short")));
        let mut chat = crate::tui::chat::Chat::new(None);
        let mut open = four.chat();
        open.turns.pop();
        chat.replace(open);
        let all = conversations(&four, 6);
        assert_eq!(all[0], chat.messages());
        assert!(all[0][1].content.contains("conversation so far: short)"), "{:?}", all[0]);
    }

    #[test]
    fn instructions_that_are_newer_than_an_answer_are_others() {
        let mut session = session(None);
        let times = [5, 3, 3, 5, 5, 6, 6];
        session.messages.iter_mut().zip(times).for_each(|(entry, at)| entry.at = at);
        let others = [2, 4, 6].map(|at| Given::of(&session, at).other_instructions);
        assert_eq!(others, [true, false, false]);
        session.messages.remove(0);
        assert!(!Given::of(&session, 1).other_instructions);
    }

    #[test]
    fn an_answer_that_was_only_thought_is_none() {
        let mut session = session(None);
        session.messages[2].turn.message.content.clear();
        assert_eq!(texts(&conversations(&session, 4)), ["s q1\n\nq2"]);
    }
}
