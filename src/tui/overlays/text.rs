//! Boxes of text: failures, details, the system prompt and the reasons for automatic values. All
//! they change of the state is the first row seen.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::Overlay;
use crate::plan::Setting;
use crate::printable::printable;
use crate::settings::{SettingKey, Settings};
use crate::tui::actions::Dial;
use crate::tui::draw::areas::Areas;
use crate::tui::draw::figures;
use crate::tui::draw::frames::WIDTH;
use crate::tui::draw::frames::{self, Edges, centre, framed, panel};
use crate::tui::draw::rows::{cut, draw_rows, hanging, wrapped};
use crate::tui::keymap::Keymap;
use crate::tui::state::ScreenState;
use crate::tui::theme::Styles;

/// Columns of text in a box on `area`.
fn columns(area: Rect) -> u16 {
    WIDTH.min(area.width.saturating_sub(2)).saturating_sub(4).max(1)
}

/// `text` as a point of a list, in rows of at most `width` columns.
fn point(text: &str, width: u16, styles: &Styles, style: Style) -> Vec<Line<'static>> {
    let rows = wrapped(text, width.saturating_sub(2).max(1), style);
    hanging(rows, Span::styled("• ", styles.faint))
}

/// Draws `text` from row `top` on, or from the last row that leaves no room below the end; returns
/// the first row drawn.
fn boxed(
    frame: &mut Frame<'_>,
    areas: &Areas,
    title: &str,
    text: Vec<Line<'_>>,
    top: usize,
    keys: &Keymap,
    styles: &Styles,
) -> usize {
    let all = text.len();
    let height = u16::try_from(text.len()).unwrap_or(u16::MAX).saturating_add(2);
    let width = columns(areas.column) + 4;
    let rect = centre(areas.column, width, height);
    let fit = usize::from(rect.height.saturating_sub(2));
    let top = top.min(all.saturating_sub(fit));
    let place =
        if fit < all { format!("{}–{} of {all} · ", top + 1, top + fit) } else { String::new() };
    let foot = format!(" {place}{} close ", keys.close());
    let edges = Edges { title: format!(" {title} ").into(), foot };
    let inner = frames::boxed(frame, areas, areas.column, width, height, edges, styles);
    let rows = text.into_iter().skip(top).map(|line| cut(line, usize::from(inner.width)));
    draw_rows(frame, inner, rows);
    top
}

pub(crate) fn error(
    frame: &mut Frame<'_>,
    areas: &Areas,
    title: &str,
    text: &str,
    keys: &Keymap,
    styles: &Styles,
) {
    let lines = wrapped(text, columns(areas.column), styles.text);
    let mut red = *styles;
    red.accent = styles.error;
    boxed(frame, areas, title, lines, 0, keys, &red);
}

/// The details or the system prompt, as far down as they are scrolled.
pub(crate) fn scrolled(
    frame: &mut Frame<'_>,
    areas: &Areas,
    state: &mut ScreenState,
    styles: &Styles,
) {
    let width = columns(areas.column);
    let (title, lines, from) = match &state.overlays.open {
        Some(Overlay::Details { top }) => ("details", details(state, width, styles), *top),
        Some(Overlay::System { top }) => {
            let prompt = state.chat.system.as_deref().unwrap_or_default();
            ("system prompt", wrapped(&printable(prompt), width, styles.text), *top)
        }
        _ => return,
    };
    let seen = boxed(frame, areas, title, lines, from, &state.display.keys, styles);
    if let Some(Overlay::Details { top } | Overlay::System { top }) = &mut state.overlays.open {
        *top = seen;
    }
}

/// Reasons for the automatic values, as a panel.
pub(crate) fn reasons(frame: &mut Frame<'_>, area: Rect, state: &ScreenState, styles: &Styles) {
    let inner = framed(frame, area, panel(" why these values ", false, styles));
    let reasons = state.models.ready.iter().flat_map(|ready| &ready.reasons);
    let rows = reasons.flat_map(|reason| point(reason, inner.width, styles, styles.dim));
    draw_rows(frame, inner, rows);
}

/// Columns before a value.
const LABEL: u16 = 12;

/// A label and its value, in as many rows as that needs.
fn row(label: &str, value: &str, width: u16, styles: &Styles) -> Vec<Line<'static>> {
    let rows = wrapped(value, width.saturating_sub(LABEL).max(1), styles.text);
    hanging(rows, Span::styled(format!("{label:<0$}", usize::from(LABEL)), styles.dim))
}

fn details(state: &ScreenState, width: u16, styles: &Styles) -> Vec<Line<'static>> {
    let row = |label: &str, value: String| row(label, &value, width, styles);
    let mut lines = Vec::new();
    if let Some(ready) = &state.models.ready {
        lines.extend(row("target", ready.target.clone()));
        lines.extend(row("", ready.target_detail.clone()));
        if !state.strategy().is_empty() {
            lines.extend(row("strategy", state.strategy().to_string()));
        }
        lines.extend(row("draft", state.draft().unwrap_or("none").to_string()));
        lines.extend(row("context", format!("{} tokens", ready.context)));
        lines.push(Line::default());
        lines.push(Line::styled("Why these values", styles.strong));
        for reason in &ready.reasons {
            lines.extend(point(reason, width, styles, styles.text));
        }
        lines.push(Line::default());
    }
    if !state.toasts.notices.is_empty() {
        lines.push(Line::styled("Notices", styles.strong));
        for notice in &state.toasts.notices {
            lines.extend(point(notice, width, styles, styles.text));
        }
        lines.push(Line::default());
    }
    let context = state.dials();
    let dials = Dial::FIGURES.map(|dial| {
        let view = context.view(dial, &state.controls.worker);
        format!("{} {} {}", dial.row().sign, view.value, view.state)
    });
    lines.extend(row("controls", dials.join("  ")));
    let settings = Settings { sampler: state.controls.worker.sampler, ..Settings::default() };
    let shown = SettingKey::of_sampler().filter(|key| key.name != Dial::Temperature.row().key);
    let sampler: Vec<String> = shown
        .map(|key| format!("{} {}", key.short_name().replace('_', "-"), key.value(&settings)))
        .collect();
    lines.extend(row("sampler", sampler.join("  ")));
    lines.extend(row(
        "answers",
        match state.controls.max_tokens {
            Setting::Auto => "as long as the context has room".to_string(),
            Setting::Fixed(most) => format!("at most {most} tokens"),
        },
    ));
    lines.extend(row("gpu", state.meters.gpu.clone()));
    if let Some(summary) = &state.meters.answer.summary {
        lines.push(Line::default());
        lines.push(Line::styled("This answer", styles.strong));
        let reused =
            format!("{} tokens, {} from the cache", summary.prompt_tokens, summary.reused_tokens);
        lines.extend(row("prompt", format!("{reused}, {}", figures::time(summary.prefill_ms))));
        if !summary.accepted_by.is_empty() {
            let each = summary.accepted_by.iter();
            let each: Vec<_> =
                each.map(|(source, count)| format!("{} {count}", source.name())).collect();
            lines.extend(row("accepted", each.join(", ")));
        }
        let meters = &state.meters.answer;
        lines.extend(row(
            "decoding",
            format!(
                "{} tokens, {} rounds, τ {:.2}, {} tok/s",
                meters.tokens(),
                meters.rounds(),
                meters.tau(),
                figures::rate(meters.overall())
            ),
        ));
        if !summary.traffic.is_none() {
            lines.extend(row(
                "bus",
                format!("{} per round", summary.traffic.a_round(summary.rounds)),
            ));
        }
    }
    lines
}
