//! The dials: value, range, automatic or fixed, keys. Must never change them.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::{cut, focused, panel};
use crate::tui::state::{Bench, Dial, DialView, Focus, Model};
use crate::tui::theme::Theme;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: &Theme) {
    let focus = focused(model, Focus::Controls);
    let block = panel(" controls ", focus, theme);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let mut rows: Vec<Line<'_>> = Dial::ALL
        .into_iter()
        .map(|dial| {
            let selected = focus && model.dials.selected() == dial;
            row(model, dial, selected, inner.width, theme)
        })
        .collect();
    let (words, style) =
        if model.controls.speculate { ("on", theme.text) } else { ("off", theme.warning) };
    rows.push(Line::from_iter([
        Span::styled("  speculation   ", theme.dim),
        Span::styled(format!("{words:>5}"), style),
        Span::styled(format!("{:>21}", "s F7"), theme.faint),
    ]));
    super::lines(frame, inner, rows.into_iter().map(|row| cut(row, usize::from(inner.width))));
}

fn row<'a>(model: &Model, dial: Dial, selected: bool, width: u16, theme: &Theme) -> Line<'a> {
    let view = bench(model).view(dial, &model.controls);
    if dial == Dial::Strategy {
        return strategy(view, selected, width, theme);
    }
    let state = if view.held { theme.warning } else { theme.dim };
    let line = Line::from_iter([
        Span::styled(dial.sign().to_string(), if selected { theme.accent } else { theme.text }),
        Span::styled(format!(" {:<14}", dial.name()), theme.dim),
        Span::styled(format!("{:>5}", view.value), theme.strong),
        Span::styled(format!("  {:<8}", view.state), state),
        Span::styled(format!("{:<6}", view.range), theme.dim),
        Span::styled(format!("{:>5}", keys(dial)), theme.faint),
    ]);
    chosen(line, selected, width, theme)
}

/// The strategy's name takes the place of value, state and range.
fn strategy(view: DialView, selected: bool, width: u16, theme: &Theme) -> Line<'static> {
    let style = if view.held { theme.warning } else { theme.strong };
    let line = Line::from_iter([
        Span::styled(format!("  {:<14}", Dial::Strategy.name()), theme.dim),
        Span::styled(format!("{:<21}", view.value), style),
        Span::styled(format!("{:>5}", keys(Dial::Strategy)), theme.faint),
    ]);
    chosen(line, selected, width, theme)
}

/// The row, over the whole width if it is under the cursor.
fn chosen<'a>(mut line: Line<'a>, selected: bool, width: u16, theme: &Theme) -> Line<'a> {
    if selected {
        let gap = usize::from(width).saturating_sub(line.width());
        line.push_span(Span::raw(" ".repeat(gap)));
        line = line.patch_style(theme.selected);
    }
    line
}

fn keys(dial: Dial) -> &'static str {
    match dial {
        Dial::Gamma => "g G",
        Dial::Blocks => "m M",
        Dial::Width => "w W",
        Dial::Depth => "d D",
        Dial::Temperature => "t T",
        Dial::Strategy => "x X",
        Dial::Pace => "p P",
    }
}

/// What the dials need to know.
pub(super) fn bench(model: &Model) -> Bench<'_> {
    Bench {
        ready: model.ready.as_deref(),
        latest: model.rounds.latest().map(|round| &round.budget),
    }
}
