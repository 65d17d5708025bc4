//! The list of models to choose from. Must never know how they are found.

use super::{ModelPicker, ModelRow};
use crate::printable::printable_line;
use crate::tui::actions::ModelPart;
use crate::tui::draw::{Line, Span, Styles, ends, figures};
use crate::tui::overlays::page::Page;
use crate::tui::state::ScreenState;
use crate::worker::MemoryFit;

pub(crate) fn page(
    state: &ScreenState,
    picker: &ModelPicker,
    columns: u16,
    styles: &Styles,
) -> Page {
    let take = state.display.keys.take();
    let title = match picker.part {
        ModelPart::Target => "models",
        ModelPart::Draft => "drafts for this target: the text stays the same",
    };
    let none = match (picker.searching, picker.part) {
        (true, _) => "Looking for models on this machine …".to_string(),
        (false, ModelPart::Target) => {
            format!("No match: {take} takes what you typed as a path or hub id")
        }
        (false, ModelPart::Draft) => "No draft matches these words".to_string(),
    };
    let downloads = picker.list.chosen().is_some_and(|row| row.download);
    let does = if downloads { "download" } else { "load" };
    let foot = vec![
        "~ estimated, plain–drafted".to_string(),
        format!("{take} {does}"),
        format!("{} close", state.display.keys.close()),
    ];
    let page = picker.list.page(&none, columns, styles, |row| line(row, columns, styles));
    Page { title: title.to_string(), foot, ..page }
}

fn line(row: &ModelRow, width: u16, styles: &Styles) -> Line<'static> {
    let mark = match (row.in_use, row.download) {
        (true, _) => "● ",
        (_, true) => "↓ ",
        _ => "  ",
    };
    let can = row.refused.is_none() && row.fit != MemoryFit::TooLarge;
    let name = if can { styles.text } else { styles.faint };
    let left = Line::from_iter([
        Span::styled(mark, styles.accent),
        Span::styled(printable_line(&row.title).into_owned(), name),
    ]);
    let fit = match (&row.refused, row.fit) {
        (None, _) if row.download => "download",
        (_, MemoryFit::TooLarge) => "too large",
        (Some(_), _) => "cannot be opened",
        (None, MemoryFit::Tight) => "fits alone",
        (None, MemoryFit::Fits | MemoryFit::Unknown) => "fits",
    };
    let about = if row.download { "~" } else { "" };
    let style = if can { styles.dim } else { styles.faint };
    let bytes = (row.bytes > 0).then(|| format!("{about}{}", figures::bytes(row.bytes)));
    let told = |name: &&str| row.title.to_lowercase().contains(&name.to_lowercase());
    let quantisation = row.quantisation.as_deref().filter(|name| !told(name));
    let quantisation = quantisation.map(|name| printable_line(name).into_owned());
    let speed = if can { row.speed.clone() } else { String::new() };
    let mut parts = [
        row.parameters.map(figures::count).unwrap_or_default(),
        quantisation.unwrap_or_default(),
        bytes.unwrap_or_default(),
        row.place.clone(),
        fit.to_string(),
        speed,
    ];
    let joined = |parts: &[String]| {
        let told: Vec<&str> = parts.iter().map(String::as_str).filter(|p| !p.is_empty()).collect();
        Line::styled(told.join(" · "), style)
    };
    // Where there is no room for all, the name comes before the place and the number of weights.
    for left_out in [3, 0, 1] {
        if left.width() + 1 + joined(&parts).width() <= usize::from(width) {
            break;
        }
        parts[left_out].clear();
    }
    ends(left, joined(&parts), width)
}
