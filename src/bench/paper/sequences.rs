//! DuoDecoding's number of sequences as its paper shows it: how often each k was chosen (Figure 5)
//! and whether more than one was needed (Table 4). It must not run anything.

use super::published::{Published, PublishedCounts};
use crate::bench::strategies::{AnswerGrid, PLAIN, SequenceCounts};
use crate::bench::table::{Table, two_digits};
use crate::chart::Bar;

/// The name of the sums.
const ALL: &str = "all";

/// Shares of the rounds by k, a row per set and one for all of them.
pub(super) fn counts_table(title: String, grid: &AnswerGrid<'_>) -> Table {
    let mut rows: Vec<(&str, SequenceCounts)> = Vec::new();
    for &name in grid.strategies.iter().filter(|name| **name != PLAIN) {
        rows.extend(grid.sets.iter().map(|&set| (set, grid.at(name, set).sequences)));
        rows.push((ALL, grid.all(name).sequences));
    }
    let most = rows.iter().map(|(_, counts)| counts.rounds.len()).max().unwrap_or(0);
    let mut head = vec!["set".to_owned(), "rounds".to_owned()];
    head.extend((1..=most).map(|k| format!("k = {k}")));
    let row = |(set, counts): &(&str, SequenceCounts)| {
        let shares = counts.shares();
        let rounds: usize = counts.rounds.iter().sum();
        let share = |at: usize| tenths(shares.get(at).copied().unwrap_or(0.0));
        [(*set).to_owned(), rounds.to_string()].into_iter().chain((0..most).map(share)).collect()
    };
    Table::new(title, &head).with_rows(rows.iter().map(row))
}

/// Predicted against actual k, ours next to the paper's.
pub(super) fn choices_table(title: String, grid: &AnswerGrid<'_>, published: &Published) -> Table {
    let PublishedCounts { source, shares: theirs, notes, .. } = &published.sequence_counts;
    let counts = choices(grid);
    let ours = counts.choice_shares().map(with_sums);
    let theirs = with_sums(*theirs);
    let names = ["actual k = 1", "actual k > 1", ALL];
    let mut table = Table::new(title, &["", "", "predicted k = 1", "predicted k > 1", ALL]);
    for (at, name) in names.into_iter().enumerate() {
        let mut line = |name: &str, what: &str, cells: [Option<String>; 3]| {
            let cells = cells.map(|cell| cell.unwrap_or_else(|| "-".to_owned()));
            let words = [name, what].map(str::to_owned);
            table.rows.push(words.into_iter().chain(cells).collect());
        };
        let columns = [0, 1, 2];
        line(name, "ours", columns.map(|column| Some(tenths(ours?[at][column]))));
        line("", "paper", theirs[at].map(|share| Some(tenths(share))));
        let ratio = |column: usize| Some(two_digits(ours?[at][column] / theirs[at][column]));
        line("", "ours/paper", columns.map(ratio));
    }
    let judged: usize = counts.choices.iter().flatten().sum();
    table.notes = vec![
        format!(
            "Shares of the {judged} rounds whose whole tail was accepted, so that the target chose \
             among the first tokens. Predicted: the k that was drafted. Actual: k = 1 if the \
             target chose the token that the draft ranked first."
        ),
        format!("Theirs: {source}."),
    ];
    table.notes.extend(notes.iter().cloned());
    table
}

/// The bars of [`counts_table`] and the names of their parts.
pub(super) fn counts_bars(grid: &AnswerGrid<'_>) -> (Vec<String>, Vec<Bar>) {
    let mut bars = Vec::new();
    for (at, share) in choices(grid).shares().into_iter().enumerate() {
        bars.push(Bar { name: format!("k = {}", at + 1), values: vec![100.0 * share] });
    }
    (vec!["rounds".to_owned()], bars)
}

/// The bars of [`choices_table`] and the names of their parts.
pub(super) fn choices_bars(
    grid: &AnswerGrid<'_>,
    published: &Published,
) -> (Vec<String>, Vec<Bar>) {
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
    (parts.map(str::to_owned).to_vec(), ours.into_iter().chain([theirs]).collect())
}

/// The counts of all that drafted ahead in sequences.
fn choices(grid: &AnswerGrid<'_>) -> SequenceCounts {
    let mut sum = SequenceCounts::default();
    for name in grid.strategies.iter().filter(|name| **name != PLAIN) {
        sum.add(&grid.all(name).sequences);
    }
    sum
}

/// The shares, with the sum of each row after it and the sums of the columns below.
fn with_sums(shares: [[f64; 2]; 2]) -> [[f64; 3]; 3] {
    let row = |[one, more]: [f64; 2]| [one, more, one + more];
    let sums = [0, 1].map(|column| shares[0][column] + shares[1][column]);
    [row(shares[0]), row(shares[1]), row(sums)]
}

/// A share, 0 to 1, in percent with one digit after the point.
fn tenths(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::shown;
    use super::super::published::published;
    use super::*;
    use crate::bench::strategies::{AnswerRecord, answer_for_tests, results_for_tests};

    fn answer(strategy: &str, set: &str, sequences: SequenceCounts) -> AnswerRecord {
        AnswerRecord { sequences, ..answer_for_tests(strategy, set, 10, 10, 10.0) }
    }

    fn text(figure: &str, counts: SequenceCounts) -> (String, String) {
        let other = SequenceCounts { rounds: vec![5], choices: [[5, 0], [0, 0]] };
        let plain = answer(PLAIN, "a", SequenceCounts::default());
        shown(figure, vec![plain, answer("duo", "a", counts), answer("duo", "b", other)])
    }

    #[test]
    fn k_is_counted_by_set_and_over_all() {
        let counts = SequenceCounts { rounds: vec![2, 2, 0, 1], choices: [[0, 0], [0, 0]] };
        let (table, chart) = text("duo-5", counts);
        insta::assert_snapshot!(table);
        assert!(chart.contains("k = 4"), "{chart}");
    }

    #[test]
    fn the_matrix_stands_beside_the_paper_s() {
        let counts = SequenceCounts { rounds: vec![5], choices: [[0, 1], [2, 2]] };
        let (table, chart) = text("table duo-4", counts);
        insta::assert_snapshot!(table);
        assert!(chart.contains("ours") && chart.contains("paper"), "{chart}");
    }

    #[test]
    fn without_a_judged_round_there_are_theirs_alone() {
        let results = results_for_tests(vec![answer("duo", "a", SequenceCounts::default())]);
        let published = published().unwrap();
        let tables = published.figures["table duo-4"].tables(&results, &published);
        assert_eq!(tables[0].rows[0][2..], ["-", "-", "-"]);
        assert_eq!(tables[0].rows[1][2], "34.8 %");
    }
}
