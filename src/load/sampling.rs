//! How tokens are sampled: what the user set, otherwise what the model's files recommend, otherwise
//! a common choice; each value has its origin. Real models repeat themselves under greedy decoding;
//! the bundled one is shown greedy. It must never sample.

use super::reason::Notice;
use crate::library::Recommended;
use crate::settings::{SetBy, SettingKey, SettingValue, Settings};
use crate::speculate::SamplerSettings;

/// For a model whose files recommend nothing.
const COMMON: [(&str, f64); 2] = [("sampler.temperature", 0.7), ("sampler.top_p", 0.95)];

/// A value of the sampler and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledBy {
    /// E.g. `top_p`.
    pub name: &'static str,
    /// The value.
    pub value: String,
    /// Where it comes from, e.g. `--top-p`.
    pub origin: String,
}

/// The sampler, with the origin of each value.
#[derive(Debug, Default)]
pub(super) struct Sampling {
    pub(super) sampler: SamplerSettings,
    pub(super) origins: Vec<SampledBy>,
    /// Which parts of the recommendation cannot be used.
    pub(super) notices: Vec<Notice>,
}

/// The sampler for a model that recommends `found`; `None` for a model that is decoded greedily.
pub(super) fn sampling(settings: &Settings, found: Option<&Recommended>) -> Sampling {
    let mut merged = settings.clone();
    let mut origins: Vec<(&str, String)> = Vec::new();
    let mut notices = Vec::new();
    let mut take = |key: &'static str, number: f64, origin: &str| {
        if settings.given.contains_key(key) {
            return;
        }
        let whole = key == "sampler.top_k" && number.fract() == 0.0;
        let value =
            if whole { SettingValue::Whole(number as i64) } else { SettingValue::Number(number) };
        match merged.set(key, &value) {
            Ok(()) => origins.push((key, origin.to_owned())),
            Err(problem) => notices.push(Notice::Recommended {
                origin: origin.to_owned(),
                problem: problem.to_string(),
            }),
        }
    };
    if let Some(found) = found {
        let temperature = COMMON[0].0;
        let warm = found.values.iter().any(|(key, _)| *key == temperature);
        // The common values are used together or not at all.
        if !warm && !settings.given.contains_key(temperature) {
            for (key, x) in COMMON {
                take(key, x, "common default");
            }
        }
        for &(key, x) in &found.values {
            take(key, x, found.origin);
        }
    }
    let origin = |key: &str| match settings.given.get(key) {
        Some(SetBy::Flag(flag)) => (*flag).to_owned(),
        Some(SetBy::File) => "the settings file".to_owned(),
        None => origins
            .iter()
            .rfind(|(of, _)| *of == key)
            .map_or_else(|| "default".to_owned(), |(_, origin)| origin.clone()),
    };
    let row = |row: &'static SettingKey| SampledBy {
        name: row.short_name(),
        value: row.value(&merged),
        origin: origin(row.name),
    };
    let origins = SettingKey::of_sampler().map(row).collect();
    Sampling { sampler: merged.sampler, origins, notices }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recommended(values: &[(&'static str, f64)]) -> Recommended {
        Recommended { values: values.to_vec(), origin: "generation_config.json" }
    }

    fn origin<'a>(sampling: &'a Sampling, name: &str) -> &'a str {
        &sampling.origins.iter().find(|row| row.name == name).unwrap().origin
    }

    #[test]
    fn the_user_wins_over_the_model_and_the_model_over_the_common_values() {
        let mut settings = Settings::default();
        settings.set("sampler.top_p", &SettingValue::Number(0.5)).unwrap();
        settings.given.insert("sampler.seed", SetBy::Flag("--seed"));
        let found = recommended(&[("sampler.temperature", 0.6), ("sampler.top_p", 0.9)]);
        let sampling = sampling(&settings, Some(&found));
        assert_eq!((sampling.sampler.temperature, sampling.sampler.top_p), (0.6, 0.5));
        assert_eq!(origin(&sampling, "temperature"), "generation_config.json");
        assert_eq!(origin(&sampling, "top_p"), "the settings file");
        assert_eq!(origin(&sampling, "seed"), "--seed");
        assert_eq!(origin(&sampling, "top_k"), "default");
        assert!(sampling.notices.is_empty());
    }

    #[test]
    fn a_model_that_recommends_no_temperature_gets_the_common_one() {
        let settings = Settings::default();
        let bare = sampling(&settings, Some(&recommended(&[])));
        assert_eq!((bare.sampler.temperature, bare.sampler.top_p), (0.7, 0.95));
        let part = sampling(&settings, Some(&recommended(&[("sampler.top_p", 0.8)])));
        assert_eq!((part.sampler.temperature, part.sampler.top_p), (0.7, 0.8));
        assert_eq!(origin(&part, "top_p"), "generation_config.json");
        let mut held = Settings::default();
        held.set("sampler.temperature", &SettingValue::Whole(1)).unwrap();
        let held = sampling(&held, Some(&recommended(&[])));
        assert_eq!((held.sampler.temperature, held.sampler.top_p), (1.0, 1.0));
    }

    #[test]
    fn the_bundled_model_stays_greedy() {
        let sampling = sampling(&Settings::default(), None);
        assert_eq!(sampling.sampler, SamplerSettings::default());
        assert!(sampling.origins.iter().all(|row| row.origin == "default"));
    }

    #[test]
    fn a_value_that_cannot_be_used_is_named_and_left_out() {
        let values = [("sampler.temperature", 0.6), ("sampler.top_p", 7.0), ("sampler.top_k", 1.5)];
        let sampling = sampling(&Settings::default(), Some(&recommended(&values)));
        assert_eq!((sampling.sampler.temperature, sampling.sampler.top_p), (0.6, 1.0));
        assert_eq!(sampling.notices.len(), 2, "{:?}", sampling.notices);
        let Notice::Recommended { origin, problem } = &sampling.notices[0] else { panic!() };
        assert_eq!(origin, "generation_config.json");
        assert!(problem.contains("at most 1, not 7"), "{problem}");
    }
}
