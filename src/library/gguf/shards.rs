//! The names of a model's files where it comes in several: `NAME-00001-of-00003.gguf`.

use std::path::{Path, PathBuf};

/// The path of file `number` (from 1) of the model that `path` is a file of; `None` if it is not
/// called like one of several.
pub(super) fn numbered(path: &Path, number: u64) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?.strip_suffix(".gguf")?;
    let (rest, count) = name.rsplit_once("-of-")?;
    let (stem, own) = rest.rsplit_once('-')?;
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(own) || !is_number(count) {
        return None;
    }
    Some(path.with_file_name(format!("{stem}-{number:05}-of-{count}.gguf")))
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
    }
}
