//! A table of texts, laid out for a terminal or as Markdown. Must never know what the cells mean.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

/// How a table is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableStyle {
    /// Columns by spaces.
    Plain,
    /// Columns by bars, as Markdown has it.
    Markdown,
}

/// Rows under a head. The first column is words, the others are figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// Cells by row; a missing cell is empty.
    pub rows: Vec<Vec<String>>,
    /// What a reader must know, under it.
    pub notes: Vec<String>,
}

impl Table {
    /// Writes it with an empty line behind.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_line_up() {
        let words = |line: &[&str]| line.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let table = Table {
            title: "Speed-up".to_owned(),
            head: words(&["strategy", "τ", "×"]),
            rows: vec![words(&["plain", "1.00", "1.00×"]), words(&["pld", "1.37"])],
            notes: vec!["Measured in turn.".to_owned()],
        };
        let text = |layout| {
            let mut out = Vec::new();
            table.write(layout, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let plain = "Speed-up\n\nstrategy     τ      ×\nplain     1.00  1.00×\npld       1.37\n\n\
                     Measured in turn.\n\n";
        assert_eq!(text(TableStyle::Plain), plain);
        let markdown = "### Speed-up\n\n| strategy |    τ |     × |\n| -------- | ---: | ----: |\n\
                        | plain    | 1.00 | 1.00× |\n| pld      | 1.37 |       |\n\n\
                        Measured in turn.\n\n";
        assert_eq!(text(TableStyle::Markdown), markdown);
    }
}
