//! Exit codes and the errors that lead to them.

use std::borrow::Borrow;
use std::io;
use std::process::ExitCode;

use anyhow::anyhow;

use crate::bench::MeasureError;
use crate::load::StartError;
use crate::messages;
use crate::printable::printable;

/// How the program can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Something failed while it ran.
    Failed = 1,
    /// Flags or settings are wrong.
    Usage = 2,
    /// A model could not be loaded.
    Model = 3,
    /// The user interrupted it.
    Interrupted = 130,
}

/// A failure with its exit code.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    /// Nothing is printed without an error.
    error: Option<anyhow::Error>,
}

/// What a command returns.
pub type CommandResult = Result<(), Failure>;

impl Failure {
    /// A failure with this code.
    pub fn new(code: Code, error: impl Into<anyhow::Error>) -> Self {
        Self { code, error: Some(error.into()) }
    }

    /// Flags or settings are wrong.
    pub fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Code::Usage, error)
    }

    /// A flag has none of the values that are `known`.
    pub fn unknown(flag: &str, value: &str, known: &[impl Borrow<str>]) -> Self {
        let known = known.join(", ");
        Self::usage(anyhow!("--{flag}: `{value}` is not one of {known}"))
    }

    /// A model could not be loaded.
    pub fn model(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Code::Model, error)
    }

    /// Reports it on stderr; its code.
    pub fn report(self) -> Code {
        if let Some(error) = self.error {
            let words = in_words(&error);
            tracing::error!("{words}");
            report(&format!("error: {words}"));
        }
        self.code
    }

    /// A failure that was already reported, or needs no message.
    pub fn quiet(code: Code) -> Self {
        Self { code, error: None }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        let error: anyhow::Error = match error {
            StartError::Library(error) => error.into(),
            StartError::Target(error) => error.into(),
            other => anyhow!(messages::start_error(&other)),
        };
        Self::model(error)
    }
}

impl From<MeasureError> for Failure {
    fn from(error: MeasureError) -> Self {
        let code = match &error {
            MeasureError::Options(_) => Code::Usage,
            MeasureError::Open(_) | MeasureError::Load(_) => Code::Model,
            _ => Code::Failed,
        };
        Self::new(code, error)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(Code::Failed, error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(Code::Failed, error)
    }
}

/// Reports a failure on stderr and gives its code. A closed pipe (`dovetail run … | head`) is not
/// a failure.
pub fn conclude(outcome: CommandResult) -> ExitCode {
    let Err(failure) = outcome else { return ExitCode::SUCCESS };
    let causes = failure.error.iter().flat_map(anyhow::Error::chain);
    let gone = causes
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe);
    if gone { ExitCode::SUCCESS } else { ExitCode::from(failure.report() as u8) }
}

/// An error with its causes. Many errors name their cause themselves: it is not told again.
fn in_words(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| match &told[..] {
        "" => cause,
        _ if told.contains(&cause) => told,
        _ => format!("{told}: {cause}"),
    })
}

/// Writes a line for the user on stderr, which is all that can be done about it. It may name what
/// a file or a model calls itself.
pub fn report(line: &str) {
    use io::Write;
    let _ = writeln!(io::stderr().lock(), "{}", printable(line));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read x: {source}; name another")]
    struct Named {
        source: io::Error,
    }

    #[test]
    fn a_cause_is_told_once() {
        let cause = || io::Error::other("it is a folder");
        let named = anyhow::Error::from(Named { source: cause() });
        assert_eq!(in_words(&named), "cannot read x: it is a folder; name another");
        let above = named.context("no settings");
        assert_eq!(in_words(&above), "no settings: cannot read x: it is a folder; name another");
        let plain = anyhow::Error::from(cause()).context("cannot read x");
        assert_eq!(in_words(&plain), "cannot read x: it is a folder");
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let gone = io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(conclude(Err(gone.into())), ExitCode::SUCCESS);
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(conclude(Err(full.into())), ExitCode::from(1));
        assert_eq!(conclude(Err(Failure::quiet(Code::Interrupted))), ExitCode::from(130));
    }
}
