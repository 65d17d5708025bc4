//! The table of settings: name, what it takes, documentation, default, flag, command of the chat,
//! and what a contender of the bench calls it. The settings file, the flags and their help, the
//! commands, the contenders and the page of the guide come from it.

use super::keys::{Heading, SettingKey, SettingScope, key};
use super::takes::{self, Takes};
use super::{Alert, Layout, PrefillDevice, Repack, ThemeName};
use crate::kernels::KvFormat;
use crate::plan::{ANSWER, BLOCKS, DEPTH, DuoBudget, GAMMA, Prefer, WIDTH};
use crate::speculate::SamplerSettings;

const HOTTEST: f64 = SamplerSettings::HOTTEST as f64;
const MODEL: &str = "a GGUF file, a folder, a hub id or the name of a model on this machine";
const HEAD: &str = "a file, a folder, a hub id or an installed head's name, a list of these, \
                    \"lookup\" or \"none\"";
const DRAFT_VOCAB: &str = "a number of tokens, \"auto\", \"all\" or \"text:FILE\"";
const DRAFT_PRECISION: &str = "\"auto\", \"stored\", 8 or 4";
const DEVICE: &str = "auto, cpu, gpu or gpu:N with its number";
const GPU_LAYERS: &str = "a whole number from 0 to 4096, \"auto\", \"all\" or \"stream\"";
const GIGABYTES: &str = "true, false or a limit in gigabytes from 1 to 10000";
const NGRAMS: &str = "a file made by `dovetail ngrams`, \"auto\" or \"none\"";
const MODELS: Heading = Heading("Models");
const SPECULATION: Heading = Heading("Speculation");
const SAMPLING: Heading = Heading("Sampling");
const TEXT: Heading = Heading("Answer");
const PLAIN: &str = "Turn speculation off: the same text, one token per pass";
const OVERLAP: &str = "Continue drafting from the most likely outcome while the target verifies";
const NO_COUPLED: &str = "When sampling, rank drafts by the draft's own probabilities, without the \
                          target's random noise";
const REPEAT: &str = "On the command line, repeat the flag for several.";
const MEMORY: &str = "an amount of memory such as \"4GiB\" or \"900MiB\"";

/// Every setting, in the order of the documentation.
pub const KEYS: &[SettingKey] = {
    use Takes::{Automatic, Limit, Named, Natural, Number, OneOf, Other, Share, Switch, Whole};
    &[
        key("target", Named(MODEL, |s, name| s.target = Some(name)))
            .what("Target model")
            .default("the bundled model")
            .flag(MODELS.flag("--target", "MODEL").env("DOVETAIL_TARGET"))
            .command("/model", "[name]", "change the model in this chat"),
        key("draft", Other(HEAD, takes::head))
            .what("Draft head")
            .default("the head made for the target, if it is installed, or the one in its file")
            .more(
                "`lookup` drafts from the conversation instead, `none` uses no head. Repeat the \
                 flag to name several heads; the fastest that fits is used.",
            )
            .flag(MODELS.flag("--draft", "MODEL").env("DOVETAIL_DRAFT").repeated())
            .command("/draft", "[name]", "change what drafts for it")
            .contender(&["head"], SettingScope::Draft),
        key("draft_vocab", Other(DRAFT_VOCAB, takes::draft_vocab))
            .what("Tokens that the draft scores")
            .default("the tokens a head was trained on; `auto` for a small model")
            .more(
                "A number takes the tokens that the tokenizer merges first, `auto` a sixth of the \
                 vocabulary. `text:FILE` takes the most frequent tokens of a text, at most as many \
                 as `auto`, for a head only. A small model on the CPU also scores the tokens of \
                 the conversation; its `auto` is an eighth of its vocabulary, or more if the \
                 conversation needs more.",
            )
            .flag(MODELS.flag("--draft-vocab", "N|auto|all|text:FILE"))
            .contender(&["draft-vocab"], SettingScope::Draft),
        key("draft_precision", Other(DRAFT_PRECISION, takes::draft_precision))
            .what("Precision of the weights of draft heads and small models")
            .default("auto")
            .more(
                "A number is the most bits of a weight, `stored` leaves the weights as they are in \
                 the file. `auto` is 4 bits on the CPU and 8 bits on a GPU.",
            )
            .flag(MODELS.flag("--draft-precision", "auto|stored|8|4"))
            .contender(&["draft-precision"], SettingScope::Draft),
        key("draft_model", Named(MODEL, |s, name| s.draft_model = Some(name)))
            .what("Small language model to draft with")
            .default("the bundled one, for the bundled model")
            .more(
                "Its vocabulary may differ from the target's; only the tokens they share are \
                 drafted.",
            )
            .flag(MODELS.flag("--draft-model", "MODEL").env("DOVETAIL_DRAFT_MODEL"))
            .live("/draft")
            .contender(&["draft-model"], SettingScope::Draft),
        key("model_folders", Other("a list of folders", takes::model_folders))
            .what("Folders to search for models")
            .default("none")
            .more("They are searched in addition to the folders of other programs."),
        key("rest_text", Named("a text file", |s, name| s.rest_text = Some(name.into())))
            .what("Text to draft from, with the strategy `rest`")
            .default("none")
            .more("Its index is built once and reused.")
            .flag(MODELS.flag("--rest-text", "FILE"))
            .contender(&["rest-text"], SettingScope::Draft),
        key("ngrams", Other(NGRAMS, takes::ngrams))
            .what("N-gram table to draft from")
            .default("auto")
            .more("`auto` takes the table made for the target, if it is installed.")
            .flag(MODELS.flag("--ngrams", "FILE|auto|none"))
            .contender(&["ngrams"], SettingScope::Draft),
        key("history", Switch(|s| &mut s.history))
            .what("Whether to draft from earlier saved conversations too")
            .default("false"),
        key("strategy", Other("the name of a strategy", takes::strategy))
            .what("How to draft")
            .default("auto, or pld if `draft` is `lookup`")
            .more("`dovetail doctor` lists the strategies that can run here.")
            .flag(SPECULATION.flag("--strategy", "NAME").env("DOVETAIL_STRATEGY"))
            .command("/strategy", "[name]", "choose how tokens are drafted"),
        key("system", Other("a text", takes::system))
            .what("System prompt")
            .default("none")
            .flag(TEXT.flag("--system", "TEXT"))
            .command("/system", "[TEXT|clear]", "show, set or delete the system prompt"),
        key("max_tokens", Automatic(ANSWER, |s| &mut s.max_tokens))
            .what("Maximum number of tokens in an answer")
            .default("auto")
            .more(
                "`auto` is the room left in the context; a race and `bench` have limits of their \
                 own.",
            )
            .flag(TEXT.flag("--max-tokens", "N|auto"))
            .command("/max-tokens", "[N|auto]", "longest answer; auto: what the context holds"),
        key("thinking", Other("true, false or \"auto\"", takes::thinking))
            .what(
                "Whether the model thinks before it answers, if its template has a switch for \
                 that",
            )
            .default("auto")
            .more("`on` and `off` work too.")
            .flag(TEXT.flag("--think", "on|off|auto"))
            .command(
                "/think",
                "[on|off|auto|show|hide]",
                "let the model think; show or fold thoughts",
            ),
        key("stop", Other("a list of texts that are not empty", takes::stop))
            .what("Texts that end the answer")
            .default("none")
            .more(REPEAT)
            .flag(TEXT.flag("--stop", "TEXT").repeated()),
        key("context", Limit(64, 1 << 20, |s| &mut s.context))
            .what("Context length in tokens")
            .default("the model's, up to 4096")
            .more("At most the model's own.")
            .flag(MODELS.flag("--context", "N")),
        key(
            "kv",
            OneOf(&[
                (KvFormat::F32.name(), |s| s.kv = KvFormat::F32),
                (KvFormat::F16.name(), |s| s.kv = KvFormat::F16),
                (KvFormat::Q8.name(), |s| s.kv = KvFormat::Q8),
            ]),
        )
        .what("Precision of the target's KV cache")
        .default("f32")
        .more("`q8` is 8 bits on the CPU; blocks on a GPU then use f16.")
        .flag(MODELS.flag("--kv", "TYPE")),
        key("threads", Limit(1, 1024, |s| &mut s.threads))
            .what("Compute threads")
            .default("one per fast core")
            .flag(MODELS.flag("--threads", "N").env("DOVETAIL_THREADS")),
        key("draft_threads", Limit(1, 1024, |s| &mut s.draft_threads))
            .what("Threads for a draft that runs during verification")
            .default("a share of the compute threads")
            .flag(SPECULATION.flag("--draft-threads", "N"))
            .contender(&["draft-threads"], SettingScope::Draft),
        key("device", Other(DEVICE, takes::device))
            .what("Device for drafting")
            .default("auto")
            .more("`dovetail doctor` numbers the GPUs.")
            .flag(MODELS.flag("--device", "DEVICE").env("DOVETAIL_DEVICE"))
            .contender(&["device"], SettingScope::Placement),
        key("vram", Other(MEMORY, takes::vram))
            .what("Limit on video memory")
            .default("what the driver reports")
            .more("Also used as its size if the driver does not report one.")
            .flag(MODELS.flag("--vram", "BYTES").env("DOVETAIL_VRAM"))
            .contender(&["vram"], SettingScope::Placement),
        key(
            "repack",
            OneOf(&[
                ("auto", |s| s.repack = Repack::Auto),
                ("always", |s| s.repack = Repack::Always),
                ("never", |s| s.repack = Repack::Never),
            ]),
        )
        .what("Whether to repack weights of types that are slow as they are in the file")
        .default("auto")
        .more(
            "A repacked weight takes 5 bits. `auto` repacks if that leaves an eighth of the memory \
             free. The answers are the same.",
        )
        .flag(MODELS.flag("--repack", "auto|always|never")),
        key("pack_cache", Other(GIGABYTES, takes::pack_cache))
            .what(
                "Whether to keep packed weights in the cache folder, so that the next start is \
                 faster",
            )
            .default("false")
            .more("`true` is 32 GB.")
            .flag(MODELS.flag("--pack-cache", "GB").alone("true")),
        key("kv_disk", Other(GIGABYTES, takes::kv_disk))
            .what(
                "Whether to keep the KV caches of conversations on disk, so that they continue \
                 faster",
            )
            .default("true")
            .more("`true` is 4 GB."),
        key("gpu_layers", Other(GPU_LAYERS, takes::gpu_layers))
            .what("Blocks of the target that run on the GPU")
            .default("the fastest number; it is measured unless `device` is set")
            .more(
                "`auto` takes as many as fit; `stream` runs all of them there and sends their \
                 weights from main memory in every pass.",
            )
            .flag(MODELS.flag("--gpu-layers", "N|auto|all|stream").env("DOVETAIL_GPU_LAYERS"))
            .contender(&["gpu-layers"], SettingScope::Placement),
        key(
            "prefill",
            OneOf(&[
                ("auto", |s| s.prefill = PrefillDevice::Auto),
                ("cpu", |s| s.prefill = PrefillDevice::Cpu),
                ("gpu", |s| s.prefill = PrefillDevice::Gpu),
            ]),
        )
        .what("Device that reads long prompts when the target runs on the CPU")
        .default("auto")
        .more("`gpu` streams the blocks to it; `auto` measures and takes the faster.")
        .flag(MODELS.flag("--prefill", "auto|cpu|gpu").env("DOVETAIL_PREFILL")),
        key(
            "prefer",
            OneOf(&[
                ("auto", |s| s.prefer = Prefer::Auto),
                ("speed", |s| s.prefer = Prefer::Speed),
                ("show", |s| s.prefer = Prefer::Show),
            ]),
        )
        .what("What automatic control aims for")
        .default("auto")
        .more("`show` always drafts a tree to look at.")
        .flag(SPECULATION.flag("--prefer", "WHAT")),
        key("speculate", Switch(|s| &mut s.speculate))
            .what("Whether speculation is on")
            .default("true")
            .more("The text is the same without it, one token per pass.")
            .flag(SPECULATION.switch("--plain", PLAIN))
            .command("/speculate", "[on|off]", "speculation; it never changes the text"),
        key("overlap", Switch(|s| &mut s.overlap))
            .what(
                "Whether to continue drafting from the most likely outcome while the target \
                 verifies",
            )
            .default("false")
            .flag(SPECULATION.switch("--overlap", OVERLAP))
            .command("/overlap", "[on|off]", "draft while the target verifies"),
        key("coupled", Switch(|s| &mut s.coupled))
            .what("Whether drafts are ranked with the target's random noise when sampling")
            .default("true")
            .flag(SPECULATION.switch("--no-coupled", NO_COUPLED))
            .command("/coupled", "[on|off]", "rank drafts with the target's noise"),
        key("controls.gamma", Automatic(GAMMA, |s| &mut s.controls.gamma))
            .what("Maximum number of nodes in the draft tree, its root counted (γ)")
            .default("auto")
            .flag(SPECULATION.flag("--gamma", "N|auto"))
            .command("/gamma", "[N|auto]", "γ: most nodes in the draft tree")
            .contender(&["gamma", "γ"], SettingScope::Round),
        key("controls.blocks", Automatic(BLOCKS, |s| &mut s.controls.blocks))
            .what("Blocks of the draft head to use (M)")
            .default("auto")
            .flag(SPECULATION.flag("--blocks", "N|auto"))
            .command("/blocks", "[N|auto]", "M: blocks of the draft head in use")
            .contender(&["m", "blocks"], SettingScope::Round),
        key("controls.width", Automatic(WIDTH, |s| &mut s.controls.width))
            .what("Width of the draft tree (k)")
            .default("auto")
            .flag(SPECULATION.flag("--width", "N|auto"))
            .command("/width", "[N|auto]", "k: width of the draft tree")
            .contender(&["k", "width"], SettingScope::Round),
        key("controls.depth", Automatic(DEPTH, |s| &mut s.controls.depth))
            .what("How many times the draft tree is expanded below its first level (D)")
            .default("auto")
            .flag(SPECULATION.flag("--depth", "N|auto"))
            .command("/depth", "[N|auto]", "D: depth of the draft tree")
            .contender(&["d", "depth"], SettingScope::Round),
        key(
            "controls.duo_budget",
            OneOf(&[
                ("c", |s| s.controls.duo_budget = DuoBudget::C),
                ("acceptance", |s| s.controls.duo_budget = DuoBudget::Acceptance),
            ]),
        )
        .what("How `duo` chooses γ where it is not fixed")
        .default("c")
        .more(
            "`c` is the paper's rule: as many tokens as the draft makes in one pass of the target. \
             `acceptance` takes the number that gains the most at the measured acceptance rate.",
        )
        .flag(SPECULATION.flag("--duo-budget", "c|acceptance"))
        .contender(&["budget"], SettingScope::Round),
        key("controls.pace", Other("off or a time up to 10 s, such as 0.5s or 500ms", takes::pace))
            .what("Least time per round, to watch a fast model")
            .default("0s; in a replay, the recorded speed")
            .flag(Heading::SCREEN.flag("--pace", "TIME"))
            .command("/pace", "[TIME]", "shortest time per round: 0.5s, 500ms"),
        key("sampler.temperature", Number(0.0, HOTTEST, |s| &mut s.sampler.temperature))
            .what("Sampling temperature")
            .default("what the model recommends, else 0.7; 0 for the bundled model")
            .more("0 always takes the most likely token.")
            .flag(SAMPLING.flag("--temperature", "X"))
            .command("/temperature", "[X]", "0 always takes the likeliest token"),
        key("sampler.top_k", Whole(0, 1_000_000, |s| &mut s.sampler.top_k))
            .what("Sample from this many of the most likely tokens")
            .default("what the model recommends, else 0")
            .more("0 keeps all.")
            .flag(SAMPLING.flag("--top-k", "N"))
            .command("/top-k", "[N]", "keep the N likeliest tokens; 0 keeps all"),
        key("sampler.top_p", Share(|s| &mut s.sampler.top_p))
            .what("Sample from the most likely tokens that together have this probability")
            .default("what the model recommends, else 0.95")
            .flag(SAMPLING.flag("--top-p", "X"))
            .command("/top-p", "[X]", "keep the likeliest tokens up to this share"),
        key("sampler.min_p", Number(0.0, 1.0, |s| &mut s.sampler.min_p))
            .what("Drop tokens whose probability is below this share of the most likely token's")
            .default("what the model recommends, else 0")
            .flag(SAMPLING.flag("--min-p", "X"))
            .command("/min-p", "[X]", "drop tokens below X times the likeliest"),
        key("sampler.repetition_penalty", Number(0.1, 10.0, |s| &mut s.sampler.repetition_penalty))
            .what("Divide the logits of tokens already used by this")
            .default("what the model recommends, else 1")
            .more("1 changes nothing.")
            .flag(SAMPLING.flag("--repetition-penalty", "X"))
            .command("/repetition-penalty", "[X]", "make repeated tokens less likely"),
        key("sampler.presence_penalty", Number(-10.0, 10.0, |s| &mut s.sampler.presence_penalty))
            .what("Subtract this from the logits of tokens already used")
            .default("what the model recommends, else 0")
            .flag(SAMPLING.flag("--presence-penalty", "X")),
        key("sampler.frequency_penalty", Number(-10.0, 10.0, |s| &mut s.sampler.frequency_penalty))
            .what("Subtract this from a token's logit for each time it was used")
            .default("what the model recommends, else 0")
            .flag(SAMPLING.flag("--frequency-penalty", "X")),
        key("sampler.seed", Natural(|s| &mut s.sampler.seed))
            .what("Random seed")
            .default("0")
            .more("The same seed gives the same text.")
            .flag(SAMPLING.flag("--seed", "N"))
            .command("/seed", "[N]", "the same seed gives the same text"),
        key(
            "screen.theme",
            OneOf(&[
                ("auto", |s| s.theme = ThemeName::Auto),
                ("dark", |s| s.theme = ThemeName::Dark),
                ("light", |s| s.theme = ThemeName::Light),
                ("mono", |s| s.theme = ThemeName::Mono),
            ]),
        )
        .what("Colours")
        .default("auto")
        .more(
            "`auto` asks the terminal for its background, and is dark if it does not answer. If \
             NO_COLOR is set, the default is mono.",
        )
        .flag(Heading::SCREEN.flag("--theme", "NAME"))
        .command("/theme", "[name]", "colours: auto, dark, light, mono"),
        key(
            "screen.layout",
            OneOf(&[
                ("auto", |s| s.layout = None),
                (Layout::Chat.name(), |s| s.layout = Some(Layout::Chat)),
                (Layout::Tree.name(), |s| s.layout = Some(Layout::Tree)),
                (Layout::Lab.name(), |s| s.layout = Some(Layout::Lab)),
            ]),
        )
        .what("Panels next to the conversation")
        .default("the last one used, else auto")
        .more(
            "`chat` has none, `tree` the draft tree, `lab` the tree, the meters and the controls. \
             `auto` is `tree` from 110 columns on, else `chat`.",
        )
        .flag(Heading::SCREEN.flag("--layout", "NAME"))
        .command("/layout", "[name]", "panels: chat, tree, lab or auto"),
        key("screen.marks", Switch(|s| &mut s.marks))
            .what("Whether accepted tokens are marked in the chat")
            .default("true")
            .flag(Heading::SCREEN.switch("--no-marks", "Do not mark where each token came from"))
            .live("F9"),
        key("screen.vi", Switch(|s| &mut s.vi))
            .what("Whether the message has the keys of vi")
            .default("false")
            .more("`Esc` goes to the mode in which letters move and change.")
            .command("/vi", "[on|off]", "keys of vi in the message"),
        key("screen.mouse", Switch(|s| &mut s.mouse))
            .what("Whether the chat uses the mouse: wheel, click and selection")
            .default("true")
            .more("`false` leaves it to the terminal.")
            .command("/mouse", "[on|off]", "wheel, clicks and selection in the chat"),
        key(
            "screen.alert",
            OneOf(&[
                ("off", |s| s.alert = Alert::Off),
                ("bell", |s| s.alert = Alert::Bell),
                ("notification", |s| s.alert = Alert::Notification),
            ]),
        )
        .what(
            "What the terminal does when an answer of five seconds or more ends without the focus",
        )
        .default("bell")
        .more("`notification` is one of the desktop, where the terminal knows OSC 9.")
        .command(
            "/alert",
            "[name]",
            "at the end of a long answer: off, bell, notification",
        ),
        key("screen.tips", Switch(|s| &mut s.tips))
            .what("Whether the chat tells of features that you have not used, each once")
            .default("true"),
    ]
};
