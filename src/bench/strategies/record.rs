//! What is kept of a run: one record an answer, and where and with what they were made. Plain data,
//! written as JSON and read again for a comparison. It must not depend on tables or charts.

use std::hash::Hasher;

use fnv::FnvHasher;
use serde::{Deserialize, Serialize};

use super::{BenchCandidate, CandidateBatch, CandidateLine, SequenceCounts};
use crate::hardware::{Adapter, Machine};
use crate::model::Traffic;
use crate::speculate::Credits;
use crate::worker::Ready;

/// The strategy that all others are measured against.
pub const PLAIN: &str = "plain";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AnswerRecord {
    /// T.
    pub temperature: f32,
    pub set: String,
    /// The prompt in its set.
    pub id: String,
    /// The turn of the conversation, from 0.
    pub turn: usize,
    /// The strategy, or the variant of one.
    pub strategy: String,
    /// Which candidates it took turns with: those of one batch shared a process and its models.
    #[serde(default)]
    pub batch: usize,
    /// Tokens of the prompt, the conversation before included.
    pub prompt_tokens: usize,
    /// Tokens of the answer, the first one included.
    pub tokens: usize,
    /// Target passes after the prefill.
    pub rounds: usize,
    /// Rounds whose tree was drafted while the target verified the previous one.
    #[serde(default, alias = "foreseen")]
    pub drafted_ahead: usize,
    /// Tree nodes that the target checked, roots excluded.
    pub drafted: usize,
    /// From the question to the first token.
    pub ttft_ms: f64,
    /// From the question to the second token, which the first round gives.
    #[serde(default)]
    pub second_ms: f64,
    /// From the first token to the last, by the clock.
    pub decode_ms: f64,
    /// The part of it in which the draft works and the target waits.
    pub draft_ms: f64,
    /// The part of it for the target's passes.
    pub verify_ms: f64,
    /// The part of `verify_ms` in which the drafter worked as well.
    pub ahead_ms: f64,
    /// The part of `decode_ms` in which the target waited for the drafter.
    pub wait_ms: f64,
    /// The part of both in which the drafter is handed over to its thread and back.
    #[serde(default)]
    pub transfer_ms: f64,
    /// The part of `decode_ms` for choosing drafters and trees and learning from rounds.
    #[serde(default)]
    pub plan_ms: f64,
    /// What went over the bus to the GPU and back in all rounds; nothing without a GPU.
    #[serde(default, skip_serializing_if = "Traffic::is_none")]
    pub traffic: Traffic,
    /// Accepted tokens by the sources that proposed them.
    #[serde(default, skip_serializing_if = "Credits::is_empty")]
    pub accepted_by: Credits,
    /// The sequences that DuoDecoding drafted ahead.
    #[serde(default, skip_serializing_if = "SequenceCounts::is_empty")]
    pub sequences: SequenceCounts,
    /// How many rounds accepted at least 1, 2, … tokens of the draft.
    pub accepted: Vec<usize>,
    /// The most memory of the process by the end of the answer, bytes.
    pub ram: u64,
    /// The most video memory of the process by the end of the answer, bytes: as the driver tells,
    /// else what was put there; `None` without a GPU.
    pub vram: Option<u64>,
    /// Fingerprint of the answer's tokens.
    pub digest: String,
    /// The first token that is not plain's, if any is not.
    pub differs_at: Option<usize>,
    /// Its tokens, until they have been compared.
    #[serde(skip)]
    pub token_ids: Vec<u32>,
    /// Its text, until the next turn has it.
    #[serde(skip)]
    pub text: String,
}

/// Where it ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// The processor's own name.
    pub cpu: String,
    /// Physical cores that could be used.
    pub cores: usize,
    /// Compute threads.
    pub threads: usize,
    /// Instruction sets that matter.
    pub features: Vec<String>,
    /// Main memory, bytes.
    pub memory: u64,
    /// The GPU's name, if one is used.
    pub gpu: Option<String>,
}

impl Environment {
    /// This machine with so many compute threads, and the adapter that is used.
    pub fn new(machine: &Machine, threads: usize, adapter: Option<&Adapter>) -> Self {
        Self {
            cpu: machine.cpu.name.clone(),
            cores: machine.cpu.physical,
            threads,
            features: machine.cpu.features.iter().map(|&name| name.to_owned()).collect(),
            memory: machine.memory.total,
            gpu: adapter.map(|adapter| adapter.name.clone()),
        }
    }
}

/// What was run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Models {
    /// The target's name.
    pub target: String,
    /// Its size and format.
    pub target_detail: String,
    /// Where it ran, in words.
    #[serde(default)]
    pub target_place: String,
    /// Name of each strategy or candidate that could run and drafts, with its draft's description.
    pub drafts: Vec<(String, String)>,
    /// Trained weights of a candidate's draft, as many blocks as it uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<(String, u64)>,
    /// Positions of the KV cache.
    pub context: usize,
}

impl From<&Ready> for Models {
    fn from(ready: &Ready) -> Self {
        Self {
            target: ready.target.clone(),
            target_detail: ready.target_detail.clone(),
            target_place: ready.target_place.clone(),
            drafts: ready
                .strategies
                .iter()
                .filter(|status| status.missing.is_none())
                .filter_map(|status| Some((status.name.clone(), status.draft.clone()?)))
                .collect(),
            parameters: Vec::new(),
            context: ready.context,
        }
    }
}

/// The models of a batch: where it loads its own, its drafters go by the candidates' names.
pub fn models_of(ready: &Ready, batch: &CandidateBatch, candidates: &[BenchCandidate]) -> Models {
    let parameters = |candidate: &BenchCandidate| {
        let row = candidate.controls.strategy?;
        let status = ready.strategies.iter().find(|status| status.name == row.name)?;
        let blocks = candidate.controls.tree.blocks.or(status.parameters.len());
        let count = status.parameters.get(blocks.max(1) - 1)?;
        Some((candidate.name.clone(), *count))
    };
    let parameters = candidates.iter().filter_map(parameters).collect();
    let mut all = Models { parameters, ..Models::from(ready) };
    if batch.loads.is_empty() {
        all.drafts.retain(|(name, _)| batch.lines.iter().any(|line| line.row.name == name));
        return all;
    }
    let draft = |line: &CandidateLine| {
        let own = all.drafts.iter().find(|(name, _)| name == line.row.name);
        own.map(|(_, draft)| (line.name.clone(), draft.clone()))
    };
    Models { drafts: batch.lines.iter().filter_map(draft).collect(), ..all }
}

impl Models {
    /// Where target and drafts ran, next to where DuoDecoding has them.
    pub fn duo_places(&self) -> String {
        let drafts: Vec<String> =
            self.drafts.iter().map(|(name, draft)| format!("{name}: {draft}")).collect();
        format!(
            "The paper has the target on a GPU and DuoDecoding's draft on the CPU. Here the target \
             ran {}. Drafts: {}.",
            self.target_place,
            drafts.join("; ")
        )
    }

    /// Adds the drafts of other candidates for the same target.
    pub fn add(&mut self, other: Self) {
        if self.target.is_empty() {
            *self = other;
            return;
        }
        for draft in other.drafts {
            if !self.drafts.contains(&draft) {
                self.drafts.push(draft);
            }
        }
        self.parameters.extend(other.parameters);
    }
}

/// A curve that was measured: variants of a strategy by the value of one setting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// What it shows.
    pub title: String,
    /// The setting, with its unit.
    pub axis: String,
    /// Name of the variant in the answers, and the setting's value; `None` where the program chose.
    pub points: Vec<(String, Option<f64>)>,
    /// Tokens per second that the plan expected of a variant, by its name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expected: Vec<(String, f64)>,
}

impl Sweep {
    /// A curve without points.
    pub fn new(title: &str, axis: &str) -> Self {
        Self { title: title.to_owned(), axis: axis.to_owned(), ..Self::default() }
    }
}

/// One run of the bench.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// `strategies`, `sweep` or `paper`.
    pub kind: String,
    /// The program's version.
    pub version: String,
    /// Where.
    #[serde(alias = "place")]
    pub environment: Environment,
    /// With what.
    pub models: Models,
    /// Most tokens of an answer.
    pub max_tokens: usize,
    /// The sampler's seed.
    pub seed: u64,
    /// Flags that hold for all strategies, as they were given.
    pub settings: Vec<String>,
    /// Notices of loading and measuring.
    pub notes: Vec<String>,
    /// Whether it ran to its end.
    pub complete: bool,
    /// The curves of a sweep.
    #[serde(default)]
    pub sweeps: Vec<Sweep>,
    /// One record an answer.
    pub answers: Vec<AnswerRecord>,
}

impl Results {
    /// The number of a batch that is measured next.
    pub fn next_batch(&self) -> usize {
        self.answers.iter().map(|answer| answer.batch + 1).max().unwrap_or(0)
    }

    /// Adds what another process measured of the same run.
    pub fn add_batch(&mut self, other: Self) {
        let first = self.next_batch();
        let renumbered =
            |answer: AnswerRecord| AnswerRecord { batch: answer.batch + first, ..answer };
        self.answers.extend(other.answers.into_iter().map(renumbered));
        self.models.add(other.models);
        self.notes.extend(other.notes);
        self.complete &= other.complete;
    }
}

/// A fingerprint of tokens (64-bit FNV-1a), for telling texts of two runs apart.
pub(super) fn digest(tokens: &[u32]) -> String {
    let mut hash = FnvHasher::default();
    for token in tokens {
        hash.write(&token.to_le_bytes());
    }
    format!("{:016x}", hash.finish())
}

/// The first place at which two answers are not the same; `None` if they are.
pub(super) fn difference(ours: &[u32], theirs: &[u32]) -> Option<usize> {
    let alike = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    (alike < ours.len().max(theirs.len())).then_some(alike)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_difference_is_found_wherever_it_is() {
        assert_eq!(difference(&[1, 2, 3], &[1, 2, 3]), None);
        assert_eq!(difference(&[1, 2, 3], &[1, 9, 3]), Some(1));
        assert_eq!(difference(&[1, 2], &[1, 2, 3]), Some(2));
        assert_eq!(difference(&[1, 2, 3], &[]), Some(0));
    }

    proptest! {
        #[test]
        fn equal_answers_and_only_those_have_no_difference(
            a in prop::collection::vec(0u32..4, 0..12), b in prop::collection::vec(0u32..4, 0..12),
        ) {
            prop_assert_eq!(difference(&a, &b).is_none(), a == b);
            prop_assert_eq!(digest(&a) == digest(&b), a == b);
        }
    }
}
