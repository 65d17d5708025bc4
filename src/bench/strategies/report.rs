//! The tables of a run, laid out as the papers lay out theirs: speed-up and τ by set (Dovetail's
//! Table I), tokens per second by set (DuoDecoding's Table 1), what a round costs in time and
//! memory (Dovetail's Table II), and acceptance by depth. It must not measure.

use super::figures::{AnswerGrid, Figures};
use super::record::{AnswerRecord, PLAIN, Results, Sweep};
use crate::bench::table::{Table, ms, optional, percent, rate, times, two_digits};
use crate::speculate::DrafterId;

/// Columns of the table of depths.
const DEPTHS: usize = 8;
/// Differing answers that are named.
const NAMED: usize = 10;

/// The tables of every temperature: those of the curves if there are any.
pub fn tables(results: &Results) -> Vec<Table> {
    if !results.sweeps.is_empty() {
        return sweep_tables(results);
    }
    let mut tables: Vec<Table> =
        AnswerGrid::of(&results.answers).iter().flat_map(of_grid).collect();
    if let Some(first) = tables.first_mut()
        && is_published(&results.models.target)
    {
        first.notes.push(PUBLISHED.to_owned());
    }
    tables
}

/// The Dovetail paper (arXiv 2412.18934) on its own target, as the method's description has it: the
/// headline figures belong to a draft of five blocks (its Table III, "DGF+4"). Figures by set are
/// not restated there.
const PUBLISHED: &str = "The Dovetail paper reports for Llama-2-7B-chat, with the target in f32 on \
                         the CPU and a draft of five blocks on the GPU: 2.25× with τ 4.73, and \
                         2.77× with τ 5.90.";

/// Whether it is the paper's target.
fn is_published(target: &str) -> bool {
    let name = target.to_lowercase().replace(['_', ' '], "-");
    let theirs = ["llama-2-7b-chat", "llama2-chat-7b", "llama2-7b-chat"];
    theirs.iter().any(|target| name.contains(target))
}

fn of_grid(grid: &AnswerGrid<'_>) -> Vec<Table> {
    let figures = grid.totals();
    let tau = |strategy: &str| grid.mean(strategy, |figures| figures.tau);
    let pair = |speed_up, tau: f64| format!("{} {tau:.2}", times(speed_up));
    let speed_ups = by_set(
        grid,
        "Speed-up over plain, and τ",
        &|strategy, set| pair(grid.speed_up(strategy, set), grid.at(strategy, set).tau),
        &[("mean", &|strategy| pair(grid.mean_speed_up(strategy), tau(strategy)))],
    )
    .with_note(
        "Speed-up: tokens per second relative to plain, measured in turn in this run. τ: tokens \
         per target pass, without the prefill and its token. Mean: every set counts the same.",
    );
    let mut rates = by_set(
        grid,
        "Tokens per second",
        &|strategy, set| rate(grid.at(strategy, set).tokens_s),
        &[
            ("mean", &|strategy| rate(grid.mean(strategy, |figures| figures.tokens_s))),
            ("speed-up", &|strategy| times(grid.mean_speed_up(strategy))),
        ],
    )
    .with_note("Decoding only, by wall-clock time; TTFT contains the prefill.");
    if grid.has_batches() {
        rates = rates.with_note(
            "Candidates with their own models or placement took turns with plain on the same \
             ones, and their speed-up is relative to that. The row of plain shows the first \
             placement.",
        );
    }
    let first_tokens = by_set(
        grid,
        "Time to the first and to the second token, relative to plain and in ms",
        &|strategy, set| {
            let Figures { ttft_ms, second_ms, .. } = grid.at(strategy, set);
            let cell = |relative, time| format!("{} {}", times(relative), ms(time));
            let first = cell(grid.relative(strategy, set, |f| f.ttft_ms), ttft_ms);
            format!("{first}, {}", cell(grid.relative(strategy, set, |f| f.second_ms), second_ms))
        },
        &[],
    )
    .with_note("Medians over the prompts' first turns. The first round gives the second token.");
    let mut tables = vec![speed_ups, rates, first_tokens, costs(grid.temperature, &figures)];
    tables.extend(depths(grid.temperature, &figures));
    tables.extend(credits(grid.temperature, &figures));
    tables
}

/// The name of a column, and the cell of a strategy in it.
type Column<'a> = (&'a str, &'a dyn Fn(&str) -> String);

/// A row for each strategy with a cell for each set and for each of the other columns.
fn by_set(
    grid: &AnswerGrid<'_>,
    title: &str,
    cell: &dyn Fn(&str, &str) -> String,
    others: &[Column<'_>],
) -> Table {
    let row = |&strategy: &&str| {
        let sets = grid.sets.iter().map(|set| cell(strategy, set));
        let others = others.iter().map(|(_, cell)| cell(strategy));
        std::iter::once(strategy.to_owned()).chain(sets).chain(others).collect()
    };
    let others: Vec<&str> = others.iter().map(|(name, _)| *name).collect();
    Table::new(format!("{title}; T = {}", grid.temperature), &head(&grid.sets, &others))
        .with_rows(grid.strategies.iter().map(row))
}

fn costs(temperature: f32, figures: &[(&str, Figures)]) -> Table {
    // Only a schedule that overlaps has these columns.
    let overlaps = figures.iter().any(|(_, f)| f.ahead_ms + f.wait_ms > 0.0);
    let row = |(strategy, f): &(&str, Figures)| {
        let mut row = vec![(*strategy).to_owned(), format!("{:.1}", f.drafted)];
        row.push(two_digits(f.tau));
        row.extend([f.draft_ms, f.verify_ms, f.plan_ms, f.other_ms].map(ms));
        if overlaps {
            let idle = |time: f64| percent(time / f.round_ms().max(1e-9));
            row.extend([f.ahead_ms, f.wait_ms].map(ms));
            row.push(percent(f.drafted_ahead));
            row.extend([idle(f.draft_ms + f.wait_ms), idle(f.verify_ms - f.ahead_ms)]);
        }
        row.extend([ms(f.ttft_ms), mib(Some(f.ram)), mib(f.vram)]);
        row
    };
    let overlap = ["ahead ms", "wait ms", "drafted ahead", "target idle", "draft idle"];
    let overlap = if overlaps { &overlap[..] } else { &[] };
    let first = ["drafted", "τ", "draft ms", "verify ms", "plan ms", "other ms"];
    let columns = head(&[&first, overlap].concat(), &["TTFT ms", "RAM MiB", "VRAM MiB"]);
    let title = format!("Time of a round and memory; T = {temperature}");
    let table = Table::new(title, &columns).with_rows(figures.iter().map(row)).with_note(
        "Means over rounds. Drafted: nodes below the root. Plan: choosing drafter and tree. TTFT: \
         median of the first turns. Memory: the peak of the process, which includes what other \
         candidates in it have loaded (`--isolated` runs each in its own process).",
    );
    if !overlaps {
        return table;
    }
    table.with_note(
        "Ahead: how long the drafter worked during verification. Wait: how long the target then \
         waited for the drafter. Drafted ahead: rounds whose tree was drafted during the \
         verification before. Idle: share of a round in which that side had nothing to do, \
         without acceptance and commit.",
    )
}

/// `None` if nothing was drafted.
fn depths(temperature: f32, figures: &[(&str, Figures)]) -> Option<Table> {
    let drafting = || figures.iter().filter(|(strategy, _)| *strategy != PLAIN);
    let deepest = drafting().map(|(_, f)| f.accepted.len()).max().unwrap_or(0).min(DEPTHS);
    if deepest == 0 {
        return None;
    }
    let row = |(strategy, f): &(&str, Figures)| {
        let share = |at: usize| percent(*f.accepted.get(at).unwrap_or(&0.0));
        std::iter::once((*strategy).to_owned()).chain((0..deepest).map(share)).collect()
    };
    let names: Vec<String> = (1..=deepest).map(|depth| format!("≥ {depth}")).collect();
    let table = Table::new(format!("Acceptance by depth; T = {temperature}"), &head(&names, &[]));
    Some(
        table
            .with_rows(drafting().map(row))
            .with_note("Share of rounds in which at least this many draft tokens were accepted."),
    )
}

/// The sources of the accepted tokens; `None` if none were accepted.
fn credits(temperature: f32, figures: &[(&str, Figures)]) -> Option<Table> {
    let all = |source| figures.iter().any(|(_, f)| f.accepted_by.iter().any(|(s, _)| s == source));
    let sources: Vec<DrafterId> = DrafterId::all().filter(|&source| all(source)).collect();
    if sources.is_empty() {
        return None;
    }
    let row = |(strategy, f): &(&str, Figures)| {
        let accepted: f64 = f.accepted.iter().sum::<f64>() * f.rounds as f64;
        let share = |&source: &DrafterId| {
            let of = f.accepted_by.iter().find(|(own, _)| *own == source);
            percent(of.map_or(0.0, |(_, count)| count as f64 / accepted.max(1.0)))
        };
        std::iter::once((*strategy).to_owned()).chain(sources.iter().map(share)).collect()
    };
    let names: Vec<&str> = sources.iter().map(|source| source.name()).collect();
    let title = format!("Accepted tokens by the source that proposed them; T = {temperature}");
    let drafting = figures.iter().filter(|(strategy, _)| *strategy != PLAIN);
    let table = Table::new(title, &head(&names, &[])).with_rows(drafting.map(row));
    Some(table.with_note("A token proposed by several sources counts for each of them."))
}

/// A table for each curve.
fn sweep_tables(results: &Results) -> Vec<Table> {
    let grids = AnswerGrid::of(&results.answers);
    let all = grids.iter().flat_map(|grid| results.sweeps.iter().map(|sweep| curve(sweep, grid)));
    all.filter(|table| !table.rows.is_empty()).collect()
}

fn curve(sweep: &Sweep, grid: &AnswerGrid<'_>) -> Table {
    let plans = !sweep.expected.is_empty();
    let points = sweep.points.iter().filter(|(name, _)| grid.strategies.contains(&name.as_str()));
    let row = |(name, value): &(String, Option<f64>)| {
        let f = grid.all(name);
        let mut row = vec![value.map_or_else(|| name.clone(), |value| value.to_string())];
        row.push(times(grid.mean_speed_up(name)));
        row.push(two_digits(grid.mean(name, |figures| figures.tau)));
        if plans {
            let expected = sweep.expected.iter().find(|(own, _)| own == name);
            row.push(optional(expected.map(|(_, tokens_s)| *tokens_s), rate));
        }
        row.extend([rate(f.tokens_s), format!("{:.1}", f.drafted)]);
        row.extend([f.draft_ms, f.verify_ms, f.other_ms, f.ttft_ms].map(ms));
        row
    };
    let mut head = vec![sweep.axis.as_str(), "speed-up", "τ"];
    head.extend(plans.then_some("expected"));
    head.extend(["tokens/s", "drafted", "draft ms", "verify ms", "other ms", "TTFT ms"]);
    let title = format!("{}; T = {}", sweep.title, grid.temperature);
    let table = Table::new(title, &head).with_rows(points.map(row));
    let best = |of: &dyn Fn(&str) -> f64| {
        let names = sweep.expected.iter().map(|(name, _)| name.as_str());
        let known = names.filter(|name| grid.strategies.contains(name));
        known.max_by(|a, b| of(a).total_cmp(&of(b))).unwrap_or_default().to_owned()
    };
    let plan = |name: &str| {
        sweep.expected.iter().find(|(own, _)| own == name).map_or(0.0, |(_, rate)| *rate)
    };
    if !plans {
        return table;
    }
    table.with_note(format!(
        "Expected: tokens per second by the plan. Speed-up: over plain with the same placement. \
         Best as expected: {}. Best as measured: {}.",
        best(&plan),
        best(&|name| grid.all(name).tokens_s)
    ))
}

/// Whether every text was plain's: the sentence, and whether it is so.
pub fn lossless_check(answers: &[AnswerRecord]) -> (String, bool) {
    let differing: Vec<&AnswerRecord> = answers.iter().filter(|a| a.differs_at.is_some()).collect();
    if differing.is_empty() {
        let text = format!(
            "All {} answers are identical to plain decoding, token for token.",
            answers.len()
        );
        return (text, true);
    }
    let mut text = format!(
        "NOT LOSSLESS: {} of {} answers differ from plain decoding:",
        differing.len(),
        answers.len()
    );
    for answer in differing.iter().take(NAMED) {
        let AnswerRecord { strategy, set, id, turn, temperature, differs_at, .. } = answer;
        let at = differs_at.unwrap_or_default();
        text += &format!(
            "\n  {strategy} on {set} {id}, turn {turn}, T = {temperature}: from token {at}"
        );
    }
    if differing.len() > NAMED {
        text += &format!("\n  and {} more", differing.len() - NAMED);
    }
    (text, false)
}

/// The names of the columns, after that of the strategies.
fn head<S: AsRef<str>>(middle: &[S], last: &[&str]) -> Vec<String> {
    let middle = middle.iter().map(AsRef::as_ref);
    std::iter::once("strategy")
        .chain(middle)
        .chain(last.iter().copied())
        .map(str::to_owned)
        .collect()
}

fn mib(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), |bytes| (bytes >> 20).to_string())
}

#[cfg(test)]
pub(in crate::bench) mod tests {
    use super::super::figures::tests::{answer, sample};
    use super::super::record::{Environment, Models};
    use super::*;
    use crate::bench::TableStyle;

    pub(in crate::bench) fn results(answers: Vec<AnswerRecord>) -> Results {
        Results {
            kind: "strategies".to_owned(),
            version: "0.1.0".to_owned(),
            environment: Environment {
                cpu: "a processor".to_owned(),
                cores: 2,
                threads: 2,
                features: vec!["AVX2".to_owned()],
                memory: 8 << 30,
                gpu: None,
            },
            models: Models {
                target: "a target".to_owned(),
                target_detail: "6 M parameters".to_owned(),
                target_place: "on the CPU".to_owned(),
                drafts: vec![("dovetail".to_owned(), "a head".to_owned())],
                parameters: Vec::new(),
                context: 2048,
            },
            max_tokens: 128,
            seed: 0,
            settings: Vec::new(),
            notes: Vec::new(),
            complete: true,
            sweeps: Vec::new(),
            answers,
        }
    }

    fn text(results: &Results) -> String {
        crate::bench::table::tests::text(&tables(results), TableStyle::Markdown)
    }

    #[test]
    fn the_tables_of_a_run() {
        let mut answers = sample();
        answers.push(AnswerRecord { temperature: 1.0, ..answer(PLAIN, "gsm8k", 5, 5, 900.0) });
        insta::assert_snapshot!(text(&results(answers)));
    }

    #[test]
    fn a_sweep_has_a_row_a_point_that_was_measured() {
        let mut results = results(sample());
        results.sweeps.push(Sweep {
            title: "Speed-up against γ".to_owned(),
            axis: "γ".to_owned(),
            points: vec![
                ("plain".to_owned(), Some(1.0)),
                ("dovetail".to_owned(), None),
                ("x".to_owned(), Some(9.0)),
            ],
            expected: Vec::new(),
        });
        insta::assert_snapshot!(text(&results));
        results.sweeps[0].expected =
            vec![("dovetail".to_owned(), 900.0), ("plain".to_owned(), 950.0)];
        insta::assert_snapshot!("expected_and_measured", text(&results));
    }

    #[test]
    fn one_wrong_token_is_said_loudly() {
        let mut answers = sample();
        assert_eq!(
            lossless_check(&answers),
            ("All 4 answers are identical to plain decoding, token for token.".to_owned(), true)
        );
        answers[3].differs_at = Some(17);
        let (text, lossless) = lossless_check(&answers);
        assert!(!lossless);
        assert!(text.starts_with("NOT LOSSLESS: 1 of 4") && text.contains("token 17"), "{text}");
        assert!(text.contains("dovetail on gsm8k"), "{text}");
    }

    #[test]
    fn only_their_target_has_their_figures() {
        let known = ["bundled target", "llama-3-8b-instruct", "Llama-2-7b-chat-hf"];
        assert_eq!(known.map(is_published), [false, false, true]);
    }
}
