//! A message as it stood in the field: with marks for its long texts, and as what it was sent. Must
//! never know the field.

use super::folds::Folds;

/// A message as it stood in the field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    /// With its marks.
    pub(crate) text: String,
    /// What they stand for.
    pub(crate) folds: Folds,
    /// The message as which it was sent, if that is not what it says: with the texts of files.
    sent: Option<String>,
}

impl From<&str> for Written {
    fn from(text: &str) -> Self {
        Self::new(text.to_string(), Folds::default())
    }
}

impl Written {
    pub(crate) fn new(text: String, folds: Folds) -> Self {
        Self { text, folds, sent: None }
    }

    /// With every long text in the place of its mark.
    pub(crate) fn whole(&self) -> String {
        self.folds.unfolded(self.text.clone())
    }

    /// Notes the message as which it is sent.
    pub(crate) fn sent_as(&mut self, message: Option<&str>) {
        self.sent = message.filter(|message| *message != self.whole()).map(str::to_string);
    }

    /// Whether it was sent as `message`.
    pub(crate) fn says(&self, message: &str) -> bool {
        match &self.sent {
            Some(sent) => sent == message,
            None => self.whole() == message,
        }
    }

    /// Several as one, with an empty line between them.
    pub(crate) fn joined(all: Vec<Self>) -> Self {
        let mut folds = Folds::default();
        let texts: Vec<String> =
            all.into_iter().map(|one| folds.take_in(one.text, &one.folds)).collect();
        Self::new(texts.join("\n\n"), folds)
    }
}
