//! Acceptance that a paper prints, for predictions without a record: τ of Dovetail's Table III, by
//! the number of blocks at the one tree that it was measured with. It must not depend on times.

use crate::bench::paper::{Published, PublishedCell, PublishedRow};

/// The name of a published profile begins with this; the prompt set follows.
pub const PREFIX: &str = "paper:";

/// The table, and the tree of its drafts.
const TABLE: &str = "3";
const GAMMA: usize = 16;
const WIDTH: usize = 10;
const DEPTH: usize = 7;
/// The names of its rows with a DGF head: alone it has one block, `+ n` are n more.
const HEAD: &str = "w/ DGF";

/// Acceptance of one prompt set.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PublishedAcceptance {
    /// (M, tokens of the draft accepted a round), at [`GAMMA`].
    points: Vec<(usize, f64)>,
    /// Where it comes from, for people.
    pub(super) source: String,
}

/// There is no such profile.
#[derive(Debug, thiserror::Error)]
#[error("there is no published acceptance named `{PREFIX}{name}`; choose from {known}")]
pub struct NotPublished {
    name: String,
    known: String,
}

impl PublishedAcceptance {
    /// Width and depth of its tree.
    pub(super) const SHAPE: (usize, usize) = (WIDTH, DEPTH);

    /// The acceptance of the prompt set `name`.
    pub(super) fn named(published: &Published, name: &str) -> Result<Self, NotPublished> {
        let table = published.tables.get(TABLE);
        let columns = table.map_or(&[][..], |table| &table.columns);
        let column = columns.iter().position(|column| column == name);
        let (Some(table), Some(column)) = (table, column) else {
            let known: Vec<String> = columns.iter().map(|name| format!("{PREFIX}{name}")).collect();
            return Err(NotPublished { name: name.to_owned(), known: known.join(", ") });
        };
        let tau =
            table.cells.iter().position(|cell| *cell == PublishedCell::Tau).unwrap_or_default();
        let rows = table.blocks.iter().flat_map(|block| &block.rows);
        let point = |row: &PublishedRow| {
            let tau = (*row.cells.get(column)?.get(tau)?)?;
            Some((blocks(&row.name)?, tau - 1.0))
        };
        let points: Vec<(usize, f64)> = rows.filter_map(point).collect();
        let settings = table.settings.as_deref().unwrap_or("settings unknown");
        let source = format!(
            "{PREFIX}{name}: τ of {}, {}; {settings}; published only for γ = {GAMMA}",
            table.title, table.source
        );
        Ok(Self { points, source })
    }

    /// Tokens accepted a round with so many blocks.
    pub(super) fn accepted(&self, gamma: usize, blocks: usize) -> Option<f64> {
        let point = self.points.iter().find(|(of, _)| gamma == GAMMA && *of == blocks);
        point.map(|(_, accepted)| *accepted)
    }
}

/// M of a row; `None` for a head of another kind.
fn blocks(row: &str) -> Option<usize> {
    match row.strip_prefix(HEAD)?.trim() {
        "" => Some(1),
        more => Some(1 + more.strip_prefix('+')?.trim().parse::<usize>().ok()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::paper::published;

    #[test]
    fn the_papers_rows_are_blocks_at_one_gamma() {
        let profile = PublishedAcceptance::named(&published().unwrap(), "humaneval").unwrap();
        let at = |blocks| profile.accepted(16, blocks);
        assert!((at(1).unwrap() - 3.89).abs() < 1e-9 && (at(6).unwrap() - 4.98).abs() < 1e-9);
        assert_eq!((at(0), at(7), profile.accepted(8, 1)), (None, None, None));
        for words in ["paper:humaneval", "Table III", "arXiv 2412.18934", "Llama-2-chat-7B"] {
            assert!(profile.source.contains(words), "{words}: {}", profile.source);
        }
        assert_eq!(blocks("w/o both"), None);
    }

    #[test]
    fn another_set_is_answered_with_those_there_are() {
        let error = PublishedAcceptance::named(&published().unwrap(), "alpaca").unwrap_err();
        assert!(error.to_string().contains("paper:mt_bench, paper:humaneval"), "{error}");
    }
}
