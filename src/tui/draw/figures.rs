//! Formatted numbers and small bars. Must never know what they measure.

use std::time::Duration;

pub use crate::printable::{bytes, count};

const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A thin bar of `width` cells of which `share` (0 to 1) is filled, to half a cell.
pub fn bar(share: f64, width: usize) -> String {
    let halves = (share.clamp(0.0, 1.0) * (width * 2) as f64).round() as usize;
    (0..width).map(|cell| [' ', '╸', '━'][halves.saturating_sub(cell * 2).min(2)]).collect()
}

/// The last `width` values as columns, the greatest as high as all `rows`; the top row first.
pub fn spark(values: impl ExactSizeIterator<Item = f64>, width: usize, rows: usize) -> Vec<String> {
    let skip = values.len().saturating_sub(width);
    let values: Vec<f64> = values.skip(skip).collect();
    let top = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let part = |row: usize, value: f64| {
        let eighths = 1 + (value / top * (8 * rows - 1) as f64).round() as usize;
        match eighths.saturating_sub(8 * row).min(8) {
            0 => ' ',
            part => HEIGHTS[part - 1],
        }
    };
    let row = |row| values.iter().map(|value| part(row, *value)).collect();
    (0..rows).rev().map(row).collect()
}

/// A column as high as `share` (0 to 1) of a cell.
pub fn column(share: f64) -> char {
    HEIGHTS[(share * 7.0).round().clamp(0.0, 7.0) as usize]
}

/// `1 step`, `19 steps`.
pub fn many(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// `24 tokens in 6 rounds`.
pub fn tokens_in(tokens: usize, rounds: usize) -> String {
    format!("{} in {}", many(tokens, "token"), many(rounds, "round"))
}

/// `41.2`, `132`, and `–` for nothing yet.
pub fn rate(per_second: f64) -> String {
    if per_second <= 0.0 {
        "–".to_string()
    } else if per_second < 99.95 {
        format!("{per_second:.1}")
    } else {
        format!("{per_second:.0}")
    }
}

/// `8.1 ms`, `120 ms`, `1.24 s`.
pub fn time(ms: f64) -> String {
    if ms < 999.5 { format!("{} ms", short(ms)) } else { format!("{:.2} s", ms / 1000.0) }
}

/// Milliseconds without their unit: `8.1`, `120`.
pub fn short(ms: f64) -> String {
    if ms < 9.95 { format!("{ms:.1}") } else { format!("{ms:.0}") }
}

/// `12 s`, `3 min 20 s`.
pub fn elapsed(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 60 {
        format!("{seconds} s")
    } else {
        format!("{} min {} s", seconds / 60, seconds % 60)
    }
}

/// `62%`, `<1%`.
pub fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.005 { "<1%".to_string() } else { format!("{:.0}%", share * 100.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_fill_by_halves() {
        assert_eq!(bar(0.0, 3), "   ");
        assert_eq!(bar(1.0, 3), "━━━");
        assert_eq!(bar(0.5, 3), "━╸ ");
        assert_eq!(bar(7.0, 1), "━");
        assert_eq!(bar(f64::NAN, 2), "  ");
    }

    #[test]
    fn sparks_show_the_latest() {
        assert_eq!(spark([1.0, 8.0, 4.0].into_iter(), 2, 1), ["█▅"]);
        assert_eq!(spark([0.0, 0.0].into_iter(), 9, 1), ["▁▁"]);
        assert_eq!(spark([0.0, 8.0, 4.0, 5.0].into_iter(), 9, 2), [" █▁▂", "▁███"]);
    }

    #[test]
    fn numbers_keep_their_width() {
        assert_eq!([rate(0.0), rate(4.16), rate(99.96)], ["–", "4.2", "100"]);
        assert_eq!([time(3.06), time(41.7), time(1234.0)], ["3.1 ms", "42 ms", "1.23 s"]);
        assert_eq!([percent(0.001), percent(0.5), percent(1.0)], ["<1%", "50%", "100%"]);
    }
}
