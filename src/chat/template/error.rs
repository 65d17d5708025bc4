//! Why a template cannot be used for a conversation. It must not depend on Jinja's own errors: a
//! fault is already described in words.

use super::super::jinja::Fault;

/// Why a conversation could not be rendered.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The template is not valid Jinja.
    #[error(
        "the chat template of {origin} has an error: {reason}; use another conversion of the \
        model, or your own template"
    )]
    Syntax {
        /// File the template came from.
        origin: String,
        /// What is wrong, with its line.
        reason: String,
    },
    /// The template refused this conversation or failed on it.
    #[error("the chat template of {origin} rejects this conversation: {reason}")]
    Render {
        /// File the template came from.
        origin: String,
        /// What the template says.
        reason: String,
    },
    /// The template exceeds the limits of templates.
    #[error(
        "the chat template of {origin} exceeds a limit: {limit}; use another conversion of the \
        model"
    )]
    Limit {
        /// File the template came from.
        origin: String,
        /// Which limit, and how large it is.
        limit: String,
    },
}

impl TemplateError {
    pub(super) fn new(origin: &str, fault: Fault) -> Self {
        let origin = origin.to_owned();
        match fault {
            Fault::Syntax(reason) => Self::Syntax { origin, reason },
            Fault::Refused(reason) => Self::Render { origin, reason },
            Fault::Limit(limit) => Self::Limit { origin, limit },
        }
    }
}
