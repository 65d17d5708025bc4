//! A key with its modifiers: as a terminal sends it, as people read it, as the settings write it.
//! Must never know what it does.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Keys with a name of their own: for people, and as the settings may write it.
const NAMED: [(KeyCode, &str, &[&str]); 16] = [
    (KeyCode::Char(' '), "Space", &["space"]),
    (KeyCode::Enter, "Enter", &["enter", "return"]),
    (KeyCode::Esc, "Esc", &["esc", "escape"]),
    (KeyCode::Tab, "Tab", &["tab"]),
    (KeyCode::BackTab, "Shift+Tab", &[]),
    (KeyCode::Up, "↑", &["up"]),
    (KeyCode::Down, "↓", &["down"]),
    (KeyCode::Left, "←", &["left"]),
    (KeyCode::Right, "→", &["right"]),
    (KeyCode::PageUp, "PgUp", &["pgup", "pageup"]),
    (KeyCode::PageDown, "PgDn", &["pgdn", "pagedown"]),
    (KeyCode::Home, "Home", &["home"]),
    (KeyCode::End, "End", &["end"]),
    (KeyCode::Delete, "Del", &["del", "delete"]),
    (KeyCode::Insert, "Ins", &["ins", "insert"]),
    (KeyCode::Backspace, "Backspace", &["backspace"]),
];

const MODIFIERS: [(KeyModifiers, &str); 3] = [
    (KeyModifiers::CONTROL, "Ctrl+"),
    (KeyModifiers::ALT, "Alt+"),
    (KeyModifiers::SHIFT, "Shift+"),
];

/// A key with its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPress {
    pub(super) code: KeyCode,
    pub(super) modifiers: KeyModifiers,
}

impl KeyPress {
    pub(super) fn matches(self, event: &KeyEvent) -> bool {
        let mut modifiers =
            event.modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SHIFT);
        // Shift is part of a character and of BackTab already.
        if matches!(event.code, KeyCode::Char(_) | KeyCode::BackTab) {
            modifiers -= KeyModifiers::SHIFT;
        }
        self.code == event.code && self.modifiers == modifiers
    }

    /// The event that the terminal sends for it.
    #[cfg(test)]
    pub fn event(self) -> KeyEvent {
        KeyEvent::new(self.code, self.modifiers)
    }

    /// For people.
    pub fn name(self) -> String {
        let named = NAMED.iter().find(|(code, ..)| *code == self.code);
        let code = match (named, self.code) {
            (Some((_, name, _)), _) => (*name).to_string(),
            (None, KeyCode::Char(c)) if self.modifiers.is_empty() => c.to_string(),
            (None, KeyCode::Char(c)) => c.to_ascii_uppercase().to_string(),
            (None, KeyCode::F(n)) => format!("F{n}"),
            (None, other) => format!("{other:?}"),
        };
        let held = MODIFIERS.iter().filter(|(modifier, ..)| self.modifiers.contains(*modifier));
        held.map(|(_, name)| *name).collect::<String>() + &code
    }

    /// Reads a key as the settings write it: `ctrl+x`, `alt+enter`, `shift+tab`, `f5`, `pgup`, `?`.
    ///
    /// # Errors
    /// Why it is none, with the remedy.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (modifiers, name) = modifiers(text.trim());
        let shift = modifiers.contains(KeyModifiers::SHIFT);
        let code = code(name).ok_or_else(|| {
            format!("\"{text}\" is not a key; write ctrl+x, alt+enter, shift+tab, f5, pgup or ?")
        })?;
        let chord = modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        match code {
            KeyCode::Tab if shift => {
                let modifiers = modifiers - KeyModifiers::SHIFT;
                Ok(Self { code: KeyCode::BackTab, modifiers })
            }
            KeyCode::Char(c) => {
                let control = modifiers.contains(KeyModifiers::CONTROL);
                if control && shift {
                    return Err(format!(
                        "terminals cannot tell \"{text}\" from the key without shift; leave it out"
                    ));
                }
                // Terminals send these for Tab, Enter and Esc.
                if control && let Some(same) = same_as(c) {
                    return Err(format!("in a terminal, \"{text}\" is {same}; choose another key"));
                }
                let c = match (shift, chord) {
                    (true, _) => c.to_ascii_uppercase(),
                    (false, true) => c.to_ascii_lowercase(),
                    (false, false) => c,
                };
                Ok(Self { code: KeyCode::Char(c), modifiers: modifiers - KeyModifiers::SHIFT })
            }
            code => Ok(Self { code, modifiers }),
        }
    }

    /// Whether it writes a character where text is written.
    pub(super) fn writes(self) -> bool {
        matches!(self.code, KeyCode::Char(_)) && self.modifiers.is_empty()
    }
}

fn same_as(c: char) -> Option<&'static str> {
    match c.to_ascii_lowercase() {
        'i' => Some("tab"),
        'm' => Some("enter"),
        '[' => Some("esc"),
        _ => None,
    }
}

fn modifiers(text: &str) -> (KeyModifiers, &str) {
    let mut found = KeyModifiers::NONE;
    let mut rest = text;
    while let Some((modifier, name)) = MODIFIERS.iter().find(|(_, name)| {
        rest.len() > name.len()
            && rest.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name))
    }) {
        found |= *modifier;
        rest = &rest[name.len()..];
    }
    (found, rest)
}

fn code(name: &str) -> Option<KeyCode> {
    let mut chars = name.chars();
    if let (Some(c), None) = (chars.next(), chars.next()) {
        return (!c.is_control() && c != ' ').then_some(KeyCode::Char(c));
    }
    let lower = name.to_ascii_lowercase();
    let function = lower.strip_prefix('f').and_then(|number| number.parse().ok());
    if let Some(number @ 1..=24) = function {
        return Some(KeyCode::F(number));
    }
    NAMED.iter().find(|(.., written)| written.contains(&lower.as_str())).map(|(code, ..)| *code)
}
