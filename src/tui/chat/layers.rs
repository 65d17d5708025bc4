//! What is drawn over the rows of the conversation: links, images, the selection and the scrollbar.
//! Must never know what a row says.

use unicode_width::UnicodeWidthStr;

use super::TurnPart;
use super::view::{ChatRow, Shows, before};
use crate::tui::display::Focus;
use crate::tui::draw::{Frame, Modifier, Rect, Styles, focused};
use crate::tui::markdown::{Link, text_of};
use crate::tui::pictures::PicturePlace;
use crate::tui::state::ScreenState;

/// The places of links on the screen, as last drawn, and where each leads; none below a box.
pub(crate) fn links(state: &ScreenState) -> Vec<(Rect, String)> {
    let mut found = Vec::new();
    let seen = &state.chat.seen;
    for (line, row) in seen.area.rows().zip(&seen.rows).filter(|_| is_free(state)) {
        let Some(said) =
            state.chat.turns().get(row.turn).filter(|said| !said.document.links().is_empty())
        else {
            continue;
        };
        let Shows::Row(TurnPart::Text, at) = row.shows else { continue };
        let mut x = line.x + before(TurnPart::Text);
        for piece in said.rows_of(TurnPart::Text).get(at).into_iter().flatten() {
            let width = piece.text.width() as u16;
            let is_here = |link: &&Link| piece.at.is_some_and(|at| link.bytes.contains(&at));
            if let Some(link) = said.document.links().iter().find(is_here) {
                let place = Rect { x, width, ..line }.intersection(line);
                found.push((place, link.to.clone()));
            }
            x = x.saturating_add(width);
        }
    }
    found
}

/// Whether nothing lies over the conversation.
fn is_free(state: &ScreenState) -> bool {
    state.overlays.open.is_none() && state.input.offered().is_empty()
}

/// Draws the images in these rows, and has those read that are not known; `places`: where they were
/// in the frame before.
pub(super) fn draw_pictures(
    frame: &mut Frame<'_>,
    area: Rect,
    seen: &[ChatRow],
    places: &[PicturePlace],
    state: &mut ScreenState,
) {
    let free = is_free(state);
    let ScreenState { chat, pictures, .. } = state;
    for (row, at) in seen.iter().zip(0..) {
        let said = &chat.turns[row.turn];
        match row.shows {
            Shows::Row(TurnPart::Text, text) => {
                said.document.images(text).iter().for_each(|path| pictures.want(path));
            }
            Shows::Picture(text, image, row) if free => {
                let picture =
                    said.document.images(text).get(image).and_then(|path| pictures.get(path));
                let left = before(TurnPart::Text).min(area.width);
                let (x, y) = (area.x + left, area.y + at);
                let place = Rect::new(x, y, area.width - left, area.height - at);
                let scaled = picture.and_then(|picture| picture.scaled.as_ref());
                let drawn = scaled.and_then(|it| it.draw(row, place, places, frame.buffer_mut()));
                pictures.places.extend(drawn);
            }
            _ => {}
        }
    }
}

/// What is selected with the mouse stands out.
pub(super) fn draw_selection(frame: &mut Frame<'_>, state: &ScreenState) {
    let Some(selection) = state.chat.selection else { return };
    let seen = &state.chat.seen;
    for (line, row) in seen.area.rows().zip(&seen.rows) {
        let Shows::Row(part, at) = row.shows else { continue };
        let Some((from, to)) = selection.columns(row.turn, (part, at)) else { continue };
        let text = state.chat.turns().get(row.turn).and_then(|said| said.rows_of(part).get(at));
        let width = text.map_or(0, |text| text_of(text).width());
        let x = line.x + before(part) + from.min(width) as u16;
        let width = to.min(width).saturating_sub(from) as u16;
        let part = Rect { x, width, ..line };
        frame.buffer_mut().set_style(part.intersection(line), Modifier::REVERSED);
    }
}

/// Where the rows that are seen are among all, and how many are below.
pub(super) fn scrollbar(frame: &mut Frame<'_>, area: Rect, state: &ScreenState, styles: &Styles) {
    let (all, fit) = state.chat.extent;
    if all <= fit || area.width < 4 {
        return;
    }
    let below = state.chat.below();
    let thumb = (fit * fit / all).max(1);
    let at = (fit - thumb) * (all - fit - below) / (all - fit);
    let style = if focused(state, Focus::Chat) { styles.accent } else { styles.faint };
    let buffer = frame.buffer_mut();
    for row in area.rows().skip(at).take(thumb) {
        buffer.set_string(area.right() - 1, row.y, "▐", style);
    }
    let words = format!(" ↓ {below} more ");
    let columns = words.width() as u16;
    if below > 0 && area.width > columns + 4 {
        buffer.set_string(area.right() - columns - 2, area.bottom() - 1, words, styles.selected);
    }
}
