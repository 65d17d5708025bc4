//! What speculation gains, in words and in its style. Must never compute it.

use ratatui::style::Style;

use crate::tui::state::{Meters, Pays, Speedup};
use crate::tui::theme::Styles;

/// Stands next to the rate while the answer is slowed: the text comes later than the rate says.
pub(super) const SLOWED: &str = "slowed for watching";

/// Style of a speed-up: what was measured stands out, an estimate does not.
pub(super) fn style(speedup: Speedup, styles: &Styles) -> Style {
    if speedup.measured { of(speedup.ratio, styles) } else { styles.dim }
}

/// Style of a measured speed over that of plain decoding: only a gain has the colour of one.
pub(super) fn of(ratio: f64, styles: &Styles) -> Style {
    match Pays::of(ratio) {
        Pays::Faster => styles.accepted,
        Pays::Same => styles.text,
        Pays::Slower => styles.warning,
    }
}

/// τ in words: `4.62 tokens per round`, and `–` before the first round.
pub(super) fn tokens_per_round(meters: &Meters) -> (String, &'static str) {
    let tau = if meters.rounds() == 0 { "–".to_string() } else { format!("{:.2}", meters.tau()) };
    (tau, " tokens per round")
}
