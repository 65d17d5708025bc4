//! DuoDecoding's number of sequences as its paper shows it: how often each k was chosen (Figure 5)
//! and whether more than one was needed (Table 4). Must never run anything.

use super::figures::{bar_chart, drafting, words};
use super::published::{Published, PublishedCounts};
use crate::bench::Table;
use crate::bench::strategies::{Grid, SequenceCounts};
use crate::chart::{Bar, ChartError};

/// Names of the sums behind the rows and columns.
const ALL: &str = "all";

/// Figure 5: shares of the rounds by k, a row a set and one for all of them.
pub(super) fn counts_table(grid: &Grid<'_>) -> Table {
    let rows: Vec<(String, SequenceCounts)> = drafting(grid)
        .flat_map(|(name, all)| {
            let of_set = |set: &&str| ((*set).to_owned(), grid.at(name, set).sequences);
            let sets: Vec<_> = grid.sets.iter().map(of_set).collect();
            sets.into_iter().chain([(ALL.to_owned(), all.sequences)])
        })
        .collect();
    let most = rows.iter().map(|(_, counts)| counts.rounds.len()).max().unwrap_or(0);
    let columns = (1..=most).map(|k| format!("k = {k}"));
    let row = |(set, counts): &(String, SequenceCounts)| {
        let shares = counts.shares();
        let rounds: usize = counts.rounds.iter().sum();
        let share = |at: usize| percent(shares.get(at).copied().unwrap_or(0.0));
        [set.clone(), rounds.to_string()].into_iter().chain((0..most).map(share)).collect()
    };
    Table {
        title: format!(
            "DuoDecoding, Figure 5: number of sequences drafted ahead; T = {}",
            grid.temperature
        ),
        head: words(&["set", "rounds"]).into_iter().chain(columns).collect(),
        rows: rows.iter().map(row).collect(),
        notes: vec![
            "Shares of the rounds. The draft's confidence determines k, which is then rounded to a \
             divisor of the budget."
                .to_owned(),
            "The values of the paper's bars are not available; its text says that k = 1 is the \
             most common."
                .to_owned(),
        ],
    }
}

/// Table 4: predicted against actual k, ours beside the paper's.
pub(super) fn choices_table(grid: &Grid<'_>, published: &Published) -> Table {
    let PublishedCounts { source, shares: theirs, notes, .. } = &published.sequence_counts;
    let ours = choices(grid).choice_shares();
    let names = ["actual k = 1", "actual k > 1", ALL];
    let whole = ours.map(with_sums);
    let whole_theirs = with_sums(*theirs);
    let mut rows = Vec::new();
    for (at, name) in names.into_iter().enumerate() {
        let line = |name: &str, what: &str, cells: [String; 3]| {
            words(&[name, what]).into_iter().chain(cells).collect::<Vec<_>>()
        };
        let dashes = || ["-", "-", "-"].map(str::to_owned);
        let ours = whole.map(|shares| shares[at]);
        rows.push(line(name, "ours", ours.map_or_else(dashes, |row| row.map(percent))));
        rows.push(line("", "paper", whole_theirs[at].map(percent)));
        let ratio = |ours: [f64; 3]| {
            let ratio = |column: usize| ours[column] / whole_theirs[at][column];
            [0, 1, 2].map(|column| format!("{:.2}", ratio(column)))
        };
        rows.push(line("", "ours/paper", ours.map_or_else(dashes, ratio)));
    }
    let judged: usize = choices(grid).choices.iter().flatten().sum();
    let mut all = vec![
        format!(
            "Shares of the {judged} rounds whose whole tail was accepted, so that the target chose \
             among the first tokens. Predicted: the k that was drafted. Actual: k = 1 if the \
             target chose the token that the draft ranked first."
        ),
        format!("Theirs: {source}."),
    ];
    all.extend(notes.iter().cloned());
    Table {
        title: format!(
            "DuoDecoding, Table 4: was more than one sequence needed; T = {}",
            grid.temperature
        ),
        head: words(&["", "", "predicted k = 1", "predicted k > 1", ALL]),
        rows,
        notes: all,
    }
}

/// The chart of [`counts_table`].
///
/// # Errors
/// [`ChartError`].
pub(super) fn counts_chart(grid: &Grid<'_>) -> Result<String, ChartError> {
    let shares = choices(grid).shares();
    let bar = |(at, share): (usize, &f64)| Bar {
        name: format!("k = {}", at + 1),
        values: vec![100.0 * share],
    };
    let bars = shares.iter().enumerate().map(bar).collect();
    let title = format!("Number of sequences drafted ahead, T = {}", grid.temperature);
    bar_chart(title, "% of the rounds", &["rounds"], bars)
}

/// The chart of [`choices_table`].
///
/// # Errors
/// [`ChartError`].
pub(super) fn choices_chart(grid: &Grid<'_>, published: &Published) -> Result<String, ChartError> {
    let bar = |name: &str, shares: [[f64; 2]; 2]| Bar {
        name: name.to_owned(),
        values: shares.iter().flatten().map(|share| 100.0 * share).collect(),
    };
    let ours = choices(grid).choice_shares().map(|shares| bar("ours", shares));
    let theirs = bar("paper", published.sequence_counts.shares);
    let parts = [
        "one was enough, one drafted",
        "one was enough, more drafted",
        "more were needed, one drafted",
        "more were needed, more drafted",
    ];
    let title = format!("Was more than one sequence needed, T = {}", grid.temperature);
    bar_chart(title, "% of the rounds", &parts, ours.into_iter().chain([theirs]).collect())
}

/// The counts of all that drafted ahead in sequences.
fn choices(grid: &Grid<'_>) -> SequenceCounts {
    let mut sum = SequenceCounts::default();
    drafting(grid).for_each(|(_, figures)| sum.add(&figures.sequences));
    sum
}

/// The shares with the sum of each row behind it and those of the columns below.
fn with_sums(shares: [[f64; 2]; 2]) -> [[f64; 3]; 3] {
    let row = |[one, more]: [f64; 2]| [one, more, one + more];
    let sums = [0, 1].map(|column| shares[0][column] + shares[1][column]);
    [row(shares[0]), row(shares[1]), row(sums)]
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::super::figures::PaperFigure;
    use super::super::published::published;
    use super::*;
    use crate::bench::TableStyle;
    use crate::bench::strategies::{AnswerRecord, PLAIN, results_for_tests};

    fn answer(strategy: &str, set: &str, counts: SequenceCounts) -> AnswerRecord {
        AnswerRecord {
            set: set.to_owned(),
            strategy: strategy.to_owned(),
            tokens: 11,
            rounds: 10,
            decode_ms: 10.0,
            sequences: counts,
            ..AnswerRecord::default()
        }
    }

    fn text(figure: PaperFigure, counts: SequenceCounts) -> (String, String) {
        let other = SequenceCounts { rounds: vec![5], choices: [[5, 0], [0, 0]] };
        let results = results_for_tests(vec![
            answer(PLAIN, "a", SequenceCounts::default()),
            answer("duo", "a", counts),
            answer("duo", "b", other),
        ]);
        let mut out = Vec::new();
        for table in figure.tables(&results, &published().unwrap()) {
            table.write(TableStyle::Plain, &mut out).unwrap();
        }
        let charts = figure.charts(&results, &published().unwrap()).unwrap();
        (String::from_utf8(out).unwrap(), charts[0].1.clone())
    }

    #[test]
    fn k_is_counted_by_set_and_over_all() {
        let counts = SequenceCounts { rounds: vec![2, 2, 0, 1], choices: [[0, 0], [0, 0]] };
        let (table, chart) = text(PaperFigure::DuoCounts, counts);
        insta::assert_snapshot!(table);
        assert!(chart.contains("k = 4"), "{chart}");
    }

    #[test]
    fn the_matrix_stands_beside_the_paper_s() {
        let counts = SequenceCounts { rounds: vec![5], choices: [[0, 1], [2, 2]] };
        let (table, chart) = text(PaperFigure::DuoChoices, counts);
        insta::assert_snapshot!(table);
        assert!(chart.contains("ours") && chart.contains("paper"), "{chart}");
    }

    #[test]
    fn without_a_judged_round_there_are_theirs_alone() {
        let results = results_for_tests(vec![answer("duo", "a", SequenceCounts::default())]);
        let tables = PaperFigure::DuoChoices.tables(&results, &published().unwrap());
        assert_eq!(tables[0].rows[0][2..], ["-", "-", "-"]);
        assert_eq!(tables[0].rows[1][2], "34.8 %");
    }
}
