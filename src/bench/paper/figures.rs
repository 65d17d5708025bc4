//! The papers' figures on this machine: contenders, prompts, and what is drawn of them. Must never
//! run anything.

use super::published::Published;
use super::sequences::{choices_chart, choices_table, counts_chart, counts_table};
use crate::bench::Table;
use crate::bench::prompts::{BenchPrompt, PromptSet};
use crate::bench::strategies::{Figures, Grid, PLAIN, Results};
use crate::chart::{Axis, Bar, Bars, ChartError, Lines, Series};

/// A figure of the papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaperFigure {
    /// Dovetail, Figure 1: where the target lies, with and without speculation.
    Placement,
    /// DuoDecoding, Figure 1: a pass over eight drafted tokens beside drafting them, by length.
    DuoLengths,
    /// DuoDecoding, Figure 3: the time to the first token beside plain decoding's.
    DuoFirstToken,
    /// DuoDecoding, Figure 4: how long either side waits.
    DuoWaiting,
    /// DuoDecoding, Figure 5: how often each number of sequences was drafted.
    DuoCounts,
    /// DuoDecoding, Table 4: whether that number was right. Not a table of contenders by sets, and
    /// so shown as figures are.
    DuoChoices,
}

/// Tokens that are drafted and checked at a time in [`PaperFigure::DuoLengths`].
const CHAIN: usize = 8;
/// The contender that drafts them, and its name in the results.
const CHAIN_LINE: &str = "sps:gamma=9,k=1,d=7,label=chain";
const CHAIN_NAME: &str = "chain";
/// Words of the prompts of that figure.
const WORDS: [usize; 5] = [16, 64, 192, 448, 960];

impl PaperFigure {
    /// All figures, by the names under which they are asked for.
    pub const ALL: [(&'static str, Self); 5] = [
        ("1", Self::Placement),
        ("duo-1", Self::DuoLengths),
        ("duo-3", Self::DuoFirstToken),
        ("duo-4", Self::DuoWaiting),
        ("duo-5", Self::DuoCounts),
    ];

    /// The tables that are shown as figures are, by the names under which they are asked for.
    pub const TABLES: [(&'static str, Self); 1] = [("duo-4", Self::DuoChoices)];

    /// The figure of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, figure)| *figure)
    }

    /// The table of this name, if it is shown as figures are.
    pub fn table_named(name: &str) -> Option<Self> {
        Self::TABLES.iter().find(|(known, _)| *known == name).map(|(_, table)| *table)
    }

    /// Its contenders, as they are written.
    pub fn lines(self) -> &'static str {
        match self {
            Self::Placement => {
                "plain;dovetail;plain:gpu-layers=auto;dovetail:gpu-layers=auto;\
                 plain:gpu-layers=all;dovetail:gpu-layers=all"
            }
            Self::DuoLengths => CHAIN_LINE,
            Self::DuoFirstToken => "sps;duo",
            Self::DuoWaiting => "sps;duo;dovetail;dovetail+overlap",
            Self::DuoCounts | Self::DuoChoices => "duo",
        }
    }

    /// What is shown of the results.
    pub fn tables(self, results: &Results, published: &Published) -> Vec<Table> {
        let grids = Grid::of(&results.answers);
        grids.iter().map(|grid| self.table(grid, published)).collect()
    }

    fn table(self, grid: &Grid<'_>, published: &Published) -> Table {
        let t = grid.temperature;
        match self {
            Self::Placement => Table {
                title: format!(
                    "Dovetail, Figure 1: placement with and without speculation; T = {t}"
                ),
                head: words(&["contender", "tokens/s", "speed-up", "τ"]),
                rows: grid
                    .strategies
                    .iter()
                    .map(|&name| {
                        // Beside the target alone on the CPU, wherever this one has it.
                        let base = grid.mean_tokens_s(PLAIN);
                        let rate = grid.mean_tokens_s(name);
                        vec![
                            name.to_owned(),
                            format!("{rate:.2}"),
                            ratio(rate, base),
                            format!("{:.2}", grid.mean_tau(name)),
                        ]
                    })
                    .collect(),
                notes: vec![
                    "Speed-up: compared with the target alone, placed as the settings say."
                        .to_owned(),
                ],
            },
            Self::DuoLengths => Table {
                title: format!(
                    "DuoDecoding, Figure 1: {CHAIN} tokens drafted and verified; T = {t}"
                ),
                head: words(&["words", "tokens in the prompt", "draft ms", "verify ms", "ratio"]),
                rows: lengths(grid).iter().map(length_row).collect(),
                notes: vec![format!(
                    "A small model drafts a chain of {CHAIN}, and the target verifies it in one \
                     pass ({} nodes including the root). Ratio: verify over draft; below 1 the \
                     target waits.",
                    CHAIN + 1
                )],
            },
            Self::DuoFirstToken => {
                let theirs = |name: &str| {
                    let name = if name == "duo" { "DuoDecoding" } else { "SpS" };
                    let range = published.ttft_over_plain.get(name);
                    range.map_or_else(|| "-".to_owned(), |[a, b]| format!("{a:.1}–{b:.1}×"))
                };
                let row = |&name: &&str| {
                    let times = |set: &&str| {
                        let times = grid.first_token(name, set);
                        times.map_or_else(|| "-".to_owned(), |times| format!("{times:.2}×"))
                    };
                    let sets = grid.sets.iter().map(times);
                    [name.to_owned()].into_iter().chain(sets).chain([theirs(name)]).collect()
                };
                let drafting = grid.strategies.iter().filter(|name| **name != PLAIN);
                let head = [&["contender"], grid.sets.as_slice(), &["paper"]].concat();
                Table {
                    title: format!(
                        "DuoDecoding, Figure 3: time to the first token relative to plain; T = {t}"
                    ),
                    head: words(&head),
                    rows: drafting.map(row).collect(),
                    notes: vec![format!(
                        "Medians of the first turns. The paper's range: {}.",
                        published.ttft_source
                    )],
                }
            }
            Self::DuoWaiting => Table {
                title: format!("DuoDecoding, Figure 4: how long each side waits; T = {t}"),
                head: words(&["contender", "target waits", "draft waits", "round ms"]),
                rows: drafting(grid)
                    .map(|(name, f)| {
                        let (target, draft) = waiting(&f);
                        vec![
                            name.to_owned(),
                            format!("{target:.0} %"),
                            format!("{draft:.0} %"),
                            format!("{:.2}", f.round_ms()),
                        ]
                    })
                    .collect(),
                notes: vec![
                    "Shares of a round; acceptance and commit count as waiting for neither side."
                        .to_owned(),
                ],
            },
            Self::DuoCounts => counts_table(grid),
            Self::DuoChoices => choices_table(grid, published),
        }
    }

    /// Its charts: file name and SVG text.
    ///
    /// # Errors
    /// [`ChartError`].
    pub fn charts(
        self,
        results: &Results,
        published: &Published,
    ) -> Result<Vec<(String, String)>, ChartError> {
        let mut all = Vec::new();
        for grid in &Grid::of(&results.answers) {
            let t = grid.temperature;
            let (name, svg) = match self {
                Self::Placement => {
                    let bar = |&name: &&str| Bar {
                        name: name.to_owned(),
                        values: vec![grid.mean_tokens_s(name)],
                    };
                    let bars = grid.strategies.iter().map(bar).collect();
                    let title = format!("Placement with and without speculation, T = {t}");
                    ("placement", bar_chart(title, "tokens per second", &["tokens/s"], bars)?)
                }
                Self::DuoLengths => {
                    let points = lengths(grid);
                    let series = |name: &str, value: fn(&Figures) -> f64| Series {
                        name: name.to_owned(),
                        points: points.iter().map(|(_, at, f)| (*at, value(f))).collect(),
                    };
                    let lines = Lines {
                        title: format!("{CHAIN} tokens drafted and verified, T = {t}"),
                        x: "tokens in the prompt".into(),
                        y: "ms".into(),
                        series: vec![
                            series("draft", |f| f.draft_ms),
                            series("T_V, verify", |f| f.verify_ms),
                        ],
                    };
                    ("lengths", lines.svg()?)
                }
                Self::DuoFirstToken => {
                    let bar = |name: &str| {
                        let times = grid.sets.iter().filter_map(|set| grid.first_token(name, set));
                        let times: Vec<f64> = times.collect();
                        let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
                        Bar { name: name.to_owned(), values: vec![mean] }
                    };
                    let bars = grid.strategies.iter().map(|name| bar(name)).collect();
                    let title = format!("Time to the first token, mean of the sets, T = {t}");
                    (
                        "first-token",
                        bar_chart(title, "relative to plain", &["relative to plain"], bars)?,
                    )
                }
                Self::DuoWaiting => {
                    let bar = |(name, f): (&str, Figures)| {
                        let (target, draft) = waiting(&f);
                        Bar { name: name.to_owned(), values: vec![target, draft] }
                    };
                    let bars = drafting(grid).map(bar).collect();
                    let title = format!("How long each side waits, T = {t}");
                    let parts = ["target", "draft"];
                    ("waiting", bar_chart(title, "% of a round", &parts, bars)?)
                }
                Self::DuoCounts => ("sequences", counts_chart(grid)?),
                Self::DuoChoices => ("choices", choices_chart(grid, published)?),
            };
            all.push((format!("{name}-t{t}.svg"), svg));
        }
        Ok(all)
    }
}

pub(super) fn drafting<'a>(grid: &'a Grid<'_>) -> impl Iterator<Item = (&'a str, Figures)> + 'a {
    let names = grid.strategies.iter().copied().filter(|name| *name != PLAIN);
    names.map(|name| (name, grid.all(name)))
}

/// Shares of a round in which the target and the draft have nothing to do, percent.
fn waiting(figures: &Figures) -> (f64, f64) {
    let share = |ms: f64| 100.0 * ms / figures.round_ms().max(f64::MIN_POSITIVE);
    (share(figures.draft_ms + figures.wait_ms), share(figures.verify_ms - figures.ahead_ms))
}

/// The chain's figures by set: its name, the mean length of the prompts and the figures.
fn lengths<'a>(grid: &'a Grid<'_>) -> Vec<(&'a str, f64, Figures)> {
    let of = |&set: &&'a str| {
        let figures = grid.at(CHAIN_NAME, set);
        let tokens = grid.prompt_tokens(CHAIN_NAME, set)?;
        Some((set, tokens, figures))
    };
    grid.sets.iter().filter_map(of).collect()
}

fn length_row((set, tokens, f): &(&str, f64, Figures)) -> Vec<String> {
    vec![
        (*set).to_owned(),
        format!("{tokens:.0}"),
        format!("{:.2}", f.draft_ms),
        format!("{:.2}", f.verify_ms),
        ratio(f.verify_ms, f.draft_ms),
    ]
}

fn ratio(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.2}×", part / whole) } else { "-".to_owned() }
}

pub(super) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

pub(super) fn bar_chart(
    title: String,
    unit: &str,
    parts: &[&str],
    bars: Vec<Bar>,
) -> Result<String, ChartError> {
    Bars { title, value: Axis::linear(unit), parts: words(parts), bars }.svg()
}

/// Prompts by length, made of the texts of `sets`: a set for each number of words.
pub fn length_sets(sets: &[PromptSet], limit: usize) -> Vec<PromptSet> {
    let turns = sets.iter().flat_map(|set| &set.prompts).flat_map(|prompt| &prompt.turns);
    let text: Vec<&str> = turns.flat_map(|turn| turn.split_whitespace()).collect();
    let mut all = Vec::new();
    for words in WORDS {
        // Others for every prompt, from the beginning again where there are no more.
        let prompt = |number: usize| BenchPrompt {
            id: format!("{words} words/{number}"),
            category: String::new(),
            turns: vec![
                (0..words)
                    .map(|at| text[(number * words + at) % text.len()])
                    .collect::<Vec<_>>()
                    .join(" "),
            ],
        };
        if !text.is_empty() {
            let prompts = (0..limit).map(prompt).collect();
            all.push(PromptSet { name: words.to_string(), prompts });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::published::published;
    use super::*;
    use crate::bench::TableStyle;
    use crate::bench::strategies::{AnswerRecord, contender_lines, results_for_tests};

    fn answer(strategy: &str, set: &str, prompt_tokens: usize, ms: f64) -> AnswerRecord {
        AnswerRecord {
            set: set.to_owned(),
            strategy: strategy.to_owned(),
            prompt_tokens,
            tokens: 11,
            rounds: 10,
            ttft_ms: ms,
            decode_ms: ms,
            draft_ms: 0.25 * ms,
            verify_ms: 0.5 * ms,
            ahead_ms: 0.125 * ms,
            ..AnswerRecord::default()
        }
    }

    fn text(figure: PaperFigure, answers: Vec<AnswerRecord>) -> String {
        let results = results_for_tests(answers);
        let mut out = Vec::new();
        for table in figure.tables(&results, &published().unwrap()) {
            table.write(TableStyle::Plain, &mut out).unwrap();
        }
        let charts = figure.charts(&results, &published().unwrap()).unwrap();
        assert_eq!(charts.len(), 1);
        assert!(charts[0].1.starts_with("<svg"), "{}", charts[0].0);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_figure_s_contenders_are_some() {
        let tables = PaperFigure::TABLES;
        for (name, figure) in tables {
            assert_eq!(PaperFigure::table_named(name), Some(figure));
            assert!(!super::super::PaperTable::ALL.iter().any(|(other, _)| *other == name));
        }
        for (name, figure) in PaperFigure::ALL {
            assert_eq!(PaperFigure::named(name), Some(figure));
        }
        for (_, figure) in PaperFigure::ALL.into_iter().chain(tables) {
            for line in contender_lines("figure", figure.lines()) {
                line.unwrap();
            }
        }
        let chain = contender_lines("figure", CHAIN_LINE).remove(0).unwrap();
        assert_eq!(chain.name, CHAIN_NAME);
    }

    #[test]
    fn figures_show_what_they_are_about() {
        let answers = || {
            vec![
                answer(PLAIN, "a", 10, 100.0),
                answer("duo", "a", 10, 120.0),
                answer(CHAIN_NAME, "a", 10, 80.0),
            ]
        };
        let first = text(PaperFigure::DuoFirstToken, answers());
        let duo = first.lines().find(|line| line.starts_with("duo")).unwrap();
        assert!(duo.contains("1.20×") && duo.contains("1.3–1.4×"), "{first}");
        let waiting = text(PaperFigure::DuoWaiting, answers());
        let duo = waiting.lines().find(|line| line.starts_with("duo")).unwrap();
        assert!(duo.contains("25 %") && duo.contains("38 %"), "{waiting}");
        let lengths = text(PaperFigure::DuoLengths, answers());
        assert!(lengths.contains("2.00×"), "{lengths}");
        let placed = text(PaperFigure::Placement, answers());
        let duo = placed.lines().find(|line| line.starts_with("duo")).unwrap();
        assert!(duo.contains("0.83×"), "{placed}");
    }

    #[test]
    fn prompts_have_as_many_words_as_they_say() {
        let prompt = |text: &str| BenchPrompt {
            id: String::new(),
            category: String::new(),
            turns: vec![text.to_owned()],
        };
        let set = PromptSet { name: "x".into(), prompts: vec![prompt("a b c"), prompt("d e")] };
        let sets = length_sets(&[set], 2);
        assert_eq!(sets.len(), WORDS.len());
        for (set, words) in sets.iter().zip(WORDS) {
            assert_eq!((set.name.clone(), set.prompts.len()), (words.to_string(), 2));
            for prompt in &set.prompts {
                assert_eq!(prompt.turns[0].split(' ').count(), words);
            }
        }
        assert!(length_sets(&[], 2).is_empty());
    }
}
