//! The chats that the paper trains on: ShareGPT, as cleaned for Vicuna. They are not part of the
//! program; the hub has them. It must not depend on what is learned from them.

use std::path::{Path, PathBuf};

use super::{Result, TrainError};
use crate::library::{Hub, HubError, HubId};

/// What `--data` takes for it.
const NAME: &str = "sharegpt";
/// The file at one commit, so that it never changes; the hub knows the hash of its content.
const FILE: &str = "Aeala/ShareGPT_Vicuna_unfiltered@8b0048ad6ae8c22f46a78c15559dec98feef5539:\
                    ShareGPT_V4.3_unfiltered_cleaned_split.json";

/// The file that `data` stands for: itself, or ShareGPT's, downloaded unless it is here.
pub(super) fn chats_file(data: &Path, report: &mut dyn FnMut(&str)) -> Result<PathBuf> {
    // A file of this name comes first.
    if data != Path::new(NAME) || data.exists() {
        return Ok(data.to_owned());
    }
    fetched(Hub::from_env(), report).map_err(|error| {
        TrainError::Failed(format!(
            "{error}; or get the file from the data set {FILE} on another machine and name it with \
             --data FILE"
        ))
    })
}

fn fetched(hub: Result<Hub, HubError>, report: &mut dyn FnMut(&str)) -> Result<PathBuf, HubError> {
    let id = HubId::parse(FILE)
        .ok_or_else(|| HubError::Other(format!("{FILE} does not name a file")))?;
    hub?.data_file(&id, &mut |progress| report(&progress.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_stands_for_the_pinned_file() {
        let id = HubId::parse(FILE).unwrap();
        assert_eq!(id.revision.map(|commit| commit.len()), Some(40));
        assert!(id.file.is_some_and(|file| file.ends_with(".json")));
        let file = Path::new("elsewhere/sharegpt");
        assert_eq!(chats_file(file, &mut |_| {}).unwrap(), file);
    }
}
