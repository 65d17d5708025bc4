//! The log of a training: a JSON line per step, and the loss curve drawn from it. It must never
//! decide what is measured.

use std::io::Write;

use serde::{Deserialize, Serialize};

use super::run_dir::RunDir;
use crate::chart::{Lines, Series};
use crate::train::files::{LineFile, whole};
use crate::train::{Measure, Options, Result, StepReport};

const FILE: &str = "log.jsonl";
const CURVE: &str = "loss.svg";
/// How many points the training's curve has: each is the mean of several steps.
const POINTS: usize = 100;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LogLine {
    /// A step of the optimiser.
    Step(StepReport),
    /// Measures on held-out chats after a number of steps.
    Held {
        step: u64,
        measures: Vec<Measure>,
        /// On held-out prompts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tau: Option<f64>,
    },
}

impl LogLine {
    fn step(&self) -> u64 {
        match self {
            Self::Step(report) => report.step,
            Self::Held { step, .. } => *step,
        }
    }
}

pub(super) struct Log {
    dir: RunDir,
    file: LineFile,
    entries: Vec<LogLine>,
}

impl Log {
    /// Resumes after `steps` steps. Lines of later steps are dropped, because those steps are run
    /// again.
    pub fn open(dir: &RunDir, steps: u64) -> Result<Self> {
        let kept = |line: &LogLine| line.step() <= steps;
        let (file, entries) = LineFile::resume(dir.out.join(FILE), kept)?;
        Ok(Self { dir: dir.clone(), file, entries })
    }

    /// Adds a step.
    pub fn step(&mut self, report: &StepReport) -> Result<()> {
        self.add(LogLine::Step(report.clone()))
    }

    /// Adds measures on held-out chats.
    pub fn held(&mut self, step: u64, measures: &[Measure], tau: Option<f64>) -> Result<()> {
        self.add(LogLine::Held { step, measures: measures.to_vec(), tau })
    }

    fn add(&mut self, entry: LogLine) -> Result<()> {
        let written = self.file.add(&entry);
        self.entries.push(entry);
        written
    }

    /// Draws the loss of the deepest exit on the target's features, during training and on held-out
    /// chats.
    pub fn draw(&self, options: &Options) -> Result<()> {
        let loss =
            |measure: &Measure| options.vloss * measure.vloss + options.ploss * measure.ploss;
        let mut trained: Vec<(f64, f64)> = Vec::new();
        let mut held = Vec::new();
        for entry in &self.entries {
            match entry {
                LogLine::Step(report) => {
                    let first = report.measures.first();
                    trained.extend(first.map(|measure| (report.step as f64, loss(measure))));
                }
                LogLine::Held { step, measures, .. } => {
                    let first =
                        measures.iter().filter(|measure| measure.step == 0).max_by_key(|m| m.depth);
                    held.extend(first.map(|measure| (*step as f64, loss(measure))));
                }
            }
        }
        let series = |name: &str, points| Series { name: name.to_owned(), points };
        let chart = Lines {
            title: "Loss on the target's features, last block".to_owned(),
            x: "steps".into(),
            doublings: false,
            y: "loss".into(),
            series: vec![series("training", means(&trained)), series("held-out chats", held)],
        };
        let Some(text) = chart.svg() else { return Ok(()) };
        whole(&self.dir.out.join(CURVE), |file| file.write_all(text.as_bytes()))
    }
}

/// At most [`POINTS`] points, each the mean of its neighbours.
fn means(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mean = |points: &[(f64, f64)]| {
        let n = points.len() as f64;
        let sum = points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        (sum.0 / n, sum.1 / n)
    };
    points.chunks(points.len().div_ceil(POINTS).max(1)).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn report(step: u64) -> StepReport {
        let measure = Measure { depth: 1, ploss: 1.0 / step as f64, ..Measure::default() };
        StepReport { step, measures: vec![measure], ..StepReport::default() }
    }

    #[test]
    fn a_log_goes_on_at_the_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir { out: folder.path().to_owned() };
        let mut log = Log::open(&dir, 0).unwrap();
        for step in 1..=5 {
            log.step(&report(step)).unwrap();
        }
        log.held(5, &report(5).measures, Some(1.5)).unwrap();
        let log = Log::open(&dir, 3).unwrap();
        let kept: Vec<_> = (1..=3).map(|step| LogLine::Step(report(step))).collect();
        assert_eq!(log.entries, kept);
        log.draw(&Options::default()).unwrap();
        let svg = fs::read_to_string(folder.path().join(CURVE)).unwrap();
        assert!(svg.contains("held-out chats"), "{svg}");
    }

    #[test]
    fn a_long_training_is_drawn_with_few_points() {
        let points: Vec<_> = (0..1234).map(|i| (f64::from(i), 2.0)).collect();
        let drawn = means(&points);
        assert!(drawn.len() <= POINTS && drawn.iter().all(|point| point.1 == 2.0));
        assert_eq!(means(&points[..3]), points[..3]);
        assert!(means(&[]).is_empty());
    }
}
