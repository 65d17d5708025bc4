//! T_V(γ): the time of one forward pass of the target over the γ nodes of a tree, compared with the
//! limits of the machine that it ran on. It must not depend on drafters.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::bench::MeasureError;
use crate::bench::table::{Table, percent, two_digits};
use crate::kernels::Roofline;
use crate::load::sizes;
use crate::model::{CpuTarget, PassTiming, Target};
use crate::speculate::Tree;

/// The most passes that count for each γ.
const TURNS: usize = 15;
/// The most tokens of the prompt that is read.
const PROMPT: usize = 256;

/// What to time.
#[derive(Clone, Debug)]
pub struct PassOptions {
    /// Numbers of tree nodes.
    pub gammas: Vec<usize>,
    /// Committed positions before the tree.
    pub context: usize,
    /// No further turn begins after this time.
    pub limit: Duration,
    /// Whether to read a prompt as well.
    pub prefill: bool,
}

impl PassOptions {
    /// The positions that the largest pass needs.
    ///
    /// # Errors
    /// [`MeasureError::Options`] if there is nothing to measure.
    pub fn positions(&self) -> Result<usize, MeasureError> {
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

/// What passes of a target cost.
#[derive(Clone, Debug, Serialize)]
pub struct Passes {
    threads: usize,
    isa: &'static str,
    context: usize,
    kv: &'static str,
    /// Bytes of weights that a pass over one node reads.
    weight_bytes: u64,
    limits: Roofline,
    rows: Vec<PassRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefill_tokens_s: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct PassRow {
    gamma: usize,
    ms: f64,
    /// The time relative to that of the first γ.
    ratio: f64,
    gb_s: f64,
    gb_s_share: f64,
    gop_s: f64,
    gop_s_share: f64,
    products_ms: f64,
    attention_ms: f64,
    other_ms: f64,
}

/// Times passes of a loaded target, which then has nothing committed.
///
/// # Errors
/// [`MeasureError`].
pub fn time_passes(target: &mut CpuTarget, options: &PassOptions) -> Result<Passes, MeasureError> {
    let positions = options.positions()?;
    if target.capacity() < positions {
        return Err(MeasureError::Options(format!(
            "this context and γ need {positions} positions, but the model was loaded for {}",
            target.capacity()
        )));
    }
    let roofline = Roofline::measure(target.pool())?;
    target.assume_context(options.context);
    let trees: Vec<Tree> = options.gammas.iter().map(|&gamma| bushy(gamma)).collect();
    let samples = in_turn(trees.len(), TURNS, Instant::now() + options.limit, |at| {
        let start = Instant::now();
        target.verify(&trees[at])?;
        Ok((start.elapsed(), target.last_pass()))
    })?;
    let medians: Vec<(Duration, PassTiming)> = samples
        .into_iter()
        .map(|samples| median(samples, |(whole, _)| whole.as_secs_f64()))
        .collect();
    let prefill_tokens_s = if options.prefill { Some(prefill_rate(target)?) } else { None };
    target.truncate(0);
    let size = sizes::of_target(target);
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let first = medians.first().map_or(1.0, |(whole, _)| whole.as_secs_f64());
    let row = |(&gamma, (whole, parts)): (&usize, &(Duration, PassTiming))| {
        let seconds = whole.as_secs_f64();
        let gb_s = size.bytes_read(gamma) / seconds / 1e9;
        // One multiplication and one addition per weight and row.
        let operations = 2.0 * size.weights as f64 * gamma as f64;
        let gop_s = operations / seconds / 1e9;
        PassRow {
            gamma,
            ms: ms(*whole),
            ratio: seconds / first,
            gb_s,
            gb_s_share: gb_s / roofline.read_gb_s,
            gop_s,
            gop_s_share: gop_s / roofline.int8_gop_s,
            products_ms: ms(parts.products),
            attention_ms: ms(parts.attention),
            other_ms: ms(parts.other),
        }
    };
    Ok(Passes {
        threads: target.pool().threads(),
        isa: target.pool().isa().name(),
        context: options.context,
        kv: target.kv_format().name(),
        weight_bytes: size.bytes_read(1) as u64,
        limits: roofline,
        rows: options.gammas.iter().zip(&medians).map(row).collect(),
        prefill_tokens_s,
    })
}

/// Tokens per second of a prompt as long as fits, up to one chunk.
fn prefill_rate(target: &mut CpuTarget) -> Result<f64, MeasureError> {
    let count = target.capacity().min(PROMPT);
    let tokens: Vec<u32> = (0..count as u32).map(|i| i % target.vocab() as u32).collect();
    target.truncate(0);
    let start = Instant::now();
    target.prefill(&tokens)?;
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

/// A tree with three children per node.
fn bushy(gamma: usize) -> Tree {
    let mut tree = Tree::root(1);
    for node in 1..gamma {
        tree.push((node - 1) / 3, node as u32 + 1, -1.0);
    }
    tree
}

impl Passes {
    /// The table of passes.
    pub fn table(&self) -> Table {
        let Self { threads, isa, context, kv, limits, .. } = self;
        let head = ["γ", "ms", "ratio", "GB/s", "of limit", "GOP/s", "of limit"];
        let parts = ["products", "attention", "other"];
        let row = |row: &PassRow| {
            vec![
                row.gamma.to_string(),
                two_digits(row.ms),
                two_digits(row.ratio),
                format!("{:.1}", row.gb_s),
                percent(row.gb_s_share),
                format!("{:.0}", row.gop_s),
                percent(row.gop_s_share),
                two_digits(row.products_ms),
                two_digits(row.attention_ms),
                two_digits(row.other_ms),
            ]
        };
        let plural = if *threads == 1 { "thread" } else { "threads" };
        let prefill = self
            .prefill_tokens_s
            .map_or_else(String::new, |rate| format!(" Reading a prompt: {rate:.0} tokens/s."));
        Table::new("A pass of the target, on the CPU", &[&head[..], &parts].concat())
            .with_rows(self.rows.iter().map(row))
            .with_note(format!(
                "{threads} {plural}, {isa}; context {context}, KV {kv}. Limits, measured in this \
                 run: memory read {:.1} GB/s, int8 {:.0} GOP/s.{prefill}",
                limits.read_gb_s, limits.int8_gop_s
            ))
            .with_note(
                "Medians of passes in turn. Ratio: time relative to the first γ. Products, \
                 attention, other: the parts of the time, in ms.",
            )
    }
}

/// Takes samples of `count` things in turn, over and over, so that a change in the machine's state
/// affects all of them. The first turn warms up and does not count. After `turns` that count, or if
/// another turn would end after `until`, it is done; one turn counts in any case.
///
/// # Errors
/// The first error of `sample`, which is called with the index of the thing.
fn in_turn<T>(
    count: usize,
    turns: usize,
    until: Instant,
    mut sample: impl FnMut(usize) -> Result<T, MeasureError>,
) -> Result<Vec<Vec<T>>, MeasureError> {
    let mut all: Vec<Vec<T>> = (0..count).map(|_| Vec::new()).collect();
    for turn in 0..=turns {
        let start = Instant::now();
        for (at, samples) in all.iter_mut().enumerate() {
            let taken = sample(at)?;
            if turn > 0 {
                samples.push(taken);
            }
        }
        let now = Instant::now();
        if turn > 0 && now + (now - start) > until {
            break;
        }
    }
    Ok(all)
}

/// The sample in the middle; there is at least one.
fn median<T: Copy>(mut samples: Vec<T>, key: impl Fn(&T) -> f64) -> T {
    samples.sort_by(|a, b| key(a).total_cmp(&key(b)));
    samples[samples.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::TableStyle;
    use crate::bench::table::tests::text;

    fn sample() -> Passes {
        let row = |gamma: usize, ms: f64| PassRow {
            gamma,
            ms,
            ratio: ms / 80.0,
            gb_s: 3800.0 / ms,
            gb_s_share: 3800.0 / ms / 62.5,
            gop_s: 13_215.0 * gamma as f64 / ms,
            gop_s_share: 13_215.0 * gamma as f64 / ms / 930.0,
            products_ms: ms * 0.875,
            attention_ms: ms * 0.0625,
            other_ms: ms * 0.0625,
        };
        Passes {
            threads: 2,
            isa: "avx512",
            context: 256,
            kv: "f16",
            weight_bytes: 3_800_000_000,
            limits: Roofline { read_gb_s: 62.5, int8_gop_s: 930.0 },
            rows: vec![row(1, 80.0), row(16, 320.0)],
            prefill_tokens_s: Some(53.0),
        }
    }

    #[test]
    fn the_table_of_passes() {
        insta::assert_snapshot!(text(&[sample().table()], TableStyle::Plain));
    }

    #[test]
    fn the_first_turn_does_not_count_and_one_does_in_any_case() {
        let run = |turns, until| {
            let mut order = Vec::new();
            let samples = in_turn(2, turns, until, |at| {
                order.push(at);
                Ok(order.len())
            });
            (samples.unwrap(), order)
        };
        let (samples, order) = run(3, Instant::now() + Duration::from_secs(60));
        assert_eq!(order, [0, 1, 0, 1, 0, 1, 0, 1]);
        assert_eq!(samples, [[3, 5, 7], [4, 6, 8]]);
        let (samples, order) = run(3, Instant::now() - Duration::from_secs(1));
        assert_eq!((samples, order.len()), (vec![vec![3], vec![4]], 4));
        assert_eq!(median(vec![9.0, 1.0, 2.0], |&x| x), 2.0);
    }
}
