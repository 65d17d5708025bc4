//! The curves and bars of a run. It must not measure.

use super::figures::{AnswerGrid, Figures};
use super::record::{PLAIN, Results};
use crate::bench::Chart;
use crate::chart::{Axis, Bar, Bars, ChartError, Lines, Series};

/// Depths on the chart of acceptance.
const DEPTHS: usize = 10;

/// The charts of a run: those of its curves if there are any.
///
/// # Errors
/// [`ChartError`].
pub fn charts(results: &Results) -> Result<Vec<Chart>, ChartError> {
    if !results.sweeps.is_empty() {
        return sweep_charts(results);
    }
    let mut all = Vec::new();
    for grid in AnswerGrid::of(&results.answers) {
        let t = grid.temperature;
        let mut add =
            |name: &str, svg: String| all.push(Chart::new(format!("{name}-t{t}.svg"), svg));
        let figures: Vec<(&str, Figures)> =
            grid.strategies.iter().map(|&strategy| (strategy, grid.all(strategy))).collect();
        let bars = |title: &str, unit: &str, value: &dyn Fn(&str) -> f64| Bars {
            title: format!("{title}, T = {t}"),
            value: Axis::linear(unit),
            parts: vec![unit.to_owned()],
            bars: grid
                .strategies
                .iter()
                .map(|&name| Bar { name: name.to_owned(), values: vec![value(name)] })
                .collect(),
        };
        let speed = |name: &str| grid.mean_speed_up(name).unwrap_or(0.0);
        add("speed-up", bars("Speed-up, mean of the sets", "relative to plain", &speed).svg()?);
        let tau = |name: &str| grid.mean_tau(name);
        add("tau", bars("τ, mean of the sets", "tokens per target pass", &tau).svg()?);
        add("time", time_split(&format!("Where a round's time goes, T = {t}"), &figures).svg()?);
        let drafted = figures.iter().filter(|(name, f)| *name != PLAIN && !f.accepted.is_empty());
        let series: Vec<Series> = drafted
            .map(|(name, f)| Series {
                name: (*name).to_owned(),
                points: (0..DEPTHS)
                    .map(|at| ((at + 1) as f64, 100.0 * f.accepted.get(at).unwrap_or(&0.0)))
                    .collect(),
            })
            .collect();
        if !series.is_empty() {
            let lines = Lines {
                title: format!("Acceptance by depth, T = {t}"),
                x: "accepted draft tokens, at least".into(),
                y: "% of rounds".into(),
                series,
            };
            add("acceptance", lines.svg()?);
        }
    }
    Ok(all)
}

fn sweep_charts(results: &Results) -> Result<Vec<Chart>, ChartError> {
    let mut all = Vec::new();
    for grid in AnswerGrid::of(&results.answers) {
        for sweep in &results.sweeps {
            let points: Vec<(&str, f64)> = sweep
                .points
                .iter()
                .filter(|(name, _)| grid.strategies.contains(&name.as_str()))
                .filter_map(|(name, value)| Some((name.as_str(), (*value)?)))
                .collect();
            // One point does not make a curve.
            if points.len() < 2 {
                continue;
            }
            let name = file_name(&sweep.title);
            let t = grid.temperature;
            let title = &sweep.title;
            let curve = |label: &str, value: &dyn Fn(&str) -> f64| Series {
                name: label.to_owned(),
                points: points.iter().map(|(name, x)| (*x, value(name))).collect(),
            };
            let x = if points.iter().all(|(_, x)| *x >= 1.0)
                && points.last().is_some_and(|p| p.1 > 16.0)
            {
                Axis::doublings(&sweep.axis)
            } else {
                Axis::linear(&sweep.axis)
            };
            let gain = Lines {
                title: format!("{title}: speed-up and τ, T = {t}"),
                x: x.clone(),
                y: "relative to plain; tokens per pass".into(),
                series: vec![
                    curve("speed-up", &|name| grid.mean_speed_up(name).unwrap_or(f64::NAN)),
                    curve("τ", &|name| grid.mean_tau(name)),
                ],
            };
            all.push(Chart::new(format!("{name}-gain-t{t}.svg"), gain.svg()?));
            let cost = Lines {
                title: format!("{title}: time of a round, T = {t}"),
                x,
                y: "ms".into(),
                series: vec![
                    curve("T_V, verify", &|name| grid.all(name).verify_ms),
                    curve("draft", &|name| grid.all(name).draft_ms),
                ],
            };
            all.push(Chart::new(format!("{name}-cost-t{t}.svg"), cost.svg()?));
            let figures: Vec<(&str, Figures)> =
                points.iter().map(|(name, _)| (*name, grid.all(name))).collect();
            let split =
                time_split(&format!("{title}: where a round's time goes, T = {t}"), &figures);
            all.push(Chart::new(format!("{name}-time-t{t}.svg"), split.svg()?));
        }
    }
    Ok(all)
}

fn time_split(title: &str, figures: &[(&str, Figures)]) -> Bars {
    let bar = |(name, f): &(&str, Figures)| Bar {
        name: (*name).to_owned(),
        values: vec![f.draft_ms, f.verify_ms, f.other_ms, f.wait_ms],
    };
    Bars {
        title: title.to_owned(),
        value: Axis::linear("ms per round"),
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
    use super::super::record::Sweep;
    use super::super::report::tests::results;
    use super::*;

    #[test]
    fn a_run_has_its_charts() {
        let charts = charts(&results(sample())).unwrap();
        let names: Vec<&str> = charts.iter().map(|chart| chart.name.as_str()).collect();
        assert_eq!(names, ["speed-up-t0.svg", "tau-t0.svg", "time-t0.svg", "acceptance-t0.svg"]);
        let svg = &charts[0].svg;
        assert!(svg.contains("dovetail") && svg.contains("plain"), "{svg}");
    }

    #[test]
    fn a_sweep_has_a_curve_if_it_has_two_points() {
        let mut results = results(sample());
        let points = vec![("plain".to_owned(), Some(1.0)), ("dovetail".to_owned(), Some(64.0))];
        let sweep = Sweep { points: points.clone(), ..Sweep::new("By γ, nodes", "γ") };
        results.sweeps = vec![sweep.clone(), Sweep { points: points[..1].to_vec(), ..sweep }];
        let charts = charts(&results).unwrap();
        let names: Vec<&str> = charts.iter().map(|chart| chart.name.as_str()).collect();
        let expected = [
            "by-gamma-nodes-gain-t0.svg",
            "by-gamma-nodes-cost-t0.svg",
            "by-gamma-nodes-time-t0.svg",
        ];
        assert_eq!(names, expected);
    }
}
