//! Line charts. Must never know what is measured.

use plotters::prelude::*;

use super::scale::Scale;
use super::style::{self, Plot, Sheet};
use super::{Axis, ChartError};

const HEIGHT: u32 = 420;
/// Curves with more points than this are drawn without markers.
const MARKED: usize = 80;

/// One or more curves.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// Title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
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
    /// The chart as SVG text.
    ///
    /// # Errors
    /// [`ChartError`].
    pub fn svg(&self) -> Result<String, ChartError> {
        let finite = |&(x, y): &(f64, f64)| {
            let drawn =
                |axis: &Axis, value: f64| value.is_finite() && !(axis.doublings && value <= 0.0);
            drawn(&self.x, x) && drawn(&self.y, y)
        };
        let curves: Vec<Vec<(f64, f64)>> = self
            .series
            .iter()
            .map(|series| series.points.iter().copied().filter(finite).collect())
            .collect();
        let points = || curves.iter().flatten();
        if points().next().is_none() {
            return Err(ChartError::Empty(self.title.clone()));
        }
        let x = Scale::new(&self.x, points().map(|point| point.0), 8, false);
        let y = Scale::new(&self.y, points().map(|point| point.1), 6, true);
        let legend: Vec<&str> = self.series.iter().map(|series| series.name.as_str()).collect();
        style::sheet(&self.title, &legend, HEIGHT, |sheet| {
            let mut plot = self.axes(sheet, &x, &y)?;
            curves.into_iter().enumerate().try_for_each(|(i, points)| curve(&mut plot, i, points))
        })
    }

    fn axes<'a, 'b>(
        &self,
        sheet: &'a Sheet<'b>,
        x: &Scale,
        y: &Scale,
    ) -> Result<Plot<'a, 'b, Scale, Scale>, ChartError> {
        let widest = y.labels().map(|label| style::text_width(&label)).max();
        let mut plot = ChartBuilder::on(sheet)
            .margin_right(24)
            .margin_bottom(12)
            .margin_left(12)
            .x_label_area_size(48)
            .y_label_area_size(widest.unwrap_or(0) + 36)
            .build_cartesian_2d(x.clone(), y.clone())?;
        plot.configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(style::grid())
            .axis_style(style::grid())
            .label_style(style::muted())
            .axis_desc_style(style::ink())
            .x_labels(x.ticks())
            .y_labels(y.ticks())
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .draw()?;
        Ok(plot)
    }
}

fn curve(
    plot: &mut Plot<'_, '_, Scale, Scale>,
    index: usize,
    points: Vec<(f64, f64)>,
) -> Result<(), ChartError> {
    let line = ShapeStyle::from(&style::colour(index)).stroke_width(2);
    let mark = if style::second_turn(index) { line } else { line.filled() };
    if points.len() <= MARKED {
        plot.draw_series(points.iter().map(|&point| Circle::new(point, 3, mark)))?;
    }
    plot.draw_series(LineSeries::new(points, line))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Lines {
        let series = |name: &str, top: f64| Series {
            name: name.to_owned(),
            points: [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
                .into_iter()
                .map(|x: f64| (x, top * (1.0 - (-x / 8.0).exp())))
                .collect(),
        };
        Lines {
            title: "Speed-up against γ".to_owned(),
            x: Axis::doublings("γ, tokens"),
            y: "times plain".into(),
            series: vec![series("dovetail", 2.25), series("<lookup & co>", 1.1)],
        }
    }

    #[test]
    fn a_chart_has_its_labels_and_one_line_a_series() {
        let svg = sample().svg().unwrap();
        for words in [
            "Speed-up against γ",
            "γ, tokens",
            "times plain",
            "dovetail",
            "&lt;lookup &amp; co&gt;",
        ] {
            assert!(svg.contains(words), "{words} is missing from\n{svg}");
        }
        for tick in ["\n1\n", "1\n", "64\n", "2.5\n"] {
            assert!(svg.contains(tick), "{tick:?} is missing from\n{svg}");
        }
        for colour in [style::colour(0), style::colour(1)] {
            let stroke = format!("stroke=\"#{:02X}{:02X}{:02X}\"", colour.0, colour.1, colour.2);
            let drawn = svg.lines().filter(|l| l.starts_with("<polyline") && l.contains(&stroke));
            assert_eq!(drawn.count(), 1, "{svg}");
        }
        assert!(svg.contains("prefers-color-scheme: dark"));
        assert!(svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn what_cannot_be_drawn_is_left_out_or_refused() {
        let mut lines = sample();
        lines.series[0].points.extend([(f64::NAN, 1.0), (0.0, 1.0), (3.0, f64::INFINITY)]);
        assert_eq!(lines.svg().unwrap(), sample().svg().unwrap());
        lines.series.iter_mut().for_each(|series| series.points.clear());
        assert!(lines.svg().unwrap_err().to_string().contains("Speed-up against γ"));
    }
}
