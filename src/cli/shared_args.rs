//! The flags shared by all commands that load models. Must never check values, which the settings
//! do.

use std::path::PathBuf;

use clap::Args;

use super::settings_file::SettingsFile;
use crate::settings::{Override, SettingValue};

/// What chat, `run` and the others that load models have in common.
#[derive(Clone, Debug, Default, Args)]
pub struct SharedArgs {
    /// Target model: a GGUF file, a folder or a hub id [default: the bundled one].
    #[arg(long, value_name = "MODEL", env = "DOVETAIL_TARGET", help_heading = "Models")]
    pub target: Option<String>,
    /// Draft head: a folder, a file or a hub id; `lookup` drafts from the conversation itself,
    /// `none` without a head. Of several heads (the flag may be given several times) the best that
    /// fits is taken [default: the head that was made for the target, if there is one].
    #[arg(long, value_name = "MODEL", env = "DOVETAIL_DRAFT", help_heading = "Models")]
    pub draft: Vec<String>,
    /// Tokens of the target that the draft head scores: the N that its tokenizer merges first, auto
    /// for a sixth of them, those of a text that occur most often there, at most as many as auto
    /// takes, or all [default: those it was trained for].
    #[arg(long, value_name = "N|auto|all|text:FILE", help_heading = "Models")]
    pub draft_vocab: Option<String>,
    /// A small language model to draft with: a GGUF file, a folder or a hub id. Its vocabulary may
    /// differ from the target's: what they share is used.
    #[arg(long, value_name = "MODEL", env = "DOVETAIL_DRAFT_MODEL", help_heading = "Models")]
    pub draft_model: Option<String>,
    /// A text to look drafts up in (strategy `rest`); its index is built once.
    #[arg(long, value_name = "FILE", help_heading = "Models")]
    pub rest_text: Option<String>,
    /// N-gram table to draft from: a file that `dovetail ngrams` made, or none [default: the one
    /// that was made for the model, if there is one].
    #[arg(long, value_name = "FILE|auto|none", help_heading = "Models")]
    pub ngrams: Option<String>,
    /// Most tokens of context, at most the model's [default: the model's, at most 4096].
    #[arg(long, value_name = "N", help_heading = "Models")]
    pub context: Option<String>,
    /// Precision of the target's KV cache: f32 or f16.
    #[arg(long, value_name = "TYPE", help_heading = "Models")]
    pub kv: Option<String>,
    /// Where the draft runs: auto, cpu, gpu, gpu:N (numbers as `doctor` lists them), cuda or metal.
    #[arg(long, value_name = "DEVICE", env = "DOVETAIL_DEVICE", help_heading = "Models")]
    pub device: Option<String>,
    /// Video memory that may be taken, such as 4GiB, where it is not known or less is meant.
    #[arg(long, value_name = "BYTES", env = "DOVETAIL_VRAM", help_heading = "Models")]
    pub vram: Option<String>,
    /// Blocks of the target on the GPU, auto for as many as fit, or all [default: as many as pay,
    /// which is measured where `device` is left open too].
    #[arg(long, value_name = "N|auto|all", env = "DOVETAIL_GPU_LAYERS", help_heading = "Models")]
    pub gpu_layers: Option<String>,
    /// Where long prompts of a target on the CPU are read: cpu, gpu (the blocks are streamed there)
    /// or auto [default: auto, what is faster by a measurement; never software].
    #[arg(long, value_name = "auto|cpu|gpu", env = "DOVETAIL_PREFILL", help_heading = "Models")]
    pub prefill: Option<String>,
    /// Keep packed weights in the cache folder, at most so many gigabytes, and read them at the
    /// next start [default: 32; without the flag nothing is kept].
    #[arg(
        long,
        value_name = "GB",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Models"
    )]
    pub pack_cache: Option<String>,
    /// Compute threads [default: one a fast core].
    #[arg(long, value_name = "N", env = "DOVETAIL_THREADS", help_heading = "Models")]
    pub threads: Option<String>,

    /// How is drafted; `doctor` lists what can run here [default: auto, or pld with
    /// `--draft lookup`].
    #[arg(long, value_name = "NAME", env = "DOVETAIL_STRATEGY", help_heading = "Speculation")]
    pub strategy: Option<String>,
    /// Nodes of the draft tree, 1 to 128, or auto.
    #[arg(long, value_name = "N|auto", help_heading = "Speculation")]
    pub gamma: Option<String>,
    /// Blocks M of the draft head to use, or auto.
    #[arg(long, value_name = "N|auto", help_heading = "Speculation")]
    pub blocks: Option<String>,
    /// Width of the draft tree, 1 to 10, or auto.
    #[arg(long, value_name = "N|auto", help_heading = "Speculation")]
    pub width: Option<String>,
    /// Expansions of the draft tree, 0 to 8, or auto.
    #[arg(long, value_name = "N|auto", help_heading = "Speculation")]
    pub depth: Option<String>,
    /// No speculation: the same text, one token a pass.
    #[arg(long, help_heading = "Speculation")]
    pub plain: bool,
    /// Draft on while the target verifies, from its likeliest outcome.
    #[arg(long, help_heading = "Speculation")]
    pub overlap: bool,
    /// Threads of a draft that runs beside verification [default: shared out].
    #[arg(long, value_name = "N", help_heading = "Speculation")]
    pub draft_threads: Option<String>,
    /// When sampling, rank drafts by the draft's probability alone, without the target's noise.
    #[arg(long, help_heading = "Speculation")]
    pub no_coupled: bool,
    /// What automatic control strives for: speed, show (always a tree to look at) or auto.
    #[arg(long, value_name = "WHAT", help_heading = "Speculation")]
    pub prefer: Option<String>,

    /// 0 takes the likeliest token.
    #[arg(long, value_name = "X", help_heading = "Sampling")]
    pub temperature: Option<String>,
    /// Keep the N likeliest tokens; 0 keeps all.
    #[arg(long, value_name = "N", help_heading = "Sampling")]
    pub top_k: Option<String>,
    /// Keep the likeliest tokens that hold this much probability.
    #[arg(long, value_name = "X", help_heading = "Sampling")]
    pub top_p: Option<String>,
    /// Keep tokens with at least this share of the likeliest one's probability.
    #[arg(long, value_name = "X", help_heading = "Sampling")]
    pub min_p: Option<String>,
    /// Divide the logits of tokens already used by this.
    #[arg(long, value_name = "X", help_heading = "Sampling")]
    pub repetition_penalty: Option<String>,
    /// Subtract this from tokens already used.
    #[arg(long, value_name = "X", allow_negative_numbers = true, help_heading = "Sampling")]
    pub presence_penalty: Option<String>,
    /// Subtract this for every earlier use.
    #[arg(long, value_name = "X", allow_negative_numbers = true, help_heading = "Sampling")]
    pub frequency_penalty: Option<String>,
    /// One seed gives one text.
    #[arg(long, value_name = "N", help_heading = "Sampling")]
    pub seed: Option<String>,

    /// Most tokens of an answer.
    #[arg(long, value_name = "N", help_heading = "Answer")]
    pub max_tokens: Option<String>,
    /// System prompt.
    #[arg(long, value_name = "TEXT", help_heading = "Answer")]
    pub system: Option<String>,
    /// Whether the model thinks before it answers, where its template can be told: on, off or auto.
    #[arg(long, value_name = "on|off|auto", help_heading = "Answer")]
    pub think: Option<String>,
    /// A text that ends the answer; may be given several times.
    #[arg(long, value_name = "TEXT", help_heading = "Answer")]
    pub stop: Vec<String>,

    /// Where the settings are.
    #[command(flatten)]
    pub file: SettingsFile,
    /// Write more into the log file.
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
            ("--target", "target", &self.target),
            ("--draft-vocab", "draft_vocab", &self.draft_vocab),
            ("--draft-model", "draft_model", &self.draft_model),
            ("--rest-text", "rest_text", &self.rest_text),
            ("--ngrams", "ngrams", &self.ngrams),
            ("--context", "context", &self.context),
            ("--kv", "kv", &self.kv),
            ("--device", "device", &self.device),
            ("--vram", "vram", &self.vram),
            ("--gpu-layers", "gpu_layers", &self.gpu_layers),
            ("--prefill", "prefill", &self.prefill),
            ("--pack-cache", "pack_cache", &self.pack_cache),
            ("--threads", "threads", &self.threads),
            (strategy_by(self.strategy.as_deref()), "strategy", &self.strategy),
            ("--draft-threads", "draft_threads", &self.draft_threads),
            ("--gamma", "controls.gamma", &self.gamma),
            ("--blocks", "controls.blocks", &self.blocks),
            ("--width", "controls.width", &self.width),
            ("--depth", "controls.depth", &self.depth),
            ("--prefer", "prefer", &self.prefer),
            ("--temperature", "sampler.temperature", &self.temperature),
            ("--top-k", "sampler.top_k", &self.top_k),
            ("--top-p", "sampler.top_p", &self.top_p),
            ("--min-p", "sampler.min_p", &self.min_p),
            ("--repetition-penalty", "sampler.repetition_penalty", &self.repetition_penalty),
            ("--presence-penalty", "sampler.presence_penalty", &self.presence_penalty),
            ("--frequency-penalty", "sampler.frequency_penalty", &self.frequency_penalty),
            ("--seed", "sampler.seed", &self.seed),
            ("--max-tokens", "max_tokens", &self.max_tokens),
            ("--system", "system", &self.system),
            ("--think", "thinking", &self.think),
        ];
        let mut all: Vec<Override> = texts
            .into_iter()
            .filter_map(|(flag, key, value)| {
                let value = SettingValue::text(value.as_ref()?);
                Some(Override { flag, key, value })
            })
            .collect();
        let switches = [
            (self.plain, "--plain", "speculate", false),
            (self.overlap, "--overlap", "overlap", true),
            (self.no_coupled, "--no-coupled", "coupled", false),
        ];
        for (_, flag, key, to) in switches.into_iter().filter(|switch| switch.0) {
            all.push(Override { flag, key, value: SettingValue::Switch(to) });
        }
        for (flag, key, list) in [("--draft", "draft", &self.draft), ("--stop", "stop", &self.stop)]
        {
            let value = match list.as_slice() {
                [] => continue,
                [one] if key == "draft" => SettingValue::text(one),
                some => SettingValue::List(some.to_vec()),
            };
            all.push(Override { flag, key, value });
        }
        all
    }
}

/// Who set the strategy: what is exported for all runs contradicts no flag.
fn strategy_by(given: Option<&str>) -> &'static str {
    const VARIABLE: &str = "DOVETAIL_STRATEGY";
    let exported = std::env::var(VARIABLE).ok();
    if exported.is_some() && exported.as_deref() == given { VARIABLE } else { "--strategy" }
}
