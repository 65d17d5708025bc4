//! What could not be saved: why, whether leaving would lose it, and, if the program ends all the
//! same, files in a folder of last resort that hold it. Must never know the screen.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::Keeper;
use crate::chat::OpenSession;
use crate::printable::{printable, printable_line};

/// What is not on the disk though it should be.
#[derive(Debug, Default)]
pub(super) struct Unsaved {
    /// Why what is open is not.
    pub(super) open: Option<String>,
    /// Conversations that were open before, and why they are not.
    pub(super) before: Vec<(OpenSession, String)>,
    /// A message that belongs to no conversation, and why it is not.
    pub(super) message: Option<(String, String)>,
}

/// What could not be saved by the end of the program, and where it is instead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Why it could not be saved.
    pub why: String,
    /// Files of last resort, in the format of saved conversations.
    pub conversations: Vec<PathBuf>,
    /// The file of last resort of a message that was not sent and belongs to no conversation.
    pub message: Option<PathBuf>,
    /// Why no such file could be written.
    pub failed: Option<String>,
    /// Messages that were not sent and are in none.
    pub unsent: Vec<String>,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not everything was saved: {}", printable_line(&self.why))?;
        for path in &self.conversations {
            let path = path.display().to_string();
            let path = printable_line(&path);
            write!(
                f,
                "\nThe conversation is in {path}: type /import {path} in the chat to get it back"
            )?;
        }
        if let Some(path) = &self.message {
            let path = path.display().to_string();
            write!(f, "\nYour unsent message is in {}", printable_line(&path))?;
        }
        if let Some(why) = &self.failed {
            write!(f, "\nIt could not be written elsewhere either: {}", printable_line(why))?;
        }
        for text in &self.unsent {
            write!(f, "\nYour unsent message:\n{}", printable(text))?;
        }
        Ok(())
    }
}

impl Keeper {
    /// What is open is about to be left: if it is not saved, it is tried again later.
    pub(super) fn leave_open(&mut self) {
        if let Some(why) = self.unsaved.open.take() {
            self.unsaved.before.extend(self.session.take().map(|session| (session, why)));
        }
    }

    /// Why leaving now would lose something, if it would. What was open before is tried once more.
    pub fn unsaved(&mut self) -> Option<String> {
        if let Some(store) = &self.store {
            self.unsaved.before.retain_mut(|(session, why)| match store.save(session) {
                Ok(_) => false,
                Err(error) => {
                    *why = error.reason();
                    true
                }
            });
        }
        let before = self.unsaved.before.iter().map(|(_, why)| why);
        let message = self.unsaved.message.iter().map(|(_, why)| why);
        self.unsaved.open.iter().chain(before).chain(message).next().cloned()
    }

    /// Writes what is not saved to `folder`.
    pub(super) fn lost(&mut self, folder: &Path) -> Option<Lost> {
        let why = self.unsaved()?;
        let mut lost = Lost { why, ..Lost::default() };
        // The file with a text, or what is unsent of it into the report.
        let mut keep = |end: &str, text: io::Result<Vec<u8>>, unsent: &Option<String>| {
            let written = text.and_then(|text| file_of(folder, end, &text));
            if let Err(error) = &written {
                lost.failed = Some(format!("{}: {error}", folder.display()));
                lost.unsent.extend(unsent.clone());
            }
            written.ok()
        };
        let mut conversations = Vec::new();
        let open = self.unsaved.open.as_ref().and(self.session.as_ref());
        for session in self.unsaved.before.iter().map(|(session, _)| session).chain(open) {
            let session = session.session();
            let text = serde_json::to_vec_pretty(session).map_err(io::Error::from);
            conversations.extend(keep(".json", text, &session.extras.unsent));
        }
        let message = self.unsaved.message.as_ref().map(|(text, _)| text.clone());
        let file =
            message.as_ref().and_then(|text| keep(".txt", Ok(text.clone().into_bytes()), &message));
        Some(Lost { conversations, message: file, ..lost })
    }
}

/// A new file in `folder`, its owner's alone.
fn file_of(folder: &Path, end: &str, text: &[u8]) -> io::Result<PathBuf> {
    let mut file = tempfile::Builder::new().prefix("dovetail-").suffix(end).tempfile_in(folder)?;
    file.write_all(text)?;
    file.as_file().sync_all()?;
    let (_, path) = file.keep().map_err(|error| error.error)?;
    Ok(path)
}
