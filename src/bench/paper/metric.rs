//! What the papers' tables and figures show of a candidate: how it is named, computed and written.

use serde::Deserialize;

use crate::bench::strategies::{AnswerGrid, PLAIN};
use crate::bench::table::{percent, times, two_digits};

/// A figure of a candidate, on one prompt set or on all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Tokens per second; on all sets their mean, as for the next three.
    TokensS,
    /// The same, relative to the target alone in its first placement.
    OverPlain,
    /// The same, relative to the target alone in turn with the candidate.
    SpeedUp,
    /// Tokens per pass of the target.
    Tau,
    /// The mean length of the prompts of a set.
    PromptTokens,
    /// Nodes that the target verifies in a round, the root included.
    Nodes,
    /// The drafter's work in a round, during the target's pass too.
    DraftMs,
    /// The target's pass in a round.
    VerifyMs,
    /// Their ratio.
    VerifyOverDraft,
    /// Acceptance, commit, text and planning in a round.
    AcceptMs,
    /// Handing the drafter over to its thread and back in a round.
    TransferMs,
    /// The time to the first token relative to plain.
    FirstToken,
    /// The same for the second token.
    SecondToken,
    /// The share of a round in which the target waits.
    TargetWaits,
    /// The share of a round in which the draft waits.
    DraftWaits,
    /// A whole round.
    RoundMs,
    /// The most video memory, 10⁹ bytes.
    PeakMemoryGb,
}

impl Metric {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::TokensS => "tokens/s",
            Self::OverPlain | Self::SpeedUp => "speed-up",
            Self::Tau => "τ",
            Self::PromptTokens => "tokens in the prompt",
            Self::Nodes => "nodes",
            Self::DraftMs => "draft ms",
            Self::VerifyMs => "verify ms",
            Self::VerifyOverDraft => "ratio",
            Self::AcceptMs => "accept ms",
            Self::TransferMs => "transfer ms",
            Self::FirstToken => "first token",
            Self::SecondToken => "second token",
            Self::TargetWaits => "target waits",
            Self::DraftWaits => "draft waits",
            Self::RoundMs => "round ms",
            Self::PeakMemoryGb => "peak video memory, GB",
        }
    }

    /// `None` if it was not measured.
    pub(super) fn value(
        self,
        grid: &AnswerGrid<'_>,
        candidate: &str,
        set: Option<&str>,
    ) -> Option<f64> {
        let figures = |name| set.map_or_else(|| grid.all(name), |set| grid.at(name, set));
        let own = figures(candidate);
        if own.answers == 0 {
            return None;
        }
        let tokens_s = |name| match set {
            Some(_) => figures(name).tokens_s,
            None => grid.mean(name, |figures| figures.tokens_s),
        };
        let draft_ms = own.draft_ms + own.ahead_ms + own.wait_ms;
        let of_round = |ms: f64| 100.0 * ms / own.round_ms().max(f64::MIN_POSITIVE);
        match (self, set) {
            (Self::TokensS, _) => Some(tokens_s(candidate)),
            (Self::OverPlain, _) => ratio(tokens_s(candidate), tokens_s(PLAIN)),
            (Self::SpeedUp, Some(set)) => grid.speed_up(candidate, set),
            (Self::SpeedUp, None) => grid.mean_speed_up(candidate),
            (Self::Tau, Some(_)) => Some(own.tau),
            (Self::Tau, None) => Some(grid.mean(candidate, |figures| figures.tau)),
            (Self::PromptTokens, _) => Some(own.prompt_tokens),
            (Self::Nodes, _) => Some(own.drafted + 1.0),
            (Self::DraftMs, _) => Some(draft_ms),
            (Self::VerifyMs, _) => Some(own.verify_ms),
            (Self::VerifyOverDraft, _) => ratio(own.verify_ms, draft_ms),
            (Self::AcceptMs, _) => Some(own.other_ms + own.plan_ms),
            (Self::TransferMs, _) => Some(own.transfer_ms),
            (Self::FirstToken, Some(set)) => {
                grid.relative(candidate, set, |figures| figures.ttft_ms)
            }
            (Self::SecondToken, Some(set)) => {
                grid.relative(candidate, set, |figures| figures.second_ms)
            }
            (Self::FirstToken | Self::SecondToken, None) => {
                let of_set = |set: &&str| self.value(grid, candidate, Some(set));
                let times: Vec<f64> = grid.sets.iter().filter_map(of_set).collect();
                Some(times.iter().sum::<f64>() / times.len().max(1) as f64)
            }
            (Self::TargetWaits, _) => Some(of_round(own.draft_ms + own.wait_ms)),
            (Self::DraftWaits, _) if candidate == PLAIN => None,
            (Self::DraftWaits, _) => Some(of_round(own.verify_ms - own.ahead_ms)),
            (Self::RoundMs, _) => Some(own.round_ms()),
            (Self::PeakMemoryGb, _) => own.vram.map(|bytes| bytes as f64 / 1e9),
        }
    }

    /// A value with its unit, as far as the name does not say it.
    pub(super) fn text(self, value: f64) -> String {
        match self {
            Self::OverPlain
            | Self::SpeedUp
            | Self::VerifyOverDraft
            | Self::FirstToken
            | Self::SecondToken => times(Some(value)),
            Self::PromptTokens => format!("{value:.0}"),
            Self::Nodes => format!("{value:.1}"),
            Self::TargetWaits | Self::DraftWaits => percent(value / 100.0),
            _ => two_digits(value),
        }
    }
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}
