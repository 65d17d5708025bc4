//! The flags shared by all commands that load models. Must never check values, which the settings
//! do.

use std::path::PathBuf;

use clap::Args;

use super::settings_file::SettingsFile;
use crate::settings::{Override, SettingKey, SettingValue};

/// The help of the flag that sets this key.
pub(super) fn help(key: &str) -> String {
    SettingKey::named(key).map(SettingKey::flag_help).unwrap_or_default()
}

/// The flags of every command that loads models. What most of them set, the table of settings says.
#[derive(Clone, Debug, Default, Args)]
pub struct SharedArgs {
    #[arg(
        long,
        help = help("target"),
        value_name = "MODEL",
        env = "DOVETAIL_TARGET",
        help_heading = "Models"
    )]
    pub target: Option<String>,
    #[arg(
        long,
        help = help("draft"),
        value_name = "MODEL",
        env = "DOVETAIL_DRAFT",
        help_heading = "Models"
    )]
    pub draft: Vec<String>,
    #[arg(
        long,
        help = help("draft_vocab"),
        value_name = "N|auto|all|text:FILE",
        help_heading = "Models"
    )]
    pub draft_vocab: Option<String>,
    #[arg(
        long,
        help = help("draft_model"),
        value_name = "MODEL",
        env = "DOVETAIL_DRAFT_MODEL",
        help_heading = "Models"
    )]
    pub draft_model: Option<String>,
    #[arg(long, help = help("rest_text"), value_name = "FILE", help_heading = "Models")]
    pub rest_text: Option<String>,
    #[arg(long, help = help("ngrams"), value_name = "FILE|auto|none", help_heading = "Models")]
    pub ngrams: Option<String>,
    #[arg(long, help = help("context"), value_name = "N", help_heading = "Models")]
    pub context: Option<String>,
    #[arg(long, help = help("kv"), value_name = "TYPE", help_heading = "Models")]
    pub kv: Option<String>,
    #[arg(
        long,
        help = help("device"),
        value_name = "DEVICE",
        env = "DOVETAIL_DEVICE",
        help_heading = "Models"
    )]
    pub device: Option<String>,
    #[arg(
        long,
        help = help("vram"),
        value_name = "BYTES",
        env = "DOVETAIL_VRAM",
        help_heading = "Models"
    )]
    pub vram: Option<String>,
    #[arg(
        long,
        help = help("gpu_layers"),
        value_name = "N|auto|all",
        env = "DOVETAIL_GPU_LAYERS",
        help_heading = "Models"
    )]
    pub gpu_layers: Option<String>,
    #[arg(
        long,
        help = help("prefill"),
        value_name = "auto|cpu|gpu",
        env = "DOVETAIL_PREFILL",
        help_heading = "Models"
    )]
    pub prefill: Option<String>,
    #[arg(
        long,
        help = help("pack_cache"),
        value_name = "GB",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Models"
    )]
    pub pack_cache: Option<String>,
    #[arg(
        long,
        help = help("threads"),
        value_name = "N",
        env = "DOVETAIL_THREADS",
        help_heading = "Models"
    )]
    pub threads: Option<String>,

    #[arg(
        long,
        help = help("strategy"),
        value_name = "NAME",
        env = "DOVETAIL_STRATEGY",
        help_heading = "Speculation"
    )]
    pub strategy: Option<String>,
    #[arg(long, help = help("controls.gamma"), value_name = "N|auto", help_heading = "Speculation")]
    pub gamma: Option<String>,
    #[arg(
        long,
        help = help("controls.blocks"),
        value_name = "N|auto",
        help_heading = "Speculation"
    )]
    pub blocks: Option<String>,
    #[arg(long, help = help("controls.width"), value_name = "N|auto", help_heading = "Speculation")]
    pub width: Option<String>,
    #[arg(long, help = help("controls.depth"), value_name = "N|auto", help_heading = "Speculation")]
    pub depth: Option<String>,
    /// Turn speculation off: the same text, one token per pass.
    #[arg(long, help_heading = "Speculation")]
    pub plain: bool,
    /// Continue drafting from the most likely outcome while the target verifies.
    #[arg(long, help_heading = "Speculation")]
    pub overlap: bool,
    #[arg(long, help = help("draft_threads"), value_name = "N", help_heading = "Speculation")]
    pub draft_threads: Option<String>,
    /// When sampling, rank drafts by the draft's own probabilities, without the target's random
    /// noise.
    #[arg(long, help_heading = "Speculation")]
    pub no_coupled: bool,
    #[arg(long, help = help("prefer"), value_name = "WHAT", help_heading = "Speculation")]
    pub prefer: Option<String>,

    #[arg(long, help = help("sampler.temperature"), value_name = "X", help_heading = "Sampling")]
    pub temperature: Option<String>,
    #[arg(long, help = help("sampler.top_k"), value_name = "N", help_heading = "Sampling")]
    pub top_k: Option<String>,
    #[arg(long, help = help("sampler.top_p"), value_name = "X", help_heading = "Sampling")]
    pub top_p: Option<String>,
    #[arg(long, help = help("sampler.min_p"), value_name = "X", help_heading = "Sampling")]
    pub min_p: Option<String>,
    #[arg(
        long,
        help = help("sampler.repetition_penalty"),
        value_name = "X",
        help_heading = "Sampling"
    )]
    pub repetition_penalty: Option<String>,
    #[arg(
        long,
        help = help("sampler.presence_penalty"),
        value_name = "X",
        allow_negative_numbers = true,
        help_heading = "Sampling"
    )]
    pub presence_penalty: Option<String>,
    #[arg(
        long,
        help = help("sampler.frequency_penalty"),
        value_name = "X",
        allow_negative_numbers = true,
        help_heading = "Sampling"
    )]
    pub frequency_penalty: Option<String>,
    #[arg(long, help = help("sampler.seed"), value_name = "N", help_heading = "Sampling")]
    pub seed: Option<String>,

    #[arg(long, help = help("max_tokens"), value_name = "N|auto", help_heading = "Answer")]
    pub max_tokens: Option<String>,
    #[arg(long, help = help("system"), value_name = "TEXT", help_heading = "Answer")]
    pub system: Option<String>,
    #[arg(long, help = help("thinking"), value_name = "on|off|auto", help_heading = "Answer")]
    pub think: Option<String>,
    #[arg(long, help = help("stop"), value_name = "TEXT", help_heading = "Answer")]
    pub stop: Vec<String>,

    /// The settings file.
    #[command(flatten)]
    pub file: SettingsFile,
    /// Write more detail to the log file.
    #[arg(long, short, help_heading = "Program")]
    pub verbose: bool,
    /// Play a recorded trace instead of running models.
    #[arg(long, value_name = "FILE", hide = true)]
    pub script: Option<PathBuf>,
}

impl SharedArgs {
    /// What the flags set, in the settings' own keys.
    pub fn overrides(&self) -> Vec<Override> {
        let texts = [
            ("target", &self.target),
            ("draft_vocab", &self.draft_vocab),
            ("draft_model", &self.draft_model),
            ("rest_text", &self.rest_text),
            ("ngrams", &self.ngrams),
            ("context", &self.context),
            ("kv", &self.kv),
            ("device", &self.device),
            ("vram", &self.vram),
            ("gpu_layers", &self.gpu_layers),
            ("prefill", &self.prefill),
            ("pack_cache", &self.pack_cache),
            ("threads", &self.threads),
            ("draft_threads", &self.draft_threads),
            ("controls.gamma", &self.gamma),
            ("controls.blocks", &self.blocks),
            ("controls.width", &self.width),
            ("controls.depth", &self.depth),
            ("prefer", &self.prefer),
            ("sampler.temperature", &self.temperature),
            ("sampler.top_k", &self.top_k),
            ("sampler.top_p", &self.top_p),
            ("sampler.min_p", &self.min_p),
            ("sampler.repetition_penalty", &self.repetition_penalty),
            ("sampler.presence_penalty", &self.presence_penalty),
            ("sampler.frequency_penalty", &self.frequency_penalty),
            ("sampler.seed", &self.seed),
            ("max_tokens", &self.max_tokens),
            ("system", &self.system),
            ("thinking", &self.think),
        ];
        let mut all: Vec<Override> =
            texts.into_iter().filter_map(|(key, value)| set_text(key, value.as_ref())).collect();
        if let Some(strategy) = set_text("strategy", self.strategy.as_ref()) {
            let flag = if exported(self.strategy.as_deref()) { VARIABLE } else { strategy.flag };
            all.push(Override { flag, ..strategy });
        }
        let switches = [
            (self.plain, "speculate", false),
            (self.overlap, "overlap", true),
            (self.no_coupled, "coupled", false),
        ];
        let given = switches.into_iter().filter(|(given, ..)| *given);
        all.extend(given.map(|(_, key, to)| set(key, SettingValue::Switch(to))));
        for (key, list) in [("draft", &self.draft), ("stop", &self.stop)] {
            let value = match list.as_slice() {
                [] => continue,
                [one] if key == "draft" => SettingValue::text(one),
                some => SettingValue::List(some.to_vec()),
            };
            all.push(set(key, value));
        }
        all
    }
}

/// What the flag of `key` sets.
pub(super) fn set(key: &'static str, value: SettingValue) -> Override {
    let flag = SettingKey::named(key).map_or("", |row| row.flag);
    Override { flag, key, value }
}

/// The same for a flag that may not be given.
pub(super) fn set_text(key: &'static str, text: Option<&String>) -> Option<Override> {
    text.map(|text| set(key, SettingValue::text(text)))
}

/// The variable that sets the strategy for all runs.
const VARIABLE: &str = "DOVETAIL_STRATEGY";

/// Whether the strategy comes from that variable, which contradicts no flag.
fn exported(given: Option<&str>) -> bool {
    let exported = std::env::var(VARIABLE).ok();
    exported.is_some() && exported.as_deref() == given
}
