//! Reads, prints and saves what was measured: the only place that writes results. It must not
//! depend on how they were measured.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, anyhow};
use serde::Serialize;

use super::args::{CompareArgs, ShowArgs, StyleArgs};
use crate::bench::strategies::{
    self as bench, Comparison, Results, compare as compare_results, lossless_check,
};
use crate::bench::{Chart, Table, TableStyle};
use crate::cli::exit::{CommandResult, Failure, report};
use crate::cli::output::stdout;
use crate::files::{Access, atomic_write, read_text};
use crate::printable::json_line;

/// The most bytes of saved results: enough for the rounds of ten thousand answers.
const LONGEST: u64 = 1_000_000_000;

/// Writes `record` as JSON, or, as `style` asks, what a reader sees of a measurement: `head`, the
/// `tables` and the lines of `foot`.
pub(super) fn emit(
    style: &StyleArgs,
    record: &impl Serialize,
    head: &str,
    tables: &[Table],
    foot: &[String],
) -> io::Result<()> {
    let mut out = stdout()?;
    if style.json {
        return out.write_all(json_line(record)?.as_bytes());
    }
    if !head.is_empty() {
        writeln!(out, "{head}\n")?;
    }
    let layout = if style.markdown { TableStyle::Markdown } else { TableStyle::Plain };
    for table in tables {
        table.write(layout, &mut out)?;
    }
    for line in foot {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Prints the results of a run, without the notes that were `said` on the same terminal.
pub(super) fn print(
    style: &StyleArgs,
    results: &Results,
    tables: &[Table],
    said: &[String],
) -> io::Result<()> {
    let mut foot = results.notes.clone();
    foot.retain(|note| !said.contains(note));
    if !results.complete {
        foot.push("Stopped early: only prompts that every strategy answered are counted.".into());
    }
    foot.push(lossless_check(&results.answers).0);
    emit(style, results, &heading(results), tables, &foot)
}

/// What was measured, where and with which settings, in one line.
fn heading(results: &Results) -> String {
    let Results { environment, models, max_tokens, version, .. } = results;
    let gpu = environment.gpu.as_deref().unwrap_or("no GPU");
    let mut drafts: Vec<&str> = Vec::new();
    // A strategy with several drafts lists them; others may have some of them alone.
    for draft in models.drafts.iter().flat_map(|(_, drafts)| drafts.split("; ")) {
        if !drafts.contains(&draft) {
            drafts.push(draft);
        }
    }
    let drafts = match drafts.as_slice() {
        [] => "alone".to_owned(),
        drafts => format!("with {}", drafts.join("; ")),
    };
    format!(
        "dovetail {version}: {} ({}) {drafts}; {}, {} threads, {}, {gpu}; at most {max_tokens} \
         tokens per answer{}{}.",
        models.target,
        models.target_detail,
        environment.cpu,
        environment.threads,
        environment.features.last().map_or("", String::as_str),
        if results.settings.is_empty() { "" } else { "; " },
        results.settings.join(" "),
    )
}

/// Compares two files of results.
pub(super) fn compare(args: &CompareArgs) -> CommandResult {
    let Comparison { notes, tables } = compare_results(&read(&args.a)?, &read(&args.b)?);
    let style = StyleArgs { markdown: args.markdown, json: false };
    emit(&style, &(), "", &tables, &notes)?;
    if tables.is_empty() {
        let why = "the two files have no answers in common; run both on the same prompts";
        return Err(anyhow!(why).into());
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
    let style = StyleArgs { markdown: args.markdown, json: false };
    print(&style, &results, &bench::tables(&results), &[])?;
    save(&results, args.save.as_deref())?;
    Ok(draw(&bench::charts(&results), args.svg.as_deref())?)
}

fn read(path: &Path) -> Result<Results, Failure> {
    let name = path.display();
    let text = read_text(path, LONGEST)
        .with_context(|| format!("cannot read {name}"))
        .map_err(Failure::usage)?;
    serde_json::from_str(&text)
        .with_context(|| format!("{name} was not written by `dovetail bench --save`"))
        .map_err(Failure::usage)
}

/// Saves results in a file if one is named.
pub(super) fn save(results: &Results, path: Option<&Path>) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string(results)?;
    write(path, Access::Private, &(text + "\n"))
}

fn write(path: &Path, access: Access, text: &str) -> anyhow::Result<()> {
    atomic_write(path, access, |file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Draws charts into a folder if one is named.
pub(super) fn draw(charts: &[Chart], folder: Option<&Path>) -> anyhow::Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for Chart { name, svg } in charts {
        let path = folder.join(name);
        write(&path, Access::Usual, svg)?;
        report(&format!("wrote {}", path.display()));
    }
    Ok(())
}
