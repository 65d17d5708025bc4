//! From values to positions on an axis: range, ticks and tick labels. It must not depend on what is
//! measured.

use super::page::Tick;

/// An axis that fits its values.
pub(super) struct Scale {
    /// Whether equal distances are doublings, as for γ from 1 to 64; values must then be above 0.
    doublings: bool,
    /// The range, in positions and not in values.
    low: f64,
    high: f64,
    step: f64,
}

impl Scale {
    /// Covers `values` (finite ones, at least one); starts at 0 if it shows differences, so that
    /// heights can be compared. There are about `most` ticks. If `whole`, the range ends with a
    /// tick.
    pub(super) fn new(
        doublings: bool,
        values: impl Iterator<Item = f64>,
        most: usize,
        whole: bool,
    ) -> Self {
        let mut low = f64::INFINITY;
        let mut high = f64::NEG_INFINITY;
        for value in values {
            let place = if doublings { value.log2() } else { value };
            low = low.min(if doublings { place.floor() } else { place.min(0.0) });
            high = high.max(if doublings { place.ceil() } else { place.max(0.0) });
        }
        if high <= low {
            high = low + 1.0;
        }
        let step = nice(high - low, most).max(if doublings { 1.0 } else { 0.0 });
        if whole {
            high = (high / step - 1e-9).ceil() * step;
        }
        Self { doublings, low: (low / step).floor() * step, high, step }
    }

    /// How far along the axis a value lies.
    pub(super) fn share(&self, value: f64) -> f64 {
        let place = if self.doublings { value.log2() } else { value };
        (place - self.low) / (self.high - self.low)
    }

    pub(super) fn ticks(&self) -> Vec<Tick> {
        let span = self.high - self.low;
        let count = (span / self.step + 1e-9).floor() as usize;
        let at = |index: usize| index as f64 * self.step;
        let tick = |index| Tick { at: at(index) / span, label: self.label(self.low + at(index)) };
        (0..=count).map(tick).collect()
    }

    fn label(&self, tick: f64) -> String {
        if self.doublings {
            return figure(tick.exp2(), 3);
        }
        if tick.abs() < self.step / 2.0 {
            return "0".to_owned();
        }
        let decimals = (-(self.step.log10() + 1e-9).floor()).max(0.0) as usize;
        format!("{tick:.decimals$}")
    }
}

/// Names along an axis, at even distances.
pub(super) fn names<'a>(names: impl ExactSizeIterator<Item = &'a String>) -> Vec<Tick> {
    let count = names.len() as f64;
    let tick =
        |(at, name): (usize, &String)| Tick { at: (at as f64 + 0.5) / count, label: name.clone() };
    names.enumerate().map(tick).collect()
}

/// A step of 1, 2 or 5 times a power of ten that divides `span` into about `most` parts at most.
fn nice(span: f64, most: usize) -> f64 {
    let rough = span / most.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let fits = |step: &f64| step * power >= rough * (1.0 - 1e-9);
    [1.0, 2.0, 5.0].into_iter().find(fits).unwrap_or(10.0) * power
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

    #[test]
    fn ticks_are_round_numbers() {
        for (doublings, values, whole, labels) in [
            (false, &[0.3, 2.25][..], true, "0 0.5 1.0 1.5 2.0 2.5"),
            (false, &[1.0, 980.0], true, "0 200 400 600 800 1000"),
            (false, &[-0.012, 0.03], true, "-0.02 -0.01 0 0.01 0.02 0.03"),
            (false, &[0.0], true, "0 0.2 0.4 0.6 0.8 1.0"),
            (true, &[1.0, 16.0, 64.0], false, "1 2 4 8 16 32 64"),
            (true, &[4.0], false, "4 8"),
        ] {
            let scale = Scale::new(doublings, values.iter().copied(), 6, whole);
            let texts: Vec<String> = scale.ticks().into_iter().map(|tick| tick.label).collect();
            assert_eq!(texts.join(" "), labels);
        }
        let figures = [0.0, 2.5, 1234.5, 0.0123456, 10.0].map(|x| figure(x, 3));
        assert_eq!(figures.join(" "), "0 2.5 1234 0.0123 10");
    }

    proptest! {
        #[test]
        fn a_scale_holds_its_values_and_its_ticks(
            values in prop::collection::vec(-1e6f64..1e6, 1..20), most in 2usize..12,
        ) {
            let scale = Scale::new(false, values.iter().copied(), most, true);
            let ticks = scale.ticks();
            let places = values.iter().map(|value| scale.share(*value));
            for at in places.chain(ticks.iter().map(|tick| tick.at)) {
                prop_assert!((-1e-9..=1.0 + 1e-9).contains(&at), "{at}");
            }
            prop_assert!(ticks.len() >= 2 && ticks.len() <= 2 * most + 3);
        }
    }
}
