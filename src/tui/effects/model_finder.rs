//! The models that the chat offers: those on this machine, with what fits and what to expect of
//! them, then those of the catalogue that suit this machine and can be downloaded. It takes some
//! milliseconds per model, on a thread of its own. Must never know the screen beyond its rows, nor
//! ask the hub.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::hardware::Machine;
use crate::library::{
    CataloguePair, Hub, HubId, ModelEntry, ModelPlaces, PairDraft, Spec, Store, bundled_drafts,
    catalogue, find, find_spec,
};
use crate::plan::Throughput;
use crate::settings::{HeadChoice, LOOKUP};
use crate::tui::actions::ModelPart;
use crate::tui::models::{ModelRow, pair_models};
use crate::worker::{
    DraftForecast, Forecast, Forecaster, MemoryFit, ModelChoice, estimate, goes_with,
};

/// Pairs of the catalogue that are offered: few enough to choose from.
const OFFERED: usize = 3;
/// Tokens per second from which an answer can be read as it comes.
const COMFORTABLE: f64 = 5.0;

/// Looks for models.
#[derive(Clone, Debug, Default)]
pub struct ModelFinder {
    /// Folders that the settings name.
    folders: Vec<String>,
    /// Threads that they say.
    threads: Option<usize>,
    /// What this machine can do, once it was measured.
    measured: Arc<OnceLock<Throughput>>,
}

impl ModelFinder {
    /// Looks in these folders and in the stores of other programs, and estimates speeds for so many
    /// threads.
    pub fn new(folders: Vec<String>, threads: Option<usize>) -> Self {
        Self { folders, threads, measured: Arc::default() }
    }

    /// Models that can be chosen for `part` while `current` are in use; `busy` while they are
    /// answering.
    pub fn find(&self, part: ModelPart, current: &ModelChoice, busy: bool) -> Vec<ModelRow> {
        let mut places = ModelPlaces::of_machine(&self.folders);
        // What is next to a model that was named by its path can be chosen too.
        let named = [&current.target, &current.draft_model].into_iter().flatten().map(Path::new);
        let folders = named.filter(|path| path.is_file()).filter_map(Path::parent);
        let folders = folders.filter(|folder| !folder.as_os_str().is_empty());
        places.0.extend(folders.map(|folder| (Store::Current, folder.into())));
        let found = find(&places);
        for skipped in &found.skipped {
            tracing::info!("{skipped}");
        }
        let forecaster = self.forecaster(&Machine::probe(), busy);
        match part {
            ModelPart::Target => targets(&found.models, current, &forecaster),
            ModelPart::Draft => drafts(&found.models, &bundled_drafts(), current, &forecaster),
        }
    }

    /// What is still on this machine of these models: `None` without their target, without a draft
    /// where that is gone.
    pub fn here(&self, models: &ModelChoice) -> Option<ModelChoice> {
        let is_here = |named: &str| match find_spec(named, &self.folders) {
            Ok(Spec::Bundled) => true,
            Ok(Spec::Folder(path) | Spec::Gguf(path)) => path.exists(),
            Ok(Spec::Hub(id)) => Hub::from_env().is_ok_and(|hub| hub.has(&id)),
            Err(_) => false,
        };
        if !models.target.as_deref().is_none_or(is_here) {
            return None;
        }
        let is_draft = |named: &String| match HeadChoice::named(Some(named)) {
            HeadChoice::Named(names) => names.iter().all(|name| is_here(name)),
            HeadChoice::Own | HeadChoice::Lookup | HeadChoice::None => true,
        };
        Some(ModelChoice {
            target: models.target.clone(),
            draft: models.draft.clone().filter(is_draft),
            draft_model: models.draft_model.clone().filter(|named| is_here(named)),
        })
    }

    /// With the memory bandwidth as it was measured first. While the models answer they take most
    /// of it: then it is guessed.
    fn forecaster(&self, machine: &Machine, busy: bool) -> Forecaster {
        let threads = machine.cpu.threads(self.threads);
        let throughput = match self.measured.get() {
            Some(measured) => *measured,
            None if busy => Throughput::of_cpu(&machine.cpu, threads),
            None => {
                let measured = Forecaster::measure(machine, threads).throughput;
                *self.measured.get_or_init(|| measured)
            }
        };
        Forecaster { throughput, memory: machine.memory }
    }
}

/// Every model that can be a target, and those to download. A head or a small model of the target
/// in use is not kept.
fn targets(models: &[ModelEntry], current: &ModelChoice, forecaster: &Forecaster) -> Vec<ModelRow> {
    let is_current = is_named(current.target.as_deref());
    let here = models.iter().filter(|model| !model.is_head()).map(|model| {
        let choice = ModelChoice { target: name(model), ..ModelChoice::default() };
        let speed = forecaster.of(model, models).map(|forecast| of_target(&forecast));
        ModelRow {
            in_use: is_current(model),
            speed: speed.unwrap_or_default(),
            ..row(model, choice, forecaster)
        }
    });
    let missing = |pair: &&CataloguePair| !models.iter().any(|model| is_of(model, &pair.target));
    let offered = offered(catalogue().iter().filter(missing), forecaster);
    let to_download = offered.into_iter().map(|(pair, forecast)| ModelRow {
        bytes: pair.bytes + pair.small_bytes,
        fit: forecast.memory,
        speed: of_target(&forecast),
        ..to_download(pair, &pair.title, pair_models(pair))
    });
    here.chain(to_download).collect()
}

/// The `pairs` that suit this machine best: the largest of those that answer at a comfortable
/// speed, and if these are too few, the fastest of the others. The smallest download is the first.
/// Of models with as many weights only the first is taken, and none with a head, whose speed is not
/// known before.
fn offered<'a>(
    pairs: impl Iterator<Item = &'a CataloguePair>,
    forecaster: &Forecaster,
) -> Vec<(&'a CataloguePair, Forecast)> {
    let mut fitting: Vec<(&CataloguePair, Forecast)> = Vec::new();
    for pair in pairs.filter(|pair| matches!(pair.draft, Some(PairDraft::Small(_)))) {
        let forecast = forecaster.of_pair(pair);
        let is_new = !fitting.iter().any(|(other, _)| other.weights == pair.weights);
        if is_new && forecast.memory != MemoryFit::TooLarge {
            fitting.push((pair, forecast));
        }
    }
    let rate = |forecast: &Forecast| forecast.drafts.first().map_or(0.0, |draft| draft.rate);
    fitting.sort_by(|(a, of_a), (b, of_b)| {
        let a_is_fast = rate(of_a) >= COMFORTABLE;
        let b_is_fast = rate(of_b) >= COMFORTABLE;
        b_is_fast.cmp(&a_is_fast).then_with(|| match a_is_fast {
            true => b.weights.cmp(&a.weights),
            false => rate(of_b).total_cmp(&rate(of_a)),
        })
    });
    fitting.truncate(OFFERED);
    fitting.sort_by_key(|(pair, _)| pair.bytes + pair.small_bytes);
    fitting
}

/// The head that the target in use has of its own, others that fit it, small models with its
/// vocabulary, lookup, and what the catalogue has for it.
fn drafts(
    models: &[ModelEntry],
    bundled: &[ModelEntry; 2],
    current: &ModelChoice,
    forecaster: &Forecaster,
) -> Vec<ModelRow> {
    let of_target = |draft, draft_model| {
        let target = current.target.clone();
        ModelChoice { target, draft, draft_model }
    };
    let mut choices: Vec<(&ModelEntry, ModelChoice)> = Vec::new();
    let is_current = is_named(current.target.as_deref());
    let target = models.iter().find(|model| is_current(model));
    if target.is_some_and(|target| name(target).is_none()) {
        let [head, small] = bundled;
        choices.push((head, of_target(None, None)));
        choices.push((small, of_target(None, Some("bundled".to_string()))));
    }
    let fitting =
        models.iter().filter(|model| target.is_some_and(|target| goes_with(model, target)));
    choices.extend(fitting.map(|model| match model.is_head() {
        true => (model, of_target(name(model), None)),
        false => (model, of_target(None, name(model))),
    }));
    let forecast = target.and_then(|target| forecaster.of(target, models));
    let row = |(model, choice)| ModelRow {
        speed: forecast.as_ref().map(|forecast| of_draft(forecast, model)).unwrap_or_default(),
        ..row(model, choice, forecaster)
    };
    let own = forecast.iter().flat_map(|forecast| &forecast.drafts).filter(|draft| draft.is_own);
    let mut rows: Vec<ModelRow> = own.map(|own| of_its_own(own, of_target(None, None))).collect();
    rows.extend(choices.into_iter().map(row));
    rows.push(ModelRow {
        title: "prompt lookup".to_string(),
        place: "from the conversation".to_string(),
        aliases: LOOKUP.to_string(),
        models: of_target(Some(LOOKUP.to_string()), None),
        ..ModelRow::default()
    });
    for row in &mut rows {
        row.in_use = row.models == *current;
    }
    let is_its = |pair: &&CataloguePair| target.is_some_and(|target| is_of(target, &pair.target));
    for pair in catalogue().iter().filter(is_its) {
        let Some(draft) = &pair.draft else { continue };
        if models.iter().any(|model| is_of(model, draft.id())) {
            continue;
        }
        let id = draft.id().to_string();
        let models = match draft {
            PairDraft::Head(_) => of_target(Some(id.clone()), None),
            PairDraft::Small(_) => of_target(None, Some(id.clone())),
        };
        rows.push(ModelRow { bytes: pair.small_bytes, ..to_download(pair, &id, models) });
    }
    rows
}

/// Whether a model is from this repository.
fn is_of(model: &ModelEntry, id: &HubId) -> bool {
    model.located.names().any(|name| {
        let rest = name.strip_prefix(id.repo.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '@', '/']))
    })
}

/// What the catalogue has for this machine: it is downloaded when the user chooses it.
fn to_download(pair: &CataloguePair, title: &str, models: ModelChoice) -> ModelRow {
    ModelRow {
        title: title.to_string(),
        place: pair.licence.clone(),
        aliases: pair.name.clone(),
        download: true,
        models,
        ..ModelRow::default()
    }
}

/// Tokens per second of a target, plain and with its best draft.
fn of_target(forecast: &Forecast) -> String {
    let Some(plain) = forecast.plain.map(estimate) else { return String::new() };
    match forecast.drafts.first().map(|best| estimate(best.rate)) {
        Some(best) if best != plain => format!("~{plain}–{best} tok/s"),
        _ => format!("~{plain} tok/s"),
    }
}

/// The head that is used where no flag names a draft.
fn of_its_own(head: &DraftForecast, models: ModelChoice) -> ModelRow {
    ModelRow {
        title: "the target's own head".to_string(),
        place: head.name.clone(),
        speed: format!("~{} tok/s", estimate(head.rate)),
        models,
        ..ModelRow::default()
    }
}

/// Tokens per second of a target with this draft.
fn of_draft(forecast: &Forecast, draft: &ModelEntry) -> String {
    let is_it = |name: &str| draft.located.names().any(|own| own == name);
    let found =
        forecast.drafts.iter().find(|known| known.is_head == draft.is_head() && is_it(&known.name));
    found.map_or_else(String::new, |known| format!("~{} tok/s", estimate(known.rate)))
}

/// What flags call it; `None` for the bundled one.
fn name(model: &ModelEntry) -> Option<String> {
    let spec = model.located.spec.to_string();
    (spec != "bundled").then_some(spec)
}

/// Whether flags name a model so, by a name or by any path to it.
fn is_named(named: Option<&str>) -> impl Fn(&ModelEntry) -> bool {
    let named = named.unwrap_or("bundled");
    let place = Path::new(named).canonicalize().ok();
    move |ModelEntry { located, .. }| {
        let is_there = |own: &PathBuf| own.canonicalize().ok() == place;
        located.spec.to_string() == named
            || located.names().any(|name| name == named)
            || (place.is_some() && located.paths.iter().any(is_there))
    }
}

fn row(model: &ModelEntry, models: ModelChoice, forecaster: &Forecaster) -> ModelRow {
    let located = &model.located;
    let facts = &model.facts;
    // Weights, and a twentieth for what is computed with them.
    let needed = located.bytes + located.bytes / 20;
    let fit = forecaster.fit(needed);
    let too_large = || {
        let needed = needed >> 20;
        let total = forecaster.memory.total >> 20;
        format!("{} needs {needed} MiB of memory, and this machine has {total}", model.title())
    };
    let problem = model.problem().map(str::to_string);
    ModelRow {
        title: model.short_title().to_owned(),
        parameters: facts.parameters,
        quantisation: facts.quantisation.clone(),
        bytes: located.bytes,
        place: located.store.to_string(),
        aliases: located.names().collect::<Vec<_>>().join(" "),
        fit,
        refused: problem.or_else(|| (fit == MemoryFit::TooLarge).then(too_large)),
        models,
        ..ModelRow::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::Memory;

    const ROOM: Memory = Memory { total: 8 << 30, free: 4 << 30 };

    fn with(memory: Memory) -> Forecaster {
        let throughput = Throughput::of_cpu(&Machine::probe().cpu, 1);
        Forecaster { throughput, memory }
    }

    #[test]
    fn the_bundled_target_is_offered_and_in_use_at_first() {
        let found = find(&ModelPlaces::default());
        let rows = targets(&found.models, &ModelChoice::default(), &with(ROOM));
        assert_eq!(rows.len(), 1 + OFFERED, "{rows:?}");
        assert!(rows[0].speed.starts_with('~') && rows[0].speed.contains('–'), "{rows:?}");
        assert!(rows[0].in_use && rows[0].refused.is_none() && rows[0].fit == MemoryFit::Fits);
        let small = Memory { total: 8 << 30, free: 1000 };
        let rows = targets(&found.models, &ModelChoice::default(), &with(small));
        assert_eq!(rows[0].fit, MemoryFit::Tight);
        let tiny = Memory { total: 1000, free: 1000 };
        let rows = targets(&found.models, &ModelChoice::default(), &with(tiny));
        let why = rows[0].refused.as_deref().unwrap();
        assert!(why.contains("this machine has"), "{why}");
        assert_eq!(rows.len(), 1, "nothing to download fits: {rows:?}");
    }

    #[test]
    fn drafts_are_those_that_go_with_the_target_and_lookup() {
        let found = find(&ModelPlaces::default());
        let offered = |current: &ModelChoice| {
            let rows = drafts(&found.models, &bundled_drafts(), current, &with(ROOM));
            let used = rows.iter().position(|row| row.in_use);
            // Each of the bundled ones says how fast the target is with it.
            let bundled = rows.iter().take(rows.len() - 1);
            assert!(bundled.map(|row| &row.speed).all(|speed| speed.starts_with('~')), "{rows:?}");
            (rows.into_iter().map(|row| row.models).collect::<Vec<_>>(), used)
        };
        let small = ModelChoice { draft_model: Some("bundled".into()), ..ModelChoice::default() };
        let lookup = ModelChoice { draft: Some(LOOKUP.into()), ..ModelChoice::default() };
        let all = vec![ModelChoice::default(), small.clone(), lookup];
        assert_eq!(offered(&ModelChoice::default()), (all.clone(), Some(0)));
        assert_eq!(offered(&small), (all, Some(1)));
        // Of a target that is not on this machine only lookup is known to go with it.
        let other = ModelChoice { target: Some("owner/name".into()), ..ModelChoice::default() };
        assert_eq!(offered(&other).0.len(), 1);
    }

    /// A machine of this speed, in tokens per second of a model of 10^9 bytes.
    fn with_speed(rate: f64) -> Forecaster {
        let throughput =
            Throughput { multiply_adds: 1e12, bandwidth: rate * 1e9, overhead: 1e-6, beta: 0.3 };
        Forecaster { throughput, memory: Memory { total: 32 << 30, free: 16 << 30 } }
    }

    #[test]
    fn three_models_that_suit_the_machine_can_be_downloaded() {
        let found = find(&ModelPlaces::default());
        let of = |forecaster: &Forecaster| {
            let rows = targets(&found.models, &ModelChoice::default(), forecaster);
            assert!(!rows[0].download, "what is on this machine comes first");
            rows.into_iter().filter(|row| row.download).collect::<Vec<_>>()
        };
        let titles = |rows: &[ModelRow]| -> Vec<String> {
            rows.iter().map(|row| row.title.clone()).collect()
        };
        let slow = of(&with_speed(6.0));
        let fast = of(&with_speed(300.0));
        assert_eq!(titles(&fast), ["Qwen3 8B", "Gemma 2 9B", "Gemma 3 12B"]);
        assert!(titles(&slow).contains(&"SmolLM2 1.7B Instruct".to_string()), "{slow:?}");
        for row in slow.iter().chain(&fast) {
            assert!(row.refused.is_none() && row.bytes > 1 << 30, "{row:?}");
            assert!(row.speed.starts_with('~') && row.models.draft_model.is_some(), "{row:?}");
        }
        assert!(fast.iter().is_sorted_by_key(|row| row.bytes));
        assert!(fast[2].bytes > slow[2].bytes);
        // With little memory they are smaller, and with less there is none.
        let little = Memory { total: 3 << 30, free: 3 << 30 };
        let rows = of(&Forecaster { memory: little, ..with_speed(300.0) });
        assert!(!rows.is_empty() && rows.iter().all(|row| row.bytes < 3 << 30), "{rows:?}");
    }

    #[test]
    fn what_was_downloaded_is_not_offered_again() {
        let mut models = find(&ModelPlaces::default()).models;
        let pair = &catalogue()[0];
        let small = pair.draft.as_ref().unwrap().id();
        let slow = with_speed(6.0);
        let offers = |models: &[ModelEntry]| {
            let rows = targets(models, &ModelChoice::default(), &slow);
            rows.iter().any(|row| row.download && row.models == pair_models(pair))
        };
        assert!(offers(&models));
        // The target is here and its draft is not.
        models[0].located.aliases.push(format!("{}:a-file.gguf", pair.target.repo));
        assert!(!offers(&models));
        let current = ModelChoice { target: Some(pair.target.repo.clone()), ..Default::default() };
        models[0].located.aliases.push(pair.target.repo.clone());
        let offers_draft = |models: &[ModelEntry]| {
            let rows = drafts(models, &bundled_drafts(), &current, &with(ROOM));
            let draft = Some(small.to_string());
            rows.iter().any(|row| row.download && row.models.draft_model == draft)
        };
        assert!(offers_draft(&models));
        models[0].located.aliases.push(small.repo.clone());
        assert!(!offers_draft(&models));
    }

    #[test]
    fn a_target_named_by_its_path_is_in_use_and_offers_what_is_next_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        std::fs::write(&path, "GGUF").unwrap();
        let detour = folder.path().join(".").join("model.gguf").display().to_string();
        let current = ModelChoice { target: Some(detour), ..ModelChoice::default() };
        let rows = ModelFinder::default().find(ModelPart::Target, &current, true);
        let used: Vec<_> = rows.iter().filter(|row| row.in_use).collect();
        assert!(used.len() == 1 && used[0].refused.is_some(), "{rows:?}");
        let own = DraftForecast { name: "head".into(), is_head: true, is_own: true, rate: 9.0 };
        assert_eq!(of_its_own(&own, current.clone()).models, current);
    }
}
