//! Two runs side by side: only answers that both have are counted, and every other difference
//! between the runs is noted. It must not measure.

use super::figures::AnswerGrid;
use super::record::{AnswerRecord, Models, Results};
use crate::bench::table::{Table, rate, times, two_digits};

/// Two runs side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// What makes the figures less comparable, one sentence each.
    pub notes: Vec<String>,
    /// A table a temperature that both have.
    pub tables: Vec<Table>,
}

/// Compares `b` with `a`.
pub fn compare(a: &Results, b: &Results) -> Comparison {
    let mut notes = differences(a, b);
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    for answer in &a.answers {
        if let Some(other) = find(&b.answers, answer) {
            ours.push(answer.clone());
            theirs.push(other.clone());
        }
    }
    let common = |answer: &&AnswerRecord| find(&a.answers, answer).is_some();
    let in_b = b.answers.iter().filter(common).count();
    let left_out = a.answers.len() + b.answers.len() - ours.len() - in_b;
    if left_out > 0 {
        notes.push(format!("{left_out} answers are in only one of the files and are left out."));
    }
    let differing = ours.iter().zip(&theirs).filter(|(a, b)| a.digest != b.digest).count();
    if differing > 0 {
        notes.push(format!("{differing} of {} answers have a different text in B.", ours.len()));
    }
    let both = AnswerGrid::of(&ours).into_iter().zip(AnswerGrid::of(&theirs));
    Comparison { notes, tables: both.map(|(a, b)| table(&a, &b)).collect() }
}

impl Results {
    /// Adds another part of the same measurement, and notes the differences.
    pub fn join(&mut self, mut other: Self) {
        self.notes.extend(differences(self, &other));
        other.sweeps.retain(|sweep| !self.sweeps.contains(sweep));
        self.sweeps.append(&mut other.sweeps);
        other.models = Models::default();
        self.add_batch(other);
    }
}

/// The differences between two runs, one sentence each.
fn differences(a: &Results, b: &Results) -> Vec<String> {
    let gpu =
        |results: &Results| results.environment.gpu.clone().unwrap_or_else(|| "none".to_owned());
    let drafts = |r: &Results| {
        let each = r.models.drafts.iter().map(|(name, draft)| format!("{name} {draft}"));
        each.collect::<Vec<_>>().join(", ")
    };
    let target = |r: &Results| format!("{} ({})", r.models.target, r.models.target_detail);
    [
        ("kind of run", a.kind.clone(), b.kind.clone()),
        ("version", a.version.clone(), b.version.clone()),
        ("processor", a.environment.cpu.clone(), b.environment.cpu.clone()),
        ("threads", a.environment.threads.to_string(), b.environment.threads.to_string()),
        ("GPU", gpu(a), gpu(b)),
        ("target", target(a), target(b)),
        ("drafts", drafts(a), drafts(b)),
        ("maximum tokens per answer", a.max_tokens.to_string(), b.max_tokens.to_string()),
        ("seed", a.seed.to_string(), b.seed.to_string()),
        ("settings", a.settings.join(" "), b.settings.join(" ")),
    ]
    .into_iter()
    .filter(|(_, a, b)| a != b)
    .map(|(what, a, b)| format!("Different {what}: A has {a}, B has {b}."))
    .collect()
}

fn find<'a>(answers: &'a [AnswerRecord], like: &AnswerRecord) -> Option<&'a AnswerRecord> {
    let key = |a: &AnswerRecord| (a.temperature.to_bits(), a.turn);
    answers.iter().find(|answer| {
        key(answer) == key(like)
            && answer.id == like.id
            && answer.set == like.set
            && answer.strategy == like.strategy
    })
}

fn table(a: &AnswerGrid<'_>, b: &AnswerGrid<'_>) -> Table {
    let row = |&strategy: &&str| {
        let ours = a.all(strategy);
        let theirs = b.all(strategy);
        let ratio = (ours.tokens_s > 0.0).then(|| theirs.tokens_s / ours.tokens_s);
        vec![
            strategy.to_owned(),
            rate(ours.tokens_s),
            rate(theirs.tokens_s),
            times(ratio),
            times(a.mean_speed_up(strategy)),
            times(b.mean_speed_up(strategy)),
            two_digits(ours.tau),
            two_digits(theirs.tau),
        ]
    };
    let head =
        ["strategy", "A tokens/s", "B tokens/s", "B/A", "A speed-up", "B speed-up", "A τ", "B τ"];
    Table::new(format!("B over A; T = {}", a.temperature), &head)
        .with_rows(a.strategies.iter().map(row))
        .with_note(format!("{} answers from each run.", a.count()))
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::{answer, sample};
    use super::super::report::tests::results;
    use super::*;

    #[test]
    fn parts_of_a_run_join_and_say_what_differs() {
        let mut whole = results(sample());
        let mut part = results(vec![answer("dovetail", "more", 10, 5, 10.0)]);
        part.environment.threads = 7;
        part.complete = false;
        whole.join(part);
        assert_eq!((whole.answers.len(), whole.complete), (5, false));
        assert_eq!(whole.notes, ["Different threads: A has 2, B has 7."]);
    }

    #[test]
    fn what_differs_is_said_and_only_common_answers_count() {
        let a = results(sample());
        let mut b = results(sample());
        b.environment.cpu = "another".to_owned();
        b.max_tokens = 64;
        // B's dovetail is twice as fast, says something else once, and B has a set of its own.
        for answer in b.answers.iter_mut().filter(|answer| answer.strategy == "dovetail") {
            answer.decode_ms /= 2.0;
        }
        b.answers[0].digest = "ff".to_owned();
        b.answers.push(answer("dovetail", "b_alone", 1, 1, 1e6));
        let Comparison { notes, tables } = compare(&a, &b);
        for words in [
            "processor: A has a processor, B has another",
            "128, B has 64",
            "1 answers are in only one",
            "1 of 4",
        ] {
            assert!(notes.iter().any(|note| note.contains(words)), "{words}: {notes:?}");
        }
        let dovetail = tables[0].rows.iter().find(|row| row[0] == "dovetail").unwrap();
        assert_eq!(dovetail[3], "2.00×");
        let plain = tables[0].rows.iter().find(|row| row[0] == "plain").unwrap();
        assert_eq!(plain[3], "1.00×");
    }
}
