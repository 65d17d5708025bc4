//! `dovetail verify`: decodes a record, or a saved conversation, plainly again and says of every
//! answer whether it is the target's own.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use clap::Args;

use self::likeness::{Likeness, likeness};
use super::backend;
use super::exit::{Code, CommandResult, Failure};
use super::interrupt;
use super::output::stdout;
use super::shared_args::SharedArgs;
use crate::bench::strategies::Stop;
use crate::chat::{Role, SavedTurn, Session};
use crate::decode::{Committed, Finish};
use crate::files::read_text;
use crate::hardware::Machine;
use crate::load::Purpose;
use crate::printable::printable_line;
use crate::record::{Finding, Record, RecordError, RecordedAnswer, decode_plainly, verify_answer};
use crate::settings::{HeadChoice, NgramChoice, SettingValue, Settings};
use crate::speculate::SamplerSettings;
use crate::worker::{Backend, Job, SharedControls};

mod given;
mod likeness;

/// Why an answer of a conversation cannot be checked.
const NOT_TOLD: &str = "the file does not say how it was asked for: it was imported, or the \
                        settings were changed during it";
const OTHERS: &str = "the file does not have what it was given any more: the system prompt was \
                      changed after it, or more was forgotten for a full context";
const TOO_MANY: &str = "it has more messages before it than the context has tokens";
const TOO_SHORT: &str =
    "the context is too short for the whole answer; set a longer one with --context";
const OTHER_TEXT: &str = "is not what the target says on these devices; if --kv, --device or \
                          --gpu-layers was given when it was written, repeat it";
/// Most bytes of a saved conversation.
const LONGEST: u64 = 64_000_000;

#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// A file written by `dovetail run --record` or `dovetail chat --record`, or a conversation
    /// saved by the chat.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Flags shared with the chat: the target if it has moved and, for a conversation, the devices
    /// that it was written on.
    #[command(flatten)]
    pub shared: SharedArgs,
}

/// Checks every answer of a file.
pub fn verify(args: &VerifyArgs) -> CommandResult {
    let settings = backend::settings(&args.shared, &args.shared.settings.0)?;
    match Record::read(&args.file) {
        Ok(record) => verify_record(args, settings, &record),
        Err(RecordError::None(_)) => {
            let session = session(&args.file)?;
            verify_session(args, settings, &session)
        }
        Err(error) => Err(Failure::usage(error)),
    }
}

fn session(path: &Path) -> Result<Session, Failure> {
    let text = read_text(path, LONGEST)
        .with_context(|| format!("cannot read {}", path.display()))
        .map_err(Failure::usage)?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} is neither a record nor a saved conversation", path.display()))
        .map_err(Failure::usage)
}

fn verify_record(args: &VerifyArgs, mut settings: Settings, record: &Record) -> CommandResult {
    let name = args.file.display();
    let ready = record.ready.as_ref();
    let ready = ready.ok_or_else(|| {
        Failure::usage(anyhow!(
            "{name} ends before the models were loaded, so \
                                                   there is nothing to check"
        ))
    })?;
    if !args.shared.settings.set("target") {
        settings.target.clone_from(&ready.models.target);
    }
    let head = &record.head;
    let prefill = if ready.prompts_on.is_some() { "gpu" } else { "cpu" };
    let given = [("kv", head.kv.as_str()), ("gpu_layers", &head.gpu_layers), ("prefill", prefill)];
    // Left open it must stay so: set to `auto` it would put there what fits.
    for (key, value) in given.into_iter().filter(|given| *given != ("gpu_layers", "auto")) {
        let set = settings.set(key, &SettingValue::text(value));
        set.map_err(|problem| Failure::usage(anyhow!("{name}:1: {problem}")))?;
    }
    settings.stop.clone_from(&head.stop);
    let context = SettingValue::text(ready.context.to_string());
    settings
        .set("context", &context)
        .map_err(|problem| Failure::usage(anyhow!("{name}: {problem}")))?;
    let mut checker = Checker::load(settings)?;
    checker.is_target(&ready.target, Some(&ready.target_detail))?;
    checker.reads_prompts_on(ready.prompts_on.as_deref())?;
    let mut out = stdout()?;
    for (number, answer) in record.answers.iter().enumerate() {
        let verdict = checker.answer(answer);
        writeln!(out, "answer {}: {}", number + 1, verdict.text)?;
        if checker.note(verdict) {
            break;
        }
    }
    checker.conclude(record.answers.len(), &mut out)
}

fn verify_session(args: &VerifyArgs, mut settings: Settings, session: &Session) -> CommandResult {
    let named = args.shared.settings.set("target");
    if !named && let Some(models) = &session.models {
        settings.target.clone_from(&models.target);
    }
    let mut checker = Checker::load(settings)?;
    if !named && !session.target.is_empty() {
        checker.is_target(&session.target, None)?;
    }
    let mut out = stdout()?;
    let mut number = 0;
    for (at, entry) in session.messages.iter().enumerate() {
        if entry.turn.message.role != Role::Assistant {
            continue;
        }
        number += 1;
        let verdict = checker.said(session, at);
        writeln!(out, "answer {number}: {}", verdict.text)?;
        if checker.note(verdict) {
            break;
        }
    }
    checker.conclude(number, &mut out)
}

/// What is said of an answer.
struct Verdict {
    text: String,
    /// `None` if that could not be checked.
    same: Option<bool>,
}

impl Verdict {
    fn new(same: impl Into<Option<bool>>, text: impl Into<String>) -> Self {
        Self { text: text.into(), same: same.into() }
    }
}

/// The target alone, and what it found so far.
struct Checker {
    backend: Backend,
    controls: SharedControls,
    stop: Arc<Stop>,
    generation: u64,
    differing: usize,
    untold: usize,
}

impl Checker {
    /// Loads the target that `settings` name, and no draft.
    fn load(settings: Settings) -> Result<Self, Failure> {
        let controls = backend::controls(&settings);
        let settings = Settings {
            draft: HeadChoice::Lookup,
            draft_model: None,
            without_small: true,
            rest_text: None,
            ngrams: NgramChoice::None,
            history: false,
            strategy: None,
            ..settings
        };
        let backend = Backend::from(backend::load(&settings, &Machine::probe(), Purpose::Text)?);
        let stop = interrupt::stop_answers(&controls);
        Ok(Self { backend, controls, stop, generation: 0, differing: 0, untold: 0 })
    }

    /// Refuses to compare with another model than the recorded one.
    fn is_target(&self, name: &str, detail: Option<&str>) -> Result<(), Failure> {
        let ready = &self.backend.ready;
        if ready.target == name && detail.is_none_or(|detail| detail == ready.target_detail) {
            return Ok(());
        }
        let detail = detail.map(|detail| format!(" ({detail})")).unwrap_or_default();
        let ours = &ready.target;
        let our_detail = &ready.target_detail;
        Err(Failure::usage(anyhow!(
            "{name}{detail} wrote it, but {ours} ({our_detail}) was loaded; name the original \
                 model with --target"
        )))
    }

    /// Refuses to compare with a target that reads long prompts on another device than the record's
    /// target did: the text differs where two tokens are nearly as likely.
    fn reads_prompts_on(&self, recorded: Option<&str>) -> Result<(), Failure> {
        let ours = self.backend.ready.prompts_on.as_deref();
        if ours == recorded {
            return Ok(());
        }
        let theirs = recorded.unwrap_or("the CPU");
        let ours = ours.unwrap_or("the CPU");
        Err(Failure::usage(anyhow!(
            "its long prompts were read on {theirs}, but here they are read on {ours}; name \
                 the same GPU with --device"
        )))
    }

    fn answer(&mut self, answer: &RecordedAnswer) -> Verdict {
        let cut = match (answer.ended, answer.complete) {
            (true, true) => "",
            (true, false) => " (it was stopped there)",
            (false, _) => " (the record ends there)",
        };
        if answer.turned {
            let text = "not checked: the sampler settings were changed during this answer";
            return Verdict::new(None, text);
        }
        if answer.swapped {
            let text = "not checked: another target was loaded before this answer";
            return Verdict::new(None, text);
        }
        if answer.tokens.is_empty() {
            return Verdict::new(answer.ended.then_some(true), format!("no tokens{cut}"));
        }
        self.generation += 1;
        match verify_answer(&mut self.backend, &self.controls, self.generation, answer) {
            Finding::Same { tokens } => {
                let forced = &answer.question.forced;
                let own = tokens.saturating_sub(forced.len());
                let text =
                    format!("all {own} tokens are the target's own{}{cut}", excepted(forced));
                Verdict::new(answer.ended.then_some(true), text)
            }
            Finding::SameAfter { begun, tokens } => {
                let own = tokens.saturating_sub(1);
                let text = format!(
                    "the {own} tokens after the forced one are the target's own{cut}; the {begun} \
                     before it were sampled with other settings, so they are not checked"
                );
                Verdict::new(None, text)
            }
            Finding::Differs { at, recorded, plain } => {
                let number = at + 1;
                let recorded = quoted(recorded);
                let says = quoted(plain);
                let text = format!(
                    "token {number} is not the target's: recorded {recorded}, \
                     the target says {says}"
                );
                Verdict::new(false, text)
            }
            Finding::Failed(error) => Verdict::new(None, format!("not checked: {error}")),
            Finding::Stopped => Verdict::new(None, "not checked: interrupted"),
        }
    }

    /// Compares the text of saved answer `at` with what the target says to the same conversation.
    fn said(&mut self, session: &Session, at: usize) -> Verdict {
        let SavedTurn { message, interrupted, forced, given, .. } = &session.messages[at].turn;
        let not_checked = |why: &str| Verdict::new(None, format!("not checked: {why}"));
        let Some(given) = given else { return not_checked(NOT_TOLD) };
        let context = self.backend.ready.context;
        if at.saturating_sub(given.forgotten) > context {
            return not_checked(TOO_MANY);
        }
        let Some(messages) = given::conversation(session, at) else { return not_checked(OTHERS) };
        let said = message.content.trim();
        let count = said.chars().count();
        let thinking = given.thinking;
        let job = Job { messages, thinking, forced: forced.clone(), ..Job::default() };
        let (likeness, finish) = match self.compared(job, given.sampler, said) {
            Ok(found) => found,
            Err(error) => return not_checked(&error),
        };
        if self.stop.is_set() {
            return not_checked("interrupted");
        }
        let own = |cut: &str| {
            let forced = excepted(forced);
            let text = format!("all {count} characters are the target's own{forced}{cut}");
            Verdict::new(true, text)
        };
        let differs = |at: usize| Verdict::new(false, format!("character {at} {OTHER_TEXT}"));
        match likeness {
            Likeness::Same | Likeness::TargetGoesOn if *interrupted => {
                own(" (it was stopped there)")
            }
            Likeness::Same => own(""),
            Likeness::TargetGoesOn => own(" (it was cut off there)"),
            Likeness::AnswerGoesOn if finish == Some(Finish::ContextFull) => not_checked(TOO_SHORT),
            // What came after the target's end is not the target's.
            Likeness::AnswerGoesOn => differs(count),
            Likeness::Parts(at) => differs(at + 1),
        }
    }

    /// What the target says, as far as it must be known: how far `said` is that, and why it ended.
    ///
    /// # Errors
    /// It said nothing.
    fn compared(
        &mut self,
        job: Job,
        sampler: SamplerSettings,
        said: &str,
    ) -> Result<(Likeness, Option<Finish>), String> {
        self.generation += 1;
        // The answer may be longer than the limit, because it can be continued.
        let max_tokens = self.backend.ready.context;
        let job = Job { generation: self.generation, max_tokens, ..job };
        let mut text = String::new();
        let controls = self.controls.clone();
        let hear = &mut |tokens: &[Committed]| {
            text.extend(tokens.iter().map(|token| token.text.as_str()));
            // More is not needed to know.
            if matches!(likeness(said, &text), Likeness::TargetGoesOn | Likeness::Parts(_)) {
                controls.update(|controls| controls.generation = 0);
            }
        };
        let finish = decode_plainly(&mut self.backend, &self.controls, &job, sampler, hear)?;
        Ok((likeness(said, &text), finish))
    }

    /// Counts a verdict; `true` if no more are wanted.
    fn note(&mut self, verdict: Verdict) -> bool {
        self.differing += usize::from(verdict.same == Some(false));
        self.untold += usize::from(verdict.same.is_none());
        self.stop.is_set()
    }

    fn conclude(&self, answers: usize, out: &mut dyn Write) -> CommandResult {
        if self.stop.is_set() {
            return Err(Failure::quiet(Code::Interrupted));
        }
        let target = &self.backend.ready.target;
        match (answers, self.differing, self.untold) {
            (0, ..) => Err(Failure::usage(anyhow!("the file contains no answer to check"))),
            (answers, 0, 0) => {
                let all = match answers {
                    1 => "The answer is".to_owned(),
                    _ => format!("All {answers} answers are"),
                };
                writeln!(out, "{all} {target}'s own.")?;
                Ok(())
            }
            (_, 0, untold) => {
                Err(anyhow!("{untold} of {answers} answers could not be checked completely").into())
            }
            (_, differing, _) => {
                Err(anyhow!("{differing} of {answers} answers are not {target}'s own").into())
            }
        }
    }
}

/// Which tokens the user forced, after what is said of the others; nothing without any.
fn excepted(forced: &[(usize, u32)]) -> String {
    match forced {
        [] => String::new(),
        [(at, _)] => format!(", except for token {}, which the user forced", at + 1),
        more => format!(", except for {} tokens, which the user forced", more.len()),
    }
}

fn quoted(text: Option<String>) -> String {
    text.map_or_else(|| "nothing more".to_owned(), |text| format!("`{}`", printable_line(&text)))
}
