//! Heat maps: a rectangle of values, in a stronger colour where they are larger. They must not
//! depend on what is measured.

use super::page::{AxisLabels, Sheet, colour};
use super::scale::{figure, names};

/// Height of a row, in pixels.
const ROW: f64 = 34.0;
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
    /// The chart as SVG text, with every value written in its field and the largest framed; `None`
    /// without a value.
    pub fn svg(&self) -> Option<String> {
        let known = || self.values.iter().flatten().flatten().copied();
        let most = known().fold(f64::NEG_INFINITY, f64::max);
        let least = known().fold(f64::INFINITY, f64::min);
        if most < least {
            return None;
        }
        let below = AxisLabels { name: &self.x, ticks: names(self.columns.iter()), grid: false };
        let rows = names(self.rows.iter().rev());
        let beside = AxisLabels { name: &self.y, ticks: rows, grid: false };
        let height = self.rows.len() as f64 * ROW;
        let mut page = Sheet::new(&self.title, &[], height, &below, &beside);
        let around = |at: f64, count: usize| {
            let half = 0.48 / count as f64;
            [at - half, at + half]
        };
        for (values, row) in self.values.iter().rev().zip(&beside.ticks) {
            for (value, column) in values.iter().zip(&below.ticks) {
                let Some(value) = *value else { continue };
                let span = (most - least).max(f64::MIN_POSITIVE);
                let opacity = FAINT + (FULL - FAINT) * (value - least) / span;
                let x = around(column.at, self.columns.len());
                let y = around(row.at, self.rows.len());
                page.area(x, y, format!("fill=\"{}\" opacity=\"{opacity:.2}\"", colour(0)));
                if value == most {
                    let frame = "fill=\"none\" stroke-width=\"3\"";
                    page.area(x, y, format!("{frame} stroke=\"{}\"", colour(1)));
                }
                page.label([column.at, row.at], true, &figure(value, 3));
            }
        }
        Some(page.svg())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_value_has_a_field_in_its_place() {
        let mut heat = Heat {
            title: "Tokens per second".to_owned(),
            x: "γ".to_owned(),
            y: "M".to_owned(),
            columns: ["1", "8", "16"].map(str::to_owned).to_vec(),
            rows: ["1", "2"].map(str::to_owned).to_vec(),
            values: vec![
                vec![Some(10.0), Some(20.0), Some(13.0)],
                vec![Some(11.0), None, Some(15.0)],
            ],
        };
        insta::assert_snapshot!(heat.svg().unwrap());
        heat.values = vec![vec![None; 3]; 2];
        assert!(heat.svg().is_none());
    }
}
