//! The tables and figures that the two papers print, as far as they survive, and how to repeat them
//! here: `assets/papers/published.json`. A lost cell is `None`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::metric::Metric;

const FILE: &str = include_str!("../../../assets/papers/published.json");

/// Everything that is printed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Published {
    /// The tables by their names here.
    pub tables: BTreeMap<String, PublishedTable>,
    /// The prompt sets that stand for a column, the nearest first.
    pub sets: BTreeMap<String, Vec<String>>,
    /// The figures by their names here. Tables that do not compare candidates by set are among
    /// them, as `table NAME`.
    pub figures: BTreeMap<String, PublishedFigure>,
    /// Whether DuoDecoding's number of sequences was right (its Table 4).
    pub sequence_counts: PublishedCounts,
}

/// Shares of rounds by the number of sequences, predicted and actual.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PublishedCounts {
    /// The paper.
    pub source: String,
    /// By `[actual][predicted]`, where 0 is k = 1 and 1 is k > 1.
    pub shares: [[f64; 2]; 2],
    /// What a reader must know.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PublishedTable {
    /// Paper, number and subject.
    pub title: String,
    /// The paper.
    pub source: String,
    /// Where it was measured, if on one machine.
    pub hardware: Option<String>,
    /// With which settings, if the paper says so.
    pub settings: Option<String>,
    /// Prompt sets, perhaps followed by their mean.
    pub columns: Vec<String>,
    /// What each cell holds, in order.
    pub cells: Vec<Metric>,
    /// The temperatures at which it is measured.
    #[serde(default = "greedy")]
    pub temperatures: Vec<f32>,
    /// Whether the target is on the CPU in every row that does not say otherwise.
    #[serde(default)]
    pub target_on_cpu: bool,
    /// Whether the target is on the GPU and DuoDecoding's draft on the CPU.
    #[serde(default)]
    pub target_on_gpu: bool,
    /// Whether every row needs its own process, because the table is about memory.
    #[serde(default)]
    pub isolated: bool,
    /// The paper's name of each row, and the candidate that stands for it. A model in braces comes
    /// from the flag of that name.
    pub candidates: Vec<(String, String)>,
    /// Rows that the paper does not have, marked as ours, and their candidates.
    #[serde(default)]
    pub ours: Vec<(String, String)>,
    /// Parts of the table, with the same rows.
    pub blocks: Vec<PublishedBlock>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

fn greedy() -> Vec<f32> {
    vec![0.0]
}

/// A part of a table: a temperature, a machine or a target.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PublishedBlock {
    /// Which part.
    pub name: String,
    /// T.
    pub temperature: f32,
    pub rows: Vec<PublishedRow>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PublishedRow {
    /// The candidate.
    pub name: String,
    /// Learnable parameters as the paper writes them, such as `0.22B`.
    pub parameters: Option<String>,
    /// By column, in the order of the table's cells.
    pub cells: Vec<Vec<Option<f64>>>,
}

/// What the rows of a figure are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureRows {
    Candidates,
    /// The candidates without plain.
    Drafting,
    /// The prompt sets, for the only candidate.
    Sets,
    /// How often each number of sequences was drafted, by prompt set.
    Sequences,
    /// Whether the number of sequences was right, next to the paper's shares.
    Choices,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PublishedFigure {
    /// Paper, number and subject.
    pub title: String,
    /// Its candidates, as they are written in `--strategies`. `{tree}` is the strategy of the model
    /// that drafts: a head or a small model.
    pub candidates: String,
    /// Whether the target is on the CPU for every candidate that does not say otherwise.
    #[serde(default)]
    pub target_on_cpu: bool,
    /// Whether the target is on the GPU and DuoDecoding's draft on the CPU.
    #[serde(default)]
    pub target_on_gpu: bool,
    /// The prompt sets unless the user names some; none means all that are bundled.
    #[serde(default)]
    pub prompts: Vec<String>,
    /// If the prompts are made: a set for each of these numbers of words.
    #[serde(default)]
    pub prompts_of_words: Vec<usize>,
    pub rows: FigureRows,
    #[serde(default)]
    pub columns: Vec<Metric>,
    /// The least and the most that the paper prints, by candidate.
    #[serde(default)]
    pub paper: BTreeMap<String, [f64; 2]>,
    /// What a reader must know.
    pub notes: Vec<String>,
    /// How it is drawn.
    pub chart: PublishedChart,
}

/// How a figure is drawn: bars, or curves if it is drawn over something.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PublishedChart {
    /// The beginning of the file's name.
    pub file: String,
    pub title: String,
    /// The unit of its values.
    pub unit: String,
    /// The horizontal axis of curves.
    #[serde(default)]
    pub over: Option<Metric>,
    /// The parts of a bar, or the curves.
    #[serde(default)]
    pub values: Vec<Metric>,
}

/// Everything that is printed.
///
/// # Errors
/// Never: the file is part of the program and read by a test.
pub fn published() -> Result<Published, serde_json::Error> {
    serde_json::from_str(FILE)
}

#[cfg(test)]
mod tests {
    use super::super::plan::PaperModels;
    use super::*;
    use crate::bench::strategies::batches;
    use crate::plan::DrafterId;

    #[test]
    fn every_cell_row_and_candidate_is_sound() {
        let published = published().unwrap();
        assert_eq!(published.tables.len(), 6);
        let model = |name: &str| Some(name.to_owned());
        let models = PaperModels {
            eagle_head: model("a/e"),
            second_draft_model: model("b/s"),
            ..PaperModels::default()
        };
        for (name, table) in &published.tables {
            let ours = table.rows(&models);
            assert_eq!(ours.len(), table.blocks[0].rows.len() + table.ours.len(), "{name}");
            for row in table.blocks.iter().flat_map(|block| &block.rows) {
                assert_eq!(row.cells.len(), table.columns.len(), "{name}: {}", row.name);
                let whole = row.cells.iter().all(|cell| cell.len() == table.cells.len());
                assert!(whole, "{name}: {}", row.name);
                assert!(ours.iter().any(|own| own.published == row.name), "{name}: {}", row.name);
            }
            for row in &ours {
                let lines = row.candidate_lines().unwrap();
                assert_eq!(lines.len(), 1, "{row:?}");
                let line = lines[0].as_ref().unwrap();
                assert_eq!(line.name, row.candidate(), "{row:?}");
                // Coupled drafting is not the papers'.
                let drafts = line.row.draft != DrafterId::None;
                assert_eq!(line.uncoupled, drafts && !row.ours, "{row:?}");
                assert_eq!(row.published.ends_with("(ours)"), row.ours, "{row:?}");
            }
        }
        for (name, figure) in &published.figures {
            let table = name.strip_prefix("table ");
            assert!(table.is_none_or(|table| !published.tables.contains_key(table)), "{name}");
            assert!(figure.paper.keys().all(|name| figure.candidates.contains(name)), "{name}");
            for kind in [DrafterId::Head, DrafterId::SmallModel] {
                let lines = figure.candidate_lines(&models, kind).into_iter();
                let lines: Vec<_> = lines.map(Result::unwrap).collect();
                for line in &lines {
                    let drafts = line.row.draft != DrafterId::None;
                    assert_eq!(line.uncoupled, drafts, "{name}: {line:?}");
                }
                // What a placement is compared with is a row too, so there are no others.
                let names: Vec<_> = lines.iter().map(|line| line.name.clone()).collect();
                let compared = batches(lines).into_iter().map(|batch| batch.lines[0].plain().name);
                let mut compared = compared.filter(|_| figure.rows == FigureRows::Candidates);
                assert!(compared.all(|plain| names.contains(&plain)), "{name}: {names:?}");
            }
        }
    }

    #[test]
    fn the_headline_figures_are_the_papers_own() {
        let published = published().unwrap();
        let cell = |table: &str, block: usize, row: &str, column: usize| {
            let block = &published.tables[table].blocks[block];
            block.rows.iter().find(|r| r.name == row).unwrap().cells[column].clone()
        };
        assert_eq!(cell("1", 0, "Dovetail", 0), [Some(2.25), Some(4.73)]);
        assert_eq!(cell("1", 1, "Vanilla EAGLE-2", 4), [Some(1.61), Some(4.76)]);
        assert_eq!(cell("2", 1, "SpecExec", 1), [Some(4.92), Some(10.05), Some(7.32)]);
        // The figure repeats what the tables print.
        let bars = &published.figures["1"].paper;
        for (bar, tables, row) in [
            ("Offload", "2", "Offload"),
            ("Vanilla EAGLE-2", "1", "Vanilla EAGLE-2"),
            ("Dovetail", "1", "Dovetail"),
            ("Dovetail with partial offload", "2", "Dovetail"),
        ] {
            let sets = published.tables[tables].columns.iter().filter(|set| *set != "mean").count();
            let speeds: Vec<f64> =
                (0..sets).filter_map(|set| cell(tables, 0, row, set)[0]).collect();
            let least = speeds.iter().copied().fold(f64::INFINITY, f64::min);
            let most = speeds.iter().copied().fold(0.0, f64::max);
            assert_eq!(bars[bar], [least, most], "{bar}");
        }
        assert_eq!(cell("2", 0, "Offload", 1), [None, None, None]);
        assert_eq!(cell("3", 0, "w/ DGF + 4", 1), [Some(2.77), Some(5.9)]);
        assert_eq!(cell("duo-1", 1, "DuoDecoding", 7), [Some(2.61), Some(114.13)]);
        assert_eq!(cell("duo-2", 0, "dynamic", 1), [Some(139.08)]);
        assert_eq!(cell("duo-3", 0, "c+2", 0), [Some(98.38)]);
        assert_eq!(published.figures["duo-3"].paper["sps"], [1.5, 1.7]);
        let shares = published.sequence_counts.shares;
        assert_eq!(shares[0][1], 0.087);
        assert!((shares.iter().flatten().sum::<f64>() - 1.0).abs() < 1e-9);
    }
}
