//! The names of a model's files if it comes in several: `NAME-00001-of-00003.gguf`. It must not
//! depend on what they hold.

use std::path::{Path, PathBuf};

/// More shards than any model has: a wrong count must not make us look for a million files.
pub(super) const MOST_SHARDS: u64 = 4096;

/// The parts of such a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShardName<'a> {
    /// What all names have in common.
    pub(super) stem: &'a str,
    /// The number of this file, starting at 1.
    pub(super) number: u64,
    /// How many files there are.
    pub(super) count: u64,
}

impl<'a> ShardName<'a> {
    /// The parts of a file's name; `None` if it does not have the form of one of several.
    pub(super) fn parse(name: &'a str) -> Option<Self> {
        let (rest, count) = name.strip_suffix(".gguf")?.rsplit_once("-of-")?;
        let (stem, number) = rest.rsplit_once('-')?;
        let parsed = |text: &str| {
            let is_number = text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
            if is_number { text.parse().ok() } else { None }
        };
        Some(Self { stem, number: parsed(number)?, count: parsed(count)? })
    }
}

/// The path of file `number` (starting at 1) of the model to which `path` belongs; `None` if its
/// name does not have the form of one of several.
pub(super) fn numbered(path: &Path, number: u64) -> Option<PathBuf> {
    let ShardName { stem, count, .. } = ShardName::parse(path.file_name()?.to_str()?)?;
    Some(path.with_file_name(format!("{stem}-{number:05}-of-{count:05}.gguf")))
}

/// The paths of all files of the model to which `path` belongs, and its name without numbers;
/// `None` if its name does not have the form of one of several, or its number is impossible.
pub(super) fn all_numbered(path: &Path) -> Option<(&str, Vec<PathBuf>)> {
    let ShardName { stem, number, count } = ShardName::parse(path.file_name()?.to_str()?)?;
    let possible = (1..=count).contains(&number) && count <= MOST_SHARDS;
    possible.then(|| (stem, (1..=count).filter_map(|number| numbered(path, number)).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_model_are_called_by_number() {
        let path = |name: &str| numbered(Path::new(name), 3);
        let third = Some(PathBuf::from("m/q-2-00003-of-00012.gguf"));
        assert_eq!(path("m/q-2-00001-of-00012.gguf"), third);
        for other in ["m.gguf", "m-1-of-2.gguf", "m-00001-of-00002.bin", "of-00001.gguf"] {
            assert_eq!(path(other), None, "{other}");
        }
        let (stem, all) = all_numbered(Path::new("m/q-00002-of-00002.gguf")).unwrap();
        let paths = ["m/q-00001-of-00002.gguf", "m/q-00002-of-00002.gguf"].map(PathBuf::from);
        assert_eq!((stem, all), ("q", paths.to_vec()));
        for wrong in ["q-00000-of-00002.gguf", "q-00003-of-00002.gguf", "q-00001-of-99999.gguf"] {
            assert_eq!(all_numbered(Path::new(wrong)), None, "{wrong}");
        }
    }
}
