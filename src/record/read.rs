//! Reads a record and checks it: the format, every line, and that the tokens of each round follow
//! from its tree and from the previous round. It must not depend on models.

use std::path::Path;

use super::{FORMAT, Line, OLDEST_FORMAT, Question, RecordError, RecordHead};
use crate::decode::{Finish, Round};
use crate::files::read_text;
use crate::worker::Ready;

/// The most bytes of a record.
const LONGEST: u64 = 1_000_000_000;

/// A recorded run.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The first line.
    pub head: RecordHead,
    /// The models, as they were before the first answer; `None` if they were not loaded.
    pub ready: Option<Ready>,
    /// The answers in order.
    pub answers: Vec<RecordedAnswer>,
    /// Every line except the first, in order, for a replay.
    pub lines: Vec<Line>,
    /// Whether a target other than that of `ready` is in use.
    swapped: bool,
}

/// An answer of a record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedAnswer {
    /// The question.
    pub question: Question,
    /// The line of the question, starting at 1.
    pub line: usize,
    /// Its tokens, including the first one.
    pub tokens: Vec<u32>,
    /// Their texts.
    pub texts: Vec<String>,
    /// The token after the last, which the target had already chosen, if there is one.
    next: Option<u32>,
    rounds: usize,
    /// Whether it reached its own end: it was not stopped, did not fail and was not cut off with
    /// the file.
    pub complete: bool,
    /// Whether the record has its last line.
    pub ended: bool,
    /// Whether the sampler was changed during the answer, so that no single setting gives the text.
    pub turned: bool,
    /// Whether another target had been loaded by then.
    pub swapped: bool,
}

impl Record {
    /// Reads and checks a record.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn read(path: &Path) -> Result<Self, RecordError> {
        let text = read_text(path, LONGEST).map_err(|error| {
            RecordError::Failed(format!("cannot read the record {}: {error}", path.display()))
        })?;
        let wrong = |line: usize, reason: String| {
            RecordError::Failed(format!("{}:{line}: {reason}", path.display()))
        };
        let mut lines = (1..).zip(text.lines());
        let first = lines.next().map_or("", |(_, line)| line);
        let head = head(path, first)?;
        let answers = Vec::new();
        let mut record = Self { head, ready: None, answers, lines: Vec::new(), swapped: false };
        let last = text.lines().count();
        for (number, line) in lines {
            let line: Line = serde_json::from_str(line).map_err(|error| {
                let cut = match number == last {
                    true => "the file ends in the middle of a line",
                    false => "not a line of a record",
                };
                wrong(number, format!("{cut} ({error})"))
            })?;
            record.take(number, &line).map_err(|reason| wrong(number, reason))?;
            record.lines.push(line);
        }
        Ok(record)
    }

    /// The answer in progress.
    fn open(&mut self) -> Result<&mut RecordedAnswer, String> {
        let open = self.answers.last_mut().filter(|answer| !answer.ended);
        open.ok_or_else(|| "an answer without a question before it".to_owned())
    }

    fn take(&mut self, number: usize, line: &Line) -> Result<(), String> {
        match line {
            Line::Record(_) => return Err("a second first line".to_owned()),
            Line::Ready(ready) if self.answers.is_empty() => self.ready = Some((**ready).clone()),
            Line::Ready(ready) => {
                let of = |ready: &Ready| (ready.target.clone(), ready.target_detail.clone());
                self.swapped = self.ready.as_ref().map(of) != Some(of(ready));
            }
            Line::Question(question) => self.answers.push(RecordedAnswer {
                question: (**question).clone(),
                line: number,
                swapped: self.swapped,
                ..RecordedAnswer::default()
            }),
            Line::Sampler { .. } => self.open()?.turned = true,
            Line::First { token, .. } => {
                let answer = self.open()?;
                if !answer.tokens.is_empty() {
                    return Err("a second first token".to_owned());
                }
                answer.tokens.push(token.token);
                answer.texts.push(token.text.clone());
                answer.next = Some(token.token);
            }
            Line::Round(round) => self.open()?.round(round)?,
            Line::Summary { summary, .. } => {
                let answer = self.open()?;
                if summary.tokens != answer.tokens.len() {
                    let said = summary.tokens;
                    let count = answer.tokens.len();
                    return Err(format!("it counts {said} tokens, but its rounds have {count}"));
                }
                answer.ended = true;
                answer.complete = summary.finish.is_some_and(|finish| finish != Finish::Cancelled);
            }
            Line::Failed { .. } => {
                if let Ok(answer) = self.open() {
                    answer.ended = true;
                }
            }
            Line::Loading { .. }
            | Line::Prefill { .. }
            | Line::Reasons { .. }
            | Line::Notice { .. } => {}
        }
        Ok(())
    }
}

impl RecordedAnswer {
    /// Checks a round against itself and the previous one, and takes its tokens.
    fn round(&mut self, round: &Round) -> Result<(), String> {
        check(round)?;
        if round.index != self.rounds {
            return Err(format!("round {} instead of {}", round.index, self.rounds));
        }
        let root = round.tree.nodes()[0].token;
        if self.next != Some(root) {
            return Err(format!("its root {root} is not the last token of the round before"));
        }
        self.rounds += 1;
        self.tokens.extend(round.committed.iter().map(|committed| committed.token));
        self.texts.extend(round.committed.iter().map(|committed| committed.text.clone()));
        self.next = self.tokens.last().copied();
        Ok(())
    }
}

/// Whether a round's tokens follow from its tree.
pub(super) fn check(round: &Round) -> Result<(), String> {
    let nodes = round.tree.nodes();
    if nodes.is_empty() || round.labels.len() != nodes.len() {
        return Err(format!("{} labels for {} nodes", round.labels.len(), nodes.len()));
    }
    for (at, node) in nodes.iter().enumerate() {
        let right = match at {
            0 => node.parent == 0 && node.depth == 0,
            _ => node.parent < at && node.depth == nodes[node.parent].depth + 1,
        };
        if !right {
            return Err(format!("node {at} has no parent before it"));
        }
    }
    let mut parent = 0;
    for &node in &round.accepted {
        if node == 0 || nodes.get(node).is_none_or(|found| found.parent != parent) {
            return Err(format!("the accepted node {node} is not a child of the previous one"));
        }
        parent = node;
    }
    let path = round.accepted.iter().map(|&node| nodes[node].token).chain([round.bonus]);
    let committed: Vec<u32> = round.committed.iter().map(|committed| committed.token).collect();
    let path: Vec<u32> = path.take(committed.len()).collect();
    if committed.is_empty() || path != committed {
        return Err("the committed tokens differ from the accepted path".to_owned());
    }
    round.check_ahead()?;
    // What follows on the path is cut only at the end of an answer.
    let whole = committed.len() == round.accepted.len() + 1;
    if !whole && round.finish.is_none() {
        return Err("tokens of the accepted path are missing".to_owned());
    }
    Ok(())
}

/// The first line, distinguished from other files and from other formats.
fn head(path: &Path, line: &str) -> Result<RecordHead, RecordError> {
    let none = || RecordError::None(path.to_owned());
    let value: serde_json::Value = serde_json::from_str(line).map_err(|_| none())?;
    if value["type"] != "record" {
        return Err(none());
    }
    let found = value["format"].as_u64().and_then(|format| u32::try_from(format).ok());
    let found = found.ok_or_else(none)?;
    if !(OLDEST_FORMAT..=FORMAT).contains(&found) {
        return Err(RecordError::Failed(format!(
            "{} is a record in format {found}, from dovetail {}; this version reads formats \
             {OLDEST_FORMAT} to {FORMAT}; record it again",
            path.display(),
            value["program"].as_str().unwrap_or("an unknown version")
        )));
    }
    serde_json::from_value(value)
        .map_err(|error| RecordError::Failed(format!("{}:1: {error}", path.display())))
}
