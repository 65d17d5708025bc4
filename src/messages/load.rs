//! What is said of a load.

use super::{cut, long_prompt, obstacle, reason};
use crate::kernels::Format;
use crate::load::{
    BlocksLimit, HeadMismatch, LoadReason, Missing, Needs, Notice, Repacking, StartError, WhyLookup,
};
use crate::plan::{DrafterId, Reason};

/// One sentence.
pub fn load_reason(why: &LoadReason) -> String {
    match why {
        LoadReason::Plan(why) => reason(why),
        LoadReason::HeadNumbers(heads) => {
            let numbered = heads.iter().enumerate().map(|(index, (name, blocks))| {
                format!("draft head {} is {name} (M = {blocks})", index + 1)
            });
            format!("In these names, {}.", numbered.collect::<Vec<_>>().join(", "))
        }
        LoadReason::HeadFound(name) => {
            format!("The draft head {name} was trained for this model.")
        }
        LoadReason::HeadInFile { blocks } => {
            let all = match blocks {
                1 => String::new(),
                more => format!(" It has {more} blocks; each drafts one level of a tree."),
            };
            format!("The draft head is the MTP head in the model's own file.{all}")
        }
        LoadReason::HeadVocabulary(tokens) => {
            format!("The draft head scores the {tokens} tokens it was trained for.")
        }
        LoadReason::RequestedVocabulary { tokens, vocab, text } => {
            let of = text.as_ref().map(|text| format!(", the most frequent ones in {text}"));
            format!(
                "The draft head scores {tokens} of the target's {vocab} tokens{}.",
                of.unwrap_or_default()
            )
        }
        LoadReason::HeadStates { layers, from_one } => {
            let layers: Vec<String> = layers.iter().map(usize::to_string).collect();
            let layers = layers.join(", ");
            let ids = if *from_one {
                " The layer ids in its config.json start at 1, so each means the output of that \
                 layer."
            } else {
                ""
            };
            format!("The draft head reads the inputs of the target's layers {layers}.{ids}")
        }
        LoadReason::SmallModel { name, gpu, shared, most_context } => {
            let device = gpu.as_deref().unwrap_or("the CPU");
            let shared = match shared {
                None => "and has the target's vocabulary".to_owned(),
                Some(tokens) => {
                    format!("and shares {} of the target's {} tokens", tokens.shared, tokens.of)
                }
            };
            let most = most_context
                .map(|most| format!("; it cannot draft beyond {most} tokens of context"));
            format!("{name} drafts on {device} {shared}{}.", most.unwrap_or_default())
        }
        LoadReason::Lookup(why) => {
            let why = match why {
                WhyLookup::Chosen => ", as you chose",
                WhyLookup::NoHeadChosen => ", since you chose no draft head",
                WhyLookup::NoHead => ", since no draft head is set (--draft)",
                WhyLookup::NextToHead => "",
            };
            format!("Drafts are looked up in the conversation{why}.")
        }
        LoadReason::Text(name) => format!("Drafts are looked up in {name}, as you chose."),
        LoadReason::Lookahead => "The target refines its own guesses while it writes.".to_owned(),
        LoadReason::Context(sources) => match sources {
            DrafterId::Suffix => {
                "Drafts repeat what followed the same phrase earlier in the conversation."
            }
            DrafterId::Recycling => {
                "Drafts repeat what the target found likely in the same context."
            }
            _ => {
                "Drafts repeat what followed the same phrase earlier, and what the target found \
                 likely in the same context."
            }
        }
        .to_owned(),
        LoadReason::History(tokens) => {
            format!("Drafts also come from {tokens} tokens of earlier chats.")
        }
        LoadReason::Ngrams { name, contexts } => format!(
            "An n-gram table of this model ({name}) knows its likely next tokens after {} \
             contexts.",
            thousands(*contexts)
        ),
        LoadReason::PromptsOnGpu { gpu, rows, bytes } => format!(
            "{gpu} reads long prompts in slices of {rows} rows and receives {} MiB for each \
             slice; the CPU computes the answers.",
            bytes >> 20
        ),
        LoadReason::LongPrompt { gpu, forecast } => long_prompt(forecast, gpu),
        LoadReason::Repack { format, repacking } => repacked(*format, *repacking),
        LoadReason::Candle => "candle-transformers runs this model on the CPU, one token per \
                               pass: Dovetail's own engine does not know its architecture."
            .to_owned(),
        LoadReason::PassTransfers(bytes) => format!("Each pass transfers {} MiB.", bytes >> 20),
    }
}

/// What becomes of weights that would be expanded in every product.
fn repacked(format: Format, repacking: Repacking) -> String {
    let gb = |bytes: u64| format!("{:.1} GB", bytes as f64 / 1e9);
    match repacking {
        Repacking::Done { growth, chosen } => {
            let chosen = if chosen { ", as you chose" } else { "" };
            format!(
                "{format} weights are repacked for speed, which takes {} more memory than their \
                 file{chosen}.",
                gb(growth)
            )
        }
        Repacking::NoRoom { needed, free } => format!(
            "{format} weights are expanded each time they are used, which is many times slower: to \
             repack them, {} of memory would have to be free instead of {} (--repack always does \
             it anyway).",
            gb(needed),
            gb(free)
        ),
        Repacking::Declined => format!(
            "{format} weights are expanded each time they are used, as you chose; --repack auto is \
             many times faster."
        ),
    }
}

/// Several, each once, because two drafts may say the same.
pub fn load_reasons(all: &[LoadReason]) -> Vec<String> {
    let mut sentences = Vec::new();
    for sentence in all.iter().map(load_reason) {
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }
    sentences
}

/// Where the target runs, after "the target runs".
pub fn target_runs(reasons: &[LoadReason]) -> String {
    let place = |why: &LoadReason| match why {
        LoadReason::Plan(Reason::TargetOnGpu { gpu }) => Some(format!("on {gpu}")),
        LoadReason::Plan(
            Reason::TargetSplit { gpu, layers, of, .. } | Reason::TargetCut { gpu, layers, of },
        ) => Some(format!("with {layers} of its {of} blocks on {gpu}")),
        LoadReason::Plan(Reason::TargetStreamed { gpu }) => Some(format!("streamed to {gpu}")),
        _ => None,
    };
    reasons.iter().find_map(place).unwrap_or_else(|| "on the CPU".to_owned())
}

/// What the user should know.
pub fn notice(notice: &Notice) -> String {
    match notice {
        Notice::Text(sentence) => sentence.clone(),
        Notice::Reason(why) => load_reason(why),
        Notice::Context { requested, most, target } => {
            format!("`context` is {requested}, but {target} supports {most} tokens; using {most}.")
        }
        Notice::ContextForMemory { requested, used, needed, free } => format!(
            "a context of {requested} tokens needs {} MiB of memory with the models, but {} MiB \
             are free; using {used}. A smaller model, or `--kv q8`, leaves room for more.",
            needed >> 20,
            free >> 20
        ),
        Notice::NoThinking(target) => {
            format!("`thinking` has no effect: the chat template of {target} cannot switch it")
        }
        Notice::Embeds(target) => format!(
            "{target} is an embedding model (its attention is not causal) and cannot chat: its \
             answers are without meaning; use a language model that was trained to chat"
        ),
        Notice::BaseModel(target) => format!(
            "{target} is probably a base model (it has no chat template): it continues text \
             instead of answering. For a chat, use an instruct model."
        ),
        Notice::NoDrafts(target) => format!(
            "--draft and --draft-model have no effect: candle-transformers runs {target}, and it \
             verifies no drafts."
        ),
        Notice::Recommended { origin, problem } => {
            format!("Ignoring a recommended value ({origin}): {problem}.")
        }
        Notice::AllOnCpu(why) => format!("Everything runs on the CPU: {}.", obstacle(why)),
        Notice::HeadFailed(error) => format!("Cannot load the draft on the GPU ({error})."),
        Notice::GpuFailed(error) => format!("Cannot use the GPU ({error})."),
        Notice::SmallModelFailed(error) => format!("The small model runs on the CPU: {error}."),
        Notice::TargetFailed { layers, error } => format!(
            "The target runs on the CPU: cannot run {layers} blocks of the target on the GPU: \
             {error}; lower or remove `gpu_layers`."
        ),
        Notice::TargetCut { layers, planned, gpu, error } => format!(
            "Only {layers} of the {planned} target blocks planned for {gpu} run there, and the \
             others on the CPU: {error}."
        ),
        Notice::Misplaced { layers, of, planned } => {
            format!("{layers} of the target's {of} blocks are on the GPU instead of {planned}.")
        }
        Notice::PromptsOnCpu(why) => format!("The CPU reads the prompts: {}.", obstacle(why)),
        Notice::Blocks { requested, used, why } => {
            let why = match why {
                BlocksLimit::Room(why) => cut(why).unwrap_or_default(),
                BlocksLimit::Always(all) => format!("this head always uses all of its {all}"),
                BlocksLimit::Most(most) => format!("this head has {most}"),
            };
            format!("`blocks` is {requested}, but {why}; using {used}.")
        }
        Notice::HeadIgnored { name, why: HeadMismatch::Shape(error) } => {
            format!("Ignoring {name}: {error}.")
        }
        Notice::HeadIgnored { name, why: HeadMismatch::MadeFor { model, target } } => {
            format!("Ignoring {name}: the draft head was trained for {model}, not for {target}.")
        }
    }
}

/// Several.
pub fn notices(all: &[Notice]) -> Vec<String> {
    all.iter().map(notice).collect()
}

/// What is missing and what to do, a clause.
pub fn missing(missing: &Missing) -> String {
    match missing {
        Missing::Drafter(clause) => (*clause).to_owned(),
        Missing::NotBuilt => "a drafter that this build does not include".to_owned(),
        Missing::Trees => {
            "an engine that verifies drafts (candle-transformers runs this model)".to_owned()
        }
        Missing::GpuLayers(Some(why)) => format!("target blocks on a GPU: {}", clause(why)),
        Missing::GpuLayers(None) => {
            "target blocks on a GPU: start with --gpu-layers auto".to_owned()
        }
        Missing::Streaming(Some(why)) => format!("a GPU to stream to: {}", clause(why)),
        Missing::Streaming(None) => {
            "a target that is streamed to a GPU: start with --gpu-layers stream".to_owned()
        }
    }
}

/// Why the models cannot be used, and what to do.
pub fn start_error(error: &StartError) -> String {
    match error {
        StartError::Library(_) | StartError::Target(_) | StartError::Head { .. } => {
            error.to_string()
        }
        StartError::NoHead { target, refused } => format!(
            "none of the draft heads fits {target}: {} Choose another with --draft",
            notices(refused).join(" ")
        ),
        StartError::DraftVocab { text, error } => {
            let why = match error {
                Some(error) => error.clone(),
                None => format!("{text} contains no text"),
            };
            format!(
                "`draft_vocab` is \"text:{text}\": {why}; use a text file (--draft-vocab \
                 text:FILE), a number of tokens, auto or all"
            )
        }
        StartError::Strategy { name, missing: what, available } => format!(
            "the strategy `{name}` needs {}; available strategies: {}",
            missing(what),
            available.join(", ")
        ),
        StartError::NoRoom { what, needed, free } => {
            let what = match what {
                Needs::Model(name) => name.clone(),
                Needs::Head => "the draft head".to_owned(),
                Needs::DraftOn(gpu) => format!("the draft on {gpu}"),
            };
            format!(
                "{what} needs {} MiB of memory in addition to the models in use, but only {} MiB \
                 are free",
                needed >> 20,
                free >> 20
            )
        }
        StartError::NoNumbers { name } => format!(
            "{name} computes no numbers (NaN), so it cannot say anything: its weights are not \
             numbers either, or too large for their type; download it again, or use another file \
             of the model"
        ),
        StartError::Moves { layers, of, gpu, before } => format!(
            "with this draft, {layers} of the target's {of} blocks should run on {gpu} instead of \
             {before}"
        ),
        StartError::FreeMemory { name, context, needed, free } => format!(
            "{name} needs {} MiB of memory with a context of {context} tokens, but {} MiB are \
             free; close other programs, raise the limit of the container, or use a smaller model",
            needed >> 20,
            free >> 20
        ),
        StartError::Memory { name, needed, total } => format!(
            "{name} needs {} MiB of memory, but this machine has {} MiB; use a smaller model or \
             one with fewer bits per weight",
            needed >> 20,
            total >> 20
        ),
    }
}

/// Why the target is not on a GPU, a clause.
fn clause(why: &Notice) -> String {
    match why {
        Notice::Reason(LoadReason::Plan(Reason::TargetOnCpu(why))) | Notice::AllOnCpu(why) => {
            obstacle(why)
        }
        other => notice(other).trim_end_matches('.').to_owned(),
    }
}

/// With thousands separators: `493,476`.
fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
