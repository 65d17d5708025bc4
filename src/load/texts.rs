//! The drafters without weights: they draft from the conversation, from a text of the user, from
//! earlier chats and from the target's own guesses. Nothing of the chats is written anywhere.
//! It must never draft.

use std::path::Path;
use std::sync::Arc;

use super::context::LoadContext;
use super::drafter::LoadedDrafter;
use super::error::StartError;
use super::reason::{LoadReason, Notice, WhyLookup};
use crate::chat::{Role, SessionStore};
use crate::draft::{ContextDraft, Drafter, History, Lookahead, PromptLookup, Retrieval};
use crate::files::cache_folder;
use crate::library::{Datastore, NgramFile, find_ngrams, open_ngrams};
use crate::plan::{DraftSize, DrafterId};
use crate::settings::{HeadChoice, NgramChoice};
use crate::speculate::ngrams::NgramTable;

/// The most bytes of earlier chats, the newest chats first: about half a million tokens, which take
/// 4 MB and a fraction of a second to sort.
const MOST_HISTORY: usize = 2_000_000;

/// Drafts from the conversation.
pub(super) fn lookup(ctx: &LoadContext<'_>) -> LoadedDrafter {
    let why = match (&ctx.settings.draft, ctx.head()) {
        (HeadChoice::None, _) => WhyLookup::NoHeadChosen,
        (HeadChoice::Lookup, _) => WhyLookup::Chosen,
        (_, Some(_)) => WhyLookup::NextToHead,
        (_, None) => WhyLookup::NoHead,
    };
    let drafter = Box::new(PromptLookup::default());
    without_weights(DrafterId::Lookup, drafter, vec![LoadReason::Lookup(why)])
}

/// Drafts from the text at `path`.
pub(super) fn rest(ctx: &LoadContext<'_>, path: &Path) -> Result<LoadedDrafter, StartError> {
    let folder = cache_folder("retrieval");
    let mut report = |stage: &str, done: f32| (ctx.progress)(stage, Some(done));
    let tokenizer = &ctx.files.target.tokenizer;
    let Datastore { text, name, notice } =
        Datastore::open(path, tokenizer, folder.as_deref(), &mut report)?;
    let notice = notice.map(Notice::Text);
    let reasons = vec![LoadReason::Text(name.clone())];
    let drafter = Retrieval::new(text, name);
    let drafter = without_weights(DrafterId::Retrieval, Box::new(drafter), reasons);
    Ok(LoadedDrafter { notice, ..drafter })
}

/// Drafts from the target's own guesses.
pub(super) fn lookahead() -> LoadedDrafter {
    let drafter = Box::new(Lookahead::default());
    without_weights(DrafterId::Lookahead, drafter, vec![LoadReason::Lookahead])
}

/// An n-gram table for several drafters.
pub(super) struct SharedNgrams {
    name: String,
    table: Arc<NgramTable>,
}

/// The n-gram table that the settings name, or the one made for the target; `None` if there is
/// none.
pub(super) fn ngrams(ctx: &LoadContext<'_>) -> Result<Option<SharedNgrams>, StartError> {
    let target = &ctx.files.target;
    let found = match &ctx.settings.ngrams {
        NgramChoice::None => None,
        NgramChoice::Auto => find_ngrams(target),
        NgramChoice::File(path) => {
            (ctx.progress)("loading the n-gram table", None);
            Some(open_ngrams(path, target)?)
        }
    };
    Ok(found.map(|NgramFile { name, table, .. }| SharedNgrams { name, table: Arc::new(table) }))
}

/// Drafts from what the conversation and the target's passes have shown.
pub(super) fn context(
    kind: DrafterId,
    history: Option<&Arc<History>>,
    ngrams: Option<&SharedNgrams>,
) -> LoadedDrafter {
    let mut drafter = ContextDraft::new(kind);
    let mut reasons = vec![LoadReason::Context(kind)];
    if let Some(history) = history
        && kind != DrafterId::Recycling
    {
        reasons.push(LoadReason::History(history.len()));
        drafter = drafter.with_history(Arc::clone(history));
    }
    if let Some(SharedNgrams { name, table }) = ngrams
        && kind != DrafterId::Suffix
    {
        reasons.push(LoadReason::Ngrams { name: name.clone(), contexts: table.len() });
        drafter = drafter.with_ngrams(Arc::clone(table));
    }
    without_weights(kind, Box::new(drafter), reasons)
}

/// The saved conversations as tokens of the target; `None` if they are not to be read or there are
/// none. A conversation that cannot be read is left out.
pub(super) fn history(ctx: &LoadContext<'_>) -> Option<Arc<History>> {
    if !ctx.settings.history {
        return None;
    }
    let store = SessionStore::in_data_folder().ok()?;
    (ctx.progress)("reading earlier chats", None);
    let texts = messages(&store, MOST_HISTORY);
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
fn messages(store: &SessionStore, most: usize) -> Vec<String> {
    let mut left = most;
    let mut texts = Vec::new();
    for head in store.list().unwrap_or_default().sessions {
        let Ok(open) = store.load(&head.id) else { continue };
        for saved in &open.session().messages {
            let text = &saved.turn.message.content;
            if saved.turn.message.role == Role::System {
                continue;
            }
            let Some(rest) = left.checked_sub(text.len()) else { return texts };
            left = rest;
            texts.push(text.clone());
        }
    }
    texts
}

/// A drafter that needs almost no computation.
fn without_weights(
    kind: DrafterId,
    drafter: Box<dyn Drafter>,
    reasons: Vec<LoadReason>,
) -> LoadedDrafter {
    LoadedDrafter {
        kind,
        drafter,
        on_gpu: false,
        size: DraftSize::NOTHING,
        own_weights: 0,
        limit: None,
        reasons,
        notice: None,
    }
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
        assert!(messages(&store, MOST_HISTORY).is_empty());
        save(
            &store,
            &[(Role::System, "Be brief."), (Role::User, "one two"), (Role::Assistant, "3")],
        );
        assert_eq!(messages(&store, MOST_HISTORY), ["one two", "3"]);
        assert_eq!(messages(&store, 8), ["one two", "3"]);
        assert_eq!(messages(&store, 7), ["one two"]);
        assert!(messages(&store, 6).is_empty());
        std::fs::write(store.folder().join("broken.json"), "{").unwrap();
        assert_eq!(messages(&store, MOST_HISTORY).len(), 2);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(store.folder()).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
        }
    }
}
