//! The terminal in other hands: the shell's after a stop, the user's editor's while a message is
//! written there. Must never know what is on the screen.

use super::{App, ScreenEvent};
use crate::tui::terminal::{self, Screen, editor, signals};

impl App {
    /// Gives the terminal back to the shell and stops.
    pub(super) fn suspend(&mut self) {
        terminal::restore();
        self.suspended = true;
        if let Err(error) = signals::stop() {
            tracing::warn!("not suspended: {error}");
            if !self.editing {
                self.resume();
            }
        }
    }

    /// Gives the terminal to the user's editor. What it leaves comes as an event; meanwhile an
    /// answer continues, and nothing is drawn.
    pub(super) fn edit(&mut self, text: &str) -> Result<(), String> {
        if self.editing {
            return Ok(());
        }
        if self.screen.is_none() {
            return Err("The editor needs the full screen".to_string());
        }
        let editor = editor::chosen(|name| std::env::var_os(name))?;
        let file = editor::file_of(text)?;
        self.pause.set(true);
        signals::lend(true);
        terminal::restore();
        (self.suspended, self.editing) = (true, true);
        let results = self.results.clone();
        let edit = move || {
            // There is no receiver once the screen has ended.
            let _ = results.send((None, Some(ScreenEvent::Edited(editor::edited(&editor, file)))));
        };
        let thread = std::thread::Builder::new().name("dovetail-editor".into()).spawn(edit);
        thread.map(drop).map_err(|error| format!("cannot start a thread for the editor: {error}"))
    }

    /// Takes the terminal back from the editor.
    pub(super) fn leave_editor(&mut self) {
        if std::mem::take(&mut self.editing) {
            signals::lend(false);
            self.resume();
            self.pause.set(false);
        }
    }

    /// Takes the terminal again after a stop.
    pub(super) fn resume(&mut self) {
        self.suspended = false;
        self.changed = true;
        self.state.pictures.forget();
        self.on_screen("cannot take the terminal back", Screen::retake);
    }
}
