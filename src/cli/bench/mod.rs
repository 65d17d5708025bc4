//! `dovetail bench`: measurements, one subcommand each; without one, the strategies against each
//! other.

mod args;
mod fetch;
mod files;
mod isolated;
mod paper;
mod pass;
mod session;
mod strategies;
mod sweep;

use anyhow::anyhow;

use crate::bench::quality;
use crate::cli::backend;
use crate::cli::exit::{CommandResult, Failure};
use crate::plan::BLOCKS;

pub use args::BenchArgs;
use args::{BenchCommand, QualityArgs};

/// Runs the measurement that the flags name.
pub fn bench(args: &BenchArgs) -> CommandResult {
    match &args.command {
        None => strategies::strategies(args),
        Some(BenchCommand::Pass(args)) => pass::pass(args),
        Some(BenchCommand::Sweep(args)) => sweep::sweep(args),
        Some(BenchCommand::Gpu(args)) => sweep::placement(args),
        Some(BenchCommand::Paper(args)) => paper::paper(args),
        Some(BenchCommand::Fetch(args)) => fetch::fetch(args),
        Some(BenchCommand::Compare(args)) => files::compare(args),
        Some(BenchCommand::Show(args)) => files::show(args),
        Some(BenchCommand::Quality(args)) => measure_quality(args),
    }
}

/// Scores a text with the target.
fn measure_quality(args: &QualityArgs) -> CommandResult {
    let spec = args.file.model(&args.target)?;
    let found = quality::run(&spec, &args.options, backend::compute_threads(args.threads))?;
    Ok(files::emit(&args.style, &found, "", &[found.table()], &[])?)
}

/// `1,2,4` or `1..5`, both ends included, from 0 to `most`.
fn numbers(flag: &str, text: &str, most: usize) -> anyhow::Result<Vec<usize>> {
    let wrong = || {
        anyhow!(
            "{flag}: `{text}` is not a list such as 1,2,4 or a range such as 1..5, up to {most}"
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

/// The numbers of blocks that `--head-blocks` names, of those that the draft has; all of them
/// without the flag.
fn head_blocks(given: Option<&str>, all: Vec<usize>) -> Result<Vec<usize>, Failure> {
    let Some(text) = given else { return Ok(all) };
    let blocks = numbers("--head-blocks", text, BLOCKS.most).map_err(Failure::usage)?;
    let Some(other) = blocks.iter().find(|blocks| !all.contains(blocks)) else {
        return Ok(blocks);
    };
    let least = all.first().copied().unwrap_or(0);
    let most = all.last().copied().unwrap_or(0);
    Err(Failure::usage(anyhow!(
        "--head-blocks: the draft can use {least} to {most} blocks, not {other}"
    )))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::args::Cli;

    #[test]
    fn the_former_names_still_work_and_are_hidden() {
        for (words, name) in [
            ("verify --model x --gammas 1,4 --context 16 --quick --json", "Pass"),
            ("round --shape 7b --format q4_k --head-blocks 1..2 --accept paper:mt_bench", "Pass"),
            ("ablation --gammas 1,4 --head-blocks 1,2 --also head --quick", "Sweep"),
            ("gpu --quick --json", "Gpu"),
        ] {
            let line = ["dovetail", "bench"].into_iter().chain(words.split(' '));
            let parsed = Cli::try_parse_from(line).unwrap();
            assert!(format!("{:?}", parsed.command).contains(&format!("Some({name}(")), "{words}");
        }
        let mut root = Cli::command();
        let help = root.find_subcommand_mut("bench").unwrap().render_long_help().to_string();
        for name in ["verify", "round", "ablation", "gpu"] {
            assert!(!help.contains(&format!("\n  {name} ")), "{name}: {help}");
        }
        assert!(help.contains("\n  pass") && help.contains("\n  sweep"), "{help}");
    }

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
