//! A conversation as one HTML page that needs no network: its words with what target and draft
//! wanted there, the draft tree of every round, and their replay. It must not depend on where the
//! conversation comes from.
//!
//! The page is `assets/page`; what it shows is JSON in it, which its script inserts as text. A
//! policy in the page permits this script and this style and nothing else, so all that a message
//! says stays text.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::chat::{Message, Role, today};
use crate::decode::{BothMinds, Committed, MindRow, Round};
use crate::messages::nothing_guessed;
use crate::printable::{printable, visible};

#[cfg(test)]
mod tests;

const PAGE: &str = include_str!("../../assets/page/page.html");
const STYLE: &str = include_str!("../../assets/page/page.css");
const SCRIPT: &str = include_str!("../../assets/page/page.js");

/// A message of the page.
#[derive(Clone, Debug)]
pub struct PageMessage<'a> {
    /// Who said what.
    pub message: Message,
    /// The tokens of an answer, as far as they are known.
    pub minds: BothMinds,
    /// The rounds that wrote its tokens, as far as they are kept, each with the number of its first
    /// token.
    pub rounds: Vec<(usize, &'a Round)>,
}

impl From<Message> for PageMessage<'_> {
    fn from(message: Message) -> Self {
        Self { message, minds: BothMinds::default(), rounds: Vec::new() }
    }
}

/// Whether a file of this name is to be a page.
pub fn is_page(name: &str) -> bool {
    let end = name.rsplit_once('.').map_or("", |(_, end)| end);
    ["html", "htm"].iter().any(|page| end.eq_ignore_ascii_case(page))
}

/// The page.
pub fn page(messages: &[PageMessage<'_>]) -> String {
    let mut asked = messages.iter().filter(|said| said.message.role == Role::User);
    let asked = asked.next().map_or("", |said| &said.message.content);
    let title = asked.lines().find(|line| !line.trim().is_empty());
    let data = json!({
        "title": printable(title.unwrap_or("A conversation")),
        "about": format!("exported {} by Dovetail {}", today(), env!("CARGO_PKG_VERSION")),
        "messages": messages.iter().map(said).collect::<Vec<_>>(),
    });
    // A browser hashes what it has read, and it reads the lines of Windows as any others.
    let [page, style, script] = [PAGE, STYLE, SCRIPT].map(|text| text.replace('\r', ""));
    let hash = |text: &str| format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text)));
    let policy = format!(
        "default-src 'none'; script-src {}; style-src {}; base-uri 'none'; form-action 'none'",
        hash(&script),
        hash(&style)
    );
    // The data comes last, so nothing in it is taken for the place of another part.
    let parts = [
        ("{{policy}}", policy),
        ("{{style}}", style),
        ("{{script}}", script),
        ("{{data}}", in_script(&data)),
    ];
    parts.iter().fold(page, |page, (place, part)| page.replace(place, part))
}

/// JSON that ends no `<script>` around it.
fn in_script(data: &Value) -> String {
    let text = data.to_string().replace('<', "\\u003c");
    text.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// To four decimals: enough to show, and short.
fn short(figure: f64) -> f64 {
    (figure * 1e4).round() / 1e4
}

fn said(said: &PageMessage<'_>) -> Value {
    let PageMessage { message, minds, rounds } = said;
    let rounds: Vec<Value> = rounds.iter().map(|(first, done)| round(done, *first)).collect();
    json!({
        "role": message.role,
        "target": minds.target,
        "thought": message.thought.as_deref().map(printable),
        "words": words(&message.content, minds),
        "rounds": rounds,
    })
}

/// The text in parts: its tokens, and what was not written by tokens that are known.
fn words(text: &str, minds: &BothMinds) -> Vec<Value> {
    let mut words = Vec::new();
    let mut written = 0;
    for (at, token) in minds.tokens.iter().enumerate() {
        // A character that is whole only with the next token is written there.
        let end = minds.bytes(at).end;
        let said = text.get(written..end).unwrap_or_default();
        written += said.len();
        if at == 0 && !minds.is_whole() {
            words.push(json!({ "text": printable(said) }));
            continue;
        }
        let row = |row: MindRow| {
            json!({
                "label": visible(minds.label(row.token)),
                "target": row.target.map(short),
                "draft": row.draft.map(short),
                "cut": row.cut,
                "penalised": row.penalised,
                "taken": row.token == token.token,
            })
        };
        words.push(json!({
            "text": printable(said),
            "origin": token.origin,
            "bits": token.bits().map(short),
            "rows": token.rows().into_iter().map(row).collect::<Vec<_>>(),
        }));
    }
    let rest = text.get(written..).filter(|rest| !rest.is_empty());
    words.extend(rest.map(|rest| json!({ "text": printable(rest) })));
    words
}

/// A round whose first token is number `first` of the answer.
fn round(round: &Round, first: usize) -> Value {
    let nodes = round.tree.nodes().iter().zip(&round.labels).enumerate();
    let nodes = nodes.map(|(at, (node, label))| {
        let sources: Vec<&str> = node.sources.iter().map(|source| source.name()).collect();
        json!({
            "label": visible(label),
            "parent": node.parent,
            "share": short(f64::from(node.log_prob).exp()),
            "sources": sources.join(", "),
            "accepted": round.accepted.contains(&at),
        })
    });
    let nodes: Vec<Value> = nodes.collect();
    let bonus = round.committed.get(round.accepted.len());
    let timing = &round.timing;
    json!({
        "first": first,
        "end": first + round.committed.len(),
        "strategy": round.strategy,
        "gamma": round.budget.shape.gamma,
        "blocks": round.budget.blocks,
        "ahead": round.drafted_ahead,
        "times": {
            "draft": short(timing.draft_ms),
            "verify": short(timing.verify_ms),
            "wait": short(timing.wait_ms),
            "other": short(timing.other_ms),
        },
        "nodes": nodes,
        "bonus": bonus.map(|Committed { origin, .. }| {
            json!({ "label": visible(&round.bonus_label), "origin": origin })
        }),
        "nothing": round.nothing_guessed().map(nothing_guessed),
    })
}
