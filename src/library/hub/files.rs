//! Which files of a repository make up a model. It must not depend on how they are downloaded.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;

use super::HubId;
use super::gguf_models::{GgufModel, models};
use crate::nearest::listed;
use crate::printable::printable_line;

/// The file that says which files hold a model's weights.
const INDEX: &str = "model.safetensors.index.json";
/// The most bytes of a file name with its folders.
const LONGEST_NAME: usize = 1024;

/// What is wanted from a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WantedFiles<'a> {
    /// A target: safetensors with the files that belong to them, or the only GGUF model.
    Target,
    /// A draft head, in this folder of the repository if one is named.
    Head(Option<&'a str>),
    /// This file, or the GGUF model with this quantisation, with all its shards.
    File(&'a str),
    /// This file of a data set.
    Data(&'a str),
}

impl<'a> WantedFiles<'a> {
    /// What is wanted of a target.
    pub(super) fn of(id: &'a HubId) -> Self {
        id.file.as_deref().map_or(Self::Target, Self::File)
    }
}

/// Which of the existing files to download, or why there are none.
pub(super) fn choose(present: &[String], wanted: WantedFiles<'_>) -> Result<Vec<String>, String> {
    let has = |name: &str| present.iter().any(|file| file == name);
    let named = |names: &[&str]| -> Vec<String> {
        names.iter().filter(|name| has(name)).map(|name| (*name).to_owned()).collect()
    };
    match wanted {
        WantedFiles::File(folder) | WantedFiles::Head(Some(folder))
            if has(&format!("{folder}/config.json")) =>
        {
            let prefix = format!("{folder}/");
            let inside = present.iter().filter_map(|file| file.strip_prefix(&prefix));
            let inside: Vec<String> = inside.map(str::to_owned).collect();
            let head = || choose(&inside, WantedFiles::Head(None));
            let files = match wanted {
                WantedFiles::Head(_) => head(),
                _ => choose(&inside, WantedFiles::Target).or_else(|_| head()),
            };
            Ok(files?.into_iter().map(|file| prefix.clone() + &file).collect())
        }
        WantedFiles::Head(Some(folder)) => {
            Err(format!("the repository has no folder {folder} with a config.json"))
        }
        WantedFiles::File(asked) => gguf(present, asked),
        WantedFiles::Data(asked) if has(asked) => Ok(vec![asked.to_owned()]),
        WantedFiles::Data(asked) => Err(format!("the data set has no file {asked}")),
        WantedFiles::Head(None) => {
            let mut files = named(&["config.json"]);
            if files.is_empty() {
                return Err("the repository is not a draft head: it has no config.json".to_owned());
            }
            let mut weights = safetensors(present);
            if weights.is_empty() {
                weights = named(&["pytorch_model.bin"]);
            }
            if weights.is_empty() {
                return Err(
                    "the repository has no model.safetensors and no pytorch_model.bin".to_owned()
                );
            }
            files.extend(weights);
            Ok(files)
        }
        WantedFiles::Target => {
            let weights = safetensors(present);
            if has("config.json") && !weights.is_empty() {
                let mut files = named(&[
                    "config.json",
                    "tokenizer.json",
                    "tokenizer_config.json",
                    "special_tokens_map.json",
                    "generation_config.json",
                    "chat_template.jinja",
                ]);
                files.extend(weights);
                return Ok(files);
            }
            match models(present).as_slice() {
                [only] => only.all(),
                [] => Err("the repository has no model in safetensors or GGUF format".to_owned()),
                several => Err(format!(
                    "the repository has several models; choose one {}",
                    choices(several)
                )),
            }
        }
    }
}

/// The files of the GGUF model named by `asked`: a file, or a quantisation.
fn gguf(present: &[String], asked: &str) -> Result<Vec<String>, String> {
    let models = models(present);
    // A file's own name takes precedence over a quantisation of that name.
    let file = models.iter().find(|model| model.files.contains(&asked));
    if let Some(model) = file {
        return model.all();
    }
    if present.iter().any(|file| file == asked) {
        return Ok(vec![asked.to_owned()]);
    }
    let named: Vec<&GgufModel<'_>> = models.iter().filter(|model| model.is(asked)).collect();
    match (named.as_slice(), models.as_slice()) {
        ([only], _) => only.all(),
        ([], []) => Err(format!("the repository has no file {asked} and no .gguf files")),
        ([], all) => Err(format!(
            "the repository has no file or quantisation {asked}; choose one {}",
            choices(all)
        )),
        (several, _) => {
            let files = listed(several.iter().map(|model| model.files[0]));
            Err(format!(
                "the repository has {asked} of several models; choose one as owner/name:file from \
                 {files}"
            ))
        }
    }
}

/// How to name one of several models, and which models exist.
fn choices(models: &[GgufModel<'_>]) -> String {
    let names: BTreeSet<&str> = models.iter().map(|model| model.quantisation).collect();
    if names.len() == models.len() && !names.contains("") {
        return format!("as owner/name:QUANTISATION from {}", listed(names));
    }
    format!("as owner/name:file from {}", listed(models.iter().map(|model| model.files[0])))
}

/// The weights in safetensors: one file, or the index that lists them; none if there are none.
fn safetensors(present: &[String]) -> Vec<String> {
    let named = |name: &&str| present.iter().any(|file| file == name);
    let names = ["model.safetensors", INDEX];
    names.into_iter().find(named).into_iter().map(str::to_owned).collect()
}

/// The index among the files of a model, if it has one.
pub(super) fn index_of(files: &[String]) -> Option<&String> {
    files.iter().find(|file| file.rsplit('/').next() == Some(INDEX))
}

/// The files of weights that the index called `name` lists, by their names in the repository.
pub(super) fn shards_in(name: &str, index: &[u8]) -> Result<BTreeSet<String>, String> {
    #[derive(Deserialize)]
    struct ShardIndex {
        weight_map: HashMap<String, String>,
    }
    let wrong = |problem: String| format!("{name} cannot be read: {problem}");
    let index: ShardIndex =
        serde_json::from_slice(index).map_err(|error| wrong(error.to_string()))?;
    let folder = name.strip_suffix(INDEX).unwrap_or_default();
    let shard = |file: String| match is_tame(&file) && !file.contains('/') {
        true => Ok(format!("{folder}{file}")),
        false => Err(wrong(format!("`{}` is outside its folder", file.escape_debug()))),
    };
    index.weight_map.into_values().map(shard).collect()
}

/// Whether a name stays within a folder, and has no effect on a terminal.
pub(super) fn is_tame(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= LONGEST_NAME
        && !name.contains(['\\', ':'])
        && matches!(printable_line(name), Cow::Borrowed(_))
        && name.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(present: &[&str], wanted: WantedFiles<'_>) -> Result<Vec<String>, String> {
        let present: Vec<String> = present.iter().map(|file| (*file).to_owned()).collect();
        choose(&present, wanted)
    }

    #[test]
    fn a_target_is_its_weights_and_what_belongs_to_them() {
        let present = ["README.md", "config.json", "tokenizer.json", "model.safetensors", "x.gguf"];
        let expected = ["config.json", "tokenizer.json", "model.safetensors"];
        assert_eq!(choice(&present, WantedFiles::Target).unwrap(), expected);
        let sharded = [
            "config.json",
            "model.safetensors.index.json",
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
            "original/model-1.safetensors",
        ];
        assert_eq!(choice(&sharded, WantedFiles::Target).unwrap(), sharded[..2]);
        assert_eq!(choice(&["a.gguf", "README.md"], WantedFiles::Target).unwrap(), ["a.gguf"]);
        let several = ["m.Q4_0.gguf", "m.Q8_0-00001-of-00002.gguf", "m.Q8_0-00002-of-00002.gguf"];
        assert_eq!(choice(&several[1..], WantedFiles::Target).unwrap(), several[1..]);
        let several = choice(&several, WantedFiles::Target).unwrap_err();
        assert!(several.contains("owner/name:QUANTISATION from Q4_0, Q8_0"), "{several}");
        let several = choice(&["a.gguf", "b.gguf"], WantedFiles::Target).unwrap_err();
        assert!(several.contains("owner/name:file") && several.contains("a.gguf, b.gguf"));
        assert!(choice(&["a.bin"], WantedFiles::Target).is_err());
    }

    #[test]
    fn a_head_may_be_a_pytorch_file() {
        let head = ["config.json", "pytorch_model.bin"];
        assert_eq!(choice(&head, WantedFiles::Head(None)).unwrap(), head);
        let both = ["config.json", "model.safetensors", "pytorch_model.bin"];
        assert_eq!(choice(&both, WantedFiles::Head(None)).unwrap(), both[..2]);
        assert!(choice(&["config.json"], WantedFiles::Head(None)).is_err());
        assert!(choice(&["model.safetensors"], WantedFiles::Head(None)).is_err());
    }

    #[test]
    fn the_index_says_which_files_hold_the_weights() {
        let index =
            |file: &str| format!(r#"{{"weight_map": {{"a": "{file}", "b": "x.safetensors"}}}}"#);
        let shards = |file| shards_in("sub/model.safetensors.index.json", index(file).as_bytes());
        let odd = "model.safetensors-00001-of-00002.safetensors";
        let listed: Vec<_> = shards(odd).unwrap().into_iter().collect();
        assert_eq!(listed, [format!("sub/{odd}"), "sub/x.safetensors".to_owned()]);
        for wild in ["../x", "/x", "a/b", ""] {
            assert!(shards(wild).unwrap_err().contains("outside its folder"), "{wild}");
        }
        assert!(shards_in("i", b"{}").is_err());
    }

    #[test]
    fn a_head_or_a_model_may_be_in_a_folder() {
        let present = ["README.md", "h/config.json", "h/pytorch_model.bin", "x/m-Q4_0.gguf"];
        let head = ["h/config.json", "h/pytorch_model.bin"];
        assert_eq!(choice(&present, WantedFiles::Head(Some("h"))).unwrap(), head);
        assert_eq!(choice(&present, WantedFiles::File("h")).unwrap(), head);
        let error = choice(&present, WantedFiles::Head(Some("x"))).unwrap_err();
        assert!(error.contains("no folder x with a config.json"), "{error}");
    }

    #[test]
    fn a_file_is_itself_and_a_quantisation_the_file_of_that_name() {
        let present = ["m-Q4_K_M.gguf", "m-q8_0.gguf", "x/a-f16.gguf", "b-f16.gguf", "Q3_K.txt"];
        let choice = |asked| choice(&present, WantedFiles::File(asked));
        assert_eq!(choice("q4_k_m").unwrap(), ["m-Q4_K_M.gguf"]);
        assert_eq!(choice("m-q8_0.gguf").unwrap(), ["m-q8_0.gguf"]);
        assert_eq!(choice("Q8_0").unwrap(), ["m-q8_0.gguf"]);
        let absent = choice("Q5_K_M").unwrap_err();
        assert!(
            absent.contains("no file or quantisation Q5_K_M") && absent.contains("m-q8_0"),
            "{absent}"
        );
        let twice = choice("F16").unwrap_err();
        assert!(twice.contains("from b-f16.gguf, x/a-f16.gguf"), "{twice}");
    }

    #[test]
    fn of_many_models_a_few_are_named() {
        for names in [|i| format!("{i}.gguf"), |i| format!("m-Q4_{i}.gguf")] {
            let names: Vec<String> = (0..100_000).map(names).collect();
            let error = choose(&names, WantedFiles::Target).unwrap_err();
            assert!(error.len() < 1000 && error.ends_with(" more"), "{error}");
        }
    }

    #[test]
    fn names_stay_in_their_folder() {
        for tame in ["config.json", "sub/model.gguf"] {
            assert!(is_tame(tame), "{tame}");
        }
        for wild in
            ["../x", "/etc/x", "a/../../x", "a\\b", "C:x", "", "a//b", "a\x1b[2J", "gguf\u{202e}a"]
        {
            assert!(!is_tame(wild), "{wild}");
        }
    }
}
