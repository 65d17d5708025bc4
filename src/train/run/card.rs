//! The head's card, the `README.md` next to it: what it is, what it was made of, how good it is. It
//! must never compute a figure.

use std::io::Write;

use super::decode_eval::DecodeRow;
use super::run_dir::RunDir;
use super::state::{Spent, TrainState};
use crate::model::head::FusionKind;
use crate::train::files::whole;
use crate::train::{Betas, Elastic, Length, Result, Used};

const FILE: &str = "README.md";

/// Writes the card.
pub(super) fn write(dir: &RunDir, state: &TrainState, date: &str) -> Result<()> {
    let text = about(state, date) + &data(state) + &training(state) + &measures(state);
    whole(&dir.out.join(FILE), |file| file.write_all(text.as_bytes()))
}

fn about(state: &TrainState, date: &str) -> String {
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
    let version = env!("CARGO_PKG_VERSION");
    let rows = rows(&[
        ("hidden size, vocabulary", format!("{}, {}", target.hidden, target.vocab)),
        ("fingerprint of the weights", format!("`{}`", target.weights)),
        ("fingerprint of the vocabulary", format!("`{}`", target.tokenizer)),
    ]);
    format!(
        "# Draft head for {}\n\n\
         This head drafts for the target in speculative decoding: {kind}, {blocks}.\n\
         Made by `dovetail train` {version} on {date}. Use:\n\n\
         ```sh\ndovetail --target {} --draft THIS-FOLDER\n```\n\n\
         | target | |\n|---|---|\n{rows}",
        target.name, recipe.target
    )
}

/// Lines of a table of names and values.
fn rows(rows: &[(&str, String)]) -> String {
    rows.iter().map(|(name, value)| format!("| {name} | {value} |\n")).collect()
}

fn data(state: &TrainState) -> String {
    let Some(chats) = &state.chats else { return String::new() };
    let file = state.recipe.data.file_name().unwrap_or_default().to_string_lossy();
    let cut = format!("of these cut at {} tokens", state.recipe.options.window);
    let figures = [
        ("chats used", chats.used),
        ("of these held out", chats.held),
        (&cut, chats.cut),
        ("tokens", chats.tokens),
        ("of these the assistant's", chats.answers),
        ("lines skipped", chats.refused),
    ];
    let rows = rows(&figures.map(|(name, figure)| (name, figure.to_string())));
    let mut text =
        format!("\n## Data\n\n`{file}`, {} lines:\n\n| | |\n|---|---|\n{rows}", chats.lines);
    if state.recipe.self_answers {
        text += "\nThe target wrote the answers itself, half of them with greedy decoding.\n";
    }
    if !chats.faults.is_empty() {
        text += "\nThe first lines that were skipped:\n\n";
    }
    for (line, why) in chats.faults.iter().take(10) {
        text += &format!("- line {line}: {why}\n");
    }
    text
}

fn training(state: &TrainState) -> String {
    let options = &state.recipe.options;
    let length = match options.length {
        Length::Steps(steps) => format!("{steps} steps"),
        Length::Minutes(minutes) => format!("{minutes} minutes"),
    };
    let Used { share, steps, decay } = options.used;
    let used = if share > 0.0 && steps > 0 {
        format!(
            "{steps} steps in the last {:.0} % of the training, each with {decay} times the weight \
             of the previous one",
            100.0 * share
        )
    } else {
        "none".to_owned()
    };
    let elastic = match options.elastic {
        Elastic::Off => "only the last block",
        Elastic::AllExits => "every block",
        Elastic::Drawn => "one block drawn in each step",
    };
    let Betas { beta1, beta2 } = options.betas;
    let adam = format!(
        "rate {}, {} steps of warm-up, then linear to 0; betas {beta1}, {beta2}; decay {}; clip \
         ±{}",
        options.learning_rate, options.warmup, options.weight_decay, options.clip
    );
    let batch = match options.batch_texts {
        Some(texts) => format!("{texts} chats, each with the mean loss of its own tokens"),
        None => format!("{} tokens × {}", options.batch_tokens, options.accumulate),
    };
    let short = if options.noise_uncapped { ", more on texts below 512 tokens" } else { "" };
    let rows = rows(&[
        ("length", length),
        ("batch", batch),
        ("AdamW", adam),
        ("loss", format!("{} SmoothL1 + {} cross-entropy", options.vloss, options.ploss)),
        ("noise on features", format!("{}{short}", options.noise)),
        ("outputs trained", elastic.to_owned()),
        ("on its own outputs", used),
        ("seed", options.seed.to_string()),
    ]);
    let stage = |spent: &Spent| format!("| {} |\n", spent.figures().join(" | "));
    let stages: String = state.stages.iter().map(stage).collect();
    format!(
        "\n## Training\n\n![loss](loss.svg)\n\n| | |\n|---|---|\n{rows}\n\
         | stage | amount | time | rate | peak memory |\n|---|---|---|---|---|\n{stages}"
    )
}

fn measures(state: &TrainState) -> String {
    let mut text = String::new();
    if !state.held.is_empty() {
        text += "\n## Held-out chats\n\n\
                 How often the target's most likely token is the head's first choice, or among its \
                 first two or three. Own outputs: how many steps in a row the head has read its \
                 own outputs instead of the target's features.\n\n\
                 | blocks | own outputs | SmoothL1 | cross-entropy | top 1 | top 2 | top 3 |\n\
                 |---|---|---|---|---|---|---|\n";
    }
    for found in &state.held {
        let [one, two, three] = found.right.map(|share| 100.0 * share);
        text += &format!(
            "| {} | {} | {:.3} | {:.3} | {one:.1} % | {two:.1} % | {three:.1} % |\n",
            found.depth, found.step, found.vloss, found.ploss
        );
    }
    let Some(decoded) = &state.decoded else { return text };
    text += &format!(
        "\n## Decoding\n\n\
         Greedy decoding with a tree of 16 nodes including the root, width 10 and depth 7; each \
         row in turn on each held-out prompt. τ = committed tokens / target passes. Prompts whose \
         text is identical to plain decoding at every m: {} of {}.\n\n\
         | blocks | τ | tokens/s | tokens |\n|---|---|---|---|\n",
        decoded.same, decoded.prompts
    );
    for row in &decoded.rows {
        let blocks = if row.blocks == 0 { "none".to_owned() } else { row.blocks.to_string() };
        let DecodeRow { tokens, .. } = row;
        text += &format!("| {blocks} | {:.2} | {:.0} | {tokens} |\n", row.tau(), row.speed());
    }
    text
}
