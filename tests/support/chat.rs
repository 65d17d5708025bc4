//! The chat in a pseudo-terminal, with a script instead of models, in its own home folder.

use std::path::Path;

use tempfile::TempDir;

use super::program;
use super::pty::{Ended, Pty};

/// A part of the answer in answers.jsonl that fits on one line of any screen.
pub const ANSWER: &str = "The red fox ran over the hill";

/// A chat and its home folder.
pub struct Chat {
    pub pty: Pty,
    pub home: TempDir,
}

impl Chat {
    pub fn start(script: &str) -> Self {
        Self::with(script, 80, 24, &[])
    }

    pub fn with(script: &str, columns: u16, rows: u16, environment: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut command = program::scripted(script, home.path());
        for (name, value) in environment {
            command.env(name, value);
        }
        Self { pty: Pty::start(command, columns, rows), home }
    }

    /// Waits until a message can be sent.
    pub fn ready(mut self) -> Self {
        self.pty.wait_for("○ ready");
        self
    }

    pub fn send(&mut self, keys: &str) {
        self.pty.send(keys);
    }

    pub fn wait_for(&mut self, text: &str) {
        self.pty.wait_for(text);
    }

    pub fn type_until(&mut self, keys: &str, text: &str) {
        self.pty.type_until(keys, text);
    }

    /// Quits, and checks that the terminal is as before. Returns what was saved.
    pub fn quit(mut self) -> (Ended, String) {
        self.send("\x11");
        let ended = self.pty.end();
        assert_eq!(ended.code, 0, "{}", ended.screen);
        (ended, saved(self.home.path()))
    }
}

/// All conversations saved below `folder`, as text.
pub fn saved(folder: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            text.push_str(&saved(&path));
        } else if path.extension().is_some_and(|extension| extension == "json") {
            text.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
    text
}
