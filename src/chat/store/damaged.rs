//! Conversations in files that are damaged: cut off, overwritten in part, or of other types than
//! ours. What can be read goes into a new file. It must never change the damaged one.

use serde_json::{Deserializer, Value};

use super::{LONGEST, Listing, OpenSession, SessionHead, SessionStore};
use crate::chat::{Message, Role, SavedTurn, SessionError, clock, exchange};
use crate::files::read_regular;

impl SessionStore {
    /// Opens what is readable of the file of this name, to be saved in a new one.
    ///
    /// # Errors
    /// [`SessionError`] if nothing is.
    pub fn salvage(&self, name: &str) -> Result<OpenSession, SessionError> {
        let path = self.path(name)?;
        let bytes = read_regular(&path, LONGEST)
            .map_err(|source| SessionError::Read { path: path.clone(), source })?;
        let messages = salvaged(&String::from_utf8_lossy(&bytes));
        if messages.iter().all(|message| message.role != Role::User) {
            let reason = "nothing in it can be read".to_owned();
            return Err(SessionError::Corrupt { path, reason });
        }
        let mut open = OpenSession::new("");
        open.update(messages.into_iter().map(SavedTurn::whole).collect::<Vec<_>>());
        Ok(open)
    }

    /// All sessions as entries of a list, the latest first; those that cannot be read are named by
    /// their files.
    ///
    /// # Errors
    /// [`SessionError::Read`] if the folder itself cannot be read.
    pub fn heads(&self) -> Result<Vec<SessionHead>, SessionError> {
        let Listing { mut sessions, broken } = self.list()?;
        for (id, error) in broken {
            let about = self.path(&id).and_then(|path| {
                path.metadata().map_err(|source| SessionError::Read { path, source })
            });
            let written = about.ok().and_then(|about| about.modified().ok());
            let since = written.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
            let updated = since.map_or(0, |since| since.as_secs());
            let (title, ago) = (format!("{id}.json"), clock::ago(updated));
            let damage = Some(error.to_string());
            sessions.push(SessionHead { id, title, updated, ago, damage, ..Default::default() });
        }
        sessions.sort_by(|a, b| (b.updated, &b.id).cmp(&(a.updated, &a.id)));
        Ok(sessions)
    }
}

/// The messages that can be read in the text of a damaged file, in order; the last one as far as
/// it is there.
fn salvaged(text: &str) -> Vec<Message> {
    /// Places at which reading is taken up again: a file of other content has many.
    const MOST_GAPS: usize = 1000;
    let begin = text.find("\"messages\"").map_or(text.len(), |at| at);
    let mut rest = &text[begin..];
    let mut found: Vec<Message> = Vec::new();
    let mut gaps = 0;
    while let Some(at) = rest.find('{').filter(|_| gaps < MOST_GAPS) {
        rest = &rest[at..];
        let mut values = Deserializer::from_str(rest).into_iter::<Value>();
        let (value, length) = match values.next() {
            Some(Ok(value)) => (Some(value), values.byte_offset()),
            Some(Err(error)) if error.is_eof() => (closed(rest), rest.len()),
            _ => (None, 1),
        };
        rest = &rest[if value.is_some() { length } else { 1 }..];
        let Some(value) = value else {
            gaps += 1;
            continue;
        };
        let role = value["role"].as_str().and_then(Role::named);
        if let (Some(role), Some(content)) = (role, exchange::text_of(&value["content"])) {
            let thought = value["thought"].as_str().map(str::to_owned);
            found.push(Message { thought, ..Message::new(role, content) });
        }
    }
    found
}

/// The value of a message whose end is missing, which may have been cut in an escape.
fn closed(text: &str) -> Option<Value> {
    const LONGEST_ESCAPE: usize = 6;
    let cuts = text.char_indices().rev().map(|(at, _)| at).take(LONGEST_ESCAPE);
    std::iter::once(text.len())
        .chain(cuts)
        .flat_map(|end| ["\"}", "}"].map(|close| format!("{}{close}", &text[..end])))
        .find_map(|whole| serde_json::from_str(&whole).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn said(text: &str) -> Vec<(Role, String)> {
        salvaged(text).into_iter().map(|message| (message.role, message.content)).collect()
    }

    #[test]
    fn what_is_readable_of_a_damaged_file_is_opened_and_the_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let store = SessionStore::at(folder.path());
        let mut open = OpenSession::new("demo");
        let talk =
            [(Role::User, "Where is \"messages\": [{Rome}]?"), (Role::Assistant, "Italy\n!")];
        let turns = talk.map(|(role, text)| SavedTurn::whole(Message::new(role, text)));
        open.update(turns.to_vec());
        let path = store.save(&mut open).unwrap().path;
        let whole = fs::read_to_string(&path).unwrap();
        let end = whole.find("Italy").unwrap();
        let user = (Role::User, talk[0].1.to_owned());
        let cases: [(Vec<u8>, &[&str]); 7] = [
            (whole.as_bytes()[..end + 3].to_vec(), &["Ita"]),
            (whole.as_bytes()[..end + 6].to_vec(), &["Italy"]),
            (whole.replace("\"created\": ", "\"created\": \"x").into_bytes(), &["Italy\n!"]),
            (whole.replace("\"at\"", "\"elsewhere\"").into_bytes(), &["Italy\n!"]),
            (whole.replace("Italy", "It\0ly").into_bytes(), &[]),
            (
                [&whole.as_bytes()[..end], b"\xff", &whole.as_bytes()[end..]].concat(),
                &["\u{fffd}Italy\n!"],
            ),
            (whole.replace("\"user\"", "\"critic\"").into_bytes(), &["Italy\n!"]),
        ];
        for (damaged, answers) in cases {
            fs::write(&path, &damaged).unwrap();
            let heads = store.heads().unwrap();
            assert!(heads[0].title == format!("{}.json", open.name()) && heads[0].damage.is_some());
            match store.salvage(open.name()) {
                Ok(mut salvaged) => {
                    let said = salvaged.session().turns().into_iter().map(|turn| turn.message);
                    let said: Vec<_> = said.map(|it| (it.role, it.content)).collect();
                    let answers = answers.iter().map(|it| (Role::Assistant, (*it).to_owned()));
                    let all: Vec<_> = [user.clone()].into_iter().chain(answers).collect();
                    assert_eq!(said, all);
                    let saved = store.save(&mut salvaged).unwrap();
                    assert_ne!(saved.path, path);
                    fs::remove_file(saved.path).unwrap();
                }
                Err(error) => assert!(error.to_string().contains("nothing in it"), "{error}"),
            }
            assert_eq!(fs::read(&path).unwrap(), damaged, "never changed");
        }
    }

    #[test]
    fn nothing_is_made_up_and_garbage_takes_no_time() {
        assert!(said("").is_empty() && said("\"messages\": [").is_empty());
        let garbage = format!("\"messages\": [{}", "{\"".repeat(400_000));
        assert!(said(&garbage).is_empty());
    }
}
