//! `dovetail race`: one prompt answered plain and speculatively, then both played side by side at
//! their own measured times.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};

use super::args::RaceArgs;
use super::backend::{self, WatchedWorker};
use super::exit::{CommandResult, Failure, report};
use super::output::stdout;
use super::settings_file::no_color;
use crate::files::{Access, atomic_write};
use crate::load::Purpose;
use crate::settings::Settings;
use crate::tui::race::{Arrival, Race, race_frame};
use crate::worker::{Event, Job};

/// Time between two frames.
const FRAME: Duration = Duration::from_millis(40);
/// Rows of a frame, and of a recording.
const ROWS: u16 = 16;
/// Columns where there is no terminal to ask.
const COLUMNS: u16 = 100;

pub fn race(args: &RaceArgs) -> CommandResult {
    let settings = backend::settings(&args.shared, &args.shared.settings.0)?;
    // The result has no other place: before minutes are spent on it.
    drop(stdout()?);
    let prompt = args.prompt.join(" ");
    if prompt.trim().is_empty() {
        return Err(Failure::usage(anyhow!("the prompt is empty")));
    }
    let worker = WatchedWorker::start(&args.shared, &settings, Purpose::Chat, None)?;
    let mut stage = RaceStage::on_terminal();
    let race = measured(&settings, &prompt, &worker, stage.as_mut())?;
    show(args, &race, stage)
}

/// Both answers, one after the other; on the stage as they come.
fn measured(
    settings: &Settings,
    prompt: &str,
    worker: &WatchedWorker,
    mut stage: Option<&mut RaceStage>,
) -> Result<Race, Failure> {
    let mut race = Race::default();
    let mut generation = 0;
    let mut ask = |race: &Race| {
        generation += 1;
        worker.controls().update(|controls| race.prepare(controls));
        let most = settings.max_tokens.or(Race::LONGEST);
        let job = backend::job(settings, prompt, generation, most);
        worker.ask(Job { afresh: true, ..job })
    };
    while race.measuring() {
        let event = worker.next()?;
        match &event {
            Event::Ready(ready) => {
                backend::needs_drafts(ready)?;
                let named = settings.strategy.map(|strategy| strategy.name);
                let in_force = named.unwrap_or(&ready.strategy);
                race = Race::new(in_force, ready.models.is_bundled());
                ask(&race)?;
            }
            Event::Failed { generation, error } => {
                return Err(backend::failure(*generation, error));
            }
            Event::Notice(text) => {
                report(&format!("note: {text}"));
                if let Some(stage) = &mut stage {
                    // The next frame is drawn below it.
                    stage.drawn = None;
                }
            }
            event => {
                if race.take(event) && race.measuring() {
                    ask(&race)?;
                }
                if let Some(stage) = stage.as_mut().filter(|stage| stage.is_due()) {
                    stage.draw(&race, 0.0)?;
                }
            }
        }
    }
    Ok(race)
}

/// Rows of the terminal that a race is drawn on, over and over.
struct RaceStage {
    columns: u16,
    rows: u16,
    drawn: Option<Instant>,
}

impl RaceStage {
    /// On the terminal, if stdout is one.
    fn on_terminal() -> Option<Self> {
        let (columns, rows) = io::stdout()
            .is_terminal()
            .then(|| crossterm::terminal::size().unwrap_or((COLUMNS, ROWS + 2)))?;
        let rows = ROWS.min(rows.saturating_sub(1)).max(4);
        Some(Self { columns: columns.min(124), rows, drawn: None })
    }

    /// Draws the race as it is after `ms`, over the frame before.
    fn draw(&mut self, race: &Race, ms: f64) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let frame = race_frame(race, ms, self.columns, self.rows, !no_color());
        let up = self.drawn.map(|_| format!("\x1b[{}A", self.rows)).unwrap_or_default();
        self.drawn = Some(Instant::now());
        write!(out, "{up}{frame}").and_then(|()| out.flush())
    }

    /// Whether the next frame is due.
    fn is_due(&self) -> bool {
        self.drawn.is_none_or(|drawn| drawn.elapsed() >= FRAME)
    }
}

/// Plays it on the stage, or prints its figures where there is none; into a recording, if one is
/// asked for.
fn show(args: &RaceArgs, race: &Race, stage: Option<RaceStage>) -> CommandResult {
    if let Some(path) = &args.cast {
        record(path, race).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(mut stage) = stage {
        let began = Instant::now();
        loop {
            let ms = began.elapsed().as_secs_f64() * 1e3;
            stage.draw(race, ms)?;
            if ms >= race.length_ms() {
                return Ok(());
            }
            std::thread::sleep(FRAME);
        }
    }
    let mut out = io::stdout().lock();
    for (name, lane) in ["plain", "speculative"].iter().zip(&race.lanes) {
        let Arrival { at_ms, tokens, rounds, .. } = lane.end();
        let seconds = at_ms / 1e3;
        let time = if race.counts_rounds { String::new() } else { format!(", {seconds:.2} s") };
        writeln!(out, "{name:<12} {tokens} tokens in {rounds} rounds{time}")?;
    }
    writeln!(out, "{}", race.result())?;
    Ok(())
}

/// Writes the play as an asciicast (version 2), which asciinema plays.
fn record(path: &Path, race: &Race) -> io::Result<()> {
    atomic_write(path, Access::Private, |file| play(io::BufWriter::new(file), race))
}

fn play(mut file: impl Write, race: &Race) -> io::Result<()> {
    let title = "dovetail race";
    let header =
        serde_json::json!({"version": 2, "width": COLUMNS, "height": ROWS + 1, "title": title});
    writeln!(file, "{header}")?;
    let step = FRAME.as_secs_f64() * 1e3;
    let frames = (race.length_ms() / step).ceil() as usize;
    let mut before: Vec<String> = Vec::new();
    for frame in 0..=frames {
        let ms = frame as f64 * step;
        let now = race_frame(race, ms, COLUMNS, ROWS, true);
        let rows: Vec<String> = now.split('\n').map(str::to_owned).collect();
        // Only the rows that have changed: a recording is to be small.
        let changed = rows.iter().enumerate().filter(|(at, row)| before.get(*at) != Some(row));
        let text: String = changed.map(|(at, row)| format!("\x1b[{};1H{row}", at + 1)).collect();
        if !text.is_empty() {
            writeln!(file, "{}", serde_json::json!([ms / 1e3, "o", text]))?;
        }
        before = rows;
    }
    file.flush()
}
