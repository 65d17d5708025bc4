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
    /// Drafting in a round.
    DraftMs,
    /// The target's pass in a round.
    VerifyMs,
    /// Their ratio.
    VerifyOverDraft,
    /// The time to the first token relative to plain.
    FirstToken,
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
            Self::FirstToken => "relative to plain",
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
            None => grid.mean_tokens_s(name),
        };
        let of_round = |ms: f64| 100.0 * ms / own.round_ms().max(f64::MIN_POSITIVE);
        match (self, set) {
            (Self::TokensS, _) => Some(tokens_s(candidate)),
            (Self::OverPlain, _) => ratio(tokens_s(candidate), tokens_s(PLAIN)),
            (Self::SpeedUp, Some(set)) => grid.speed_up(candidate, set),
            (Self::SpeedUp, None) => grid.mean_speed_up(candidate),
            (Self::Tau, Some(_)) => Some(own.tau),
            (Self::Tau, None) => Some(grid.mean_tau(candidate)),
            (Self::PromptTokens, set) => grid.prompt_tokens(candidate, set?),
            (Self::Nodes, _) => Some(own.drafted + 1.0),
            (Self::DraftMs, _) => Some(own.draft_ms),
            (Self::VerifyMs, _) => Some(own.verify_ms),
            (Self::VerifyOverDraft, _) => ratio(own.verify_ms, own.draft_ms),
            (Self::FirstToken, Some(set)) => grid.first_token(candidate, set),
            (Self::FirstToken, None) => {
                let sets = grid.sets.iter().filter_map(|set| grid.first_token(candidate, set));
                let times: Vec<f64> = sets.collect();
                Some(times.iter().sum::<f64>() / times.len().max(1) as f64)
            }
            (Self::TargetWaits, _) => Some(of_round(own.draft_ms + own.wait_ms)),
            (Self::DraftWaits, _) => Some(of_round(own.verify_ms - own.ahead_ms)),
            (Self::RoundMs, _) => Some(own.round_ms()),
            (Self::PeakMemoryGb, _) => own.vram.map(|bytes| bytes as f64 / 1e9),
        }
    }

    /// A value with its unit, as far as the name does not say it.
    pub(super) fn text(self, value: f64) -> String {
        match self {
            Self::OverPlain | Self::SpeedUp | Self::VerifyOverDraft | Self::FirstToken => {
                times(Some(value))
            }
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
