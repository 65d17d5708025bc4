//! Prompt sets that can be fetched: `assets/bench/catalogue.toml`, part of the program, says where
//! each lies, what its content must hash to and how it is read. It must not fetch anything.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::{Context, bail};
use flate2::read::GzDecoder;
use serde::Deserialize;
use serde::de::Error as _;

use super::{BenchPrompt, PromptSet, unreadable, wrong};
use crate::files::{Access, atomic_write, read_regular, user_dirs};
use crate::library::{PinnedFile, PinnedFiles};

const FILE: &str = include_str!("../../../assets/bench/catalogue.toml");
/// Where files lie that are fetched by repository, commit and path.
pub const SERVER: &str = "https://raw.githubusercontent.com";
/// Most bytes that a compressed file may unfold to.
const MOST_UNFOLDED: u64 = 64 << 20;
/// Before each task of HumanEval, as DuoDecoding and Dovetail put it.
const COMPLETE: &str = "Complete the code I provided.\n";

/// One file of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogueFile {
    /// What `bench fetch` and `--prompts` take.
    pub name: String,
    /// To be read.
    pub title: String,
    repo: String,
    commit: String,
    path: String,
    sha256: String,
    /// Bytes to fetch.
    pub size: u64,
    /// What its use is subject to.
    pub licence: String,
    format: SetFormat,
    #[serde(rename = "set", default)]
    pub sets: Vec<CatalogueSet>,
}

/// One prompt set of a file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogueSet {
    /// For the tables.
    pub name: String,
    /// How many there are.
    pub prompts: usize,
    /// Whose lines it takes; all if empty.
    #[serde(default)]
    categories: Vec<String>,
}

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SetFormat {
    Turns,
    HumanEval,
    GradeSchoolMath,
    Answers,
}

/// All files.
#[allow(clippy::expect_used, reason = "the file is part of the binary, and a test reads it")]
pub fn catalogue() -> &'static [CatalogueFile] {
    #[derive(Deserialize)]
    struct Catalogue {
        file: Vec<CatalogueFile>,
    }
    static FILES: OnceLock<Vec<CatalogueFile>> = OnceLock::new();
    FILES.get_or_init(|| toml::from_str::<Catalogue>(FILE).expect("a sound catalogue").file)
}

/// What `name` stands for: a file, or `file/set`.
pub(super) fn named(name: &str) -> Option<(&'static CatalogueFile, Option<&str>)> {
    let (file, set) = match name.split_once('/') {
        Some((file, set)) => (file, Some(set)),
        None => (name, None),
    };
    let found = catalogue().iter().find(|known| known.name == file)?;
    let there = set.is_none_or(|set| found.sets.iter().any(|known| known.name == set));
    there.then_some((found, set))
}

/// Names of the files, for people.
pub(super) fn names() -> Vec<&'static str> {
    catalogue().iter().map(|file| file.name.as_str()).collect()
}

/// The file that has a set of this name.
pub fn offering(set: &str) -> Option<&'static CatalogueFile> {
    catalogue().iter().find(|file| file.sets.iter().any(|known| known.name == set))
}

/// The text to draft from that was fetched; `None` if there is none.
pub fn fetched_text() -> Option<PathBuf> {
    let kept = fetched_sets()?;
    let texts = catalogue().iter().filter(|file| file.is_text());
    texts.map(|file| file.text_place(&kept)).find(|place| place.is_file())
}

/// Where fetched sets are kept: in the cache folder. `None` without a home.
pub fn fetched_sets() -> Option<PinnedFiles> {
    Some(PinnedFiles::at(user_dirs()?.cache.join("prompts")))
}

impl CatalogueFile {
    /// The file at `server`, which has it by repository, commit and path.
    pub fn pinned(&self, server: &str) -> PinnedFile {
        let Self { repo, commit, path, .. } = self;
        let server = server.trim_end_matches('/');
        PinnedFile {
            name: self.name.clone(),
            url: format!("{server}/{repo}/{commit}/{path}"),
            sha256: self.sha256.clone(),
            size: self.size,
        }
    }

    /// Whether it seems to be here.
    pub fn is_in(&self, kept: &PinnedFiles) -> bool {
        kept.has(&self.pinned(SERVER))
    }

    /// Whether it becomes a text to draft from and has no prompts.
    pub fn is_text(&self) -> bool {
        self.format == SetFormat::Answers
    }

    fn text_place(&self, kept: &PinnedFiles) -> PathBuf {
        kept.folder.join(format!("{}.txt", self.name))
    }

    /// Writes the text that its fetched file holds, and returns its place.
    ///
    /// # Errors
    /// The file cannot be read, or the text cannot be written.
    pub fn write_text(&self, kept: &PinnedFiles) -> anyhow::Result<PathBuf> {
        let path = kept.place(&self.pinned(SERVER));
        let bytes = read_regular(&path, self.size).with_context(|| unreadable(&path))?;
        let text = answers(&bytes).map_err(|error| wrong(&self.name, error.line(), &error))?;
        let place = self.text_place(kept);
        atomic_write(&place, Access::Usual, |file| file.write_all(text.as_bytes()))
            .with_context(|| format!("cannot write {}", place.display()))?;
        Ok(place)
    }

    /// Its sets, or the one of this name, from where fetched files are kept.
    pub(super) fn read(
        &self,
        set: Option<&str>,
        kept: Option<&PinnedFiles>,
    ) -> anyhow::Result<Vec<PromptSet>> {
        let name = &self.name;
        if self.is_text() {
            bail!("`{name}` is a text to draft from and has no prompts; choose another set");
        }
        let pinned = self.pinned(SERVER);
        let Some(kept) = kept.filter(|kept| kept.has(&pinned)) else {
            bail!(
                "the prompts `{name}` are not on this machine; `dovetail bench fetch {name}` \
                 downloads them"
            );
        };
        let path = kept.place(&pinned);
        if !kept.is_sound(&pinned).with_context(|| unreadable(&path))? {
            bail!(
                "the prompts `{name}` in {} were changed after the download; `dovetail bench fetch \
                 {name}` downloads them again",
                path.display()
            );
        }
        let bytes = read_regular(&path, self.size).with_context(|| unreadable(&path))?;
        self.sets_of(bytes, set)
    }

    fn sets_of(&self, bytes: Vec<u8>, only: Option<&str>) -> anyhow::Result<Vec<PromptSet>> {
        let wrong = |line, reason: &dyn std::fmt::Display| wrong(&self.name, line, reason);
        let mut text = String::new();
        let unfolded = match self.format {
            SetFormat::HumanEval => {
                GzDecoder::new(bytes.as_slice()).take(MOST_UNFOLDED).read_to_string(&mut text)
            }
            _ => bytes.as_slice().read_to_string(&mut text),
        };
        unfolded.map_err(|error| wrong(1, &error))?;
        let mut prompts = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let prompt = self.format.prompt(line, at);
            prompts.push(prompt.map_err(|error| wrong(at + 1, &error))?);
        }
        let wanted = self.sets.iter().filter(|set| only.is_none_or(|only| only == set.name));
        let set = |set: &CatalogueSet| {
            let all = set.categories.is_empty();
            let mine = |prompt: &&BenchPrompt| all || set.categories.contains(&prompt.category);
            let prompts: Vec<BenchPrompt> = prompts.iter().filter(mine).cloned().collect();
            if prompts.len() != set.prompts {
                let reason = format!("{} has {} prompts", set.name, prompts.len());
                return Err(wrong(text.lines().count(), &reason));
            }
            Ok(PromptSet { name: set.name.clone(), prompts })
        };
        wanted.map(set).collect()
    }
}

impl SetFormat {
    /// The prompt in a line, the `at`th from 0.
    fn prompt(self, line: &str, at: usize) -> serde_json::Result<BenchPrompt> {
        /// What the formats have; the checksum says which of it is there.
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct SetLine {
            question_id: u64,
            category: String,
            turns: Vec<String>,
            task_id: String,
            prompt: String,
            question: String,
        }
        let line: SetLine = serde_json::from_str(line)?;
        let one = |id: String, category: &str, turn: String| BenchPrompt {
            id,
            category: category.to_owned(),
            turns: vec![turn],
        };
        Ok(match self {
            Self::Turns => BenchPrompt {
                id: line.question_id.to_string(),
                category: line.category,
                turns: line.turns,
            },
            Self::HumanEval => one(line.task_id, "code", format!("{COMPLETE}{}", line.prompt)),
            Self::GradeSchoolMath => one(format!("gsm8k-test/{at}"), "math", line.question),
            Self::Answers => return Err(serde_json::Error::custom("there are no prompts")),
        })
    }
}

/// The tasks of a file and their answers, one after the other, as a conversation would have them.
fn answers(file: &[u8]) -> serde_json::Result<String> {
    #[derive(Deserialize)]
    struct Answer {
        instruction: String,
        input: String,
        response: String,
    }
    let all: Vec<Answer> = serde_json::from_slice(file)?;
    let parts = all.into_iter().map(|one| [one.instruction, one.input, one.response]);
    let texts = parts.map(|parts| parts.into_iter().filter(|part| !part.is_empty()));
    Ok(texts.map(|parts| parts.collect::<Vec<_>>().join("\n") + "\n\n").collect())
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_file_is_pinned_and_its_names_are_its_own() {
        let names: HashSet<&str> = names().into_iter().collect();
        assert_eq!(names.len(), catalogue().len());
        let bundled: Vec<&str> = super::super::bundled_names();
        for file in catalogue() {
            assert!(!bundled.contains(&file.name.as_str()), "{} is bundled", file.name);
            let hex = |text: &str| text.bytes().all(|digit| b"0123456789abcdef".contains(&digit));
            assert!(file.commit.len() == 40 && hex(&file.commit), "{}", file.name);
            assert!(file.sha256.len() == 64 && hex(&file.sha256), "{}", file.name);
            assert!(file.size > 0 && !file.licence.is_empty());
            assert_eq!(file.sets.is_empty(), file.is_text(), "{}", file.name);
            let sets: HashSet<&str> = file.sets.iter().map(|set| set.name.as_str()).collect();
            assert_eq!(sets.len(), file.sets.len(), "{}", file.name);
        }
        let spec = &catalogue()[0];
        let url = spec.pinned("http://mirror/").url;
        assert!(url.starts_with("http://mirror/hemingkx/Spec-Bench/fd2c1cd7"), "{url}");
        assert_eq!(named("spec-bench/rag"), Some((spec, Some("rag"))));
        assert_eq!((named("spec-bench/no"), named("rag")), (None, None));
        assert_eq!(offering("translation"), Some(spec));
    }

    /// A file of this format with the sets.
    fn file(format: SetFormat, sets: &[(&str, usize, &[&str])]) -> CatalogueFile {
        let set = |(name, prompts, categories): &(&str, usize, &[&str])| CatalogueSet {
            name: (*name).to_owned(),
            prompts: *prompts,
            categories: categories.iter().map(|&name| name.to_owned()).collect(),
        };
        let sets = sets.iter().map(set).collect();
        CatalogueFile { format, sets, name: "x".to_owned(), ..catalogue()[0].clone() }
    }

    #[test]
    fn lines_become_sets_by_category() {
        let lines = r#"{"question_id":7,"category":"a","turns":["one","two"],"reference":["x"]}
{"question_id":8,"category":"b","turns":["three"]}
{"question_id":9,"category":"c","turns":["four"]}"#;
        let file = file(SetFormat::Turns, &[("ac", 2, &["a", "c"]), ("b", 1, &["b"])]);
        let sets = file.sets_of(lines.into(), None).unwrap();
        let ids = |set: &PromptSet| -> Vec<String> {
            set.prompts.iter().map(|prompt| prompt.id.clone()).collect()
        };
        assert_eq!(
            (ids(&sets[0]), ids(&sets[1])),
            (vec!["7".into(), "9".into()], vec!["8".into()])
        );
        assert_eq!(sets[0].prompts[0].turns, ["one", "two"]);
        assert_eq!(file.sets_of(lines.into(), Some("b")).unwrap().len(), 1);
        let short = lines.lines().take(2).collect::<Vec<_>>().join("\n");
        let error = file.sets_of(short.into(), None).unwrap_err().to_string();
        assert!(error.contains("ac has 1 prompts"), "{error}");
    }

    #[test]
    fn answers_become_a_text_to_draft_from() {
        let folder = tempfile::tempdir().unwrap();
        let kept = PinnedFiles::at(folder.path().to_owned());
        let text = catalogue().iter().find(|file| file.is_text()).unwrap();
        let list = r#"[{"instruction":"Sort.","input":"[2, 1]","response":"a\nb"},
                       {"instruction":"Add.","input":"","response":"c"}]"#;
        let file = CatalogueFile { size: list.len() as u64, ..text.clone() };
        let place = kept.place(&file.pinned(SERVER));
        std::fs::write(&place, list).unwrap();
        let written = file.write_text(&kept).unwrap();
        assert_eq!(std::fs::read_to_string(written).unwrap(), "Sort.\n[2, 1]\na\nb\n\nAdd.\nc\n\n");
        let error = file.read(None, Some(&kept)).unwrap_err().to_string();
        assert!(error.contains("has no prompts"), "{error}");
        std::fs::write(place, "[{}]").unwrap();
        assert!(file.write_text(&kept).is_err());
    }

    #[test]
    fn tasks_and_sums_are_read_as_their_authors_publish_them() {
        let task = r#"{"task_id":"HumanEval/3","prompt":"def f():\n","entry_point":"f"}"#;
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(task.as_bytes()).unwrap();
        let tasks = file(SetFormat::HumanEval, &[("h", 1, &[])]);
        let sets = tasks.sets_of(packed.finish().unwrap(), None).unwrap();
        assert_eq!(sets[0].prompts[0].id, "HumanEval/3");
        assert_eq!(sets[0].prompts[0].turns, ["Complete the code I provided.\ndef f():\n"]);
        assert!(tasks.sets_of(b"no gzip".to_vec(), None).is_err());

        let sums = file(SetFormat::GradeSchoolMath, &[("g", 1, &[])]);
        let sets = sums.sets_of(br#"{"question":"1 + 1?","answer":"2"}"#.to_vec(), None).unwrap();
        assert_eq!(sets[0].prompts[0].turns, ["1 + 1?"]);
    }
}
