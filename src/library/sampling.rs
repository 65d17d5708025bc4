//! Sampling settings that a model's own files recommend. It must never check ranges, which belong
//! to the settings.

use serde_json::Value;

/// Sampling values that came with a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recommended {
    /// Keys of the settings and their values, unchanged: the settings check their ranges.
    pub values: Vec<(&'static str, f64)>,
    /// Their source, for display.
    pub origin: &'static str,
}

/// Fields of `generation_config.json` and metadata keys of GGUF files.
const NAMES: [(&str, &str, &str); 5] = [
    ("sampler.temperature", "temperature", "general.sampling.temp"),
    ("sampler.top_k", "top_k", "general.sampling.top_k"),
    ("sampler.top_p", "top_p", "general.sampling.top_p"),
    ("sampler.min_p", "min_p", "general.sampling.min_p"),
    ("sampler.repetition_penalty", "repetition_penalty", "general.sampling.penalty_repeat"),
];

impl Recommended {
    /// From a `generation_config.json`. If it says to sample and gives no temperature, the
    /// temperature is 1, as in transformers; if it says not to sample, the likeliest token is
    /// taken.
    pub(super) fn of_json(config: &Value) -> Self {
        let found = NAMES.iter().filter_map(|&(key, name, _)| Some((key, config[name].as_f64()?)));
        let mut values: Vec<_> = found.collect();
        let (temperature, ..) = NAMES[0];
        let warm = match config["do_sample"].as_bool() {
            Some(true) if !config["temperature"].is_number() => Some(1.0),
            Some(false) => Some(0.0),
            _ => None,
        };
        if let Some(warm) = warm {
            values.retain(|(key, _)| *key != temperature);
            values.insert(0, (temperature, warm));
        }
        Self { values, origin: "generation_config.json" }
    }

    /// From metadata; `number` reads a key.
    pub(super) fn of_gguf(number: impl Fn(&str) -> Option<f64>) -> Self {
        // Converters write -1 for no top-k.
        let found = NAMES.iter().filter_map(|&(key, _, name)| {
            let value = number(name)?;
            Some((key, if key == "sampler.top_k" { value.max(0.0) } else { value }))
        });
        Self { values: found.collect(), origin: "the GGUF file" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of_json(config: Value) -> Vec<(&'static str, f64)> {
        Recommended::of_json(&config).values
    }

    #[test]
    fn a_generation_config_is_read_as_transformers_means_it() {
        let qwen = json!({"do_sample": true, "repetition_penalty": 1.05, "temperature": 0.7,
            "top_p": 0.8, "top_k": 20, "eos_token_id": [1, 2]});
        assert_eq!(
            of_json(qwen),
            [
                ("sampler.temperature", 0.7),
                ("sampler.top_k", 20.0),
                ("sampler.top_p", 0.8),
                ("sampler.repetition_penalty", 1.05),
            ]
        );
        let greedy = json!({"do_sample": false, "temperature": 0.9});
        assert_eq!(of_json(greedy), [("sampler.temperature", 0.0)]);
        assert_eq!(of_json(json!({"do_sample": true})), [("sampler.temperature", 1.0)]);
        assert_eq!(of_json(json!({"temperature": null, "top_p": "high"})), []);
        assert_eq!(of_json(Value::Null), []);
    }
}
