//! Lines that the program says in passing: answers to what the user did replace each other at once
//! and go with the next message that is sent, or with the answer that they are about; notices of
//! the worker, of which several come together, are shown one after the other. They are drawn on the
//! upper edge of the message's frame, where they cover nothing; in rows of their own above the
//! frame if they are too long.

use std::collections::VecDeque;
use std::time::Duration;

use super::actions::Action;
use super::display::Focus;
use super::state::ScreenState;
use crate::printable::printable_line;
use crate::tui::draw::{
    Areas, Frame, Line, Rect, Span, Style, Styles, draw_rows, hanging, wrapped,
};

/// What a line says of what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// It was done.
    Done,
    /// It is so: nothing was to be done.
    Shown,
    /// It was not done, though nothing is wrong; or the worker did something by itself.
    Told,
    /// Something went wrong.
    Wrong,
}

/// What ends a line before its time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Nothing: a notice of the worker, which must not be lost.
    Never,
    /// The next message.
    Sent,
    /// The next message, and the end of the answer under way.
    Answered,
}

/// A line that disappears after a few seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toast {
    pub text: String,
    /// What it says of what it is about.
    pub tone: Tone,
    /// When it disappears.
    until: Duration,
    /// What ends it before.
    pub ends: Ends,
}

/// The line that is shown, and the notices that wait for their turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toasts {
    shown: Option<Toast>,
    waiting: VecDeque<String>,
    /// Notices of the worker, the latest last, for the details.
    pub notices: Vec<String>,
}

impl Toasts {
    /// How long a line is shown.
    const TIME: Duration = Duration::from_secs(4);

    /// The line to show.
    pub fn shown(&self) -> Option<&Toast> {
        self.shown.as_ref()
    }

    /// When the line changes or disappears.
    pub fn deadline(&self) -> Option<Duration> {
        self.shown.as_ref().map(|toast| toast.until)
    }

    /// Shows `text` at once, for a few seconds.
    pub fn say(&mut self, text: &str, tone: Tone, ends: Ends, now: Duration) {
        let time = if tone == Tone::Wrong { 2 * Self::TIME } else { Self::TIME };
        self.say_until(text, tone, ends, now + time);
    }

    /// Shows `text` at once until then; a notice that it replaces comes back after it.
    pub fn say_until(&mut self, text: &str, tone: Tone, ends: Ends, until: Duration) {
        if let Some(Toast { ends: Ends::Never, text, .. }) = self.shown.take() {
            self.waiting.push_front(text);
        }
        let text = printable_line(text).into_owned();
        self.shown = Some(Toast { text, tone, until, ends });
    }

    /// A message is sent: what was said about the one before does not count any more.
    pub fn sent(&mut self, now: Duration) {
        self.end_if(now, |toast| toast.ends != Ends::Never);
    }

    /// The answer under way has ended.
    pub fn answered(&mut self, now: Duration) {
        self.end_if(now, |toast| toast.ends == Ends::Answered);
    }

    /// Drops a line whose time is over and shows the next notice.
    pub fn pass(&mut self, now: Duration) {
        self.end_if(now, |toast| toast.until <= now);
    }

    fn end_if(&mut self, now: Duration, ended: impl Fn(&Toast) -> bool) {
        if self.shown.take_if(|toast| ended(toast)).is_some()
            && let Some(next) = self.waiting.pop_front()
        {
            self.show_later(next, now);
        }
    }

    /// Shows a notice after those that came before it, and keeps it.
    pub fn notice(&mut self, text: &str, now: Duration) {
        const MOST: usize = 32;
        self.show_later(text.to_string(), now);
        if !self.notices.iter().any(|notice| notice == text) {
            self.notices.push(text.to_string());
            self.notices.drain(..self.notices.len().saturating_sub(MOST));
        }
    }

    fn show_later(&mut self, text: String, now: Duration) {
        if self.shown.is_some() {
            self.waiting.push_back(text);
        } else {
            self.say(&text, Tone::Told, Ends::Never, now);
        }
    }
}

/// The text that is shown, as it is laid out for one frame.
pub(crate) enum LaidOut {
    /// On the upper edge of the message's frame, in the place of its title.
    OnEdge(Line<'static>),
    /// In rows above the message, as many as there are.
    Above(Vec<Line<'static>>),
}

impl LaidOut {
    /// For the message in `input`.
    pub(crate) fn new(input: Rect, state: &ScreenState, styles: &Styles) -> Self {
        /// Most rows; longer errors have an overlay.
        const TALLEST: usize = 4;
        let Some((mark, text, style)) = words(state, styles) else {
            return Self::Above(Vec::new());
        };
        let line = Line::styled(format!(" {mark} {text} "), style);
        // How far a load is stays for minutes: it must not cover where keys go.
        let passes = state.toasts.shown().is_some() || state.display.focus == Focus::Input;
        if passes && input.height >= 3 && line.width() + 4 <= usize::from(input.width) {
            return Self::OnEdge(line);
        }
        let mut rows = wrapped(&text, input.width.saturating_sub(4).max(1), style);
        rows.truncate(TALLEST);
        Self::Above(hanging(rows, Span::styled(format!(" {mark} "), style)))
    }

    /// Rows above the message.
    pub(crate) fn rows(&self) -> u16 {
        match self {
            Self::OnEdge(_) => 0,
            Self::Above(rows) => rows.len() as u16,
        }
    }

    pub(crate) fn draw(self, frame: &mut Frame<'_>, areas: &Areas) {
        match self {
            Self::OnEdge(line) => {
                let width = line.width() as u16;
                let edge = Rect { x: areas.input.x + 2, width, height: 1, ..areas.input };
                frame.render_widget(line, edge.intersection(areas.input));
            }
            Self::Above(rows) => draw_rows(frame, areas.notice, rows),
        }
    }
}

fn words(state: &ScreenState, styles: &Styles) -> Option<(&'static str, String, Style)> {
    let Some(toast) = state.toasts.shown() else {
        let load = state.models.load.as_ref()?;
        let words = load.words(&state.display.keys.name(Action::Escape));
        return Some(("◌", printable_line(&words).into_owned(), styles.accent));
    };
    let (mark, style) = match toast.tone {
        Tone::Done => ("✓", styles.accent),
        Tone::Shown => ("·", styles.text),
        Tone::Told => ("!", styles.warning),
        Tone::Wrong => ("✗", styles.error),
    };
    Some((mark, toast.text.replace('\n', " "), style))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn text(toasts: &Toasts) -> &str {
        toasts.shown().map_or("", |toast| &toast.text)
    }

    #[test]
    fn notices_are_shown_one_after_the_other() {
        let mut toasts = Toasts::default();
        for notice in ["first", "second", "third"] {
            toasts.notice(notice, seconds(0));
        }
        let mut seen = Vec::new();
        for now in 0..13 {
            toasts.pass(seconds(now));
            seen.push(text(&toasts).to_string());
        }
        seen.dedup();
        assert_eq!(seen, ["first", "second", "third", ""]);
        assert_eq!(toasts.deadline(), None);
    }

    #[test]
    fn an_answer_to_a_key_goes_with_what_it_is_about_and_costs_no_notice() {
        let mut toasts = Toasts::default();
        type Step = fn(&mut Toasts);
        let steps: [(Step, &str); 11] = [
            (|toasts| toasts.notice("the GPU is lost", seconds(0)), "the GPU is lost"),
            (|toasts| toasts.notice("context cut", seconds(0)), "the GPU is lost"),
            (|toasts| toasts.say("light", Tone::Done, Ends::Sent, seconds(1)), "light"),
            (|toasts| toasts.say("mono", Tone::Done, Ends::Sent, seconds(2)), "mono"),
            // No answer has to do with it.
            (|toasts| toasts.answered(seconds(2)), "mono"),
            (|toasts| toasts.sent(seconds(3)), "the GPU is lost"),
            (|toasts| toasts.sent(seconds(3)), "the GPU is lost"),
            (
                |toasts| toasts.say("on its way", Tone::Told, Ends::Answered, seconds(4)),
                "on its way",
            ),
            (|toasts| toasts.answered(seconds(5)), "the GPU is lost"),
            (|toasts| toasts.pass(seconds(9)), "context cut"),
            (|toasts| toasts.pass(seconds(13)), ""),
        ];
        for (at, (step, shown)) in steps.into_iter().enumerate() {
            step(&mut toasts);
            assert_eq!(text(&toasts), shown, "{at}");
        }
    }
}
