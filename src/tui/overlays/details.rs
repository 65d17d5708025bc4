//! What was loaded, what was chosen and why, and what the machine does.

use crate::decode::Summary;
use crate::plan::Setting;
use crate::settings::{SettingKey, Settings};
use crate::tui::actions::Dial;
use crate::tui::chat::{Judged, Misses};
use crate::tui::draw::{Line, Span, Style, Styles, figures, hanging, wrapped};
use crate::tui::meters::view::machine;
use crate::tui::state::ScreenState;

/// `text` as a point of a list, in rows of at most `width` columns.
fn point(text: &str, width: u16, styles: &Styles, style: Style) -> Vec<Line<'static>> {
    let rows = wrapped(text, width.saturating_sub(2).max(1), style);
    hanging(rows, Span::styled("• ", styles.faint))
}

/// Columns before a value.
const LABEL: u16 = 12;

/// A label and its value, in as many rows as that needs.
fn row(label: &str, value: &str, width: u16, styles: &Styles) -> Vec<Line<'static>> {
    let rows = wrapped(value, width.saturating_sub(LABEL).max(1), styles.text);
    hanging(rows, Span::styled(format!("{label:<0$}", usize::from(LABEL)), styles.dim))
}

/// What was loaded, what was chosen and why.
pub(crate) fn rows(state: &ScreenState, width: u16, styles: &Styles) -> Vec<Line<'static>> {
    let table = |rows: Vec<(&str, String)>| -> Vec<Line<'static>> {
        rows.iter().flat_map(|(label, value)| row(label, value, width, styles)).collect()
    };
    let heading = |words: &'static str| vec![Line::from(Span::styled(words, styles.strong))];
    let list = |title, points: &[String]| {
        let points = points.iter().flat_map(|text| point(text, width, styles, styles.text));
        heading(title).into_iter().chain(points).collect()
    };
    let mut parts = Vec::new();
    if let Some(ready) = &state.models.ready {
        let mut loaded = vec![("target", ready.target.clone()), ("", ready.target_detail.clone())];
        if !ready.engine.is_own() {
            loaded.push(("engine", ready.engine.name().to_string()));
        }
        if !state.strategy().is_empty() {
            loaded.push(("strategy", state.strategy().to_string()));
        }
        loaded.push(("draft", state.draft().unwrap_or("none").to_string()));
        loaded.push(("context", format!("{} tokens", ready.context)));
        parts.push(table(loaded));
        parts.push(list("Why these values", &ready.reasons));
    }
    if !state.toasts.notices.is_empty() {
        parts.push(list("Notices", &state.toasts.notices));
    }
    let misses = misses(state);
    if !misses.is_empty() {
        parts.push(list("Where drafts fail", &misses));
    }
    parts.push(table(controls(state)));
    if state.meters.answer.begun() {
        parts.push([heading("This answer"), table(answer(&state.meters.answer.summary))].concat());
    }
    parts.join(&Line::default())
}

/// Where this conversation's drafts fail, in two sentences; none as long as hardly any did.
fn misses(state: &ScreenState) -> Vec<String> {
    const FEWEST: usize = 4;
    let misses = Misses::of(state.chat.turns());
    let Judged { all, missed } = misses.total;
    if missed < FEWEST {
        return Vec::new();
    }
    let kinds: Vec<String> = misses
        .worst()
        .into_iter()
        .map(|(kind, judged)| format!("{kind} ({})", figures::percent(judged.share())))
        .collect();
    let overall = figures::percent(misses.total.share());
    let at = match kinds.is_empty() {
        true => "about as often at every kind of word".to_owned(),
        false => format!("most often at {}", kinds.join(" and ")),
    };
    let where_to = format!("This chat's drafts miss {missed} of {all} tokens ({overall}), {at}.");
    let most = misses.by_source.iter().max_by_key(|&(_, count)| count);
    let by = most.map(|(source, _)| format!(" are by {} and", source.name())).unwrap_or_default();
    let depth = misses.depth();
    let second = figures::percent(misses.second_choice as f64 / missed as f64);
    let why = format!(
        "Most misses{by} are at depth {depth}; in {second} of all, the draft's guess was \
         the target's second choice."
    );
    vec![where_to, why]
}

fn controls(state: &ScreenState) -> Vec<(&'static str, String)> {
    let dials = Dial::FIGURES.map(|dial| {
        let view = state.dial(dial);
        format!("{} {} {}", dial.row().sign, view.value, view.state)
    });
    let settings = Settings { sampler: state.controls.worker.sampler, ..Settings::default() };
    let shown = SettingKey::of_sampler().filter(|key| key.name != Dial::Temperature.row().key);
    let sampler: Vec<String> = shown
        .map(|key| format!("{} {}", key.short_name().replace('_', "-"), key.value(&settings)))
        .collect();
    let answers = match state.controls.max_tokens {
        Setting::Auto => "as long as the context has room".to_string(),
        Setting::Fixed(most) => format!("at most {most} tokens"),
    };
    let mut rows =
        vec![("controls", dials.join("  ")), ("sampler", sampler.join("  ")), ("answers", answers)];
    rows.extend(machine(state));
    rows
}

fn answer(summary: &Summary) -> Vec<(&'static str, String)> {
    let Summary { prompt_tokens, reused_tokens, tokens, rounds, tau, .. } = summary;
    let prefill = figures::time(summary.prefill_ms);
    let prompt = format!("{prompt_tokens} tokens, {reused_tokens} from the cache, {prefill}");
    let mut rows = vec![("prompt", prompt)];
    if !summary.accepted_by.is_empty() {
        let each = summary.accepted_by.iter();
        let each: Vec<_> =
            each.map(|(source, count)| format!("{} {count}", source.name())).collect();
        rows.push(("accepted", each.join(", ")));
    }
    let rate = figures::rate(summary.tokens_per_second);
    let decoding = format!("{tokens} tokens, {rounds} rounds, τ {tau:.2}, {rate} tok/s");
    rows.push(("decoding", decoding));
    if !summary.traffic.is_none() {
        rows.push(("bus", format!("{} per round", summary.traffic.a_round(*rounds))));
    }
    rows
}
