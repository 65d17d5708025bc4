//! What can be wrong with settings. Lines and columns count from 1, columns in characters.

use std::path::PathBuf;

use super::keys;
use crate::plan::Strategy;

/// What is wrong with one setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages name the fields.
pub enum Problem {
    #[error("unknown key `{key}`{}", suggestion.as_ref().map_or_else(
        || format!("; the keys are {}", keys::list()),
        |near| format!(" (did you mean `{near}`?)")))]
    UnknownKey { key: String, suggestion: Option<String> },
    #[error("unknown strategy `{name}`{}", suggestion.map_or_else(
        || format!("; the strategies are {}", Strategy::names()),
        |near| format!(" (did you mean `{near}`?)")))]
    UnknownStrategy { name: String, suggestion: Option<&'static str> },
    #[error("`{key}` must be {expects}, not {found}")]
    Value { key: String, expects: String, found: String },
}

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages name the fields.
pub enum SettingsError {
    #[error(
        "cannot read the settings file {}: {source}; {} or name another with --config",
        path.display(),
        read_remedy(source)
    )]
    Read { path: PathBuf, source: std::io::Error },
    #[error(
        "{}:{line}:{column}: not valid TOML: {message}; correct the line or delete it",
        path.display()
    )]
    Syntax { path: PathBuf, line: usize, column: usize, message: String },
    #[error("{}:{line}:{column}: {problem}; correct the line or delete it", path.display())]
    InFile { path: PathBuf, line: usize, column: usize, problem: Problem },
    #[error("{flag}: {problem}; see `dovetail help settings`")]
    InFlag { flag: String, problem: Problem },
}

fn read_remedy(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::PermissionDenied => "correct its permissions",
        ErrorKind::InvalidData => "save it as UTF-8",
        ErrorKind::IsADirectory | ErrorKind::InvalidInput | ErrorKind::FileTooLarge => {
            "move it away"
        }
        _ => "make it readable",
    }
}
