//! Which contenders a table of the papers sets side by side, and which prompt sets stand for its
//! columns. Must never know figures.

use crate::bench::prompts::{PromptSet, offering};

/// A table of the papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaperTable {
    /// Dovetail, Table I: drafts on the GPU, the target on the CPU.
    DovetailSpeed,
    /// Dovetail, Table II: with as much video memory as there is.
    DovetailMemory,
    /// Dovetail, Table III: fusion and number of blocks.
    DovetailBlocks,
    /// DuoDecoding, Table 1: strategies by set.
    DuoSpeed,
    /// DuoDecoding, Table 2: the number of sequences.
    DuoSequences,
    /// DuoDecoding, Table 3: the budget.
    DuoBudget,
}

/// Models that a table takes beside the settings' own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaperModels {
    /// A head of EAGLE-1 or 2 for the target.
    pub eagle_head: Option<String>,
    /// A second small model.
    pub second_small: Option<String>,
}

/// A row of a table on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaperRow {
    /// The paper's name of it.
    pub published: &'static str,
    /// The contender as it is written, or what it lacks, with the remedy.
    pub line: Result<String, String>,
}

impl PaperRow {
    /// Its name in the results.
    pub fn contender(&self) -> &'static str {
        match &self.line {
            Ok(line) if line == PLAIN => PLAIN,
            _ => self.published,
        }
    }
}

const PLAIN: &str = crate::bench::strategies::PLAIN;
/// Dovetail's tree: γ with the root, width, expansions.
const TREE: &str = "gamma=16,k=10,d=7";

impl PaperTable {
    /// All, by the names under which they are asked for.
    pub const ALL: [(&'static str, Self); 6] = [
        ("1", Self::DovetailSpeed),
        ("2", Self::DovetailMemory),
        ("3", Self::DovetailBlocks),
        ("duo-1", Self::DuoSpeed),
        ("duo-2", Self::DuoSequences),
        ("duo-3", Self::DuoBudget),
    ];

    /// The table of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, table)| *table)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, table)| *table == self).map_or("", |(name, _)| name)
    }

    /// Whether it is about memory, so that every row needs a process of its own.
    pub fn is_of_memory(self) -> bool {
        self == Self::DovetailMemory
    }

    /// Whether the target lies on the CPU in every row that does not say otherwise.
    pub fn has_target_on_cpu(self) -> bool {
        matches!(self, Self::DovetailSpeed | Self::DovetailMemory | Self::DovetailBlocks)
    }

    /// The temperatures it is measured at.
    pub fn temperatures(self) -> &'static [f32] {
        if self == Self::DovetailSpeed { &[0.0, 1.0] } else { &[0.0] }
    }

    /// Its rows, in the paper's order.
    pub fn rows(self, models: &PaperModels) -> Vec<PaperRow> {
        let row = |published: &'static str, line: String| {
            let labelled = line != PLAIN;
            let joint = if line.contains(':') { "," } else { ":" };
            let line = if labelled { format!("{line}{joint}label={published}") } else { line };
            PaperRow { published, line: Ok(line) }
        };
        let needs =
            |published, what: &str, model: &Option<String>, line: &dyn Fn(&str) -> String| {
                match model {
                    Some(model) => row(published, line(model)),
                    None => PaperRow { published, line: Err(what.to_owned()) },
                }
            };
        let eagle = "an EAGLE-1 or EAGLE-2 head for this target: name one with --eagle-head";
        let second = "a second small model: name one with --second-draft-model";
        let plain = || PLAIN.to_owned();
        match self {
            Self::DovetailSpeed => vec![
                needs("Vanilla EAGLE-2", eagle, &models.eagle_head, &|head| {
                    format!("eagle2-60:head={head}")
                }),
                row("ShearedLlama-1.3B", format!("small-model:{TREE}")),
                needs("TinyLlama-1.1B", second, &models.second_small, &|model| {
                    format!("small-model:{TREE},draft-model={model}")
                }),
                needs("EAGLE-2", eagle, &models.eagle_head, &|head| {
                    format!("dovetail:{TREE},m=all,head={head}")
                }),
                row("Dovetail", format!("dovetail:{TREE},m=all")),
            ],
            Self::DovetailMemory => vec![
                row("CPU-only", plain()),
                row("Offload", "offload".to_owned()),
                row("SpecExec", "specexec".to_owned()),
                row("Dovetail", format!("partial:{TREE},m=all,gpu-layers=auto")),
            ],
            Self::DovetailBlocks => {
                let blocks =
                    |published, blocks| row(published, format!("dovetail:{TREE},m={blocks}"));
                vec![
                    needs("w/o both", eagle, &models.eagle_head, &|head| {
                        format!("dovetail:{TREE},m=1,head={head}")
                    }),
                    blocks("w/ DGF", 1),
                    blocks("w/ DGF + 1", 2),
                    blocks("w/ DGF + 2", 3),
                    blocks("w/ DGF + 3", 4),
                    blocks("w/ DGF + 4", 5),
                    blocks("w/ DGF + 5", 6),
                ]
            }
            Self::DuoSpeed => [
                ("Vanilla", PLAIN),
                ("SpS", "sps"),
                ("PLD", "pld"),
                ("REST", "rest"),
                ("Lookahead", "lookahead"),
                ("DuoDecoding", "duo"),
            ]
            .map(|(published, line)| row(published, line.to_owned()))
            .to_vec(),
            // One budget for all, so that only k differs.
            Self::DuoSequences => [
                ("k=1", "duo:k=1,gamma=c"),
                ("k=2", "duo:k=2,gamma=c"),
                ("k=3", "duo:k=3,gamma=c"),
                ("dynamic", "duo:gamma=c"),
            ]
            .map(|(published, line)| row(published, line.to_owned()))
            .to_vec(),
            Self::DuoBudget => [
                ("c-2", "duo:k=1,gamma=c-2"),
                ("c-1", "duo:k=1,gamma=c-1"),
                ("c", "duo:k=1,gamma=c"),
                ("c+1", "duo:k=1,gamma=c+1"),
                ("c+2", "duo:k=1,gamma=c+2"),
            ]
            .map(|(published, line)| row(published, line.to_owned()))
            .to_vec(),
        }
    }
}

/// Columns of the papers and the sets that stand for them, the nearest first.
const SETS: &[(&str, &[&str])] = &[
    ("mt_bench", &["mt_bench"]),
    ("humaneval", &["humaneval", "humaneval-full"]),
    ("code", &["code", "humaneval", "humaneval-full"]),
    ("gsm8k", &["gsm8k", "gsm8k-full"]),
    ("math", &["math", "math_reasoning", "gsm8k", "gsm8k-full"]),
    ("alpaca", &["alpaca", "instructions"]),
    ("summarization", &["summarization"]),
    ("translation", &["translation"]),
    ("qa", &["qa"]),
    ("rag", &["rag"]),
];

/// Of `sets` those that stand for a column, each named after it, and what is to be said of them.
pub fn matching_sets(columns: &[String], sets: Vec<PromptSet>) -> (Vec<PromptSet>, Vec<String>) {
    let (mut found, mut notes, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for column in columns.iter().filter(|column| *column != "mean") {
        let row = SETS.iter().find(|(name, _)| name == column);
        let names = row.map_or(&[][..], |(_, names)| names);
        let set = names.iter().find_map(|name| sets.iter().find(|set| set.name == *name));
        let Some(set) = set else {
            missing.push(column.as_str());
            continue;
        };
        if set.name != *column {
            notes.push(format!("`{}` is used for {column}.", set.name));
        }
        found.push(PromptSet { name: column.clone(), prompts: set.prompts.clone() });
    }
    if !missing.is_empty() {
        let mut fetch: Vec<String> = Vec::new();
        for file in missing.iter().filter_map(|set| offering(set)) {
            let command = format!("run `dovetail bench fetch {}`, or ", file.name);
            if !fetch.contains(&command) {
                fetch.push(command);
            }
        }
        let fetch = fetch.concat();
        notes.push(format!(
            "There are no prompts for {}: {fetch}name files, or a folder that contains {}.jsonl, \
             with --prompts.",
            missing.join(", "),
            missing[0]
        ));
    }
    (found, notes)
}

#[cfg(test)]
mod tests {
    use super::super::published::published;
    use super::*;
    use crate::bench::prompts::BenchPrompt;
    use crate::bench::strategies::contender_lines;

    #[test]
    fn every_row_is_a_contender_of_the_published_name() {
        let models =
            PaperModels { eagle_head: Some("a/e".into()), second_small: Some("b/s".into()) };
        let published = published().unwrap();
        for (name, table) in PaperTable::ALL {
            assert_eq!((PaperTable::named(name), table.name()), (Some(table), name));
            let theirs = &published.tables[name].blocks[0].rows;
            let rows = table.rows(&models);
            let names: Vec<&str> = rows.iter().map(|row| row.published).collect();
            for row in theirs {
                assert!(names.contains(&row.name.as_str()), "{name}: {} is not run", row.name);
            }
            assert_eq!(names.len(), theirs.len(), "{name}: {names:?}");
            for row in &rows {
                let lines = contender_lines("paper", row.line.as_ref().unwrap());
                assert_eq!(lines.len(), 1, "{row:?}");
                assert_eq!(lines[0].as_ref().unwrap().name, row.contender(), "{row:?}");
            }
        }
        assert_eq!(PaperTable::named("4"), None);
    }

    #[test]
    fn a_row_without_its_model_says_what_it_lacks() {
        let rows = PaperTable::DovetailSpeed.rows(&PaperModels::default());
        let lacking: Vec<&str> =
            rows.iter().filter(|row| row.line.is_err()).map(|row| row.published).collect();
        assert_eq!(lacking, ["Vanilla EAGLE-2", "TinyLlama-1.1B", "EAGLE-2"]);
        assert!(rows[0].line.as_ref().unwrap_err().contains("--eagle-head"));
    }

    #[test]
    fn sets_stand_for_columns_or_are_missed() {
        let set = |name: &str| PromptSet {
            name: name.to_owned(),
            prompts: vec![BenchPrompt {
                id: "1".into(),
                category: String::new(),
                turns: vec!["hi".into()],
            }],
        };
        let columns = ["mt_bench", "alpaca", "qa", "code", "mean"].map(str::to_owned);
        let sets = vec![set("humaneval"), set("instructions"), set("mt_bench"), set("other")];
        let (found, notes) = matching_sets(&columns, sets);
        let names: Vec<&str> = found.iter().map(|set| set.name.as_str()).collect();
        assert_eq!(names, ["mt_bench", "alpaca", "code"]);
        assert!(notes.contains(&"`instructions` is used for alpaca.".to_owned()), "{notes:?}");
        let last = notes.last().unwrap();
        assert!(last.contains("qa.jsonl") && last.contains("bench fetch spec-bench`"), "{last}");
    }
}
