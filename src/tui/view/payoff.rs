//! What speculation wins, in words and in its style. Must never compute it.

use ratatui::style::Style;

use crate::tui::state::{Meters, Pays, Speedup};
use crate::tui::theme::Styles;

/// Style of a speed-up: what was measured stands out, an estimate does not.
pub(super) fn style(speedup: Speedup, styles: &Styles) -> Style {
    if speedup.measured { of(speedup.ratio, styles) } else { styles.dim }
}

/// Style of a measured speed over that of plain decoding: only what is won has the colour of it.
pub(super) fn of(ratio: f64, styles: &Styles) -> Style {
    match Pays::of(ratio) {
        Pays::Faster => styles.accepted,
        Pays::Same => styles.text,
        Pays::Slower => styles.warning,
    }
}

/// τ in words: `4.62 tokens a step`, and `–` before the first round.
pub(super) fn tokens_a_step(meters: &Meters) -> (String, &'static str) {
    let tau = if meters.rounds() == 0 { "–".to_string() } else { format!("{:.2}", meters.tau()) };
    (tau, " tokens a step")
}
