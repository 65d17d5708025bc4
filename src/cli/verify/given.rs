//! What the model was given for an answer of a saved conversation.

use crate::chat::{Message, Role, Session, messages_given};

/// The conversation that message `at` of `session` answers; `None` if the file does not have it any
/// more.
pub(super) fn conversation(session: &Session, at: usize) -> Option<Vec<Message>> {
    let before = &session.messages[..at];
    let asked = session.messages[at].turn.given.as_ref()?;
    let system = before.first().filter(|first| first.turn.message.role == Role::System);
    let said = before.get(usize::from(system.is_some()) + asked.forgotten..)?;
    let mut messages =
        messages_given(system.into_iter().chain(said).map(|entry| entry.turn.clone()));
    if !asked.is_to(&messages) {
        session.extras.forgotten.as_ref()?.put_before(&mut messages);
    }
    asked.is_to(&messages).then_some(messages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{Extras, Forgotten, Given, SavedTurn};
    use crate::speculate::SamplerSettings;
    use crate::tui::chat::Chat;

    /// Three exchanges, of which the model was not given the first `forgotten` messages for its
    /// last answer.
    fn session(texts: [&str; 6], forgotten: usize, summary: Option<&str>) -> Session {
        let mut session = Session::new("demo");
        let roles = [Role::User, Role::Assistant].into_iter().cycle();
        let system = std::iter::once((Role::System, "s"));
        let turn = |(role, text): (Role, &str)| SavedTurn::whole(Message::new(role, text));
        session.update(system.chain(roles.zip(texts)).map(turn).collect());
        let forgotten = Forgotten { messages: forgotten, summary: summary.map(str::to_owned) };
        session.extras = Extras { forgotten: Some(forgotten), ..Extras::default() };
        // As the chat itself asks for its last answer.
        let mut chat = Chat::new(None);
        let mut open = session.chat();
        open.turns.pop();
        chat.replace(open);
        let sampler = SamplerSettings::default();
        let given = Given::new(chat.saved_forgotten(), &chat.messages(), None, sampler);
        session.messages[6].turn.given = Some(given);
        session
    }

    const TEXTS: [&str; 6] = ["q1", "a1", "q2", "a2", "q3", "a3"];

    fn said(session: &Session) -> Option<String> {
        let messages = conversation(session, 6)?;
        Some(messages.iter().map(|m| m.content.as_str()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn it_is_what_the_chat_gave() {
        assert_eq!(said(&session(TEXTS, 0, None)).unwrap(), "s q1 a1 q2 a2 q3");
        assert_eq!(said(&session(TEXTS, 2, None)).unwrap(), "s q2 a2 q3");
        let summarised = said(&session(TEXTS, 4, Some("short"))).unwrap();
        assert!(summarised.ends_with("so far: short)\n\nq3"), "{summarised}");
        let only_thought = ["q1", "", "q2", "a2", "q3", "a3"];
        assert_eq!(said(&session(only_thought, 0, None)).unwrap(), "s q1\n\nq2 a2 q3");
    }

    #[test]
    fn what_was_changed_later_is_noticed() {
        type Change = fn(&mut Session);
        let changes: [Change; 4] = [
            |session| session.messages[0].turn.message.content = "other".to_owned(),
            |session| drop(session.messages.remove(1)),
            |session| session.extras.forgotten = None,
            |session| session.messages[6].turn.given = None,
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut session = session(TEXTS, 4, Some("short"));
            change(&mut session);
            let at = session.messages.len() - 1;
            assert_eq!(conversation(&session, at), None, "{number}");
        }
    }
}
