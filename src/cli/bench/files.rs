//! Reads, prints and saves results. Must never know how they were measured.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, anyhow};

use super::args::{CompareArgs, CourseArgs, ShowArgs};
use crate::bench::strategies::{
    self as bench, Comparison, Results, compare as set_side_by_side, lossless_check,
};
use crate::bench::{Table, TableStyle};
use crate::chart;
use crate::cli::exit::{Code, CommandResult, Failure, report};
use crate::cli::output::stdout;
use crate::files::read_text;
use crate::printable::json_line;

/// Most bytes of saved results: a record of every round of ten thousand answers has room.
const LONGEST: u64 = 1_000_000_000;

/// Sets two files of results side by side.
pub(super) fn compare(args: &CompareArgs) -> CommandResult {
    let Comparison { notes, tables } = set_side_by_side(&read(&args.a)?, &read(&args.b)?);
    let mut out = stdout()?;
    let layout = layout(args.markdown);
    for table in &tables {
        table.write(layout, &mut out)?;
    }
    for note in &notes {
        writeln!(out, "{note}")?;
    }
    if tables.is_empty() {
        let error =
            anyhow!("the two files have no answers in common; run both on the same prompts");
        return Err(Failure::new(Code::Failed, error));
    }
    Ok(())
}

/// Shows files of results as one run.
pub(super) fn show(args: &ShowArgs) -> CommandResult {
    let mut files = args.files.iter();
    let Some(first) = files.next() else { return Ok(()) };
    let mut results = read(first)?;
    for file in files {
        results.join(read(file)?);
    }
    let mut tables = bench::tables(&results);
    if !results.sweeps.is_empty() {
        tables = bench::sweep_tables(&results);
    }
    print(&results, &tables, layout(args.markdown), &mut stdout()?)?;
    if let Some(path) = &args.save {
        save(&results, path)?;
    }
    if let Some(folder) = &args.svg {
        let sweeps = !results.sweeps.is_empty();
        let charts =
            || if sweeps { bench::sweep_charts(&results) } else { bench::charts(&results) };
        draw(folder, charts)?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<Results, Failure> {
    let name = path.display();
    let text = read_text(path, LONGEST)
        .with_context(|| format!("cannot read {name}"))
        .map_err(|error| Failure::new(Code::Usage, error))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{name} was not written by `dovetail bench --save`"))
        .map_err(|error| Failure::new(Code::Usage, error))
}

/// Writes results wherever they were asked for. After a failure the remaining outputs are still
/// written before the error is returned.
pub(super) fn deliver(
    args: &CourseArgs,
    results: &Results,
    tables: &[Table],
    charts: impl FnOnce() -> Result<Vec<(String, String)>, chart::ChartError>,
) -> CommandResult {
    let saved = args.save.as_deref().map_or(Ok(()), |path| save(results, path));
    let drawn = args.svg.as_deref().map_or(Ok(()), |folder| draw(folder, charts));
    let mut out = stdout()?;
    if args.json {
        out.write_all(json_line(results).map_err(io::Error::from)?.as_bytes())?;
    } else {
        print(results, tables, layout(args.markdown), &mut out)?;
    }
    saved?;
    drawn?;
    Ok(())
}

fn layout(markdown: bool) -> TableStyle {
    if markdown { TableStyle::Markdown } else { TableStyle::Plain }
}

fn print(
    results: &Results,
    tables: &[Table],
    layout: TableStyle,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Results { environment, models, max_tokens, version, .. } = results;
    let gpu = environment.gpu.as_ref().map_or_else(|| "no GPU".to_owned(), String::clone);
    let mut drafts: Vec<&str> = Vec::new();
    // A strategy of several drafts lists them; others may have some of them alone.
    for draft in models.drafts.iter().flat_map(|(_, drafts)| drafts.split("; ")) {
        if !drafts.contains(&draft) {
            drafts.push(draft);
        }
    }
    let drafts = match drafts.as_slice() {
        [] => "alone".to_owned(),
        drafts => format!("with {}", drafts.join("; ")),
    };
    writeln!(
        out,
        "dovetail {version}: {} ({}) {drafts}; {}, {} threads, {}, {gpu}; at most {max_tokens} \
         tokens per answer{}{}.\n",
        models.target,
        models.target_detail,
        environment.cpu,
        environment.threads,
        environment.features.last().map_or("", String::as_str),
        if results.settings.is_empty() { "" } else { "; " },
        results.settings.join(" "),
    )?;
    for table in tables {
        table.write(layout, out)?;
    }
    for note in &results.notes {
        writeln!(out, "{note}")?;
    }
    if !results.complete {
        writeln!(out, "Stopped early: only prompts that every strategy answered are counted.")?;
    }
    writeln!(out, "{}", lossless_check(&results.answers).0)
}

fn save(results: &Results, path: &Path) -> anyhow::Result<()> {
    let text = serde_json::to_string(results)?;
    fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
}

fn draw(
    folder: &Path,
    charts: impl FnOnce() -> Result<Vec<(String, String)>, chart::ChartError>,
) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (name, svg) in charts()? {
        let path = folder.join(name);
        chart::save(&svg, &path)?;
        report(&format!("wrote {}", path.display()));
    }
    Ok(())
}
