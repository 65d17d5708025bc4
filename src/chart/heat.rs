//! Heat maps: a rectangle of values, in a stronger colour where they are larger. It must not depend
//! on what is measured.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::ChartError;
use super::scale::{NameAxis, figure};
use super::style;

/// Height of a row, in pixels.
const ROW: u32 = 34;
/// The colours of the smallest and of the largest value, as fractions of the full colour.
const FAINT: f64 = 0.08;
const FULL: f64 = 0.85;

/// Values by row and column.
#[derive(Clone, Debug, PartialEq)]
pub struct Heat {
    /// Title.
    pub title: String,
    /// What the columns are.
    pub x: String,
    /// What the rows are.
    pub y: String,
    /// Names of the columns, from the left.
    pub columns: Vec<String>,
    /// Names of the rows, from the top.
    pub rows: Vec<String>,
    /// By row, then column; `None` is left empty.
    pub values: Vec<Vec<Option<f64>>>,
}

impl Heat {
    /// The chart as SVG text, with every value written in its field and the largest framed.
    ///
    /// # Errors
    /// [`ChartError`].
    pub fn svg(&self) -> Result<String, ChartError> {
        let known = self.values.iter().flatten().flatten().copied().filter(|v| v.is_finite());
        let known: Vec<f64> = known.collect();
        let most = known.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let least = known.iter().copied().fold(f64::INFINITY, f64::min);
        if known.is_empty() {
            return Err(ChartError::Empty(self.title.clone()));
        }
        let height = 44 + 60 + 12 + self.rows.len() as u32 * ROW;
        style::sheet(&self.title, &[], height, |sheet| {
            let names = self.rows.iter().map(|name| style::text_width(name)).max().unwrap_or(0);
            // Rows begin at the top, so when they serve as columns they begin at the right.
            let columns = NameAxis(self.columns.iter().rev().cloned().collect());
            let count = self.columns.len();
            let mut plot = ChartBuilder::on(sheet)
                .margin_right(24)
                .margin_bottom(12)
                .margin_left(12)
                .x_label_area_size(48)
                .y_label_area_size(names + 44)
                .build_cartesian_2d(columns, NameAxis(self.rows.clone()))?;
            plot.configure_mesh()
                .disable_mesh()
                .axis_style(style::grid())
                .label_style(style::ink())
                .axis_desc_style(style::ink())
                .x_labels(count)
                .y_labels(self.rows.len())
                .x_desc(&self.x)
                .y_desc(&self.y)
                .draw()?;
            for (row, values) in self.values.iter().enumerate() {
                for (column, value) in values.iter().enumerate().take(count) {
                    let Some(value) = value.filter(|value| value.is_finite()) else { continue };
                    let span = (most - least).max(f64::MIN_POSITIVE);
                    let share = FAINT + (FULL - FAINT) * (value - least) / span;
                    let left = (count - column) as f64;
                    let corners =
                        [(left - 0.98, row as f64 + 0.03), (left - 0.02, row as f64 + 0.97)];
                    let fill = style::colour(0).mix(share).filled();
                    plot.draw_series([Rectangle::new(corners, fill)])?;
                    if value == most {
                        let frame = ShapeStyle::from(&style::colour(1)).stroke_width(3);
                        plot.draw_series([Rectangle::new(corners, frame)])?;
                    }
                    let text = style::ink().pos(Pos::new(HPos::Center, VPos::Center));
                    let middle = (left - 0.5, row as f64 + 0.5);
                    let label =
                        EmptyElement::at(middle) + Text::new(figure(value, 3), (0, 0), text);
                    plot.draw_series([label])?;
                }
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Heat {
        Heat {
            title: "Tokens a second".to_owned(),
            x: "γ".to_owned(),
            y: "M".to_owned(),
            columns: ["1", "8", "16"].map(str::to_owned).to_vec(),
            rows: ["1", "2"].map(str::to_owned).to_vec(),
            values: vec![
                vec![Some(10.0), Some(20.0), Some(13.0)],
                vec![Some(11.0), None, Some(15.0)],
            ],
        }
    }

    /// The left edges of the filled fields.
    fn lefts(svg: &str) -> Vec<i32> {
        let fields =
            svg.lines().filter(|line| line.starts_with("<rect") && line.contains("opacity"));
        let left = |line: &str| line.split("x=\"").nth(1)?.split('"').next()?.parse().ok();
        let shaded = |line: &&str| !line.contains("opacity=\"1\"");
        fields.filter(shaded).filter_map(left).collect()
    }

    #[test]
    fn every_known_value_has_a_field_in_its_place() {
        let svg = sample().svg().unwrap();
        for words in ["Tokens a second", "γ", "20\n", "13\n", "11\n"] {
            assert!(svg.contains(words), "{words} is missing from\n{svg}");
        }
        let lefts = lefts(&svg);
        assert!(lefts.len() >= 5, "{lefts:?}\n{svg}");
        assert!(lefts[0] < lefts[1] && lefts[1] < lefts[2], "from the left: {lefts:?}");
        assert_eq!(lefts[0], lefts[3], "rows stand below each other: {lefts:?}");
    }

    #[test]
    fn a_map_of_nothing_is_refused() {
        let mut heat = sample();
        heat.values.iter_mut().flatten().for_each(|value| *value = None);
        assert!(matches!(heat.svg(), Err(ChartError::Empty(_))));
    }
}
