//! `dovetail bench paper`: a table or a figure of the papers on this machine, beside theirs. Must
//! never compute figures.

use anyhow::anyhow;
use clap::Args;

use super::args::CourseArgs;
use super::files::deliver;
use super::session::{BenchSession, load_sets};
use crate::bench::paper::{
    Ours, PaperFigure, PaperModels, PaperTable, Published, length_sets, matching_sets, published,
    tables,
};
use crate::bench::prompts;
use crate::bench::strategies::{ContenderLine, contender_lines};
use crate::cli::exit::{Code, CommandResult, Failure};

/// Prompts of each length in the figure of lengths, unless `--limit` says otherwise.
const A_LENGTH: usize = 2;

/// Flags of `bench paper`.
#[derive(Clone, Debug, Args)]
pub struct PaperArgs {
    /// Table to repeat: 1, 2 or 3 of the Dovetail paper, duo-1 to duo-4 of the DuoDecoding paper.
    #[arg(long, value_name = "TABLE", required_unless_present = "figure", help_heading = "Paper")]
    pub table: Option<String>,
    /// Figure to repeat: 1 of the Dovetail paper (placement); duo-1 (drafting during verification,
    /// by prompt length), duo-3 (time to the first token), duo-4 (waiting) or duo-5 (number of
    /// sequences) of the DuoDecoding paper.
    #[arg(long, value_name = "FIGURE", conflicts_with = "table", help_heading = "Paper")]
    pub figure: Option<String>,
    /// EAGLE-1 or EAGLE-2 head for the target: a folder, a file or a hub id.
    #[arg(long, value_name = "MODEL", help_heading = "Paper")]
    pub eagle_head: Option<String>,
    /// Second small model, in addition to --draft-model.
    #[arg(long, value_name = "MODEL", help_heading = "Paper")]
    pub second_draft_model: Option<String>,
    /// Flags shared by these runs.
    #[command(flatten)]
    pub course: CourseArgs,
}

/// Runs a table or a figure.
pub(super) fn paper(args: &PaperArgs) -> CommandResult {
    let published = published().map_err(anyhow::Error::from)?;
    match (&args.table, &args.figure) {
        (Some(name), _) => match (PaperTable::named(name), PaperFigure::table_named(name)) {
            (Some(table), _) if table.has_target_on_cpu() => {
                run_table(&target_on_cpu(args), table, &published)
            }
            (Some(table), _) => run_table(args, table, &published),
            (None, Some(table)) => run_figure(args, table, &published),
            (None, None) => {
                let shown_as_figures = PaperFigure::TABLES.map(|(name, _)| name);
                let known = PaperTable::ALL.map(|(name, _)| name);
                Err(unknown("table", name, &[&known[..], &shown_as_figures].concat()))
            }
        },
        (None, Some(name)) => {
            let figure = PaperFigure::named(name)
                .ok_or_else(|| unknown("figure", name, &PaperFigure::ALL.map(|(name, _)| name)))?;
            match figure {
                PaperFigure::Placement => run_figure(&target_on_cpu(args), figure, &published),
                _ => run_figure(args, figure, &published),
            }
        }
        // The command line asks for one of them.
        (None, None) => Ok(()),
    }
}

/// The target is on the CPU unless the flags place it, even if another place is faster here: rows
/// that have it elsewhere say so themselves.
fn target_on_cpu(args: &PaperArgs) -> PaperArgs {
    let mut args = args.clone();
    args.course.shared.settings.set_otherwise("gpu_layers", "0");
    args
}

fn unknown(flag: &str, name: &str, known: &[&str]) -> Failure {
    let known = known.join(", ");
    Failure::new(Code::Usage, anyhow!("--{flag}: `{name}` is not one of {known}"))
}

fn run_table(args: &PaperArgs, table: PaperTable, published: &Published) -> CommandResult {
    let theirs = published
        .tables
        .get(table.name())
        .ok_or_else(|| anyhow!("there are no published values for table {}", table.name()))?;
    let models = PaperModels {
        eagle_head: args.eagle_head.clone(),
        second_small: args.second_draft_model.clone(),
    };
    let rows = table.rows(&models);
    let mut sets = load_sets(&args.course)?;
    if args.course.prompts.is_empty() {
        // What is not bundled may have been fetched.
        let fetched = prompts::load_fetched(args.course.limit)
            .map_err(|error| Failure::new(Code::Usage, error))?;
        let known: Vec<String> = sets.iter().map(|set| set.name.clone()).collect();
        sets.extend(fetched.into_iter().filter(|set| !known.contains(&set.name)));
    }
    let (sets, notes) = matching_sets(&theirs.columns, sets);
    if sets.is_empty() {
        return Err(Failure::new(Code::Usage, anyhow!("--prompts: {}", notes.join(" "))));
    }
    let mut session = BenchSession::with(&args.course, sets, Some(table.temperatures()))?;
    let mut lines = Vec::new();
    for row in &rows {
        match &row.line {
            Ok(line) => lines.extend(parsed(&mut session, line)),
            Err(missing) => {
                session.leave_out(Code::Usage, format!("`{}` needs {missing}", row.published));
            }
        }
    }
    let results = session.measure("paper", Some(lines), table.is_of_memory())?;
    let vram_limit = session.vram_limit();
    let ours = Ours { results: &results, rows: &rows, vram_limit, notes: &notes };
    let tables = tables(theirs, &ours);
    deliver(&args.course, &results, &tables, || crate::bench::strategies::charts(&results))?;
    session.conclude(&results)
}

fn run_figure(args: &PaperArgs, figure: PaperFigure, published: &Published) -> CommandResult {
    let mut sets = load_sets(&args.course)?;
    if figure == PaperFigure::DuoLengths {
        // Whole sets: a prompt alone would be too short for the longest.
        sets = prompts::load(&args.course.sets(), None)
            .map_err(|error| Failure::new(Code::Usage, error))?;
        sets = length_sets(&sets, args.course.limit.unwrap_or(A_LENGTH));
    }
    let mut session = BenchSession::with(&args.course, sets, None)?;
    let lines = parsed(&mut session, figure.lines());
    let results = session.measure("paper", Some(lines), false)?;
    let tables = figure.tables(&results, published);
    deliver(&args.course, &results, &tables, || figure.charts(&results, published))?;
    session.conclude(&results)
}

/// Contenders of this program's own; a path of the user's may not be one.
fn parsed(session: &mut BenchSession<'_>, text: &str) -> Vec<ContenderLine> {
    let mut lines = Vec::new();
    for line in contender_lines("paper", text) {
        match line {
            Ok(line) => lines.push(line),
            Err(error) => session.leave_out(Code::Usage, error.to_string()),
        }
    }
    lines
}
