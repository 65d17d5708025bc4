//! The figures of the answer and of the machine. Must never compute them.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::payoff;
use crate::decode::Timing;
use crate::hardware::Usage;
use crate::tui::display::Focus;
use crate::tui::draw::figures;
use crate::tui::draw::frames::{focused, framed, panel};
use crate::tui::draw::rows::{cut, draw_rows, ends};
use crate::tui::state::ScreenState;
use crate::tui::theme::Styles;

pub(crate) fn draw(frame: &mut Frame<'_>, area: Rect, state: &ScreenState, styles: &Styles) {
    let title = match state.strategy() {
        "" => " meters ".to_string(),
        strategy => format!(" meters · {strategy} "),
    };
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
    let mut rows = speed(state, width, styles);
    let split = split(state, width, styles);
    let machine = machine(state, width, styles);
    let fixed = rows.len() + split.len() + machine.len() + 2;
    let spare = usize::from(inner.height).saturating_sub(fixed);
    if spare > 0 {
        rows.push(Line::default());
    }
    rows.extend(depths(state, width, spare, styles));
    rows.extend(split);
    if spare > 0 {
        rows.push(Line::default());
    }
    rows.extend(machine);
    draw_rows(frame, inner, rows);
}

/// Speed and time at the left, acceptance at the right, the machine below.
fn abreast(frame: &mut Frame<'_>, inner: Rect, state: &ScreenState, styles: &Styles) {
    let machine = machine(state, inner.width, styles);
    let above = inner.height.saturating_sub(machine.len() as u16);
    let left = Rect { width: SPEED, height: above, ..inner };
    let right = Rect { x: left.right() + 4, width: inner.width - SPEED - 4, ..left };
    let below = Rect { y: inner.y + above, height: inner.height - above, ..inner };
    let mut rows = speed(state, SPEED, styles);
    rows.extend(split(state, SPEED, styles));
    draw_rows(frame, left, rows);
    draw_rows(frame, right, depths(state, right.width, usize::from(above), styles));
    draw_rows(frame, below, machine);
}

/// A label and its value.
fn figure(label: &str, value: String, styles: &Styles) -> Vec<Span<'static>> {
    vec![Span::styled(format!("{label} "), styles.dim), Span::styled(value, styles.text)]
}

fn speed(state: &ScreenState, width: u16, styles: &Styles) -> Vec<Line<'static>> {
    let meters = &state.meters.answer;
    let big = styles.strong;
    let now = Line::from_iter([
        Span::styled(figures::rate(meters.now()), big),
        Span::styled(" tok/s now", styles.dim),
    ]);
    let overall = match state.slowed() {
        true => Line::styled(payoff::SLOWED, styles.warning),
        false => Line::from_iter([
            Span::styled(figures::rate(meters.overall()), big),
            Span::styled(" this answer", styles.dim),
        ]),
    };
    let spark = figures::spark(meters.rates(), usize::from(width));
    let first = meters
        .first_token
        .map_or("–".to_string(), |time| figures::time(time.as_secs_f64() * 1000.0));
    let prompt = match (&meters.summary, meters.prefill) {
        (Some(summary), _) => summary.prompt_tokens.to_string(),
        (None, Some(prefill)) => format!("{} of {}", prefill.done, prefill.total),
        (None, None) => "–".to_string(),
    };
    let context = state.context().map_or("–".to_string(), |context| match context.used {
        0 => context.holds.to_string(),
        used => format!("{} of {}", used.min(context.holds), context.holds),
    });
    let (tau, words) = payoff::tokens_per_round(meters);
    let tau = Line::from_iter([
        Span::styled(tau, styles.text),
        Span::styled(format!("{words} (τ)"), styles.dim),
    ]);
    let ratio = match state.speedup() {
        Some(speedup) => Line::styled(speedup.words(), payoff::style(speedup, styles)),
        None => Line::default(),
    };
    let done = format!(
        "{} in {}",
        figures::many(meters.tokens(), "token"),
        figures::many(meters.rounds(), "round")
    );
    vec![
        ends(now, overall, width),
        Line::styled(spark, styles.accent.remove_modifier(Modifier::BOLD)),
        ends(tau, ratio, width),
        ends(Line::styled(done, styles.text), Line::from(figure("first", first, styles)), width),
        ends(
            Line::from(figure("context", context, styles)),
            Line::from(figure("prompt", prompt, styles)),
            width,
        ),
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
    let cells = usize::from(width).saturating_sub(14);
    shares
        .iter()
        .take(room)
        .enumerate()
        .map(|(depth, &share)| {
            let label = if depth == 0 { "accepted" } else { "" };
            Line::from_iter([
                Span::styled(format!("{label:<8}{:>2} ", depth + 1), styles.dim),
                Span::styled(
                    figures::bar(share, cells.saturating_sub(2)),
                    styles.accepted.remove_modifier(Modifier::BOLD),
                ),
                Span::styled(format!("{:>5}", figures::percent(share)), styles.text),
            ])
        })
        .collect()
}

/// Draft, verify, other: strokes that differ without colours.
const STROKES: [&str; 3] = ["━", "═", "─"];

/// Where a round's time goes.
fn split(state: &ScreenState, width: u16, styles: &Styles) -> Vec<Line<'static>> {
    let meters = &state.meters.answer;
    let spent = meters.spent();
    let rounds = meters.rounds();
    let parts = [spent.draft_ms, spent.verify_ms, spent.other_ms];
    let strokes = [styles.accepted, styles.target, styles.faint];
    let cells = figures::shares(parts, usize::from(width));
    let bar = Line::from_iter((0..3).map(|part| {
        let glyph = STROKES[part];
        Span::styled(glyph.repeat(cells[part]), strokes[part].remove_modifier(Modifier::BOLD))
    }));
    if rounds == 0 {
        return vec![Line::styled("─".repeat(usize::from(width)), styles.faint)];
    }
    let mean = |part: usize| figures::short(parts[part] / rounds as f64);
    let legend = |gap: &str, named: bool| {
        let mut legend = Line::default();
        for (part, name) in ["draft", "verify", "other"].into_iter().enumerate() {
            let gap = if part == 0 { "" } else { gap };
            let stroke = strokes[part].remove_modifier(Modifier::BOLD);
            legend.push_span(Span::styled(format!("{gap}{} ", STROKES[part]), stroke));
            if named {
                legend.push_span(Span::styled(format!("{name} "), styles.dim));
            }
            legend.push_span(Span::styled(mean(part), styles.text));
        }
        legend.push_span(Span::styled(" ms", styles.dim));
        legend
    };
    // The unit matters more than the space between two parts and than their names.
    let legends = [legend("  ", true), legend(" ", true), legend("  ", false)];
    let fits = legends.iter().find(|legend| legend.width() <= usize::from(width));
    let legend = fits.unwrap_or(&legends[2]).clone();
    let mut rows = vec![bar, cut(legend, usize::from(width))];
    if spent.ahead_ms > 0.0 {
        rows.push(cut(beside(&spent, rounds, styles), usize::from(width)));
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

fn machine(state: &ScreenState, width: u16, styles: &Styles) -> Vec<Line<'static>> {
    let Some(usage) = &state.meters.usage else {
        return vec![Line::styled(state.meters.gpu.clone(), styles.dim)];
    };
    let cpu = format!(
        "{} · ours {:.1} cores",
        figures::percent(f64::from(usage.cpu_load)),
        usage.cpu_ours
    );
    let memory = format!(
        "{} of {} · ours {}",
        figures::bytes(usage.memory_used),
        figures::bytes(usage.memory_total),
        figures::bytes(usage.memory_ours)
    );
    let mut rows = vec![
        Line::from(figure("cpu   ", cpu, styles)),
        Line::from(figure("memory", memory, styles)),
    ];
    rows.extend(gpu(state, usage, width, styles));
    let traffic = state.meters.answer.traffic();
    let rounds = state.meters.answer.rounds();
    if !traffic.is_none() {
        rows.push(Line::from(figure("bus   ", traffic.a_round(rounds), styles)));
    }
    rows.into_iter().map(|row| cut(row, usize::from(width))).collect()
}

fn gpu(state: &ScreenState, usage: &Usage, width: u16, styles: &Styles) -> Vec<Line<'static>> {
    let Some(gpu) = usage.gpu else {
        // "no NVIDIA GPU: why"; the details have room for the reason.
        let fits = state.meters.gpu.chars().count() + 7 <= usize::from(width);
        let words = if fits {
            &state.meters.gpu
        } else {
            state.meters.gpu.split(':').next().unwrap_or_default()
        };
        let name = Line::from(figure("gpu   ", words.to_string(), styles));
        // Only a card's driver knows how its memory is used; our own bytes are known.
        let ours = state.models.ready.as_ref().map_or(0, |ready| ready.vram_used);
        let held = format!("ours {}", figures::bytes(ours));
        let vram = (ours > 0).then(|| Line::from(figure("vram  ", held, styles)));
        return std::iter::once(name).chain(vram).collect();
    };
    let load = gpu.load.map_or("–".to_string(), |load| figures::percent(f64::from(load)));
    let ours =
        gpu.vram_ours.or(state.models.ready.as_ref().map(|ready| ready.vram_used)).unwrap_or(0);
    let vram = format!(
        "{} of {} · ours {}",
        figures::bytes(gpu.vram_used),
        figures::bytes(gpu.vram_total),
        figures::bytes(ours)
    );
    vec![
        Line::from(figure("gpu   ", format!("{load} · {}", state.meters.gpu), styles)),
        Line::from(figure("vram  ", vram, styles)),
    ]
}
