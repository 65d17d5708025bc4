//! The candidates that stand for a table's rows here, and the prompt sets that stand for its
//! columns. It must not depend on figures.

use super::published::{Published, PublishedFigure, PublishedTable};
use crate::bench::prompts::{BenchPrompt, PromptSet, offering};
use crate::bench::strategies::{CandidateLine, PLAIN, candidate_lines};
use crate::plan::{DrafterId, Strategy};

/// Models that a table needs in addition to those of the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Paper")]
pub struct PaperModels {
    /// EAGLE-1 or EAGLE-2 head for the target: a folder, a file or a hub id.
    #[arg(long, value_name = "MODEL")]
    pub eagle_head: Option<String>,
    /// Second small model, in addition to --draft-model.
    #[arg(long, value_name = "MODEL")]
    pub second_draft_model: Option<String>,
    /// Head for the row of Table III with M blocks; repeat the flag for several. The other rows use
    /// the head of --draft.
    #[arg(long, value_name = "M=MODEL", value_parser = block_head, conflicts_with = "figure")]
    pub block_head: Vec<BlockHead>,
}

/// A head for one number of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockHead {
    /// M.
    pub blocks: usize,
    /// A folder, a file or a hub id.
    pub head: String,
}

fn block_head(text: &str) -> Result<BlockHead, String> {
    let parts = text.split_once('=').filter(|(_, head)| !head.is_empty());
    let found = parts.and_then(|(blocks, head)| Some((blocks.parse().ok()?, head.to_owned())));
    let (blocks, head) = found.ok_or("write M=MODEL, such as 2=heads/two-blocks")?;
    Ok(BlockHead { blocks, head })
}

impl BlockHead {
    /// Whether it drafts in the row of this candidate, in place of the settings' head.
    fn is_for(&self, line: &str) -> bool {
        line.ends_with(&format!(",m={}", self.blocks))
    }
}

impl PaperModels {
    /// A candidate with its models in the place of their names.
    ///
    /// # Errors
    /// Which model is missing, with the remedy.
    fn fill(&self, line: &str) -> Result<String, String> {
        let mut line = line.to_owned();
        for (name, model, lacking) in self.named() {
            if line.contains(name) {
                line = line.replace(name, model.as_ref().ok_or_else(|| lacking.to_owned())?);
            }
        }
        Ok(line)
    }

    /// The names of the models in candidates, the models, and what to do without them.
    fn named(&self) -> [(&'static str, &Option<String>, &'static str); 2] {
        let head = "an EAGLE-1 or EAGLE-2 head for this target: name one with --eagle-head";
        let second = "a second small model: name one with --second-draft-model";
        [
            ("{eagle_head}", &self.eagle_head, head),
            ("{second_draft_model}", &self.second_draft_model, second),
        ]
    }

    /// The first head for a number of blocks that no row of `table` has.
    pub fn without_row(&self, table: &PublishedTable) -> Option<&BlockHead> {
        let lines = || table.candidates.iter().chain(&table.ours).map(|(_, line)| line);
        self.block_head.iter().find(|own| !lines().any(|line| own.is_for(line)))
    }
}

/// A row of a table on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaperRow {
    /// The paper's name of it.
    pub published: String,
    /// Whether it is not the paper's but an addition of ours.
    pub ours: bool,
    /// The candidate as it is written, or what is missing, with the remedy.
    pub line: Result<String, String>,
}

impl PaperRow {
    /// Its name in the results.
    pub fn candidate(&self) -> &str {
        match &self.line {
            Ok(line) if line == PLAIN => PLAIN,
            _ => &self.published,
        }
    }

    /// Its candidate, ready to run; a row of the paper's drafts as the paper does.
    ///
    /// # Errors
    /// What is missing, with the remedy.
    pub fn candidate_lines(&self) -> Result<Vec<Result<CandidateLine, String>>, &str> {
        let line = self.line.as_ref().map_err(String::as_str)?;
        Ok(if self.ours { candidate_lines(ORIGIN, line) } else { published_lines(line) })
    }
}

impl PublishedFigure {
    /// Its candidates, ready to run, where a model of this kind drafts; or what is missing for one.
    pub fn candidate_lines(
        &self,
        models: &PaperModels,
        kind: DrafterId,
    ) -> Vec<Result<CandidateLine, String>> {
        let all = self.candidates.replace("{tree}", Strategy::first_with(kind).name);
        let lines = all.split(';').map(|line| match models.fill(line) {
            Ok(line) => published_lines(&line),
            Err(missing) => {
                let name = line.rsplit_once("label=").map_or(line, |(_, label)| label);
                vec![Err(format!("`{name}` needs {missing}"))]
            }
        });
        lines.flatten().collect()
    }
}

/// The name of this file in errors about its candidates.
const ORIGIN: &str = "paper";

/// Candidates that draft as the papers do, without the target's noise.
fn published_lines(text: &str) -> Vec<Result<CandidateLine, String>> {
    candidate_lines(ORIGIN, text)
        .into_iter()
        .map(|line| line.map(CandidateLine::uncoupled))
        .collect()
}

impl PublishedTable {
    /// Its rows, in the paper's order, and then ours.
    pub fn rows(&self, models: &PaperModels) -> Vec<PaperRow> {
        let line = |published: &str, line: &str| {
            let mut line = models.fill(line)?;
            if let Some(own) = models.block_head.iter().find(|own| own.is_for(&line)) {
                line = format!("{line},head={}", own.head);
            }
            let joint = if line.contains(':') { "," } else { ":" };
            let label =
                if line == PLAIN { String::new() } else { format!("{joint}label={published}") };
            Ok(line + &label)
        };
        let row = |(published, text): &(String, String), ours| PaperRow {
            published: published.clone(),
            ours,
            line: line(published, text),
        };
        let theirs = self.candidates.iter().map(|candidate| row(candidate, false));
        theirs.chain(self.ours.iter().map(|candidate| row(candidate, true))).collect()
    }
}

/// The sets that stand for a column, each named after it, and notes about them.
pub fn matching_sets(
    published: &Published,
    columns: &[String],
    sets: Vec<PromptSet>,
) -> (Vec<PromptSet>, Vec<String>) {
    let mut found = Vec::new();
    let mut notes = Vec::new();
    let mut missing = Vec::new();
    for column in columns.iter().filter(|column| *column != "mean") {
        let names = published.sets.get(column).map_or(&[][..], Vec::as_slice);
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

/// Prompts by length, made of the texts of `sets`: a set for each number of words.
pub fn length_sets(sets: &[PromptSet], lengths: &[usize], limit: usize) -> Vec<PromptSet> {
    let turns = sets.iter().flat_map(|set| &set.prompts).flat_map(|prompt| &prompt.turns);
    let text: Vec<&str> = turns.flat_map(|turn| turn.split_whitespace()).collect();
    if text.is_empty() {
        return Vec::new();
    }
    let set = |&words: &usize| {
        // Each prompt has other words; after the last word follows the first again.
        let turn = |number: usize| {
            let from = (0..words).map(|at| text[(number * words + at) % text.len()]);
            from.collect::<Vec<_>>().join(" ")
        };
        let prompt = |number: usize| BenchPrompt {
            id: format!("{words} words/{number}"),
            category: String::new(),
            turns: vec![turn(number)],
        };
        PromptSet { name: words.to_string(), prompts: (0..limit).map(prompt).collect() }
    };
    lengths.iter().map(set).collect()
}

#[cfg(test)]
mod tests {
    use super::super::published::published;
    use super::*;

    fn set(name: &str, turns: &[&str]) -> PromptSet {
        let prompt = |turn: &&str| BenchPrompt {
            id: "1".into(),
            category: String::new(),
            turns: vec![(*turn).to_owned()],
        };
        PromptSet { name: name.to_owned(), prompts: turns.iter().map(prompt).collect() }
    }

    #[test]
    fn a_row_without_its_model_says_what_it_lacks() {
        let rows = published().unwrap().tables["1"].rows(&PaperModels::default());
        let lacking = rows.iter().filter(|row| row.line.is_err());
        let lacking: Vec<&str> = lacking.map(|row| row.published.as_str()).collect();
        assert_eq!(lacking, ["Vanilla EAGLE-2", "TinyLlama-1.1B", "EAGLE-2"]);
        assert!(rows[0].line.as_ref().unwrap_err().contains("--eagle-head"));
        assert_eq!(rows[4].line.as_deref(), Ok("dovetail:gamma=16,k=10,d=7,m=all,label=Dovetail"));
    }

    #[test]
    fn a_head_for_a_number_of_blocks_drafts_in_its_row_alone() {
        let heads = ["2=a/two", "5=b=c"].map(|text| block_head(text).unwrap());
        let models = PaperModels { block_head: heads.to_vec(), ..PaperModels::default() };
        let published = published().unwrap();
        let table = &published.tables["3"];
        let lines: Vec<String> =
            table.rows(&models).into_iter().filter_map(|row| row.line.ok()).collect();
        let with: Vec<&str> =
            lines.iter().filter(|line| line.contains("head=")).map(String::as_str).collect();
        let expected = [
            "dovetail:gamma=16,k=10,d=7,m=2,head=a/two,label=w/ DGF + 1",
            "dovetail:gamma=16,k=10,d=7,m=5,head=b=c,label=w/ DGF + 4",
        ];
        assert_eq!((with, lines.len()), (expected.to_vec(), 6));
        assert_eq!(models.without_row(table), None);
        assert_eq!(models.without_row(&published.tables["1"]), Some(&heads[0]));
        for wrong in ["2", "2=", "two=a", "=a"] {
            assert!(block_head(wrong).unwrap_err().contains("M=MODEL"), "{wrong}");
        }
    }

    #[test]
    fn a_bar_without_its_model_says_what_it_lacks() {
        let figure = &published().unwrap().figures["1"];
        let lines = figure.candidate_lines(&PaperModels::default(), DrafterId::Head);
        let lacking: Vec<&String> = lines.iter().filter_map(|line| line.as_ref().err()).collect();
        assert_eq!((lines.len(), lacking.len()), (7, 1), "{lacking:?}");
        assert!(lacking[0].starts_with("`Vanilla EAGLE-2` needs an EAGLE-1 or"), "{lacking:?}");
        let models = PaperModels { eagle_head: Some("e".to_owned()), ..PaperModels::default() };
        let lines: Vec<_> = figure
            .candidate_lines(&models, DrafterId::Head)
            .into_iter()
            .map(Result::unwrap)
            .collect();
        // Every head drafts the paper's tree, and only the label differs by placement.
        let fixed = ["gamma=16", "k=10", "d=7", "m=all"];
        for line in lines.iter().filter(|line| line.row.draft == DrafterId::Head) {
            let text = line.text();
            let own_size = line.row.shape.is_some();
            assert!(own_size || fixed.iter().all(|set| text.contains(set)), "{text}");
        }
    }

    #[test]
    fn sets_stand_for_columns_or_are_missed() {
        let columns = ["mt_bench", "alpaca", "qa", "code", "mean"].map(str::to_owned);
        let sets =
            ["humaneval", "instructions", "mt_bench", "other"].map(|name| set(name, &["hi"]));
        let (found, notes) = matching_sets(&published().unwrap(), &columns, sets.to_vec());
        let names: Vec<&str> = found.iter().map(|set| set.name.as_str()).collect();
        assert_eq!(names, ["mt_bench", "alpaca", "code"]);
        assert!(notes.contains(&"`instructions` is used for alpaca.".to_owned()), "{notes:?}");
        let last = notes.last().unwrap();
        assert!(last.contains("qa.jsonl") && last.contains("bench fetch spec-bench`"), "{last}");
    }

    #[test]
    fn prompts_have_as_many_words_as_they_say() {
        let sets = length_sets(&[set("x", &["a b c", "d e"])], &[16, 64], 2);
        assert_eq!(sets.len(), 2);
        for (set, words) in sets.iter().zip([16, 64]) {
            assert_eq!((set.name.clone(), set.prompts.len()), (words.to_string(), 2));
            for prompt in &set.prompts {
                assert_eq!(prompt.turns[0].split(' ').count(), words);
            }
        }
        assert!(length_sets(&[], &[16], 2).is_empty());
    }
}
