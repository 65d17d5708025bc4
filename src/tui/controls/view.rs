//! The dials: value, range, automatic or fixed, keys. Must never change them.

use crate::tui::actions::{Action, Dial};
use crate::tui::display::Focus;
use crate::tui::draw::{
    Frame, Line, Rect, Span, Styles, cut, draw_rows, ends, focused, framed, list_row, panel,
    wrapped,
};
use crate::tui::keymap::Scope;
use crate::tui::state::ScreenState;

pub(crate) fn draw(frame: &mut Frame<'_>, area: Rect, state: &ScreenState, styles: &Styles) {
    if area.height == 1 {
        return frame.render_widget(folded(state, area.width, styles), area);
    }
    let focus = focused(state, Focus::Controls);
    let inner = framed(frame, area, panel(" controls ", focus, styles));
    let mut rows: Vec<Line<'_>> = Dial::ALL
        .into_iter()
        .map(|dial| {
            let selected = focus && state.controls.selected() == dial;
            row(state, dial, selected, inner.width, styles)
        })
        .collect();
    let (words, style) =
        if state.controls.worker.speculate { ("on", styles.text) } else { ("off", styles.warning) };
    rows.push(Line::from_iter([
        Span::styled("  speculation ", styles.dim),
        Span::styled(format!("{words:>5}"), style),
        Span::styled(format!("{:>21}", "s F7"), styles.faint),
    ]));
    if focus {
        // What the control under the cursor does.
        rows.extend(wrapped(state.controls.selected().row().meaning, inner.width, styles.dim));
    }
    draw_rows(frame, inner, rows.into_iter().map(|row| cut(row, usize::from(inner.width))));
}

/// The dials in a row, each with its value; only what is fixed says so.
fn folded(state: &ScreenState, width: u16, styles: &Styles) -> Line<'static> {
    let right = match state.controls.worker.speculate {
        true => Line::styled(format!("{} ", state.strategy()), styles.dim),
        false => Line::styled("plain ", styles.warning),
    };
    let room = usize::from(width).saturating_sub(right.width() + 1);
    let named_by = |name: fn(Dial) -> &'static str| {
        let mut line = Line::default();
        for dial in Dial::FIGURES {
            let view = state.dial(dial);
            line.push_span(Span::styled(format!(" {} ", name(dial)), styles.dim));
            line.push_span(Span::styled(view.value, styles.strong));
            if view.fixed && dial != Dial::Temperature {
                line.push_span(Span::styled(" fixed", styles.warning));
            }
            line.push_span(Span::raw(" "));
        }
        line
    };
    let named = named_by(|dial| dial.row().short_name);
    let fits = named.width() <= room;
    ends(if fits { named } else { named_by(|dial| dial.row().sign) }, right, width)
}

fn row<'a>(
    state: &ScreenState,
    dial: Dial,
    selected: bool,
    width: u16,
    styles: &Styles,
) -> Line<'a> {
    let mut view = state.dial(dial);
    if state.models.replay && dial == Dial::Temperature {
        // It cannot be turned, so it has no range either.
        (view.state, view.fixed, view.range) = ("recorded", false, String::new());
    }
    let sign = match dial {
        Dial::Strategy => styles.dim,
        _ if selected => styles.accent,
        _ => styles.text,
    };
    let mut line = Line::from_iter([
        Span::styled(dial.row().sign, sign),
        Span::styled(format!(" {:<12}", dial.row().name), styles.dim),
    ]);
    line.spans.extend(match (dial, view.fixed) {
        // Its name takes the place of value, state and range.
        (Dial::Strategy, fixed) => {
            let style = if fixed { styles.warning } else { styles.strong };
            vec![Span::styled(format!("{:<21}", view.value), style)]
        }
        (_, fixed) => vec![
            Span::styled(format!("{:>5}", view.value), styles.strong),
            Span::styled(
                format!("  {:<8}", view.state),
                if fixed { styles.warning } else { styles.dim },
            ),
            Span::styled(format!("{:<6}", view.range), styles.dim),
        ],
    });
    line.push_span(Span::styled(format!("{:>5}", keys(state, dial)), styles.faint));
    list_row(line, selected, width, styles)
}

/// The keys that turn a dial in the panel.
fn keys(state: &ScreenState, dial: Dial) -> String {
    // The first key goes to the next strategy.
    let first = if dial == Dial::Strategy { 1 } else { -1 };
    state.display.keys.both(Scope::Panel, [first, -first].map(|by| Action::Adjust(dial, by)))
}
