//! What to expect of a model before it is loaded: whether it fits in memory, how fast it should be
//! alone, and how fast with the drafts on this machine. These are estimates of the cost model
//! (method.md, Cost model) from headers, the machine's description and its measured memory
//! bandwidth. It must never load a model.

use crate::draft::SmallModel;
use crate::hardware::{Machine, Memory};
use crate::kernels::{KvCache, KvFormat, Pool, Roofline};
use crate::library::{
    CataloguePair, ModelEntry, PairDraft, Runs, Store, bundled_drafts, own_head_of,
};
use crate::load::Repacking;
use crate::load::sizes::{FOUR_BITS, of_dflash, of_head, of_small};
use crate::model::head::HeadConfig;
use crate::model::{Config, ModelEngine};
use crate::plan::{
    CostInputs, DraftSize, Measured, SearchSpace, Setting, TargetSize, Throughput, TreeOverrides,
    choose,
};
use crate::settings::{Repack, Settings};

/// Whether a model fits the memory of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryFit {
    /// It fits in the free memory.
    Fits,
    /// Only if other programs release some memory.
    Tight,
    /// It does not fit at all.
    TooLarge,
    /// The machine does not say how much memory it has.
    #[default]
    Unknown,
}

/// What to expect of a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// Bytes of the weights and of a context of the usual length.
    pub needed: u64,
    /// Whether they fit.
    pub memory: MemoryFit,
    /// Tokens per second without a draft; `None` if the cost model does not know the format.
    pub plain: Option<f64>,
    /// The possible drafts for it, the best first.
    pub drafts: Vec<DraftForecast>,
}

/// What to expect of a draft.
#[derive(Clone, Debug, PartialEq)]
pub struct DraftForecast {
    /// The name by which `--draft` or `--draft-model` accepts it.
    pub name: String,
    /// Whether it is a draft head, not a small model.
    pub is_head: bool,
    /// Whether it is the head that was made for the target or is in its file, which needs no flag.
    pub is_own: bool,
    /// Tokens per second with it, at the expected acceptance; not below [`Forecast::plain`],
    /// because the controller stops using a draft that does not pay off.
    pub rate: f64,
}

/// Estimates for one machine.
#[derive(Clone, Copy, Debug)]
pub struct Forecaster {
    /// What the CPU can do.
    pub throughput: Throughput,
    /// Its memory.
    pub memory: Memory,
}

/// These bytes of `model` when it is repacked.
fn grown(model: &ModelEntry, bytes: u64) -> u64 {
    let share = model.facts.growth as f64 / model.located.bytes.max(1) as f64;
    (bytes as f64 * (1.0 + share)) as u64
}

impl Forecaster {
    /// Measures the memory bandwidth in about a third of a second. If there is not enough memory
    /// for that, the bandwidth is estimated from the machine's description.
    pub fn measure(machine: &Machine, threads: usize) -> Self {
        let guessed = Throughput::of_cpu(&machine.cpu, threads);
        let measured = Roofline::measure_reading(&Pool::new(threads)).inspect_err(|error| {
            tracing::warn!(
                "cannot measure the memory bandwidth, estimating \
                it: {error}"
            )
        });
        let bandwidth = measured.map_or(guessed.bandwidth, |gb_s| gb_s * 1e9);
        Self { throughput: Throughput { bandwidth, ..guessed }, memory: machine.memory }
    }

    /// What to expect of `model`, with the drafts among `all`; `None` if it is not a target.
    pub fn of(&self, model: &ModelEntry, all: &[ModelEntry]) -> Option<Forecast> {
        let Some(Runs::Model { config, pass_bytes, engine }) = &model.facts.runs else {
            return None;
        };
        // candle-transformers widens the weights of a checkpoint.
        let in_file = model.located.bytes.max(*pass_bytes) + context_bytes(config);
        let Some(growth) = self.growth(model, in_file) else {
            let memory = self.fit(in_file);
            return Some(Forecast { needed: in_file, memory, plain: None, drafts: Vec::new() });
        };
        let needed = in_file + growth;
        let memory = self.fit(needed);
        let size =
            TargetSize::dense(config.linear_weights(), grown(model, *pass_bytes), config.layers);
        let with = |name: &str, is_head, is_own, draft_size| {
            let rate = self.rate(size, Some(draft_size));
            DraftForecast { name: name.to_owned(), is_head, is_own, rate }
        };
        let forecast = |draft: &ModelEntry| {
            let draft_size = self.fitting(model, config, needed, draft)?;
            Some(with(&draft.located.name, draft.is_head(), false, draft_size))
        };
        let own = || {
            let of = |name: &str, head: &HeadConfig| {
                with(name, true, true, of_head(head, config.tied_head, FOUR_BITS))
            };
            match own_head_of(&model.located.spec, config) {
                Some(head) => Some(of(&head.name, &head.config)),
                None => Some(of(&model.located.name, model.facts.mtp.as_ref()?)),
            }
        };
        let mut drafts: Vec<DraftForecast> = match model.located.store {
            Store::Bundled => bundled_drafts().iter().filter_map(forecast).collect(),
            _ if !engine.is_own() => Vec::new(),
            _ => all.iter().filter_map(forecast).chain(own()).collect(),
        };
        drafts.sort_by(|a, b| b.rate.total_cmp(&a.rate));
        Some(Forecast { needed, memory, plain: Some(self.rate(size, None)), drafts })
    }

    /// What to expect of a pair of the catalogue, by what it says of its models.
    pub fn of_pair(&self, pair: &CataloguePair) -> Forecast {
        let target = pair.bytes;
        let small = pair.small_bytes;
        let size = TargetSize::dense(pair.weights, target, pair.layers);
        let drafts = match &pair.draft {
            None | Some(PairDraft::Head(_)) => Vec::new(),
            Some(PairDraft::Small(id)) => {
                let draft = DraftSize {
                    fixed: pair.small_weights,
                    bytes_per_weight: small as f64 / pair.small_weights.max(1) as f64,
                    ..DraftSize::NOTHING
                };
                let rate = self.rate(size, Some(draft));
                vec![DraftForecast { name: id.to_string(), is_head: false, is_own: false, rate }]
            }
        };
        // A twentieth for what is computed with the weights.
        let needed = (target + small) / 20 * 21;
        let plain = Some(self.rate(size, None));
        Forecast { needed, memory: self.fit(needed), plain, drafts }
    }

    /// Whether so many bytes fit.
    pub(crate) fn fit(&self, needed: u64) -> MemoryFit {
        match self.memory {
            Memory { total: 0, .. } => MemoryFit::Unknown,
            Memory { total, .. } if needed > total => MemoryFit::TooLarge,
            Memory { free, .. } if needed > free => MemoryFit::Tight,
            Memory { .. } => MemoryFit::Fits,
        }
    }

    /// How many bytes of `model` are added when it is repacked; `None` if there is no room for that
    /// next to the `needed` bytes, so that its products are slow.
    fn growth(&self, model: &ModelEntry, needed: u64) -> Option<u64> {
        let growth = model.facts.growth;
        match Repacking::of(Repack::Auto, self.memory, needed, growth) {
            None | Some(Repacking::Done { .. }) => Some(growth),
            Some(_) => None,
        }
    }

    /// The size of a draft, if it can draft for the target.
    fn fitting(
        &self,
        target: &ModelEntry,
        config: &Config,
        needed: u64,
        draft: &ModelEntry,
    ) -> Option<DraftSize> {
        let both = self.fit(needed + draft.located.bytes);
        if both == MemoryFit::TooLarge || !goes_with(draft, target) {
            return None;
        }
        match draft.facts.runs.as_ref()? {
            Runs::Head(head) => Some(of_head(head, config.tied_head, FOUR_BITS)),
            Runs::Dflash(drafter) => {
                let bytes = FOUR_BITS * drafter.weights() as f64;
                Some(of_dflash(drafter, bytes as u64))
            }
            Runs::Model { config: small, pass_bytes, .. } => {
                let repacks = self.growth(draft, needed + draft.located.bytes).is_some();
                let scored = SmallModel::scored(small.vocab, Setting::Auto);
                repacks.then(|| of_small(small, grown(draft, *pass_bytes), scored))
            }
        }
    }

    /// Tokens per second with the best tree of the draft, or without one.
    fn rate(&self, target: TargetSize, draft: Option<DraftSize>) -> f64 {
        let inputs = CostInputs {
            verifier: self.throughput,
            target,
            draft: draft.map(|size| (size, self.throughput)),
        };
        let space = SearchSpace::new(TreeOverrides::default(), draft);
        choose(&inputs, &Measured::default(), &space).expected
    }
}

/// Whether `model` can draft for `target`: a head of its sizes, or a model of the same vocabulary
/// that reads at most half as many bytes per token.
pub fn goes_with(model: &ModelEntry, target: &ModelEntry) -> bool {
    let Some(Runs::Model { config, pass_bytes: all, engine: ModelEngine::Dovetail }) =
        &target.facts.runs
    else {
        return false;
    };
    match &model.facts.runs {
        Some(Runs::Head(head)) => head.fits_target(config).is_ok(),
        Some(Runs::Dflash(drafter)) => drafter.fits_target(config).is_ok(),
        Some(Runs::Model { engine: ModelEngine::Candle, .. }) => false,
        Some(Runs::Model { pass_bytes, .. }) => {
            let vocabulary = &model.facts.vocabulary;
            vocabulary.is_some() && *vocabulary == target.facts.vocabulary && *pass_bytes <= all / 2
        }
        None => false,
    }
}

/// Tokens per second in as many digits as an estimate is worth.
pub fn estimate(rate: f64) -> String {
    if rate < 10.0 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}

/// Bytes of the KV cache of a context of the usual length, in 32-bit floats.
fn context_bytes(config: &Config) -> u64 {
    let positions = config.max_positions.min(Settings::AUTO_CONTEXT);
    KvCache::bytes_of(&config.kv_shapes(0..config.layers), positions, KvFormat::F32) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::{ModelPlaces, find, model_at};
    use std::path::Path;

    const MACHINE: Forecaster = Forecaster {
        throughput: Throughput { multiply_adds: 1e11, bandwidth: 2e10, overhead: 4e-6, beta: 0.3 },
        memory: Memory { total: 16 << 30, free: 8 << 30 },
    };

    fn bundled() -> ModelEntry {
        find(&ModelPlaces::default()).models.remove(0)
    }

    /// A model of the same family as `model`, `times` as wide and deep where it matters.
    fn scaled(model: &ModelEntry, name: &str, times: u64) -> ModelEntry {
        let mut model = model.clone();
        model.located.name = name.to_owned();
        model.located.store = Store::Folder;
        model.located.bytes *= times;
        model.facts.parameters = model.facts.parameters.map(|n| n * times);
        let Some(Runs::Model { config, pass_bytes, .. }) = &mut model.facts.runs else { panic!() };
        config.layers *= times as usize;
        *pass_bytes *= times;
        model
    }

    #[test]
    fn the_bundled_pair_is_expected_to_win_by_its_own_drafts() {
        let forecast = MACHINE.of(&bundled(), &[]).unwrap();
        assert_eq!(forecast.memory, MemoryFit::Fits);
        let plain = forecast.plain.unwrap();
        assert!(plain > 100.0, "{plain}");
        assert_eq!(forecast.drafts.len(), 2);
        assert!(forecast.drafts.iter().any(|draft| draft.is_head));
        assert!(forecast.drafts.iter().all(|draft| draft.rate >= plain * 0.999), "{forecast:?}");
        // At half the bandwidth, a target that is bound by it is slower.
        let throughput = Throughput { bandwidth: 1e10, ..MACHINE.throughput };
        let slower = Forecaster { throughput, ..MACHINE }.of(&bundled(), &[]).unwrap();
        assert!(slower.plain.unwrap() < plain);
    }

    #[test]
    fn a_small_model_of_the_same_vocabulary_goes_with_a_large_one() {
        let small = scaled(&bundled(), "small", 1);
        let large = scaled(&bundled(), "large", 100);
        let mut other = scaled(&bundled(), "other", 1);
        other.facts.vocabulary = None;
        let all = [small.clone(), large.clone(), other, scaled(&bundled(), "near", 60)];
        let forecast = MACHINE.of(&large, &all).unwrap();
        let names: Vec<_> = forecast.drafts.iter().map(|draft| &*draft.name).collect();
        assert_eq!(names, ["small"]);
        assert!(forecast.drafts[0].rate > forecast.plain.unwrap(), "{forecast:?}");
        assert_eq!(MACHINE.of(&small, &all).unwrap().drafts, []);
    }

    #[test]
    fn the_head_in_a_models_own_file_is_among_its_drafts() {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/arch");
        let own = |name: &str| {
            let model = model_at(&Path::new(golden).join(name), &[]);
            let drafts = MACHINE.of(&model, &[]).unwrap().drafts;
            drafts.iter().map(|draft| (draft.is_head, draft.is_own)).collect::<Vec<_>>()
        };
        assert_eq!(own("qwen35.gguf"), [(true, true)]);
        assert_eq!(own("qwen3.gguf"), []);
    }

    #[test]
    fn a_pair_of_the_catalogue_is_slower_and_larger_with_more_weights() {
        let of = |name: &str| MACHINE.of_pair(crate::library::pair(name).unwrap());
        let small = of("qwen2.5-3b");
        let large = of("qwen2.5-7b");
        assert!(small.needed < large.needed && small.plain > large.plain);
        assert!(small.drafts[0].rate >= small.plain.unwrap(), "{small:?}");
        assert_eq!((small.memory, large.memory), (MemoryFit::Fits, MemoryFit::Fits));
        let tiny = Forecaster { memory: Memory { total: 1 << 30, free: 1 << 29 }, ..MACHINE };
        let pair = crate::library::pair("qwen2.5-7b").unwrap();
        assert_eq!(tiny.of_pair(pair).memory, MemoryFit::TooLarge);
    }

    #[test]
    fn a_model_fits_free_memory_or_all_or_not() {
        let of = |total, free| {
            let memory = Memory { total, free };
            Forecaster { memory, ..MACHINE }.of(&bundled(), &[]).unwrap()
        };
        let needed = of(0, 0).needed;
        assert!(needed > bundled().located.bytes);
        assert_eq!(of(0, 0).memory, MemoryFit::Unknown);
        assert_eq!(of(needed, needed).memory, MemoryFit::Fits);
        assert_eq!(of(needed, needed - 1).memory, MemoryFit::Tight);
        assert_eq!(of(needed - 1, needed - 1).memory, MemoryFit::TooLarge);
        assert_eq!(of(needed, needed).drafts, []);
    }

    #[test]
    fn a_model_that_is_repacked_is_larger_and_slower() {
        let plain = MACHINE.of(&bundled(), &[]).unwrap();
        let mut model = bundled();
        model.facts.growth = model.located.bytes;
        let repacked = MACHINE.of(&model, &[]).unwrap();
        assert_eq!(repacked.needed, plain.needed + model.facts.growth);
        assert!(repacked.plain < plain.plain, "{repacked:?}");
    }

    #[test]
    fn what_cannot_be_run_or_estimated_has_no_figures() {
        let mut model = bundled();
        model.facts.growth = MACHINE.memory.free;
        let forecast = MACHINE.of(&model, &[]).unwrap();
        assert_eq!((forecast.plain, forecast.drafts.len()), (None, 0));
        model.facts.runs = None;
        assert_eq!(MACHINE.of(&model, &[]), None);
        assert_eq!(MACHINE.of(&bundled_drafts()[0], &[]), None);
    }

    #[test]
    fn a_model_of_the_same_vocabulary_and_half_the_size_can_draft() {
        let found = find(&ModelPlaces::default());
        let target = &found.models[0];
        let [head, small] = bundled_drafts();
        assert!(goes_with(&head, target) && goes_with(&small, target));
        assert!(!goes_with(target, target), "it has the size of the target");
        assert!(!goes_with(target, &head), "a head cannot be a target");
    }
}
