//! The drafters without weights: they draft from the conversation, from a text of the user and from
//! the target's own guesses. It must never draft.

use std::path::Path;
use std::sync::Arc;

use super::context::LoadContext;
use super::drafter::LoadedDrafter;
use super::error::StartError;
use crate::draft::{
    ContextDraft, ContextSources, Drafter, History, Lookahead, PromptLookup, Retrieval,
};
use crate::library::{Datastore, NgramFile, find_ngrams, open_ngrams};
use crate::plan::{DraftSize, DrafterId};
use crate::settings::{HeadChoice, NgramChoice};
use crate::speculate::ngrams::NgramTable;

/// Drafts from the conversation.
pub(super) fn lookup(ctx: &LoadContext<'_>) -> LoadedDrafter {
    let reason = match (&ctx.settings.draft, ctx.head()) {
        (HeadChoice::None, _) => {
            "Drafts are looked up in the conversation, since you chose no draft head."
        }
        (HeadChoice::Lookup, _) => "Drafts are looked up in the conversation, as you chose.",
        (_, Some(_)) => "Drafts are looked up in the conversation.",
        (_, None) => {
            "Drafts are looked up in the conversation, since no draft head is set (--draft)."
        }
    };
    let drafter = Box::new(PromptLookup::new(ctx.context));
    without_weights(ctx, DrafterId::Lookup, drafter, reason.to_owned())
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
    let reason = format!("Drafts are looked up in {name}, as you chose.");
    let drafter = Retrieval::new(text.into_suffixes(), name, ctx.context);
    let drafter = without_weights(ctx, DrafterId::Retrieval, Box::new(drafter), reason);
    Ok(LoadedDrafter { notice, ..drafter })
}

/// Drafts from the target's own guesses.
pub(super) fn lookahead(ctx: &LoadContext<'_>) -> LoadedDrafter {
    let reason = "The target refines its own guesses while it writes.".to_owned();
    let drafter = Box::new(Lookahead::new(ctx.context));
    without_weights(ctx, DrafterId::Lookahead, drafter, reason)
}

/// An n-gram table, and its description in a sentence with a leading space.
pub(super) type Ngrams = (Arc<NgramTable>, String);

/// The n-gram table that the settings name, or the one made for the target; `None` if there is
/// none.
pub(super) fn ngrams(
    ctx: &LoadContext<'_>,
    progress: &mut dyn FnMut(&str, Option<f32>),
) -> Result<Option<Ngrams>, StartError> {
    let target = &ctx.files.target;
    let found = match &ctx.settings.ngrams {
        NgramChoice::None => None,
        NgramChoice::Auto => find_ngrams(target),
        NgramChoice::File(path) => {
            progress("loading the n-gram table", None);
            Some(open_ngrams(path, target)?)
        }
    };
    Ok(found.map(|NgramFile { name, table, .. }| {
        let contexts = table.len();
        let told = format!(
            "An n-gram table of this model ({name}) knows its likely next tokens after {} \
             contexts.",
            thousands(contexts)
        );
        (Arc::new(table), told)
    }))
}

/// With thousands separators, as in sentences: `493,476`.
fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Drafts from what the conversation and the target's passes have shown.
pub(super) fn context(
    ctx: &LoadContext<'_>,
    kind: DrafterId,
    history: Option<&Arc<History>>,
    ngrams: Option<&Ngrams>,
) -> LoadedDrafter {
    let (sources, reason) = match kind {
        DrafterId::Suffix => (
            ContextSources::Suffix,
            "Drafts repeat what followed the same phrase earlier in the conversation.",
        ),
        DrafterId::Recycling => (
            ContextSources::Recycling,
            "Drafts repeat what the target found likely in the same context.",
        ),
        _ => (
            ContextSources::Both,
            "Drafts repeat what followed the same phrase earlier, and what the target found \
             likely in the same context.",
        ),
    };
    let mut drafter = ContextDraft::new(sources, ctx.context);
    let mut reason = reason.to_owned();
    if let Some(history) = history.filter(|_| sources != ContextSources::Recycling) {
        reason += &format!(" Drafts also come from {} tokens of earlier chats.", history.len());
        drafter = drafter.with_history(Arc::clone(history));
    }
    if let Some((table, told)) = ngrams.filter(|_| sources != ContextSources::Suffix) {
        reason += told;
        drafter = drafter.with_ngrams(Arc::clone(table));
    }
    without_weights(ctx, kind, Box::new(drafter), reason)
}

/// A drafter that needs almost no computation.
fn without_weights(
    ctx: &LoadContext<'_>,
    kind: DrafterId,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_sentences_have_separators() {
        let all = [7, 476, 3_476, 493_476, 1_000_000].map(thousands);
        assert_eq!(all, ["7", "476", "3,476", "493,476", "1,000,000"]);
    }
}
