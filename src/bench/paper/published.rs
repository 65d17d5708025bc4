//! The figures that the two papers print, as far as they survive: `assets/papers/published.json`.
//! A lost cell is `None`. Must never know ours.

use std::collections::BTreeMap;

use serde::Deserialize;

const FILE: &str = include_str!("../../../assets/papers/published.json");

/// What a cell of a table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// Tokens a second over those of plain decoding.
    SpeedUp,
    /// Tokens a pass of the target.
    Tau,
    /// Tokens a second.
    TokensS,
    /// The most video memory, 10⁹ bytes.
    PeakMemoryGb,
}

/// Everything that is printed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Published {
    /// The tables by their names here.
    pub tables: BTreeMap<String, PublishedTable>,
    /// Least and most time to the first token over plain decoding's, by contender.
    pub ttft_over_plain: BTreeMap<String, [f64; 2]>,
    /// Whose times these are.
    pub ttft_source: String,
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

/// One table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PublishedTable {
    /// Paper, number and subject.
    pub title: String,
    /// The paper.
    pub source: String,
    /// Where it was measured, if on one machine.
    pub hardware: Option<String>,
    /// With what, if that is said.
    pub settings: Option<String>,
    /// Prompt sets, perhaps with their mean behind them.
    pub columns: Vec<String>,
    /// What each cell holds, in order.
    pub cells: Vec<Cell>,
    /// Parts of the table, of the same rows.
    pub blocks: Vec<PublishedBlock>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

/// A part of a table: a temperature, a machine or a target.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PublishedBlock {
    /// Which part.
    pub name: String,
    /// T.
    pub temperature: f32,
    /// Its rows.
    pub rows: Vec<PublishedRow>,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PublishedRow {
    /// The contender.
    pub name: String,
    /// Learnable parameters as the paper writes them, such as `0.22B`.
    pub parameters: Option<String>,
    /// By column, in the order of the table's cells.
    pub cells: Vec<Vec<Option<f64>>>,
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
    use super::*;

    #[test]
    fn every_row_has_a_cell_a_column() {
        let published = published().unwrap();
        assert_eq!(published.tables.len(), 6);
        for (name, table) in &published.tables {
            assert!(!table.blocks.is_empty(), "{name}");
            for row in table.blocks.iter().flat_map(|block| &block.rows) {
                assert_eq!(row.cells.len(), table.columns.len(), "{name}: {}", row.name);
                let whole = row.cells.iter().all(|cell| cell.len() == table.cells.len());
                assert!(whole, "{name}: {}", row.name);
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
        assert_eq!(cell("2", 0, "Offload", 1), [None, None, None]);
        assert_eq!(cell("3", 0, "w/ DGF + 4", 1), [Some(2.77), Some(5.9)]);
        assert_eq!(cell("duo-1", 1, "DuoDecoding", 7), [Some(2.61), Some(114.13)]);
        assert_eq!(cell("duo-2", 0, "dynamic", 1), [Some(139.08)]);
        assert_eq!(cell("duo-3", 0, "c+2", 0), [Some(98.38)]);
        assert_eq!(published.ttft_over_plain["SpS"], [1.5, 1.7]);
        let shares = published.sequence_counts.shares;
        assert_eq!(shares[0][1], 0.087);
        assert!((shares.iter().flatten().sum::<f64>() - 1.0).abs() < 1e-9);
    }
}
