//! Pastes of terminals that send them as keys (all of Windows, some multiplexers): Enter or Tab
//! amid characters that come faster than anyone types is part of a paste, and neither sends nor
//! turns anything. Must never read or know the time.

use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Longest time from a key to the next of a paste that is not known to be one.
const GAP: Duration = Duration::from_millis(10);
/// The same within a paste: slow lines deliver it in parts.
const GAP_WITHIN: Duration = Duration::from_millis(100);

/// Joins the keys of a paste.
#[derive(Debug, Default)]
pub(super) struct Bursts {
    /// Enter and Tab that wait for what comes after them.
    held: Vec<KeyEvent>,
    /// The paste that has begun.
    paste: String,
}

impl Bursts {
    /// Takes in events that came at once; what is known of them and those before.
    pub(super) fn take(&mut self, events: Vec<Event>) -> Vec<Event> {
        let mut out = Vec::new();
        let mut run: Vec<KeyEvent> = Vec::new();
        for event in events {
            match event {
                Event::Key(key) if text(&key).is_some() => run.push(key),
                other => {
                    self.run(std::mem::take(&mut run), &mut out);
                    out.extend(self.end());
                    out.push(other);
                }
            }
        }
        self.run(run, &mut out);
        out
    }

    /// How long to wait for the next key of a paste.
    pub(super) fn patience(&self) -> Option<Duration> {
        match (self.paste.is_empty(), self.held.is_empty()) {
            (false, _) => Some(GAP_WITHIN),
            (true, false) => Some(GAP),
            (true, true) => None,
        }
    }

    /// Nothing came: the paste is whole, or the keys were typed.
    pub(super) fn end(&mut self) -> Vec<Event> {
        let held = std::mem::take(&mut self.held);
        match std::mem::take(&mut self.paste) {
            paste if paste.is_empty() => held.into_iter().map(Event::Key).collect(),
            paste => vec![Event::Paste(paste)],
        }
    }

    /// Takes in keys that write and came one right after the other.
    fn run(&mut self, mut run: Vec<KeyEvent>, out: &mut Vec<Event>) {
        let last = run.iter().rposition(|key| !breaks(key)).map_or(0, |at| at + 1);
        let pasted = last > 0 && (!self.held.is_empty() || run[..last].iter().any(breaks));
        if pasted || !self.paste.is_empty() {
            let keys = self.held.drain(..).chain(run);
            self.paste.extend(keys.filter_map(|key| text(&key)));
            return;
        }
        self.held.extend(run.drain(last..));
        out.extend(run.into_iter().map(Event::Key));
    }
}

fn breaks(key: &KeyEvent) -> bool {
    text(key).is_some_and(char::is_control)
}

/// What a key stands for in a paste.
fn text(key: &KeyEvent) -> Option<char> {
    let plain = key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
    match key.code {
        _ if key.kind == KeyEventKind::Release => None,
        KeyCode::Char(c) if plain => Some(c),
        KeyCode::Enter if key.modifiers.is_empty() => Some('\n'),
        KeyCode::Tab if key.modifiers.is_empty() => Some('\t'),
        // A line feed.
        KeyCode::Char('j') if key.modifiers == KeyModifiers::CONTROL => Some('\n'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::terminal::sequences::{InputParser, Received};

    /// The events of these reads, between which this much time passes.
    fn of(reads: &[(&str, u64)]) -> Vec<Event> {
        let (mut parser, mut bursts) = (InputParser::default(), Bursts::default());
        let mut out = Vec::new();
        for (bytes, then) in reads {
            let events = parser.feed(bytes.as_bytes()).into_iter().map(|received| match received {
                Received::Event(event) => event,
                Received::Answer(answer) => panic!("{answer:?}"),
            });
            out.extend(bursts.take(events.collect()));
            if bursts.patience().is_some_and(|patience| patience <= Duration::from_millis(*then)) {
                out.extend(bursts.end());
            }
        }
        out
    }

    /// What was typed, with pastes in brackets.
    fn told(reads: &[(&str, u64)]) -> String {
        let told = |event: Event| match event {
            Event::Key(key) => match key.code {
                KeyCode::Char(c) => c.to_string(),
                code => format!("<{code}>"),
            },
            Event::Paste(text) => format!("[{text}]"),
            other => format!("{other:?}"),
        };
        of(reads).into_iter().map(told).collect()
    }

    #[test]
    fn lines_that_come_at_once_are_a_paste_and_a_line_that_is_typed_is_not() {
        for (reads, expected) in [
            (&[("hello\r", 20)][..], "hello<Enter>"),
            (&[("h", 50), ("i", 50), ("\r", 50)], "hi<Enter>"),
            (&[("one\rtwo\rlast", 200)], "[one\ntwo\nlast]"),
            (&[("one\rtwo\r", 200)], "[one\ntwo\n]"),
            (&[("\tthird\r", 200)], "[\tthird\n]"),
            (&[("one\ntwo", 200)], "[one\ntwo]"),
            // Cut after a line, and typed on once it is over.
            (
                &[("one\r", 2), ("two\rth", 40), ("ree\r", 200), ("x\r", 20)],
                "one[\ntwo\nthree\n]x<Enter>",
            ),
            (&[("one\r", 20), ("two\r", 20)], "one<Enter>two<Enter>"),
            (&[("\t", 20), ("g", 20)], "<Tab>g"),
            (&[("\r\r", 20)], "<Enter><Enter>"),
            (&[("a\x1b[Bb\r", 20)], "a<Down>b<Enter>"),
        ] {
            assert_eq!(told(reads), expected, "{reads:?}");
        }
    }
}
