//! What `bench pass` found, as a record, as tables and as a heat map. It must not compute what it
//! shows.

use serde::Serialize;

use super::passes::Passes;
use super::predict::{Prediction, RoundPoint};
use crate::bench::Chart;
use crate::bench::table::{Table, optional, rate, two_digits};
use crate::chart::Heat;

/// The target alone, in the place of M.
const PLAIN: &str = "plain";
/// Shades of the map in texts, from the least to the most.
const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];

/// The costs of passes and rounds here, and what a draft would bring.
#[derive(Clone, Debug, Serialize)]
pub struct PassReport {
    /// `pass`, for readers of the JSON.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The models, in a sentence.
    pub subject: String,
    /// The target's passes, if they were timed on their own.
    #[serde(flatten)]
    pub passes: Option<Passes>,
    /// The same passes with other instruction sets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_isas: Vec<Passes>,
    /// Where the acceptance comes from.
    pub acceptance: Vec<String>,
    /// Rounds with a draft, if there is one.
    #[serde(flatten)]
    pub prediction: Option<Prediction>,
}

impl PassReport {
    /// A report without measurements.
    pub fn new(subject: String) -> Self {
        Self {
            kind: "pass",
            subject,
            passes: None,
            other_isas: Vec::new(),
            acceptance: Vec::new(),
            prediction: None,
        }
    }

    /// The tables: passes, times of rounds, and tokens per second over γ × M.
    pub fn tables(&self) -> Vec<Table> {
        let passes = self.passes.iter().chain(&self.other_isas);
        let mut tables: Vec<Table> = passes.map(Passes::table).collect();
        if let Some(prediction) = &self.prediction {
            tables.push(times(prediction));
            tables.extend(map(prediction, &self.acceptance));
        }
        tables
    }

    /// The heat map, if something is predicted.
    pub fn charts(&self) -> Vec<Chart> {
        self.prediction.iter().filter_map(chart).collect()
    }
}

fn gammas(prediction: &Prediction) -> Vec<usize> {
    unique(prediction.drafting().map(|point| point.gamma))
}

fn rows(prediction: &Prediction) -> Vec<usize> {
    unique(prediction.drafting().filter_map(|point| point.blocks))
}

fn unique<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = values.collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn times(prediction: &Prediction) -> Table {
    let row = |point: &RoundPoint| {
        let blocks = point.blocks.map_or_else(|| PLAIN.to_owned(), |blocks| blocks.to_string());
        let mut row = vec![blocks, point.gamma.to_string()];
        let ms = [point.draft_ms, point.verify_ms, point.other_ms, point.round_ms];
        row.extend(ms.map(two_digits));
        row.push(optional(point.accepted, |accepted| two_digits(1.0 + accepted)));
        row.push(optional(point.tokens_s, rate));
        row
    };
    let head = ["M", "γ", "T_D ms", "T_V ms", "other ms", "round ms", "τ", "tokens/s"];
    Table::new("Times of a round, measured; tokens per second, predicted", &head)
        .with_rows(prediction.points.iter().map(row))
        .with_note(
            "M: blocks of the head. γ: nodes of the tree, with the root. T_D: drafting. T_V: the \
             target's pass. τ: tokens per round; it needs --accept.",
        )
}

/// `None` if nothing is predicted beyond the target alone.
fn map(prediction: &Prediction, sources: &[String]) -> Option<Table> {
    let best = prediction.best()?;
    let gammas = gammas(prediction);
    let blocks = rows(prediction);
    let known = prediction.drafting().filter_map(|point| point.tokens_s);
    let (least, most) =
        known.fold((f64::INFINITY, 0.0f64), |(least, most), v| (least.min(v), most.max(v)));
    let cell = |gamma: usize, blocks: usize| {
        let point = prediction.at(gamma, blocks);
        let Some(value) = point.and_then(|point| point.tokens_s) else { return "-".to_owned() };
        let share = (value - least) / (most - least).max(f64::MIN_POSITIVE);
        let shade = SHADES[(share * (SHADES.len() - 1) as f64).round() as usize];
        format!("{} {shade}{shade}", rate(value))
    };
    let row = |&blocks: &usize| {
        let cells = gammas.iter().map(|&gamma| cell(gamma, blocks));
        std::iter::once(format!("M = {blocks}")).chain(cells).collect()
    };
    let columns = gammas.iter().map(|gamma| format!("γ = {gamma}"));
    let head: Vec<String> = std::iter::once(String::new()).chain(columns).collect();
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
        _ => "-".to_owned(),
    };
    let mut table =
        Table::new("Expected tokens per second", &head).with_rows(blocks.iter().map(row));
    table.notes.push(format!(
        "Best draft: γ = {}, M = {} with {} tokens/s{against}. {} of {} points are within \
         5 % of it (γ {}, M {}).",
        best.gamma,
        best.blocks.unwrap_or(0),
        rate(told),
        near.len(),
        prediction.drafting().filter(|point| point.tokens_s.is_some()).count(),
        range(unique(near.iter().map(|point| point.gamma))),
        range(unique(near.iter().filter_map(|point| point.blocks))),
    ));
    table.notes.extend(sources.iter().map(|source| format!("Acceptance: {source}.")));
    Some(table)
}

fn chart(prediction: &Prediction) -> Option<Chart> {
    let gammas = gammas(prediction);
    let blocks = rows(prediction);
    let value = |gamma, blocks| prediction.at(gamma, blocks).and_then(|point| point.tokens_s);
    let row = |&blocks: &usize| gammas.iter().map(|&gamma| value(gamma, blocks)).collect();
    let heat = Heat {
        title: "Expected tokens per second".to_owned(),
        x: "γ, nodes including the root".to_owned(),
        y: "blocks M".to_owned(),
        columns: gammas.iter().map(usize::to_string).collect(),
        rows: blocks.iter().map(usize::to_string).collect(),
        values: blocks.iter().map(row).collect(),
    };
    Chart::new("round".to_owned(), heat.svg())
}

#[cfg(test)]
mod tests {
    use super::super::predict::tests::sample;
    use super::*;
    use crate::bench::TableStyle;
    use crate::bench::table::tests::text;

    fn report(prediction: Prediction) -> PassReport {
        let acceptance = vec!["a.jsonl: 40 rounds of a target with a head".to_owned()];
        let prediction = Some(prediction);
        PassReport { acceptance, prediction, ..PassReport::new("models".to_owned()) }
    }

    #[test]
    fn a_prediction_as_texts() {
        let whole = report(sample());
        insta::assert_snapshot!(text(&whole.tables(), TableStyle::Plain));
        let mut fast = sample();
        fast.points[0].tokens_s = Some(99.0);
        let note = &report(fast).tables()[1].notes[0];
        assert!(note.contains("the target alone is faster: plain, 99.0 tokens/s"), "{note}");
        let charts = whole.charts();
        assert_eq!((charts.len(), charts[0].name.as_str()), (1, "round.svg"));
        assert!(charts[0].svg.contains("blocks M"), "{}", charts[0].svg);
        assert!(report(Prediction { points: Vec::new() }).charts().is_empty());
    }
}
