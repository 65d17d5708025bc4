//! The head's card, the `README.md` next to it: what it is, what it was made of, how good it is. It
//! must never compute a figure.

use std::fmt::Write;
use std::io;

use super::RunError;
use super::run_dir::RunDir;
use super::state::TrainState;
use crate::model::head::FusionKind;
use crate::train::shards::whole;
use crate::train::{Elastic, Length};

const FILE: &str = "README.md";

/// Writes the card.
pub(super) fn write(dir: &RunDir, state: &TrainState, date: &str) -> Result<(), RunError> {
    let text = card(state, date);
    Ok(whole(&dir.head().join(FILE), |file| io::Write::write_all(file, text.as_bytes()))?)
}

fn card(state: &TrainState, date: &str) -> String {
    // Writing to a String does not fail.
    let mut text = String::new();
    let _ = about(&mut text, state, date);
    let _ = data(&mut text, state);
    let _ = training(&mut text, state);
    let _ = measures(&mut text, state);
    text
}

fn about(text: &mut String, state: &TrainState, date: &str) -> std::fmt::Result {
    let TrainState { recipe, target, .. } = state;
    let kind = match recipe.kind {
        FusionKind::Dgf => "dynamic gated fusion (DGF)",
        FusionKind::Eagle => "EAGLE's linear fusion",
        FusionKind::Eagle3 => "EAGLE-3's fusion of three layers of the target",
    };
    let blocks = match (recipe.blocks, recipe.options.elastic) {
        (1, _) => "one block".to_owned(),
        (n, Elastic::Off) => format!("{n} blocks, which must all be used"),
        (n, _) => format!("{n} blocks, of which the first m can be used alone"),
    };
    writeln!(text, "# Draft head for {}\n", target.name)?;
    writeln!(text, "This head drafts for the target in speculative decoding: {kind}, {blocks}.")?;
    writeln!(text, "Made by `dovetail train` {} on {date}. Use:\n", env!("CARGO_PKG_VERSION"))?;
    writeln!(text, "```sh\ndovetail --target {} --draft THIS-FOLDER\n```\n", recipe.target)?;
    writeln!(text, "| target | |\n|---|---|")?;
    writeln!(text, "| hidden size, vocabulary | {}, {} |", target.hidden, target.vocab)?;
    writeln!(text, "| fingerprint of the weights | `{}` |", target.weights)?;
    writeln!(text, "| fingerprint of the vocabulary | `{}` |", target.tokenizer)
}

fn data(text: &mut String, state: &TrainState) -> std::fmt::Result {
    let Some(chats) = &state.chats else { return Ok(()) };
    let file = state.recipe.data.file_name().unwrap_or_default().to_string_lossy();
    writeln!(text, "\n## Data\n\n`{file}`, {} lines:\n", chats.lines)?;
    writeln!(text, "| | |\n|---|---|")?;
    writeln!(text, "| chats used | {} |", chats.used)?;
    writeln!(text, "| of these held out | {} |", chats.held)?;
    let window = state.recipe.options.window;
    writeln!(text, "| of these cut at {window} tokens | {} |", chats.cut)?;
    writeln!(text, "| tokens | {} |", chats.tokens)?;
    writeln!(text, "| of these the assistant's | {} |", chats.answers)?;
    writeln!(text, "| lines skipped | {} |", chats.refused)?;
    if state.recipe.self_answers {
        writeln!(
            text,
            "\nThe target wrote the answers itself, half of them with greedy decoding."
        )?;
    }
    if !chats.faults.is_empty() {
        writeln!(text, "\nThe first lines that were skipped:\n")?;
        for (line, why) in chats.faults.iter().take(10) {
            writeln!(text, "- line {line}: {why}")?;
        }
    }
    Ok(())
}

fn training(text: &mut String, state: &TrainState) -> std::fmt::Result {
    let options = &state.recipe.options;
    let length = match options.length {
        Length::Steps(steps) => format!("{steps} steps"),
        Length::Minutes(minutes) => format!("{minutes} minutes"),
    };
    let used = options.used;
    let used = if used.share > 0.0 && used.steps > 0 {
        let share = 100.0 * used.share;
        format!(
            "{} steps in the last {share:.0} % of the training, each with {} times the weight of \
             the previous one",
            used.steps, used.decay
        )
    } else {
        "none".to_owned()
    };
    let elastic = match options.elastic {
        Elastic::Off => "only the last block",
        Elastic::AllExits => "every block",
        Elastic::Drawn => "one block drawn in each step",
    };
    writeln!(text, "\n## Training\n\n![loss](loss.svg)\n\n| | |\n|---|---|")?;
    writeln!(text, "| length | {length} |")?;
    writeln!(text, "| batch | {} tokens × {} |", options.batch_tokens, options.accumulate)?;
    let (first, second) = options.betas;
    writeln!(
        text,
        "| AdamW | rate {}, {} steps of warm-up, then linear to 0; betas {first}, {second}; \
         decay {}; clip ±{} |",
        options.learning_rate, options.warmup, options.weight_decay, options.clip
    )?;
    writeln!(text, "| loss | {} SmoothL1 + {} cross-entropy |", options.vloss, options.ploss)?;
    let short = if options.noise_uncapped { ", more on texts below 512 tokens" } else { "" };
    writeln!(text, "| noise on features | {}{short} |", options.noise)?;
    writeln!(text, "| outputs trained | {elastic} |")?;
    writeln!(text, "| on its own outputs | {used} |")?;
    writeln!(text, "| seed | {} |", options.seed)?;
    writeln!(text, "\n| stage | amount | time | rate | peak memory |\n|---|---|---|---|---|")?;
    for spent in &state.stages {
        writeln!(text, "| {} |", spent.figures().join(" | "))?;
    }
    Ok(())
}

fn measures(text: &mut String, state: &TrainState) -> std::fmt::Result {
    if !state.held.is_empty() {
        writeln!(text, "\n## Held-out chats\n")?;
        writeln!(
            text,
            "How often the target's most likely token is the head's first choice, or among its \
             first two or three. Own outputs: how many steps in a row the head has read its own \
             outputs instead of the target's features.\n"
        )?;
        writeln!(
            text,
            "| blocks | own outputs | SmoothL1 | cross-entropy | top 1 | top 2 | top 3 |"
        )?;
        writeln!(text, "|---|---|---|---|---|---|---|")?;
        for found in &state.held {
            let [one, two, three] = found.right.map(|share| 100.0 * share);
            writeln!(
                text,
                "| {} | {} | {:.3} | {:.3} | {one:.1} % | {two:.1} % | {three:.1} % |",
                found.depth, found.step, found.vloss, found.ploss
            )?;
        }
    }
    let Some(decoded) = &state.decoded else { return Ok(()) };
    writeln!(text, "\n## Decoding\n")?;
    writeln!(
        text,
        "Greedy decoding with a tree of 16 nodes including the root, width 10 and depth 7; each \
         row in turn on each held-out prompt. τ = committed tokens / target passes. Prompts whose \
         text is identical to plain decoding at every m: {} of {}.\n",
        decoded.same, decoded.prompts
    )?;
    writeln!(text, "| blocks | τ | tokens/s | tokens |\n|---|---|---|---|")?;
    for row in &decoded.rows {
        let blocks = if row.blocks == 0 { "none".to_owned() } else { row.blocks.to_string() };
        writeln!(text, "| {blocks} | {:.2} | {:.0} | {} |", row.tau(), row.speed(), row.tokens)?;
    }
    Ok(())
}
