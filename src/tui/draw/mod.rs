//! What all views draw with: areas, frames, rows, figures and styles. Must never know the state.

pub(crate) mod areas;
pub(crate) mod figures;
pub(crate) mod frames;
pub(crate) mod rows;

pub(crate) use ratatui::Frame;
pub(crate) use ratatui::layout::Rect;
pub(crate) use ratatui::style::{Modifier, Style};
pub(crate) use ratatui::text::{Line, Span};

pub(crate) use self::areas::Areas;
pub(crate) use self::frames::{Edges, WIDTH, boxed, focused, framed, panel};
pub(crate) use self::rows::{
    cut, draw_rows, ends, foot, hanging, list_row, marked, role_style, spans, stressed, wrapped,
};
pub(crate) use super::theme::Styles;
