//! `dovetail bench round`: from flags to a prediction. Must never measure by itself.

mod models;

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::Args;
use serde::Serialize;

use crate::bench::TableStyle;
use crate::bench::paper::published;
use crate::bench::round::{AcceptanceProfile, Check, PUBLISHED_PREFIX, Prediction, chart, tables};
use crate::chart;
use crate::cli::exit::{Code, CommandResult, Failure, report};
use crate::cli::output::stdout;
use crate::cli::shared_args::SharedArgs;
use crate::printable::json_line;
use crate::record::Question;

/// Flags of `bench round`.
#[derive(Debug, Args)]
pub struct RoundArgs {
    /// Use random weights in the shape of a known model, with a DGF head of matching size on the
    /// CPU: 1b, 7b or 13b [default: the models that the other flags name].
    #[arg(long, value_name = "NAME", help_heading = "Round")]
    pub shape: Option<String>,
    /// Draft for that target with a small model of random weights on the CPU: 68m, 160m, 1b, … Its
    /// strategy comes from --strategy: sps (the default), duo, small-model or specexec.
    #[arg(
        long,
        value_name = "NAME",
        requires = "shape",
        conflicts_with = "head_blocks",
        help_heading = "Round"
    )]
    pub draft_shape: Option<String>,
    /// Format of the random weights.
    #[arg(long, value_name = "NAME", default_value = "q4_k", help_heading = "Round")]
    pub format: String,
    /// Blocks of the head (M): a list, or a range such as 1..5 [default: 1..5 with --shape,
    /// otherwise all that the head has].
    #[arg(long = "head-blocks", value_name = "M,…|A..B", help_heading = "Round")]
    pub head_blocks: Option<String>,
    /// Widths k of a small model's trees, or numbers of sequences: a list or a range [default: 1
    /// for sps, 32 for specexec, 1,2,3,4 for duo, 1,2,4,10 for small-model].
    #[arg(long, value_name = "K,…|A..B", conflicts_with = "head_blocks", help_heading = "Round")]
    pub widths: Option<String>,
    /// Numbers of nodes γ; for duo, the tokens shared by its sequences.
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "1,2,4,8,12,16,24,32,48,64",
        help_heading = "Round"
    )]
    pub gammas: Vec<usize>,
    /// Acceptance to predict from. Either records of large fixed trees, made with `dovetail run
    /// --record FILE --strategy dovetail --gamma 64 --width 10 --depth 7 --blocks M` (for small
    /// models with `--strategy small-model`, or specexec for itself), or the Dovetail paper's
    /// figures for heads at γ = 16: paper:mt_bench or paper:humaneval.
    #[arg(long, value_name = "FILE,…|paper:SET", value_delimiter = ',', help_heading = "Round")]
    pub accept: Vec<PathBuf>,
    /// Decode the recorded questions with five of the settings and print the prediction error.
    #[arg(long, requires = "accept", conflicts_with = "shape", help_heading = "Round")]
    pub check: bool,
    /// Tokens of context before the rounds of random models.
    #[arg(long, value_name = "N", default_value_t = 256, help_heading = "Round")]
    pub prompt_tokens: usize,
    /// Print the tables as Markdown.
    #[arg(long, conflicts_with = "json", help_heading = "Round")]
    pub markdown: bool,
    /// Print one JSON object instead of the tables.
    #[arg(long, help_heading = "Round")]
    pub json: bool,
    /// Draw the heat map into this folder.
    #[arg(long, value_name = "FOLDER", help_heading = "Round")]
    pub svg: Option<PathBuf>,
    /// Flags shared with the chat.
    #[command(flatten)]
    pub shared: SharedArgs,
}

/// What is printed with `--json`.
#[derive(Serialize)]
struct Results<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    subject: &'a str,
    acceptance: &'a [String],
    #[serde(flatten)]
    prediction: &'a Prediction,
    checks: &'a [Check],
}

/// What was measured, and of what.
struct Measured {
    subject: String,
    prediction: Prediction,
    checks: Vec<Check>,
}

/// Measures rounds and predicts tokens a second.
pub(super) fn round(args: &RoundArgs) -> CommandResult {
    let usage = |error: anyhow::Error| Failure::new(Code::Usage, error);
    let (profile, questions) = acceptance(args).map_err(usage)?;
    let measured = match &args.shape {
        Some(shape) => models::random(args, shape, &profile)?,
        None => models::loaded(args, &profile, &questions)?,
    };
    let Measured { subject, prediction, checks } = &measured;
    let tables = tables(prediction, &profile.sources, checks);
    if let Some(folder) = &args.svg {
        draw(folder, prediction)?;
    }
    let mut out = stdout()?;
    if args.json {
        let acceptance = &profile.sources[..];
        let results = Results { kind: "round", subject, acceptance, prediction, checks };
        out.write_all(json_line(&results).map_err(io::Error::from)?.as_bytes())?;
        return Ok(());
    }
    writeln!(out, "{subject}\n")?;
    let style = if args.markdown { TableStyle::Markdown } else { TableStyle::Plain };
    for table in &tables {
        table.write(style, &mut out)?;
    }
    Ok(())
}

/// The acceptance profile of the flags, and the questions of its records.
fn acceptance(args: &RoundArgs) -> anyhow::Result<(AcceptanceProfile, Vec<Question>)> {
    let names = args.accept.iter().filter_map(|path| path.to_str()?.strip_prefix(PUBLISHED_PREFIX));
    if let Some(name) = names.clone().next() {
        if args.accept.len() > 1 {
            return Err(anyhow!(
                "--accept: published figures and records come from different models; give only one \
                 of them"
            ));
        }
        if args.check {
            return Err(anyhow!(
                "--check decodes the questions of a record; name a record with --accept"
            ));
        }
        let profile = AcceptanceProfile::published(&published()?, name).context("--accept")?;
        return Ok((profile, Vec::new()));
    }
    let mut profile = AcceptanceProfile::default();
    let mut questions = Vec::new();
    for path in &args.accept {
        let record = profile.add(path)?;
        questions.extend(record.answers.into_iter().map(|answer| answer.question));
    }
    Ok((profile, questions))
}

fn draw(folder: &std::path::Path, prediction: &Prediction) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    if let Some((name, svg)) = chart(prediction)? {
        let path = folder.join(name);
        chart::save(&svg, &path)?;
        report(&format!("wrote {}", path.display()));
    }
    Ok(())
}

/// `1,2,4` or `1..5`, both ends included, from 0 to `most`.
fn numbers(flag: &str, text: &str, most: usize) -> anyhow::Result<Vec<usize>> {
    let wrong = || {
        anyhow!(
            "{flag}: `{text}` is not a list such as 1,2,4 or a range such as 1..5, \
                            up to {most}"
        )
    };
    let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
    let all: Vec<usize> = match text.split_once("..") {
        Some((first, last)) => (number(first)?..=number(last)?).collect(),
        None => text.split(',').map(number).collect::<anyhow::Result<_>>()?,
    };
    if all.is_empty() || all.iter().any(|number| *number > most) {
        return Err(wrong());
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_a_list_or_a_range() {
        let numbers = |text| numbers("--head-blocks", text, 16);
        assert_eq!(numbers("1..3").unwrap(), [1, 2, 3]);
        assert_eq!(numbers("2, 5").unwrap(), [2, 5]);
        for wrong in ["", "3..1", "x", "1..99", "1.5"] {
            let error = numbers(wrong).unwrap_err().to_string();
            assert!(error.contains("--head-blocks"), "{wrong}: {error}");
        }
    }
}
