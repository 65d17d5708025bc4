//! The message being written: text area, history and matching commands. Must never know what a
//! command does.

mod folds;
mod paths;
pub(crate) mod send;
mod starters;
pub(crate) mod vi;
pub(crate) mod view;

use std::collections::BTreeMap;
use std::time::Duration;

use ratatui::style::Style;
use ratatui_textarea::{CursorMove, TextArea, WrapMode};
use unicode_segmentation::UnicodeSegmentation;

use self::folds::Folds;
use self::paths::FolderNames;
use self::written::Written;
use crate::printable::printable;
use crate::tui::commands::{COMMANDS, SlashCommand};

pub use starters::Starters;
pub use vi::ViMode;

mod written;

/// Commands that begin as the input does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// The one under the cursor.
    pub selected: usize,
    /// Whether the user has closed the list for this word.
    dismissed: bool,
}

/// What may be meant by what is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Suggestion {
    Command(&'static SlashCommand),
    /// A path, as it is written after its sign.
    Path(String),
}

/// The message being written.
#[derive(Debug)]
pub struct Input {
    area: TextArea<'static>,
    completion: Completion,
    folds: Folds,
    /// Names for the path before the cursor.
    pub(crate) listed: FolderNames,
    history: Vec<Written>,
    /// The entry of the history shown; the one after the last is the message being written.
    at: usize,
    /// Entries that were changed and not sent, as they were left.
    left: BTreeMap<usize, Written>,
    /// What was put aside last, until a message is sent.
    aside: Option<String>,
    /// The question that is being edited: its place among the turns.
    pub editing: Option<usize>,
    /// The message that was just refused for a file that it names, and until when this is shown:
    /// sent again before, it goes as it is.
    pub sends_as_written: Option<(String, Duration)>,
    /// Messages that are sent when the answer under way has ended.
    pub queue: Vec<String>,
    /// What letters do, with the keys of vi.
    pub vi: ViMode,
    /// Which question of an empty chat is chosen.
    pub starters: Starters,
}

impl Default for Input {
    fn default() -> Self {
        Self {
            area: area(""),
            completion: Completion::default(),
            folds: Folds::default(),
            listed: FolderNames::default(),
            history: Vec::new(),
            at: 0,
            left: BTreeMap::new(),
            aside: None,
            editing: None,
            sends_as_written: None,
            queue: Vec::new(),
            vi: ViMode::Insert,
            starters: Starters::default(),
        }
    }
}

fn area(text: &str) -> TextArea<'static> {
    let mut area: TextArea<'static> = TextArea::new(text.split('\n').map(String::from).collect());
    area.set_wrap_mode(WrapMode::WordOrGlyph);
    area.set_cursor_line_style(Style::new());
    // The terminal's own cursor is used: it blinks as the user likes it and input methods find it.
    area.set_cursor_style(Style::new());
    area.set_tab_length(4);
    area.move_cursor(CursorMove::Bottom);
    area.move_cursor(CursorMove::End);
    area
}

fn delete_before(area: &mut TextArea<'_>, chars: usize) {
    for _ in 0..chars {
        area.delete_char();
    }
}

impl Input {
    /// The text area, to be drawn.
    pub fn area(&self) -> &TextArea<'static> {
        &self.area
    }

    /// Changes what is written: the list of commands begins again.
    pub fn edit<T>(&mut self, change: impl FnOnce(&mut TextArea<'static>) -> T) {
        self.change(change);
        self.completion = Completion::default();
    }

    /// Changes what is written or moves the cursor: never into a mark, and a mark of which a part
    /// goes goes whole, in one step of undo.
    fn change<T>(&mut self, change: impl FnOnce(&mut TextArea<'static>) -> T) {
        if self.folds.is_empty() {
            change(&mut self.area);
            return;
        }
        let text = |area: &TextArea<'_>| area.lines().join("\n");
        let (before, from) = (text(&self.area), self.area.cursor());
        change(&mut self.area);
        if let Some((cut, written)) = self.folds.mended(&before, &text(&self.area)) {
            while text(&self.area) != before {
                if !self.area.undo() {
                    self.area = area(&before);
                }
            }
            let head: String = before.chars().take(cut.start).collect();
            let row = head.matches('\n').count();
            let column = head.chars().rev().take_while(|c| *c != '\n').count();
            let [row, column] = [row, column].map(|at| u16::try_from(at).unwrap_or(u16::MAX));
            self.area.cancel_selection();
            self.area.move_cursor(CursorMove::Jump(row, column));
            self.area.delete_str(cut.len());
            self.area.insert_str(written);
        }
        let at = self.area.cursor();
        let line = self.area.lines().get(at.0).map_or("", String::as_str);
        if let Some(mark) = self.folds.mark_around(line, at.1) {
            let forward = (at.0, at.1) >= (from.0, from.1);
            let (to, steps) = match forward {
                true => (CursorMove::Forward, mark.end - at.1),
                false => (CursorMove::Back, at.1 - mark.start),
            };
            for _ in 0..steps {
                self.area.move_cursor(to);
            }
        }
    }

    /// What is written, long texts whole.
    pub fn text(&self) -> String {
        self.written().whole()
    }

    fn written(&self) -> Written {
        Written::new(self.area.lines().join("\n"), self.folds.clone())
    }

    /// Whether nothing is written.
    pub fn is_empty(&self) -> bool {
        self.area.is_empty()
    }

    /// Whether nothing is written but space.
    pub fn is_blank(&self) -> bool {
        self.area.lines().iter().all(|line| line.trim().is_empty())
    }

    /// What is written and was not sent, also while an earlier message is shown; else the message
    /// that was put aside and not sent since.
    pub fn unsent(&self) -> Option<String> {
        let end = self.history.len();
        let written = if self.at == end { None } else { self.left.get(&end) };
        let left = self.left.iter().filter(|(at, _)| ![self.at, end].contains(at));
        let shown = self.history.get(self.at).map(Written::whole);
        let now = Some(self.text()).filter(|text| shown.as_ref() != Some(text));
        let before = written.into_iter().chain(left.map(|(_, written)| written));
        let mut texts: Vec<String> = before.map(Written::whole).chain(now).collect();
        texts.retain(|text| !text.trim().is_empty());
        if texts.is_empty() {
            return self.aside.clone();
        }
        Some(texts.join("\n\n"))
    }

    /// Puts `text` in place of what is written.
    pub fn set(&mut self, text: &str) {
        self.write(Written::from(text));
    }

    fn write(&mut self, written: Written) {
        let Written { text, folds, .. } = written;
        self.folds = folds;
        self.area = area(&text);
        self.completion = Completion::default();
    }

    /// Messages that were not answered come before what is written, each as it was written itself:
    /// with marks for its long texts.
    pub fn take_back(&mut self, messages: &[String]) {
        let as_written = |said: &String| {
            let sent = self.history.iter().rev().find(|written| written.says(said));
            sent.cloned().unwrap_or_else(|| Written::from(said.as_str()))
        };
        let mut all: Vec<Written> = messages.iter().map(as_written).collect();
        if !self.is_empty() {
            all.push(self.written());
        }
        self.write(Written::joined(all));
    }

    /// Takes what is written as sent.
    pub fn sent(&mut self) {
        self.sent_as(None);
    }

    /// Takes what is written as sent in the form of this message, by which [`Self::take_back`]
    /// finds it.
    pub fn sent_as(&mut self, message: Option<&str>) {
        let mut written = self.written();
        // A command is not a message.
        if !written.text.starts_with('/') {
            self.aside = None;
        }
        written.sent_as(message);
        if self.history.last() != Some(&written) {
            self.history.push(written);
        }
        self.at = self.history.len();
        self.vi = ViMode::Insert;
        self.left.clear();
        // The next message may be written after files have changed.
        self.listed = FolderNames::default();
        self.set("");
    }

    /// Puts what is written aside: arrow up brings it back.
    pub fn stash(&mut self) {
        if !self.is_empty() {
            let text = self.text();
            self.sent();
            // A command is not a message: `up` finds it, and it waits for no answer.
            if !text.starts_with('/') && !text.trim().is_empty() {
                self.aside = Some(text);
            }
        }
    }

    /// Arrow up shows this, as if it had been sent last.
    pub fn remember(&mut self, text: String) {
        self.left.remove(&self.history.len());
        self.history.push(Written::from(text.as_str()));
        self.at = self.history.len();
    }

    /// Inserts pasted text in one step of undo, with pictures (`␛`) for its control characters; a
    /// long one appears as a mark, and is sent as it is.
    pub fn paste(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        if let Some(name) = Folds::name(&text) {
            self.fold(&name, text);
        } else {
            // The field draws no control characters, and a user cannot delete what is not drawn.
            self.edit(|area| area.insert_str(printable(&text)));
        }
    }

    /// Inserts a text that appears as the mark `name` until it is sent.
    pub fn fold(&mut self, name: &str, text: String) {
        let mark = self.folds.add(name, text);
        self.edit(|area| area.insert_str(mark));
    }

    /// Moves the cursor up; from the first row of the screen, to the message sent before.
    pub fn up(&mut self) {
        let at = self.area.cursor();
        self.change(|area| area.move_cursor(CursorMove::Up));
        if self.area.cursor() == at && self.at > 0 {
            self.recall(self.at - 1);
        }
    }

    /// Moves the cursor down; from the last row of the screen, to the message sent after.
    pub fn down(&mut self) {
        let at = self.area.cursor();
        self.change(|area| area.move_cursor(CursorMove::Down));
        if self.area.cursor() == at && self.at < self.history.len() {
            self.recall(self.at + 1);
        }
    }

    /// Whether there are messages sent before.
    pub fn recalls(&self) -> bool {
        !self.history.is_empty()
    }

    /// Shows an entry of the history; what is shown now is kept for when it is come back to.
    fn recall(&mut self, at: usize) {
        let shown = self.written();
        match self.history.get(self.at) {
            Some(sent) if sent.whole() == shown.whole() => drop(self.left.remove(&self.at)),
            _ => drop(self.left.insert(self.at, shown)),
        }
        self.at = at;
        let entry = self.left.get(&at).or(self.history.get(at));
        self.write(entry.cloned().unwrap_or_default());
        self.completion.dismissed = true;
    }

    /// Deletes the character before the cursor, whole: an emoji of several code points is one.
    pub fn backspace(&mut self) {
        let chars = self.characters()[0];
        self.edit(|area| delete_before(area, chars));
    }

    /// Deletes the character under the cursor, whole.
    pub fn delete(&mut self) {
        let chars = self.characters()[1];
        self.edit(|area| {
            for _ in 0..chars {
                area.delete_next_char();
            }
        });
    }

    /// Moves the cursor by one character, whole.
    pub fn step(&mut self, forward: bool) {
        let to = if forward { CursorMove::Forward } else { CursorMove::Back };
        let steps = self.characters()[usize::from(forward)];
        self.change(|area| {
            area.cancel_selection();
            (0..steps).for_each(|_| area.move_cursor(to));
        });
    }

    /// The line up to the cursor.
    pub(super) fn before(&self) -> &str {
        self.split().0
    }

    /// Code points of the characters before the cursor and under it; 1 where there is none.
    fn characters(&self) -> [usize; 2] {
        let (before, after) = self.split();
        let around = [before.graphemes(true).next_back(), after.graphemes(true).next()];
        around.map(|character| character.map_or(1, |character| character.chars().count()))
    }

    fn split(&self) -> (&str, &str) {
        let cursor = self.area.cursor();
        let line = self.area.lines().get(cursor.0).map_or("", String::as_str);
        let at = line.char_indices().nth(cursor.1).map_or(line.len(), |(at, _)| at);
        line.split_at(at)
    }

    /// The command that is being written, without its slash; `None` once an argument is.
    pub fn command_word(&self) -> Option<&str> {
        let [line] = self.area.lines() else { return None };
        line.strip_prefix('/').filter(|word| !word.contains(char::is_whitespace))
    }

    /// The path that is being written before the cursor.
    fn path(&self) -> Option<&str> {
        if self.completion.dismissed {
            return None;
        }
        paths::path_before(self.before())
    }

    /// The folder whose names are needed for it; asked for once.
    pub fn wants_folder(&mut self) -> Option<String> {
        let path = self.path()?.to_string();
        self.listed.wants(&path)
    }

    /// What may be meant by what is written: commands one of whose names begins like it, first the
    /// one that is written out, or paths.
    pub fn offered(&self) -> Vec<Suggestion> {
        if let Some(word) = self.command_word()
            && !self.completion.dismissed
        {
            let begun = |command: &&SlashCommand| command.name_like(word).is_some();
            let mut found: Vec<_> = COMMANDS.iter().filter(begun).collect();
            found.sort_by_key(|command| command.names().all(|name| name != word));
            return found.into_iter().map(Suggestion::Command).collect();
        }
        let paths = self.path().map(|path| self.listed.like(path)).unwrap_or_default();
        paths.into_iter().map(Suggestion::Path).collect()
    }

    /// Place of the cursor in the suggestions.
    pub fn selected(&self) -> usize {
        self.completion.selected
    }

    /// The suggestion under the cursor.
    pub fn suggestion(&self) -> Option<Suggestion> {
        self.offered().into_iter().nth(self.completion.selected)
    }

    /// Moves the cursor of the list, round the end.
    pub fn select(&mut self, by: i64) {
        let all = self.offered().len().max(1) as i64;
        self.completion.selected = (self.completion.selected as i64 + by).rem_euclid(all) as usize;
    }

    /// Closes the list.
    pub fn dismiss(&mut self) {
        self.completion.dismissed = true;
    }

    /// Writes the suggestion under the cursor, if there is one; after a folder its contents can be
    /// chosen.
    pub fn complete(&mut self) {
        match self.suggestion() {
            Some(Suggestion::Command(command)) => {
                let name = self.command_word().and_then(|word| command.name_like(word));
                let space = if command.argument.is_empty() { "" } else { " " };
                self.set(&format!("/{}{space}", name.unwrap_or(command.name)));
                self.completion.dismissed = true;
            }
            Some(Suggestion::Path(path)) => {
                let begun = self.path().map_or(0, |path| path.chars().count());
                let space = if path.ends_with('/') { "" } else { " " };
                self.edit(|area| {
                    delete_before(area, begun);
                    area.insert_str(format!("{path}{space}"))
                });
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
