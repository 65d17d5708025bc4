//! Reasons as sentences: the only place that writes them in English. Must never decide anything.

use crate::decode::NothingGuessed;
use crate::plan::{
    Basis, BlocksReason, DrafterId, DuoGammaReason, GammaReason, GpuMemory, HeadForecast, Obstacle,
    OverlapEffect, PlacementForecast, PrefillForecast, Reason,
};
use crate::printable;

mod load;
#[cfg(test)]
mod tests;

pub use load::{load_reason, load_reasons, missing, notice, notices, start_error, target_runs};

/// The text of a part of the target that is not on the CPU.
const MAY_DIFFER: &str = "the text can differ slightly from the CPU's";

/// Why a draft tree is empty.
pub fn nothing_guessed(why: NothingGuessed) -> &'static str {
    match why {
        NothingGuessed::NotBegun => "The tree appears with the first words of an answer.",
        NothingGuessed::Off => "Nothing guessed: without speculation, the target decodes alone.",
        NothingGuessed::NoDraft => "Nothing guessed: the strategy has no draft to guess with.",
        NothingGuessed::CostsMore => {
            "Nothing guessed: checking guesses would cost more than it saves here."
        }
        NothingGuessed::Unlikely => "Nothing guessed: no guess was likely enough to be checked.",
        NothingGuessed::OneLeft => "Nothing guessed: there was room for one more token only.",
    }
}

/// One sentence.
pub fn reason(reason: &Reason) -> String {
    match reason {
        Reason::DraftOnCpu(why) => on_cpu("drafting", why),
        Reason::DraftOnGpu { gpu, memory, fit } => {
            let memory = of_memory(memory);
            match fit {
                None => format!("Drafting on {gpu}{memory}; the CPU only verifies."),
                Some((fit, of)) => format!(
                    "Drafting on {gpu}{memory} with {fit} of the head's {of} blocks, as many as \
                     fit; the CPU only verifies."
                ),
            }
        }
        Reason::TargetOnCpu(why) => on_cpu("the target runs", why),
        Reason::TargetOnGpu { gpu } => format!("The whole target runs on {gpu}; {MAY_DIFFER}."),
        Reason::TargetSplit { gpu, layers, of, asked } => {
            let asked = asked.map_or_else(String::new, |asked| format!(" (you chose {asked})"));
            format!("{layers} of the target's {of} blocks run on {gpu}{asked}; {MAY_DIFFER}.")
        }
        Reason::TargetCut { gpu, layers, of } => format!(
            "{layers} of the target's {of} blocks run on {gpu}, which has no room for more; \
             {MAY_DIFFER}."
        ),
        Reason::TargetStreamed { gpu } => {
            format!("The target's blocks are streamed from main memory to {gpu}; {MAY_DIFFER}.")
        }
        Reason::BlockTimes { cpu_ms, gpu_ms, gpu, fit, of } => format!(
            "One block of the target takes {cpu_ms:.2} ms on the CPU and {gpu_ms:.2} ms on {gpu}, \
             where {fit} of {of} fit without a draft."
        ),
        Reason::Placed { best, on_cpu, gpu, worth } => {
            let expected =
                format!("Expected with \"{}\": {:.1} tokens/s", placement(best), best.rate);
            match on_cpu {
                Some(other) => format!(
                    "{expected}, compared with {:.1} on the CPU alone (\"{}\").",
                    other.rate,
                    placement(other)
                ),
                None => format!(
                    "{expected}; no placement on {gpu} is expected to be {:.0} % faster.",
                    worth * 100.0
                ),
            }
        }
        Reason::Offload { gpu, offload_ms, transfer, other, beats } => format!(
            "Streaming the target to {gpu} takes {offload_ms:.0} ms per token (T_offload, at \
             {:.1} GB/s). With \"{}\" a token takes {:.1} ms, and T_V = {:.1} ms is {} than \
             Ω·T_offload.",
            transfer / 1e9,
            placement(other),
            other.token_ms(),
            other.verify_ms,
            if *beats { "less" } else { "more" }
        ),
        Reason::HeadChosen { heads, taken, on_gpu } => chosen(heads, *taken, *on_gpu),
        Reason::OnlyHead(name) => {
            format!("Using draft head {name}, the only one of these that fits the target.")
        }
        &Reason::ThreadsShared { draft, threads, chosen, effect } => {
            let chosen = if chosen { ", as you chose," } else { "" };
            format!(
                "Drafting ahead (`overlap`) uses {draft} of {threads} threads{chosen} and leaves \
                 {} for verification; {}.",
                threads.saturating_sub(draft).max(1),
                of_overlap(effect)
            )
        }
        Reason::ThreadForGpu { threads } => format!(
            "Drafting ahead (`overlap`) keeps 1 of {threads} threads free to serve the GPU and \
             leaves {} for verification.",
            threads.saturating_sub(1).max(1)
        ),
        Reason::ReadsPrompt { beside: true } => {
            "The draft reads a prompt while the target does.".to_owned()
        }
        Reason::ReadsPrompt { beside: false } => {
            "The draft reads a prompt after the target: on the same processor, both at once would \
             delay the first token and save no time until the second."
                .to_owned()
        }
        Reason::NoDraft => "There is no draft model; the target decodes alone.".to_owned(),
        &Reason::Gamma(gamma, why) => match why {
            GammaReason::Fixed => format!("γ = {gamma}, as you chose."),
            GammaReason::NoTree { tree, plain } => format!(
                "γ = {gamma}: no tree pays off here. A small one would give about {tree:.0} \
                 tokens/s, plain decoding gives {plain:.0}."
            ),
            GammaReason::Enough(ratio) => format!(
                "γ = {gamma}: verifying {gamma} nodes takes {ratio:.1} times as long as one token; \
                 more nodes would probably cost more time than they save."
            ),
        },
        Reason::Blocks { blocks, most, why } => match why {
            BlocksReason::Only => format!("M = {blocks}: this head has a fixed number of blocks."),
            BlocksReason::Fixed => format!("M = {blocks} of {most}, as you chose."),
            BlocksReason::Each(ms) => format!(
                "M = {blocks} of {most}: each block adds {ms:.2} ms to the draft of a round; {}.",
                if blocks == most {
                    "all of them improve the guesses enough to pay off"
                } else {
                    "one more would cost more time than its better guesses save"
                }
            ),
        },
        Reason::Tree { shape, fixed, passes, draft_ms, verify_ms } => {
            let chosen = match fixed {
                (true, true) => " (as you chose)",
                (true, false) => " (you chose the width)",
                (false, true) => " (you chose the depth)",
                (false, false) => "",
            };
            let passes = match passes {
                1 => "the draft pass of a round takes".to_owned(),
                passes => format!("the {passes} draft passes of a round take"),
            };
            format!(
                "Width {}, depth {}{chosen}: {passes} {draft_ms:.1} ms, verification takes \
                 {verify_ms:.1} ms.",
                shape.width, shape.depth
            )
        }
        Reason::KeptForShow { tree, plain } => format!(
            "Plain decoding would give about {plain:.0} tokens/s and this tree gives {tree:.0}; it \
             stays so that you can watch a tree (`prefer = \"speed\"` removes it)."
        ),
        Reason::Expected { tokens, rate, plain } => format!(
            "Expected: {tokens:.1} tokens per round and about {rate:.0} tokens/s, compared with \
             {plain:.0} without speculation."
        ),
        Reason::Basis(basis) => of_basis(*basis),
        Reason::Sources { context, models, plain } => {
            let models = models.iter().map(|(kind, rate)| {
                let name = if *kind == DrafterId::Head { "draft head" } else { kind.name() };
                format!("{name} {rate:.0} tok/s, ")
            });
            format!(
                "Each round uses the fastest source: conversation {context:.0} tok/s, {}none \
                 {plain:.0} tok/s.",
                models.collect::<String>()
            )
        }
        Reason::DuoGamma { gamma, why, step_ms, pass_ms, verify_ms } => {
            let why = match why {
                DuoGammaReason::Fixed => ", as you chose",
                DuoGammaReason::C => " by the paper's rule, γ = c",
                DuoGammaReason::Acceptance => ", which gains the most at the acceptance rate",
            };
            let draft_ms = *gamma as f64 * step_ms;
            format!(
                "γ = {gamma}{why}: drafting {gamma} tokens takes {draft_ms:.1} ms, and verifying \
                 them at the same time {verify_ms:.1} ms. c = {:.1}: one pass of the target takes \
                 {pass_ms:.1} ms, one draft step {step_ms:.1} ms.",
                pass_ms / step_ms
            )
        }
        Reason::DuoSequences(Some(k)) => {
            format!("They form {k} sequences, as you chose (or a divisor of γ).")
        }
        Reason::DuoSequences(None) => {
            "They form one to eight sequences, depending on how certain the draft is.".to_owned()
        }
        Reason::Acceptance(Some(right)) => {
            format!("{:.0} % of the recently drafted tokens were accepted.", right * 100.0)
        }
        Reason::Acceptance(None) => "No drafted token has been verified yet.".to_owned(),
        Reason::GammaByTime { one_ms, eight_ms } => format!(
            "γ: each round verifies the tokens that are likely enough for their time (T_V is \
             {one_ms:.1} ms for one, {eight_ms:.1} ms for eight)."
        ),
        Reason::Lately(Some((nodes, tokens))) => {
            format!("Recently, {nodes:.1} nodes per round gave {tokens:.1} tokens.")
        }
        Reason::Lately(None) => "There has been no round yet.".to_owned(),
    }
}

/// A clause that says why, e.g. after a colon.
pub fn obstacle(why: &Obstacle) -> String {
    match why {
        Obstacle::Chosen => "you chose the CPU".to_owned(),
        Obstacle::CpuIsFaster => "the CPU is expected to be the fastest here".to_owned(),
        Obstacle::TargetHasGpu => "this strategy leaves the GPU to the target".to_owned(),
        Obstacle::NoGpu => "no GPU found (Vulkan, Metal or DirectX 12)".to_owned(),
        Obstacle::SoftwareOnly { name, number } => {
            format!("no GPU found except {name}, which is software (gpu:{number} selects it)")
        }
        Obstacle::NoSuchGpu { number, others } if others.is_empty() => {
            format!("gpu:{number} does not exist, and there is no other GPU")
        }
        Obstacle::NoSuchGpu { number, others } => {
            let others: Vec<String> =
                others.iter().map(|(number, name)| format!("gpu:{number} {name}")).collect();
            format!("gpu:{number} does not exist (available: {})", others.join(", "))
        }
        Obstacle::NoVulkan(gpu) => format!("{gpu} has no Vulkan driver"),
        Obstacle::Failed => "the GPU failed".to_owned(),
        Obstacle::DraftTooLarge { needed, gpu, room, memory } => format!(
            "the draft needs {} MiB of GPU memory, but {gpu} has {} MiB available{}",
            needed >> 20,
            room >> 20,
            of_memory(memory)
        ),
        &Obstacle::BlockTooLarge { block, draft, ref gpu, room } => {
            next_to_draft("one block of the target", block, draft, gpu, room)
        }
        Obstacle::MainMemory { needed, free } => {
            format!("it needs {} MiB of memory, but only {} MiB are free", needed >> 20, free >> 20)
        }
        Obstacle::NoRoomNextToTarget => {
            "its blocks do not fit on the GPU next to those of the target".to_owned()
        }
        Obstacle::Error(error) => error.clone(),
        Obstacle::TargetTwice { needed, free } => format!(
            "main memory would hold the target twice, which needs {} MiB, but only {} MiB are free",
            needed >> 20,
            free >> 20
        ),
        &Obstacle::PromptsTooLarge { needed, draft, ref gpu, room } => {
            next_to_draft("reading them on the GPU", needed, draft, gpu, room)
        }
        Obstacle::ModelsInUse => "other models are in use".to_owned(),
        Obstacle::OnlyCpu { drafter, with } => {
            format!("{drafter} drafters with {with} run only on the CPU")
        }
        Obstacle::OneBlock => "the target has only one block".to_owned(),
        Obstacle::NoTime => "a pass took no measurable time".to_owned(),
        Obstacle::NoPlacement => "no placement is possible".to_owned(),
        Obstacle::Candle => "candle-transformers, which runs this model, uses no GPU".to_owned(),
    }
}

/// That `what` does not fit on a GPU next to the draft, a clause.
fn next_to_draft(what: &str, needed: u64, draft: u64, gpu: &str, room: u64) -> String {
    format!(
        "{what} needs {} MiB in addition to the draft's {} MiB, but {gpu} has {} MiB available",
        needed >> 20,
        draft >> 20,
        room >> 20
    )
}

/// What to expect of a long prompt, a sentence.
pub fn long_prompt(forecast: &PrefillForecast, gpu: &str) -> String {
    let PrefillForecast { cpu, gpu: there, slice, .. } = forecast;
    format!(
        "Expected for a long prompt: {there:.0} tokens/s through {gpu} in slices of {slice}, \
         {cpu:.0} on the CPU."
    )
}

/// Why fewer blocks of a head are used than it has, a clause; `None` where all are.
pub fn cut(reason: &Reason) -> Option<String> {
    let (gpu, fit, of) = reason.cut()?;
    Some(format!("{gpu} has room for {fit} of the head's {of} blocks"))
}

/// That `what` happens on the CPU, and why.
fn on_cpu(what: &str, why: &Obstacle) -> String {
    match why {
        Obstacle::Chosen => capitalised(&format!("{what} on the CPU, as you chose.")),
        Obstacle::CpuIsFaster => {
            capitalised(&format!("{what} on the CPU, which is expected to be the fastest here."))
        }
        other => capitalised(&format!("{}; {what} on the CPU.", obstacle(other))),
    }
}

/// `gpu:0` is a name that commands take: it keeps its case.
fn capitalised(sentence: &str) -> String {
    match sentence.strip_prefix(|first: char| first.is_ascii_lowercase()) {
        Some(rest) if !sentence.starts_with("gpu:") => {
            sentence[..sentence.len() - rest.len()].to_ascii_uppercase() + rest
        }
        _ => sentence.to_owned(),
    }
}

/// In brackets after a GPU's name.
fn of_memory(memory: &GpuMemory) -> String {
    match memory {
        GpuMemory::Known { free, total } => {
            format!(" ({} of {} MiB free)", free >> 20, total >> 20)
        }
        GpuMemory::Given(bytes) => format!(" ({} MiB, as you set)", bytes >> 20),
        GpuMemory::Shared => " (shares the main memory)".to_owned(),
        GpuMemory::Unknown => " (memory unknown; set it with `vram = \"4GiB\"`)".to_owned(),
    }
}

fn of_overlap(effect: OverlapEffect) -> String {
    match effect {
        OverlapEffect::OneThread => "with a single thread for both, it saves nothing".to_owned(),
        OverlapEffect::Saves(share) => format!(
            "it saves about {share:.0} % of a round whose tree was drafted ahead, and costs time \
             in the others"
        ),
        OverlapEffect::Nothing => {
            "it saves nothing here, since each side slows down by as much as it waits less"
                .to_owned()
        }
    }
}

fn of_basis(basis: Basis) -> String {
    match basis {
        Basis::Estimated => "The times are estimated from the machine's description.".to_owned(),
        Basis::Measured => "The times were measured while loading.".to_owned(),
        Basis::DraftMeasured => {
            "The draft's times were measured while loading; the target's are estimated.".to_owned()
        }
        Basis::Rounds(0) => "There has been no round with a tree yet.".to_owned(),
        Basis::Rounds(1) => "Learned from the last round with a tree.".to_owned(),
        Basis::Rounds(rounds) => format!("Learned from the last {rounds} rounds with a tree."),
    }
}

/// The head that was chosen, and what was weighed of the others.
fn chosen(heads: &[HeadForecast], taken: usize, on_gpu: bool) -> String {
    let Some(head) = heads.get(taken) else { return String::new() };
    let place = if on_gpu { "GPU" } else { "CPU" };
    let rate = head.rate.as_ref().map_or(0.0, |rate| *rate);
    let mut text = format!(
        "Using draft head {} (of {}, M = {}): about {rate:.1} tokens/s expected on the {place}.",
        head.name,
        heads.len(),
        head.blocks
    );
    let others = heads.iter().enumerate().filter(|(index, _)| *index != taken);
    let others: Vec<String> = others.map(|(_, head)| other_head(head)).collect();
    if !others.is_empty() {
        text += &format!(" Others: {}.", others.join("; "));
    }
    text
}

fn other_head(head: &HeadForecast) -> String {
    let HeadForecast { name, blocks, rate } = head;
    match rate {
        Ok(rate) => format!("{name} (M = {blocks}) {rate:.1}"),
        Err(why) => format!("{name} (M = {blocks}) is not possible ({})", obstacle(why)),
    }
}

/// What the KV cache takes, a clause, e.g. `up to 448 MB for 8192 tokens, taken as the conversation
/// grows`.
pub fn kv_cache(bytes: u64, tokens: usize) -> String {
    let size = printable::bytes(bytes);
    format!("up to {size} for {tokens} tokens, taken as the conversation grows")
}

/// A placement, e.g. `draft head on the GPU, 12 of 32 target blocks on the GPU`.
pub fn placement(placement: &PlacementForecast) -> String {
    let place = if placement.draft_on_gpu { "the GPU" } else { "the CPU" };
    let target = target_place(placement);
    let duo = if placement.beside { "duo: " } else { "" };
    match (placement.draft, placement.head) {
        (DrafterId::Head, None) => format!("{duo}draft head on {place}, {target}"),
        (DrafterId::Head, Some(head)) => {
            format!("{duo}draft head {} on {place}, {target}", head + 1)
        }
        (DrafterId::Dflash, _) => format!("{duo}DFlash drafter on {place}, {target}"),
        (DrafterId::SmallModel, _) => format!("{duo}small model on {place}, {target}"),
        _ => format!("plain, {target}"),
    }
}

/// Where the target is.
fn target_place(placement: &PlacementForecast) -> String {
    let of = placement.of;
    match placement.layers {
        _ if placement.streamed => "target streamed to the GPU".to_owned(),
        0 => "target on the CPU".to_owned(),
        all if all == of => "target on the GPU".to_owned(),
        some => format!("{some} of {of} target blocks on the GPU"),
    }
}
