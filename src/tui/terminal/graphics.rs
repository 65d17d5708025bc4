//! Whether the terminal shows images. Must never know which.

use crate::tui::pictures::{Graphics, Protocol};

/// Width and height of a cell in pixels; `None` if the terminal does not say.
pub fn cell_size() -> Option<(u16, u16)> {
    let size = crossterm::terminal::window_size().ok()?;
    let cell = (size.width.checked_div(size.columns)?, size.height.checked_div(size.rows)?);
    (cell.0 > 0 && cell.1 > 0).then_some(cell)
}

/// How a terminal of this name and with these attributes shows images, if it does. Several answer
/// to kitty's protocol without its cells that stand for images, so the names of those that have
/// them count; Konsole leaves parts of sixels on the screen.
pub fn shown_by(name: &str, attributes: &[u16]) -> Option<Graphics> {
    Some(Graphics { protocol: protocol(name, attributes)?, cell: cell_size()? })
}

fn protocol(name: &str, attributes: &[u16]) -> Option<Protocol> {
    /// The attribute of a terminal that shows sixels.
    const SIXEL: u16 = 4;
    let name = name.to_ascii_lowercase();
    if ["kitty", "ghostty"].iter().any(|known| name.starts_with(known)) {
        return Some(Protocol::Kitty);
    }
    // The first is the class of the terminal.
    let is_sixel = attributes.iter().skip(1).any(|attribute| *attribute == SIXEL);
    (is_sixel && !name.starts_with("konsole")).then_some(Protocol::Sixel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_that_show_images_are_told_apart() {
        for (name, attributes, expected) in [
            ("kitty(0.43.1)", &[62, 52][..], Some(Protocol::Kitty)),
            ("ghostty 1.2.0", &[62, 22, 52], Some(Protocol::Kitty)),
            ("foot(1.23.0)", &[62, 4, 22, 28, 52], Some(Protocol::Sixel)),
            ("", &[63, 1, 2, 4, 6], Some(Protocol::Sixel)),
            ("Konsole 25.08", &[62, 1, 4], None),
            ("tmux 3.5a", &[1, 2], None),
            ("", &[4, 6], None),
            ("", &[], None),
        ] {
            assert_eq!(protocol(name, attributes), expected, "{name} {attributes:?}");
        }
    }
}
