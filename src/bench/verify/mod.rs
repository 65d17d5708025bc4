//! `bench verify`: T_V(γ), the time of one forward pass of the target over the γ nodes of a tree,
//! beside the roofline of the machine it ran on and, if asked, beside candle's product. Must never
//! know drafters.

mod candle;
mod report;

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::bench::MeasureError;
use crate::kernels::{Format, KvFormat, Pool, Roofline};
use crate::library::{Spec, open_target};
use crate::model::{CpuTarget, KnownShape, LoadRequest, PassTiming, Target};
use crate::speculate::Tree;

use candle::CandlePass;
use report::{Medians, Report};

/// What is measured.
#[derive(Clone, Debug)]
pub enum Subject {
    /// Random weights of a known shape, all matrices in one format.
    Shape(KnownShape, Format),
    /// A model's own weights.
    Model(Spec),
}

/// How it is measured.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// Numbers of tree nodes.
    pub gammas: Vec<usize>,
    /// Committed positions in front of the tree.
    pub context: usize,
    /// Compute threads.
    pub threads: usize,
    /// Elements of the KV cache.
    pub kv: KvFormat,
    /// Whether to run candle's product in turn with ours.
    pub against_candle: bool,
    /// End within 40 seconds at the price of fewer repetitions.
    pub quick: bool,
    /// One JSON object in place of the table.
    pub json: bool,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self {
            gammas: vec![1, 2, 4, 8, 16, 24, 32],
            context: 256,
            threads: 1,
            kv: KvFormat::F16,
            against_candle: false,
            quick: false,
            json: false,
        }
    }
}

impl VerifyOptions {
    /// Positions that the largest pass needs.
    fn positions(&self) -> Result<usize, MeasureError> {
        if self.gammas.contains(&0) {
            let reason = "γ counts the root, so it is at least 1, not 0";
            return Err(MeasureError::Options(reason.to_owned()));
        }
        match self.gammas.iter().max() {
            Some(most) => Ok(self.context + most),
            None => Err(MeasureError::Options("no γ to measure; give --gammas 1,8,16".to_owned())),
        }
    }
}

/// Loads the subject, measures it and writes the result to `out`.
///
/// # Errors
/// [`MeasureError`].
pub fn run(
    subject: &Subject,
    options: &VerifyOptions,
    out: &mut dyn Write,
) -> Result<(), MeasureError> {
    let started = Instant::now();
    let positions = options.positions()?;
    let pool = Arc::new(Pool::new(options.threads));
    let (name, target) = match subject {
        Subject::Shape(shape, format) => {
            let target =
                CpuTarget::random(&shape.config(), *format, 1, pool, positions, options.kv)?;
            (format!("{} shape, {}, random weights", shape.name(), format.described()), target)
        }
        Subject::Model(spec) => {
            let files = open_target(spec, &mut |_| {})?;
            let (config, source) = (&files.config, files.weights.as_ref());
            let (capacity, kv) = (positions, options.kv);
            let request = LoadRequest { config, source, pool, capacity, kv };
            let target = CpuTarget::load(&request, &mut |_| {})?;
            (format!("{}: {}", files.name, files.detail), target)
        }
    };
    measure_target(name, target, options, started, out)
}

/// Measures a loaded target, whose own threads and KV cache then count. Ends in time for what
/// began at `started`.
///
/// # Errors
/// [`MeasureError`].
pub fn measure_target(
    name: String,
    mut target: CpuTarget,
    options: &VerifyOptions,
    started: Instant,
    out: &mut dyn Write,
) -> Result<(), MeasureError> {
    let positions = options.positions()?;
    if target.capacity() < positions {
        return Err(MeasureError::Options(format!(
            "this context and γ need {positions} positions, but the model was loaded for {}",
            target.capacity()
        )));
    }
    let candle = if options.against_candle {
        Some(CandlePass::new(target.config(), target.format())?)
    } else {
        None
    };
    let roofline = Roofline::measure(target.pool())?;
    target.assume_context(options.context);
    let allowed = Duration::from_secs(if options.quick { 34 } else { 120 });
    let rows = measure(&mut target, candle.as_ref(), options, started + allowed)?;
    let prefill = if options.quick { None } else { Some(prefill_rate(&mut target)?) };
    let report = Report::new(name, &target, options, roofline, rows, prefill);
    if options.json {
        report.json(out)?
    } else {
        report.table(out)?
    }
    Ok(())
}

/// All γ in turn, over and over, so that a change in the machine's state meets all of them; the
/// median counts.
fn measure(
    target: &mut CpuTarget,
    candle: Option<&CandlePass>,
    options: &VerifyOptions,
    until: Instant,
) -> Result<Vec<Medians>, MeasureError> {
    const MOST_TURNS: usize = 15;
    let trees: Vec<Tree> = options.gammas.iter().map(|&gamma| bushy(gamma)).collect();
    let mut samples = vec![(Vec::new(), Vec::new()); trees.len()];
    // The first turn warms up and does not count.
    for turn in 0..=MOST_TURNS {
        let begin = Instant::now();
        for (tree, (ours, theirs)) in trees.iter().zip(&mut samples) {
            let start = Instant::now();
            target.verify(tree)?;
            let sample = (start.elapsed(), target.last_pass());
            let rival = match candle {
                Some(candle) => {
                    let start = Instant::now();
                    candle.run(tree.len())?;
                    Some(start.elapsed())
                }
                None => None,
            };
            if turn > 0 {
                ours.push(sample);
                theirs.extend(rival);
            }
        }
        let now = Instant::now();
        if turn > 0 && now + (now - begin) > until {
            break;
        }
    }
    Ok(options
        .gammas
        .iter()
        .zip(samples)
        .map(|(&gamma, (ours, theirs))| {
            let (whole, parts) = median(ours, |sample: &(Duration, PassTiming)| sample.0);
            let candle = (!theirs.is_empty()).then(|| median(theirs, |&time| time));
            Medians { gamma, whole, parts, candle }
        })
        .collect())
}

/// Tokens a second of a prompt as long as fits, up to one chunk.
fn prefill_rate(target: &mut CpuTarget) -> Result<f64, MeasureError> {
    let count = target.capacity().min(256);
    let tokens: Vec<u32> = (0..count as u32).map(|i| i % target.vocab() as u32).collect();
    target.truncate(0);
    let start = Instant::now();
    target.prefill(&tokens)?;
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

/// The sample in the middle; there is at least one.
fn median<T: Copy>(mut samples: Vec<T>, key: impl Fn(&T) -> Duration) -> T {
    samples.sort_by_key(key);
    samples[samples.len() / 2]
}

/// A tree of three children a node.
fn bushy(gamma: usize) -> Tree {
    let mut tree = Tree::root(1);
    for node in 1..gamma {
        tree.push((node - 1) / 3, node as u32 + 1, -1.0);
    }
    tree
}
