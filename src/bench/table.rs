//! The one writer of tables: columns for a terminal or as Markdown, and how figures are written in
//! them. It must not depend on what the cells mean.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

/// How tables are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableStyle {
    /// Columns aligned with spaces.
    Plain,
    /// Columns between bars, as in Markdown.
    Markdown,
}

/// Rows under a head. The first column holds words, the others figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// Cells by row; a missing cell is empty.
    pub rows: Vec<Vec<String>>,
    /// What a reader must know; written below the rows.
    pub notes: Vec<String>,
}

impl Table {
    /// A table without rows or notes.
    pub fn new<S: AsRef<str>>(title: impl Into<String>, head: &[S]) -> Self {
        let head = head.iter().map(|name| name.as_ref().to_owned()).collect();
        Self { title: title.into(), head, rows: Vec::new(), notes: Vec::new() }
    }

    /// With these rows as well.
    pub fn with_rows(mut self, rows: impl IntoIterator<Item = Vec<String>>) -> Self {
        self.rows.extend(rows);
        self
    }

    /// With another note.
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Writes it, with an empty line after it.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn write(&self, layout: TableStyle, out: &mut dyn Write) -> io::Result<()> {
        let mark = if layout == TableStyle::Markdown { "### " } else { "" };
        writeln!(out, "{mark}{}\n", self.title)?;
        let columns = self.rows.iter().map(Vec::len).chain([self.head.len()]).max().unwrap_or(0);
        let lines = || std::iter::once(&self.head).chain(&self.rows);
        let widths: Vec<usize> = (0..columns)
            .map(|i| lines().map(|line| cell(line, i).width()).max().unwrap_or(0).max(2))
            .collect();
        for (number, line) in lines().enumerate() {
            self.line(layout, line, &widths, out)?;
            if number == 0 && layout == TableStyle::Markdown {
                let rules = widths.iter().enumerate().map(|(i, &width)| {
                    if i == 0 { "-".repeat(width) } else { format!("{}:", "-".repeat(width - 1)) }
                });
                writeln!(out, "| {} |", rules.collect::<Vec<_>>().join(" | "))?;
            }
        }
        writeln!(out)?;
        for note in &self.notes {
            writeln!(out, "{note}\n")?;
        }
        Ok(())
    }

    fn line(
        &self,
        layout: TableStyle,
        line: &[String],
        widths: &[usize],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let cells = widths.iter().enumerate().map(|(i, &width)| {
            let text = cell(line, i);
            let space = " ".repeat(width.saturating_sub(text.width()));
            if i == 0 { format!("{text}{space}") } else { format!("{space}{text}") }
        });
        let cells: Vec<String> = cells.collect();
        match layout {
            TableStyle::Plain => writeln!(out, "{}", cells.join("  ").trim_end()),
            TableStyle::Markdown => writeln!(out, "| {} |", cells.join(" | ")),
        }
    }
}

fn cell(line: &[String], column: usize) -> &str {
    line.get(column).map_or("", String::as_str)
}

/// A figure that may be missing.
pub(super) fn optional(value: Option<f64>, write: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), write)
}

/// A figure with two digits after the point.
pub(super) fn two_digits(value: f64) -> String {
    format!("{value:.2}")
}

/// How many times as much; `-` if that is unknown.
pub(super) fn times(ratio: Option<f64>) -> String {
    optional(ratio, |ratio| format!("{ratio:.2}×"))
}

/// Tokens per second: three digits are enough for any machine.
pub(super) fn rate(tokens_s: f64) -> String {
    let digits = if tokens_s < 10.0 { 2 } else { usize::from(tokens_s < 100.0) };
    format!("{tokens_s:.digits$}")
}

pub(super) fn ms(time: f64) -> String {
    let digits = if time < 100.0 { 2 } else { 0 };
    format!("{time:.digits$}")
}

/// A share, 0 to 1, in percent.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Tables as text.
    pub(in crate::bench) fn text(tables: &[Table], layout: TableStyle) -> String {
        let mut out = Vec::new();
        for table in tables {
            table.write(layout, &mut out).unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn both_layouts_line_up() {
        let words = |line: &[&str]| line.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let table = Table {
            title: "Speed-up".to_owned(),
            head: words(&["strategy", "τ", "×"]),
            rows: vec![words(&["plain", "1.00", "1.00×"]), words(&["pld", "1.37"])],
            notes: vec!["Measured in turn.".to_owned()],
        };
        let text = |layout| text(std::slice::from_ref(&table), layout);
        let plain = "Speed-up\n\nstrategy     τ      ×\nplain     1.00  1.00×\npld       1.37\n\n\
                     Measured in turn.\n\n";
        assert_eq!(text(TableStyle::Plain), plain);
        let markdown = "### Speed-up\n\n| strategy |    τ |     × |\n| -------- | ---: | ----: |\n\
                        | plain    | 1.00 | 1.00× |\n| pld      | 1.37 |       |\n\n\
                        Measured in turn.\n\n";
        assert_eq!(text(TableStyle::Markdown), markdown);
    }
}
