//! Lines that the program says in passing: answers to what the user did replace each other at once
//! and go with the next message that is sent, or with the answer that they are about; notices of
//! the worker, of which several come together, are shown one after the other. Must never know where
//! they are drawn.

pub(crate) mod view;

use std::collections::VecDeque;
use std::time::Duration;

use crate::printable::printable_line;

/// What a line says of what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// It was done.
    Done,
    /// It was not done, though nothing is wrong; or the worker did something by itself.
    Told,
    /// Something went wrong.
    Wrong,
}

/// What ends a line before its time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
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
    ends: Ends,
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

    /// Shows `text` at once; a notice that it replaces comes back after it.
    pub fn say(&mut self, text: &str, tone: Tone, now: Duration) {
        self.replace(text, tone, Ends::Sent, now);
    }

    /// The same for what holds only while the answer under way comes.
    pub fn say_of_answer(&mut self, text: &str, tone: Tone, now: Duration) {
        self.replace(text, tone, Ends::Answered, now);
    }

    /// Shows what holds until then: a key that is to be pressed again.
    pub fn say_until(&mut self, text: &str, until: Duration) {
        self.put_back_notice();
        self.show(text, Tone::Told, Ends::Sent, until);
    }

    /// A message is sent: what was said about the one before does not count any more.
    pub fn sent(&mut self, now: Duration) {
        self.end_if(now, |ends| ends != Ends::Never);
    }

    /// The answer under way has ended.
    pub fn answered(&mut self, now: Duration) {
        self.end_if(now, |ends| ends == Ends::Answered);
    }

    /// Shows a notice after those that came before it, and keeps it.
    pub fn notice(&mut self, text: &str, now: Duration) {
        const MOST: usize = 32;
        self.show_later(text, now);
        if !self.notices.iter().any(|notice| notice == text) {
            self.notices.push(text.to_string());
            self.notices.drain(..self.notices.len().saturating_sub(MOST));
        }
    }

    fn show_later(&mut self, text: &str, now: Duration) {
        if self.shown.is_some() {
            self.waiting.push_back(text.to_string());
        } else {
            self.show(text, Tone::Told, Ends::Never, now + Self::TIME);
        }
    }

    /// Drops a line whose time is over and shows the next notice.
    pub fn pass(&mut self, now: Duration) {
        if self.shown.as_ref().is_some_and(|toast| toast.until <= now) {
            self.next(now);
        }
    }

    fn end_if(&mut self, now: Duration, ended: impl Fn(Ends) -> bool) {
        if self.shown.as_ref().is_some_and(|toast| ended(toast.ends)) {
            self.next(now);
        }
    }

    fn next(&mut self, now: Duration) {
        self.shown = None;
        if let Some(next) = self.waiting.pop_front() {
            self.show_later(&next, now);
        }
    }

    /// What is shown is replaced; a notice comes back later.
    fn put_back_notice(&mut self) {
        if let Some(Toast { ends: Ends::Never, text, .. }) = self.shown.take() {
            self.waiting.push_front(text);
        }
    }

    fn replace(&mut self, text: &str, tone: Tone, ends: Ends, now: Duration) {
        self.put_back_notice();
        let time = if tone == Tone::Wrong { 2 * Self::TIME } else { Self::TIME };
        self.show(text, tone, ends, now + time);
    }

    fn show(&mut self, text: &str, tone: Tone, ends: Ends, until: Duration) {
        let text = printable_line(text).into_owned();
        self.shown = Some(Toast { text, tone, until, ends });
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
        toasts.say("theme: light", Tone::Done, seconds(1));
        assert_eq!(text(&toasts), "theme: light");
        toasts.say("theme: mono", Tone::Done, seconds(2));
        toasts.pass(seconds(6));
        assert_eq!(text(&toasts), "the GPU is lost");
        toasts.pass(seconds(10));
        assert_eq!(text(&toasts), "context cut");
        toasts.pass(seconds(14));
        assert_eq!(toasts.shown(), None);
    }

    #[test]
    fn a_line_goes_with_what_it_is_about_and_a_notice_stays() {
        let mut toasts = Toasts::default();
        toasts.notice("context cut", seconds(0));
        toasts.say("cannot read gone.rs", Tone::Wrong, seconds(1));
        toasts.answered(seconds(1));
        assert_eq!(text(&toasts), "cannot read gone.rs", "no answer has to do with it");
        toasts.sent(seconds(2));
        assert_eq!(text(&toasts), "context cut");
        toasts.sent(seconds(2));
        assert_eq!(text(&toasts), "context cut");
        toasts.say_of_answer("an answer is on its way", Tone::Told, seconds(3));
        toasts.answered(seconds(4));
        assert_eq!(text(&toasts), "context cut");
    }
}
