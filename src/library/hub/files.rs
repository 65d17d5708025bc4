//! Which files of a repository make a model. Must never know how they are fetched.

/// What is wanted of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted<'a> {
    /// A target: safetensors with what belongs to them, or the only GGUF file.
    Target,
    /// A draft head.
    Head,
    /// This file.
    File(&'a str),
}

/// The files to fetch of all that are there, or why there are none.
pub(super) fn choose(present: &[String], wanted: Wanted<'_>) -> Result<Vec<String>, String> {
    let has = |name: &str| present.iter().any(|file| file == name);
    let named = |names: &[&str]| -> Vec<String> {
        names.iter().filter(|name| has(name)).map(|name| (*name).to_owned()).collect()
    };
    let ggufs: Vec<&String> = present.iter().filter(|file| file.ends_with(".gguf")).collect();
    let listed = ggufs.iter().map(|file| file.as_str()).collect::<Vec<_>>().join(", ");
    match wanted {
        Wanted::File(name) if has(name) => Ok(vec![name.to_owned()]),
        Wanted::File(name) if ggufs.is_empty() => {
            Err(format!("the repository has no file {name}, nor any .gguf file"))
        }
        Wanted::File(name) => {
            Err(format!("the repository has no file {name}; its .gguf files are: {listed}"))
        }
        Wanted::Head => {
            let mut files = named(&["config.json"]);
            if files.is_empty() {
                return Err("the repository has no config.json: it is not a draft head".to_owned());
            }
            let shards = shards(present);
            if has("model.safetensors") {
                files.push("model.safetensors".to_owned());
            } else if !shards.is_empty() {
                files.extend(shards);
            } else if has("pytorch_model.bin") {
                files.push("pytorch_model.bin".to_owned());
            } else {
                return Err(
                    "the repository has neither model.safetensors nor pytorch_model.bin".to_owned()
                );
            }
            Ok(files)
        }
        Wanted::Target => {
            let shards = shards(present);
            if has("config.json") && (has("model.safetensors") || !shards.is_empty()) {
                let mut files = named(&[
                    "config.json",
                    "tokenizer.json",
                    "tokenizer_config.json",
                    "generation_config.json",
                    "chat_template.jinja",
                ]);
                if has("model.safetensors") {
                    files.push("model.safetensors".to_owned());
                } else {
                    files.extend(shards);
                }
                Ok(files)
            } else {
                match ggufs.as_slice() {
                    [only] => Ok(vec![(*only).clone()]),
                    [] => Err("the repository holds no model in safetensors or GGUF".to_owned()),
                    _ => Err(format!(
                        "the repository holds several models; name one as owner/name:file, of: \
                         {listed}"
                    )),
                }
            }
        }
    }
}

/// The parts of a sharded model with their index.
fn shards(present: &[String]) -> Vec<String> {
    const INDEX: &str = "model.safetensors.index.json";
    if !present.iter().any(|file| file == INDEX) {
        return Vec::new();
    }
    let is_shard = |file: &&String| {
        file.starts_with("model-") && file.ends_with(".safetensors") && !file.contains('/')
    };
    let mut files = vec![INDEX.to_owned()];
    files.extend(present.iter().filter(is_shard).cloned());
    files
}

/// Whether a name stays within a folder, and does nothing to a terminal.
pub(super) fn is_tame(name: &str) -> bool {
    !name.is_empty()
        && !name.contains(|c: char| c.is_control() || c == '\\' || c == ':')
        && name.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(present: &[&str], wanted: Wanted<'_>) -> Result<Vec<String>, String> {
        let present: Vec<String> = present.iter().map(|file| (*file).to_owned()).collect();
        choose(&present, wanted)
    }

    #[test]
    fn a_target_is_its_weights_and_what_belongs_to_them() {
        let present = ["README.md", "config.json", "tokenizer.json", "model.safetensors", "x.gguf"];
        let expected = ["config.json", "tokenizer.json", "model.safetensors"];
        assert_eq!(choice(&present, Wanted::Target).unwrap(), expected);
        let sharded = [
            "config.json",
            "model.safetensors.index.json",
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
            "original/model-1.safetensors",
        ];
        assert_eq!(choice(&sharded, Wanted::Target).unwrap(), sharded[..4]);
        assert_eq!(choice(&["a.gguf", "README.md"], Wanted::Target).unwrap(), ["a.gguf"]);
        let several = choice(&["a.gguf", "b.gguf"], Wanted::Target).unwrap_err();
        assert!(several.contains("owner/name:file") && several.contains("a.gguf, b.gguf"));
        assert!(choice(&["a.bin"], Wanted::Target).is_err());
    }

    #[test]
    fn a_head_may_be_a_pytorch_file() {
        let head = ["config.json", "pytorch_model.bin"];
        assert_eq!(choice(&head, Wanted::Head).unwrap(), head);
        let both = ["config.json", "model.safetensors", "pytorch_model.bin"];
        assert_eq!(choice(&both, Wanted::Head).unwrap(), both[..2]);
        assert!(choice(&["config.json"], Wanted::Head).is_err());
        assert!(choice(&["model.safetensors"], Wanted::Head).is_err());
    }

    #[test]
    fn a_file_is_itself() {
        assert_eq!(choice(&["a.gguf", "b.gguf"], Wanted::File("b.gguf")).unwrap(), ["b.gguf"]);
        assert!(choice(&["a.gguf"], Wanted::File("c.gguf")).unwrap_err().contains("a.gguf"));
    }

    #[test]
    fn names_stay_in_their_folder() {
        for tame in ["config.json", "sub/model.gguf"] {
            assert!(is_tame(tame), "{tame}");
        }
        for wild in ["../x", "/etc/x", "a/../../x", "a\\b", "C:x", "", "a//b", "a\x1b[2J"] {
            assert!(!is_tame(wild), "{wild}");
        }
    }
}
