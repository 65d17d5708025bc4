//! The areas that the screen is divided into. Must never know what they show.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::widgets::Clear;

/// The screen's areas. All but `body` and `column` stand apart; any may be empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Areas {
    /// One row: names and state.
    pub header: Rect,
    /// The conversation.
    pub chat: Rect,
    /// The draft tree.
    pub tree: Option<Rect>,
    pub meters: Option<Rect>,
    /// The controls; one row while they are folded.
    pub controls: Option<Rect>,
    /// One row: speed and context.
    pub status: Rect,
    /// The message being written, with its frame.
    pub input: Rect,
    /// The notice, if it is too long for the frame of the message.
    pub notice: Rect,
    /// One row: keys.
    pub hints: Rect,
    /// Everything between header and hints.
    pub body: Rect,
    /// The part of the body that the panels next to the chat leave.
    pub column: Rect,
}

impl Areas {
    /// Clears `rect` for what will lie there, and with it every framed panel it would cut: half a
    /// frame looks broken. Rows of text are cleared from end to end.
    pub fn clear(&self, frame: &mut Frame<'_>, rect: Rect) {
        let framed = [self.tree, self.meters, self.controls, Some(self.input)];
        let touched = framed.into_iter().flatten().filter(|panel| panel.intersects(rect));
        let text = [self.chat, self.status, self.notice];
        let rows =
            text.map(|text| Rect { y: rect.y, height: rect.height, ..text }.intersection(text));
        for area in touched.chain(rows).chain([rect]) {
            frame.render_widget(Clear, area.intersection(frame.area()));
        }
    }
}
