//! Progress of a training on stderr: a bar on a terminal, lines elsewhere.

use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};

use crate::cli::exit::report;
use crate::printable::{bytes, printable, printable_line};
use crate::train::run::{Chats, DecodeEval, RunEstimate, Spent, Stage, TrainEvent};
use crate::train::{Measure, StepReport};
use crate::tui::many;

/// The bar's length while the head learns: thousandths of the whole.
const WHOLE: u64 = 1000;
/// Smoothing factor of the rate.
const SMOOTHING: f64 = 0.1;
/// Between two lines of progress where no bar can be drawn: a log of hours stays short and a minute
/// without a sign is rare.
const BETWEEN_LINES: Duration = Duration::from_secs(15);

pub(in crate::cli) struct Show {
    bar: ProgressBar,
    /// The stage under way, its amount and its beginning.
    stage: Option<(Stage, u64, Instant)>,
    /// When the last line of progress was printed.
    lined: Instant,
    /// Tokens a second while training, smoothed.
    rate: Option<f64>,
    /// When training began in this run, and at what progress, for the time left.
    since: Option<(Instant, f64)>,
    refused: usize,
}

impl Show {
    pub fn new() -> Self {
        let bar = ProgressBar::hidden();
        let lined = Instant::now();
        Self { bar, stage: None, lined, rate: None, since: None, refused: 0 }
    }

    pub fn take(&mut self, event: &TrainEvent<'_>) {
        match event {
            TrainEvent::Stage { stage, total } => self.begin(*stage, *total),
            TrainEvent::At(done) => self.at(*done),
            TrainEvent::Fetching(text) => self.fetch(text),
            TrainEvent::Note(text) => self.say(text),
            TrainEvent::Refused { line, why } => self.refuse(*line, why),
            TrainEvent::Chats(chats) => self.say(&chats_line(chats)),
            TrainEvent::Step(step) => self.step(step),
            TrainEvent::Held { measures, tau } => self.say(&held_line(measures, *tau)),
            TrainEvent::DecodeEval(decoded) => {
                for line in decoded_lines(decoded) {
                    self.say(&line);
                }
            }
            TrainEvent::Spent(spent) => self.end(spent),
        }
    }

    pub fn clear(&mut self) {
        self.bar.finish_and_clear();
    }

    fn begin(&mut self, stage: Stage, total: u64) {
        self.clear();
        let (length, style) = match (stage, total) {
            (Stage::Training, _) => (WHOLE, "training {bar:16} {percent} % {msg}"),
            (_, 0) => (0, "{prefix} {spinner} {pos}"),
            _ => (total, "{prefix} {bar:32} {pos}/{len} {rate} {eta} left"),
        };
        let rate = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            // Writing to the bar's buffer cannot fail.
            let _ = write!(out, "{:.0}/s", state.per_sec());
        };
        // The templates above are valid; a mistake in one shows the default bar.
        let style = ProgressStyle::with_template(style)
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .with_key("rate", rate);
        // Draws on a terminal only.
        self.bar = ProgressBar::new(length).with_style(style).with_prefix(stage.name());
        if self.bar.is_hidden() {
            report(&format!("{} …", stage.name()));
        }
        (self.stage, self.lined) = (Some((stage, total, Instant::now())), Instant::now());
    }

    fn at(&mut self, done: u64) {
        self.bar.set_position(done);
        if let (true, Some((stage, total, since))) = (self.line_is_due(), self.stage) {
            report(&stage_line(stage, done, total, since.elapsed()));
        }
    }

    /// Whether a line of progress is to be printed now, in the place of a bar.
    fn line_is_due(&mut self) -> bool {
        let due = self.bar.is_hidden() && self.lined.elapsed() >= BETWEEN_LINES;
        if due {
            self.lined = Instant::now();
        }
        due
    }

    /// On the one line of a spinner, however often it comes.
    fn fetch(&mut self, text: &str) {
        if self.bar.is_hidden() {
            self.bar = ProgressBar::new_spinner();
        }
        self.bar.set_message(printable_line(text).into_owned());
        self.bar.tick();
    }

    fn end(&mut self, spent: &Spent) {
        self.clear();
        let [stage, amount, time, rate, memory] = spent.figures();
        self.say(&format!("{stage}: {amount} in {time}, {rate}, peak memory {memory}"));
    }

    fn step(&mut self, step: &StepReport) {
        let rate = step.tokens as f64 / step.seconds.max(1e-9);
        let rate = self.rate.map_or(rate, |before| before + SMOOTHING * (rate - before));
        self.rate = Some(rate);
        // By the clock: what is measured on the way takes time as well.
        let (since, from) = *self.since.get_or_insert((Instant::now(), step.progress));
        let left = HumanDuration(time_left(since.elapsed(), from, step.progress));
        self.bar.set_position((step.progress * WHOLE as f64) as u64);
        let right = accuracies(&step.measures);
        let message = format!(
            "step {} loss {:.3} top 1/2/3 {right} {rate:.0} tokens/s {left} left",
            step.step, step.loss
        );
        if self.line_is_due() {
            report(&format!("training {:.0} % {message}", 100.0 * step.progress));
        }
        self.bar.set_message(message);
    }

    fn refuse(&mut self, line: usize, why: &str) {
        const SHOWN: usize = 5;
        self.refused += 1;
        if self.refused <= SHOWN {
            self.say(&format!("line {line} skipped: {why}"));
        }
    }

    /// Prints a line above the bar.
    fn say(&self, line: &str) {
        if self.bar.is_hidden() || self.bar.is_finished() {
            report(line);
        } else {
            self.bar.println(printable(line));
        }
    }
}

/// The time that a training still needs if its share grew from `from` to `to` in `spent`.
fn time_left(spent: Duration, from: f64, to: f64) -> Duration {
    let left = spent.as_secs_f64() * (1.0 - to) / (to - from);
    Duration::try_from_secs_f64(left).unwrap_or_default()
}

/// How far a stage is, in a line.
fn stage_line(stage: Stage, done: u64, total: u64, since: Duration) -> String {
    let name = stage.name();
    let unit = stage.unit();
    let rate = done as f64 / since.as_secs_f64().max(1e-9);
    if total == 0 {
        return format!("{name}: {done} {unit}, {rate:.0}/s");
    }
    let left = Duration::from_secs_f64(total.saturating_sub(done) as f64 / rate.max(1e-3));
    let percent = 100.0 * done as f64 / total as f64;
    format!("{name}: {percent:.0} % of {total}, {rate:.0}/s, {} left", HumanDuration(left))
}

/// Top-1/2/3 in percent of the deepest exit: on the target's features, then by steps on its own
/// outputs.
fn accuracies(measures: &[Measure]) -> String {
    let deepest = measures.iter().map(|measure| measure.depth).max().unwrap_or(0);
    let mut steps: Vec<&Measure> =
        measures.iter().filter(|measure| measure.depth == deepest).collect();
    steps.sort_by_key(|measure| measure.step);
    let percent = |measure: &&Measure| {
        let [one, two, three] = measure.right.map(|share| (100.0 * share).round());
        format!("{one}/{two}/{three}")
    };
    steps.iter().map(percent).collect::<Vec<_>>().join(" ")
}

/// What a training will take, for a person to judge.
pub(super) fn estimate_lines(found: &RunEstimate) -> Vec<String> {
    let time = |seconds: f64| HumanDuration(Duration::from_secs_f64(seconds)).to_string();
    let mut lines = vec![format!("chats: {} with {} tokens", found.chats, found.tokens)];
    lines.extend(found.stages.iter().map(|share| {
        let rate = share.amount as f64 / share.seconds.max(1e-9);
        let name = share.stage.name();
        format!("{name}: {} tokens, {rate:.0}/s, {}", share.amount, time(share.seconds))
    }));
    lines.push(format!("total: {}", time(found.seconds())));
    lines.push(format!(
        "on disk: features {}, checkpoint {}, head {}",
        bytes(found.features),
        bytes(found.checkpoint),
        bytes(found.head)
    ));
    lines.push(format!("memory: {}", bytes(found.memory)));
    lines
}

fn chats_line(chats: &Chats) -> String {
    let Chats { lines, used, held, cut, tokens, answers, refused, .. } = chats;
    format!(
        "{used} of {lines} chats used, {held} of them held out, {cut} cut at the window, {refused} \
         skipped; {tokens} tokens, {answers} of them the assistant's"
    )
}

fn held_line(found: &[Measure], tau: Option<f64>) -> String {
    let first = found.first();
    let (vloss, ploss) = first.map_or((0.0, 0.0), |measure| (measure.vloss, measure.ploss));
    let tau = tau.map_or_else(String::new, |tau| format!(", τ {tau:.2}"));
    format!(
        "held out: SmoothL1 {vloss:.3}, cross-entropy {ploss:.3}, top 1/2/3 after 0, 1, … own \
         outputs {} %{tau}",
        accuracies(found)
    )
}

fn decoded_lines(decoded: &DecodeEval) -> Vec<String> {
    let row = |row: &crate::train::run::DecodeRow| match row.blocks {
        0 => format!("plain: {:.0} tokens/s", row.speed()),
        m => format!("{}: τ {:.2}, {:.0} tokens/s", many(m, "block"), row.tau(), row.speed()),
    };
    let same = format!(
        "held-out prompts: {}, same text as plain decoding: {}",
        decoded.prompts, decoded.same
    );
    std::iter::once(same).chain(decoded.rows.iter().map(row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_a_stage_is_and_how_long_it_will_take() {
        let line = |total| stage_line(Stage::Features, 3000, total, Duration::from_secs(10));
        insta::assert_snapshot!(
            line(12_000),
            @"features: 25 % of 12000, 300/s, 30 seconds left"
        );
        insta::assert_snapshot!(line(0), @"features: 3000 tokens, 300/s");
    }

    #[test]
    fn what_is_left_is_told_by_the_clock() {
        let spent = Duration::from_secs(30);
        assert_eq!(time_left(spent, 0.25, 0.5), Duration::from_secs(60));
        assert_eq!(time_left(spent, 0.5, 0.5), Duration::ZERO, "not known yet");
    }

    #[test]
    fn an_estimate_is_a_plan() {
        let share = |stage, amount, seconds| Spent { stage, amount, seconds, peak: 0 };
        let found = RunEstimate {
            chats: 68_000,
            tokens: 40_000_000,
            stages: vec![
                share(Stage::Features, 40_000_000, 8e5),
                share(Stage::Training, 2_000_000_000, 1e7),
            ],
            features: 327_000_000_000,
            checkpoint: 9_600_000_000,
            head: 800_000_000,
            memory: 21_000_000_000,
        };
        assert_eq!(
            estimate_lines(&found),
            [
                "chats: 68000 with 40000000 tokens",
                "features: 40000000 tokens, 50/s, 9 days",
                "training: 2000000000 tokens, 200/s, 17 weeks",
                "total: 18 weeks",
                "on disk: features 327.0 GB, checkpoint 9.6 GB, head 800 MB",
                "memory: 21.0 GB",
            ]
        );
    }

    #[test]
    fn accuracy_is_reported_by_step() {
        let measure = |depth, step, one| Measure {
            depth,
            step,
            right: [one, 0.9, 0.954],
            ..Measure::default()
        };
        let measures = [measure(4, 0, 0.81), measure(2, 0, 0.5), measure(4, 1, 0.7)];
        assert_eq!(accuracies(&measures), "81/90/95 70/90/95");
        assert_eq!(accuracies(&[]), "");
    }
}
