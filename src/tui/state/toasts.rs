//! Lines that the program says in passing: answers to what the user did replace each other at once;
//! notices of the worker, of which several come together, are shown one after the other. Must never
//! know where they are drawn.

use std::collections::VecDeque;
use std::time::Duration;

use crate::printable::printable_line;

/// A line that disappears after a few seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toast {
    /// Its text.
    pub text: String,
    /// Whether something went wrong.
    pub error: bool,
    /// When it disappears.
    until: Duration,
    /// Whether it is a notice of the worker, which must not be lost.
    notice: bool,
}

/// The line that is shown, and the notices that wait for their turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toasts {
    shown: Option<Toast>,
    waiting: VecDeque<String>,
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

    /// Shows `text` at once; a notice that it replaces comes back after it.
    pub fn say(&mut self, text: &str, error: bool, now: Duration) {
        if let Some(Toast { notice: true, text, .. }) = self.shown.take() {
            self.waiting.push_front(text);
        }
        let time = if error { 2 * Self::TIME } else { Self::TIME };
        self.show(text, error, false, now + time);
    }

    /// Shows a notice after those that came before it.
    pub fn notice(&mut self, text: &str, now: Duration) {
        if self.shown.is_some() {
            self.waiting.push_back(text.to_string());
        } else {
            self.show(text, false, true, now + Self::TIME);
        }
    }

    /// Lets go of a line whose time is over and shows the next notice.
    pub fn pass(&mut self, now: Duration) {
        if self.shown.as_ref().is_some_and(|toast| toast.until <= now) {
            self.shown = None;
            if let Some(next) = self.waiting.pop_front() {
                self.notice(&next, now);
            }
        }
    }

    fn show(&mut self, text: &str, error: bool, notice: bool, until: Duration) {
        let text = printable_line(text).into_owned();
        self.shown = Some(Toast { text, error, until, notice });
    }
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
    fn an_answer_to_a_key_is_shown_at_once_and_costs_no_notice() {
        let mut toasts = Toasts::default();
        toasts.notice("the GPU is lost", seconds(0));
        toasts.notice("context cut", seconds(0));
        toasts.say("theme: light", false, seconds(1));
        assert_eq!(text(&toasts), "theme: light");
        toasts.say("theme: mono", false, seconds(2));
        toasts.pass(seconds(6));
        assert_eq!(text(&toasts), "the GPU is lost");
        toasts.pass(seconds(10));
        assert_eq!(text(&toasts), "context cut");
        toasts.pass(seconds(14));
        assert_eq!(toasts.shown(), None);
    }
}
