//! The figures of the answer and of the machine. Must never compute them.

use super::payoff;
use crate::decode::Timing;
use crate::model::ModelEngine;
use crate::tui::display::Focus;
use crate::tui::draw::{
    Frame, Line, Modifier, Rect, Span, Style, Styles, cut, draw_rows, ends, figures, focused,
    framed, panel,
};
use crate::tui::state::ScreenState;

pub(crate) fn draw(frame: &mut Frame<'_>, area: Rect, state: &ScreenState, styles: &Styles) {
    let engine = state.models.ready.as_ref().map(|ready| ready.engine);
    let engine = engine.filter(|engine| !engine.is_own()).map_or("", ModelEngine::name);
    let parts = ["meters", state.strategy(), engine].into_iter().filter(|part| !part.is_empty());
    let title = format!(" {} ", parts.collect::<Vec<_>>().join(" · "));
    let inner = framed(frame, area, panel(title, focused(state, Focus::Meters), styles));
    if inner.width >= ABREAST {
        abreast(frame, inner, state, styles);
    } else {
        stacked(frame, inner, state, styles);
    }
}

/// From this width on, acceptance by depth is next to the speed.
const ABREAST: u16 = 66;
/// Columns of the speed there: as many as the times need with their names.
const SPEED: u16 = 40;

/// One part below the other. Where there is no room, first depths are left out, then the end.
fn stacked(frame: &mut Frame<'_>, inner: Rect, state: &ScreenState, styles: &Styles) {
    let width = inner.width;
    let speed = speed(state, width, styles);
    let split = split(state, width, styles);
    let machine = vec![machine_row(state, width, styles)];
    let fixed = speed.len() + split.len() + machine.len() + 2;
    let spare = usize::from(inner.height).saturating_sub(fixed);
    let depths = depths(state, width, spare, styles);
    let gap = vec![Line::default(); spare.min(1)];
    draw_rows(frame, inner, [speed, gap.clone(), depths, split, gap, machine].concat());
}

/// Speed and time at the left, acceptance at the right, the machine below.
fn abreast(frame: &mut Frame<'_>, inner: Rect, state: &ScreenState, styles: &Styles) {
    let machine = machine_row(state, inner.width, styles);
    let above = inner.height.saturating_sub(1);
    let left = Rect { width: SPEED, height: above, ..inner };
    let right = Rect { x: left.right() + 4, width: inner.width - SPEED - 4, ..left };
    let below = Rect { y: inner.y + above, height: inner.height - above, ..inner };
    draw_rows(frame, left, [speed(state, SPEED, styles), split(state, SPEED, styles)].concat());
    draw_rows(frame, right, depths(state, right.width, usize::from(above), styles));
    frame.render_widget(machine, below);
}

/// A label and its value.
fn figure(label: &str, value: String, styles: &Styles) -> Line<'static> {
    let label = Span::styled(format!("{label} "), styles.dim);
    Line::from_iter([label, Span::styled(value, styles.text)])
}

/// A value and what it is.
fn named(value: String, style: Style, name: &'static str, styles: &Styles) -> Line<'static> {
    Line::from_iter([Span::styled(value, style), Span::styled(name, styles.dim)])
}

fn speed(state: &ScreenState, width: u16, styles: &Styles) -> Vec<Line<'static>> {
    let meters = &state.meters.answer;
    let summary = &meters.summary;
    let now = named(figures::rate(meters.now()), styles.strong, " tok/s now", styles);
    let rate = figures::rate(summary.tokens_per_second);
    let overall = match state.slowed() {
        true => Line::styled(payoff::SLOWED, styles.warning),
        false => named(rate, styles.strong, " this answer", styles),
    };
    let spark = figures::spark(meters.rates(), usize::from(width));
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
    let tau = named(payoff::tau(meters), styles.text, " tokens per round (τ)", styles);
    let ratio = state.speedup().map_or(Line::default(), |speedup| {
        Line::styled(speedup.words(), payoff::style(speedup, styles))
    });
    let done = Line::styled(figures::tokens_in(summary.tokens, summary.rounds), styles.text);
    let prompt = figure("prompt", prompt, styles);
    vec![
        ends(now, overall, width),
        Line::styled(spark, styles.accent.remove_modifier(Modifier::BOLD)),
        ends(tau, ratio, width),
        ends(done, figure("first", first, styles), width),
        ends(figure("context", context, styles), prompt, width),
    ]
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

/// Where a round's time goes.
fn split(state: &ScreenState, width: u16, styles: &Styles) -> Vec<Line<'static>> {
    let width = usize::from(width);
    let spent = &state.meters.answer.summary.timing;
    let rounds = state.meters.answer.summary.rounds;
    if rounds == 0 {
        return vec![Line::styled("─".repeat(width), styles.faint)];
    }
    // Strokes that differ without colours.
    let parts = [
        ("draft", "━", styles.accepted, spent.draft_ms),
        ("verify", "═", styles.target, spent.verify_ms),
        ("other", "─", styles.faint, spent.other_ms),
    ]
    .map(|(name, glyph, style, ms)| (name, glyph, style.remove_modifier(Modifier::BOLD), ms));
    let cells = figures::shares(parts.map(|(.., ms)| ms), width);
    let mut bar = Line::default();
    for ((_, glyph, style, _), cells) in parts.into_iter().zip(cells) {
        bar.push_span(Span::styled(glyph.repeat(cells), style));
    }
    let legend = |gap: &str, named: bool| {
        let mut legend = Line::default();
        for (part, (name, glyph, style, ms)) in parts.into_iter().enumerate() {
            let gap = if part == 0 { "" } else { gap };
            legend.push_span(Span::styled(format!("{gap}{glyph} "), style));
            if named {
                legend.push_span(Span::styled(format!("{name} "), styles.dim));
            }
            legend.push_span(Span::styled(figures::short(ms / rounds as f64), styles.text));
        }
        legend.push_span(Span::styled(" ms", styles.dim));
        legend
    };
    // The unit matters more than the space between two parts and than their names.
    let legends = [legend("  ", true), legend(" ", true)];
    let fits = legends.into_iter().find(|legend| legend.width() <= width);
    let mut rows = vec![bar, cut(fits.unwrap_or_else(|| legend("  ", false)), width)];
    if spent.ahead_ms > 0.0 {
        rows.push(cut(beside(spent, rounds, styles), width));
    }
    if let Some(c) = state.meters.answer.duo_c {
        let line = named(format!("{c:.1}"), styles.text, " draft steps in a pass (c)", styles);
        rows.push(cut(line, width));
    }
    rows
}

/// How long the draft worked while the target verified, and how long each of them was idle.
fn beside(spent: &Timing, rounds: usize, styles: &Styles) -> Line<'static> {
    let mean = |ms: f64| figures::short(ms / rounds.max(1) as f64);
    let mut line = Line::default();
    for (name, ms) in [
        ("ahead ", spent.ahead_ms),
        ("  idle: draft ", spent.draft_idle_ms()),
        ("  target ", spent.target_idle_ms()),
    ] {
        line.push_span(Span::styled(name, styles.dim));
        line.push_span(Span::styled(mean(ms), styles.text));
    }
    line.push_span(Span::styled(" ms", styles.dim));
    line
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
