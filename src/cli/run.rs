//! `dovetail run`: one prompt, the text on stdout as it comes, or JSON lines.

use std::io::{self, IsTerminal, Read, Write};
use std::sync::mpsc;

use anyhow::{Context, anyhow};
use indicatif::ProgressBar;

use super::args::RunArgs;
use super::backend;
use super::exit::{Code, Failure, Outcome, report};
use super::interrupt;
use crate::chat::{Message, Role};
use crate::settings::Settings;
use crate::worker::{Event, Job, Line, Purpose, Recorder};

/// The only answer of a run.
const GENERATION: u64 = 1;

/// What a run waits for.
enum Next {
    Event(Event),
    Interrupt,
}

/// Answers one prompt.
pub fn run(args: &RunArgs) -> Outcome {
    let settings = backend::settings(&args.shared, &args.shared.overrides())?;
    let prompt = prompt(&args.prompt, &mut io::stdin().lock())?;
    let controls = backend::controls(&settings);
    let (sender, next) = mpsc::channel();
    let interrupts = sender.clone();
    interrupt::watch(move || interrupts.send(Next::Interrupt).is_ok());
    let sink = Box::new(move |event| sender.send(Next::Event(event)).is_ok());
    let worker = backend::start(&args.shared, settings.clone(), Purpose::Text, controls, sink)?;
    let mut job = Some(job(&settings, prompt));
    let mut output = Output::new(args.json, io::stdout().lock());
    let outcome = loop {
        let event = match next.recv() {
            Ok(Next::Event(event)) => event,
            Ok(Next::Interrupt) => break Err(Failure::quiet(Code::Interrupted)),
            Err(_) => break Err(anyhow!("the worker ended without an answer").into()),
        };
        if let Event::Ready(_) = event
            && let Some(job) = job.take()
            && !worker.generate(job)
        {
            break Err(anyhow!("the worker ended before the answer").into());
        }
        match output.take(event) {
            Ok(None) => {}
            Ok(Some(end)) => break end,
            Err(error) => break Err(error.into()),
        }
    };
    // A half-written line of text must not run into the shell's prompt.
    output.close()?;
    outcome
}

fn job(settings: &Settings, prompt: String) -> Job {
    let system = settings.system.iter().map(|text| (Role::System, text.clone()));
    let messages = system
        .chain([(Role::User, prompt)])
        .map(|(role, content)| Message { role, content })
        .collect();
    Job { generation: GENERATION, messages, max_tokens: settings.max_tokens }
}

/// The prompt from the arguments, `-` standing for stdin.
fn prompt(parts: &[String], stdin: &mut dyn Read) -> Result<String, Failure> {
    let usage = |text: &str| Failure::new(Code::Usage, anyhow!("{text}"));
    if parts.is_empty() && io::stdin().is_terminal() {
        return Err(usage("no prompt: give one (`dovetail run \"…\"`) or pipe it in"));
    }
    let from_stdin = [String::from("-")];
    let parts = if parts.is_empty() { &from_stdin } else { parts };
    let mut texts = Vec::new();
    for part in parts {
        if part == "-" {
            let mut bytes = Vec::new();
            stdin.read_to_end(&mut bytes).context("cannot read stdin")?;
            let text = String::from_utf8(bytes)
                .map_err(|_| usage("what is piped in is not UTF-8 text; convert it first"))?;
            texts.push(text.trim_end().to_owned());
        } else {
            texts.push(part.clone());
        }
    }
    texts.retain(|text| !text.trim().is_empty());
    if texts.is_empty() {
        return Err(usage("the prompt is empty"));
    }
    Ok(texts.join("\n\n"))
}

/// Writes an answer: text as it comes, or JSON lines.
struct Output<W: Write> {
    json: bool,
    out: W,
    recorder: Recorder,
    /// What is being loaded, on stderr and only if that is a terminal.
    loading: ProgressBar,
    /// Whether the last thing written leaves the line open.
    open: bool,
}

impl<W: Write> Output<W> {
    fn new(json: bool, out: W) -> Self {
        Self {
            json,
            out,
            recorder: Recorder::default(),
            loading: ProgressBar::new_spinner(),
            open: false,
        }
    }

    /// Takes an event; returns how the run ended once it has.
    fn take(&mut self, event: Event) -> io::Result<Option<Outcome>> {
        let line = self.recorder.line(&event);
        if self.json && matches!(line, Line::Round(_) | Line::Summary { .. } | Line::Failed { .. })
        {
            serde_json::to_writer(&mut self.out, &line)?;
            writeln!(self.out)?;
            self.out.flush()?;
        }
        match event {
            Event::First { token, .. } => self.text(&token.text)?,
            Event::Round { round, .. } => {
                for token in &round.committed {
                    self.text(&token.text)?;
                }
            }
            Event::Finished { .. } => return Ok(Some(Ok(()))),
            Event::Failed { generation, error } => {
                self.loading.finish_and_clear();
                let code = if generation.is_none() { Code::Model } else { Code::Failed };
                return Ok(Some(Err(Failure::new(code, anyhow!("{error}")))));
            }
            Event::Notice(text) => report(&format!("note: {text}")),
            Event::Loading { stage, fraction } => {
                let share = fraction.map(|f| format!(" {:.0} %", f * 100.0)).unwrap_or_default();
                self.loading.set_message(format!("{stage}{share}"));
                self.loading.tick();
            }
            Event::Ready(_) => self.loading.finish_and_clear(),
            Event::Prefill { .. } | Event::Reasons(_) => {}
        }
        Ok(None)
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        if self.json || text.is_empty() {
            return Ok(());
        }
        self.open = !text.ends_with('\n');
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    fn close(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.open) {
            writeln!(self.out)?;
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(parts: &[&str], stdin: &[u8]) -> Result<String, Failure> {
        let parts: Vec<_> = parts.iter().map(|part| (*part).to_owned()).collect();
        prompt(&parts, &mut &*stdin)
    }

    #[test]
    fn a_dash_stands_for_stdin() {
        assert_eq!(joined(&["say hi"], b"never read").unwrap(), "say hi");
        assert_eq!(joined(&["sum up", "-"], b"a\nb\n").unwrap(), "sum up\n\na\nb");
        assert_eq!(joined(&["-"], "h\u{e9}\n".as_bytes()).unwrap(), "h\u{e9}");
        assert!(joined(&["-"], b"\xff\xfe").is_err());
        assert!(joined(&["-"], b" \n").is_err());
        assert!(joined(&["", " "], b"").is_err());
    }
}
