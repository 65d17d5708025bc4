//! The line format of traces, which `run --json` writes and a scripted worker plays. It must not
//! depend on files.

use super::{Question, RecordHead};
use crate::decode::{Committed, Round, Summary};
use crate::speculate::SamplerSettings;
use crate::worker::{Event, Ready};
use serde::{Deserialize, Serialize};

/// One JSON line; its `type` says which.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    /// The first line of a record.
    Record(RecordHead),
    /// In a record: a question. The lines of its answer follow.
    Question(Box<Question>),
    /// In a record: the sampler was changed in the middle of an answer.
    Sampler {
        /// The new settings.
        sampler: SamplerSettings,
    },
    /// Models are being loaded.
    Loading {
        /// What is being done.
        stage: String,
        /// Progress of the stage, 0 to 1.
        fraction: Option<f32>,
    },
    /// Ready for the first answer.
    Ready(Box<Ready>),
    /// The prompt is being read.
    Prefill {
        /// Tokens done.
        done: usize,
        /// Tokens of the prompt.
        total: usize,
    },
    /// The first token, before round 0.
    First {
        /// The token.
        token: Committed,
        /// Totals so far.
        summary: Box<Summary>,
    },
    /// One round.
    Round(Box<Round>),
    /// The end of an answer.
    Summary {
        /// The complete text, without the thoughts.
        text: String,
        /// The thoughts before it; `None` without thoughts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thought: Option<String>,
        /// The strategy of the last round.
        #[serde(default)]
        strategy: String,
        /// γ of the last round.
        gamma: usize,
        /// M of the last round.
        blocks: usize,
        /// Totals.
        #[serde(flatten)]
        summary: Box<Summary>,
    },
    /// Why automatic control changed its choice.
    Reasons {
        /// One sentence each.
        reasons: Vec<String>,
    },
    /// Something the user should know.
    Notice {
        /// What.
        text: String,
    },
    /// An answer failed, or the models could not be loaded if there was no answer.
    Failed {
        /// The message for the user.
        error: String,
    },
}

/// Turns the events of one answer into lines; it remembers what the last line sums up.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    text: String,
    thought: Option<String>,
    strategy: String,
    gamma: usize,
    blocks: usize,
}

impl Recorder {
    /// The line for `event`; `None` for something that is not finished yet.
    pub fn line(&mut self, event: &Event) -> Option<Line> {
        Some(match event {
            Event::Verifying { .. } => return None,
            Event::Sampled(sampler) => Line::Sampler { sampler: *sampler },
            Event::Loading { stage, fraction } | Event::LoadProgress { stage, fraction, .. } => {
                Line::Loading { stage: stage.clone(), fraction: *fraction }
            }
            Event::Ready(ready) | Event::Swapped { ready, .. } => Line::Ready(ready.clone()),
            Event::Prefill { done, total, .. } => Line::Prefill { done: *done, total: *total },
            // As far as a script needs it: by how much it is too long.
            Event::TooLong { total, .. } => Line::Prefill { done: 0, total: *total },
            Event::First { token, summary, .. } => {
                *self = Self { gamma: 1, ..Self::default() };
                self.add(token);
                Line::First { token: token.clone(), summary: summary.clone() }
            }
            Event::Round { round, .. } => {
                for token in &round.committed {
                    self.add(token);
                }
                self.strategy.clone_from(&round.strategy);
                self.gamma = round.budget.shape.gamma;
                self.blocks = round.budget.blocks;
                Line::Round(round.clone())
            }
            Event::Finished { summary, .. } => {
                let Self { text, thought, strategy, gamma, blocks } = std::mem::take(self);
                let summary = summary.clone();
                Line::Summary { text, thought, strategy, gamma, blocks, summary }
            }
            Event::Reasons(reasons) => Line::Reasons { reasons: reasons.clone() },
            Event::Notice(text) | Event::Unloaded { reason: text, .. } => {
                Line::Notice { text: text.clone() }
            }
            Event::NotSwapped { error, .. } => {
                Line::Notice { text: error.clone().unwrap_or_else(|| "stopped".to_owned()) }
            }
            Event::Failed { error, .. } => Line::Failed { error: error.clone() },
        })
    }

    fn add(&mut self, token: &Committed) {
        token.append_to(&mut self.text, &mut self.thought);
    }
}
