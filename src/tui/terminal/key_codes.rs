//! Keys and the mouse by the numbers and letters that terminals send for them: xterm's, rxvt's,
//! kitty's. Must never know where a sequence begins and ends.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

/// A byte of ASCII as the key that sends it.
pub(super) fn ascii(byte: u8) -> KeyEvent {
    let control = |c: u8| KeyEvent::new(KeyCode::Char(c.into()), KeyModifiers::CONTROL);
    match byte {
        b'\r' => KeyCode::Enter.into(),
        b'\t' => KeyCode::Tab.into(),
        0x7f => KeyCode::Backspace.into(),
        0 => control(b' '),
        0x01..=0x1a => control(byte - 1 + b'a'),
        0x1b => KeyCode::Esc.into(),
        0x1c..=0x1f => control(byte - 0x1c + b'4'),
        b'A'..=b'Z' => KeyEvent::new(KeyCode::Char(byte.into()), KeyModifiers::SHIFT),
        _ => KeyCode::Char(byte.into()).into(),
    }
}

pub(super) fn modifiers(parameter: u32) -> KeyModifiers {
    const BITS: [KeyModifiers; 6] = [
        KeyModifiers::SHIFT,
        KeyModifiers::ALT,
        KeyModifiers::CONTROL,
        KeyModifiers::SUPER,
        KeyModifiers::HYPER,
        KeyModifiers::META,
    ];
    let bits = parameter.saturating_sub(1);
    let held = BITS.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
    held.fold(KeyModifiers::NONE, |all, (_, one)| all | *one)
}

/// The key of a sequence that ends in a letter.
pub(super) fn letter(last: u8) -> Option<KeyCode> {
    Some(match last {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'E' => KeyCode::KeypadBegin,
        b'F' => KeyCode::End,
        b'H' => KeyCode::Home,
        b'P'..=b'S' => KeyCode::F(last - b'P' + 1),
        b'Z' => KeyCode::BackTab,
        _ => return None,
    })
}

/// The key of a sequence that ends in `~`.
pub(super) fn numbered(number: u32) -> Option<KeyCode> {
    Some(match number {
        1 | 7 => KeyCode::Home,
        2 => KeyCode::Insert,
        3 => KeyCode::Delete,
        4 | 8 => KeyCode::End,
        5 => KeyCode::PageUp,
        6 => KeyCode::PageDown,
        11..=15 => KeyCode::F(number as u8 - 10),
        17..=21 => KeyCode::F(number as u8 - 11),
        23..=26 => KeyCode::F(number as u8 - 12),
        28 | 29 => KeyCode::F(number as u8 - 13),
        31..=34 => KeyCode::F(number as u8 - 14),
        _ => return None,
    })
}

/// The key of this code point, as kitty's protocol and xterm's modifyOtherKeys number keys.
fn coded(code: u32) -> Option<KeyCode> {
    /// kitty's numbers of the keypad from 57409.
    const KEYPAD: [KeyCode; 19] = [
        KeyCode::Char('.'),
        KeyCode::Char('/'),
        KeyCode::Char('*'),
        KeyCode::Char('-'),
        KeyCode::Char('+'),
        KeyCode::Enter,
        KeyCode::Char('='),
        KeyCode::Char(','),
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::PageUp,
        KeyCode::PageDown,
        KeyCode::Home,
        KeyCode::End,
        KeyCode::Insert,
        KeyCode::Delete,
        KeyCode::KeypadBegin,
    ];
    Some(match code {
        8 | 127 => KeyCode::Backspace,
        9 => KeyCode::Tab,
        13 => KeyCode::Enter,
        27 => KeyCode::Esc,
        57376..=57398 => KeyCode::F((code - 57376) as u8 + 13),
        57399..=57408 => KeyCode::Char(char::from(b'0' + (code - 57399) as u8)),
        57409..=57427 => KEYPAD[(code - 57409) as usize],
        57344..=63743 => return None,
        _ => KeyCode::Char(char::from_u32(code).filter(|c| !c.is_control())?),
    })
}

/// A key by its code points, (as it is, with Shift, at its place on the keyboard).
pub(super) fn coded_key(codes: &[Option<u32>], held: KeyModifiers) -> Option<KeyEvent> {
    let at = |place: usize| codes.get(place).copied().flatten();
    let (shift, ctrl) = (KeyModifiers::SHIFT, KeyModifiers::CONTROL);
    let code = match coded(at(0)?)? {
        KeyCode::Tab if held.contains(shift) => KeyCode::BackTab,
        KeyCode::Char(c) => {
            let base = at(2).and_then(char::from_u32).filter(|_| !c.is_ascii());
            let shifted = at(1).and_then(char::from_u32).or((c == '-').then_some('_'));
            let c = match (base, shifted) {
                // Letters of another alphabet are what they are on a Latin keyboard.
                (Some(base), _) if held.intersects(ctrl | KeyModifiers::ALT) => base,
                (_, Some(shifted))
                    if held.contains(shift) && !(held.contains(ctrl) && c.is_alphabetic()) =>
                {
                    shifted
                }
                _ => c,
            };
            KeyCode::Char(c)
        }
        code => code,
    };
    Some(KeyEvent::new(code, held))
}

/// A report of the mouse (SGR).
pub(super) fn mouse(report: &str, last: u8) -> Option<MouseEvent> {
    let mut numbers = report.split(';').map(|number| number.parse::<u16>().ok());
    let (bits, column, row) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let button = match bits & 3 {
        0 => MouseButton::Left,
        1 => MouseButton::Middle,
        _ => MouseButton::Right,
    };
    let kind = match (bits & 0b1100_0011, bits & 32 != 0) {
        (64, _) => MouseEventKind::ScrollUp,
        (65, _) => MouseEventKind::ScrollDown,
        (0..=2, _) if last == b'm' => MouseEventKind::Up(button),
        (0..=2, true) => MouseEventKind::Drag(button),
        (0..=2, false) => MouseEventKind::Down(button),
        (3, true) => MouseEventKind::Moved,
        _ => return None,
    };
    let held = [(4, KeyModifiers::SHIFT), (8, KeyModifiers::ALT), (16, KeyModifiers::CONTROL)];
    let held = held.into_iter().filter(|(bit, _)| bits & bit != 0);
    Some(MouseEvent {
        kind,
        column: column.saturating_sub(1),
        row: row.saturating_sub(1),
        modifiers: held.fold(KeyModifiers::NONE, |all, (_, one)| all | one),
    })
}
