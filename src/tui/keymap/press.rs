//! A key with its modifiers: as a terminal sends it, as people read it, as the settings write it.
//! Must never know what it does.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

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
        let code = match self.code {
            KeyCode::Char(' ') => "Space".to_string(),
            KeyCode::Char(c) if self.modifiers.is_empty() => c.to_string(),
            KeyCode::Char(c) => c.to_ascii_uppercase().to_string(),
            KeyCode::F(n) => format!("F{n}"),
            KeyCode::Enter => "Enter".to_string(),
            KeyCode::Esc => "Esc".to_string(),
            KeyCode::Tab => "Tab".to_string(),
            KeyCode::BackTab => "Shift+Tab".to_string(),
            KeyCode::Up => "↑".to_string(),
            KeyCode::Down => "↓".to_string(),
            KeyCode::Left => "←".to_string(),
            KeyCode::Right => "→".to_string(),
            KeyCode::PageUp => "PgUp".to_string(),
            KeyCode::PageDown => "PgDn".to_string(),
            KeyCode::Home => "Home".to_string(),
            KeyCode::End => "End".to_string(),
            KeyCode::Delete => "Del".to_string(),
            KeyCode::Insert => "Ins".to_string(),
            other => format!("{other:?}"),
        };
        let mut name = String::new();
        if self.modifiers.contains(KeyModifiers::CONTROL) {
            name.push_str("Ctrl+");
        }
        if self.modifiers.contains(KeyModifiers::ALT) {
            name.push_str("Alt+");
        }
        if self.modifiers.contains(KeyModifiers::SHIFT) {
            name.push_str("Shift+");
        }
        name + &code
    }
}

impl KeyPress {
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
    const NAMES: [(&str, KeyModifiers); 3] = [
        ("ctrl+", KeyModifiers::CONTROL),
        ("alt+", KeyModifiers::ALT),
        ("shift+", KeyModifiers::SHIFT),
    ];
    let mut found = KeyModifiers::NONE;
    let mut rest = text;
    while let Some((name, modifier)) = NAMES.iter().find(|(name, _)| {
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
    Some(match lower.as_str() {
        "enter" | "return" => KeyCode::Enter,
        "esc" | "escape" => KeyCode::Esc,
        "tab" => KeyCode::Tab,
        "space" => KeyCode::Char(' '),
        "up" => KeyCode::Up,
        "down" => KeyCode::Down,
        "left" => KeyCode::Left,
        "right" => KeyCode::Right,
        "home" => KeyCode::Home,
        "end" => KeyCode::End,
        "pgup" | "pageup" => KeyCode::PageUp,
        "pgdn" | "pagedown" => KeyCode::PageDown,
        "ins" | "insert" => KeyCode::Insert,
        "del" | "delete" => KeyCode::Delete,
        "backspace" => KeyCode::Backspace,
        _ => return None,
    })
}
