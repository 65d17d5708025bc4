//! Writes a record while a worker runs: questions from the worker's commands, the rest from its
//! events. It must never delay the worker for longer than a write takes, and never end it if a
//! write fails.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::{FORMAT, Line, Question, RecordError, RecordHead, Recorder};
use crate::files::{Access, Open, open_regular};
use crate::printable::json_line;
use crate::settings::Settings;
use crate::speculate::SamplerSettings;
use crate::worker::{Command, Event, Job, SharedControls, Sink};

/// A record that is being written.
pub struct Recording {
    path: PathBuf,
    /// `None` after a write has failed.
    file: Option<File>,
    recorder: Recorder,
    controls: SharedControls,
    /// Questions whose answers have not begun.
    asked: BTreeMap<u64, Question>,
    /// The answer in progress and how it was last sampled.
    answer: Option<(u64, SamplerSettings)>,
}

impl Recording {
    /// Creates the file, which must not exist, with its first line.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn create(
        path: &Path,
        settings: &Settings,
        controls: &SharedControls,
    ) -> Result<Self, RecordError> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => RecordError::Exists(path.to_owned()),
            _ => {
                RecordError::Failed(format!("cannot create the record {}: {error}", path.display()))
            }
        };
        let file = open_regular(path, Open::New(Access::Private)).map_err(failed)?;
        let mut recording = Self {
            path: path.to_owned(),
            file: Some(file),
            recorder: Recorder::default(),
            controls: controls.clone(),
            asked: BTreeMap::new(),
            answer: None,
        };
        let head = RecordHead {
            format: FORMAT,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            kv: settings.kv.name().to_owned(),
            gpu_layers: settings.target_blocks().to_string(),
            stop: settings.stop.clone(),
        };
        recording.write(&Line::Record(head)).map_err(failed)?;
        Ok(recording)
    }

    /// Notes a question to the worker.
    fn ask(&mut self, job: &Job) {
        let Job { generation, messages, max_tokens, thinking, begun, forced, afresh, .. } =
            job.clone();
        // Set before the worker receives the question.
        let sampler = self.controls.get().sampler;
        // Only races forget what was decoded before.
        let race = afresh;
        let question = Question { messages, max_tokens, thinking, sampler, begun, forced, race };
        self.asked.insert(generation, question);
    }

    /// Writes an event. If that fails, the record ends here and a notice for the user is returned.
    fn take(&mut self, event: &Event) -> Option<Event> {
        self.file.as_ref()?;
        let written = self.lines(event).iter().try_for_each(|line| self.write(line));
        let error = written.err()?;
        self.file = None;
        let path = self.path.display();
        Some(Event::Notice(format!("recording to {path} stopped: {error}")))
    }

    /// The lines for an event: the question before the first of its answer.
    fn lines(&mut self, event: &Event) -> Vec<Line> {
        let mut lines = Vec::new();
        if let Some(generation) = event.generation() {
            if let Some(question) = self.asked.remove(&generation) {
                self.answer = Some((generation, question.sampler));
                lines.push(Line::Question(Box::new(question)));
            }
            if let (Event::Round { .. }, Some((_, last))) = (event, &mut self.answer) {
                let now = self.controls.get().sampler;
                if *last != now {
                    *last = now;
                    lines.push(Line::Sampler { sampler: now });
                }
            }
        }
        lines.extend(self.recorder.line(event));
        lines
    }

    fn write(&mut self, line: &Line) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        // One call per line, so that a killed program leaves whole lines.
        file.write_all(json_line(line)?.as_bytes())
    }
}

/// Passes the commands to a worker on to a recording.
pub type CommandTap = Box<dyn Fn(&Command) + Send>;

/// `sink`, with everything that goes into it recorded first; and the tap that passes commands to
/// the recording.
pub fn recorded(recording: Recording, mut sink: Sink) -> (Sink, CommandTap) {
    let recording = Arc::new(Mutex::new(recording));
    let shared = Arc::clone(&recording);
    let tap = move |command: &Command| {
        if let Command::Generate(job) = command {
            shared.lock().unwrap_or_else(PoisonError::into_inner).ask(job);
        }
    };
    let through = move |event: Event| {
        let notice = recording.lock().unwrap_or_else(PoisonError::into_inner).take(&event);
        sink(event) && notice.is_none_or(&mut sink)
    };
    (Box::new(through), Box::new(tap))
}
