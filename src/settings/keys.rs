//! The table of keys: name, what it takes, how it is set. The one place where ranges are checked.

use super::{KvPrecision, Problem, Settings, Theme};
use crate::plan::{
    BLOCKS, DEPTH, DeviceChoice, GAMMA, LAYERS, Limits, PACE, Prefer, Setting, Strategy, WIDTH,
};

/// A value from any source.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string. A number written as a string (as flags are) also does for a number.
    Text(String),
    /// A whole number.
    Whole(i64),
    /// Any number.
    Number(f64),
    /// Yes or no.
    Switch(bool),
    /// Several strings.
    List(Vec<String>),
    /// Something no key takes (a date, a table, a mixed array), by its name.
    Other(String),
}

impl Value {
    /// A flag's or slash command's text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    fn whole(&self) -> Option<i64> {
        match self {
            Self::Whole(n) => Some(*n),
            Self::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(n) => Some(*n as f64),
            Self::Number(x) => Some(*x),
            Self::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
        .filter(|x| x.is_finite())
    }

    fn switch(&self) -> Option<bool> {
        match self {
            Self::Switch(on) => Some(*on),
            Self::Text(text) => match text.trim() {
                "true" | "on" | "yes" => Some(true),
                "false" | "off" | "no" => Some(false),
                _ => None,
            },
            _ => None,
        }
    }

    fn string(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => write!(f, "\"{text}\""),
            Self::Whole(n) => write!(f, "{n}"),
            Self::Number(x) => write!(f, "{x}"),
            Self::Switch(on) => write!(f, "{on}"),
            Self::List(items) => write!(f, "{items:?}"),
            Self::Other(name) => write!(f, "a {name}"),
        }
    }
}

/// One setting.
pub struct Key {
    /// Dotted name, as in the file.
    pub name: &'static str,
    /// What it takes, for errors and help.
    pub expects: &'static str,
    /// Stores the value; `None` if it is out of range or of the wrong type.
    set: fn(&mut Settings, &Value) -> Option<()>,
}

/// Every setting, in the order of the documentation.
pub const KEYS: &[Key] = &[
    Key {
        name: "target",
        expects: "a GGUF file, a folder or a hub id",
        set: |s, v| path(v).map(|text| s.target = Some(text)),
    },
    Key {
        name: "draft",
        expects: "a folder, a file, a hub id or \"lookup\"",
        set: |s, v| path(v).map(|text| s.draft = Some(text)),
    },
    Key {
        name: "draft_model",
        expects: "a GGUF file, a folder or a hub id",
        set: |s, v| path(v).map(|text| s.draft_model = Some(text)),
    },
    Key {
        name: "rest_text",
        expects: "a text file",
        set: |s, v| path(v).map(|text| s.rest_text = Some(text.into())),
    },
    Key {
        name: "strategy",
        expects: "the name of a strategy",
        set: |s, v| {
            s.strategy = Some(Strategy::named(v.string()?.trim())?);
            Some(())
        },
    },
    Key {
        name: "system",
        expects: "a text",
        set: |s, v| {
            v.string().map(|text| s.system = Some(text.to_owned()).filter(|t| !t.is_empty()))
        },
    },
    Key {
        name: "max_tokens",
        expects: "a whole number from 1 to 1000000",
        set: |s, v| whole(v, 1, 1_000_000).map(|n| s.max_tokens = n),
    },
    Key {
        name: "stop",
        expects: "a list of texts that are not empty",
        set: |s, v| texts(v).map(|list| s.stop = list),
    },
    Key {
        name: "context",
        expects: "a whole number from 64 to 1048576",
        set: |s, v| whole(v, 64, 1 << 20).map(|n| s.context = Some(n)),
    },
    Key {
        name: "kv",
        expects: "\"f32\" or \"f16\"",
        set: |s, v| {
            s.kv = match v.string()? {
                "f32" => KvPrecision::F32,
                "f16" => KvPrecision::F16,
                _ => return None,
            };
            Some(())
        },
    },
    Key {
        name: "threads",
        expects: "a whole number from 1 to 1024",
        set: |s, v| whole(v, 1, 1024).map(|n| s.threads = Some(n)),
    },
    Key {
        name: "draft_threads",
        expects: "a whole number from 1 to 1024",
        set: |s, v| whole(v, 1, 1024).map(|n| s.draft_threads = Some(n)),
    },
    Key {
        name: "device",
        expects: "\"auto\", \"cpu\", \"cuda\" or \"metal\"",
        set: |s, v| {
            s.device = match v.string()? {
                "auto" => DeviceChoice::Auto,
                "cpu" => DeviceChoice::Cpu,
                "cuda" => DeviceChoice::Cuda,
                "metal" => DeviceChoice::Metal,
                _ => return None,
            };
            Some(())
        },
    },
    Key {
        name: "gpu_layers",
        expects: "a whole number from 0 to 4096, or \"auto\"",
        set: |s, v| choice(v, LAYERS).map(|c| s.gpu_layers = c),
    },
    Key {
        name: "prefer",
        expects: "\"auto\", \"speed\" or \"show\"",
        set: |s, v| {
            s.prefer = match v.string()? {
                "auto" => Prefer::Auto,
                "speed" => Prefer::Speed,
                "show" => Prefer::Show,
                _ => return None,
            };
            Some(())
        },
    },
    Key {
        name: "speculate",
        expects: "true or false",
        set: |s, v| v.switch().map(|on| s.speculate = on),
    },
    Key {
        name: "overlap",
        expects: "true or false",
        set: |s, v| v.switch().map(|on| s.overlap = on),
    },
    Key {
        name: "coupled",
        expects: "true or false",
        set: |s, v| v.switch().map(|on| s.coupled = on),
    },
    Key {
        name: "controls.gamma",
        expects: "a whole number from 1 to 128, or \"auto\"",
        set: |s, v| choice(v, GAMMA).map(|c| s.controls.gamma = c),
    },
    Key {
        name: "controls.blocks",
        expects: "a whole number from 1 to 16, or \"auto\"",
        set: |s, v| choice(v, BLOCKS).map(|c| s.controls.blocks = c),
    },
    Key {
        name: "controls.width",
        expects: "a whole number from 1 to 10, or \"auto\"",
        set: |s, v| choice(v, WIDTH).map(|c| s.controls.width = c),
    },
    Key {
        name: "controls.depth",
        expects: "a whole number from 0 to 8, or \"auto\"",
        set: |s, v| choice(v, DEPTH).map(|c| s.controls.depth = c),
    },
    Key {
        name: "controls.pace",
        expects: "a time from 0 to 10 s, such as 0.5s or 500ms",
        set: |s, v| pace(v).map(|ms| s.pace = ms),
    },
    Key {
        name: "sampler.temperature",
        expects: "a number from 0 to 5",
        set: |s, v| number(v, 0.0, 5.0).map(|x| s.sampler.temperature = x),
    },
    Key {
        name: "sampler.top_k",
        expects: "a whole number from 0 to 1000000",
        set: |s, v| whole(v, 0, 1_000_000).map(|n| s.sampler.top_k = n),
    },
    Key {
        name: "sampler.top_p",
        expects: "a number above 0, at most 1",
        set: |s, v| {
            number(v, f64::MIN_POSITIVE, 1.0).filter(|x| *x > 0.0).map(|x| s.sampler.top_p = x)
        },
    },
    Key {
        name: "sampler.min_p",
        expects: "a number from 0 to 1",
        set: |s, v| number(v, 0.0, 1.0).map(|x| s.sampler.min_p = x),
    },
    Key {
        name: "sampler.repetition_penalty",
        expects: "a number from 0.1 to 10",
        set: |s, v| number(v, 0.1, 10.0).map(|x| s.sampler.repetition_penalty = x),
    },
    Key {
        name: "sampler.presence_penalty",
        expects: "a number from -10 to 10",
        set: |s, v| number(v, -10.0, 10.0).map(|x| s.sampler.presence_penalty = x),
    },
    Key {
        name: "sampler.frequency_penalty",
        expects: "a number from -10 to 10",
        set: |s, v| number(v, -10.0, 10.0).map(|x| s.sampler.frequency_penalty = x),
    },
    Key {
        name: "sampler.seed",
        expects: "a whole number, 0 or more",
        set: |s, v| {
            // Flags carry the whole range of u64, TOML only that of i64.
            let seed = match v {
                Value::Text(text) => text.trim().parse().ok(),
                other => other.whole().and_then(|n| u64::try_from(n).ok()),
            }?;
            s.sampler.seed = seed;
            Some(())
        },
    },
    Key {
        name: "screen.theme",
        expects: "\"dark\", \"light\" or \"mono\"",
        set: |s, v| {
            s.theme = match v.string()? {
                "dark" => Theme::Dark,
                "light" => Theme::Light,
                "mono" => Theme::Mono,
                _ => return None,
            };
            Some(())
        },
    },
    Key {
        name: "screen.marks",
        expects: "true or false",
        set: |s, v| v.switch().map(|on| s.marks = on),
    },
];

fn whole(value: &Value, least: usize, most: usize) -> Option<usize> {
    usize::try_from(value.whole()?).ok().filter(|n| (least..=most).contains(n))
}

fn number(value: &Value, least: f64, most: f64) -> Option<f32> {
    value.number().filter(|x| (least..=most).contains(x)).map(|x| x as f32)
}

/// A time in whole milliseconds; a number without a unit is seconds.
fn pace(value: &Value) -> Option<usize> {
    let milliseconds = match value {
        Value::Text(text) => {
            let text = text.trim();
            let (number, unit) = match text.strip_suffix("ms") {
                Some(number) => (number, 1.0),
                None => (text.strip_suffix('s').unwrap_or(text), 1000.0),
            };
            number.trim_end().parse::<f64>().ok()? * unit
        }
        other => other.number()? * 1000.0,
    };
    let fits = (PACE.least as f64..=PACE.most as f64).contains(&milliseconds);
    fits.then(|| milliseconds.round() as usize)
}

fn choice(value: &Value, limits: Limits) -> Option<Setting> {
    if value.string().is_some_and(|text| text.trim() == "auto") {
        return Some(Setting::Auto);
    }
    whole(value, limits.least, limits.most).map(Setting::Fixed)
}

fn path(value: &Value) -> Option<String> {
    value.string().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn texts(value: &Value) -> Option<Vec<String>> {
    let list = match value {
        Value::List(list) => list.clone(),
        Value::Text(text) => vec![text.clone()],
        _ => return None,
    };
    (!list.iter().any(String::is_empty)).then_some(list)
}

/// Stores a value; gives the key's own name.
pub(super) fn set(
    settings: &mut Settings,
    key: &str,
    value: &Value,
) -> Result<&'static str, Problem> {
    let Some(known) = KEYS.iter().find(|known| known.name == key) else {
        return Err(Problem::UnknownKey { key: key.to_owned(), suggestion: nearest(key) });
    };
    (known.set)(settings, value).map(|()| known.name).ok_or_else(|| match value.string() {
        Some(name) if key == "strategy" => {
            Problem::UnknownStrategy { name: name.to_owned(), suggestion: Strategy::nearest(name) }
        }
        _ => Problem::Value {
            key: key.to_owned(),
            expects: known.expects.to_owned(),
            found: value.to_string(),
        },
    })
}

/// The known key most like `key`: by spelling, or the right name in the wrong table.
fn nearest(key: &str) -> Option<String> {
    let last = |name: &'static str| name.rsplit('.').next().unwrap_or(name);
    KEYS.iter()
        .map(|known| {
            let whole = strsim::normalized_damerau_levenshtein(key, known.name);
            let tail = strsim::normalized_damerau_levenshtein(
                key.rsplit('.').next().unwrap_or(key),
                last(known.name),
            );
            (whole.max(tail), known.name)
        })
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(likeness, _)| *likeness >= 0.6)
        .map(|(_, name)| name.to_owned())
}

/// Whether `name` is a table of settings, such as `sampler`.
pub(super) fn is_table(name: &str) -> bool {
    KEYS.iter().any(|key| key.name.split_once('.').is_some_and(|(table, _)| table == name))
}

/// All keys, for an error about one that is like none of them.
pub(super) fn list() -> String {
    KEYS.iter().map(|key| key.name).collect::<Vec<_>>().join(", ")
}
