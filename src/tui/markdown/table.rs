//! Tables: columns as wide as their widest cell, a rule below the head. Must never know colours.

use pulldown_cmark::Alignment;
use unicode_width::UnicodeWidthStr;

use super::wrap::{Logical, Tag};
use super::{Look, SpanRole};

/// A table under construction.
pub struct MarkdownTable {
    alignments: Vec<Alignment>,
    /// The head first. Cells have text and tags only.
    rows: Vec<Vec<Logical>>,
}

/// Style of the decoration.
const MARKUP: Tag = (Look { role: SpanRole::Markup, strong: false, emphasis: false }, None);

impl MarkdownTable {
    /// A table of these columns.
    pub fn new(alignments: Vec<Alignment>) -> Self {
        Self { alignments, rows: Vec::new() }
    }

    /// Begins a row.
    pub fn row(&mut self) {
        self.rows.push(Vec::new());
    }

    /// Adds a cell to the row begun last.
    pub fn cell(&mut self, cell: Logical) {
        if let Some(row) = self.rows.last_mut() {
            row.push(cell);
        }
    }

    /// The table's lines, without what stands before them.
    pub fn lines(self) -> Vec<Logical> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.text.width()).max().unwrap_or(0).max(1)
        };
        let widths: Vec<usize> = (0..self.alignments.len()).map(width).collect();
        let mut lines = Vec::with_capacity(self.rows.len() + 1);
        for row in &self.rows {
            let mut line = Logical::default();
            for (column, &width) in widths.iter().enumerate() {
                let cell = row.get(column);
                let spare = width - cell.map_or(0, |cell| cell.text.width());
                let before = match self.alignments[column] {
                    Alignment::None | Alignment::Left => 0,
                    Alignment::Center => spare / 2,
                    Alignment::Right => spare,
                };
                line.push(&" ".repeat(before), MARKUP);
                if let Some(cell) = cell {
                    line.append(cell);
                }
                line.push(&" ".repeat(spare - before), MARKUP);
                if column + 1 < widths.len() {
                    line.push(" │ ", MARKUP);
                }
            }
            lines.push(line);
            if lines.len() == 1 {
                let rules: Vec<String> = widths.iter().map(|&width| "─".repeat(width)).collect();
                let mut rule = Logical::default();
                rule.push(&rules.join("─┼─"), MARKUP);
                lines.push(rule);
            }
        }
        lines
    }
}
