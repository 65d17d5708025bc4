//! The chat as lines, for screen readers: nothing is drawn again and nothing moves. Roles are
//! words, an answer appears as it is decoded, and `/rounds` lists its rounds. Must never know a
//! screen.

use std::io::{self, BufRead, IsTerminal, Write};

use super::args::ChatArgs;
use super::backend::{self, WatchedWorker};
use super::exit::CommandResult;
use super::output::stdout;
use crate::chat::{Given, Message, OpenSession, Role, SavedTurn, SessionStore};
use crate::decode::Committed;
use crate::load::Purpose;
use crate::settings::Settings;
use crate::tui::controls::caption;
use crate::worker::{Event, Job, Ready};

/// What can be typed instead of a message.
const COMMANDS: &str = "/rounds tells the rounds of the last answer, /quit leaves.";

/// Talks until the input ends or `/quit`.
pub fn plain_screen(args: &ChatArgs) -> CommandResult {
    let settings = backend::settings(&args.shared, &args.overrides())?;
    let record = args.record.as_deref();
    let worker = WatchedWorker::start(&args.shared, &settings, Purpose::Chat, record)?;
    let mut out = stdout()?;
    writeln!(out, "Loading the model.")?;
    let ready = loop {
        match worker.next()? {
            Event::Ready(ready) => break ready,
            Event::Failed { error, .. } => return Err(backend::failure(None, &error)),
            Event::Notice(text) => writeln!(out, "Note: {text}")?,
            _ => {}
        }
    };
    writeln!(out, "{} is ready. Type a message and press Enter. {COMMANDS}", ready.target)?;
    let system = settings.system.iter().map(|text| Message::new(Role::System, text));
    let turns = system.map(SavedTurn::whole).collect();
    let open = OpenSession::new(&ready.target);
    let store = SessionStore::in_data_folder().ok().map(|store| (store, open));
    let rounds = Vec::new();
    let mut chat = PlainChat { settings, worker, ready, store, turns, rounds };
    chat.talk(&mut io::stdin().lock(), &mut out)
}

struct PlainChat {
    settings: Settings,
    worker: WatchedWorker,
    ready: Box<Ready>,
    store: Option<(SessionStore, OpenSession)>,
    turns: Vec<SavedTurn>,
    /// Those of the last answer, each in a sentence.
    rounds: Vec<String>,
}

impl PlainChat {
    fn talk(&mut self, input: &mut impl BufRead, out: &mut impl Write) -> CommandResult {
        loop {
            write!(out, "You: ")?;
            out.flush()?;
            let mut line = String::new();
            if input.read_line(&mut line)? == 0 {
                writeln!(out)?;
                return Ok(());
            }
            // A terminal shows what is typed.
            if !io::stdin().is_terminal() {
                writeln!(out, "{}", line.trim_end())?;
            }
            match line.trim() {
                "" => {}
                "/quit" => return Ok(()),
                "/rounds" if self.rounds.is_empty() => writeln!(out, "There are no rounds yet.")?,
                "/rounds" => writeln!(out, "{}", self.rounds.join("\n"))?,
                word if word.starts_with('/') => writeln!(out, "There is no {word}. {COMMANDS}")?,
                text => self.answer(text, out)?,
            }
        }
    }

    fn answer(&mut self, text: &str, out: &mut impl Write) -> CommandResult {
        self.turns.push(SavedTurn::whole(Message::new(Role::User, text)));
        self.rounds.clear();
        let messages: Vec<Message> = self.turns.iter().map(|turn| turn.message.clone()).collect();
        let controls = self.worker.controls().get();
        let thinking = self.settings.thinking;
        let given = Given::new(0, &messages, thinking, controls.sampler);
        let max_tokens = self.settings.max_tokens.or(Job::ROOM_LEFT);
        let generation = controls.generation + 1;
        let job = Job { generation, messages, max_tokens, thinking, ..Job::default() };
        self.worker.ask(job)?;
        write!(out, "{}: ", self.ready.target)?;
        let mut said = String::new();
        loop {
            let event = self.worker.next()?;
            let words = say(event.committed(), &mut said, out)?;
            match event {
                Event::Round { round, .. } => {
                    let number = self.rounds.len() + 1;
                    self.rounds.push(format!("Round {number}, {}: {words:?}", caption(&round)));
                }
                Event::Finished { .. } => break,
                Event::Failed { error, .. } => {
                    self.turns.pop();
                    writeln!(out, "There is no answer: {error}")?;
                    return Ok(());
                }
                Event::Notice(text) => writeln!(out, "\nNote: {text}")?,
                _ => {}
            }
        }
        writeln!(out)?;
        let answer = SavedTurn::whole(Message::new(Role::Assistant, said));
        self.turns.push(SavedTurn { given: Some(given), ..answer });
        if let Some((store, open)) = &mut self.store {
            open.update(self.turns.clone());
            if let Err(error) = store.save(open) {
                writeln!(out, "The conversation is not saved: {error}")?;
            }
        }
        Ok(())
    }
}

/// Writes what the tokens say; returns it.
fn say(tokens: &[Committed], said: &mut String, out: &mut impl Write) -> io::Result<String> {
    let text: String = tokens.iter().map(|token| token.text.as_str()).collect();
    said.push_str(&text);
    write!(out, "{text}")?;
    out.flush()?;
    Ok(text)
}
