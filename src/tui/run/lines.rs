//! The chat as lines, for screen readers: the same state and effects as the screen, but nothing is
//! drawn again and nothing moves. What changes is said in words, once. Must never change the state.

use std::io::{self, BufRead, IsTerminal, Write};

use tokio::sync::mpsc::{Receiver, UnboundedReceiver, channel};

use super::{
    App, Begun, Found, NotOpened, ScreenConfig, Signal, begin, guarded, signals, spawn, terminal,
};
use crate::chat::Role;
use crate::printable::{printable, printable_line};
use crate::settings::ThemeName;
use crate::tui::chat::{AnswerOutcome, CHOICES, footer};
use crate::tui::commands::COMMANDS;
use crate::tui::controls::caption;
use crate::tui::effects::Left;
use crate::tui::event::ScreenEvent;
use crate::tui::models::Phase;
use crate::tui::overlays::{Overlay, view::page};
use crate::tui::state::ScreenState;
use crate::tui::theme;
use crate::tui::toasts::{Ends, Toast, Tone};
use crate::worker::{Event, SharedControls, Sink, Worker};

/// What a line of the input is, or that there are no more.
type Typed = Option<Vec<u8>>;

/// Talks in lines until the input ends or the user leaves, as [`super::run`] shows the screen.
///
/// # Errors
/// [`NotOpened`]; the worker cannot be started, or nothing can be written any more.
pub fn run_lines(
    config: ScreenConfig,
    controls: SharedControls,
    start: impl FnOnce(SharedControls, Sink) -> anyhow::Result<Worker>,
) -> anyhow::Result<Left> {
    let Begun { app, runtime, events, found, early, open } = begin(config, controls, start)?;
    let (_sender, signals) = signals::listen(false)?;
    guarded(app, |app| {
        app.open(open);
        let mut spoken = Spoken::default();
        for event in early {
            spoken.take(app, ScreenEvent::Worker(event))?;
        }
        runtime.block_on(talk(app, &mut spoken, signals, typed(), events, found))
    })
}

/// The lines of the input, read on a thread of its own; one waits at most.
fn typed() -> Receiver<Typed> {
    let (sender, lines) = channel(1);
    spawn("dovetail-lines", move || {
        let mut input = io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let more = matches!(input.read_until(b'\n', &mut line), Ok(1..));
            if sender.blocking_send(more.then_some(line)).is_err() || !more {
                return;
            }
        }
    });
    lines
}

async fn talk(
    app: &mut App,
    spoken: &mut Spoken,
    mut signals: UnboundedReceiver<Signal>,
    mut lines: Receiver<Typed>,
    mut events: UnboundedReceiver<Event>,
    mut found: UnboundedReceiver<Found>,
) -> anyhow::Result<()> {
    let mut alive = true;
    while !app.ended {
        let busy =
            matches!(app.state.models.phase, Phase::Answering { .. } | Phase::Loading { .. });
        // What is typed meanwhile waits, so that it is about what was heard before it.
        let listens = !busy && app.awaited.get() == 0;
        if listens {
            spoken.prompt()?;
        }
        app.save_in_time();
        let saves_at = app.saves_at();
        let save = async {
            match saves_at {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(signal) = signals.recv() => match signal {
                Signal::End => spoken.take(app, ScreenEvent::Terminate)?,
                Signal::Interrupt => spoken.take(app, ScreenEvent::Interrupt)?,
                Signal::Stop => signals::stop()?,
                Signal::Continue => spoken.prompted = false,
                Signal::Resize => {}
            },
            event = events.recv(), if alive => match event {
                Some(Event::Failed { generation: None, error })
                    if app.state.models.ready.is_none() =>
                {
                    return Err(NotOpened(error).into());
                }
                Some(event) => spoken.take(app, ScreenEvent::Worker(event))?,
                None => {
                    alive = false;
                    spoken.take(app, ScreenEvent::WorkerGone(terminal::worker_panic()))?;
                }
            },
            Some(found) = found.recv() => if let Some(event) = app.arrived(found) {
                spoken.take(app, event)?;
            },
            line = lines.recv(), if listens => match line.flatten() {
                Some(line) => spoken.line(app, &line)?,
                None => spoken.take(app, ScreenEvent::Terminate)?,
            },
            () = save => {}
        }
    }
    Ok(spoken.end_line()?)
}

/// What was said so far.
#[derive(Default)]
struct Spoken {
    /// Whether a line has begun and not ended.
    within: bool,
    /// Whether the prompt is the last that was said.
    prompted: bool,
    /// What is being loaded.
    stage: String,
    ready: bool,
    /// The answer that is being said: its generation, bytes of thoughts and of text.
    answer: (u64, usize, usize),
    /// Whether it has not ended, and who speaks in it.
    open: bool,
    speaker: String,
    toast: Option<Toast>,
    /// The box that was read out.
    read: String,
    /// The rounds of the last answer, each in a sentence.
    rounds: Vec<String>,
}

impl Spoken {
    /// Handles an event and says what it changed.
    fn take(&mut self, app: &mut App, event: ScreenEvent) -> io::Result<()> {
        match &event {
            ScreenEvent::Worker(Event::Notice(text)) => self.say(&format!("Note: {text}"))?,
            ScreenEvent::Worker(Event::Round { round, .. }) => {
                let words: String = round.committed.iter().map(|it| it.text.as_str()).collect();
                let number = self.rounds.len() + 1;
                self.rounds.push(format!("Round {number}, {}: {words:?}", caption(round)));
            }
            _ => {}
        }
        let is_opened = matches!(event, ScreenEvent::Loaded(Ok(_)));
        app.take(event);
        self.changes(&app.state)?;
        let last = app.state.chat.turns().iter().rev().take(2).rev();
        for turn in last.filter(|_| is_opened) {
            let who = if turn.role == Role::User { "You said" } else { "The answer was" };
            self.say(&format!("{who}: {}", turn.text))?;
        }
        Ok(())
    }

    /// A line was typed.
    fn line(&mut self, app: &mut App, bytes: &[u8]) -> io::Result<()> {
        let line = String::from_utf8_lossy(bytes);
        let line = line.trim_end_matches(['\n', '\r']);
        // A terminal shows what is typed, and its end.
        if !io::stdin().is_terminal() {
            writeln!(io::stdout(), "{}", printable(line))?;
        }
        (self.within, self.prompted) = (false, false);
        if std::str::from_utf8(bytes).is_err() {
            self.say("Note: bytes that are not UTF-8 were replaced in this line.")?;
        }
        self.read.clear();
        match line.trim() {
            "/rounds" if self.rounds.is_empty() => self.say("There are no rounds yet."),
            "/rounds" => self.say(&self.rounds.join("\n")),
            _ => self.take(app, ScreenEvent::Line(line.to_string())),
        }
    }

    fn prompt(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.prompted, true) {
            self.end_line()?;
            write!(io::stdout(), "You: ")?;
            self.within = true;
        }
        io::stdout().flush()
    }

    fn end_line(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.within) { writeln!(io::stdout()) } else { Ok(()) }
    }

    /// Says a sentence on a line of its own.
    fn say(&mut self, words: &str) -> io::Result<()> {
        self.end_line()?;
        self.prompted = false;
        writeln!(io::stdout(), "{}", printable(words.trim_end()))?;
        io::stdout().flush()
    }

    /// Says what has changed since the last time.
    fn changes(&mut self, state: &ScreenState) -> io::Result<()> {
        self.loading(state)?;
        self.answer(state)?;
        let toast = state.toasts.shown();
        if toast != self.toast.as_ref() {
            self.toast = toast.cloned();
            // Notices of the worker were said as they came.
            if let Some(toast) = toast.filter(|toast| toast.ends != Ends::Never) {
                let wrong = if toast.tone == Tone::Wrong { "Error: " } else { "" };
                self.say(&format!("{wrong}{}", toast.text))?;
            }
        }
        self.read_box(state)
    }

    fn loading(&mut self, state: &ScreenState) -> io::Result<()> {
        let stage = match (&state.models.phase, &state.models.load) {
            (Phase::Loading { stage, .. }, _) => format!("Loading the model: {stage}."),
            (_, Some(load)) => format!("{}: {}. Ctrl+C stops it.", load.title, load.stage),
            _ => String::new(),
        };
        if stage != self.stage {
            self.stage = stage.clone();
            if !stage.is_empty() {
                self.say(&stage)?;
            }
        }
        if !self.ready && state.models.ready.is_some() {
            self.ready = true;
            let target = printable_line(state.models.target());
            self.say(&format!(
                "{target} is ready. Type a message and press Enter. Ctrl+C stops an answer, \
                 /rounds tells its rounds, /help lists the commands, /quit leaves."
            ))?;
        }
        Ok(())
    }

    /// Says what came of the answer.
    fn answer(&mut self, state: &ScreenState) -> io::Result<()> {
        let turn = state.chat.turns().last().filter(|turn| turn.role == Role::Assistant);
        let generation = state.generation();
        if state.answering() && self.answer.0 != generation && !state.racing() {
            let said = turn
                .map_or((0, 0), |turn| (turn.thought_text().map_or(0, str::len), turn.text.len()));
            self.answer = (generation, said.0, said.1);
            self.open = state.chat.summarising.is_none();
            self.speaker.clear();
            self.rounds.clear();
            if !self.open {
                self.say("The oldest exchanges are being summarised.")?;
            }
        }
        if !self.open {
            return Ok(());
        }
        let Some(turn) = turn else {
            self.open = false;
            return Ok(());
        };
        let name = printable_line(state.models.target());
        let (_, thought, text) = self.answer;
        self.speak(&format!("{name} thinks"), turn.thought_text().unwrap_or_default(), thought)?;
        self.speak(&name, &turn.text, text)?;
        self.answer.1 = turn.thought_text().map_or(0, str::len);
        self.answer.2 = turn.text.len();
        let Some(outcome) = turn.outcome else { return Ok(()) };
        self.open = false;
        self.end_line()?;
        if !matches!(outcome, AnswerOutcome::Ended(None) | AnswerOutcome::Failed) {
            let goes_on = if turn.goes_on() { " /continue continues it." } else { "" };
            self.say(&format!("The answer was cut: {}.{goes_on}", footer::words(turn).join(", ")))?;
        }
        match state.context().and_then(|context| context.warning(usize::MAX)) {
            Some(warning) => self.say(&format!("Note: {warning}.")),
            None => Ok(()),
        }
    }

    /// Says the text from byte `from` on, after the name of who speaks if that has changed.
    fn speak(&mut self, who: &str, text: &str, from: usize) -> io::Result<()> {
        let Some(new) = text.get(from..).filter(|new| !new.is_empty()) else { return Ok(()) };
        if self.speaker != who {
            self.end_line()?;
            write!(io::stdout(), "{who}: ")?;
            self.speaker = who.to_string();
        }
        write!(io::stdout(), "{}", printable(new))?;
        (self.within, self.prompted) = (true, false);
        io::stdout().flush()
    }

    /// Reads the box out that is open, with the numbers of its rows.
    fn read_box(&mut self, state: &ScreenState) -> io::Result<()> {
        let words = box_words(state);
        if words != self.read {
            self.read = words;
            if !self.read.is_empty() {
                self.say(&self.read.clone())?;
            }
        }
        Ok(())
    }
}

/// The box that is open, in lines.
fn box_words(state: &ScreenState) -> String {
    /// So wide that no row is broken in two.
    const COLUMNS: u16 = 4096;
    let numbered = |rows: &[String]| {
        let rows = rows.iter().enumerate().map(|(at, row)| format!("{}. {row}\n", at + 1));
        rows.collect::<String>() + "Type a number, or an empty line to close the list."
    };
    let headings: Vec<&str> = match &state.overlays.open {
        Some(Overlay::Help(_)) => {
            let rows =
                COMMANDS.iter().map(|it| format!("/{} {}: {}\n", it.name, it.argument, it.help));
            return rows.collect::<String>() + "/rounds: tell the rounds of the last answer";
        }
        Some(Overlay::Full { .. }) => {
            let excess = state.chat.refused.map(|context| context.excess(state.chat.goes_on));
            let ways = CHOICES.map(|(_, title, meaning)| format!("{title}: {meaning}"));
            let excess = excess.unwrap_or_default();
            return format!("The context is full. {excess}\n{} /new starts over.", numbered(&ways));
        }
        Some(Overlay::Models(picker)) if picker.searching => return String::new(),
        Some(Overlay::Strategies { .. }) => {
            state.listed_strategies().iter().filter_map(|row| row.heading).collect()
        }
        _ => Vec::new(),
    };
    let styles = theme::styles(ThemeName::Dark);
    let Some(page) = page(state, 0, COLUMNS, &styles) else { return String::new() };
    let words = |line: &crate::tui::draw::Line<'_>| {
        let words: Vec<String> = line
            .spans
            .iter()
            .flat_map(|span| span.content.split_whitespace())
            .map(str::to_string)
            .collect();
        words.join(" ").trim_start_matches("❯ ").to_string()
    };
    let mut rows: Vec<String> = page.rows.iter().map(words).collect();
    rows.retain(|row| !row.is_empty() && !headings.contains(&row.as_str()));
    let choose = !matches!(
        state.overlays.open,
        Some(Overlay::Error { .. } | Overlay::Details { .. } | Overlay::System { .. })
    );
    let rows = if choose { numbered(&rows) } else { rows.join("\n") };
    format!("{}:\n{rows}", page.title)
}
