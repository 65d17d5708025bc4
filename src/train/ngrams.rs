//! Makes an n-gram table from chats: the target reads every answer once, and what it considered
//! likely after each token is counted by the preceding tokens. It must not depend on terminals or
//! how a table looks.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;

use super::options::check;
use super::render::{Renderer, Text};
use super::run::{Drawn, Reports, Stage, TrainEvent, render};
use super::{Result, TrainError};
use crate::kernels::{KvFormat, Pool};
use crate::library::{NgramOwner, TargetFiles, write_ngrams};
use crate::model::{CpuTarget, Target};
use crate::speculate::ngrams::{KEPT, NgramBuilder};
use crate::speculate::{Tree, top_log_probs};

/// Receives a token and what the target considered likely after it, with probabilities.
type Take<'a> = dyn FnMut(u32, &[(u32, f32)]) + 'a;

/// The number of tokens in a pass: all their logits are held at a time.
const SLICE: usize = 64;

/// A table to make. The fields are flags of `ngrams`, whose help the comments are.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Chats")]
pub struct NgramRecipe {
    /// Use at most N chats, drawn at random by the seed [default: all].
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// System message for chats that have none.
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// Share of the chats to measure with, 0 to below 1.
    #[arg(long, value_name = "X", default_value_t = 0.03)]
    pub held_out: f64,
    /// Tokens to use of each chat, at least 2; the rest is cut off.
    #[arg(long, value_name = "N", default_value_t = 2048)]
    pub window: usize,
    /// Random seed for drawing chats.
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub seed: u64,
    /// Number of contexts to store, the most informative first; each takes 19 bytes on disk, or 28
    /// if the vocabulary has more than 65536 tokens.
    #[arg(long, value_name = "N", default_value_t = 500_000, help_heading = "Table")]
    pub contexts: usize,
}

impl NgramRecipe {
    fn check(&self) -> Result<()> {
        let Self { held_out, window, contexts, .. } = *self;
        let limit = self.limit.unwrap_or(usize::MAX);
        check([
            ("held-out", held_out.to_string(), (0.0..1.0).contains(&held_out), "0 to below 1"),
            ("window", window.to_string(), window >= 2, "at least 2"),
            ("limit", limit.to_string(), limit > 0, "at least 1"),
            ("contexts", contexts.to_string(), (1..=1 << 28).contains(&contexts), "1 to 268435456"),
        ])
    }
}

/// What was made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NgramReport {
    /// How many chats went into the table.
    pub chats: usize,
    /// How many lines of the file are not chats, or are refused by the target's template.
    pub refused: usize,
    /// How many places went into it: tokens of answers.
    pub places: usize,
    /// How many contexts it has.
    pub contexts: usize,
    /// How many places the held-out chats have.
    pub held: usize,
    /// For how many of these the table lists the target's likeliest token first, and among its
    /// four.
    pub right: (usize, usize),
}

/// Reads the chats in `data` and writes the table to `out`.
///
/// # Errors
/// [`TrainError`]; [`TrainError::Stopped`] once `stop` is set. Nothing is written then.
pub fn make_ngrams(
    files: &TargetFiles,
    data: &Path,
    recipe: &NgramRecipe,
    out: &Path,
    threads: usize,
    stop: &AtomicBool,
    report: Reports<'_>,
) -> Result<NgramReport> {
    recipe.check()?;
    let window = recipe.window.min(files.config.max_positions);
    let renderer = Renderer::new(files, window, recipe.system.clone());
    let drawn = Drawn { limit: recipe.limit, seed: recipe.seed };
    let (texts, chats) = render(data, &renderer, drawn, None, stop, &mut |_| {})?;
    let mut made = NgramReport { refused: chats.refused, ..NgramReport::default() };
    let longest = texts.iter().map(|text| text.tokens.len()).max().unwrap_or(1);
    let total = texts.iter().map(|text| text.tokens.len() as u64).sum();
    let mut target = files.on_cpu(Pool::new(threads), longest.max(1), KvFormat::F32)?;
    let held = (texts.len() as f64 * recipe.held_out).round() as usize;
    let (held, learned) = texts.split_at(held.min(texts.len().saturating_sub(1)));
    let mut builder = NgramBuilder::default();
    let mut done = 0;
    report(TrainEvent::Stage { stage: Stage::Features, total });
    let mut read = |text: &Text, take: &mut Take<'_>| {
        done += text.tokens.len();
        let going = pass(&mut target, text, stop, take);
        report(TrainEvent::At(done as u64));
        going
    };
    for text in learned {
        builder.begin();
        read(text, &mut |token, likely| builder.push(token, likely))?;
        made.chats += 1;
    }
    let mut measured: Vec<(Vec<u32>, Vec<Option<u32>>)> = Vec::new();
    for text in held {
        let (mut tokens, mut nexts) = (Vec::new(), Vec::new());
        read(text, &mut |token, likely| {
            tokens.push(token);
            nexts.push(likely.first().map(|next| next.0));
        })?;
        measured.push((tokens, nexts));
    }
    made.places = builder.places();
    let table = builder.table(recipe.contexts);
    made.contexts = table.len();
    for (tokens, nexts) in measured {
        for (at, next) in nexts.into_iter().enumerate() {
            let Some(next) = next else { continue };
            let likely = table.after(&tokens[..=at]).map_or(Vec::new(), |found| found.1);
            made.held += 1;
            made.right.0 += usize::from(likely.first().is_some_and(|first| first.0 == next));
            made.right.1 += usize::from(likely.iter().any(|(token, _)| *token == next));
        }
    }
    let remedy = "; name another file with --out, or free some disk space";
    write_ngrams(out, NgramOwner::of(files), made.places, &table)
        .map_err(|source| TrainError::file("write", out, source, remedy))?;
    Ok(made)
}

/// Reads a text: `take` receives every token, with what the target considers likely after it if
/// that belongs to the answer.
fn pass(target: &mut CpuTarget, text: &Text, stop: &AtomicBool, take: &mut Take<'_>) -> Result<()> {
    let mask = text.mask();
    let is_answer = |at: usize| mask.get(at).is_some_and(|is| *is);
    // The last token before the answer is the first whose successors are needed.
    let begin = mask.iter().position(|is| *is).unwrap_or(mask.len()).saturating_sub(1).max(1);
    let (prompt, rest) = text.tokens.split_at(begin.min(text.tokens.len()));
    target.truncate(0);
    target.prefill(prompt)?;
    for &token in prompt.iter() {
        take(token, &[]);
    }
    let mut at = begin;
    for slice in rest.chunks(SLICE) {
        if stop.load(Ordering::Relaxed) {
            return Err(TrainError::Stopped);
        }
        let found = target.verify(&Tree::chain(slice))?;
        let path: Vec<usize> = (0..slice.len()).collect();
        target.commit(&path);
        for (&token, logits) in slice.iter().zip(found.logits.chunks_exact(target.vocab())) {
            at += 1;
            let likely = if is_answer(at) { top_log_probs(logits, KEPT) } else { Vec::new() };
            let likely: Vec<(u32, f32)> =
                likely.into_iter().map(|(token, log)| (token, log.exp())).collect();
            take(token, &likely);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::{Spec, open_ngrams, open_target};

    fn recipe() -> NgramRecipe {
        NgramRecipe {
            window: 256,
            system: None,
            limit: None,
            contexts: 1000,
            held_out: 0.25,
            seed: 1,
        }
    }

    /// The greedy continuation of a text from which the table was made is what the table says.
    #[test]
    fn a_table_says_what_the_target_said() {
        let files = open_target(&Spec::Bundled, &mut |_| {}).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("chats.jsonl");
        let out = folder.path().join("a.ngrams");
        let chat = |question: &str| {
            let answer = "I am fine, thank you. How are you today?";
            serde_json::json!({"messages": [
                {"role": "user", "content": question}, {"role": "assistant", "content": answer},
            ]})
        };
        let lines = ["Hi!", "Hello there", "How do you do?", "Good morning"].map(chat);
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        std::fs::write(&data, lines.join("\n") + "\n{}\n").unwrap();
        let stop = AtomicBool::new(false);
        let mut told = Vec::new();
        let mut make = |stop: &AtomicBool| {
            make_ngrams(&files, &data, &recipe(), &out, 1, stop, &mut |event| {
                if let TrainEvent::At(tokens) = event {
                    told.push(tokens);
                }
            })
        };
        let made = make(&stop).unwrap();
        assert_eq!((made.chats, made.refused), (3, 1));
        assert!(made.held > 5 && made.places > 2 * made.held, "{made:?}");
        assert!(made.right.0 <= made.right.1 && made.right.1 <= made.held, "{made:?}");
        // The same answer as in the others: the longest context knows it.
        assert!(made.right.0 * 2 > made.held, "{made:?}");
        let found = open_ngrams(&out, &files).unwrap();
        assert_eq!((found.table.len(), found.header.places), (made.contexts, made.places));
        assert!(matches!(make(&AtomicBool::new(true)), Err(TrainError::Stopped)));
        assert!(told.len() >= 4 && told[..4].is_sorted(), "{told:?}");
        let none =
            make_ngrams(&files, Path::new("none.jsonl"), &recipe(), &out, 1, &stop, &mut |_| {});
        assert!(matches!(none, Err(TrainError::Chats(..))));
    }
}
