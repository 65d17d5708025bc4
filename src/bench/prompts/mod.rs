//! Prompt sets: the bundled ones and fetched ones by name, others from files of JSON lines
//! `{"id","category","turns":["…"]}` or from a folder of such files. It must not depend on models.

mod catalogue;

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use serde::{Deserialize, Serialize};

pub use catalogue::{CatalogueFile, SERVER, catalogue, fetched_sets, fetched_text, offering};

use crate::files::read_text;
use crate::library::PinnedFiles;

/// Most bytes of a set.
const LONGEST: u64 = 256_000_000;

/// The bundled sets, in the order of the tables; `assets/bench/SOURCES.md` names their sources.
const BUNDLED: &[(&str, &str)] = &[
    ("everyday", include_str!("../../../assets/demo/heldout_prompts.jsonl")),
    ("mt_bench", include_str!("../../../assets/bench/mt_bench.jsonl")),
    ("humaneval", include_str!("../../../assets/bench/humaneval.jsonl")),
    ("gsm8k", include_str!("../../../assets/bench/gsm8k.jsonl")),
    ("instructions", include_str!("../../../assets/bench/instructions.jsonl")),
    ("summarization", include_str!("../../../assets/bench/summarization.jsonl")),
    (EDITS, include_str!("../../../assets/bench/edits.jsonl")),
];

/// Answers that repeat a text of the prompt with small changes. Only where it is named: what
/// drafts from the prompt wins so much there that the mean of all sets would say little.
const EDITS: &str = "edits";

/// Beside the sets in a folder, and none itself.
const REFERENCES: &str = "references";

/// One conversation to be had: what the user says, turn by turn.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct BenchPrompt {
    /// Its name in the set.
    pub id: String,
    /// What it is about.
    #[serde(default)]
    pub category: String,
    /// The user's messages; the answers come between them.
    pub turns: Vec<String>,
}

/// Prompts that are reported together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptSet {
    /// For the tables.
    pub name: String,
    /// At least one.
    pub prompts: Vec<BenchPrompt>,
}

/// Names of the bundled sets.
fn bundled_names() -> Vec<&'static str> {
    BUNDLED.iter().map(|(name, _)| *name).collect()
}

/// Names of the bundled sets that are answered where none is named.
pub fn default_names() -> Vec<&'static str> {
    bundled_names().into_iter().filter(|name| *name != EDITS).collect()
}

/// The sets that `names` stand for: bundled ones, fetched ones, files, folders. Of each at most
/// `limit` prompts, spread evenly, for sets are often ordered by category.
///
/// # Errors
/// A set is not known, not here or not sound.
pub fn load(names: &[String], limit: Option<usize>) -> anyhow::Result<Vec<PromptSet>> {
    load_with(names, limit, fetched_sets().as_ref())
}

/// The sets of all fetched files.
///
/// # Errors
/// A set is not known, not here or not sound.
pub fn load_fetched(limit: Option<usize>) -> anyhow::Result<Vec<PromptSet>> {
    let kept = fetched_sets();
    let here = |file: &&CatalogueFile| {
        !file.is_text() && kept.as_ref().is_some_and(|kept| file.is_in(kept))
    };
    let names: Vec<String> =
        catalogue().iter().filter(here).map(|file| file.name.clone()).collect();
    load_with(&names, limit, kept.as_ref())
}

fn load_with(
    names: &[String],
    limit: Option<usize>,
    kept: Option<&PinnedFiles>,
) -> anyhow::Result<Vec<PromptSet>> {
    let mut sets: Vec<PromptSet> = Vec::new();
    for name in names {
        let path = Path::new(name);
        if let Some((name, text)) = BUNDLED.iter().find(|(known, _)| known == name) {
            sets.push(parse(name, name, text)?);
        } else if let Some((file, set)) = catalogue::named(name) {
            sets.extend(file.read(set, kept)?);
        } else if path.is_dir() {
            sets.extend(folder(path)?);
        } else if path.is_file() {
            sets.push(file(path)?);
        } else {
            bail!(
                "no prompt set named `{name}` (not a file, a folder or a known set); bundled sets: \
                 {}; sets to download: {}",
                bundled_names().join(", "),
                catalogue::names().join(", ")
            );
        }
    }
    for (at, set) in sets.iter().enumerate() {
        if sets[..at].iter().any(|before| before.name == set.name) {
            bail!("two of the sets are named `{}`; leave one of them out", set.name);
        }
    }
    for set in &mut sets {
        set.prompts = spread(std::mem::take(&mut set.prompts), limit);
    }
    Ok(sets)
}

/// What cannot be read.
fn unreadable(path: &Path) -> String {
    format!("cannot read the prompts {}", path.display())
}

/// A line of a file that is not a prompt.
fn wrong(origin: &str, line: usize, reason: impl std::fmt::Display) -> anyhow::Error {
    anyhow!(
        "{origin}:{line}: {reason}; a line is {{\"id\":\"…\",\"category\":\"…\",\"turns\":[\"…\"]}}"
    )
}

fn folder(path: &Path) -> anyhow::Result<Vec<PromptSet>> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(path)
        .with_context(|| unreadable(path))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|file| file.extension().is_some_and(|end| end == "jsonl"))
        .filter(|file| file.file_stem().is_some_and(|name| name != REFERENCES))
        .collect();
    files.sort();
    if files.is_empty() {
        bail!("{} contains no prompts", path.display());
    }
    files.iter().map(|path| file(path)).collect()
}

fn file(path: &Path) -> anyhow::Result<PromptSet> {
    let text = read_text(path, LONGEST).with_context(|| unreadable(path))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    parse(&name, &path.display().to_string(), &text)
}

fn parse(name: &str, origin: &str, text: &str) -> anyhow::Result<PromptSet> {
    let mut prompts = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let prompt: BenchPrompt =
            serde_json::from_str(line).map_err(|error| wrong(origin, at + 1, error))?;
        if prompt.turns.is_empty() {
            return Err(wrong(origin, at + 1, "no turns"));
        }
        prompts.push(prompt);
    }
    if prompts.is_empty() {
        bail!("{origin} contains no prompts");
    }
    Ok(PromptSet { name: name.to_owned(), prompts })
}

/// At most `limit` of `all` at even distances, in order.
fn spread<T>(all: Vec<T>, limit: Option<usize>) -> Vec<T> {
    let count = all.len();
    let limit = limit.unwrap_or(usize::MAX);
    if limit >= count {
        return all;
    }
    let mut wanted = (0..limit).map(|i| i * count / limit).peekable();
    let chosen = all.into_iter().enumerate().filter(|(i, _)| wanted.next_if_eq(i).is_some());
    chosen.map(|(_, item)| item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundled_sets_are_sound_and_their_ids_unique() {
        let names: Vec<String> = bundled_names().into_iter().map(str::to_owned).collect();
        let sets = load(&names, None).unwrap();
        assert_eq!(sets.len(), names.len());
        assert_eq!(default_names(), names[..names.len() - 1], "all but the edits");
        for set in &sets {
            assert!(set.prompts.len() >= 8, "{} has {}", set.name, set.prompts.len());
            let ids: std::collections::HashSet<_> = set.prompts.iter().map(|p| &p.id).collect();
            assert_eq!(ids.len(), set.prompts.len(), "{}", set.name);
        }
        for set in load(&names, Some(3)).unwrap() {
            assert_eq!(set.prompts.len(), 3, "{}", set.name);
        }
    }

    #[test]
    fn a_limit_takes_from_the_whole_set() {
        assert_eq!(spread((0..56).collect(), Some(8)), [0, 7, 14, 21, 28, 35, 42, 49]);
        assert_eq!(spread(vec![1, 2, 3], Some(5)), [1, 2, 3]);
        assert_eq!(spread(vec![1, 2, 3], Some(1)), [1]);
    }

    #[test]
    fn files_and_folders_are_sets_and_faults_are_named() {
        let home = tempfile::tempdir().unwrap();
        let good = home.path().join("good.jsonl");
        std::fs::write(&good, "{\"id\":\"a\",\"turns\":[\"hi\"],\"more\":1}\n\n").unwrap();
        std::fs::write(home.path().join("references.jsonl"), "{}").unwrap();
        let sets = load(&[home.path().display().to_string()], None).unwrap();
        assert_eq!(sets.len(), 1);
        assert_eq!((sets[0].name.as_str(), sets[0].prompts[0].id.as_str()), ("good", "a"));

        std::fs::write(&good, "{\"id\":\"a\",\"turns\":[\"hi\"]}\n{\"id\":\"b\",\"tur").unwrap();
        let error = load(&[good.display().to_string()], None).unwrap_err().to_string();
        assert!(error.contains("good.jsonl:2:") && error.contains("\"turns\""), "{error}");
        std::fs::write(&good, "{\"id\":\"a\",\"turns\":[]}").unwrap();
        assert!(load(&[good.display().to_string()], None).is_err());
        let twice = ["mt_bench".to_owned(), "mt_bench".to_owned()];
        let error = load(&twice, None).unwrap_err().to_string();
        assert!(error.contains("two of the sets are named `mt_bench`"), "{error}");
        let error = load(&["alpaka".to_owned()], None).unwrap_err().to_string();
        assert!(
            error.contains("alpaka") && error.contains("humaneval, ") && error.contains(EDITS),
            "{error}"
        );
        assert!(error.contains("sets to download: spec-bench, humaneval-full"), "{error}");
    }

    #[test]
    fn a_set_that_is_not_here_or_was_changed_says_how_to_fetch_it() {
        let home = tempfile::tempdir().unwrap();
        let kept = PinnedFiles::at(home.path().to_owned());
        let names = ["spec-bench/qa".to_owned()];
        let said = |kept| load_with(&names, None, kept).unwrap_err().to_string();
        for kept in [None, Some(&kept)] {
            assert!(said(kept).ends_with("`dovetail bench fetch spec-bench` downloads them"));
        }
        let file = catalogue()[0].pinned(SERVER);
        std::fs::write(kept.place(&file), vec![b' '; file.size as usize]).unwrap();
        let error = said(Some(&kept));
        assert!(
            error.contains("were changed after the download") && error.contains("again"),
            "{error}"
        );
    }
}
