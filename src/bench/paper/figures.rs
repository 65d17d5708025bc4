//! A figure of the papers on this machine: its table and its chart, from the rows and columns that
//! the data name. It must not run anything.

use super::published::{FigureColumn, FigureRows, Published, PublishedFigure};
use super::sequences::{choices_bars, choices_table, counts_bars, counts_table};
use crate::bench::Chart;
use crate::bench::strategies::{AnswerGrid, Figures, PLAIN, Results};
use crate::bench::table::{Table, optional, percent, times, two_digits};
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

    fn figures(&self) -> Figures {
        match self.set {
            Some(set) => self.grid.at(self.candidate, set),
            None => self.grid.all(self.candidate),
        }
    }

    fn value(&self, column: FigureColumn) -> Option<f64> {
        let Self { grid, candidate, .. } = *self;
        let figures = self.figures();
        let of_round = |ms: f64| ms / figures.round_ms().max(f64::MIN_POSITIVE);
        Some(match column {
            FigureColumn::TokensS => grid.mean_tokens_s(candidate),
            FigureColumn::OverPlain => {
                return ratio(grid.mean_tokens_s(candidate), grid.mean_tokens_s(PLAIN));
            }
            FigureColumn::Tau => grid.mean_tau(candidate),
            FigureColumn::PromptTokens => return grid.prompt_tokens(candidate, self.set?),
            FigureColumn::DraftMs => figures.draft_ms,
            FigureColumn::VerifyMs => figures.verify_ms,
            FigureColumn::VerifyOverDraft => return ratio(figures.verify_ms, figures.draft_ms),
            FigureColumn::FirstToken => {
                let sets = grid.sets.iter().filter_map(|set| grid.first_token(candidate, set));
                let times: Vec<f64> = sets.collect();
                times.iter().sum::<f64>() / times.len().max(1) as f64
            }
            FigureColumn::TargetWaits => 100.0 * of_round(figures.draft_ms + figures.wait_ms),
            FigureColumn::DraftWaits => 100.0 * of_round(figures.verify_ms - figures.ahead_ms),
            FigureColumn::RoundMs => figures.round_ms(),
        })
    }

    /// The cells of a column; the time to the first token has one per set.
    fn cells(&self, column: FigureColumn) -> Vec<String> {
        let value = self.value(column);
        match column {
            FigureColumn::FirstToken => {
                let set = |set: &&str| times(self.grid.first_token(self.candidate, set));
                self.grid.sets.iter().map(set).collect()
            }
            FigureColumn::OverPlain | FigureColumn::VerifyOverDraft => vec![times(value)],
            FigureColumn::PromptTokens => vec![optional(value, |tokens| format!("{tokens:.0}"))],
            FigureColumn::TargetWaits | FigureColumn::DraftWaits => {
                vec![optional(value, |share| percent(share / 100.0))]
            }
            _ => vec![optional(value, two_digits)],
        }
    }
}

impl FigureColumn {
    fn name(self) -> &'static str {
        match self {
            Self::TokensS => "tokens/s",
            Self::OverPlain => "speed-up",
            Self::Tau => "τ",
            Self::PromptTokens => "tokens in the prompt",
            Self::DraftMs => "draft ms",
            Self::VerifyMs => "verify ms",
            Self::VerifyOverDraft => "ratio",
            Self::FirstToken => "relative to plain",
            Self::TargetWaits => "target waits",
            Self::DraftWaits => "draft waits",
            Self::RoundMs => "round ms",
        }
    }
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

impl PublishedFigure {
    /// Its tables, one per temperature.
    pub fn tables(&self, results: &Results, published: &Published) -> Vec<Table> {
        let grids = AnswerGrid::of(&results.answers);
        grids.iter().map(|grid| self.table(grid, published)).collect()
    }

    fn table(&self, grid: &AnswerGrid<'_>, published: &Published) -> Table {
        let title = format!("{}; T = {}", self.title, grid.temperature);
        let mut table = match self.rows {
            FigureRows::Sequences => counts_table(title, grid),
            FigureRows::Choices => choices_table(title, grid, published),
            _ => {
                let row = |row: &FigureRow<'_>| {
                    let cells = self.columns.iter().flat_map(|&column| row.cells(column));
                    let paper =
                        self.paper.get(row.candidate).map(|[a, b]| format!("{a:.1}–{b:.1}×"));
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
                FigureColumn::FirstToken => {
                    head.extend(grid.sets.iter().map(|&set| set.to_owned()));
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
            let curve = |&column: &FigureColumn| Series {
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
    use crate::bench::strategies::{
        AnswerRecord, answer_for_tests, candidate_lines, results_for_tests,
    };

    fn answer(strategy: &str, set: &str, prompt_tokens: usize, ms: f64) -> AnswerRecord {
        AnswerRecord {
            prompt_tokens,
            ttft_ms: ms,
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
    fn every_figure_s_candidates_are_some() {
        let published = published().unwrap();
        for (name, figure) in &published.figures {
            let table = name.strip_prefix("table ");
            assert!(table.is_none_or(|table| !published.tables.contains_key(table)), "{name}");
            for line in candidate_lines("figure", &figure.candidates) {
                line.unwrap();
            }
            let paper = figure.paper.keys();
            assert!(paper.clone().all(|name| figure.candidates.contains(name)), "{name}");
        }
    }

    #[test]
    fn figures_show_what_they_are_about() {
        let pair =
            |other: &str, ms| vec![answer(PLAIN, "a", 10, 100.0), answer(other, "a", 10, ms)];
        for (figure, answers, row, cells) in [
            ("duo-3", pair("duo", 120.0), "duo", &["1.20×", "1.3–1.4×"][..]),
            ("duo-4", pair("duo", 120.0), "duo", &["25 %", "38 %", "12.00"]),
            ("duo-1", pair("chain", 80.0), "a", &["10", "2.00", "4.00", "2.00×"]),
            ("1", pair("duo", 120.0), "duo", &["83.33", "0.83×", "1.00"]),
        ] {
            let (text, svg) = shown(figure, answers);
            let line = text.lines().find(|line| line.starts_with(&format!("{row} "))).unwrap();
            let found: Vec<&str> = line.split_whitespace().skip(1).collect();
            assert_eq!(found.join(" "), cells.join(" "), "{text}");
            assert!(svg.starts_with("<svg"), "{figure}");
        }
    }
}
