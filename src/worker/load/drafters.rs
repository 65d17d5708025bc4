//! The drafters that the settings make available, each loaded once for all strategies that share
//! it, and for the others what is missing.

use super::LoadError;
use crate::draft::{Drafter, PromptLookup};
use crate::hardware::Machine;
use crate::library::HeadFiles;
use crate::model::CpuTarget;
use crate::plan::{DraftKind, DraftSize, Power};
use crate::settings::Settings;

/// What `draft` names instead of a head to draft from the conversation itself.
pub(super) const LOOKUP: &str = "lookup";

/// A drafter on its device.
pub(super) struct Put {
    pub(super) kind: DraftKind,
    pub(super) drafter: Box<dyn Drafter>,
    /// Whether `drafter` holds memory of a GPU's own.
    pub(super) on_gpu: bool,
    pub(super) size: DraftSize,
    pub(super) power: Power,
    /// Fewest and most blocks that can be used.
    pub(super) blocks: (usize, usize),
    /// Where it runs and why, a sentence.
    pub(super) reason: String,
    /// Set when the user asked for something else.
    pub(super) notice: Option<String>,
}

/// What drafters are made of and for.
pub(super) struct Bench<'a> {
    pub(super) settings: &'a Settings,
    pub(super) machine: &'a Machine,
    pub(super) target: &'a CpuTarget,
    pub(super) head: Option<&'a HeadFiles>,
    /// What the CPU can do with the threads in use.
    pub(super) cpu: Power,
    /// KV positions of the target.
    pub(super) context: usize,
}

impl Bench<'_> {
    /// Every drafter that can be had.
    pub(super) fn drafters(
        &self,
        progress: &mut dyn FnMut(&str, Option<f32>),
    ) -> Result<Vec<Put>, LoadError> {
        let mut all = Vec::new();
        if let Some(head) = self.head {
            progress("reading the draft head", None);
            let device = self.settings.device;
            all.push(super::head::put(
                head,
                self.target,
                device,
                self.machine,
                self.cpu,
                self.context,
            )?);
        }
        all.push(
            self.without_weights(
                DraftKind::Lookup,
                Box::new(PromptLookup::new(self.context)),
                match (self.settings.draft.as_deref(), self.head) {
                    (Some(LOOKUP), _) => {
                        "The draft is looked up in the conversation, as you asked.".to_owned()
                    }
                    (_, None) => {
                        "No draft head was named (--draft): the draft is looked up in the \
                              conversation."
                            .to_owned()
                    }
                    _ => "The draft is looked up in the conversation.".to_owned(),
                },
            ),
        );
        Ok(all)
    }

    /// A drafter that needs next to no computing.
    fn without_weights(&self, kind: DraftKind, drafter: Box<dyn Drafter>, reason: String) -> Put {
        Put {
            kind,
            drafter,
            on_gpu: false,
            size: DraftSize::NOTHING,
            power: self.cpu,
            blocks: (0, 0),
            reason,
            notice: None,
        }
    }

    /// What a strategy that drafts with `kind` lacks here, with the remedy.
    pub(super) fn missing(&self, kind: DraftKind) -> String {
        match kind {
            DraftKind::Head if self.settings.draft.as_deref() == Some(LOOKUP) => {
                "a draft head, and `draft` is `lookup`: name a head with --draft instead"
            }
            DraftKind::Head => "a draft head made for this target: name one with --draft",
            DraftKind::Small => "a small language model: name one with --draft-model",
            DraftKind::Rest => "a text to look drafts up in: name one with --rest-text",
            DraftKind::None | DraftKind::Lookup | DraftKind::Lookahead => {
                "a drafter that this build does not have"
            }
        }
        .to_owned()
    }
}
