//! The list of models to choose from. Must never know how they are found.

use ratatui::Frame;
use ratatui::text::{Line, Span};

use super::list;
use crate::printable::printable_line;
use crate::tui::state::{Fit, ModelPart, ModelPicker, ModelRow};
use crate::tui::theme::Styles;
use crate::tui::view::areas::Areas;
use crate::tui::view::figures;
use crate::tui::view::rows::ends;

pub(super) fn draw(frame: &mut Frame<'_>, areas: &Areas, picker: &ModelPicker, styles: &Styles) {
    let title = match picker.part {
        ModelPart::Target => " models ",
        ModelPart::Draft => " drafts for this target: the text is the same ",
    };
    let none = match (picker.searching, picker.part) {
        (true, _) => "looking for models on this machine …",
        (false, ModelPart::Target) => "no model has these words; Enter takes a path or hub id",
        (false, ModelPart::Draft) => "no draft has these words",
    };
    let texts = list::Texts { title, foot: " Enter load · Esc close ", none };
    list::draw(frame, areas, &picker.list, &texts, styles, |row, width| line(row, width, styles));
}

fn line(row: &ModelRow, width: u16, styles: &Styles) -> Line<'static> {
    let mark = if row.in_use { "● " } else { "  " };
    let can = row.refused.is_none() && row.fit != Fit::TooLarge;
    let name = if can { styles.text } else { styles.faint };
    let left = Line::from_iter([
        Span::styled(mark, styles.accent),
        Span::styled(printable_line(&row.title).into_owned(), name),
    ]);
    let fit = match (&row.refused, row.fit) {
        (Some(_), _) => "cannot be opened",
        (None, Fit::Beside) => "fits",
        (None, Fit::Alone) => "fits alone",
        (None, Fit::TooLarge) => "too large",
    };
    let style = if can { styles.dim } else { styles.faint };
    let bytes = (row.bytes > 0).then(|| figures::bytes(row.bytes));
    let told = |name: &&str| row.title.to_lowercase().contains(&name.to_lowercase());
    let quantisation = row.quantisation.as_deref().filter(|name| !told(name));
    let quantisation = quantisation.map(|name| printable_line(name).into_owned());
    let parts = [row.parameters.map(figures::count), quantisation, bytes];
    let parts = parts.into_iter().flatten().chain([row.place.clone(), fit.to_string()]);
    let right = parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ");
    ends(left, Line::styled(right, style), width)
}
