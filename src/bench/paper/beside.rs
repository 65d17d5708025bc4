//! A table of the papers with ours next to theirs: for every row our figures, the paper's and the
//! ratio. It must not measure.

use super::metric::Metric;
use super::plan::PaperRow;
use super::published::{PublishedBlock, PublishedTable};
use crate::bench::strategies::{AnswerGrid, Results};
use crate::bench::table::{Table, optional, two_digits};

/// The mean of the other columns.
const MEAN: &str = "mean";

/// What was measured for a table.
#[derive(Clone, Copy, Debug)]
pub struct Ours<'a> {
    /// The answers; the sets have the columns' names.
    pub results: &'a Results,
    /// Which candidate stands for which row.
    pub rows: &'a [PaperRow],
    /// How much video memory may be used, in bytes.
    pub vram_limit: Option<u64>,
    /// Notes about the sets.
    pub notes: &'a [String],
}

/// A table for every part of the paper's whose temperature was measured.
pub fn tables(theirs: &PublishedTable, ours: &Ours<'_>) -> Vec<Table> {
    let grids = AnswerGrid::of(&ours.results.answers);
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
    let cells: Vec<&str> = theirs.cells.iter().map(|cell| meaning(*cell)).collect();
    let mut notes = vec![format!(
        "Each cell: {}. `-`: not measured here, or illegible in the paper's table.",
        cells.join("; ")
    )];
    notes.push(format!("Theirs: {}.", theirs.source));
    notes.extend(theirs.hardware.iter().map(|hardware| format!("Their machine: {hardware}.")));
    notes.extend(theirs.settings.iter().map(|settings| format!("Their settings: {settings}.")));
    notes.extend(theirs.notes.iter().cloned());
    notes.extend(ours.notes.iter().cloned());
    notes.extend(drafts(ours.results));
    if theirs.isolated {
        notes.push(
            "Every row ran in its own process. RAM and video memory are peaks, in units of 10⁹ \
             bytes; video memory is what the driver reported every 20 ms or, without such a \
             report, what was allocated there."
                .to_owned(),
        );
    }
    notes
}

/// What drafted here, with its precision and device.
pub(super) fn drafts(results: &Results) -> Option<String> {
    let mut all: Vec<&str> = Vec::new();
    for (_, draft) in &results.models.drafts {
        if !all.contains(&draft.as_str()) {
            all.push(draft);
        }
    }
    (!all.is_empty()).then(|| format!("Drafts here: {}.", all.join("; ")))
}

fn meaning(cell: Metric) -> &'static str {
    match cell {
        Metric::OverPlain => "speed-up over CPU-only",
        Metric::SpeedUp => "speed-up over plain decoding of the same prompts",
        Metric::Tau => "τ, tokens per pass of the target",
        Metric::TokensS => "tokens per second",
        other => other.name(),
    }
}

/// The figures of one cell.
type CellValues = Vec<Option<f64>>;

fn table(
    theirs: &PublishedTable,
    block: &PublishedBlock,
    ours: &Ours<'_>,
    grid: &AnswerGrid<'_>,
) -> Table {
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
    if theirs.isolated {
        head.extend(["RAM".to_owned(), "VRAM limit".to_owned()]);
    }
    let mut table = Table::new(format!("{}; {}", theirs.title, block.name), &head);
    for own in ours.rows {
        let row = block.rows.iter().find(|row| row.name == own.published);
        let candidate = own.line.is_ok().then(|| own.candidate());
        let candidate = candidate.filter(|name| grid.strategies.contains(name));
        let values = |column: &String| -> CellValues {
            let set = (column != MEAN).then_some(column.as_str());
            theirs.cells.iter().map(|cell| cell.value(grid, candidate?, set)).collect()
        };
        let mut mine: Vec<CellValues> = theirs.columns.iter().map(values).collect();
        if own_mean {
            mine.push(mean(&mine));
        }
        let first = table.rows.len();
        let mut line = |name: &str, what: &str, parameters: String, cells: &[CellValues]| {
            let mut line = vec![name.to_owned(), what.to_owned()];
            if with_parameters {
                line.push(parameters);
            }
            line.extend(cells.iter().map(|cell| shown(&theirs.cells, cell, what == RATIO)));
            table.rows.push(line);
        };
        line(&own.published, "ours", parameters(ours.results, candidate), &mine);
        if let Some(row) = row {
            let mut published = row.cells.clone();
            if own_mean {
                published.push(mean(&published));
            }
            line("", "paper", row.parameters.clone().unwrap_or_default(), &published);
            line("", RATIO, String::new(), &ratios(&mine, &published));
        }
        if theirs.isolated {
            let ram = candidate.map(|name| grid.all(name).ram);
            let gb =
                |bytes: Option<u64>| optional(bytes.map(|bytes| bytes as f64 / 1e9), two_digits);
            table.rows[first].extend([gb(ram), gb(ours.vram_limit)]);
        }
    }
    table
}

const RATIO: &str = "ours/paper";

/// Learnable weights of a candidate's draft, in units of 2³⁰ or 2²⁰ as the paper counts.
fn parameters(results: &Results, candidate: Option<&str>) -> String {
    let own = results.models.parameters.iter().find(|(name, _)| Some(name.as_str()) == candidate);
    let Some((_, count)) = own else { return "-".to_owned() };
    let billions = *count as f64 / f64::from(1 << 30);
    let millions = *count as f64 / f64::from(1 << 20);
    if billions >= 0.1 { format!("{billions:.2}B") } else { format!("{millions:.2}M") }
}

/// The mean of every figure over the columns that have it.
fn mean(columns: &[CellValues]) -> CellValues {
    let count = columns.iter().map(Vec::len).max().unwrap_or(0);
    let of = |at: usize| {
        let known: Vec<f64> =
            columns.iter().filter_map(|cell| cell.get(at).copied().flatten()).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    (0..count).map(of).collect()
}

/// Ours over theirs.
fn ratios(mine: &[CellValues], published: &[CellValues]) -> Vec<CellValues> {
    let ratio = |mine: Option<f64>, published: Option<f64>| {
        let published = published?;
        (published > 0.0).then_some(mine? / published)
    };
    let mut all: Vec<CellValues> = Vec::new();
    for (mine, published) in mine.iter().zip(published) {
        all.push(mine.iter().zip(published).map(|(&mine, &other)| ratio(mine, other)).collect());
    }
    // A mean over other columns than the paper's cannot be compared.
    let empty = |cell: &CellValues| cell.iter().all(Option::is_none);
    let differ = mine.iter().zip(published).any(|(mine, other)| empty(mine) != empty(other));
    if let (true, Some(last)) = (differ, all.last_mut()) {
        last.fill(None);
    }
    all
}

/// A cell as text, the figures in order.
fn shown(cells: &[Metric], values: &[Option<f64>], ratio: bool) -> String {
    if values.iter().all(Option::is_none) {
        return "-".to_owned();
    }
    let text = |(cell, value): (&Metric, &Option<f64>)| {
        optional(*value, |value| match cell {
            _ if ratio => two_digits(value),
            Metric::TokensS if value >= 100.0 => format!("{value:.1}"),
            cell => cell.text(value),
        })
    };
    cells.iter().zip(values).map(text).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::plan::PaperModels;
    use super::super::published::published;
    use super::*;
    use crate::bench::TableStyle;
    use crate::bench::strategies::{
        AnswerRecord, PLAIN, answer_for_tests, results_for_tests as results,
    };

    fn answer(strategy: &str, set: &str, rounds: usize, ms: f64, batch: usize) -> AnswerRecord {
        AnswerRecord {
            batch,
            ram: 2_000_000_000 + 1_000_000_000 * batch as u64,
            vram: (batch > 0).then_some(3_700_000_000),
            ..answer_for_tests(strategy, set, 100, rounds, ms)
        }
    }

    fn text(table: &str, answers: Vec<AnswerRecord>, limit: Option<u64>) -> String {
        let mut results = results(answers);
        results.models.parameters = vec![("w/ DGF + 1".to_owned(), 471_859_200)];
        let theirs = &published().unwrap().tables[table];
        let rows = theirs.rows(&PaperModels::default());
        let notes = ["`instructions` stands for alpaca.".to_owned()];
        let ours = Ours { results: &results, rows: &rows, vram_limit: limit, notes: &notes };
        crate::bench::table::tests::text(&tables(theirs, &ours), TableStyle::Plain)
    }

    #[test]
    fn ours_stand_beside_the_paper_s_with_the_ratio() {
        let answers = vec![
            answer(PLAIN, "mt_bench", 100, 100.0, 0),
            answer("w/ DGF + 1", "mt_bench", 50, 50.0, 0),
            answer(PLAIN, "humaneval", 100, 100.0, 0),
            answer("w/ DGF + 1", "humaneval", 20, 25.0, 0),
        ];
        insta::assert_snapshot!(text("3", answers, None));
    }

    #[test]
    fn a_table_of_memory_has_peaks_and_the_limit() {
        let answers = vec![
            answer(PLAIN, "mt_bench", 100, 100.0, 0),
            // With blocks on the GPU the target alone is slower here; the base is the CPU's.
            answer(PLAIN, "mt_bench", 100, 400.0, 1),
            answer("Dovetail", "mt_bench", 50, 25.0, 1),
        ];
        let text = text("2", answers, Some(8_000_000_000));
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
    fn a_row_of_ours_stands_alone() {
        let ours = "Dovetail coupled (ours)";
        let at_1 = |answer: AnswerRecord| AnswerRecord { temperature: 1.0, ..answer };
        let answers = vec![
            at_1(answer(PLAIN, "mt_bench", 100, 100.0, 0)),
            at_1(answer(ours, "mt_bench", 50, 50.0, 0)),
        ];
        let text = text("1", answers, None);
        let mut lines = text.lines().skip_while(|line| !line.starts_with(ours));
        let cells = "ours  2.00× 2.00";
        assert!(lines.next().is_some_and(|line| line.contains(cells)), "{text}");
        assert!(!lines.next().unwrap().contains("paper"), "{text}");
    }

    #[test]
    fn a_temperature_that_was_not_measured_has_no_table() {
        let answers = vec![answer(PLAIN, "mt_bench", 100, 100.0, 0)];
        let text = text("1", answers, None);
        assert!(text.contains("T = 0") && !text.contains("T = 1\n"), "{text}");
    }
}
