//! The drafters without weights: they draft from the conversation, from a text of the user's and
//! from the target's own guesses. Must never draft.

use std::path::Path;
use std::sync::Arc;

use super::context::LoadContext;
use super::drafter::LoadedDrafter;
use super::error::StartError;
use crate::draft::{
    ContextDraft, ContextSources, Drafter, History, Lookahead, PromptLookup, Retrieval,
};
use crate::library::Datastore;
use crate::plan::{DraftKind, DraftSize};
use crate::settings::LOOKUP;

/// Drafts from the conversation.
pub(super) fn lookup(ctx: &LoadContext<'_>) -> LoadedDrafter {
    let reason = match (ctx.settings.draft.as_deref(), &ctx.files.head) {
        (Some(LOOKUP), _) => "The draft is looked up in the conversation, as you asked.",
        (_, Some(_)) => "The draft is looked up in the conversation.",
        (_, None) => {
            "No draft head was named (--draft): the draft is looked up in the conversation."
        }
    };
    let drafter = Box::new(PromptLookup::new(ctx.context));
    without_weights(ctx, DraftKind::Lookup, drafter, reason.to_owned())
}

/// Drafts from the text at `path`.
pub(super) fn rest(
    ctx: &LoadContext<'_>,
    path: &Path,
    progress: &mut dyn FnMut(&str, Option<f32>),
) -> Result<LoadedDrafter, StartError> {
    let folder = Datastore::cache_folder();
    let mut report = |stage: &str, done: f32| progress(stage, Some(done));
    let tokenizer = &ctx.files.target.tokenizer;
    let mut text = Datastore::open(path, tokenizer, folder.as_deref(), &mut report)?;
    let (notice, name) = (text.take_notice(), text.name().to_owned());
    let reason = format!("Drafts are looked up in {name}, which you named.");
    let drafter = Retrieval::new(text.into_suffixes(), name, ctx.context);
    let drafter = without_weights(ctx, DraftKind::Rest, Box::new(drafter), reason);
    Ok(LoadedDrafter { notice, ..drafter })
}

/// Drafts from the target's own guesses.
pub(super) fn lookahead(ctx: &LoadContext<'_>) -> LoadedDrafter {
    let reason = "The target's own guesses are iterated beside the text.".to_owned();
    let drafter = Box::new(Lookahead::new(ctx.context));
    without_weights(ctx, DraftKind::Lookahead, drafter, reason)
}

/// Drafts from what the conversation and the target's passes have shown.
pub(super) fn context(
    ctx: &LoadContext<'_>,
    kind: DraftKind,
    history: Option<&Arc<History>>,
) -> LoadedDrafter {
    let (sources, reason) = match kind {
        DraftKind::Suffix => (
            ContextSources::Suffix,
            "What followed the same phrase in the conversation is drafted.",
        ),
        DraftKind::Recycling => (
            ContextSources::Recycling,
            "What the target held likely in the same context is drafted.",
        ),
        _ => (
            ContextSources::Both,
            "Drafts are what followed the same phrase and what the target held likely in the same \
             context.",
        ),
    };
    let drafter = ContextDraft::new(sources, ctx.context);
    let (drafter, reason) = match history {
        Some(history) if sources != ContextSources::Recycling => {
            let tokens = history.len();
            let reason = format!("{reason} {tokens} tokens of earlier chats are drafted from too.");
            (drafter.with_history(Arc::clone(history)), reason)
        }
        _ => (drafter, reason.to_owned()),
    };
    without_weights(ctx, kind, Box::new(drafter), reason)
}

/// A drafter that needs next to no computing.
fn without_weights(
    ctx: &LoadContext<'_>,
    kind: DraftKind,
    drafter: Box<dyn Drafter>,
    reason: String,
) -> LoadedDrafter {
    LoadedDrafter {
        kind,
        drafter,
        on_gpu: false,
        size: DraftSize::NOTHING,
        own_weights: 0,
        throughput: ctx.cpu,
        blocks: (0, 0),
        limit: None,
        reason,
        beside: None,
        notice: None,
    }
}
