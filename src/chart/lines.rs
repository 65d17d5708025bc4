//! Line charts. They must not depend on what is measured.

use super::page::{AxisLabels, Sheet};
use super::scale::Scale;

const HEIGHT: f64 = 316.0;
/// Curves with more points than this are drawn without markers.
const MARKED: usize = 80;

/// One or more curves.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// Title.
    pub title: String,
    /// What the horizontal axis counts, with its unit.
    pub x: String,
    /// Whether equal distances on it are doublings, as for γ from 1 to 64.
    pub doublings: bool,
    /// What the vertical axis counts.
    pub y: String,
    /// The curves; the legend names them if there is more than one.
    pub series: Vec<Series>,
}

/// One curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Points (x, y) in the order in which they are joined; non-finite ones are left out.
    pub points: Vec<(f64, f64)>,
}

impl Lines {
    /// The chart as SVG text; `None` without a finite value.
    pub fn svg(&self) -> Option<String> {
        let drawn =
            |(x, y): &&(f64, f64)| x.is_finite() && y.is_finite() && (*x > 0.0 || !self.doublings);
        let points = || self.series.iter().flat_map(|series| series.points.iter().filter(drawn));
        points().next()?;
        let x = Scale::new(self.doublings, points().map(|point| point.0), 8, false);
        let y = Scale::new(false, points().map(|point| point.1), 6, true);
        let legend: Vec<&str> = self.series.iter().map(|series| series.name.as_str()).collect();
        let below = AxisLabels { name: &self.x, ticks: x.ticks(), grid: true };
        let beside = AxisLabels { name: &self.y, ticks: y.ticks(), grid: true };
        let mut page = Sheet::new(&self.title, &legend, HEIGHT, &below, &beside);
        for (index, series) in self.series.iter().enumerate() {
            let points = series.points.iter().filter(drawn);
            let places: Vec<[f64; 2]> =
                points.map(|point| [x.share(point.0), y.share(point.1)]).collect();
            page.curve(index, &places, MARKED);
        }
        Some(page.svg())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Lines {
        let series = |name: &str, top: f64| Series {
            name: name.to_owned(),
            points: [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
                .map(|x: f64| (x, top * (1.0 - (-x / 8.0).exp())))
                .to_vec(),
        };
        Lines {
            title: "Speed-up against γ".to_owned(),
            x: "γ, tokens".to_owned(),
            doublings: true,
            y: "times plain".to_owned(),
            series: vec![series("dovetail", 2.25), series("<lookup & co>", 1.1)],
        }
    }

    #[test]
    fn a_chart_has_its_labels_and_one_line_a_series() {
        insta::assert_snapshot!(sample().svg().unwrap());
    }

    #[test]
    fn what_cannot_be_drawn_is_left_out_or_refused() {
        let mut lines = sample();
        lines.series[0].points.extend([(f64::NAN, 1.0), (0.0, 1.0), (3.0, f64::INFINITY)]);
        assert_eq!(lines.svg().unwrap(), sample().svg().unwrap());
        for series in &mut lines.series {
            series.points.clear();
        }
        assert_eq!(lines.svg(), None);
    }
}
