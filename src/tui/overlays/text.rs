//! Boxes of text: failures, details, the system prompt, the former model of a conversation that was
//! opened; and the reasons for automatic values.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::page::Page;
use crate::plan::Setting;
use crate::printable::printable;
use crate::settings::{SettingKey, Settings};
use crate::tui::actions::Dial;
use crate::tui::draw::figures;
use crate::tui::draw::frames::{framed, panel};
use crate::tui::draw::rows::{draw_rows, hanging, wrapped};
use crate::tui::state::ScreenState;
use crate::tui::theme::Styles;

/// `text` as a point of a list, in rows of at most `width` columns.
fn point(text: &str, width: u16, styles: &Styles, style: Style) -> Vec<Line<'static>> {
    let rows = wrapped(text, width.saturating_sub(2).max(1), style);
    hanging(rows, Span::styled("• ", styles.faint))
}

/// Rows from `top` on.
fn page(state: &ScreenState, title: &str, rows: Vec<Line<'static>>, top: usize) -> Page {
    let foot = vec![format!("{} close", state.display.keys.close())];
    Page { title: title.to_string(), rows, foot, top, counts: true, ..Page::default() }
}

/// What failed.
pub(crate) fn error(
    state: &ScreenState,
    title: &str,
    text: &str,
    width: u16,
    styles: &Styles,
) -> Page {
    page(state, title, wrapped(text, width, styles.text), 0)
}

/// The system prompt.
pub(crate) fn system(state: &ScreenState, top: usize, width: u16, styles: &Styles) -> Page {
    let prompt = state.chat.system.as_deref().unwrap_or_default();
    page(state, "system prompt", wrapped(&printable(prompt), width, styles.text), top)
}

/// Whether to load the model of the conversation that was opened.
pub(crate) fn reopened(state: &ScreenState, width: u16, styles: &Styles) -> Page {
    let by = state.chat.answered_by.as_ref().map_or("", |by| &by.target);
    let now = state.models.target();
    let rows = wrapped(&format!("This chat used {by}. {now} is loaded now."), width, styles.text);
    let take = state.display.keys.take();
    let close = state.display.keys.close();
    let foot = vec![format!("{take} loads {by}"), format!("{close} stays with {now}")];
    Page { title: "another model".to_string(), rows, foot, ..Page::default() }
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

/// What was loaded, what was chosen and why.
pub(crate) fn details(state: &ScreenState, top: usize, width: u16, styles: &Styles) -> Page {
    let row = |label: &str, value: String| row(label, &value, width, styles);
    let heading = |words: &'static str| Line::from(Span::styled(words, styles.strong));
    let mut lines = Vec::new();
    if let Some(ready) = &state.models.ready {
        lines.extend(row("target", ready.target.clone()));
        lines.extend(row("", ready.target_detail.clone()));
        if !state.strategy().is_empty() {
            lines.extend(row("strategy", state.strategy().to_string()));
        }
        lines.extend(row("draft", state.draft().unwrap_or("none").to_string()));
        lines.extend(row("context", format!("{} tokens", ready.context)));
    }
    let reasons = state.models.ready.as_ref().map(|ready| &ready.reasons);
    let notices = Some(&state.toasts.notices).filter(|notices| !notices.is_empty());
    for (title, points) in [("Why these values", reasons), ("Notices", notices)] {
        let Some(points) = points else { continue };
        lines.extend((!lines.is_empty()).then(Line::default));
        lines.push(heading(title));
        lines.extend(points.iter().flat_map(|text| point(text, width, styles, styles.text)));
    }
    lines.extend((!lines.is_empty()).then(Line::default));
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
    let answers = match state.controls.max_tokens {
        Setting::Auto => "as long as the context has room".to_string(),
        Setting::Fixed(most) => format!("at most {most} tokens"),
    };
    lines.extend(row("answers", answers));
    lines.extend(row("gpu", state.meters.gpu.clone()));
    if state.meters.answer.begun() {
        let summary = &state.meters.answer.summary;
        lines.push(Line::default());
        lines.push(heading("This answer"));
        let reused =
            format!("{} tokens, {} from the cache", summary.prompt_tokens, summary.reused_tokens);
        lines.extend(row("prompt", format!("{reused}, {}", figures::time(summary.prefill_ms))));
        if !summary.accepted_by.is_empty() {
            let each = summary.accepted_by.iter();
            let each: Vec<_> =
                each.map(|(source, count)| format!("{} {count}", source.name())).collect();
            lines.extend(row("accepted", each.join(", ")));
        }
        let counts = format!("{} tokens, {} rounds", summary.tokens, summary.rounds);
        let rate = figures::rate(summary.tokens_per_second);
        lines.extend(row("decoding", format!("{counts}, τ {:.2}, {rate} tok/s", summary.tau)));
        if !summary.traffic.is_none() {
            let bus = format!("{} per round", summary.traffic.a_round(summary.rounds));
            lines.extend(row("bus", bus));
        }
    }
    page(state, "details", lines, top)
}
