//! The head's card, the `README.md` next to it: what it is, what it was made of, how good it is. It
//! must never compute a figure.

use std::fmt::Write;
use std::io;

use super::run_dir::RunDir;
use super::state::TrainState;
use crate::model::head::FusionKind;
use crate::train::files::whole;
use crate::train::{Elastic, FileError, Length};

const FILE: &str = "README.md";

/// Writes the card.
pub(super) fn write(dir: &RunDir, state: &TrainState, date: &str) -> Result<(), FileError> {
    let text = card(state, date);
    whole(&dir.out.join(FILE), |file| io::Write::write_all(file, text.as_bytes()))
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
    rows(
        text,
        "| target | |",
        &[
            ("hidden size, vocabulary", format!("{}, {}", target.hidden, target.vocab)),
            ("fingerprint of the weights", format!("`{}`", target.weights)),
            ("fingerprint of the vocabulary", format!("`{}`", target.tokenizer)),
        ],
    )
}

/// A table of names and values.
fn rows(text: &mut String, head: &str, rows: &[(&str, String)]) -> std::fmt::Result {
    writeln!(text, "{head}\n|---|---|")?;
    rows.iter().try_for_each(|(name, value)| writeln!(text, "| {name} | {value} |"))
}

fn data(text: &mut String, state: &TrainState) -> std::fmt::Result {
    let Some(chats) = &state.chats else { return Ok(()) };
    let file = state.recipe.data.file_name().unwrap_or_default().to_string_lossy();
    writeln!(text, "\n## Data\n\n`{file}`, {} lines:\n", chats.lines)?;
    let cut = format!("of these cut at {} tokens", state.recipe.options.window);
    let figures = [
        ("chats used", chats.used),
        ("of these held out", chats.held),
        (&cut, chats.cut),
        ("tokens", chats.tokens),
        ("of these the assistant's", chats.answers),
        ("lines skipped", chats.refused),
    ];
    rows(text, "| | |", &figures.map(|(name, figure)| (name, figure.to_string())))?;
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
    let (first, second) = options.betas;
    let adam = format!(
        "rate {}, {} steps of warm-up, then linear to 0; betas {first}, {second}; decay {}; clip \
         ±{}",
        options.learning_rate, options.warmup, options.weight_decay, options.clip
    );
    let short = if options.noise_uncapped { ", more on texts below 512 tokens" } else { "" };
    let loss = format!("{} SmoothL1 + {} cross-entropy", options.vloss, options.ploss);
    writeln!(text, "\n## Training\n\n![loss](loss.svg)\n")?;
    let figures = [
        ("length", length),
        ("batch", format!("{} tokens × {}", options.batch_tokens, options.accumulate)),
        ("AdamW", adam),
        ("loss", loss),
        ("noise on features", format!("{}{short}", options.noise)),
        ("outputs trained", elastic.to_owned()),
        ("on its own outputs", used),
        ("seed", options.seed.to_string()),
    ];
    rows(text, "| | |", &figures)?;
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
