//! What a setting takes: the one place where ranges are checked.

use super::{HeadChoice, NgramChoice, ScoredTokens, SettingValue, Settings};
use crate::model::head::DraftPrecision;
use crate::plan::{DeviceChoice, GpuLayers, LAYERS, Limits, PACE, Setting, Strategy};

/// A name and what it sets.
pub(super) type NamedChoice = (&'static str, fn(&mut Settings));

/// What a key takes, and the field of the settings that holds it.
pub(super) enum Takes {
    /// A name that is not empty, described for errors.
    Named(&'static str, fn(&mut Settings, String)),
    /// A whole number from the first to the second.
    Whole(usize, usize, fn(&mut Settings) -> &mut usize),
    /// The same, where nothing set means something else than a number.
    Limit(usize, usize, fn(&mut Settings) -> &mut Option<usize>),
    /// A whole number of any size.
    Natural(fn(&mut Settings) -> &mut u64),
    /// A number from the first to the second.
    Number(f64, f64, fn(&mut Settings) -> &mut f32),
    /// A number above 0, at most 1.
    Share(fn(&mut Settings) -> &mut f32),
    /// Yes or no.
    Switch(fn(&mut Settings) -> &mut bool),
    /// A number within the limits, or automatic.
    Automatic(Limits, fn(&mut Settings) -> &mut Setting),
    /// One of these names.
    OneOf(&'static [NamedChoice]),
    /// What the first says; the second gives `None` for anything else.
    Other(&'static str, fn(&mut Settings, &SettingValue) -> Option<()>),
}

impl Takes {
    /// What it takes, in words.
    pub(super) fn expects(&self) -> String {
        let whole = |least: usize, most: usize| format!("a whole number from {least} to {most}");
        match self {
            Self::Named(what, _) | Self::Other(what, _) => (*what).to_owned(),
            Self::Whole(least, most, _) | Self::Limit(least, most, _) => whole(*least, *most),
            Self::Natural(_) => "a whole number, 0 or more".to_owned(),
            Self::Share(_) => "a number above 0, at most 1".to_owned(),
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
    pub(super) fn set(&self, settings: &mut Settings, value: &SettingValue) -> Option<()> {
        match self {
            Self::Named(_, set) => {
                let name = value.string()?.trim();
                (!name.is_empty()).then(|| set(settings, name.to_owned()))
            }
            Self::Whole(least, most, field) => {
                whole(value, *least, *most).map(|n| *field(settings) = n)
            }
            Self::Limit(least, most, field) => {
                whole(value, *least, *most).map(|n| *field(settings) = Some(n))
            }
            Self::Natural(field) => natural(value).map(|n| *field(settings) = n),
            Self::Share(field) => {
                let share = number(value, f64::MIN_POSITIVE, 1.0).filter(|x| *x > 0.0);
                share.map(|x| *field(settings) = x)
            }
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

    /// The present value as it is typed; empty for one that has no short form.
    pub(super) fn value(&self, settings: &mut Settings) -> String {
        match self {
            Self::Whole(_, _, field) => field(settings).to_string(),
            Self::Natural(field) => field(settings).to_string(),
            Self::Number(_, _, field) | Self::Share(field) => field(settings).to_string(),
            Self::Automatic(_, field) => field(settings).to_string(),
            Self::Switch(field) => (if *field(settings) { "on" } else { "off" }).to_owned(),
            Self::OneOf(names) => {
                let held = names.iter().find(|(_, set)| {
                    let mut with = settings.clone();
                    set(&mut with);
                    with == *settings
                });
                held.map(|(name, _)| (*name).to_owned()).unwrap_or_default()
            }
            Self::Named(..) | Self::Limit(..) | Self::Other(..) => String::new(),
        }
    }
}

fn whole(value: &SettingValue, least: usize, most: usize) -> Option<usize> {
    usize::try_from(value.whole()?).ok().filter(|n| (least..=most).contains(n))
}

fn number(value: &SettingValue, least: f64, most: f64) -> Option<f32> {
    value.number().filter(|x| (least..=most).contains(x)).map(|x| x as f32)
}

/// Flags carry the whole range of u64, TOML only that of i64.
fn natural(value: &SettingValue) -> Option<u64> {
    match value {
        SettingValue::Text(text) => text.trim().parse().ok(),
        other => other.whole().and_then(|n| u64::try_from(n).ok()),
    }
}

pub(super) fn head(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    HeadChoice::of(value).map(|draft| settings.draft = draft)
}

pub(super) fn strategy(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    settings.strategy = Some(Strategy::named(value.string()?.trim())?);
    Some(())
}

/// A kind of device, or the number of a GPU.
pub(super) fn device(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    settings.device = match value.string()?.trim() {
        "auto" => DeviceChoice::Auto,
        "cpu" => DeviceChoice::Cpu,
        "gpu" => DeviceChoice::Gpu(None),
        other => DeviceChoice::Gpu(Some(other.strip_prefix("gpu:")?.parse().ok()?)),
    };
    Some(())
}

/// Bytes with a unit, in powers of 1024 whether it is spelt `GiB`, `GB` or `G`.
pub(super) fn vram(settings: &mut Settings, value: &SettingValue) -> Option<()> {
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

/// Blocks of the target on a GPU: a number, as many as fit, all with the LM head, or streamed.
pub(super) fn gpu_layers(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    settings.gpu_layers = match value.string().map(str::trim) {
        Some("stream") => GpuLayers::Streamed,
        Some("auto") => GpuLayers::Held(Setting::Auto),
        Some("all") => GpuLayers::Held(Setting::Fixed(LAYERS.most)),
        _ => GpuLayers::Held(Setting::Fixed(whole(value, LAYERS.least, LAYERS.most)?)),
    };
    Some(())
}

/// An empty text is none.
pub(super) fn system(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    let text = value.string()?;
    settings.system = (!text.is_empty()).then(|| text.to_owned());
    Some(())
}

/// The beginning of a value of `draft_vocab` that names a file.
const OF_TEXT: &str = "text:";

/// Tokens that a draft scores.
pub(super) fn draft_vocab(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    settings.draft_vocab = match value.string().map(str::trim) {
        Some("all") => Some(ScoredTokens::All),
        Some("auto") => Some(ScoredTokens::First(Setting::Auto)),
        Some(text) if text.starts_with(OF_TEXT) => {
            let file = &text[OF_TEXT.len()..];
            (!file.is_empty()).then(|| ScoredTokens::OfText(file.into())).map(Some)?
        }
        _ => Some(ScoredTokens::First(Setting::Fixed(whole(value, 1, 1 << 24)?))),
    };
    Some(())
}

/// One of two words, or a number of bits.
pub(super) fn draft_precision(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    settings.draft_precision = match (value.string().map(str::trim), value.whole()) {
        (Some("auto"), _) => None,
        (Some("stored"), _) => Some(DraftPrecision::Stored),
        (_, Some(8)) => Some(DraftPrecision::Eight),
        (_, Some(4)) => Some(DraftPrecision::Four),
        _ => return None,
    };
    Some(())
}

/// A file, or one of two words.
pub(super) fn ngrams(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    settings.ngrams = match value.string().map(str::trim)? {
        "" => return None,
        "auto" => NgramChoice::Auto,
        "none" => NgramChoice::None,
        path => NgramChoice::File(path.into()),
    };
    Some(())
}

pub(super) fn stop(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    texts(value).map(|list| settings.stop = list)
}

pub(super) fn model_folders(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    texts(value).map(|list| settings.model_folders = list)
}

pub(super) fn pack_cache(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    gigabytes(value, Settings::PACK_CACHE).map(|most| settings.pack_cache = most)
}

pub(super) fn kv_disk(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    gigabytes(value, Settings::KV_DISK).map(|most| settings.kv_disk = most)
}

/// Gigabytes to keep: a number, the usual number, or none.
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

/// Yes, no, or what the template does by itself.
pub(super) fn thinking(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    let auto = value.string().is_some_and(|text| text.trim() == "auto");
    settings.thinking = if auto { None } else { Some(value.switch()?) };
    Some(())
}

/// A time in whole milliseconds; a number without a unit is seconds, and `off` is 0.
pub(super) fn pace(settings: &mut Settings, value: &SettingValue) -> Option<()> {
    let milliseconds = match value {
        SettingValue::Text(text) => {
            let text = if text.trim() == "off" { "0" } else { text.trim() };
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
