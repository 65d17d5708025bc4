//! `dovetail bench fetch`: prompt sets that are not part of the program. It must not read what it
//! fetches.

use anyhow::anyhow;
use clap::Args;

use crate::bench::prompts::{CatalogueFile, SERVER, catalogue, fetched_sets};
use crate::bench::{Table, TableStyle};
use crate::cli::backend::with_download;
use crate::cli::exit::{CommandResult, Failure, report};
use crate::cli::output::stdout;
use crate::library::PinnedFiles;

/// Stands for every file.
const ALL: &str = "all";

/// Flags of `bench fetch`.
#[derive(Debug, Args)]
pub struct FetchArgs {
    /// Files to download, or all [default: list them].
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Another server that has the files by repository, commit and path; their checksums are still
    /// verified.
    #[arg(long, value_name = "URL", default_value = SERVER)]
    pub mirror: String,
}

/// Fetches what is named, or lists what there is.
pub(super) fn fetch(args: &FetchArgs) -> CommandResult {
    let none = || anyhow!("there is no home folder for the cache; set HOME to a folder");
    let kept = fetched_sets().ok_or_else(none)?;
    if args.names.is_empty() {
        return Ok(list(&kept).write(TableStyle::Plain, &mut stdout()?)?);
    }
    let mut wanted = Vec::new();
    for name in &args.names {
        let found: Vec<&CatalogueFile> =
            catalogue().iter().filter(|file| name == ALL || file.name == *name).collect();
        if found.is_empty() {
            let known: Vec<&str> = catalogue().iter().map(|file| file.name.as_str()).collect();
            let known = known.join(", ");
            let error = anyhow!("`{name}` is not in the catalogue; choose from {known} and {ALL}");
            return Err(Failure::usage(error));
        }
        wanted.extend(found);
    }
    wanted.dedup();
    let mut errors = Vec::new();
    for file in wanted {
        if let Err(error) = fetch_one(file, &kept, &args.mirror) {
            errors.push(format!("{}: {error:#}", file.name));
        }
    }
    if !errors.is_empty() {
        return Err(anyhow!(errors.join("\n")).into());
    }
    Ok(())
}

fn fetch_one(file: &CatalogueFile, kept: &PinnedFiles, mirror: &str) -> anyhow::Result<()> {
    with_download(|show| kept.fetch(&file.pinned(mirror), show))??;
    report(&format!("{}: {} ({})", file.name, file.title, file.licence));
    if file.is_text() {
        report(&format!("use it with --rest-text {}", file.write_text(kept)?.display()));
    }
    Ok(())
}

fn list(kept: &PinnedFiles) -> Table {
    let row = |file: &CatalogueFile| {
        let prompts: usize = file.sets.iter().map(|set| set.prompts).sum();
        let here = if file.is_in(kept) { "yes" } else { "no" };
        let size = format!("{} kB", file.size.div_ceil(1000));
        vec![file.name.clone(), prompts.to_string(), size, here.to_owned()]
    };
    let about = |file: &CatalogueFile| {
        let sets: Vec<&str> = file.sets.iter().map(|set| set.name.as_str()).collect();
        let sets = if sets.len() > 1 { format!(": {}", sets.join(", ")) } else { String::new() };
        format!("{}: {}{sets}. {}.", file.name, file.title, file.licence)
    };
    let mut table = Table::new("Prompt sets to download", &["name", "prompts", "size", "here"])
        .with_rows(catalogue().iter().map(row));
    table.notes.extend(catalogue().iter().map(about));
    table.with_note(
        "`dovetail bench fetch NAME` downloads a file. `dovetail bench --prompts NAME` uses all of \
         its sets, `--prompts NAME/SET` a single set. A file without prompts becomes a text for \
         `--rest-text`, which `bench paper` then uses.",
    )
}
