//! From values to positions on an axis: range, ticks and tick labels. It must not depend on what is
//! measured.

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use std::ops::Range;

use super::Axis;

/// An axis that fits its values.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    doublings: bool,
    /// The range, in positions and not in values.
    range: Range<f64>,
    /// Positions of the ticks.
    ticks: Vec<f64>,
    step: f64,
}

impl Scale {
    /// Covers `values` (finite ones, at least one); starts at 0 if it shows differences, so that
    /// heights can be compared. There are about `most` ticks. If `whole`, the range ends with a
    /// tick.
    pub(super) fn new(
        axis: &Axis,
        values: impl Iterator<Item = f64> + Clone,
        most: usize,
        whole: bool,
    ) -> Self {
        let places = values.map(|value| place(axis.doublings, value)).filter(|x| x.is_finite());
        let (mut low, mut high) = places
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
        if axis.doublings {
            (low, high) = (low.floor(), high.ceil());
        } else {
            low = low.min(0.0);
            high = high.max(0.0);
        }
        if high <= low {
            high = low + 1.0;
        }
        let mut step = nice(high - low, most);
        if axis.doublings {
            step = step.max(1.0);
        }
        let first = (low / step).floor();
        let low = if low < 0.0 || axis.doublings { first * step } else { low };
        if whole {
            high = (high / step - 1e-9).ceil() * step;
        }
        let count = ((high - first * step) / step + 1e-9).floor() as usize;
        let ticks = (0..=count).map(|i| (first + i as f64) * step).collect();
        Self { doublings: axis.doublings, range: low..high, ticks, step }
    }

    /// How many ticks there are.
    pub(super) fn ticks(&self) -> usize {
        self.ticks.len()
    }

    /// Tick labels.
    pub(super) fn labels(&self) -> impl Iterator<Item = String> + '_ {
        self.ticks.iter().map(|&tick| self.label(tick))
    }

    fn label(&self, tick: f64) -> String {
        if self.doublings {
            return figure(tick.exp2(), 3);
        }
        let decimals = (-(self.step.log10() + 1e-9).floor()).max(0.0) as usize;
        let text = format!("{tick:.decimals$}");
        if text.trim_start_matches('-').chars().all(|c| c == '0' || c == '.') {
            "0".to_owned()
        } else {
            text
        }
    }
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = place(self.doublings, *value) - self.range.start;
        between(share / (self.range.end - self.range.start), limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        let value = |&tick: &f64| if self.doublings { tick.exp2() } else { tick };
        self.ticks.iter().map(value).collect()
    }

    fn range(&self) -> Range<f64> {
        let value = |place: f64| if self.doublings { place.exp2() } else { place };
        value(self.range.start)..value(self.range.end)
    }
}

impl ValueFormatter<f64> for Scale {
    fn format_ext(&self, value: &f64) -> String {
        self.label(place(self.doublings, *value))
    }
}

/// An axis of names, the first one at the top; row i is around i + 0.5.
#[derive(Clone, Debug)]
pub(super) struct NameAxis(pub(super) Vec<String>);

impl Ranged for NameAxis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        between(1.0 - value / self.0.len() as f64, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        (0..self.0.len()).map(|row| row as f64 + 0.5).collect()
    }

    fn range(&self) -> Range<f64> {
        0.0..self.0.len() as f64
    }
}

impl ValueFormatter<f64> for NameAxis {
    fn format_ext(&self, value: &f64) -> String {
        self.0.get(*value as usize).cloned().unwrap_or_default()
    }
}

/// The pixel at this share of the way.
fn between(share: f64, limit: (i32, i32)) -> i32 {
    let (from, to) = limit;
    from + (share * f64::from(to - from)).round() as i32
}

fn place(doublings: bool, value: f64) -> f64 {
    if doublings { value.log2() } else { value }
}

/// A step of 1, 2 or 5 times a power of ten that divides `span` into about `most` parts at most.
fn nice(span: f64, most: usize) -> f64 {
    let rough = span / most.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    let fits = steps.iter().find(|&&step| step * power >= rough * (1.0 - 1e-9));
    fits.copied().unwrap_or(10.0) * power
}

/// A value with `digits` significant digits and no trailing zeros.
pub(super) fn figure(value: f64, digits: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let decimals = (digits - 1 - value.abs().log10().floor() as i32).max(0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(axis: &Axis, values: &[f64], whole: bool) -> String {
        let scale = Scale::new(axis, values.iter().copied(), 6, whole);
        scale.labels().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ticks_are_round_numbers() {
        let linear = Axis::linear("");
        assert_eq!(labels(&linear, &[0.3, 2.25], true), "0 0.5 1.0 1.5 2.0 2.5");
        assert_eq!(labels(&linear, &[1.0, 980.0], true), "0 200 400 600 800 1000");
        assert_eq!(labels(&linear, &[-0.012, 0.03], true), "-0.02 -0.01 0 0.01 0.02 0.03");
        assert_eq!(labels(&linear, &[0.0], true), "0 0.2 0.4 0.6 0.8 1.0");
        assert_eq!(labels(&Axis::doublings(""), &[1.0, 16.0, 64.0], false), "1 2 4 8 16 32 64");
        assert_eq!(labels(&Axis::doublings(""), &[4.0], false), "4 8");
    }

    #[test]
    fn figures_have_no_trailing_zeros() {
        let figures: Vec<String> =
            [0.0, 2.5, 1234.5, 0.0123456, 10.0].map(|x| figure(x, 3)).to_vec();
        assert_eq!(figures.join(" "), "0 2.5 1234 0.0123 10");
    }

    proptest! {
        #[test]
        fn a_scale_holds_its_values_and_its_ticks(
            values in prop::collection::vec(-1e6f64..1e6, 1..20), most in 2usize..12,
        ) {
            let scale = Scale::new(&Axis::linear(""), values.iter().copied(), most, true);
            for value in values.iter().chain(&scale.key_points(0)) {
                let pixel = scale.map(value, (400, 0));
                prop_assert!((0..=400).contains(&pixel), "{value} lies at {pixel}");
            }
            prop_assert!(scale.ticks() >= 2 && scale.ticks() <= 2 * most + 3);
        }
    }
}
