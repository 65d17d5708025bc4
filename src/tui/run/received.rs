//! What the terminal sends, as events of the screen: keys, pastes, the mouse, its size. Must never
//! know what they do.

use crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind,
};
use tokio::sync::mpsc::Receiver;

use super::{App, Button, ScreenEvent, Signal};
use crate::tui::terminal::graphics;
use crate::tui::terminal::sequences::{Answer, Received};
use crate::tui::theme::ThemeName;

impl App {
    /// Takes an event in, with the characters that wait after it if it is one.
    pub(super) fn input(&mut self, input: Received, waiting: &mut Receiver<Received>) {
        let input = match input {
            Received::Event(event) => event,
            Received::Answer(answer) => return self.answered(answer),
        };
        let event = match input {
            Event::Key(event) if is_text(&event) => {
                let (keys, next) = characters(event, waiting);
                self.typed = true;
                self.take(match keys.as_slice() {
                    [event] => ScreenEvent::Key(*event),
                    _ => ScreenEvent::Typed(keys),
                });
                if let Some(next) = next {
                    self.input(next, waiting);
                }
                return;
            }
            Event::Key(event) => ScreenEvent::Key(event),
            Event::Paste(text) => ScreenEvent::Paste(text),
            Event::Mouse(event) => match event.kind {
                MouseEventKind::ScrollUp => ScreenEvent::Wheel(-3),
                MouseEventKind::ScrollDown => ScreenEvent::Wheel(3),
                // Shift leaves the selection to the terminal, where that hands it on at all.
                _ if event.modifiers.contains(KeyModifiers::SHIFT) => return,
                MouseEventKind::Down(MouseButton::Left) => {
                    ScreenEvent::Button(Button::Pressed, event.column, event.row)
                }
                MouseEventKind::Drag(MouseButton::Left) => {
                    ScreenEvent::Button(Button::Moved, event.column, event.row)
                }
                MouseEventKind::Up(MouseButton::Left) => {
                    ScreenEvent::Button(Button::Released, event.column, event.row)
                }
                MouseEventKind::Moved => {
                    let clock = &self.state.meters.clock;
                    let round = clock.round(event.column, event.row);
                    if round == clock.pointed {
                        return;
                    }
                    ScreenEvent::Pointed(round)
                }
                _ => return,
            },
            Event::Resize(..) => return self.signal(Signal::Resize),
            Event::FocusGained => ScreenEvent::Focused(true),
            Event::FocusLost => ScreenEvent::Focused(false),
        };
        self.typed = true;
        self.take(event);
    }

    /// The terminal answers a question, however late.
    fn answered(&mut self, answer: Answer) {
        match answer {
            Answer::Background { light } => {
                let background = if light { ThemeName::Light } else { ThemeName::Dark };
                self.take(ScreenEvent::Background(background));
            }
            Answer::Name(name) => self.terminal = name,
            Answer::Attributes(attributes) => {
                self.looks_known = true;
                if let Some(graphics) = graphics::shown_by(&self.terminal, &attributes) {
                    self.take(ScreenEvent::Graphics(graphics));
                }
            }
        }
    }
}

/// Whether a key is a character to be written.
fn is_text(event: &KeyEvent) -> bool {
    event.kind == KeyEventKind::Press
        && matches!(event.code, KeyCode::Char(_))
        && event.modifiers.difference(KeyModifiers::SHIFT).is_empty()
}

/// `first` and the characters that wait after it, and what came after those.
fn characters(
    first: KeyEvent,
    waiting: &mut Receiver<Received>,
) -> (Vec<KeyEvent>, Option<Received>) {
    let mut keys = vec![first];
    while let Ok(next) = waiting.try_recv() {
        match next {
            Received::Event(Event::Key(event)) if is_text(&event) => keys.push(event),
            other => return (keys, Some(other)),
        }
    }
    (keys, None)
}
