//! The table of settings: name, what it takes, documentation, default, flag, and how the chat
//! changes it. The settings file, the help of the flags and the page of the guide come from it.

use super::keys::{SettingKey, key};
use super::takes::{self, Takes};
use super::{KvPrecision, PrefillDevice, ThemeName};
use crate::plan::{ANSWER, BLOCKS, DEPTH, GAMMA, Prefer, WIDTH};
use crate::speculate::SamplerSettings;

const HOTTEST: f64 = SamplerSettings::HOTTEST as f64;
const MODEL: &str = "a GGUF file, a folder, a hub id or the name of a model on this machine";
const HEAD: &str = "a file, a folder, a hub id or an installed head's name, a list of these, \
                    \"lookup\" or \"none\"";
const DRAFT_VOCAB: &str = "a number of tokens, \"auto\", \"all\" or \"text:FILE\"";
const DEVICE: &str = "auto, cpu, gpu or gpu:N with its number";
const GPU_LAYERS: &str = "a whole number from 0 to 4096, \"auto\" or \"all\"";
const GIGABYTES: &str = "true, false or a limit in gigabytes from 1 to 10000";
const NGRAMS: &str = "a file made by `dovetail ngrams`, \"auto\" or \"none\"";
const REPEAT: &str = "On the command line, repeat the flag for several.";
const MEMORY: &str = "an amount of memory such as \"4GiB\" or \"900MiB\"";

/// Every setting, in the order of the documentation.
pub const KEYS: &[SettingKey] = {
    use Takes::{Automatic, Named, Number, OneOf, Other, Switch, Whole};
    &[
        key(
            "target",
            Named(MODEL, |s, name| s.target = Some(name)),
            "Target model",
            "the bundled model",
        )
        .flag("--target")
        .live("/model"),
        key(
            "draft",
            Other(HEAD, takes::head),
            "Draft head",
            "the head made for the target, if it is installed",
        )
        .more(
            "`lookup` drafts from the conversation instead, `none` uses no head. \
             Repeat the flag to name several heads; the fastest that fits is used.",
        )
        .flag("--draft")
        .live("/draft"),
        key(
            "draft_vocab",
            Other(DRAFT_VOCAB, takes::draft_vocab),
            "Tokens that the draft head scores",
            "the tokens the head was trained on",
        )
        .more(
            "A number takes the tokens that the tokenizer merges first, `auto` a \
             sixth of the vocabulary, `text:FILE` the most frequent tokens of a text \
             (at most as many as `auto`).",
        )
        .flag("--draft-vocab"),
        key(
            "draft_model",
            Named(MODEL, |s, name| s.draft_model = Some(name)),
            "Small language model to draft with",
            "the bundled one, for the bundled model",
        )
        .more(
            "Its vocabulary may differ from the target's; only the tokens they share \
             are drafted.",
        )
        .flag("--draft-model")
        .live("/draft"),
        key(
            "model_folders",
            Other("a list of folders", takes::model_folders),
            "Folders to search for models",
            "none",
        )
        .more("They are searched in addition to the folders of other programs."),
        key(
            "rest_text",
            Named("a text file", |s, name| s.rest_text = Some(name.into())),
            "Text to draft from, with the strategy `rest`",
            "none",
        )
        .more("Its index is built once and reused.")
        .flag("--rest-text"),
        key("ngrams", Other(NGRAMS, takes::ngrams), "N-gram table to draft from", "auto")
            .more("`auto` takes the table made for the target, if it is installed.")
            .flag("--ngrams"),
        key(
            "history",
            Switch(|s| &mut s.history),
            "Whether to draft from earlier saved conversations too",
            "false",
        ),
        key(
            "strategy",
            Other("the name of a strategy", takes::strategy),
            "How to draft",
            "auto, or pld if `draft` is `lookup`",
        )
        .more("`dovetail doctor` lists the strategies that can run here.")
        .flag("--strategy")
        .live("/strategy"),
        key("system", Other("a text", takes::system), "System prompt", "none")
            .flag("--system")
            .live("/system"),
        key(
            "max_tokens",
            Automatic(ANSWER, |s| &mut s.max_tokens),
            "Maximum number of tokens in an answer",
            "auto",
        )
        .more(
            "`auto` is the room left in the context; a race and `bench` have limits of their own.",
        )
        .flag("--max-tokens")
        .live("/max-tokens"),
        key(
            "thinking",
            Other("true, false or \"auto\"", takes::thinking),
            "Whether the model thinks before it answers, if its template has a switch \
             for that",
            "auto",
        )
        .more("`on` and `off` work too.")
        .flag("--think")
        .live("/think"),
        key(
            "stop",
            Other("a list of texts that are not empty", takes::stop),
            "Texts that end the answer",
            "none",
        )
        .more(REPEAT)
        .flag("--stop"),
        key(
            "context",
            Whole(64, 1 << 20, |s, n| s.context = Some(n)),
            "Context length in tokens",
            "the model's, up to 4096",
        )
        .more("At most the model's own.")
        .flag("--context"),
        key(
            "kv",
            OneOf(&[("f32", |s| s.kv = KvPrecision::F32), ("f16", |s| s.kv = KvPrecision::F16)]),
            "Precision of the target's KV cache",
            "f32",
        )
        .flag("--kv"),
        key(
            "threads",
            Whole(1, 1024, |s, n| s.threads = Some(n)),
            "Compute threads",
            "one per fast core",
        )
        .flag("--threads"),
        key(
            "draft_threads",
            Whole(1, 1024, |s, n| s.draft_threads = Some(n)),
            "Threads for a draft that runs during verification",
            "a share of the compute threads",
        )
        .flag("--draft-threads"),
        key("device", Other(DEVICE, takes::device), "Device for drafting", "auto")
            .more("`dovetail doctor` numbers the GPUs.")
            .flag("--device"),
        key("vram", Other(MEMORY, takes::vram), "Limit on video memory", "what the driver reports")
            .more("Also used as its size if the driver does not report one.")
            .flag("--vram"),
        key(
            "pack_cache",
            Other(GIGABYTES, takes::pack_cache),
            "Whether to keep repacked weights in the cache folder, so that the next \
             start is faster",
            "false",
        )
        .more("`true` is 32 GB.")
        .flag("--pack-cache"),
        key(
            "kv_disk",
            Other(GIGABYTES, takes::kv_disk),
            "Whether to keep the KV caches of conversations on disk, so that they \
             continue faster",
            "true",
        )
        .more("`true` is 4 GB."),
        key(
            "gpu_layers",
            Other(GPU_LAYERS, takes::gpu_layers),
            "Blocks of the target that run on the GPU",
            "the fastest number; it is measured unless `device` is set",
        )
        .more("`auto` takes as many as fit.")
        .flag("--gpu-layers"),
        key(
            "prefill",
            OneOf(&[
                ("auto", |s| s.prefill = PrefillDevice::Auto),
                ("cpu", |s| s.prefill = PrefillDevice::Cpu),
                ("gpu", |s| s.prefill = PrefillDevice::Gpu),
            ]),
            "Device that reads long prompts when the target runs on the CPU",
            "auto",
        )
        .more("`gpu` streams the blocks to it; `auto` measures and takes the faster.")
        .flag("--prefill"),
        key(
            "prefer",
            OneOf(&[
                ("auto", |s| s.prefer = Prefer::Auto),
                ("speed", |s| s.prefer = Prefer::Speed),
                ("show", |s| s.prefer = Prefer::Show),
            ]),
            "What automatic control aims for",
            "auto",
        )
        .more("`show` always drafts a tree to look at.")
        .flag("--prefer"),
        key("speculate", Switch(|s| &mut s.speculate), "Whether speculation is on", "true")
            .more("The text is the same without it, one token per pass.")
            .flag("--plain")
            .live("/speculate"),
        key(
            "overlap",
            Switch(|s| &mut s.overlap),
            "Whether to continue drafting from the most likely outcome while the \
             target verifies",
            "false",
        )
        .flag("--overlap")
        .live("/overlap"),
        key(
            "coupled",
            Switch(|s| &mut s.coupled),
            "Whether drafts are ranked with the target's random noise when sampling",
            "true",
        )
        .flag("--no-coupled")
        .live("/coupled"),
        key(
            "controls.gamma",
            Automatic(GAMMA, |s| &mut s.controls.gamma),
            "Maximum number of nodes in the draft tree (γ)",
            "auto",
        )
        .flag("--gamma")
        .live("/gamma"),
        key(
            "controls.blocks",
            Automatic(BLOCKS, |s| &mut s.controls.blocks),
            "Blocks of the draft head to use (M)",
            "auto",
        )
        .flag("--blocks")
        .live("/blocks"),
        key(
            "controls.width",
            Automatic(WIDTH, |s| &mut s.controls.width),
            "Width of the draft tree (k)",
            "auto",
        )
        .flag("--width")
        .live("/width"),
        key(
            "controls.depth",
            Automatic(DEPTH, |s| &mut s.controls.depth),
            "How many times the draft tree is expanded below its first level (D)",
            "auto",
        )
        .flag("--depth")
        .live("/depth"),
        key(
            "controls.pace",
            Other("a time from 0 to 10 s, such as 0.5s or 500ms", takes::pace),
            "Least time per round, to watch a fast model",
            "0s",
        )
        .flag("--pace")
        .live("/pace"),
        key(
            "sampler.temperature",
            Number(0.0, HOTTEST, |s| &mut s.sampler.temperature),
            "Sampling temperature",
            "what the model recommends, else 0.7; 0 for the bundled model",
        )
        .more("0 always takes the most likely token.")
        .flag("--temperature")
        .live("/temperature"),
        key(
            "sampler.top_k",
            Whole(0, 1_000_000, |s, n| s.sampler.top_k = n),
            "Sample from this many of the most likely tokens",
            "what the model recommends, else 0",
        )
        .more("0 keeps all.")
        .flag("--top-k")
        .live("/top-k"),
        key(
            "sampler.top_p",
            Other("a number above 0, at most 1", takes::top_p),
            "Sample from the most likely tokens that together have this probability",
            "what the model recommends, else 0.95",
        )
        .flag("--top-p")
        .live("/top-p"),
        key(
            "sampler.min_p",
            Number(0.0, 1.0, |s| &mut s.sampler.min_p),
            "Drop tokens whose probability is below this share of the most likely \
             token's",
            "what the model recommends, else 0",
        )
        .flag("--min-p")
        .live("/min-p"),
        key(
            "sampler.repetition_penalty",
            Number(0.1, 10.0, |s| &mut s.sampler.repetition_penalty),
            "Divide the logits of tokens already used by this",
            "what the model recommends, else 1",
        )
        .more("1 changes nothing.")
        .flag("--repetition-penalty")
        .live("/repetition-penalty"),
        key(
            "sampler.presence_penalty",
            Number(-10.0, 10.0, |s| &mut s.sampler.presence_penalty),
            "Subtract this from the logits of tokens already used",
            "what the model recommends, else 0",
        )
        .flag("--presence-penalty"),
        key(
            "sampler.frequency_penalty",
            Number(-10.0, 10.0, |s| &mut s.sampler.frequency_penalty),
            "Subtract this from a token's logit for each time it was used",
            "what the model recommends, else 0",
        )
        .flag("--frequency-penalty"),
        key("sampler.seed", Other("a whole number, 0 or more", takes::seed), "Random seed", "0")
            .more("The same seed gives the same text.")
            .flag("--seed")
            .live("/seed"),
        key(
            "screen.theme",
            OneOf(&[
                ("dark", |s| s.theme = ThemeName::Dark),
                ("light", |s| s.theme = ThemeName::Light),
                ("mono", |s| s.theme = ThemeName::Mono),
            ]),
            "Colours",
            "dark",
        )
        .more("If NO_COLOR is set, the default is mono.")
        .flag("--theme")
        .live("/theme"),
        key(
            "screen.marks",
            Switch(|s| &mut s.marks),
            "Whether accepted tokens are marked in the chat",
            "true",
        )
        .flag("--no-marks")
        .live("F9"),
        key(
            "screen.mouse",
            Switch(|s| &mut s.mouse),
            "Whether the chat uses the mouse: wheel, click and selection",
            "true",
        )
        .more("`false` leaves it to the terminal.")
        .live("/mouse"),
    ]
};
