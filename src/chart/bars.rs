//! Horizontal bar charts, plain or stacked. It must not depend on what is measured.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::scale::{NameAxis, Scale, figure};
use super::style;
use super::{Axis, ChartError};

/// Height of a bar with its gap, in pixels.
const ROW: u32 = 30;

/// Bars over a common axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// Title.
    pub title: String,
    /// What the length of a bar means, with its unit.
    pub value: Axis,
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

    fn total(&self) -> f64 {
        self.values().sum()
    }
}

impl Bars {
    /// The chart as SVG text.
    ///
    /// # Errors
    /// [`ChartError`].
    pub fn svg(&self) -> Result<String, ChartError> {
        let longest = self.bars.iter().map(Bar::total).fold(0.0, f64::max);
        if longest <= 0.0 {
            return Err(ChartError::Empty(self.title.clone()));
        }
        // Bars start at 0, so their axis is linear; the label after the longest bar needs room.
        let axis = Axis::linear(self.value.label.clone());
        let value = Scale::new(&axis, std::iter::once(longest * 1.12), 6, false);
        let legend: Vec<&str> = self.parts.iter().map(String::as_str).collect();
        let count = self.bars.len();
        let height = 44 + 60 + 12 + (count as u32).max(self.parts.len() as u32) * ROW;
        style::sheet(&self.title, &legend, height, |sheet| {
            let rows = NameAxis(self.bars.iter().map(|bar| bar.name.clone()).collect());
            let names = rows.0.iter().map(|name| style::text_width(name)).max();
            let mut plot = ChartBuilder::on(sheet)
                .margin_right(24)
                .margin_bottom(12)
                .margin_left(12)
                .x_label_area_size(48)
                .y_label_area_size(names.unwrap_or(0) + 16)
                .build_cartesian_2d(value.clone(), rows)?;
            plot.configure_mesh()
                .disable_y_mesh()
                .light_line_style(TRANSPARENT)
                .bold_line_style(style::grid())
                .axis_style(style::grid())
                .label_style(style::muted())
                .y_label_style(style::ink())
                .axis_desc_style(style::ink())
                .x_labels(value.ticks())
                .y_labels(count)
                .x_desc(&axis.label)
                .draw()?;
            for (row, bar) in self.bars.iter().enumerate() {
                let middle = row as f64 + 0.5;
                let mut from = 0.0;
                for (part, length) in bar.values().enumerate() {
                    let corners = [(from, middle - 0.34), (from + length, middle + 0.34)];
                    let fill = style::colour(part).filled();
                    plot.draw_series([Rectangle::new(corners, fill)])?;
                    from += length;
                }
                let text = style::muted().pos(Pos::new(HPos::Left, VPos::Center));
                let label =
                    EmptyElement::at((from, middle)) + Text::new(figure(from, 3), (6, 0), text);
                plot.draw_series([label])?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Bars {
        let bar =
            |name: &str, values: [f64; 3]| Bar { name: name.to_owned(), values: values.to_vec() };
        Bars {
            title: "Where a round's time goes".to_owned(),
            value: "ms a round".into(),
            parts: ["draft", "verify", "other"].map(str::to_owned).to_vec(),
            bars: vec![bar("plain", [0.0, 5.0, 0.25]), bar("dovetail", [3.0, 7.5, 0.5])],
        }
    }

    /// Widths of the rectangles in one part's colour.
    fn widths(svg: &str, part: usize) -> Vec<i32> {
        let RGBColor(r, g, b) = style::colour(part);
        let fill = format!("fill=\"#{r:02X}{g:02X}{b:02X}\"");
        let bars = svg.lines().filter(|line| line.starts_with("<rect") && line.contains(&fill));
        let width = |line: &str| line.split("width=\"").nth(1)?.split('"').next()?.parse().ok();
        bars.filter_map(width).collect()
    }

    #[test]
    fn parts_are_as_long_as_their_values() {
        let svg = sample().svg().unwrap();
        for words in ["Where a round", "ms a round", "plain", "dovetail", "draft", "5.25\n", "11\n"]
        {
            assert!(svg.contains(words), "{words} is missing from\n{svg}");
        }
        // The first rectangle of a colour belongs to the legend.
        let verify = widths(&svg, 1);
        assert_eq!(verify.len(), 3, "{svg}");
        let ratio = f64::from(verify[2]) / f64::from(verify[1]);
        assert!((ratio - 1.5).abs() < 0.02, "{verify:?}");
    }

    #[test]
    fn bars_without_any_length_are_refused() {
        let mut bars = sample();
        bars.bars.iter_mut().for_each(|bar| bar.values = vec![f64::NAN, -1.0, 0.0]);
        assert!(matches!(bars.svg(), Err(ChartError::Empty(_))));
    }
}
