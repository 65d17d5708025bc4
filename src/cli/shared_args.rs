//! The flags shared by all commands that load models. Must never check values, which the settings
//! do.

use std::path::PathBuf;

use clap::Args;

use super::settings_file::SettingsFile;
use crate::settings::{Override, SettingValue};

/// The flags of every command that loads models.
#[derive(Clone, Debug, Default, Args)]
pub struct SharedArgs {
    /// Target model: a GGUF file, a folder, a hub id or the name of a model on this machine
    /// [default: the bundled model].
    #[arg(long, value_name = "MODEL", env = "DOVETAIL_TARGET", help_heading = "Models")]
    pub target: Option<String>,
    /// Draft head: a file, a folder, a hub id or an installed head's name. `lookup` drafts from the
    /// conversation instead, `none` uses no head. Repeat the flag to name several heads; the
    /// fastest that fits is used [default: the head made for the target, if it is installed].
    #[arg(long, value_name = "MODEL", env = "DOVETAIL_DRAFT", help_heading = "Models")]
    pub draft: Vec<String>,
    /// Tokens that the draft head scores: a number N takes the N tokens that the tokenizer merges
    /// first, `auto` a sixth of the vocabulary, `text:FILE` the most frequent tokens of a text (at
    /// most as many as `auto`), `all` every token [default: the tokens the head was trained on].
    #[arg(long, value_name = "N|auto|all|text:FILE", help_heading = "Models")]
    pub draft_vocab: Option<String>,
    /// Small language model to draft with: a GGUF file, a folder, a hub id or the name of a model
    /// on this machine. Its vocabulary may differ from the target's; only the tokens they share are
    /// drafted.
    #[arg(long, value_name = "MODEL", env = "DOVETAIL_DRAFT_MODEL", help_heading = "Models")]
    pub draft_model: Option<String>,
    /// Text file to draft from (strategy `rest`). Its index is built once and reused.
    #[arg(long, value_name = "FILE", help_heading = "Models")]
    pub rest_text: Option<String>,
    /// N-gram table to draft from: a file made by `dovetail ngrams`, `auto` or `none` [default:
    /// auto, the table made for the target, if it is installed].
    #[arg(long, value_name = "FILE|auto|none", help_heading = "Models")]
    pub ngrams: Option<String>,
    /// Context length in tokens, at least 64 and at most the model's own [default: the model's, up
    /// to 4096].
    #[arg(long, value_name = "N", help_heading = "Models")]
    pub context: Option<String>,
    /// Precision of the target's KV cache: f32 or f16 [default: f32].
    #[arg(long, value_name = "TYPE", help_heading = "Models")]
    pub kv: Option<String>,
    /// Device for drafting: auto, cpu, gpu, gpu:N (`dovetail doctor` numbers them), cuda or metal
    /// [default: auto].
    #[arg(long, value_name = "DEVICE", env = "DOVETAIL_DEVICE", help_heading = "Models")]
    pub device: Option<String>,
    /// Limit on video memory, for example 4GiB. Also used as its size if the driver does not report
    /// one.
    #[arg(long, value_name = "BYTES", env = "DOVETAIL_VRAM", help_heading = "Models")]
    pub vram: Option<String>,
    /// Blocks of the target that run on the GPU: a number, `auto` for as many as fit, or `all`
    /// [default: the fastest number; it is measured unless --device is set].
    #[arg(long, value_name = "N|auto|all", env = "DOVETAIL_GPU_LAYERS", help_heading = "Models")]
    pub gpu_layers: Option<String>,
    /// Device that reads long prompts when the target runs on the CPU: auto, cpu or gpu (streams
    /// the blocks to it). `auto` measures and takes the faster [default: auto].
    #[arg(long, value_name = "auto|cpu|gpu", env = "DOVETAIL_PREFILL", help_heading = "Models")]
    pub prefill: Option<String>,
    /// Keep repacked weights in the cache folder, so that the next start is faster. A number limits
    /// the space in gigabytes, 1 to 10000 [default: off; 32 if no number is given].
    #[arg(
        long,
        value_name = "GB",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Models"
    )]
    pub pack_cache: Option<String>,
    /// Compute threads, 1 to 1024 [default: one per fast core].
    #[arg(long, value_name = "N", env = "DOVETAIL_THREADS", help_heading = "Models")]
    pub threads: Option<String>,

    /// How to draft; `dovetail doctor` lists the strategies that can run here [default: auto, or
    /// pld with `--draft lookup`].
    #[arg(long, value_name = "NAME", env = "DOVETAIL_STRATEGY", help_heading = "Speculation")]
    pub strategy: Option<String>,
    /// Maximum number of nodes in the draft tree (γ), 1 to 128, or auto [default: auto].
    #[arg(long, value_name = "N|auto", help_heading = "Speculation")]
    pub gamma: Option<String>,
    /// Blocks of the draft head to use (M), 1 to 16, or auto [default: auto].
    #[arg(long, value_name = "N|auto", help_heading = "Speculation")]
    pub blocks: Option<String>,
    /// Width of the draft tree (k), 1 to 10, or auto [default: auto].
    #[arg(long, value_name = "N|auto", help_heading = "Speculation")]
    pub width: Option<String>,
    /// How many times the draft tree is expanded below its first level (D), 0 to 8, or auto
    /// [default: auto].
    #[arg(long, value_name = "N|auto", help_heading = "Speculation")]
    pub depth: Option<String>,
    /// Turn speculation off: the same text, one token per pass.
    #[arg(long, help_heading = "Speculation")]
    pub plain: bool,
    /// Continue drafting from the most likely outcome while the target verifies.
    #[arg(long, help_heading = "Speculation")]
    pub overlap: bool,
    /// Threads for a draft that runs during verification, 1 to 1024 [default: a share of the
    /// compute threads].
    #[arg(long, value_name = "N", help_heading = "Speculation")]
    pub draft_threads: Option<String>,
    /// When sampling, rank drafts by the draft's own probabilities, without the target's random
    /// noise.
    #[arg(long, help_heading = "Speculation")]
    pub no_coupled: bool,
    /// What automatic control aims for: speed, show (always draft a tree to look at) or auto
    /// [default: auto].
    #[arg(long, value_name = "WHAT", help_heading = "Speculation")]
    pub prefer: Option<String>,

    /// Sampling temperature, 0 to 5; 0 always takes the most likely token [default: what the model
    /// recommends, else 0.7; 0 for the bundled model].
    #[arg(long, value_name = "X", help_heading = "Sampling")]
    pub temperature: Option<String>,
    /// Sample from the N most likely tokens; 0 keeps all [default: what the model recommends, else
    /// 0].
    #[arg(long, value_name = "N", help_heading = "Sampling")]
    pub top_k: Option<String>,
    /// Sample from the most likely tokens that together have this probability, above 0 and at most
    /// 1 [default: what the model recommends, else 0.95].
    #[arg(long, value_name = "X", help_heading = "Sampling")]
    pub top_p: Option<String>,
    /// Drop tokens whose probability is below this share of the most likely token's, 0 to 1
    /// [default: what the model recommends, else 0].
    #[arg(long, value_name = "X", help_heading = "Sampling")]
    pub min_p: Option<String>,
    /// Divide the logits of tokens already used by this, 0.1 to 10; 1 changes nothing [default:
    /// what the model recommends, else 1].
    #[arg(long, value_name = "X", help_heading = "Sampling")]
    pub repetition_penalty: Option<String>,
    /// Subtract this from the logits of tokens already used, -10 to 10 [default: what the model
    /// recommends, else 0].
    #[arg(long, value_name = "X", allow_negative_numbers = true, help_heading = "Sampling")]
    pub presence_penalty: Option<String>,
    /// Subtract this from a token's logit for each time it was used, -10 to 10 [default: what the
    /// model recommends, else 0].
    #[arg(long, value_name = "X", allow_negative_numbers = true, help_heading = "Sampling")]
    pub frequency_penalty: Option<String>,
    /// Random seed; the same seed gives the same text [default: 0].
    #[arg(long, value_name = "N", help_heading = "Sampling")]
    pub seed: Option<String>,

    /// Maximum number of tokens in an answer, 1 to 1000000 [default: 512].
    #[arg(long, value_name = "N", help_heading = "Answer")]
    pub max_tokens: Option<String>,
    /// System prompt.
    #[arg(long, value_name = "TEXT", help_heading = "Answer")]
    pub system: Option<String>,
    /// Whether the model thinks before it answers, if its template has a switch for that: on, off
    /// or auto [default: auto].
    #[arg(long, value_name = "on|off|auto", help_heading = "Answer")]
    pub think: Option<String>,
    /// End the answer at this text; repeat the flag for several.
    #[arg(long, value_name = "TEXT", help_heading = "Answer")]
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
