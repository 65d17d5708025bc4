//! The table of keys: name, what it takes, where it is stored. The one place where ranges are
//! checked.

use super::{
    HeadChoice, KvPrecision, NgramChoice, PrefillDevice, Problem, ScoredTokens, SettingValue,
    Settings, ThemeName,
};
use crate::plan::{
    BLOCKS, DEPTH, DeviceChoice, GAMMA, LAYERS, Limits, PACE, Prefer, Setting, Strategy, WIDTH,
};

/// One setting.
pub struct SettingKey {
    /// Dotted name, as in the file.
    pub name: &'static str,
    takes: Takes,
}

/// A name and what it sets.
type NamedChoice = (&'static str, fn(&mut Settings));

/// What a key takes, and the field of the settings that holds it.
enum Takes {
    /// A name that is not empty, described for errors.
    Named(&'static str, fn(&mut Settings, String)),
    /// A whole number from the first to the second.
    Whole(usize, usize, fn(&mut Settings, usize)),
    /// A number from the first to the second.
    Number(f64, f64, fn(&mut Settings) -> &mut f32),
    /// Yes or no.
    Switch(fn(&mut Settings) -> &mut bool),
    /// A number within the limits, or automatic.
    Automatic(Limits, fn(&mut Settings) -> &mut Setting),
    /// One of these names.
    OneOf(&'static [NamedChoice]),
    /// What the first says; the second gives `None` for anything else.
    Other(&'static str, fn(&mut Settings, &SettingValue) -> Option<()>),
}

const MODEL: &str = "a GGUF file, a folder, a hub id or the name of a model on this machine";
const DRAFT_VOCAB: &str = "a count of tokens, \"auto\", \"all\" or \"text:FILE\"";
const HEAD: &str = "a folder, a file, a hub id, a list of them, or else \"lookup\" or \"none\"";

/// Every setting, in the order of the documentation.
#[rustfmt::skip] // A row a key.
pub const KEYS: &[SettingKey] = {
    use Takes::{Automatic, Named, Number, OneOf, Other, Switch, Whole};
    const fn key(name: &'static str, takes: Takes) -> SettingKey {
        SettingKey { name, takes }
    }
    &[
        key("target", Named(MODEL, |s, name| s.target = Some(name))),
        key("draft", Other(HEAD, |s, value| HeadChoice::of(value).map(|draft| s.draft = draft))),
        key("draft_vocab", Other(DRAFT_VOCAB, draft_vocab)),
        key("draft_model", Named(MODEL, |s, name| s.draft_model = Some(name))),
        key("model_folders", Other("a list of folders", model_folders)),
        key("rest_text", Named("a text file", |s, name| s.rest_text = Some(name.into()))),
        key("ngrams", Other("a table that `dovetail ngrams` made, \"auto\" or \"none\"", ngrams)),
        key("history", Switch(|s| &mut s.history)),
        key("strategy", Other("the name of a strategy", strategy)),
        key("system", Other("a text", system)),
        key("max_tokens", Whole(1, 1_000_000, |s, n| s.max_tokens = n)),
        key("thinking", Other("true, false or \"auto\"", thinking)),
        key("stop", Other("a list of texts that are not empty", stop)),
        key("context", Whole(64, 1 << 20, |s, n| s.context = Some(n))),
        key("kv", OneOf(&[
            ("f32", |s| s.kv = KvPrecision::F32),
            ("f16", |s| s.kv = KvPrecision::F16),
        ])),
        key("threads", Whole(1, 1024, |s, n| s.threads = Some(n))),
        key("draft_threads", Whole(1, 1024, |s, n| s.draft_threads = Some(n))),
        key("device", Other("auto, cpu, gpu, gpu:N with its number, cuda or metal", device)),
        key("vram", Other("an amount of memory such as \"4GiB\" or \"900MiB\"", vram)),
        key("pack_cache", Other("true, false or the most gigabytes, 1 to 10000", pack_cache)),
        key("kv_disk", Other("true, false or the most gigabytes, 1 to 10000", kv_disk)),
        key("gpu_layers", Other("a whole number from 0 to 4096, \"auto\" or \"all\"", gpu_layers)),
        key("prefill", OneOf(&[
            ("auto", |s| s.prefill = PrefillDevice::Auto),
            ("cpu", |s| s.prefill = PrefillDevice::Cpu),
            ("gpu", |s| s.prefill = PrefillDevice::Gpu),
        ])),
        key("prefer", OneOf(&[
            ("auto", |s| s.prefer = Prefer::Auto),
            ("speed", |s| s.prefer = Prefer::Speed),
            ("show", |s| s.prefer = Prefer::Show),
        ])),
        key("speculate", Switch(|s| &mut s.speculate)),
        key("overlap", Switch(|s| &mut s.overlap)),
        key("coupled", Switch(|s| &mut s.coupled)),
        key("controls.gamma", Automatic(GAMMA, |s| &mut s.controls.gamma)),
        key("controls.blocks", Automatic(BLOCKS, |s| &mut s.controls.blocks)),
        key("controls.width", Automatic(WIDTH, |s| &mut s.controls.width)),
        key("controls.depth", Automatic(DEPTH, |s| &mut s.controls.depth)),
        key("controls.pace", Other("a time from 0 to 10 s, such as 0.5s or 500ms", pace)),
        key("sampler.temperature", Number(0.0, 5.0, |s| &mut s.sampler.temperature)),
        key("sampler.top_k", Whole(0, 1_000_000, |s, n| s.sampler.top_k = n)),
        key("sampler.top_p", Other("a number above 0, at most 1", top_p)),
        key("sampler.min_p", Number(0.0, 1.0, |s| &mut s.sampler.min_p)),
        key("sampler.repetition_penalty", Number(0.1, 10.0, |s| &mut s.sampler.repetition_penalty)),
        key("sampler.presence_penalty", Number(-10.0, 10.0, |s| &mut s.sampler.presence_penalty)),
        key("sampler.frequency_penalty", Number(-10.0, 10.0, |s| &mut s.sampler.frequency_penalty)),
        key("sampler.seed", Other("a whole number, 0 or more", seed)),
        key("screen.theme", OneOf(&[
            ("dark", |s| s.theme = ThemeName::Dark),
            ("light", |s| s.theme = ThemeName::Light),
            ("mono", |s| s.theme = ThemeName::Mono),
        ])),
        key("screen.marks", Switch(|s| &mut s.marks)),
        key("screen.mouse", Switch(|s| &mut s.mouse)),
    ]
};

impl Takes {
    /// What it takes, in words for an error.
    fn expects(&self) -> String {
        let whole = |least: usize, most: usize| format!("a whole number from {least} to {most}");
        match self {
            Self::Named(what, _) | Self::Other(what, _) => (*what).to_owned(),
            Self::Whole(least, most, _) => whole(*least, *most),
            Self::Number(least, most, _) => format!("a number from {least} to {most}"),
            Self::Switch(_) => "true or false".to_owned(),
            Self::Automatic(limits, _) => {
                format!("{}, or \"auto\"", whole(limits.least, limits.most))
            }
            Self::OneOf(names) => {
                let names: Vec<String> =
                    names.iter().map(|(name, _)| format!("\"{name}\"")).collect();
                match names.split_last() {
                    Some((last, [])) => last.clone(),
                    Some((last, others)) => format!("{} or {last}", others.join(", ")),
                    None => String::new(),
                }
            }
        }
    }

    /// Stores the value; `None` if it is out of range or of the wrong type.
    fn set(&self, settings: &mut Settings, value: &SettingValue) -> Option<()> {
        match self {
            Self::Named(_, set) => {
                let name = value.string()?.trim();
                (!name.is_empty()).then(|| set(settings, name.to_owned()))
            }
            Self::Whole(least, most, set) => whole(value, *least, *most).map(|n| set(settings, n)),
            Self::Number(least, most, field) => {
                number(value, *least, *most).map(|x| *field(settings) = x)
            }
            Self::Switch(field) => value.switch().map(|on| *field(settings) = on),
            Self::Automatic(limits, field) => {
                let auto = value.string().is_some_and(|text| text.trim() == "auto");
                let setting = match auto {
                    true => Setting::Auto,
                    false => Setting::Fixed(whole(value, limits.least, limits.most)?),
                };
                *field(settings) = setting;
                Some(())
            }
            Self::OneOf(names) => {
                let given = value.string()?;
                let (_, set) = names.iter().find(|(name, _)| *name == given)?;
                set(settings);
                Some(())
            }
            Self::Other(_, set) => set(settings, value),
        }
    }
}

fn whole(value: &SettingValue, least: usize, most: usize) -> Option<usize> {
    usize::try_from(value.whole()?).ok().filter(|n| (least..=most).contains(n))
}

fn number(value: &SettingValue, least: f64, most: f64) -> Option<f32> {
    value.number().filter(|x| (least..=most).contains(x)).map(|x| x as f32)
}

fn strategy(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    settings.strategy = Some(Strategy::named(value.string()?.trim())?);
    Some(())
}

/// A kind of device, or the number of a GPU.
fn device(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    settings.device = match value.string()?.trim() {
        "auto" => DeviceChoice::Auto,
        "cpu" => DeviceChoice::Cpu,
        "cuda" => DeviceChoice::Cuda,
        "metal" => DeviceChoice::Metal,
        "gpu" => DeviceChoice::Gpu(None),
        other => DeviceChoice::Gpu(Some(other.strip_prefix("gpu:")?.parse().ok()?)),
    };
    Some(())
}

/// Bytes with a unit, in powers of 1024 whether it is spelt `GiB`, `GB` or `G`.
fn vram(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    let text = value.string()?.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "g" | "gb" | "gib" => 30,
        "m" | "mb" | "mib" => 20,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * (1u64 << shift) as f64;
    (bytes >= 1.0 && bytes < (1u64 << 50) as f64).then(|| settings.vram = Some(bytes as u64))
}

/// Blocks of the target on a GPU: how many, as many as pay, or all with the LM head.
fn gpu_layers(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    settings.gpu_layers = match value.string().map(str::trim) {
        Some("auto") => Setting::Auto,
        Some("all") => Setting::Fixed(LAYERS.most),
        _ => Setting::Fixed(whole(value, LAYERS.least, LAYERS.most)?),
    };
    Some(())
}

/// An empty text is none.
fn system(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    let text = value.string()?;
    settings.system = (!text.is_empty()).then(|| text.to_owned());
    Some(())
}

/// What stands before the name of a file in `draft_vocab`.
const OF_TEXT: &str = "text:";

/// Tokens that a head scores; all is its own way.
fn draft_vocab(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    settings.draft_vocab = match value.string().map(str::trim) {
        Some("all") => None,
        Some("auto") => Some(ScoredTokens::First(Setting::Auto)),
        Some(text) if text.starts_with(OF_TEXT) => {
            let file = &text[OF_TEXT.len()..];
            (!file.is_empty()).then(|| ScoredTokens::OfText(file.into())).map(Some)?
        }
        _ => Some(ScoredTokens::First(Setting::Fixed(whole(value, 1, 1 << 24)?))),
    };
    Some(())
}

/// A file, or one of two words.
fn ngrams(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    settings.ngrams = match value.string().map(str::trim)? {
        "" => return None,
        "auto" => NgramChoice::Auto,
        "none" => NgramChoice::None,
        path => NgramChoice::File(path.into()),
    };
    Some(())
}

fn stop(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    texts(value).map(|list| settings.stop = list)
}

fn model_folders(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    texts(value).map(|list| settings.model_folders = list)
}

fn pack_cache(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    gigabytes(value, Settings::PACK_CACHE).map(|most| settings.pack_cache = most)
}

fn kv_disk(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    gigabytes(value, Settings::KV_DISK).map(|most| settings.kv_disk = most)
}

/// Gigabytes to keep; as many as are usual, or none.
fn gigabytes(value: &SettingValue, usual: usize) -> Option<usize> {
    match value.switch() {
        Some(true) => Some(usual),
        Some(false) => Some(0),
        None => whole(value, 1, 10_000),
    }
}

/// A list of texts that are not empty, or one such text.
fn texts(value: &SettingValue) -> Option<Vec<String>> {
    let list = match value {
        SettingValue::List(list) => list.clone(),
        SettingValue::Text(text) => vec![text.clone()],
        _ => return None,
    };
    (!list.iter().any(String::is_empty)).then_some(list)
}

fn top_p(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    let share = number(value, f64::MIN_POSITIVE, 1.0).filter(|x| *x > 0.0)?;
    settings.sampler.top_p = share;
    Some(())
}

/// Flags carry the whole range of u64, TOML only that of i64.
fn seed(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    let seed = match value {
        SettingValue::Text(text) => text.trim().parse().ok(),
        other => other.whole().and_then(|n| u64::try_from(n).ok()),
    }?;
    settings.sampler.seed = seed;
    Some(())
}

/// Yes, no or the template's own way.
fn thinking(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    let auto = value.string().is_some_and(|text| text.trim() == "auto");
    settings.thinking = if auto { None } else { Some(value.switch()?) };
    Some(())
}

/// A time in whole milliseconds; a number without a unit is seconds.
fn pace(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    let milliseconds = match value {
        SettingValue::Text(text) => {
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
    fits.then(|| settings.pace = milliseconds.round() as usize)
}

/// Stores a value; gives the key's own name.
pub(super) fn set(
    settings: &mut Settings,
    key: &str,
    value: &SettingValue,
) -> Result<&'static str, Problem> {
    let Some(known) = KEYS.iter().find(|known| known.name == key) else {
        return Err(Problem::UnknownKey { key: key.to_owned(), suggestion: nearest(key) });
    };
    known.takes.set(settings, value).map(|()| known.name).ok_or_else(|| match value.string() {
        Some(name) if key == "strategy" => {
            Problem::UnknownStrategy { name: name.to_owned(), suggestion: Strategy::nearest(name) }
        }
        _ => Problem::Value {
            key: key.to_owned(),
            expects: known.takes.expects(),
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
