//! `dovetail run`: answers one prompt; the text on stdout as it is decoded, or JSON lines. Must
//! never know a screen.

use std::io::{self, IsTerminal, Read, Write};

use anyhow::{Context, anyhow};
use indicatif::ProgressBar;

use super::args::RunArgs;
use super::backend::{self, WatchedWorker};
use super::exit::{CommandResult, Failure, report};
use super::output::stdout;
use crate::decode::Committed;
use crate::load::Purpose;
use crate::printable::{json_line, printable};
use crate::record::{Line, Recorder};
use crate::worker::{Event, Job};

/// Id of the only answer of a run.
const GENERATION: u64 = 1;

/// Most bytes read from stdin: more than any context holds.
const MOST_PIPED: u64 = 16 << 20;

pub fn run(args: &RunArgs) -> CommandResult {
    let settings = backend::settings(&args.shared, &args.shared.settings.0)?;
    let out = stdout()?;
    let stdin = io::stdin();
    let prompt = prompt(&args.prompt, !stdin.is_terminal(), &mut stdin.lock())?;
    let record = args.record.as_deref();
    let worker = WatchedWorker::start(&args.shared, &settings, Purpose::Text, record)?;
    let most = settings.max_tokens.or(Job::ROOM_LEFT);
    let job = backend::job(&settings, &prompt, GENERATION, most);
    let mut output = AnswerWriter::new(args.json, !args.hide_thinking, out, io::stderr());
    let outcome = answer(&worker, job, &mut output);
    // The shell's prompt begins on a new line.
    output.close()?;
    outcome
}

/// Asks once the models are loaded, and writes the answer.
fn answer(
    worker: &WatchedWorker,
    job: Job,
    output: &mut AnswerWriter<impl Write, impl Write>,
) -> CommandResult {
    let mut job = Some(job);
    loop {
        let event = worker.next()?;
        if matches!(event, Event::Ready(_))
            && let Some(job) = job.take()
        {
            worker.ask(job)?;
        }
        if let Some(end) = output.take(event)? {
            return end;
        }
    }
}

/// The prompt from the arguments, `-` standing for stdin, which is read only for a `-` or if there
/// are no arguments: in a loop over lines, stdin is the loop's.
fn prompt(parts: &[String], piped: bool, stdin: &mut dyn Read) -> Result<String, Failure> {
    let usage = |text: &str| Failure::usage(anyhow!("{text}"));
    if parts.is_empty() && !piped {
        return Err(usage("there is no prompt; give one (`dovetail run \"…\"`) or pipe it in"));
    }
    let alone = parts.is_empty().then_some("-");
    let mut texts = Vec::new();
    for part in parts.iter().map(String::as_str).chain(alone) {
        if part == "-" {
            let mut bytes = Vec::new();
            let mut stdin = Read::take(&mut *stdin, MOST_PIPED + 1);
            stdin.read_to_end(&mut bytes).context("cannot read stdin")?;
            if bytes.len() as u64 > MOST_PIPED {
                let most = MOST_PIPED >> 20;
                let text = format!(
                    "the piped input is longer than {most} MiB; no model's context \
                                    is that large"
                );
                return Err(usage(&text));
            }
            let text = String::from_utf8(bytes)
                .map_err(|_| usage("the piped input is not UTF-8 text; convert it first"))?;
            texts.push(text.trim_end().to_owned());
        } else {
            texts.push(part.to_owned());
        }
    }
    texts.retain(|text| !text.trim().is_empty());
    if texts.is_empty() {
        return Err(usage("the prompt is empty"));
    }
    Ok(texts.join("\n\n"))
}

/// Writes an answer: text as it comes with the thoughts on stderr, or JSON lines.
struct AnswerWriter<W: Write, E: Write> {
    json: bool,
    thoughts: bool,
    out: W,
    /// For thoughts: what is piped on is the answer alone.
    aside: E,
    /// Whether a thought was written that the answer does not follow yet.
    thinking: bool,
    recorder: Recorder,
    /// What is being loaded, on stderr and only if that is a terminal.
    loading: ProgressBar,
    /// Whether the last thing written leaves the line open.
    open: bool,
}

impl<W: Write, E: Write> AnswerWriter<W, E> {
    fn new(json: bool, thoughts: bool, out: W, aside: E) -> Self {
        Self {
            json,
            thoughts,
            out,
            aside,
            thinking: false,
            recorder: Recorder::default(),
            loading: ProgressBar::new_spinner(),
            open: false,
        }
    }

    /// Takes an event; returns how the run ended once it has.
    fn take(&mut self, event: Event) -> io::Result<Option<CommandResult>> {
        let line = self.recorder.line(&event);
        let told = |line: &Line| {
            use Line::{Failed, First, Round, Summary};
            matches!(line, First { .. } | Round(_) | Summary { .. } | Failed { .. })
        };
        if let Some(line) = line.filter(|line| self.json && told(line)) {
            self.out.write_all(json_line(&line)?.as_bytes())?;
            self.out.flush()?;
        }
        for token in event.committed() {
            self.token(token)?;
        }
        match event {
            Event::Finished { .. } => return Ok(Some(Ok(()))),
            Event::Failed { generation, error } => {
                self.loading.finish_and_clear();
                return Ok(Some(Err(backend::failure(generation, &error))));
            }
            Event::Notice(text) => report(&format!("note: {text}")),
            Event::Loading { stage, fraction } => {
                backend::show_stage(&self.loading, &stage, fraction);
            }
            Event::Ready(_) => self.loading.finish_and_clear(),
            // Nothing here looks at trees or asks for other models.
            _ => {}
        }
        Ok(None)
    }

    fn token(&mut self, token: &Committed) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        if let Some(thought) = token.thought.as_deref().filter(|text| !text.is_empty())
            && self.thoughts
        {
            // Nobody listening there is no reason to end the answer.
            let _ = write!(self.aside, "{}", printable(thought)).and_then(|()| self.aside.flush());
            self.thinking = true;
        }
        self.text(&token.text)
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.end_thought();
        self.open = !text.ends_with('\n');
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Sets what follows apart from the thought that was written.
    fn end_thought(&mut self) {
        if std::mem::take(&mut self.thinking) {
            let _ = self.aside.write_all(b"\n\n").and_then(|()| self.aside.flush());
        }
    }

    fn close(&mut self) -> io::Result<()> {
        self.end_thought();
        if std::mem::take(&mut self.open) {
            writeln!(self.out)?;
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Origin;

    fn joined(parts: &[&str], stdin: &[u8]) -> Result<String, Failure> {
        let parts: Vec<_> = parts.iter().map(|part| (*part).to_owned()).collect();
        prompt(&parts, true, &mut &*stdin)
    }

    #[test]
    fn a_dash_stands_for_stdin() {
        assert_eq!(joined(&["sum up", "-"], b"a\nb\n").unwrap(), "sum up\n\na\nb");
        assert_eq!(joined(&["-", "sum up"], b"a\nb\n").unwrap(), "a\nb\n\nsum up");
        assert_eq!(joined(&["-"], "h\u{e9}\n".as_bytes()).unwrap(), "h\u{e9}");
        assert!(joined(&["-"], b"\xff\xfe").is_err());
        assert!(joined(&["-"], b" \n").is_err());
        assert!(joined(&["", " "], b"").is_err());
    }

    #[test]
    fn stdin_is_read_only_if_the_prompt_asks_for_it_or_there_is_none() {
        let mut lines = &b"of a loop\n"[..];
        assert_eq!(prompt(&["say hi".to_owned()], true, &mut lines).unwrap(), "say hi");
        assert_eq!(lines, b"of a loop\n", "the loop has its lines");
        assert_eq!(joined(&[], b"hi").unwrap(), "hi");
        assert_eq!(prompt(&["hi".to_owned()], false, &mut &b"never read"[..]).unwrap(), "hi");
        assert!(prompt(&[], false, &mut &b""[..]).is_err());
    }

    #[test]
    fn json_lines_stay_valid_on_a_terminal() {
        let mut bytes = Vec::new();
        let error = "cannot open \u{9b}2J\u{7f}".to_owned();
        let ended = AnswerWriter::new(true, true, &mut bytes, io::sink())
            .take(Event::Failed { generation: None, error });
        assert!(matches!(ended, Ok(Some(Err(_)))));
        let line = String::from_utf8(bytes).unwrap();
        assert!(line.contains(r"\u009b2J\u007f"), "{line}");
        assert_eq!(crate::printable::printable(&line), line);
    }

    #[test]
    fn thoughts_stand_beside_the_answer() {
        let written = |thoughts| {
            let (mut out, mut aside) = (Vec::new(), Vec::new());
            let mut output = AnswerWriter::new(false, thoughts, &mut out, &mut aside);
            for (thought, text) in
                [(Some(""), ""), (Some("A\u{1b} "), ""), (Some("b"), "Yes"), (None, "!")]
            {
                let thought = thought.map(str::to_owned);
                let (text, origin) = (text.to_owned(), Origin::Target);
                let token = Committed { token: 0, text, thought, origin, logprobs: None };
                output.token(&token).unwrap();
            }
            output.close().unwrap();
            (String::from_utf8(out).unwrap(), String::from_utf8(aside).unwrap())
        };
        assert_eq!(written(true), ("Yes!\n".to_owned(), "A␛ b\n\n".to_owned()));
        assert_eq!(written(false), ("Yes!\n".to_owned(), String::new()));
    }

    #[test]
    fn endless_input_is_refused() {
        let refused = prompt(&[], true, &mut io::repeat(b'a')).unwrap_err();
        assert!(format!("{refused:?}").contains("16 MiB"), "{refused:?}");
    }
}
