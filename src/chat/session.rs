//! A conversation as it is saved: messages, times and title. It must not depend on files, which
//! [`super::store`] owns.

use serde::{Deserialize, Serialize};

use super::answer_end::AnswerEnd;
use super::extras::{Extras, SavedChat};
use super::models::{AnsweredBy, ModelChoice};
use super::{Given, Message, Role, clock};

/// A message, and how it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedTurn {
    /// Who said what.
    #[serde(flatten)]
    pub message: Message,
    /// Whether the answer was cut off before its end: by the user, by the end of the program, by
    /// the limit of its length or because the context was full.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// How an answer ended and what it took, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<AnswerEnd>,
    /// The tokens that the user forced in an answer, by their number in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forced: Vec<(usize, u32)>,
    /// What the model was given for an answer; `None` for other messages, and where that cannot be
    /// said in one: the settings were changed during the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<Given>,
}

impl SavedTurn {
    /// A whole message.
    pub fn whole(message: Message) -> Self {
        Self { message, interrupted: false, end: None, forced: Vec::new(), given: None }
    }
}

/// The messages with alternating roles, as templates want them: questions that got no answer are
/// put together with the next one.
pub fn alternating(turns: impl Iterator<Item = SavedTurn>) -> Vec<SavedTurn> {
    let mut all: Vec<SavedTurn> = Vec::new();
    for turn in turns {
        match all.last_mut() {
            Some(last) if last.message.role == turn.message.role => {
                last.message.content.push_str("\n\n");
                last.message.content.push_str(&turn.message.content);
                last.interrupted |= turn.interrupted;
            }
            _ => all.push(turn),
        }
    }
    all
}

/// What a model is given of a conversation: an answer that got no further than its thoughts is
/// none.
pub fn messages_given(turns: impl Iterator<Item = SavedTurn>) -> Vec<Message> {
    let says =
        |turn: &SavedTurn| turn.message.role != Role::Assistant || !turn.message.content.is_empty();
    alternating(turns.filter(says)).into_iter().map(|turn| turn.message).collect()
}

/// A message of a file, and when it was said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedMessage {
    /// The message.
    #[serde(flatten)]
    pub turn: SavedTurn,
    /// Unix time in seconds.
    pub at: u64,
}

/// A conversation as it is saved. Its name is the name of its file and is not stored in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// For lists: the first line of the first question.
    pub title: String,
    /// Unix time of creation in seconds.
    pub created: u64,
    /// Unix time of the last message in seconds.
    pub updated: u64,
    /// The target that answered, by name.
    #[serde(default)]
    pub target: String,
    /// The models that answered, as flags name them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<ModelChoice>,
    /// The messages in order, system message included.
    pub messages: Vec<SavedMessage>,
    /// What it holds in addition to the messages.
    #[serde(default, skip_serializing_if = "Extras::is_empty")]
    pub extras: Extras,
}

impl Session {
    /// An empty conversation that begins now.
    pub fn new(target: &str) -> Self {
        let now = clock::now();
        Self { created: now, updated: now, target: target.to_owned(), ..Self::default() }
    }

    /// Replaces the messages. Existing messages keep their time, even if an earlier message was
    /// changed; new ones get the current time. The first question becomes the title.
    pub fn update(&mut self, turns: Vec<SavedTurn>) {
        let before = std::mem::take(&mut self.messages);
        let mut rest = &before[..];
        for turn in turns {
            let there = rest.iter().position(|SavedMessage { turn: old, .. }| {
                (&old.message, old.interrupted) == (&turn.message, turn.interrupted)
            });
            let at = there.map(|there| rest[there].at);
            rest = &rest[there.map_or(0, |there| there + 1)..];
            self.push(turn, at);
        }
    }

    /// Appends a message with time `at`, or the current time.
    fn push(&mut self, turn: SavedTurn, at: Option<u64>) {
        const LONGEST_TITLE: usize = 60;
        if self.title.is_empty() && turn.message.role == Role::User {
            let line = turn.message.content.lines().map(str::trim).find(|line| !line.is_empty());
            self.title = line.unwrap_or_default().chars().take(LONGEST_TITLE).collect();
        }
        let at = at.unwrap_or_else(|| {
            self.updated = clock::now();
            self.updated
        });
        self.messages.push(SavedMessage { turn, at });
    }

    /// The conversation without its times.
    pub fn turns(&self) -> Vec<SavedTurn> {
        self.messages.iter().map(|entry| entry.turn.clone()).collect()
    }

    /// The conversation without its times, and what it holds in addition.
    pub fn chat(&self) -> SavedChat {
        let by =
            AnsweredBy { target: self.target.clone(), models: self.models.clone(), gone: false };
        let answered_by = (!by.target.is_empty()).then_some(by);
        SavedChat {
            turns: self.turns(),
            extras: self.extras.clone(),
            answered_by,
            ..SavedChat::default()
        }
    }

    /// Whether the messages of `other` are a prefix of those of `self`, and nothing that `other`
    /// holds in addition is missing.
    pub(super) fn begins_with(&self, other: &Self) -> bool {
        let said = |session: &Self| -> Vec<Message> {
            session.turns().into_iter().map(|turn| turn.message).collect()
        };
        let beside = other.extras.is_empty() || other.extras == self.extras;
        beside && said(self).starts_with(&said(other))
    }

    /// Marks the title as that of a copy and numbers it.
    pub(super) fn name_copy(&mut self) {
        const MARK: &str = " (copy";
        let copy = self.title.strip_suffix(')').and_then(|title| title.rsplit_once(MARK));
        let numbered = copy.and_then(|(title, number)| match number {
            "" => Some((title, 1)),
            number => Some((title, number.trim_start().parse::<u64>().ok()?)),
        });
        self.title = match numbered {
            Some((title, number)) => format!("{title}{MARK} {})", number.saturating_add(1)),
            None => format!("{}{MARK})", self.title),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(role: Role, content: &str) -> SavedTurn {
        SavedTurn::whole(Message::new(role, content.to_owned()))
    }

    #[test]
    fn a_message_keeps_its_time_when_an_earlier_one_changes() {
        let talk = || {
            let roles = [Role::User, Role::Assistant].into_iter().cycle();
            roles.zip(["one", "two", "three", "four"]).map(|(role, text)| said(role, text))
        };
        let with = |turns: Vec<SavedTurn>| {
            let mut session = Session::new("demo");
            session.update(talk().collect());
            (1..).zip(&mut session.messages).for_each(|(at, entry)| entry.at = at);
            session.updated = 4;
            session.update(turns.clone());
            assert_eq!(session.turns(), turns);
            let times = session.messages.iter().map(|entry| entry.at);
            let times: Vec<u64> = times.map(|at| if at > 4 { 0 } else { at }).collect();
            (times, session.updated == 4)
        };
        let system = || std::iter::once(said(Role::System, "Be brief."));
        // A system message may come, with or without the next question.
        assert_eq!(with(system().chain(talk()).collect()), (vec![0, 1, 2, 3, 4], false));
        let next = std::iter::once(said(Role::User, "five"));
        let all = system().chain(talk()).chain(next).collect();
        assert_eq!(with(all), (vec![0, 1, 2, 3, 4, 0], false));
        // A message in the middle is replaced, or removed.
        let mut changed: Vec<SavedTurn> = talk().collect();
        changed[1] = said(Role::Assistant, "2");
        assert_eq!(with(changed), (vec![1, 0, 3, 4], false));
        assert_eq!(with(talk().skip(2).collect()), (vec![3, 4], true));
        assert_eq!(with(talk().take(2).collect()), (vec![1, 2], true));
        assert_eq!(with(talk().collect()), (vec![1, 2, 3, 4], true));
        // An answer that was cut off is another message.
        let mut cut: Vec<SavedTurn> = talk().collect();
        cut[3].interrupted = true;
        assert_eq!(with(cut), (vec![1, 2, 3, 0], false));
        // The system message changes, or is removed; the first question is the title.
        let mut session = Session::new("demo");
        let question = said(Role::User, "\n  Where is Rome? \nTell me.");
        session.update(system().chain([question.clone()]).chain(talk()).collect());
        assert_eq!(session.title, "Where is Rome?");
        session.messages.iter_mut().for_each(|entry| entry.at = 7);
        let mut kept = |turns: Vec<SavedTurn>| -> Vec<bool> {
            session.update(turns);
            session.messages.iter().map(|entry| entry.at == 7).collect()
        };
        let other = [said(Role::System, "Be kind."), question];
        let changed: Vec<SavedTurn> = other.into_iter().chain(talk()).collect();
        assert_eq!(kept(changed), [false, true, true, true, true, true]);
        assert_eq!(kept(talk().collect()), [true; 4]);
    }

    #[test]
    fn a_file_of_an_earlier_version_is_read() {
        let text = r#"{"id":"elsewhere","title":"Hi","created":1,"updated":2,
            "messages":[{"role":"user","content":"Hi","at":1}]}"#;
        let session: Session = serde_json::from_str(text).unwrap();
        assert_eq!(session.turns(), [said(Role::User, "Hi")]);
        let written = serde_json::to_string(&session).unwrap();
        assert!(!written.contains("elsewhere") && !written.contains("interrupted"), "{written}");
    }

    #[test]
    fn thoughts_are_stored_apart_and_old_files_have_none() {
        let mut session = Session::new("demo");
        let mut answer = said(Role::Assistant, "Hello!");
        answer.message.thought = Some("A greeting.".to_owned());
        session.update(vec![said(Role::User, "Hi"), answer]);
        let written = serde_json::to_string(&session).unwrap();
        assert!(written.contains(r#""content":"Hello!","thought":"A greeting.""#), "{written}");
        let read: Session = serde_json::from_str(&written).unwrap();
        assert_eq!(read, session);
        let old = written.replace(r#","thought":"A greeting.""#, "");
        let old: Session = serde_json::from_str(&old).unwrap();
        assert_eq!(old.turns()[1], said(Role::Assistant, "Hello!"));
    }

    #[test]
    fn copies_are_counted_in_the_title() {
        let mut session = Session::new("demo");
        let mut next = |title: &str| {
            session.title = title.to_owned();
            session.name_copy();
            session.title.clone()
        };
        assert_eq!(next("Rome"), "Rome (copy)");
        assert_eq!(next("Rome (copy)"), "Rome (copy 2)");
        assert_eq!(next("Rome (copy 2)"), "Rome (copy 3)");
        assert_eq!(next("Rome (copy of Milan)"), "Rome (copy of Milan) (copy)");
        assert_eq!(next(""), " (copy)");
    }
}
