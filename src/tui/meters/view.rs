//! The figures of the answer and of the machine. Must never compute them.

use super::clock::RoundClock;
use super::payoff;
use crate::model::ModelEngine;
use crate::tui::display::Focus;
use crate::tui::draw::{
    Frame, Line, Modifier, Rect, Span, Style, Styles, cut, draw_rows, ends, figures, focused,
    framed, panel,
};
use crate::tui::state::ScreenState;

pub(crate) fn draw(frame: &mut Frame<'_>, area: Rect, state: &mut ScreenState, styles: &Styles) {
    let engine = state.models.ready.as_ref().map(|ready| ready.engine);
    let engine = engine.filter(|engine| !engine.is_own()).map_or("", ModelEngine::name);
    let parts = ["meters", state.strategy(), engine].into_iter().filter(|part| !part.is_empty());
    let title = format!(" {} ", parts.collect::<Vec<_>>().join(" · "));
    let inner = framed(frame, area, panel(title, focused(state, Focus::Meters), styles));
    let clock = RoundClock::new(state, inner.width, styles);
    let speed = |width, spark| speed(state, width, spark, styles);
    let depths = |width, room: u16| depths(state, width, usize::from(room), styles);
    let spare = inner.height.saturating_sub(clock.rows.len() as u16 + 1);
    let above = if inner.width >= ABREAST {
        let left = Rect { width: SPEED, height: spare, ..inner };
        let right = Rect { x: left.right() + 4, width: inner.width - SPEED - 4, ..left };
        let spark = spare.saturating_sub(5).clamp(1, 4);
        draw_rows(frame, left, speed(left.width, usize::from(spark)));
        draw_rows(frame, right, depths(right.width, spare));
        spare
    } else {
        // Where there is no room, first depths are left out, then the end.
        let mut rows = speed(inner.width, 1);
        let spare = spare.saturating_sub(rows.len() as u16);
        let gap = (spare > 5).then(Line::default);
        rows.extend(gap.clone());
        rows.extend(depths(inner.width, if gap.is_some() { spare - 2 } else { spare }));
        rows.extend(gap);
        let above = rows.len() as u16;
        draw_rows(frame, inner, rows);
        above
    };
    let below = |rows: u16| {
        let rows = rows.min(inner.height);
        Rect { y: inner.y + rows, height: inner.height - rows, ..inner }
    };
    let machine = above + clock.rows.len() as u16;
    state.meters.clock = clock.draw(frame, below(above));
    frame.render_widget(machine_row(state, inner.width, styles), below(machine));
}

/// From this width on, acceptance by depth is next to the speed.
const ABREAST: u16 = 66;
/// Columns of the speed there.
const SPEED: u16 = 40;

/// A label and its value.
fn figure(label: &str, value: String, styles: &Styles) -> Line<'static> {
    let label = Span::styled(format!("{label} "), styles.dim);
    Line::from_iter([label, Span::styled(value, styles.text)])
}

/// A value and what it is.
pub(super) fn named(
    value: String,
    style: Style,
    name: &'static str,
    styles: &Styles,
) -> Line<'static> {
    Line::from_iter([Span::styled(value, style), Span::styled(name, styles.dim)])
}

/// Figures of the speed, that of the latest rounds in `spark` rows.
fn speed(state: &ScreenState, width: u16, spark: usize, styles: &Styles) -> Vec<Line<'static>> {
    let meters = &state.meters.answer;
    let summary = &meters.summary;
    let now = named(figures::rate(meters.now()), styles.strong, " tok/s now", styles);
    let rate = figures::rate(summary.tokens_per_second);
    let overall = match state.slowed() {
        true => Line::styled(payoff::SLOWED, styles.warning),
        false => named(rate, styles.strong, " this answer", styles),
    };
    let spark = figures::spark(meters.rates(), usize::from(width), spark);
    let colour = styles.accent.remove_modifier(Modifier::BOLD);
    let spark = spark.into_iter().map(|row| Line::styled(row, colour));
    let none = || "–".to_string();
    let first =
        meters.first_token.map_or_else(none, |time| figures::time(time.as_secs_f64() * 1e3));
    let prompt = match meters.prefill {
        Some(prefill) => format!("{} of {}", prefill.done, prefill.total),
        None if meters.begun() => summary.prompt_tokens.to_string(),
        None => none(),
    };
    let context = state.context().map_or_else(none, |context| match context.used {
        0 => context.holds.to_string(),
        used => format!("{} of {}", used.min(context.holds), context.holds),
    });
    let ratio = state.speedup().map_or(Line::default(), |speedup| {
        Line::styled(speedup.words(), payoff::style(speedup, styles))
    });
    let tau = |name| named(payoff::tau(meters), styles.text, name, styles);
    let tau = [" tokens per round (τ)", " per round (τ)"].map(tau);
    let room = usize::from(width).saturating_sub(ratio.width() + 1);
    let tau = tau.into_iter().find(|tau| tau.width() <= room).unwrap_or_default();
    let done = Line::styled(figures::tokens_in(summary.tokens, summary.rounds), styles.text);
    let prompt = figure("prompt", prompt, styles);
    let mut rows = vec![ends(now, overall, width)];
    rows.extend(spark);
    rows.extend([
        ends(tau, ratio, width),
        ends(done, figure("first", first, styles), width),
        ends(figure("context", context, styles), prompt, width),
    ]);
    rows
}

/// Acceptance by depth, one row per depth.
fn depths(state: &ScreenState, width: u16, room: usize, styles: &Styles) -> Vec<Line<'static>> {
    let shares: Vec<f64> = state.meters.answer.acceptance().collect();
    if room == 0 {
        return Vec::new();
    }
    if shares.is_empty() {
        let words = ["accepted by depth: from the first round", "by depth: from the first round"];
        let fits = words.into_iter().find(|words| words.len() <= usize::from(width));
        let line = Line::styled(fits.unwrap_or(words[1]), styles.dim);
        return vec![cut(line, usize::from(width))];
    }
    let cells = usize::from(width).saturating_sub(16);
    let style = styles.accepted.remove_modifier(Modifier::BOLD);
    let row = |(depth, share): (usize, f64)| {
        let label = if depth == 0 { "accepted" } else { "" };
        Line::from_iter([
            Span::styled(format!("{label:<8}{:>2} ", depth + 1), styles.dim),
            Span::styled(figures::bar(share, cells), style),
            Span::styled(format!("{:>5}", figures::percent(share)), styles.text),
        ])
    };
    shares.into_iter().take(room).enumerate().map(row).collect()
}

/// The machine in a row; the details have all of it.
fn machine_row(state: &ScreenState, width: u16, styles: &Styles) -> Line<'static> {
    let Some(usage) = &state.meters.usage else { return Line::default() };
    let share = |used: u64, total: u64| figures::percent(used as f64 / total.max(1) as f64);
    let mut parts = vec![
        ("cpu", figures::percent(f64::from(usage.cpu_load))),
        ("memory", share(usage.memory_used, usage.memory_total)),
    ];
    if let Some(gpu) = usage.gpu {
        parts.extend(gpu.load.map(|load| ("gpu", figures::percent(f64::from(load)))));
        parts.push(("vram", share(gpu.vram_used, gpu.vram_total)));
    }
    let parts = parts.into_iter().flat_map(|(label, value)| {
        [Span::styled(format!("{label} "), styles.dim), Span::raw(value), Span::raw("  ")]
    });
    cut(Line::from_iter(parts), usize::from(width))
}

/// What the machine does, each with its name.
pub(crate) fn machine(state: &ScreenState) -> Vec<(&'static str, String)> {
    let name = &state.meters.gpu;
    let Some(usage) = &state.meters.usage else { return vec![("gpu", name.clone())] };
    let load = figures::percent(f64::from(usage.cpu_load));
    let memory = of_all(usage.memory_used, usage.memory_total, usage.memory_ours);
    let mut rows =
        vec![("cpu", format!("{load} · ours {:.1} cores", usage.cpu_ours)), ("memory", memory)];
    // Only a card's driver knows how its memory is used; our own bytes are known.
    let ours = state.models.ready.as_ref().map_or(0, |ready| ready.vram_used);
    if let Some(gpu) = usage.gpu {
        let load = gpu.load.map_or("–".to_string(), |load| figures::percent(f64::from(load)));
        let vram = of_all(gpu.vram_used, gpu.vram_total, gpu.vram_ours.unwrap_or(ours));
        rows.extend([("gpu", format!("{load} · {name}")), ("vram", vram)]);
    } else {
        rows.push(("gpu", name.clone()));
        rows.extend((ours > 0).then(|| ("vram", format!("ours {}", figures::bytes(ours)))));
    }
    rows
}

/// Bytes in use.
fn of_all(used: u64, total: u64, ours: u64) -> String {
    let used = figures::bytes(used);
    format!("{used} of {} · ours {}", figures::bytes(total), figures::bytes(ours))
}
