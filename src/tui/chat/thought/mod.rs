//! What the model thought before an answer. Must never know colours.

pub(crate) mod view;

use crate::tui::markdown::{Document, TextRow};

/// The thoughts of one answer.
#[derive(Clone, Debug, Default)]
pub struct Thought {
    /// Their text.
    pub text: String,
    /// Their tokens, marks included; `None` if they come from a file.
    pub tokens: Option<usize>,
    document: Document,
}

impl Thought {
    /// The thoughts of a saved answer.
    pub fn saved(text: String) -> Self {
        Self { text, ..Self::default() }
    }

    /// Adds what one more token says.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.tokens = Some(self.tokens.unwrap_or_default() + 1);
    }

    /// The rows at `width`, as they were written: half a thought is no Markdown.
    pub fn lay_out(&mut self, width: usize) -> &[TextRow] {
        self.document.lay_out_verbatim(&self.text, width)
    }

    /// The rows as last laid out.
    pub fn laid_out(&self) -> &[TextRow] {
        self.document.rows()
    }
}
