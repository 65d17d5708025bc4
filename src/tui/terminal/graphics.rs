//! Asks the terminal whether it shows images. Must never know what it shows.

use std::io;
use std::time::Duration;

use crate::tui::pictures::{Graphics, Protocol};

/// Asks for the terminal's name (XTVERSION) and its attributes (DA1), which every terminal answers
/// last. The answer takes `limit` at most.
pub(super) fn ask(limit: Duration) -> Option<Graphics> {
    let cell = cell_size()?;
    crossterm::terminal::enable_raw_mode().ok()?;
    let answer = answer(limit, ends);
    let _ = crossterm::terminal::disable_raw_mode();
    Some(Graphics { protocol: protocol(&answer.ok()?)?, cell })
}

/// Width and height of a cell in pixels; `None` if the terminal does not say.
pub fn cell_size() -> Option<(u16, u16)> {
    let size = crossterm::terminal::window_size().ok()?;
    let cell = (size.width.checked_div(size.columns)?, size.height.checked_div(size.rows)?);
    (cell.0 > 0 && cell.1 > 0).then_some(cell)
}

/// What the terminal answers until `ends`.
#[cfg(unix)]
fn answer(limit: Duration, ends: fn(&str) -> bool) -> io::Result<String> {
    use std::io::{Write as _, stdin, stdout};
    use std::time::Instant;

    use rustix::event::PollFlags;

    use super::keys::poll_input;

    let began = Instant::now();
    let mut out = stdout().lock();
    out.write_all(b"\x1b[>q\x1b[c")?;
    out.flush()?;
    let mut answer = String::new();
    while !ends(&answer) {
        let left = limit.saturating_sub(began.elapsed());
        if poll_input(PollFlags::IN, Some(left))?.is_empty() {
            break;
        }
        let mut bytes = [0; 256];
        match rustix::io::read(stdin(), &mut bytes)? {
            0 => break,
            read => answer.push_str(&String::from_utf8_lossy(&bytes[..read])),
        }
    }
    Ok(answer)
}

#[cfg(not(unix))]
fn answer(_: Duration, _: fn(&str) -> bool) -> io::Result<String> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The attributes in an answer, as far as they have come.
fn attributes(answer: &str) -> Option<&str> {
    answer.split_once("\x1b[?").map(|(_, attributes)| attributes)
}

fn ends(answer: &str) -> bool {
    attributes(answer).is_some_and(|attributes| attributes.contains('c'))
}

/// How the terminal shows images. Several answer to kitty's protocol without its cells that stand
/// for images, so the names of those that have them count; Konsole leaves parts of sixels on the
/// screen.
fn protocol(answer: &str) -> Option<Protocol> {
    let name = answer.split_once("\x1bP>|").map_or("", |(_, name)| name).to_ascii_lowercase();
    if ["kitty", "ghostty"].iter().any(|known| name.starts_with(known)) {
        return Some(Protocol::Kitty);
    }
    let (attributes, _) = attributes(answer)?.split_once('c')?;
    let is_sixel = attributes.split(';').skip(1).any(|attribute| attribute == "4");
    (is_sixel && !name.starts_with("konsole")).then_some(Protocol::Sixel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_of_terminals_are_told_apart() {
        for (answer, expected) in [
            ("\x1bP>|kitty(0.43.1)\x1b\\\x1b[?62;52c", Some(Protocol::Kitty)),
            ("\x1bP>|ghostty 1.2.0\x1b\\\x1b[?62;22;52c", Some(Protocol::Kitty)),
            ("\x1bP>|foot(1.23.0)\x1b\\\x1b[?62;4;22;28;52c", Some(Protocol::Sixel)),
            ("\x1b[?63;1;2;4;6c", Some(Protocol::Sixel)),
            ("\x1bP>|Konsole 25.08\x1b\\\x1b[?62;1;4c", None),
            ("\x1bP>|tmux 3.5a\x1b\\\x1b[?1;2c", None),
            // The class of the terminal is not one of its attributes.
            ("\x1b[?4;6c", None),
            ("\x1b[?6", None),
            ("", None),
        ] {
            assert_eq!(protocol(answer), expected, "{answer:?}");
            assert_eq!(ends(answer), answer.ends_with('c'), "{answer:?}");
        }
    }
}
