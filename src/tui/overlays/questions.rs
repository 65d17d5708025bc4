//! Messages, to choose one.

use ratatui::Frame;
use ratatui::text::{Line, Span};

use super::list::Surround;
use super::{FilteredList, Listed};
use crate::chat::Role;
use crate::printable::printable_line;
use crate::tui::draw::areas::Areas;
use crate::tui::state::ScreenState;
use crate::tui::theme::Styles;

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

impl Listed for QuestionRow {
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

pub(crate) fn draw(
    frame: &mut Frame<'_>,
    areas: &Areas,
    state: &ScreenState,
    list: &FilteredList<QuestionRow>,
    purpose: QuestionPurpose,
    styles: &Styles,
) {
    let (title, does) = match purpose {
        QuestionPurpose::Edit => (" edit an earlier message ", "edit"),
        QuestionPurpose::Branch => (" branch off after the answer to ", "branch"),
        QuestionPurpose::Copy => (" copy a message ", "copy"),
    };
    let keys = &state.display.keys;
    let foot = format!(" {} {does} · {} close ", keys.take(), keys.close());
    let none = "No match found".to_string();
    let around = Surround { title, foot, none, ..Surround::default() };
    list.draw(frame, areas, around, styles, |row, _| {
        // Where answers are listed too, the user's own are marked as they are in the chat.
        let mark = match (purpose, row.role) {
            (QuestionPurpose::Copy, Role::User) => "❯ ",
            (QuestionPurpose::Copy, _) => "  ",
            (QuestionPurpose::Edit | QuestionPurpose::Branch, _) => "",
        };
        Line::from_iter([
            Span::styled(format!("{:>3} ", row.number), styles.dim),
            Span::styled(mark, styles.accent),
            Span::styled(printable_line(&row.text.replace('\n', " ")).into_owned(), styles.text),
        ])
    });
}
