//! Keys of vi for the message, if the settings want them: a mode in which letters move and change,
//! and one in which they write. Must never know other keys.

use ratatui_textarea::{CursorMove as To, TextArea};

use super::Input;

/// What letters do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ViMode {
    /// They write.
    #[default]
    Insert,
    /// They move and change; the letter that waits for another one.
    Normal(Option<char>),
}

impl Input {
    /// Whether letters move and change.
    pub fn commands(&self) -> bool {
        self.vi != ViMode::Insert
    }

    /// Does what the letter stands for while letters move and change.
    pub fn command(&mut self, c: char) {
        let ViMode::Normal(before) = self.vi else { return };
        self.vi = ViMode::Normal(None);
        match (before, c) {
            (None, 'd' | 'g' | 'c') => self.vi = ViMode::Normal(Some(c)),
            (Some('d'), 'd') => self.edit(|area| {
                area.move_cursor(To::Head);
                area.delete_line_by_end();
                // The line's own end; of the last line, that of the line before.
                if !area.delete_next_char() {
                    area.delete_char();
                }
                area.move_cursor(To::Head);
            }),
            (Some('d' | 'c'), 'w') => self.edit(TextArea::delete_next_word),
            (Some('d' | 'c'), 'b') => self.edit(TextArea::delete_word),
            (Some('g'), 'g') => self.change(|area| area.move_cursor(To::Top)),
            (Some(_), _) => return,
            (None, 'h') => self.step(false),
            (None, 'l') => self.step(true),
            (None, 'j') => self.down(),
            (None, 'k') => self.up(),
            (None, 'x') => self.delete(),
            (None, 'D' | 'C') => self.edit(TextArea::delete_line_by_end),
            (None, 'u') => self.edit(TextArea::undo),
            (None, 'a') => self.step(true),
            (None, 'o') => self.edit(|area| {
                area.move_cursor(To::End);
                area.insert_newline();
            }),
            (None, 'O') => self.edit(|area| {
                area.move_cursor(To::Head);
                area.insert_newline();
                area.move_cursor(To::Up);
            }),
            (None, c) => {
                let to = match c {
                    'w' => To::WordForward,
                    'b' => To::WordBack,
                    'e' => To::WordEnd,
                    '0' | '^' | 'I' => To::Head,
                    '$' | 'A' => To::End,
                    'G' => To::Bottom,
                    _ if c != 'i' => return,
                    _ => return self.vi = ViMode::Insert,
                };
                self.change(|area| area.move_cursor(to));
            }
        }
        if matches!(c, 'a' | 'A' | 'I' | 'o' | 'O' | 'C') || before == Some('c') {
            self.vi = ViMode::Insert;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::tui::tests::{loaded, type_keys};

    #[test]
    fn letters_move_and_change_until_they_write_again() {
        for (keys, text) in [
            ("one two three<esc>bx", "one two hree"),
            ("one two<esc>0dwix<esc>", "x two"),
            ("one two<esc>0wDi2", "one 2"),
            ("one two<esc>0cwX", "X two"),
            ("one<esc>otwo<esc>ggOzero", "zero\none\ntwo"),
            ("one<esc>otwo<esc>dd", "one"),
            ("one<esc>Itwo <esc>A!", "two one!"),
            ("abc<esc>hhxu", "abc"),
            ("abc<esc>qZ%x", "abc"),
            ("abc<esc>$hhax", "abxc"),
        ] {
            let mut state = loaded(80, 24);
            state.display.vi = true;
            type_keys(&mut state, keys);
            assert_eq!(state.input.text(), text, "{keys}");
        }
    }

    #[test]
    fn only_the_message_has_these_keys_and_only_if_they_are_wanted() {
        let mut state = loaded(80, 24);
        type_keys(&mut state, "one<esc>x");
        assert_eq!(state.input.text(), "onex");
        state.display.vi = true;
        type_keys(&mut state, "<esc>0x<enter>");
        assert_eq!(state.chat.turns()[0].text, "nex");
        assert!(state.answering());
        // The next message is written; in the other mode, Esc stops as always.
        type_keys(&mut state, "two<esc>");
        assert!(state.answering() && state.input.text() == "two");
        type_keys(&mut state, "<esc>");
        assert!(!state.answering());
    }
}
