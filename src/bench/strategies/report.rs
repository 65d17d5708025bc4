//! The tables of a run, laid out as the papers lay out theirs: speed-up and τ by set (Dovetail's
//! Table I), tokens a second by set (DuoDecoding's Table 1), what a round costs in time and memory
//! (Dovetail's Table II), and acceptance by depth. Must never measure.

use super::figures::{Figures, Grid};
use super::published;
use super::record::{AnswerRecord, PLAIN, Results, Sweep};
use crate::bench::Table;
use crate::speculate::DrafterId;

/// Columns of the table of depths.
const DEPTHS: usize = 8;
/// Differing answers that are named.
const NAMED: usize = 10;

/// The tables of every temperature.
pub fn tables(results: &Results) -> Vec<Table> {
    let mut tables: Vec<Table> = Grid::of(&results.answers).iter().flat_map(of_grid).collect();
    if let (Some(first), Some(note)) = (tables.first_mut(), published::beside(&results.models)) {
        first.notes.push(note);
    }
    tables
}

fn of_grid(grid: &Grid<'_>) -> Vec<Table> {
    let figures: Vec<(&str, Figures)> =
        grid.strategies.iter().map(|&strategy| (strategy, grid.all(strategy))).collect();
    let mut tables = vec![by_set(grid), rates(grid), first_tokens(grid)];
    tables.push(costs(grid.temperature, &figures));
    tables.extend(depths(grid.temperature, &figures));
    tables.extend(credits(grid.temperature, &figures));
    tables
}

fn by_set(grid: &Grid<'_>) -> Table {
    let row = |&strategy: &&str| {
        let of_set = |&set: &&str| pair(grid.speed_up(strategy, set), grid.at(strategy, set).tau);
        let mean = pair(grid.mean_speed_up(strategy), grid.mean_tau(strategy));
        let sets = grid.sets.iter().map(of_set);
        std::iter::once(strategy.to_owned()).chain(sets).chain([mean]).collect()
    };
    Table {
        title: format!("Speed-up over plain, and τ; T = {}", grid.temperature),
        head: head("strategy", &grid.sets, &["mean"]),
        rows: grid.strategies.iter().map(row).collect(),
        notes: vec![
            "Speed-up: tokens per second relative to plain, measured in turn in this run. τ: \
             tokens per target pass, without the prefill and its token. Mean: every set counts the \
             same."
                .to_owned(),
        ],
    }
}

fn rates(grid: &Grid<'_>) -> Table {
    let row = |&strategy: &&str| {
        let of_set = |&set: &&str| rate(grid.at(strategy, set).tokens_s);
        let sets = grid.sets.iter().map(of_set);
        let mean = rate(grid.mean_tokens_s(strategy));
        let times = times(grid.mean_speed_up(strategy));
        std::iter::once(strategy.to_owned()).chain(sets).chain([mean, times]).collect()
    };
    let beside = "Contenders with their own models or placement took turns with plain on the same \
                  ones, and their speed-up is relative to that. The row of plain shows the first \
                  placement.";
    let notes = ["Decoding only, by wall-clock time; TTFT contains the prefill."].into_iter();
    let notes = notes.chain(grid.has_batches().then_some(beside));
    Table {
        title: format!("Tokens per second; T = {}", grid.temperature),
        head: head("strategy", &grid.sets, &["mean", "speed-up"]),
        rows: grid.strategies.iter().map(row).collect(),
        notes: notes.map(str::to_owned).collect(),
    }
}

fn first_tokens(grid: &Grid<'_>) -> Table {
    let row = |&strategy: &&str| {
        let of_set = |&set: &&str| {
            let ttft = ms(grid.at(strategy, set).ttft_ms);
            format!("{} {ttft}", times(grid.first_token(strategy, set)))
        };
        let sets = grid.sets.iter().map(of_set);
        std::iter::once(strategy.to_owned()).chain(sets).collect()
    };
    Table {
        title: format!(
            "Time to the first token, relative to plain and in ms; T = {}",
            grid.temperature
        ),
        head: head("strategy", &grid.sets, &[]),
        rows: grid.strategies.iter().map(row).collect(),
        notes: vec!["Medians over the prompts' first turns.".to_owned()],
    }
}

fn costs(temperature: f32, figures: &[(&str, Figures)]) -> Table {
    // Only a schedule that overlaps has these columns.
    let beside = figures.iter().any(|(_, f)| f.ahead_ms + f.wait_ms > 0.0);
    let row = |(strategy, f): &(&str, Figures)| {
        let mut row = vec![(*strategy).to_owned(), format!("{:.1}", f.drafted)];
        row.push(format!("{:.2}", f.tau));
        row.extend([f.draft_ms, f.verify_ms, f.plan_ms, f.other_ms].map(ms));
        if beside {
            let idle = |time: f64| format!("{:.0} %", 100.0 * time / f.round_ms().max(1e-9));
            row.extend([f.ahead_ms, f.wait_ms].map(ms));
            row.push(format!("{:.0} %", 100.0 * f.drafted_ahead));
            row.extend([idle(f.draft_ms + f.wait_ms), idle(f.verify_ms - f.ahead_ms)]);
        }
        row.extend([ms(f.ttft_ms), mib(Some(f.ram)), mib(f.vram)]);
        row
    };
    let overlap = ["ahead ms", "wait ms", "drafted ahead", "target idle", "draft idle"];
    let overlap = if beside { &overlap[..] } else { &[] };
    let first = ["drafted", "τ", "draft ms", "verify ms", "plan ms", "other ms"];
    let mut notes = vec![
        "Means over rounds. Drafted: nodes below the root. Plan: choosing drafter and tree. TTFT: \
         median of the first turns. Memory: the peak of the process, which includes what other \
         contenders in it have loaded (`--isolated` runs each in its own process)."
            .to_owned(),
    ];
    if beside {
        notes.push(
            "Ahead: how long the drafter worked during verification. Wait: how long the target \
             then waited for the drafter. Drafted ahead: rounds whose tree was drafted during the \
             verification before. Idle: share of a round in which that side had nothing to do, \
             without acceptance and commit."
                .to_owned(),
        );
    }
    Table {
        title: format!("Time of a round and memory; T = {temperature}"),
        head: head("strategy", &[&first, overlap].concat(), &["TTFT ms", "RAM MiB", "VRAM MiB"]),
        rows: figures.iter().map(row).collect(),
        notes,
    }
}

/// `None` if nothing was drafted.
fn depths(temperature: f32, figures: &[(&str, Figures)]) -> Option<Table> {
    let drafting = || figures.iter().filter(|(strategy, _)| *strategy != PLAIN);
    let deepest = drafting().map(|(_, f)| f.accepted.len()).max().unwrap_or(0).min(DEPTHS);
    if deepest == 0 {
        return None;
    }
    let row = |(strategy, f): &(&str, Figures)| {
        let share = |at: usize| format!("{:.0} %", 100.0 * f.accepted.get(at).unwrap_or(&0.0));
        std::iter::once((*strategy).to_owned()).chain((0..deepest).map(share)).collect()
    };
    let names: Vec<String> = (1..=deepest).map(|depth| format!("≥ {depth}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Some(Table {
        title: format!("Acceptance by depth; T = {temperature}"),
        head: head("strategy", &names, &[]),
        rows: drafting().map(row).collect(),
        notes: vec![
            "Share of rounds in which at least this many draft tokens were accepted.".to_owned(),
        ],
    })
}

/// Whose tokens were accepted; `None` if nobody's were.
fn credits(temperature: f32, figures: &[(&str, Figures)]) -> Option<Table> {
    let all = |source| figures.iter().any(|(_, f)| f.accepted_by.iter().any(|(s, _)| s == source));
    let sources: Vec<DrafterId> =
        DrafterId::ALL.into_iter().filter(|&source| all(source)).collect();
    let row = |(strategy, f): &(&str, Figures)| {
        let accepted: f64 = f.accepted.iter().sum::<f64>() * f.rounds as f64;
        let share = |&source: &DrafterId| {
            let of = f.accepted_by.iter().find(|(own, _)| *own == source);
            let of = of.map_or(0.0, |(_, count)| 100.0 * count as f64 / accepted.max(1.0));
            format!("{of:.0} %")
        };
        std::iter::once((*strategy).to_owned()).chain(sources.iter().map(share)).collect()
    };
    let names: Vec<&str> = sources.iter().map(|source| source.name()).collect();
    (!sources.is_empty()).then(|| Table {
        title: format!("Accepted tokens by the source that proposed them; T = {temperature}"),
        head: head("strategy", &names, &[]),
        rows: figures.iter().filter(|(strategy, _)| *strategy != PLAIN).map(row).collect(),
        notes: vec!["A token proposed by several sources counts for each of them.".to_owned()],
    })
}

/// A table for each curve.
pub fn sweep_tables(results: &Results) -> Vec<Table> {
    let grids = Grid::of(&results.answers);
    let of = |sweep: &Sweep, grid: &Grid<'_>| {
        let row = |(name, value): &(String, Option<f64>)| {
            let f = grid.all(name);
            vec![
                value.map_or_else(|| "auto".to_owned(), |value| value.to_string()),
                times(grid.mean_speed_up(name)),
                format!("{:.2}", grid.mean_tau(name)),
                rate(f.tokens_s),
                format!("{:.1}", f.drafted),
                ms(f.draft_ms),
                ms(f.verify_ms),
                ms(f.other_ms),
            ]
        };
        let measured =
            |(name, _): &&(String, Option<f64>)| grid.strategies.contains(&name.as_str());
        Table {
            title: format!("{}; T = {}", sweep.title, grid.temperature),
            head: [
                sweep.axis.as_str(),
                "speed-up",
                "τ",
                "tokens/s",
                "drafted",
                "draft ms",
                "verify ms",
                "other ms",
            ]
            .map(str::to_owned)
            .to_vec(),
            rows: sweep.points.iter().filter(measured).map(row).collect(),
            notes: Vec::new(),
        }
    };
    let all = grids.iter().flat_map(|grid| results.sweeps.iter().map(move |sweep| of(sweep, grid)));
    all.filter(|table| !table.rows.is_empty()).collect()
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

fn head(first: &str, middle: &[&str], last: &[&str]) -> Vec<String> {
    [first].iter().chain(middle).chain(last).map(|&name| name.to_owned()).collect()
}

fn pair(speed_up: Option<f64>, tau: f64) -> String {
    format!("{} {tau:.2}", times(speed_up))
}

pub(super) fn times(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}×"))
}

/// Tokens a second: three digits are enough for any machine.
pub(super) fn rate(tokens_s: f64) -> String {
    let digits = if tokens_s < 10.0 { 2 } else { usize::from(tokens_s < 100.0) };
    format!("{tokens_s:.digits$}")
}

fn ms(time: f64) -> String {
    let digits = if time < 100.0 { 2 } else { 0 };
    format!("{time:.digits$}")
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

    fn text(tables: &[Table]) -> String {
        let mut out = Vec::new();
        for table in tables {
            table.write(TableStyle::Markdown, &mut out).unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_tables_of_a_run() {
        let mut answers = sample();
        answers.push(AnswerRecord { temperature: 1.0, ..answer(PLAIN, "gsm8k", 5, 5, 900.0) });
        insta::assert_snapshot!(text(&tables(&results(answers))));
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
        });
        insta::assert_snapshot!(text(&sweep_tables(&results)));
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
}
