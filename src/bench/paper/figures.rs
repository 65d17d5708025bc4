//! A figure of the papers on this machine: its table and its chart, from the rows and columns that
//! the data name. It must not run anything.

use super::beside::drafts;
use super::metric::Metric;
use super::published::{FigureRows, Published, PublishedFigure};
use super::sequences::{choices_bars, choices_table, counts_bars, counts_table};
use crate::bench::Chart;
use crate::bench::strategies::{AnswerGrid, PLAIN, Results};
use crate::bench::table::{Table, optional};
use crate::chart::{Bar, Bars, Lines, Series};

/// A row of a figure: a candidate, perhaps on one set.
#[derive(Clone, Copy)]
struct FigureRow<'a> {
    grid: &'a AnswerGrid<'a>,
    candidate: &'a str,
    set: Option<&'a str>,
}

impl FigureRow<'_> {
    fn name(&self) -> &str {
        self.set.unwrap_or(self.candidate)
    }

    fn value(&self, column: Metric) -> Option<f64> {
        column.value(self.grid, self.candidate, self.set)
    }

    /// The cells of a column; the times to the first tokens have one per set.
    fn cells(&self, column: Metric) -> Vec<String> {
        let cell = |set| {
            let value = column.value(self.grid, self.candidate, set);
            optional(value, |value| column.text(value))
        };
        match column {
            Metric::FirstToken | Metric::SecondToken => {
                self.grid.sets.iter().map(|&set| cell(Some(set))).collect()
            }
            _ => vec![cell(self.set)],
        }
    }
}

impl PublishedFigure {
    /// Its tables, one per temperature.
    pub fn tables(&self, results: &Results, published: &Published) -> Vec<Table> {
        let grids = AnswerGrid::of(&results.answers);
        let mut tables: Vec<Table> = grids.iter().map(|grid| self.table(grid, published)).collect();
        if let Some(first) = tables.first_mut() {
            first.notes.extend(drafts(results));
        }
        tables
    }

    fn table(&self, grid: &AnswerGrid<'_>, published: &Published) -> Table {
        let title = format!("{}; T = {}", self.title, grid.temperature);
        let mut table = match self.rows {
            FigureRows::Sequences => counts_table(title, grid),
            FigureRows::Choices => choices_table(title, grid, published),
            _ => {
                let row = |row: &FigureRow<'_>| {
                    let cells = self.columns.iter().flat_map(|&column| row.cells(column));
                    let paper = self.paper.get(row.candidate).map(|[least, most]| {
                        if least == most {
                            format!("{most}×")
                        } else {
                            format!("{least}–{most}×")
                        }
                    });
                    std::iter::once(row.name().to_owned()).chain(cells).chain(paper).collect()
                };
                Table::new(title, &self.head(grid)).with_rows(self.rows(grid).iter().map(row))
            }
        };
        table.notes.extend(self.notes.iter().cloned());
        table
    }

    fn head(&self, grid: &AnswerGrid<'_>) -> Vec<String> {
        let first = if self.rows == FigureRows::Sets { "words" } else { "candidate" };
        let mut head = vec![first.to_owned()];
        for column in &self.columns {
            match column {
                Metric::FirstToken | Metric::SecondToken => {
                    let name = column.name();
                    head.extend(grid.sets.iter().map(|set| format!("{set}: {name}")));
                }
                other => head.push(other.name().to_owned()),
            }
        }
        if !self.paper.is_empty() {
            head.push("paper".to_owned());
        }
        head
    }

    fn rows<'a>(&self, grid: &'a AnswerGrid<'a>) -> Vec<FigureRow<'a>> {
        let drafting = || grid.strategies.iter().filter(|name| **name != PLAIN);
        let candidate = |&candidate: &&'a str| FigureRow { grid, candidate, set: None };
        match (self.rows, drafting().next()) {
            (FigureRows::Candidates, _) => grid.strategies.iter().map(candidate).collect(),
            (FigureRows::Sets, Some(&only)) => {
                let set = |&set: &&'a str| FigureRow { grid, candidate: only, set: Some(set) };
                grid.sets.iter().map(set).collect()
            }
            _ => drafting().map(candidate).collect(),
        }
    }

    /// Its charts, one per temperature.
    pub fn charts(&self, results: &Results, published: &Published) -> Vec<Chart> {
        let chart = |grid: AnswerGrid<'_>| {
            let name = format!("{}-t{}", self.chart.file, grid.temperature);
            Chart::new(name, self.chart(&grid, published))
        };
        AnswerGrid::of(&results.answers).into_iter().filter_map(chart).collect()
    }

    fn chart(&self, grid: &AnswerGrid<'_>, published: &Published) -> Option<String> {
        let chart = &self.chart;
        let title = format!("{}, T = {}", chart.title, grid.temperature);
        let rows = self.rows(grid);
        if let Some(over) = chart.over {
            let curve = |&column: &Metric| Series {
                name: column.name().to_owned(),
                points: rows
                    .iter()
                    .filter_map(|row| Some((row.value(over)?, row.value(column)?)))
                    .collect(),
            };
            let series = chart.values.iter().map(curve).collect();
            let x = over.name().to_owned();
            let y = chart.unit.clone();
            return Lines { title, x, doublings: false, y, series }.svg();
        }
        let names: Vec<String> =
            chart.values.iter().map(|column| column.name().to_owned()).collect();
        let (parts, bars) = match self.rows {
            FigureRows::Sequences => counts_bars(grid),
            FigureRows::Choices => choices_bars(grid, published),
            _ => {
                let bar = |row: &FigureRow<'_>| Bar {
                    name: row.name().to_owned(),
                    values: chart
                        .values
                        .iter()
                        .map(|&column| row.value(column).unwrap_or(0.0))
                        .collect(),
                };
                (names, rows.iter().map(bar).collect())
            }
        };
        Bars { title, unit: chart.unit.clone(), parts, bars }.svg()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::published::published;
    use super::*;
    use crate::bench::TableStyle;
    use crate::bench::strategies::{AnswerRecord, answer_for_tests, results_for_tests};

    fn answer(strategy: &str, set: &str, prompt_tokens: usize, ms: f64) -> AnswerRecord {
        AnswerRecord {
            prompt_tokens,
            ttft_ms: ms,
            second_ms: if strategy == PLAIN { ms } else { 1.25 * ms },
            ahead_ms: 0.125 * ms,
            ..answer_for_tests(strategy, set, 10, 10, ms)
        }
    }

    /// The table of a figure as text, and its chart.
    pub(in super::super) fn shown(name: &str, answers: Vec<AnswerRecord>) -> (String, String) {
        let results = results_for_tests(answers);
        let published = published().unwrap();
        let figure = &published.figures[name];
        let tables = figure.tables(&results, &published);
        let text = crate::bench::table::tests::text(&tables, TableStyle::Plain);
        let mut charts = figure.charts(&results, &published);
        assert_eq!(charts.len(), 1);
        (text, charts.remove(0).svg)
    }

    #[test]
    fn figures_show_what_they_are_about() {
        let pair =
            |other: &str, ms| vec![answer(PLAIN, "a", 10, 100.0), answer(other, "a", 10, ms)];
        for (figure, answers, row, cells) in [
            ("duo-3", pair("duo", 120.0), "duo", &["1.20×", "1.50×", "1.3–1.4×"][..]),
            (
                "duo-4",
                pair("duo", 120.0),
                "duo",
                // 3 of 12 ms before the pass, and 1.5 during its 6.
                &["4.0", "1.00", "4.50", "6.00", "3.00", "0.00", "12.00", "25 %", "38 %"],
            ),
            (
                "duo-4",
                pair("duo", 120.0),
                PLAIN,
                &["4.0", "1.00", "3.75", "5.00", "2.50", "0.00", "10.00", "25 %", "-"],
            ),
            ("duo-1", pair("chain", 80.0), "a", &["10", "3.00", "4.00", "1.33×"]),
            ("1", pair("Dovetail", 80.0), "Dovetail", &["125.00", "1.25×", "1.00", "2.17–2.77×"]),
            ("1", pair("Offload", 200.0), "Offload", &["50.00", "0.50×", "1.00", "0.45×"]),
            ("4", pair("16", 80.0), "16", &["4.0", "4.00", "3.00", "1.00", "125.00", "1.25×"]),
        ] {
            let (text, svg) = shown(figure, answers);
            let line = text.lines().find(|line| line.starts_with(&format!("{row} "))).unwrap();
            let found: Vec<&str> = line.split_whitespace().skip(1).collect();
            assert_eq!(found.join(" "), cells.join(" "), "{text}");
            assert!(svg.starts_with("<svg"), "{figure}");
        }
    }
}
