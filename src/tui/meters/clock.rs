//! One clock for draft and target: what each of them did in the latest rounds, to scale, and the
//! times below. Must never measure.

use super::view::named;
use crate::decode::{Round, Timing};
use crate::tui::draw::{Frame, Line, Modifier, Rect, Span, Style, Styles, cut, draw_rows, figures};
use crate::tui::state::ScreenState;

/// Columns of the lanes' names.
const NAMES: u16 = 7;
/// Rounds are at least so many columns wide on average.
const NARROWEST: u16 = 10;

/// What draft or target do for a while.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Activity {
    Idle,
    Draft,
    Transfer,
    Verify,
    Wait,
    Other,
}

impl Activity {
    /// The strokes differ, so that colours are not needed.
    fn stroke(self, styles: &Styles) -> (&'static str, Style) {
        let (stroke, style) = match self {
            Self::Idle => ("·", styles.faint),
            Self::Draft => ("━", styles.accepted),
            Self::Transfer => ("┅", styles.warning),
            Self::Verify => ("═", styles.target),
            Self::Wait => ("┄", styles.warning),
            Self::Other => ("─", styles.dim),
        };
        (stroke, style.remove_modifier(Modifier::BOLD))
    }
}

/// What the draft does in a round and what the target does, each with its milliseconds. Both sums
/// are the whole round and the planning before it.
fn lanes(timing: &Timing) -> [Vec<(Activity, f64)>; 2] {
    let &Timing { draft_ms, verify_ms, other_ms, ahead_ms, wait_ms, transfer_ms, plan_ms } = timing;
    let ahead_ms = ahead_ms.min(verify_ms);
    // The drafter is handed over at the beginning of the pass.
    let transfer = transfer_ms.min(verify_ms - ahead_ms);
    let rest = verify_ms - ahead_ms - transfer + wait_ms + other_ms;
    let plan = (Activity::Idle, plan_ms);
    let ahead =
        [(Activity::Transfer, transfer), (Activity::Draft, ahead_ms), (Activity::Idle, rest)];
    let pass =
        [(Activity::Verify, verify_ms), (Activity::Wait, wait_ms), (Activity::Other, other_ms)];
    [
        [vec![plan, (Activity::Draft, draft_ms)], ahead.to_vec()].concat(),
        [vec![plan, (Activity::Idle, draft_ms)], pass.to_vec()].concat(),
    ]
}

/// Where the clock was drawn, and the column of it at which each of its rounds ends.
#[derive(Clone, Debug, Default)]
pub struct ClockSeen {
    /// Of the rows that show rounds: numbers and lanes, once there are rounds.
    area: Rect,
    ends: Vec<(u16, usize)>,
    /// The round under the mouse.
    pub pointed: Option<usize>,
}

impl ClockSeen {
    /// The round at this cell of the screen.
    pub fn round(&self, x: u16, y: u16) -> Option<usize> {
        let inside = self.area.contains((x, y).into());
        let (_, round) = self.ends.iter().find(|(end, _)| inside && x < self.area.x + end)?;
        Some(*round)
    }

    /// Whether there are rounds to point at.
    pub fn has_rounds(&self) -> bool {
        !self.ends.is_empty()
    }
}

/// The clock as it is to be drawn.
pub(super) struct RoundClock {
    pub rows: Vec<Line<'static>>,
    /// Of its place, only the height is known.
    seen: ClockSeen,
}

impl RoundClock {
    /// Shows the latest rounds, or those around the round that is looked at. The times are those of
    /// the round under the mouse, while there is one.
    pub fn new(state: &ScreenState, width: u16, styles: &Styles) -> Self {
        let cells = width.saturating_sub(NAMES);
        let rounds: Vec<_> = state.tree.around(usize::from(cells / NARROWEST).max(1)).collect();
        let pointed = rounds.iter().find(|(at, _)| Some(*at) == state.meters.clock.pointed);
        let times = times(state, pointed.copied(), usize::from(width), styles);
        let pointed = pointed.map(|(at, _)| *at);
        let Some(shown) = pointed.or(state.tree.shown().map(|(at, _)| at)) else {
            return Self { rows: times, seen: ClockSeen { pointed, ..ClockSeen::default() } };
        };
        let whole = |round: &Round| round.timing.total_ms() + round.timing.plan_ms;
        let all: f64 = rounds.iter().map(|(_, round)| whole(round)).sum();
        let column = |ms: f64| (ms / all * f64::from(cells)).round() as u16;
        let names = ["round", "draft", "target"];
        let name = |name| Span::styled(format!("{name:<0$}", usize::from(NAMES)), styles.dim);
        let mut rows = names.map(|words| Line::from(name(words)));
        let mut ends = Vec::new();
        let mut begun = 0.0;
        for (at, round) in rounds {
            let end = begun + whole(round);
            let columns = column(end).saturating_sub(column(begun));
            let number = format!("{:<1$}", format!("╷{}", at + 1), usize::from(columns));
            let number: String = number.chars().take(usize::from(columns)).collect();
            let is_shown = at == shown;
            let style = if is_shown { styles.accent } else { styles.dim };
            rows[0].push_span(Span::styled(number, style));
            // Rounded within the round, so that equal rounds look equal.
            let cell = |ms: f64| (ms / whole(round) * f64::from(columns)).round() as u16;
            for (row, lane) in rows[1..].iter_mut().zip(lanes(&round.timing)) {
                let mut passed = 0.0;
                for (work, ms) in lane {
                    let cells = cell(passed + ms).saturating_sub(cell(passed));
                    passed += ms;
                    let (stroke, style) = work.stroke(styles);
                    let style = if is_shown { style.add_modifier(Modifier::BOLD) } else { style };
                    row.push_span(Span::styled(stroke.repeat(usize::from(cells)), style));
                }
            }
            ends.push((NAMES + column(end), at));
            begun = end;
        }
        let area = Rect { height: rows.len() as u16, ..Rect::default() };
        let rows = rows.into_iter().chain(times).collect();
        Self { rows, seen: ClockSeen { area, ends, pointed } }
    }

    /// Draws it; returns where its rounds are.
    pub fn draw(self, frame: &mut Frame<'_>, area: Rect) -> ClockSeen {
        draw_rows(frame, area, self.rows);
        let height = area.height.min(self.seen.area.height);
        ClockSeen { area: Rect { height, ..area }, ..self.seen }
    }
}

/// Where the time of the round that is pointed or looked at went, or that of a mean one.
fn times(
    state: &ScreenState,
    pointed: Option<(usize, &Round)>,
    width: usize,
    styles: &Styles,
) -> Vec<Line<'static>> {
    let summary = &state.meters.answer.summary;
    let looked_at = if state.tree.live() { None } else { state.tree.shown() };
    let (whose, spent, rounds) = match pointed.or(looked_at) {
        Some((at, round)) => (format!("round {} ", at + 1), round.timing, 1),
        None => ("mean ".to_owned(), summary.timing, summary.rounds),
    };
    if rounds == 0 {
        return vec![Line::styled("─".repeat(width), styles.faint)];
    }
    let mean = |ms: f64| figures::short(ms / rounds as f64);
    // Strokes before the names, and the unit once.
    let legend = |whose: &str, gap: &str, parts: &[(Option<Activity>, &str, f64)]| {
        let mut legend = Line::styled(whose.to_owned(), styles.dim);
        for (part, &(work, name, ms)) in parts.iter().enumerate() {
            legend.push_span(Span::raw(if part == 0 { "" } else { gap }.to_owned()));
            if let Some((stroke, style)) = work.map(|work| work.stroke(styles)) {
                legend.push_span(Span::styled(format!("{stroke} "), style));
            }
            legend.push_span(Span::styled(name.to_owned(), styles.dim));
            legend.push_span(Span::styled(mean(ms), styles.text));
        }
        legend.push_span(Span::styled(" ms", styles.dim));
        legend
    };
    let turns = [
        (Some(Activity::Draft), "draft ", spent.draft_ms),
        (Some(Activity::Verify), "verify ", spent.verify_ms),
        (Some(Activity::Other), "other ", spent.other_ms),
    ];
    // The unit matters more than whose times they are, than space and than the names.
    let bare = turns.map(|(work, _, ms)| (work, "", ms));
    let legends = [legend(&whose, "  ", &turns), legend("", "  ", &turns), legend("", " ", &turns)];
    let fits = legends.into_iter().find(|legend| legend.width() <= width);
    let mut rows = vec![fits.unwrap_or_else(|| legend("", "  ", &bare))];
    if spent.ahead_ms > 0.0 {
        let overlap = [
            (Some(Activity::Draft), "ahead ", spent.ahead_ms),
            (Some(Activity::Wait), "wait ", spent.wait_ms),
            (Some(Activity::Transfer), "transfer ", spent.transfer_ms),
        ];
        let idle = [
            (Some(Activity::Idle), "idle: draft ", spent.draft_idle_ms()),
            (None, "target ", spent.target_idle_ms()),
        ];
        rows.extend([legend("", " ", &overlap), legend("", "  ", &idle)]);
    }
    if let Some(c) = state.meters.answer.duo_c {
        rows.push(named(format!("{c:.1}"), styles.text, " draft steps in a pass (c)", styles));
    }
    rows.into_iter().map(|row| cut(row, width)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lanes_take_the_whole_round() {
        let timing = Timing {
            draft_ms: 4.0,
            verify_ms: 40.0,
            other_ms: 1.0,
            ahead_ms: 30.0,
            wait_ms: 2.0,
            transfer_ms: 0.5,
            plan_ms: 0.25,
        };
        // The pass may be shorter than what was measured of the way to the thread.
        let short = Timing { transfer_ms: 15.0, ..timing };
        for timing in [timing, short, Timing { ahead_ms: 41.0, ..timing }, Timing::default()] {
            for lane in lanes(&timing) {
                let sum: f64 = lane.iter().map(|(_, ms)| ms).sum();
                let all = timing.total_ms() + timing.plan_ms;
                assert!((sum - all).abs() < 1e-9, "{timing:?}");
                assert!(lane.iter().all(|&(_, ms)| ms >= 0.0), "{timing:?}");
            }
        }
    }
}
