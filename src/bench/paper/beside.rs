//! A table of the papers with ours beside theirs: of every row our figures, the paper's and the
//! ratio. Must never measure.

use super::plan::PaperRow;
use super::published::{Cell, PublishedBlock, PublishedRow, PublishedTable};
use crate::bench::Table;
use crate::bench::strategies::{Grid, PLAIN, Results};

/// The mean of the other columns.
const MEAN: &str = "mean";

/// What was measured for a table.
#[derive(Clone, Copy, Debug)]
pub struct Ours<'a> {
    /// The answers; the sets have the columns' names.
    pub results: &'a Results,
    /// Which contender stands for which row.
    pub rows: &'a [PaperRow],
    /// Video memory that may be taken, bytes.
    pub vram_limit: Option<u64>,
    /// What is to be said of the sets.
    pub notes: &'a [String],
}

/// A table for every part of the paper's whose temperature was measured.
pub fn tables(theirs: &PublishedTable, ours: &Ours<'_>) -> Vec<Table> {
    let grids = Grid::of(&ours.results.answers);
    let mut all = Vec::new();
    for block in &theirs.blocks {
        let grid = grids.iter().find(|grid| grid.temperature == block.temperature);
        if let Some(grid) = grid {
            all.push(table(theirs, block, ours, grid));
        }
    }
    if let Some(first) = all.first_mut() {
        first.notes.extend(notes(theirs, ours));
    }
    all
}

fn notes(theirs: &PublishedTable, ours: &Ours<'_>) -> Vec<String> {
    let cells: Vec<&str> = theirs.cells.iter().map(|cell| meaning(theirs, *cell)).collect();
    let mut notes = vec![format!(
        "Each cell: {}. `-`: not measured here, or illegible in the paper's table.",
        cells.join("; ")
    )];
    notes.push(format!("Theirs: {}.", theirs.source));
    notes.extend(theirs.hardware.iter().map(|hardware| format!("Their machine: {hardware}.")));
    notes.extend(theirs.settings.iter().map(|settings| format!("Their settings: {settings}.")));
    notes.extend(theirs.notes.iter().cloned());
    notes.extend(ours.notes.iter().cloned());
    if is_of_memory(theirs) {
        notes.push(
            "Every row ran in its own process. RAM and video memory are peaks, in units of 10⁹ \
             bytes; video memory is what the driver reported every 20 ms or, without such a \
             report, what was allocated there."
                .to_owned(),
        );
    }
    notes
}

/// Whether it is about memory: its rows have the target in different places.
fn is_of_memory(theirs: &PublishedTable) -> bool {
    theirs.cells.contains(&Cell::PeakMemoryGb)
}

fn meaning(theirs: &PublishedTable, cell: Cell) -> &'static str {
    match cell {
        Cell::SpeedUp if is_of_memory(theirs) => "speed-up over CPU-only",
        Cell::SpeedUp => "speed-up over plain decoding of the same prompts",
        Cell::Tau => "τ, tokens per pass of the target",
        Cell::TokensS => "tokens per second",
        Cell::PeakMemoryGb => "peak video memory, GB",
    }
}

fn table(
    theirs: &PublishedTable,
    block: &PublishedBlock,
    ours: &Ours<'_>,
    grid: &Grid<'_>,
) -> Table {
    let of_memory = is_of_memory(theirs);
    let with_parameters = block.rows.iter().any(|row| row.parameters.is_some());
    let mut head = vec!["row".to_owned(), String::new()];
    if with_parameters {
        head.push("L parameters".to_owned());
    }
    head.extend(theirs.columns.iter().cloned());
    let own_mean = !theirs.columns.iter().any(|column| column == MEAN);
    if own_mean {
        head.push(MEAN.to_owned());
    }
    if of_memory {
        head.extend(["RAM".to_owned(), "VRAM limit".to_owned()]);
    }
    let mut rows = Vec::new();
    for row in &block.rows {
        let ours_row = ours.rows.iter().find(|own| own.published == row.name);
        let contender = ours_row.filter(|own| own.line.is_ok()).map(PaperRow::contender);
        let contender = contender.filter(|name| grid.strategies.contains(name));
        let mut mine: Vec<Vec<Option<f64>>> =
            theirs.columns.iter().map(|column| values(theirs, grid, contender, column)).collect();
        let mut published = row.cells.clone();
        if own_mean {
            mine.push(mean(&mine));
            published.push(mean(&published));
        }
        let mut ratio: Vec<Vec<Option<f64>>> =
            mine.iter().zip(&published).map(|(mine, published)| ratios(mine, published)).collect();
        // A mean over other columns than the paper's is no mean to compare.
        let empty = |cell: &Vec<Option<f64>>| cell.iter().all(Option::is_none);
        let differ = mine.iter().zip(&published).any(|(mine, other)| empty(mine) != empty(other));
        if let (true, Some(last)) = (differ, ratio.last_mut()) {
            last.fill(None);
        }
        let line = |name: &str, what: &str, parameters: String, cells: &[Vec<Option<f64>>]| {
            let mut line = vec![name.to_owned(), what.to_owned()];
            if with_parameters {
                line.push(parameters);
            }
            line.extend(cells.iter().map(|cell| shown(&theirs.cells, cell, what == RATIO)));
            line
        };
        let mut first = line(&row.name, "ours", parameters(ours.results, contender), &mine);
        if of_memory {
            let ram = contender.map(|name| grid.all(name).ram as f64 / 1e9);
            first.push(ram.map_or_else(dash, |gb| format!("{gb:.2}")));
            let limit = ours.vram_limit.map(|bytes| bytes as f64 / 1e9);
            first.push(limit.map_or_else(dash, |gb| format!("{gb:.2}")));
        }
        rows.push(first);
        rows.push(line("", "paper", published_parameters(row), &published));
        rows.push(line("", RATIO, String::new(), &ratio));
    }
    Table { title: format!("{}; {}", theirs.title, block.name), head, rows, notes: Vec::new() }
}

const RATIO: &str = "ours/paper";

fn dash() -> String {
    "-".to_owned()
}

fn published_parameters(row: &PublishedRow) -> String {
    row.parameters.clone().unwrap_or_default()
}

/// Learnable weights of a contender's draft, in units of 2³⁰ or 2²⁰ as the paper counts.
fn parameters(results: &Results, contender: Option<&str>) -> String {
    let own = results.models.parameters.iter().find(|(name, _)| Some(name.as_str()) == contender);
    let Some((_, count)) = own else { return dash() };
    let (billions, millions) =
        (*count as f64 / f64::from(1 << 30), *count as f64 / f64::from(1 << 20));
    if billions >= 0.1 { format!("{billions:.2}B") } else { format!("{millions:.2}M") }
}

/// Our figures of one cell.
fn values(
    theirs: &PublishedTable,
    grid: &Grid<'_>,
    contender: Option<&str>,
    column: &str,
) -> Vec<Option<f64>> {
    let of_memory = is_of_memory(theirs);
    let value = |cell: &Cell| {
        let name = contender?;
        if column == MEAN {
            return match cell {
                Cell::SpeedUp if of_memory => {
                    speed_up_over(grid.mean_tokens_s(PLAIN), grid.mean_tokens_s(name))
                }
                Cell::SpeedUp => grid.mean_speed_up(name),
                Cell::Tau => Some(grid.mean_tau(name)),
                Cell::TokensS => Some(grid.mean_tokens_s(name)),
                Cell::PeakMemoryGb => grid.all(name).vram.map(|bytes| bytes as f64 / 1e9),
            };
        }
        let figures = grid.at(name, column);
        if figures.answers == 0 {
            return None;
        }
        match cell {
            Cell::SpeedUp if of_memory => {
                speed_up_over(grid.at(PLAIN, column).tokens_s, figures.tokens_s)
            }
            Cell::SpeedUp => grid.speed_up(name, column),
            Cell::Tau => Some(figures.tau),
            Cell::TokensS => Some(figures.tokens_s),
            Cell::PeakMemoryGb => figures.vram.map(|bytes| bytes as f64 / 1e9),
        }
    };
    theirs.cells.iter().map(value).collect()
}

fn speed_up_over(plain: f64, tokens_s: f64) -> Option<f64> {
    (plain > 0.0).then(|| tokens_s / plain)
}

/// The mean of every figure over the columns that have it.
fn mean(columns: &[Vec<Option<f64>>]) -> Vec<Option<f64>> {
    let count = columns.iter().map(Vec::len).max().unwrap_or(0);
    let of = |at: usize| {
        let known: Vec<f64> =
            columns.iter().filter_map(|cell| cell.get(at).copied().flatten()).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    (0..count).map(of).collect()
}

fn ratios(mine: &[Option<f64>], published: &[Option<f64>]) -> Vec<Option<f64>> {
    let ratio = |(mine, published): (&Option<f64>, &Option<f64>)| {
        let (mine, published) = ((*mine)?, (*published)?);
        (published > 0.0).then(|| mine / published)
    };
    mine.iter().zip(published).map(ratio).collect()
}

/// A cell as text, the figures in order.
fn shown(cells: &[Cell], values: &[Option<f64>], ratio: bool) -> String {
    if values.iter().all(Option::is_none) {
        return dash();
    }
    let one = |(cell, value): (&Cell, &Option<f64>)| match value {
        None => dash(),
        Some(value) if ratio => format!("{value:.2}"),
        Some(value) => match cell {
            Cell::SpeedUp => format!("{value:.2}×"),
            Cell::TokensS if *value >= 100.0 => format!("{value:.1}"),
            _ => format!("{value:.2}"),
        },
    };
    cells.iter().zip(values).map(one).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::plan::{PaperModels, PaperTable};
    use super::super::published::published;
    use super::*;
    use crate::bench::TableStyle;
    use crate::bench::strategies::{AnswerRecord, results_for_tests as results};

    fn answer(strategy: &str, set: &str, rounds: usize, ms: f64, batch: usize) -> AnswerRecord {
        AnswerRecord {
            set: set.to_owned(),
            id: format!("{set}/1"),
            strategy: strategy.to_owned(),
            batch,
            tokens: 101,
            rounds,
            decode_ms: ms,
            ram: 2_000_000_000 + 1_000_000_000 * batch as u64,
            vram: (batch > 0).then_some(3_700_000_000),
            ..AnswerRecord::default()
        }
    }

    fn text(table: PaperTable, answers: Vec<AnswerRecord>, limit: Option<u64>) -> String {
        let mut results = results(answers);
        results.models.parameters = vec![("w/ DGF + 1".to_owned(), 471_859_200)];
        let rows = table.rows(&PaperModels::default());
        let notes = ["`instructions` stands for alpaca.".to_owned()];
        let ours = Ours { results: &results, rows: &rows, vram_limit: limit, notes: &notes };
        let theirs = &published().unwrap().tables[table.name()];
        let mut out = Vec::new();
        for table in tables(theirs, &ours) {
            table.write(TableStyle::Plain, &mut out).unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn ours_stand_beside_the_paper_s_with_the_ratio() {
        let answers = vec![
            answer(PLAIN, "mt_bench", 100, 100.0, 0),
            answer("w/ DGF + 1", "mt_bench", 50, 50.0, 0),
            answer(PLAIN, "humaneval", 100, 100.0, 0),
            answer("w/ DGF + 1", "humaneval", 20, 25.0, 0),
        ];
        insta::assert_snapshot!(text(PaperTable::DovetailBlocks, answers, None));
    }

    #[test]
    fn a_table_of_memory_has_peaks_and_the_limit() {
        let answers = vec![
            answer(PLAIN, "mt_bench", 100, 100.0, 0),
            // With blocks on the GPU the target alone is slower here; the base is the CPU's.
            answer(PLAIN, "mt_bench", 100, 400.0, 1),
            answer("Dovetail", "mt_bench", 50, 25.0, 1),
        ];
        let text = text(PaperTable::DovetailMemory, answers, Some(8_000_000_000));
        let row = text.lines().find(|line| line.starts_with("Dovetail  ")).unwrap();
        for words in ["4.00× 2.00 3.70", "3.00", "8.00"] {
            assert!(row.contains(words), "{words}: {text}");
        }
        let plain = text.lines().find(|line| line.starts_with("CPU-only")).unwrap();
        assert!(plain.contains("1.00× 1.00 -") && plain.contains(" 2.00 "), "{text}");
        // Both machines of the paper, each with the ratio to ours.
        assert_eq!(text.matches("ours/paper").count(), 8, "{text}");
    }

    #[test]
    fn a_temperature_that_was_not_measured_has_no_table() {
        let answers = vec![answer(PLAIN, "mt_bench", 100, 100.0, 0)];
        let text = text(PaperTable::DovetailSpeed, answers, None);
        assert!(text.contains("T = 0") && !text.contains("T = 1\n"), "{text}");
    }
}
