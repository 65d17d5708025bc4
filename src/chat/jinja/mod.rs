//! Runs a Jinja template of unknown origin within limits: on source, nesting, steps, time, the size
//! of every value that it creates and of all of them together. It must not depend on chats.
//!
//! MiniJinja limits only its steps, and one step may double a text. So each template is compiled
//! with a check after every instruction that creates a value (see [`guard`]), and runs on a thread
//! whose stack fits the permitted nesting.

mod filters;
mod guard;
mod meter;
mod methods;
mod text;

use std::collections::BTreeMap;
use std::sync::Arc;

use minijinja::machinery::{self, CompiledTemplate, TemplateConfig, Token};
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Value};

use super::{clock, json};
use crate::caught::caught;
use meter::RenderMeter;

/// Bytes of a source. The longest published template has a tenth of it.
const LONGEST_SOURCE: usize = 512 << 10;
/// Tokens of one tag or expression: the parser recurses one level deeper with each token of a
/// chain.
const LONGEST_TAG: usize = 2_000;
/// `elif` branches of a whole template: each also recurses one level deeper.
const MOST_BRANCHES: usize = 1_000;
/// Large enough for everything within these limits, with a wide margin.
const STACK: usize = 64 << 20;
/// More steps than any published template takes.
const FUEL: u64 = 5_000_000;
/// `strftime_now` takes the format of a date, not a document.
const LONGEST_DATE: usize = 4 << 10;
/// How many characters of an error are shown.
const LONGEST_REASON: usize = 400;

/// Why a template cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// It is not valid Jinja: what is wrong, with its line.
    #[error("has an error: {0}; use another conversion of the model, or your own template")]
    Syntax(String),
    /// It refuses the conversation in these words, or fails on it.
    #[error("rejects this conversation: {0}")]
    Refused(String),
    /// It exceeds a limit of templates: which, and how large it is.
    #[error("exceeds a limit: {0}; use another conversion of the model")]
    Limit(String),
}

/// A template whose source is within the limits.
#[derive(Debug)]
pub(super) struct Jinja {
    source: String,
}

impl Jinja {
    /// Checks a source.
    pub(super) fn new(source: String) -> Result<Self, Fault> {
        if source.len() > LONGEST_SOURCE {
            let size = source.len();
            let limit = format!("it has {size} bytes, and the limit is {LONGEST_SOURCE}");
            return Err(Fault::Limit(limit));
        }
        // As Jinja2 reads a file.
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        let config = config()?;
        check_nesting(&source, &config)?;
        let compiled = apart(|| {
            let compiled = CompiledTemplate::new("chat", &source, &config);
            compiled.map(drop).map_err(|error| Fault::Syntax(describe(&error)))
        });
        compiled?;
        Ok(Self { source })
    }

    /// The text for the variables in `root`, which contain `turns` messages of `said` bytes in all.
    /// `now` is the Unix time that `strftime_now` formats.
    pub(super) fn render(
        &self,
        root: &Value,
        said: usize,
        turns: usize,
        now: u64,
    ) -> Result<String, Fault> {
        apart(|| {
            let meter = Arc::new(RenderMeter::new(said, turns));
            let environment = environment(&meter, now);
            let config = config()?;
            let compiled = CompiledTemplate::new("chat", &self.source, &config)
                .map_err(|error| Fault::Syntax(describe(&error)))?;
            let main = guard::guarded(&compiled.instructions);
            let blocks: BTreeMap<_, _> = compiled
                .blocks
                .iter()
                .map(|(name, block)| (*name, guard::guarded(block)))
                .collect();
            let mut text = String::new();
            let out = &mut machinery::make_string_output(&mut text);
            let done =
                machinery::eval(&environment, &main, root.clone(), &blocks, out, AutoEscape::None)
                    .map(drop);
            match done {
                Ok(()) => Ok(text),
                Err(error) => Err(match meter.exceeded() {
                    Some(limit) => Fault::Limit(limit),
                    None if error.kind() == ErrorKind::OutOfFuel => {
                        Fault::Limit(format!("it takes more than {FUEL} steps"))
                    }
                    None => Fault::Refused(describe(&error)),
                }),
            }
        })
    }
}

fn config() -> Result<TemplateConfig, Fault> {
    // The same settings as in `transformers`.
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    let syntax_config = syntax.map_err(|error| Fault::Syntax(describe(&error)))?;
    Ok(TemplateConfig { syntax_config, default_auto_escape: Arc::new(|_| AutoEscape::None) })
}

/// Called before parsing, because the parser and everything that walks its tree recurse once for
/// each operator of a chain.
fn check_nesting(source: &str, config: &TemplateConfig) -> Result<(), Fault> {
    let mut tokens = 0;
    let mut branches = 0;
    for token in machinery::tokenize(source, false, config.syntax_config.clone()) {
        // The parser explains what is not a token.
        let Ok((token, span)) = token else { return Ok(()) };
        match token {
            Token::TemplateData(_) | Token::VariableStart | Token::BlockStart => tokens = 0,
            Token::Ident("elif") => branches += 1,
            _ => tokens += 1,
        }
        let line = span.start_line;
        if tokens > LONGEST_TAG {
            let limit = format!("line {line}: an expression has more than {LONGEST_TAG} parts");
            return Err(Fault::Limit(limit));
        }
        if branches > MOST_BRANCHES {
            return Err(Fault::Limit(format!("line {line}: more than {MOST_BRANCHES} branches")));
        }
    }
    Ok(())
}

/// Runs `work` on a thread with a large stack. A panic in it becomes an error.
fn apart<T: Send>(work: impl FnOnce() -> Result<T, Fault> + Send) -> Result<T, Fault> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("template".to_owned()).stack_size(STACK);
        let thread = thread.spawn_scoped(scope, || caught(work));
        let thread = thread
            .map_err(|error| Fault::Refused(format!("cannot start a thread for it: {error}")))?;
        let failed = || Err(Fault::Refused("the Jinja library crashed on it".to_owned()));
        thread.join().ok().flatten().unwrap_or_else(failed)
    })
}

fn environment(meter: &Arc<RenderMeter>, now: u64) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_debug(false);
    environment.set_fuel(Some(FUEL));
    meter::install(&mut environment, meter);
    filters::install(&mut environment, meter);
    environment.add_filter("tojson", json::tojson);
    environment.add_function("raise_exception", |message: String| -> Result<String, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    let limit = Arc::clone(meter);
    environment.add_function("strftime_now", move |format: String| {
        if format.len() > LONGEST_DATE {
            return Err(limit.over(format!("its date format has {} bytes", format.len())));
        }
        Ok(clock::local(now, &format))
    });
    environment
}

/// The error with its line and, for `raise_exception`, the template's own sentence.
fn describe(error: &Error) -> String {
    let text = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    let text = match text.char_indices().nth(LONGEST_REASON) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text,
    };
    match error.line() {
        Some(line) => format!("{text} (line {line} of the template)"),
        None => text,
    }
}

#[cfg(test)]
mod tests;
