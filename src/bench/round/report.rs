//! A prediction as tables of texts and as a heat map. Must never compute what it shows.

use super::predict::{Check, Predicted, Prediction};
use super::turned::Turned;
use crate::bench::Table;
use crate::chart::{ChartError, Heat};

/// The target alone, in the place of M.
const PLAIN: &str = "plain";
/// Shades of the map of texts, from the least to the most.
const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];

/// The tables: times, tokens a second over γ × M, and what was checked.
pub fn tables(prediction: &Prediction, sources: &[String], checks: &[Check]) -> Vec<Table> {
    let mut tables = vec![times(prediction)];
    tables.extend(map(prediction, sources));
    tables.extend(checked(checks));
    tables
}

fn gammas(prediction: &Prediction) -> Vec<usize> {
    unique(prediction.drafting().map(|point| point.gamma))
}

fn rows(prediction: &Prediction) -> Vec<Turned> {
    unique(prediction.points.iter().filter_map(|point| point.turned))
}

/// M or k, whichever was turned.
fn symbol(prediction: &Prediction) -> &'static str {
    rows(prediction).first().map_or("M", |turned| turned.symbol())
}

fn unique<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = values.collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn times(prediction: &Prediction) -> Table {
    let row = |point: &Predicted| {
        let turned = point.turned.map_or_else(|| PLAIN.to_owned(), |of| of.value().to_string());
        let mut row = vec![turned, point.gamma.to_string()];
        let ms = [point.draft_ms, point.verify_ms, point.other_ms, point.round_ms];
        row.extend(ms.map(|ms| format!("{ms:.2}")));
        row.push(point.accepted.map_or_else(dash, |accepted| format!("{:.2}", 1.0 + accepted)));
        row.push(point.tokens_s.map_or_else(dash, rate));
        row
    };
    Table {
        title: "Times of a round, measured; tokens per second, predicted".to_owned(),
        head: [
            symbol(prediction),
            "γ",
            "T_D ms",
            "T_V ms",
            "other ms",
            "round ms",
            "τ",
            "tokens/s",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: prediction.points.iter().map(row).collect(),
        notes: Vec::new(),
    }
}

/// `None` if nothing is predicted beyond the target alone.
fn map(prediction: &Prediction, sources: &[String]) -> Option<Table> {
    let best = prediction.best()?;
    let (gammas, turned, symbol) = (gammas(prediction), rows(prediction), symbol(prediction));
    let known = prediction.drafting().filter_map(|point| point.tokens_s);
    let (least, most) =
        known.fold((f64::INFINITY, 0.0f64), |(least, most), v| (least.min(v), most.max(v)));
    let cell = |gamma: usize, turned: Turned| {
        let point = prediction.at(gamma, turned);
        let Some(value) = point.and_then(|point| point.tokens_s) else { return dash() };
        let share = (value - least) / (most - least).max(f64::MIN_POSITIVE);
        let shade = SHADES[(share * (SHADES.len() - 1) as f64).round() as usize];
        format!("{} {shade}{shade}", rate(value))
    };
    let row = |&turned: &Turned| {
        let cells = gammas.iter().map(|&gamma| cell(gamma, turned));
        [format!("{symbol} = {}", turned.value())].into_iter().chain(cells).collect()
    };
    let head = gammas.iter().map(|gamma| format!("γ = {gamma}"));
    let near = prediction.near_best();
    let plain = prediction.plain().and_then(|plain| plain.tokens_s);
    let told = best.tokens_s.unwrap_or(f64::NAN);
    let against = match plain {
        Some(plain) if plain < told => {
            format!(", {:.2} times the target alone ({} tokens/s)", told / plain, rate(plain))
        }
        Some(plain) => format!("; the target alone is faster: {PLAIN}, {} tokens/s", rate(plain)),
        None => String::new(),
    };
    let range = |values: Vec<usize>| match (values.first(), values.last()) {
        (Some(first), Some(last)) if first != last => format!("{first} to {last}"),
        (Some(first), _) => first.to_string(),
        _ => dash(),
    };
    let mut notes = vec![format!(
        "Best draft: γ = {}, {symbol} = {} with {} tokens/s{against}. {} of {} points are within \
         5 % of it (γ {}, {symbol} {}).",
        best.gamma,
        best.turned.map_or(0, Turned::value),
        rate(told),
        near.len(),
        prediction.drafting().filter(|point| point.tokens_s.is_some()).count(),
        range(unique(near.iter().map(|point| point.gamma))),
        range(unique(near.iter().filter_map(|point| point.turned.map(Turned::value)))),
    )];
    notes.extend(sources.iter().map(|source| format!("Acceptance: {source}.")));
    Some(Table {
        title: "Expected tokens per second".to_owned(),
        head: [String::new()].into_iter().chain(head).collect(),
        rows: turned.iter().map(row).collect(),
        notes,
    })
}

fn checked(checks: &[Check]) -> Option<Table> {
    let row = |check: &Check| {
        vec![
            check.turned.value().to_string(),
            check.gamma.to_string(),
            rate(check.predicted),
            rate(check.measured),
            format!("{:+.0} %", 100.0 * check.error()),
            format!("{:.2}", check.expected.tau),
            format!("{:.2}", check.decoded.tau),
            format!("{:.2}", check.expected.round_ms),
            format!("{:.2}", check.decoded.round_ms),
        ]
    };
    let symbol = checks.first().map_or("M", |check| check.turned.symbol());
    let worst = checks.iter().map(|check| check.error().abs()).fold(0.0, f64::max);
    (!checks.is_empty()).then(|| Table {
        title: "Decoded to check the prediction".to_owned(),
        head: [
            symbol,
            "γ",
            "predicted",
            "measured",
            "error",
            "τ",
            "τ decoded",
            "round ms",
            "ms decoded",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: checks.iter().map(row).collect(),
        notes: vec![format!(
            "Each recorded question was decoded with every setting in turn. Largest error: {:.0} \
             %.",
            100.0 * worst
        )],
    })
}

/// The heat map: file name and SVG text; `None` if nothing is predicted.
///
/// # Errors
/// [`ChartError`].
pub fn chart(prediction: &Prediction) -> Result<Option<(String, String)>, ChartError> {
    if prediction.best().is_none() {
        return Ok(None);
    }
    let (gammas, turned) = (gammas(prediction), rows(prediction));
    let value = |gamma, turned| prediction.at(gamma, turned).and_then(|point| point.tokens_s);
    let row = |&turned: &Turned| gammas.iter().map(|&gamma| value(gamma, turned)).collect();
    let heat = Heat {
        title: "Expected tokens per second".to_owned(),
        x: "γ, nodes including the root".to_owned(),
        y: match turned.first() {
            Some(Turned::Width(_)) => "width k".to_owned(),
            _ => "blocks M".to_owned(),
        },
        columns: gammas.iter().map(usize::to_string).collect(),
        rows: turned.iter().map(|turned| turned.value().to_string()).collect(),
        values: turned.iter().map(row).collect(),
    };
    Ok(Some(("round.svg".to_owned(), heat.svg()?)))
}

fn dash() -> String {
    "-".to_owned()
}

fn rate(tokens_s: f64) -> String {
    let digits = if tokens_s < 10.0 { 2 } else { usize::from(tokens_s < 100.0) };
    format!("{tokens_s:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::super::predict::Won;
    use super::super::predict::tests::sample;
    use super::*;
    use crate::bench::TableStyle;

    #[test]
    fn a_prediction_as_texts() {
        let (turned, expected) = (Turned::Blocks(1), Won { tau: 2.4, round_ms: 120.0 });
        let (predicted, measured) = (20.0, 19.0);
        let decoded = Won { tau: 2.28, ..expected };
        let checks = [Check { gamma: 8, turned, predicted, measured, expected, decoded }];
        let sources = ["a.jsonl: 40 rounds of a target with a head".to_owned()];
        let mut out = Vec::new();
        for table in tables(&sample(), &sources, &checks) {
            table.write(TableStyle::Plain, &mut out).unwrap();
        }
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
        let mut fast = sample();
        fast.points[0].tokens_s = Some(99.0);
        let note = &tables(&fast, &sources, &[])[1].notes[0];
        assert!(note.contains("the target alone is faster: plain, 99.0 tokens/s"), "{note}");
        let (name, svg) = chart(&sample()).unwrap().unwrap();
        assert!(name == "round.svg" && svg.contains("blocks M"), "{svg}");
        assert!(chart(&Prediction { points: Vec::new() }).unwrap().is_none());
    }
}
