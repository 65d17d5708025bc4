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
use crate::hardware::{Adapter, Machine};
use crate::plan::{DrafterId, best_adapter};

/// Prompts of each length in the figure of lengths, unless `--limit` has another number.
const PER_LENGTH: usize = 2;
/// The candidate that drafts from a text.
const REST: &str = "rest";
/// Before the name of a table that is among the figures.
const TABLE: &str = "table ";

/// Flags of `bench paper`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Paper")]
pub struct PaperArgs {
    /// Table to repeat: 1, 2 or 3 of the Dovetail paper, duo-1 to duo-4 of the DuoDecoding paper.
    #[arg(long, value_name = "TABLE", required_unless_present = "figure")]
    pub table: Option<String>,
    /// Figure to repeat: 1 (placement) or 4 (the target's pass by the number of nodes) of the
    /// Dovetail paper; duo-1 (drafting during verification, by prompt length), duo-3 (time to the
    /// first token), duo-4 (waiting) or duo-5 (number of sequences) of the DuoDecoding paper.
    #[arg(long, value_name = "FIGURE", conflicts_with = "table")]
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
    Failure::unknown(flag, name, &known)
}

/// The flags of the run. Drafts have their published weights and score every token unless a flag
/// says otherwise. The target is where the paper has it unless the flags place it, even if another
/// place is faster here; rows that have it elsewhere say so. A small model drafts on the CPU if the
/// whole target is on a card, as in DuoDecoding's paper. Without a card, both are where they are
/// fastest.
fn run_args(args: &PaperArgs, on_cpu: bool, on_gpu: bool) -> BenchRunArgs {
    let mut run = args.run.clone();
    run.shared.settings.set_otherwise("draft_precision", "stored");
    run.shared.settings.set_otherwise("draft_vocab", "all");
    let adapters = if on_gpu { Machine::probe().adapters } else { Vec::new() };
    if let Some(layers) = paper_layers(on_cpu, &adapters) {
        run.shared.settings.set_otherwise("gpu_layers", layers);
    }
    run
}

/// The target's blocks on the GPU as in the paper: none, or all if one of `adapters` is a card with
/// memory of its own; `None` leaves the choice to the program.
fn paper_layers(on_cpu: bool, adapters: &[Adapter]) -> Option<&'static str> {
    let is_card = |adapter: &Adapter| !adapter.shares_memory();
    match best_adapter(adapters) {
        _ if on_cpu => Some("0"),
        best => best.is_some_and(is_card).then_some("all"),
    }
}

fn run_table(args: &PaperArgs, theirs: &PublishedTable, published: &Published) -> CommandResult {
    if let Some(BlockHead { blocks, .. }) = args.models.without_row(theirs) {
        let error = anyhow!("--block-head: the table has no row with M = {blocks}");
        return Err(Failure::usage(error));
    }
    let mut run = run_args(args, theirs.target_on_cpu, theirs.target_on_gpu);
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
    let (sets, mut notes) = matching_sets(published, &theirs.columns, sets);
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
    notes.extend(theirs.target_on_gpu.then(|| results.models.duo_places()));
    let vram_limit = session.vram_limit();
    let ours = Ours { results: &results, rows: &rows, vram_limit, notes: &notes };
    session.report(&results, &tables(theirs, &ours), &charts(&results))
}

fn run_figure(args: &PaperArgs, figure: &PublishedFigure, published: &Published) -> CommandResult {
    if let Some(BlockHead { blocks, .. }) = args.models.block_head.first() {
        let error = anyhow!("--block-head: only tables have rows with M = {blocks}");
        return Err(Failure::usage(error));
    }
    let mut run = run_args(args, figure.target_on_cpu, figure.target_on_gpu);
    if run.prompts.is_empty() {
        run.prompts.clone_from(&figure.prompts);
    }
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
    let mut tables = figure.tables(&results, published);
    if let (true, Some(first)) = (figure.target_on_gpu, tables.first_mut()) {
        first.notes.push(results.models.duo_places());
    }
    session.report(&results, &tables, &figure.charts(&results, published))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::AdapterKind::{Discrete, Integrated, Software};
    use crate::hardware::Vram;

    #[test]
    fn the_target_is_where_the_paper_has_it() {
        let adapter = |kind, memory| Adapter {
            number: 0,
            name: "x".to_owned(),
            kind,
            interface: "Vulkan".to_owned(),
            driver: "1".to_owned(),
            memory,
            bandwidth: None,
            bus: String::new(),
        };
        let memory = Some(Vram { used: 0, total: 8 << 30 });
        let card = [adapter(Software, None), adapter(Discrete, memory)];
        assert_eq!(paper_layers(false, &card), Some("all"));
        for none in [&[][..], &[adapter(Software, None)], &[adapter(Integrated, None)]] {
            assert_eq!(paper_layers(false, none), None, "{none:?}");
        }
        assert_eq!(paper_layers(true, &card), Some("0"));
    }
}
