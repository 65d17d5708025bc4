//! `dovetail bench paper`: a table or a figure of the papers on this machine, next to theirs. It
//! must not compute figures.

use anyhow::anyhow;
use clap::Args;

use super::args::BenchRunArgs;
use super::session::{BenchSession, PAPER, load_sets};
use crate::bench::paper::{
    BlockHead, Ours, PaperModels, Published, PublishedFigure, PublishedTable, length_sets,
    matching_sets, published, tables,
};
use crate::bench::prompts;
use crate::bench::strategies::charts;
use crate::cli::exit::{Code, CommandResult, Failure};
use crate::plan::DrafterId;

/// Prompts of each length in the figure of lengths, unless `--limit` has another number.
const PER_LENGTH: usize = 2;
/// The candidate that drafts from a text.
const REST: &str = "rest";
/// Before the name of a table that is among the figures.
const TABLE: &str = "table ";

/// Flags of `bench paper`.
#[derive(Clone, Debug, Args)]
pub struct PaperArgs {
    /// Table to repeat: 1, 2 or 3 of the Dovetail paper, duo-1 to duo-4 of the DuoDecoding paper.
    #[arg(long, value_name = "TABLE", required_unless_present = "figure", help_heading = "Paper")]
    pub table: Option<String>,
    /// Figure to repeat: 1 (placement) or 4 (the target's pass by the number of nodes) of the
    /// Dovetail paper; duo-1 (drafting during verification, by prompt length), duo-3 (time to the
    /// first token), duo-4 (waiting) or duo-5 (number of sequences) of the DuoDecoding paper.
    #[arg(long, value_name = "FIGURE", conflicts_with = "table", help_heading = "Paper")]
    pub figure: Option<String>,
    /// Models that only some tables need.
    #[command(flatten)]
    pub models: PaperModels,
    /// Flags shared by these runs.
    #[command(flatten)]
    pub run: BenchRunArgs,
}

/// Repeats a table or a figure.
pub(super) fn paper(args: &PaperArgs) -> CommandResult {
    let published = published().map_err(anyhow::Error::from)?;
    // The command line asks for one of them.
    let Some(name) = args.table.as_ref().or(args.figure.as_ref()) else { return Ok(()) };
    let mut key = name.clone();
    if args.table.is_some() {
        if let Some(table) = published.tables.get(name) {
            return run_table(args, table, &published);
        }
        key = format!("{TABLE}{name}");
    }
    match published.figures.get(&key) {
        Some(figure) => run_figure(args, figure, &published),
        None => Err(unknown(args, name, &published)),
    }
}

fn unknown(args: &PaperArgs, name: &str, published: &Published) -> Failure {
    let figures = published.figures.keys();
    let mut flag = "figure";
    let mut known: Vec<&str> =
        figures.clone().map(String::as_str).filter(|name| !name.starts_with(TABLE)).collect();
    if args.table.is_some() {
        flag = "table";
        known = published.tables.keys().map(String::as_str).collect();
        known.extend(figures.filter_map(|name| name.strip_prefix(TABLE)));
    }
    let known = known.join(", ");
    Failure::usage(anyhow!("--{flag}: `{name}` is not one of {known}"))
}

/// The flags of the run. Drafts have their published weights unless a flag says otherwise. If the
/// paper has the target on the CPU, it stays there unless the flags place it, even if another place
/// is faster here; rows that have it elsewhere say so.
fn run_args(args: &PaperArgs, target_on_cpu: bool) -> BenchRunArgs {
    let mut run = args.run.clone();
    run.shared.settings.set_otherwise("draft_precision", "stored");
    if target_on_cpu {
        run.shared.settings.set_otherwise("gpu_layers", "0");
    }
    run
}

fn run_table(args: &PaperArgs, theirs: &PublishedTable, published: &Published) -> CommandResult {
    if let Some(BlockHead { blocks, .. }) = args.models.without_row(theirs) {
        let error = anyhow!("--block-head: the table has no row with M = {blocks}");
        return Err(Failure::usage(error));
    }
    let mut run = run_args(args, theirs.target_on_cpu);
    if theirs.candidates.iter().any(|(_, line)| line == REST)
        && let Some(text) = prompts::fetched_text()
    {
        run.shared.settings.set_otherwise("rest_text", &text.display().to_string());
    }
    let rows = theirs.rows(&args.models);
    let mut sets = load_sets(&run)?;
    if run.prompts.is_empty() {
        // Sets that are not bundled may have been downloaded.
        let fetched = prompts::load_fetched(run.limit).map_err(Failure::usage)?;
        let known: Vec<String> = sets.iter().map(|set| set.name.clone()).collect();
        sets.extend(fetched.into_iter().filter(|set| !known.contains(&set.name)));
    }
    let (sets, notes) = matching_sets(published, &theirs.columns, sets);
    if sets.is_empty() {
        return Err(Failure::usage(anyhow!("--prompts: {}", notes.join(" "))));
    }
    let mut session = BenchSession::with(&run, PAPER, sets, Some(&theirs.temperatures))?;
    let mut lines = Vec::new();
    for row in &rows {
        match row.candidate_lines() {
            Ok(line) => lines.extend(session.accepted(line)),
            Err(missing) => {
                session.leave_out(Code::Usage, format!("`{}` needs {missing}", row.published));
            }
        }
    }
    let results = session.measure(Some(lines), theirs.isolated)?;
    let vram_limit = session.vram_limit();
    let ours = Ours { results: &results, rows: &rows, vram_limit, notes: &notes };
    session.report(&results, &tables(theirs, &ours), &charts(&results))
}

fn run_figure(args: &PaperArgs, figure: &PublishedFigure, published: &Published) -> CommandResult {
    let run = run_args(args, figure.target_on_cpu);
    let mut sets = load_sets(&run)?;
    if !figure.prompts_of_words.is_empty() {
        // Whole sets: a prompt alone would be too short for the longest.
        sets = prompts::load(&run.sets(), None).map_err(Failure::usage)?;
        let each = run.limit.unwrap_or(PER_LENGTH);
        sets = length_sets(&sets, &figure.prompts_of_words, each);
    }
    let mut session = BenchSession::with(&run, PAPER, sets, None)?;
    let kind = match session.settings.draft_model {
        Some(_) => DrafterId::SmallModel,
        None => DrafterId::Head,
    };
    let lines = session.accepted(figure.candidate_lines(&args.models, kind));
    let results = session.measure(Some(lines), false)?;
    let tables = figure.tables(&results, published);
    session.report(&results, &tables, &figure.charts(&results, published))
}
