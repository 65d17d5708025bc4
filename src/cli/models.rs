//! `dovetail models`: the models on this machine, what to expect of them here, and the pairs that
//! can be fetched. Must never load a model, nor ask the hub.

use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use super::args::ModelsArgs;
use super::exit::{CommandResult, Failure};
use super::output::stdout;
use crate::bench::{Table, TableStyle};
use crate::hardware::Machine;
use crate::library::{
    CataloguePair, Found, HubId, Located, ModelEntry, ModelPlaces, PairDraft, Runs, Spec, Store,
    catalogue, find, model_at, named,
};
use crate::model::ModelEngine;
use crate::model::head::HeadKind;
use crate::printable::{bytes, count, json_line, printable_line, shell_word};
use crate::worker::{DraftForecast, Forecast, Forecaster, MemoryFit, estimate};

/// A model with what to expect of it.
struct Expected<'a> {
    model: &'a ModelEntry,
    forecast: Option<Forecast>,
}

/// Prints the list, or all that is known of one model.
pub fn models(args: &ModelsArgs) -> CommandResult {
    let settings = args.file.settings(&[])?;
    let mut out = stdout()?;
    let found = find(&ModelPlaces::of_machine(&settings.model_folders));
    let one = args.name.as_deref().map(|name| wanted(name, &found.models)).transpose()?;
    let machine = Machine::probe();
    let threads = machine.cpu.threads(settings.threads);
    let forecaster = Forecaster::measure(&machine, threads);
    let shown = one.as_ref().map_or(&found.models[..], std::slice::from_ref);
    let expected =
        shown.iter().map(|model| Expected { model, forecast: forecaster.of(model, &found.models) });
    let expected: Vec<Expected<'_>> = expected.collect();
    let text = match (&one, args.json) {
        (None, true) => json_line(&json!({
            "models": expected.iter().map(as_json).collect::<Vec<_>>(),
            "skipped": found.skipped.iter().map(|skipped| {
                json!({"path": skipped.path.to_string_lossy(), "reason": skipped.reason})
            }).collect::<Vec<_>>(),
            "pairs": catalogue().iter().map(pair_as_json).collect::<Vec<_>>(),
            "memory_gb_s": gb_s(&forecaster),
        }))
        .map_err(anyhow::Error::from)?,
        (Some(_), true) => {
            let lines = expected.iter().map(|one| json_line(&as_json(one)));
            lines.collect::<Result<String, _>>().map_err(anyhow::Error::from)?
        }
        (None, false) => list(&expected, &found, &forecaster)?,
        (Some(_), false) => expected.iter().map(|one| details(one, &forecaster)).collect(),
    };
    Ok(out.write_all(text.as_bytes())?)
}

/// The model that `given` names, as `--target` would: a file, a folder, or a listed model.
fn wanted(given: &str, found: &[ModelEntry]) -> Result<ModelEntry, Failure> {
    let failed = |error| Failure::model(error);
    match Spec::parse(given) {
        Ok(Spec::Gguf(path) | Spec::Folder(path)) if path.exists() => Ok(model_at(&path, found)),
        Err(error) if Path::new(given).exists() => Err(failed(error)),
        _ => {
            let located: Vec<Located> = found.iter().map(|model| model.located.clone()).collect();
            let named = named(given, &located).map_err(failed)?;
            // It is one of those it was given, and their names differ.
            let at = located.iter().position(|other| other.name == named.name).unwrap_or_default();
            Ok(found[at].clone())
        }
    }
}

/// Bytes a second from memory, in 10⁹.
fn gb_s(forecaster: &Forecaster) -> f64 {
    (forecaster.throughput.bandwidth / 1e8).round() / 10.0
}

/// The table, what cannot be opened, what was left out, and the catalogue.
fn list(
    expected: &[Expected<'_>],
    found: &Found,
    forecaster: &Forecaster,
) -> std::io::Result<String> {
    let cell = |text: &str| printable_line(text).into_owned();
    let row = |Expected { model, forecast }: &Expected<'_>| {
        let forecast = forecast.as_ref();
        let best = forecast.and_then(|forecast| forecast.drafts.first());
        let kind = drafter_kind(model).unwrap_or_else(|| match engine(model) {
            Some(ModelEngine::Candle) => format!("{}, candle", type_of(model)),
            _ => type_of(model).to_owned(),
        });
        vec![
            cell(&model.located.name),
            bytes(model.located.bytes),
            cell(&kind),
            forecast.map_or("", |forecast| fit(forecast.memory)).to_owned(),
            forecast.and_then(|forecast| forecast.plain).map_or_else(String::new, estimate),
            best.map_or_else(String::new, |best| estimate(best.rate)),
            best.map_or_else(String::new, |best| cell(&best.name)),
        ]
    };
    let opens = expected.iter().filter(|one| one.model.problem().is_none());
    let head = ["name", "size", "type", "memory", "plain", "drafted", "by"];
    let table =
        Table::new("Models on this machine", &head).with_rows(opens.map(row)).with_note(format!(
            "plain and drafted: tokens per second, estimated from the files' headers and the \
             memory bandwidth measured now, {} GB/s. `dovetail models NAME` shows more about one \
             model.",
            gb_s(forecaster)
        ));
    let mut text = Vec::new();
    table.write(TableStyle::Plain, &mut text)?;
    let mut section = |title: &str, lines: Vec<String>| {
        if lines.is_empty() {
            return Ok(());
        }
        writeln!(text, "{title}\n")?;
        for line in lines {
            writeln!(text, "  {}", printable_line(&line))?;
        }
        writeln!(text)
    };
    let problems = expected.iter().filter_map(|Expected { model, .. }| {
        model.problem().map(|problem| format!("{}: {problem}", model.located.name))
    });
    section("Cannot be opened", problems.collect())?;
    section("Skipped", found.skipped.iter().map(ToString::to_string).collect())?;
    let pairs = catalogue().iter().flat_map(|pair| {
        let CataloguePair { name, title, target, draft, licence, .. } = pair;
        let below = |of: &str, id: &HubId| format!("{:<18} {of:<6} {id}", "");
        let first = format!("{name:<18} {title} ({licence})");
        let draft = draft.as_ref().map(|draft| below("draft", draft.id()));
        [first, below("target", target)].into_iter().chain(draft)
    });
    section("To download, each with its draft: dovetail pull NAME", pairs.collect())?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// All that is known of one model.
fn details(expected: &Expected<'_>, forecaster: &Forecaster) -> String {
    let Expected { model, forecast } = expected;
    let located = &model.located;
    let facts = &model.facts;
    let mut text = format!("{}\n\n", printable_line(&model.title()));
    let mut row = |name: &str, value: &str| {
        text.push_str(&format!("  {name:<12} {}\n", printable_line(value)));
    };
    row("name", &located.name);
    if !located.aliases.is_empty() {
        row("also", &located.aliases.join(", "));
    }
    row("found in", &located.store.to_string());
    for path in &located.paths {
        row("file", &path.display().to_string());
    }
    row("size", &bytes(located.bytes));
    if let Some(parameters) = facts.parameters {
        row("parameters", &count(parameters));
    }
    row("type", type_of(model));
    row("architecture", facts.architecture.as_deref().unwrap_or("unknown"));
    match &facts.runs {
        Some(Runs::Model { config, engine, .. }) => {
            row("engine", engine.name());
            row("context", &format!("{} tokens", config.max_positions));
            if facts.mtp.is_some() {
                row("draft head", "MTP, in the same file");
            }
        }
        Some(Runs::Head(config)) => {
            let shape = format!(
                "{}, {} blocks, for a target of width {} and {} tokens",
                config.kind.name(),
                config.blocks(),
                config.target_hidden(),
                config.body.vocab
            );
            row("draft head", &shape);
        }
        Some(Runs::Dflash(config)) => {
            let shape = format!(
                "{}, {} tokens per pass, for a target of width {} and {} tokens",
                config.name(),
                config.levels(),
                config.target_hidden,
                config.body.vocab
            );
            row("drafter", &shape);
        }
        None => {}
    }
    if let Some(problem) = model.problem() {
        row("problem", problem);
    }
    let Some(forecast) = forecast else { return text };
    let needed = bytes(forecast.needed);
    row("memory", &format!("{needed} with the default context: {}", fit(forecast.memory)));
    let plain = match forecast.plain {
        Some(plain) => format!(
            "{} tokens per second, estimated with {} GB/s of memory bandwidth",
            estimate(plain),
            gb_s(forecaster)
        ),
        None => "not estimated: there is no room to repack its weights, so it is slow".into(),
    };
    row("plain", &plain);
    for draft in &forecast.drafts {
        let rate = estimate(draft.rate);
        let command = command(located, draft);
        row("drafted", &format!("{rate} tokens per second, estimated: {command}"));
    }
    text
}

/// How a model is started with a draft.
fn command(target: &Located, draft: &DraftForecast) -> String {
    match (target.store, draft.is_head) {
        (Store::Bundled, true) => "dovetail".to_owned(),
        (Store::Bundled, false) => "dovetail --strategy small-model".to_owned(),
        (_, is_head) => {
            let command = format!("dovetail --target {}", shell_word(&target.name));
            let flag = if is_head { "--draft" } else { "--draft-model" };
            let named = || format!("{command} {flag} {}", shell_word(&draft.name));
            if draft.is_own { command } else { named() }
        }
    }
}

fn as_json(expected: &Expected<'_>) -> Value {
    let Expected { model, forecast } = expected;
    let located = &model.located;
    let facts = &model.facts;
    // JSON has no place for names that are not UTF-8.
    let paths = located.paths.iter().map(|path| path.to_string_lossy());
    let drafts = forecast.iter().flat_map(|forecast| &forecast.drafts).map(
        |draft| json!({"name": draft.name, "head": draft.is_head, "tokens_per_second": draft.rate}),
    );
    json!({
        "name": located.name,
        "title": model.title(),
        "aliases": located.aliases,
        "store": located.store.to_string(),
        "paths": paths.collect::<Vec<_>>(),
        "bytes": located.bytes,
        "parameters": facts.parameters,
        "type": facts.quantisation,
        "architecture": facts.architecture,
        "engine": engine(model),
        "head": model.is_head(),
        "problem": facts.problem,
        "needed_bytes": forecast.as_ref().map(|forecast| forecast.needed),
        "memory": forecast.as_ref().map(|forecast| fit(forecast.memory)),
        "tokens_per_second": forecast.as_ref().and_then(|forecast| forecast.plain),
        "drafts": drafts.collect::<Vec<_>>(),
    })
}

fn pair_as_json(pair: &CataloguePair) -> Value {
    json!({
        "name": pair.name,
        "title": pair.title,
        "target": pair.target.to_string(),
        "draft": pair.draft.as_ref().map(|draft| draft.id().to_string()),
        "flag": pair.draft.as_ref().map(PairDraft::flag),
        "licence": pair.licence,
    })
}

/// Who runs it as a model, if it can be run as one.
fn engine(model: &ModelEntry) -> Option<ModelEngine> {
    match model.facts.runs {
        Some(Runs::Model { engine, .. }) => Some(engine),
        _ => None,
    }
}

/// What kind of drafter it is; `None` if it is a language model.
fn drafter_kind(model: &ModelEntry) -> Option<String> {
    match model.facts.runs.as_ref()? {
        Runs::Head(config) if matches!(config.kind, HeadKind::Assistant(_)) => {
            Some("assistant".to_owned())
        }
        Runs::Head(_) => Some("draft head".to_owned()),
        Runs::Dflash(config) => Some(format!("{} drafter", config.name())),
        Runs::Model { .. } => None,
    }
}

fn type_of(model: &ModelEntry) -> &str {
    model.facts.quantisation.as_deref().unwrap_or("unknown")
}

fn fit(memory: MemoryFit) -> &'static str {
    match memory {
        MemoryFit::Fits => "fits",
        MemoryFit::Tight => "fits if other programs close",
        MemoryFit::TooLarge => "too large",
        MemoryFit::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!(
            [bytes(9_400), bytes(98_000_000), bytes(4_081_004_224)],
            ["9 kB", "98 MB", "4.1 GB"]
        );
        assert_eq!([3.082, 41.6].map(estimate), ["3.1", "42"]);
        assert_eq!([count(134_515_008), count(6_738_415_616)], ["135 M", "6.7 B"]);
    }
}
