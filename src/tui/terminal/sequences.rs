//! The terminal's bytes as what they stand for: keys, pastes, the mouse, and its answers to our
//! questions, which may come at any time and cut anywhere. Whatever has the form of an answer (OSC,
//! DCS, APC, the reports among CSI) is never taken for something typed. Must never read or know the
//! time: the caller says when the rest of a sequence did not come.
//!
//! crossterm's own parser takes an answer that it does not know, or that is cut, for keys; it stays
//! in use on Windows, where the system reports keys and not bytes.

use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::key_codes::{ascii, coded_key, letter, modifiers, mouse, numbered};

/// Longest wait for what follows Esc, if it is not a key of its own.
const ESCAPE: Duration = Duration::from_millis(50);
/// The same while answers are due, which a slow line may cut after their first byte.
const ESCAPE_OF_ANSWER: Duration = Duration::from_millis(500);
/// Longest wait for the rest of an answer.
const REST: Duration = Duration::from_secs(2);
/// Longest silence within a paste.
const PASTE: Duration = Duration::from_secs(5);
/// Longest answer in bytes; the rest of a longer one is dropped.
const LONGEST: usize = 4096;
/// What ends a paste.
const PASTE_END: &[u8] = b"\x1b[201~";

/// What the terminal answers to our questions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Its background (OSC 11): whether that is light.
    Background { light: bool },
    /// Its name and version (XTVERSION).
    Name(String),
    /// Its attributes (DA1), which every terminal answers, and last.
    Attributes(Vec<u16>),
}

/// What comes from the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    Event(Event),
    Answer(Answer),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Text, and a character of several bytes that has begun.
    #[default]
    Text,
    Escape,
    /// After `ESC [`.
    Csi,
    /// After `ESC O`.
    Ss3,
    /// After `ESC ]`, `ESC P` and the like, up to BEL or ST.
    String(u8),
    /// In such a string after an Esc.
    StringEscape(u8),
    Paste,
    /// So many bytes of a mouse report in the oldest form are left.
    Skip(u8),
}

/// Cuts the terminal's bytes into what they stand for.
#[derive(Debug, Default)]
pub(super) struct InputParser {
    state: State,
    /// The bytes of what has begun, without what introduced it.
    begun: Vec<u8>,
    /// Whether an Esc came right before the sequence: a key of its own, or Alt.
    escaped: bool,
    /// Whether the character that has begun is typed with Alt.
    alt: bool,
    /// Whether answers to our questions are due.
    pub answers_due: bool,
    out: Vec<Received>,
}

impl InputParser {
    /// Takes bytes in; what they complete.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Received> {
        for byte in bytes {
            self.byte(*byte);
        }
        std::mem::take(&mut self.out)
    }

    /// How long to wait for the rest of what has begun, from its latest byte.
    pub(super) fn patience(&self) -> Option<Duration> {
        let escape = if self.answers_due { ESCAPE_OF_ANSWER } else { ESCAPE };
        match self.state {
            State::Text => (!self.begun.is_empty()).then_some(ESCAPE),
            State::Escape => Some(escape),
            State::Csi | State::Ss3 | State::String(_) if self.begun.is_empty() => Some(escape),
            State::String(kind) if !is_answer(kind, &self.begun) => Some(escape),
            State::Csi | State::Ss3 | State::String(_) | State::StringEscape(_) => Some(REST),
            State::Skip(_) => Some(ESCAPE),
            State::Paste => Some(PASTE),
        }
    }

    /// The rest did not come: half a sequence is a key if a person could have typed it.
    pub(super) fn give_up(&mut self) -> Vec<Received> {
        let begun = std::mem::take(&mut self.begun);
        match std::mem::take(&mut self.state) {
            State::Paste => self.paste(&begun),
            State::Escape => self.key(KeyCode::Esc.into()),
            State::Csi if begun.is_empty() => self.alt_key(b'['),
            State::Ss3 if begun.is_empty() => self.alt_key(b'O'),
            State::String(kind) if !is_answer(kind, &begun) => {
                self.alt_key(kind);
                begun.iter().for_each(|byte| self.byte(*byte));
            }
            // Half an answer, or half a character.
            _ => {}
        }
        (self.escaped, self.alt) = (false, false);
        std::mem::take(&mut self.out)
    }

    fn byte(&mut self, byte: u8) {
        match self.state {
            State::Text => self.text(byte),
            State::Escape => self.escape(byte),
            State::Csi => self.csi_byte(byte),
            State::Ss3 => match byte {
                b'0'..=b'9' | b';' => self.begun.push(byte),
                _ => self.ss3(byte),
            },
            State::String(kind) => match byte {
                0x07 => self.string(kind),
                0x1b => self.state = State::StringEscape(kind),
                // CAN and SUB end every sequence, and Enter is in no answer.
                0x18 | 0x1a | b'\r' => {
                    self.drop_begun();
                    self.byte(byte);
                }
                _ if self.begun.len() < LONGEST => self.begun.push(byte),
                _ => {}
            },
            State::StringEscape(kind) if byte == b'\\' => self.string(kind),
            State::StringEscape(_) => {
                self.drop_begun();
                self.state = State::Escape;
                self.byte(byte);
            }
            State::Paste => {
                self.begun.push(byte);
                if byte == b'~' && self.begun.ends_with(PASTE_END) {
                    self.state = State::Text;
                    let begun = std::mem::take(&mut self.begun);
                    self.paste(&begun[..begun.len() - PASTE_END.len()]);
                }
            }
            State::Skip(1) => self.state = State::Text,
            State::Skip(left) => self.state = State::Skip(left - 1),
        }
    }

    fn drop_begun(&mut self) {
        self.begun.clear();
        (self.state, self.escaped, self.alt) = (State::Text, false, false);
    }

    fn text(&mut self, byte: u8) {
        if byte.is_ascii() {
            // Half a character before it is none.
            self.begun.clear();
            return match byte {
                0x1b => self.state = State::Escape,
                _ => self.key(ascii(byte)),
            };
        }
        self.begun.push(byte);
        match std::str::from_utf8(&self.begun) {
            Ok(text) => {
                let key = text.chars().next().map(|c| KeyEvent::from(KeyCode::Char(c)));
                self.begun.clear();
                key.into_iter().for_each(|key| self.key(key));
            }
            Err(error) if error.error_len().is_none() => {}
            Err(_) => {
                let alone = self.begun.len() == 1;
                self.begun.clear();
                if !alone {
                    self.text(byte);
                }
            }
        }
    }

    fn escape(&mut self, byte: u8) {
        match byte {
            b'[' => self.state = State::Csi,
            b'O' => self.state = State::Ss3,
            b']' | b'P' | b'X' | b'^' | b'_' => self.state = State::String(byte),
            0x1b => {
                self.escape_before();
                self.escaped = true;
            }
            _ => {
                self.escape_before();
                (self.state, self.alt) = (State::Text, true);
                self.text(byte);
            }
        }
    }

    fn csi_byte(&mut self, byte: u8) {
        match byte {
            // The function keys of Linux's console: `ESC [ [ A`.
            b'[' if self.begun.is_empty() => self.begun.push(byte),
            0x20..=0x3f if self.begun.len() < LONGEST => self.begun.push(byte),
            0x40..=0x7e => {
                self.state = State::Text;
                let begun = std::mem::take(&mut self.begun);
                let body = String::from_utf8_lossy(&begun);
                match (&*body, byte) {
                    ("200", b'~') => self.state = State::Paste,
                    ("", b'M') => self.state = State::Skip(3),
                    _ => match csi(&body, byte) {
                        Some(Received::Event(Event::Key(key))) => self.sequence(key),
                        received => {
                            self.escape_before();
                            self.out.extend(received);
                        }
                    },
                }
                self.escape_before();
            }
            // It was cut: what comes now is something else.
            _ => {
                self.drop_begun();
                self.byte(byte);
            }
        }
    }

    fn ss3(&mut self, byte: u8) {
        let begun = std::mem::take(&mut self.begun);
        let held = modifiers(last_number(&begun).unwrap_or(1));
        self.state = State::Text;
        let code = match byte {
            b'A'..=b'F' | b'H' | b'P'..=b'S' => letter(byte),
            b'M' => Some(KeyCode::Enter),
            b'X' => Some(KeyCode::Char('=')),
            // The keypad: `j` is `*`, `p` is `0`.
            b'j'..=b'y' => Some(KeyCode::Char(char::from(byte - 0x40))),
            b'a'..=b'd' => {
                let code = letter(byte.to_ascii_uppercase());
                return code.into_iter().for_each(|code| {
                    self.sequence(KeyEvent::new(code, KeyModifiers::CONTROL));
                });
            }
            _ => None,
        };
        match code {
            Some(code) => self.sequence(KeyEvent::new(code, held)),
            None => {
                self.alt_key(b'O');
                self.byte(byte);
            }
        }
    }

    /// The end of a string: an answer, or nothing of ours.
    fn string(&mut self, kind: u8) {
        self.state = State::Text;
        let begun = std::mem::take(&mut self.begun);
        let body = String::from_utf8_lossy(&begun);
        self.escape_before();
        let answer = match kind {
            b']' => body
                .strip_prefix("11;")
                .and_then(is_light)
                .map(|light| Answer::Background { light }),
            b'P' => body.strip_prefix(">|").map(|name| Answer::Name(name.to_string())),
            _ => None,
        };
        self.out.extend(answer.map(Received::Answer));
    }

    fn paste(&mut self, bytes: &[u8]) {
        self.event(Event::Paste(String::from_utf8_lossy(bytes).into_owned()));
    }

    /// An Esc before something that is not a key was a key of its own.
    fn escape_before(&mut self) {
        if std::mem::take(&mut self.escaped) {
            self.event(Event::Key(KeyCode::Esc.into()));
        }
    }

    /// A key as a sequence: an Esc before it is Alt.
    fn sequence(&mut self, mut key: KeyEvent) {
        if std::mem::take(&mut self.escaped) {
            key.modifiers |= KeyModifiers::ALT;
        }
        self.event(Event::Key(key));
    }

    fn alt_key(&mut self, byte: u8) {
        self.alt = true;
        self.key(ascii(byte));
    }

    fn key(&mut self, mut key: KeyEvent) {
        self.escape_before();
        if std::mem::take(&mut self.alt) {
            key.modifiers |= KeyModifiers::ALT;
        }
        self.event(Event::Key(key));
    }

    fn event(&mut self, event: Event) {
        self.out.push(Received::Event(event));
    }
}

/// Whether this is how an answer begins, rather than what follows a key that is typed with Alt.
fn is_answer(kind: u8, begun: &[u8]) -> bool {
    let first = begun.first().copied().unwrap_or_default();
    match kind {
        b']' => first.is_ascii_digit() || b"lL".contains(&first),
        b'P' => first.is_ascii_digit() || b">!$+=|?".contains(&first),
        _ => first == b'G',
    }
}

fn last_number(parameters: &[u8]) -> Option<u32> {
    std::str::from_utf8(parameters).ok()?.rsplit(';').next()?.parse().ok()
}

/// What a CSI sequence stands for; `None` for reports and what is not known.
fn csi(body: &str, last: u8) -> Option<Received> {
    if let Some(report) = body.strip_prefix('<') {
        return mouse(report, last).map(|event| Received::Event(Event::Mouse(event)));
    }
    if let ("?", b'c') = (body.get(..1).unwrap_or_default(), last) {
        let attributes =
            body[1..].split(';').filter_map(|number| number.parse::<u16>().ok()).collect();
        return Some(Received::Answer(Answer::Attributes(attributes)));
    }
    if body == "[" {
        return (b'A'..=b'E')
            .contains(&last)
            .then(|| Received::Event(Event::Key(KeyCode::F(last - b'A' + 1).into())));
    }
    if !body.bytes().all(|byte| matches!(byte, b'0'..=b';')) {
        return None;
    }
    let parameters: Vec<Vec<Option<u32>>> = body
        .split(';')
        .map(|parts| parts.split(':').map(|number| number.parse().ok()).collect())
        .collect();
    let at = |place: usize, part: usize| parameters.get(place)?.get(part).copied().flatten();
    let held = modifiers(at(1, 0).unwrap_or(1));
    let key = |code: KeyCode| KeyEvent::new(code, held);
    let mut event = match last {
        b'I' => return Some(Received::Event(Event::FocusGained)),
        b'O' => return Some(Received::Event(Event::FocusLost)),
        // The place of the cursor, unless it is that of F3 with modifiers.
        b'R' if at(0, 0).is_some_and(|row| row != 1) => return None,
        b'u' => coded_key(parameters.first()?, held)?,
        b'~' if at(0, 0) == Some(27) => coded_key(parameters.get(2)?, held)?,
        b'~' => key(numbered(at(0, 0)?)?),
        // rxvt's Ctrl, its Ctrl and Shift, and its arrows with Shift.
        b'^' => KeyEvent::new(numbered(at(0, 0)?)?, KeyModifiers::CONTROL),
        b'@' => KeyEvent::new(numbered(at(0, 0)?)?, KeyModifiers::CONTROL | KeyModifiers::SHIFT),
        b'a'..=b'd' if body.is_empty() => {
            KeyEvent::new(letter(last.to_ascii_uppercase())?, KeyModifiers::SHIFT)
        }
        _ => key(letter(last)?),
    };
    event.kind = match at(1, 1) {
        Some(2) => KeyEventKind::Repeat,
        Some(3) => KeyEventKind::Release,
        _ => KeyEventKind::Press,
    };
    Some(Received::Event(Event::Key(event)))
}

/// Whether a colour (`rgb:1e1e/1e1e/1e1e`, `#1e1e1e`) is rather light than dark.
fn is_light(colour: &str) -> Option<bool> {
    /// Brightness of the grey that looks halfway between black and white.
    const MIDDLE: f32 = 0.466;
    let parts: Vec<&str> = match colour.strip_prefix('#') {
        Some(hex) => {
            let digits = hex.len() / 3;
            (0..3).map(|i| hex.get(i * digits..(i + 1) * digits)).collect::<Option<_>>()?
        }
        None => colour.split_once(':')?.1.split('/').collect(),
    };
    let [red, green, blue, ..] = parts[..] else { return None };
    let share = |digits: &str| {
        let most = 16_f32.powi(i32::try_from(digits.len()).ok().filter(|n| *n > 0)?) - 1.0;
        Some(u32::from_str_radix(digits, 16).ok()? as f32 / most)
    };
    Some(0.2126 * share(red)? + 0.7152 * share(green)? + 0.0722 * share(blue)? > MIDDLE)
}

#[cfg(test)]
#[path = "sequences_tests.rs"]
mod tests;
