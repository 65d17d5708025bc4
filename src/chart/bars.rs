//! Horizontal bar charts, plain or stacked. They must not depend on what is measured.

use super::page::{AxisLabels, Sheet, colour};
use super::scale::{Scale, figure, names};

/// Height of a bar with its gap, in pixels.
const ROW: f64 = 30.0;

/// Bars over a common axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// Title.
    pub title: String,
    /// What the length of a bar means, with its unit.
    pub unit: String,
    /// Names of the stacked parts; the legend shows them if there is more than one.
    pub parts: Vec<String>,
    /// The bars, from the top.
    pub bars: Vec<Bar>,
}

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// The label next to the bar.
    pub name: String,
    /// Length of each part in the order of [`Bars::parts`]; a length of 0 or less is not drawn.
    pub values: Vec<f64>,
}

impl Bar {
    fn values(&self) -> impl Iterator<Item = f64> + '_ {
        self.values.iter().map(|&value| if value.is_finite() { value.max(0.0) } else { 0.0 })
    }
}

impl Bars {
    /// The chart as SVG text; `None` without a finite value.
    pub fn svg(&self) -> Option<String> {
        let longest = self.bars.iter().map(|bar| bar.values().sum()).fold(0.0, f64::max);
        if longest <= 0.0 {
            return None;
        }
        // The label after the longest bar needs room.
        let scale = Scale::new(false, std::iter::once(longest * 1.12), 6, false);
        let legend: Vec<&str> = self.parts.iter().map(String::as_str).collect();
        let rows = names(self.bars.iter().rev().map(|bar| &bar.name));
        let below = AxisLabels { name: &self.unit, ticks: scale.ticks(), grid: true };
        let beside = AxisLabels { name: "", ticks: rows, grid: false };
        let height = self.bars.len().max(self.parts.len()) as f64 * ROW;
        let mut page = Sheet::new(&self.title, &legend, height, &below, &beside);
        for (bar, row) in self.bars.iter().rev().zip(&beside.ticks) {
            let half = 0.34 / self.bars.len() as f64;
            let mut from = 0.0;
            for (part, length) in bar.values().enumerate() {
                let x = [scale.share(from), scale.share(from + length)];
                page.area(x, [row.at - half, row.at + half], format!("fill=\"{}\"", colour(part)));
                from += length;
            }
            page.label([scale.share(from), row.at], false, &figure(from, 3));
        }
        Some(page.svg())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_as_long_as_their_values() {
        let bar =
            |name: &str, values: [f64; 3]| Bar { name: name.to_owned(), values: values.to_vec() };
        let mut bars = Bars {
            title: "Where a round's time goes".to_owned(),
            unit: "ms per round".to_owned(),
            parts: ["draft", "verify", "other"].map(str::to_owned).to_vec(),
            bars: vec![bar("plain", [0.0, 5.0, 0.25]), bar("dovetail", [3.0, 7.5, 0.5])],
        };
        insta::assert_snapshot!(bars.svg().unwrap());
        bars.bars = vec![bar("nothing", [f64::NAN, -1.0, 0.0])];
        assert!(bars.svg().is_none());
    }
}
