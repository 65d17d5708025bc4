//! Overlays: help, details, failures and lists. Must never know how they are drawn.

pub(crate) mod details;
pub(crate) mod help;
pub(crate) mod list;
pub(crate) mod page;
pub(crate) mod sessions;
pub(crate) mod update;
pub(crate) mod view;

use crate::chat::{Role, SessionHead};
use crate::tui::markdown::Document;
use crate::tui::models::ModelPicker;
use crate::tui::race::Race;
use crate::worker::Controls;

pub use help::{Help, HelpPage, HelpRow, HelpSection};
pub use list::{FilteredList, ListRow};

/// Boxes over the panels, and what they keep while they are closed.
#[derive(Debug, Default)]
pub struct Overlays {
    /// The one that is open.
    pub open: Option<Overlay>,
    /// Whether the list of conversations has the branches of the open one alone.
    pub branches: bool,
    /// A title being written in the list of conversations.
    pub renaming: Option<Renaming>,
    /// Conversations that were deleted in this run, the latest last.
    pub deleted: Vec<String>,
    /// The page of the guide that the help has opened, laid out.
    pub guide_page: Document,
    /// A race, and the controls before it.
    pub race: Option<(Race, Controls)>,
}

impl Overlays {
    /// Changes what is typed in the overlay: a title, or the words that rows must have. `false` if
    /// nothing is typed there.
    pub fn edit(&mut self, change: impl FnOnce(&mut String)) -> bool {
        match &mut self.open {
            Some(Overlay::Help(help)) if help.open.is_none() => help.search(change),
            Some(Overlay::Sessions(list)) => match &mut self.renaming {
                Some(renaming) => change(&mut renaming.title),
                None => list.search(change),
            },
            Some(Overlay::Models(picker)) => picker.list.search(change),
            Some(Overlay::Questions { list, .. }) => list.search(change),
            _ => return false,
        }
        true
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Overlay {
    /// Keys, commands and the guide.
    Help(Help),
    /// What was loaded, what was chosen and why; from row `top` on.
    Details { top: usize },
    /// The system prompt, from row `top` on.
    System { top: usize },
    /// Something failed: in two or three words, and what to tell the user.
    Error { title: String, text: String },
    /// Saved conversations.
    Sessions(SessionList),
    /// Models to choose from.
    Models(ModelPicker),
    /// Messages to choose one for a purpose, the latest first: the user's own, or all to copy one.
    Questions { list: FilteredList<QuestionRow>, purpose: QuestionPurpose },
    /// Plain and speculative side by side.
    Race,
    /// The context is full: what is to be done, by its place among [`super::CHOICES`].
    Full { selected: usize },
    /// The conversation that was opened had another model: whether to load it.
    Reopened,
    /// The strategies; the one under the cursor by its place in
    /// [`super::ScreenState::listed_strategies`].
    Strategies { selected: usize },
}

/// Saved conversations, the latest first, or the branches of one, each after its origin.
pub type SessionList = FilteredList<SessionRow>;

/// A saved conversation in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    pub head: SessionHead,
    /// How many others say the same, which the list does not show.
    pub alike: usize,
    /// How many branchings it is away from the first conversation of a list of branches.
    pub depth: usize,
}

impl ListRow for SessionRow {
    fn words(&self) -> String {
        let head = &self.head;
        format!("{} {} {} {}", head.title, head.date(), head.target, head.said)
    }
}

/// A saved conversation that gets another title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renaming {
    /// Its name in the store.
    pub id: String,
    /// What is written so far.
    pub title: String,
}

/// One of the messages in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionRow {
    /// Its place among the turns.
    pub turn: usize,
    /// Its number among those of the list, from 1 on.
    pub number: usize,
    /// Who said it.
    pub role: Role,
    pub text: String,
}

impl ListRow for QuestionRow {
    fn words(&self) -> String {
        self.text.clone()
    }
}

/// What a message is chosen for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionPurpose {
    Edit,
    /// To continue after its answer in another conversation.
    Branch,
    /// To be copied.
    Copy,
}
