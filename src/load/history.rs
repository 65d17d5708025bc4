//! Reads earlier chats for the drafters, if the user allows it (`history`). Nothing of them is
//! written anywhere. It must never draft.

use std::sync::Arc;

use super::context::LoadContext;
use crate::chat::{Role, SessionStore};
use crate::draft::History;

/// The most bytes of text, the newest chats first: about half a million tokens, which take 4 MB and
/// a fraction of a second to sort.
const MOST: usize = 2_000_000;

/// The saved conversations as tokens of the target; `None` if they are not to be read or there are
/// none. A conversation that cannot be read is left out.
pub(super) fn history(
    ctx: &LoadContext<'_>,
    progress: &mut dyn FnMut(&str, Option<f32>),
) -> Option<Arc<History>> {
    if !ctx.settings.history {
        return None;
    }
    let store = SessionStore::in_data_folder().ok()?;
    progress("reading earlier chats", None);
    let texts = texts(&store, MOST);
    let tokenizer = &ctx.files.target.tokenizer;
    let mut tokens = Vec::new();
    for text in texts {
        if let Ok(ids) = tokenizer.encode(&text, false) {
            tokens.extend(ids);
            tokens.push(History::BREAK);
        }
    }
    tracing::info!(tokens = tokens.len(), "drafting from earlier chats too");
    (!tokens.is_empty()).then(|| Arc::new(History::new(tokens)))
}

/// The messages in the chats of `store`, the newest chat first, as whole messages of at most `most`
/// bytes in all.
fn texts(store: &SessionStore, most: usize) -> Vec<String> {
    let mut left = most;
    let mut texts = Vec::new();
    for head in store.list().unwrap_or_default().sessions {
        let Ok(open) = store.load(&head.id) else { continue };
        for saved in &open.session().messages {
            let text = &saved.message.content;
            if saved.message.role == Role::System {
                continue;
            }
            let Some(rest) = left.checked_sub(text.len()) else { return texts };
            left = rest;
            texts.push(text.clone());
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{Message, OpenSession, SavedTurn};

    fn save(store: &SessionStore, texts: &[(Role, &str)]) {
        let mut open = OpenSession::new("a model");
        let turn = |&(role, text): &(Role, &str)| SavedTurn::whole(Message::new(role, text));
        open.update(texts.iter().map(turn).collect::<Vec<_>>());
        store.save(&mut open).unwrap();
    }

    #[test]
    fn what_was_said_is_read_up_to_a_size_and_the_folder_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let store = SessionStore::at(folder.path().join("sessions"));
        assert!(texts(&store, MOST).is_empty());
        save(
            &store,
            &[(Role::System, "Be brief."), (Role::User, "one two"), (Role::Assistant, "3")],
        );
        assert_eq!(texts(&store, MOST), ["one two", "3"]);
        assert_eq!(texts(&store, 8), ["one two", "3"]);
        assert_eq!(texts(&store, 7), ["one two"]);
        assert!(texts(&store, 6).is_empty());
        std::fs::write(store.folder().join("broken.json"), "{").unwrap();
        assert_eq!(texts(&store, MOST).len(), 2);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(store.folder()).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
        }
    }
}
