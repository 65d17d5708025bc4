//! The curves and bars of a run. It must not measure.

use super::figures::{AnswerGrid, Figures};
use super::record::{PLAIN, Results, Sweep};
use crate::bench::Chart;
use crate::chart::{Bar, Bars, Lines, Series};

/// Depths on the chart of acceptance.
const DEPTHS: usize = 10;

/// The charts of a run: those of its curves if there are any.
pub fn charts(results: &Results) -> Vec<Chart> {
    let mut all = Vec::new();
    for grid in AnswerGrid::of(&results.answers) {
        if results.sweeps.is_empty() {
            all.extend(of_grid(&grid));
        }
        all.extend(results.sweeps.iter().flat_map(|sweep| of_sweep(sweep, &grid)));
    }
    all
}

fn of_grid(grid: &AnswerGrid<'_>) -> Vec<Chart> {
    let t = grid.temperature;
    let figures = grid.totals();
    let bars = |title: &str, unit: &str, value: &dyn Fn(&str) -> f64| {
        let bar = |&name: &&str| Bar { name: name.to_owned(), values: vec![value(name)] };
        Bars {
            title: format!("{title}, T = {t}"),
            unit: unit.to_owned(),
            parts: vec![unit.to_owned()],
            bars: grid.strategies.iter().map(bar).collect(),
        }
    };
    let speed = |name: &str| grid.mean_speed_up(name).unwrap_or(0.0);
    let tau = |name: &str| grid.mean(name, |figures| figures.tau);
    let depths = |f: &Figures| {
        let share = |at| 100.0 * f.accepted.get(at).unwrap_or(&0.0);
        (0..DEPTHS).map(|at| ((at + 1) as f64, share(at))).collect()
    };
    let drafted = figures.iter().filter(|(name, f)| *name != PLAIN && !f.accepted.is_empty());
    let acceptance = Lines {
        title: format!("Acceptance by depth, T = {t}"),
        x: "accepted draft tokens, at least".to_owned(),
        doublings: false,
        y: "% of rounds".to_owned(),
        series: drafted
            .map(|(name, f)| Series { name: (*name).to_owned(), points: depths(f) })
            .collect(),
    };
    let charts = [
        ("speed-up", bars("Speed-up, mean of the sets", "relative to plain", &speed).svg()),
        ("tau", bars("τ, mean of the sets", "tokens per target pass", &tau).svg()),
        ("time", time_split(&format!("Where a round's time goes, T = {t}"), &figures).svg()),
        ("acceptance", acceptance.svg()),
    ];
    charts.into_iter().filter_map(|(name, svg)| Chart::new(format!("{name}-t{t}"), svg)).collect()
}

fn of_sweep(sweep: &Sweep, grid: &AnswerGrid<'_>) -> Vec<Chart> {
    let measured = sweep.points.iter().filter(|(name, _)| grid.strategies.contains(&name.as_str()));
    let points: Vec<(&str, f64)> =
        measured.filter_map(|(name, value)| Some((name.as_str(), (*value)?))).collect();
    // One point does not make a curve.
    if points.len() < 2 {
        return Vec::new();
    }
    let file = file_name(&sweep.title);
    let t = grid.temperature;
    let title = &sweep.title;
    let curve = |label: &str, value: &dyn Fn(&str) -> f64| Series {
        name: label.to_owned(),
        points: points.iter().map(|(name, x)| (*x, value(name))).collect(),
    };
    let lines = |what: &str, y: &str, series: Vec<Series>| Lines {
        title: format!("{title}: {what}, T = {t}"),
        x: sweep.axis.clone(),
        doublings: points.iter().all(|(_, x)| *x >= 1.0) && points[points.len() - 1].1 > 16.0,
        y: y.to_owned(),
        series,
    };
    let gain = vec![
        curve("speed-up", &|name| grid.mean_speed_up(name).unwrap_or(f64::NAN)),
        curve("τ", &|name| grid.mean(name, |figures| figures.tau)),
    ];
    let cost = vec![
        curve("T_V, verify", &|name| grid.all(name).verify_ms),
        curve("draft", &|name| grid.all(name).draft_ms),
    ];
    let figures: Vec<(&str, Figures)> =
        points.iter().map(|(name, _)| (*name, grid.all(name))).collect();
    let split = time_split(&format!("{title}: where a round's time goes, T = {t}"), &figures);
    let charts = [
        ("gain", lines("speed-up and τ", "relative to plain; tokens per pass", gain).svg()),
        ("cost", lines("time of a round", "ms", cost).svg()),
        ("time", split.svg()),
    ];
    let chart = |(name, svg)| Chart::new(format!("{file}-{name}-t{t}"), svg);
    charts.into_iter().filter_map(chart).collect()
}

fn time_split(title: &str, figures: &[(&str, Figures)]) -> Bars {
    let bar = |(name, f): &(&str, Figures)| Bar {
        name: (*name).to_owned(),
        values: vec![f.draft_ms, f.verify_ms, f.other_ms, f.wait_ms],
    };
    Bars {
        title: title.to_owned(),
        unit: "ms per round".to_owned(),
        parts: ["draft", "verify", "other", "wait for the draft"].map(str::to_owned).to_vec(),
        bars: figures.iter().map(bar).collect(),
    }
}

/// A title as a file's name.
fn file_name(title: &str) -> String {
    let plain = title.to_lowercase().replace('γ', "gamma");
    let words = plain.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::sample;
    use super::super::report::tests::results;
    use super::*;

    #[test]
    fn a_sweep_has_a_curve_if_it_has_two_points() {
        let mut results = results(sample());
        let points = vec![("plain".to_owned(), Some(1.0)), ("dovetail".to_owned(), Some(64.0))];
        let sweep = Sweep { points: points.clone(), ..Sweep::new("By γ, nodes", "γ") };
        results.sweeps = vec![sweep.clone(), Sweep { points: points[..1].to_vec(), ..sweep }];
        let charts = charts(&results);
        let names: Vec<&str> = charts.iter().map(|chart| chart.name.as_str()).collect();
        let expected = [
            "by-gamma-nodes-gain-t0.svg",
            "by-gamma-nodes-cost-t0.svg",
            "by-gamma-nodes-time-t0.svg",
        ];
        assert_eq!(names, expected);
    }
}
