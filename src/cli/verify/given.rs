//! What the model may have been given for an answer of a saved conversation: all that was said
//! before, or less where the beginning was forgotten for a full context.

use crate::chat::{Message, Role, Session};

/// What is known of what the model was given for an answer.
pub(super) struct Given {
    /// Every conversation that it may be the answer to, the likeliest first.
    pub conversations: Vec<Vec<Message>>,
    /// Whether the instructions are newer than the answer: those it was given are not kept.
    pub other_instructions: bool,
}

/// [`Given`] for message `at`.
pub(super) fn given(session: &Session, at: usize) -> Given {
    let system = session.messages.first().filter(|entry| entry.turn.message.role == Role::System);
    let said = session.messages.get(at).map(|entry| entry.at);
    let other_instructions = system.zip(said).is_some_and(|(system, said)| system.at > said);
    Given { conversations: conversations(session, at), other_instructions }
}

/// Every conversation that message `at` may be the answer to, the likeliest first. Of how much was
/// forgotten the file has the latest state alone: an earlier answer may have been given more.
fn conversations(session: &Session, at: usize) -> Vec<Vec<Message>> {
    let messages: Vec<&Message> =
        session.messages.iter().map(|entry| &entry.turn.message).collect();
    let system = usize::from(messages.first().is_some_and(|first| first.role == Role::System));
    let Some(said) = messages.get(system..at) else { return Vec::new() };
    let with = |begin: usize| alternating(&messages[..system], &said[begin..]);
    let forgotten = session.extras.forgotten.clone().unwrap_or_default();
    let mut all = Vec::new();
    if (1..said.len()).contains(&forgotten.messages) {
        let mut last = with(forgotten.messages);
        forgotten.put_before(&mut last);
        all.push(last);
    }
    all.push(with(0));
    // Without what was forgotten at first; a summary of it is not kept.
    let end = forgotten.messages.min(said.len());
    let questions = (1..end).filter(|begin| said[*begin].role == Role::User);
    all.extend(questions.map(with));
    all
}

/// As the chat gives it to the model: an answer without text is none, and questions that got none
/// are put together.
fn alternating(system: &[&Message], said: &[&Message]) -> Vec<Message> {
    let mut all: Vec<Message> = system.iter().map(|message| (*message).clone()).collect();
    for message in said {
        match all.last_mut() {
            _ if message.role == Role::Assistant && message.content.is_empty() => {}
            Some(last) if last.role == message.role => {
                last.content.push_str("\n\n");
                last.content.push_str(&message.content);
            }
            _ => all.push((*message).clone()),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{Extras, Forgotten, SavedTurn};

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
        let others = [2, 4, 6].map(|at| given(&session, at).other_instructions);
        assert_eq!(others, [true, false, false]);
        session.messages.remove(0);
        assert!(!given(&session, 1).other_instructions);
    }

    #[test]
    fn an_answer_that_was_only_thought_is_none() {
        let mut session = session(None);
        session.messages[2].turn.message.content.clear();
        assert_eq!(texts(&conversations(&session, 4)), ["s q1\n\nq2"]);
    }
}
