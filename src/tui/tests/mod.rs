//! Helpers of the screen's tests: models, rounds, typed keys. Must never be used outside tests.

use std::fmt::Write as _;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Color;
use unicode_width::UnicodeWidthStr;

use crate::decode::{Committed, Finish, Origin, Round, Summary, Timing};
use crate::draft::{Budget, Depths};
use crate::hardware::Usage;
use crate::model::{ModelEngine, Traffic};
use crate::overlap::{PendingRound, SequenceToken, SequencesRecord};
use crate::plan::{DrafterId, STRATEGIES, Strategy};
use crate::settings::Settings;
use crate::speculate::{Filter, LIKELIEST, Likely, Logprobs, Shape, Sources, Tree};
use crate::tui::display::Display;
use crate::tui::event::{Effect, ScreenEvent};
use crate::tui::keymap::{KeyPress, Keymap};
use crate::tui::state::{ScreenState, StateConfig};
use crate::tui::update::update;
use crate::tui::view;
use crate::worker::{Controls, Event, ModelChoice, Ready, StrategyStatus};

fn committed(token: u32, text: &str, origin: Origin) -> Committed {
    Committed { token, text: text.to_string(), thought: None, origin, logprobs: None }
}

/// A round from `(label, parent, probability)` of each node, the accepted path and the bonus.
pub fn round_of(nodes: &[(&str, usize, f32)], accepted: &[usize], bonus: &str) -> Round {
    let mut tree = Tree::root(0);
    for (index, node) in nodes.iter().enumerate().skip(1) {
        tree.push(node.1, index as u32, node.2.ln());
    }
    let accept = |&index: &usize| committed(index as u32, nodes[index].0, Origin::Accepted);
    let mut tokens: Vec<Committed> = accepted.iter().map(accept).collect();
    tokens.push(committed(900, bonus, Origin::Target));
    Round {
        index: 0,
        labels: nodes.iter().map(|node| node.0.to_string()).collect(),
        tree,
        accepted: accepted.to_vec(),
        bonus: 900,
        bonus_label: bonus.to_string(),
        committed: tokens,
        budget: Budget::new(Shape { gamma: 16, width: 8, depth: 5 }, 4),
        strategy: "dovetail".to_string(),
        speculative: true,
        drafter: Some(0),
        drafted_ahead: false,
        ahead: None,
        outcomes: Vec::new(),
        timing: Timing { draft_ms: 3.1, verify_ms: 41.0, other_ms: 0.6, ..Timing::default() },
        traffic: Traffic::default(),
        context: 100,
        finish: None,
    }
}

/// A loaded pair.
pub fn ready() -> Ready {
    Ready {
        target: "dovetail-demo 6M".to_string(),
        target_detail: "6.1 M parameters, bf16, 12 MB".to_string(),
        engine: ModelEngine::Dovetail,
        draft: Some("DGF head, 4 blocks, f32 on CPU".to_string()),
        depths: Depths::Elastic(4),
        context: 2048,
        most_context: 8192,
        gamma: 16,
        blocks: 4,
        width: 8,
        depth: 5,
        reasons: vec![
            "γ 16: the processor verifies 16 rows in the time of two.".to_string(),
            "M 4: all blocks, drafting takes less than a tenth of a round.".to_string(),
        ],
        vram_used: 0,
        target_place: "on the CPU".to_owned(),
        prompts_on: None,
        strategy: "dovetail".to_string(),
        strategies: statuses(),
        sampler: None,
        switches_thinking: false,
        plain_ms: Some(40.0),
        verify_ms: Vec::new(),
        for_show: false,
        models: ModelChoice::default(),
    }
}

/// The table with a head and without a text.
fn statuses() -> Vec<StrategyStatus> {
    let status = |row: &Strategy| {
        let (draft, depths) = match row.draft {
            DrafterId::Head => (Some("DGF head, 4 blocks, f32 on CPU"), Depths::Elastic(4)),
            DrafterId::Lookup => (Some("prompt lookup"), Depths::Fixed(0)),
            _ => (None, Depths::Fixed(0)),
        };
        let missing = (draft.is_none() && row.draft != DrafterId::None)
            .then(|| "a text to draft from: name one with --rest-text".to_string());
        StrategyStatus {
            name: row.name.to_string(),
            draft: draft.map(str::to_string),
            depths,
            limit: None,
            parameters: Vec::new(),
            missing,
        }
    };
    let known = ["plain", "dovetail", "eagle2-60", "pld", "rest"];
    STRATEGIES.iter().filter(|row| known.contains(&row.name)).map(status).collect()
}

/// Everything automatic, greedy.
pub fn controls() -> Controls {
    Controls::default()
}

/// How a screen of the tests starts.
pub fn config() -> StateConfig {
    let settings = Settings { mouse: false, ..Settings::default() };
    StateConfig {
        display: Display::new(&settings, true, Keymap::default()),
        settings,
        gpu: "no NVIDIA GPU: the driver is not installed".to_string(),
        adapter: None,
        first_run: false,
        replay: false,
        tips: None,
    }
}

/// A screen with nothing loaded yet.
pub fn unloaded() -> ScreenState {
    ScreenState::new(config(), controls())
}

/// A screen with the pair loaded, of this size.
pub fn loaded(width: u16, height: u16) -> ScreenState {
    let mut state = unloaded();
    update(&mut state, ScreenEvent::Resize(width, height), Duration::ZERO);
    say(&mut state, Event::Ready(Box::new(ready())));
    update(&mut state, ScreenEvent::Usage(usage()), Duration::ZERO);
    state
}

/// What a machine of four cores does.
pub fn usage() -> Usage {
    Usage {
        memory_ours: 212_000_000,
        memory_used: 4_200_000_000,
        memory_total: 16_000_000_000,
        cpu_load: 0.78,
        cpu_ours: 3.1,
        gpu: None,
    }
}

/// The screen as it is drawn.
pub fn drawn(state: &mut ScreenState) -> Buffer {
    let (width, height) = state.display.size;
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view::draw(frame, state)).unwrap();
    terminal.backend().buffer().clone()
}

/// The rows of the screen as it is drawn.
pub fn rows(state: &mut ScreenState) -> Vec<String> {
    let buffer = drawn(state);
    let rows = buffer.content.chunks(usize::from(buffer.area.width.max(1)));
    rows.map(|row| row.iter().map(|cell| cell.symbol()).collect()).collect()
}

/// The screen as it is drawn, as text.
pub fn screen_of(state: &mut ScreenState) -> String {
    text(&drawn(state))
}

/// The screen as it is drawn, which has all these words.
#[track_caller]
pub fn shows(state: &mut ScreenState, words: &[&str]) -> String {
    let screen = screen_of(state);
    for words in words {
        assert!(screen.contains(words), "no {words:?}: {screen}");
    }
    screen
}

/// The colour in which these words are drawn.
pub fn colour_of(state: &mut ScreenState, words: &str) -> Color {
    let buffer = drawn(state);
    let screen = text(&buffer);
    let mut found =
        screen.lines().enumerate().filter_map(|(y, row)| Some((y, row, row.find(words)?)));
    let (y, row, at) = found.next().unwrap();
    buffer[(row[..at].width() as u16, y as u16)].fg
}

/// A buffer as text, without the cells that wide characters cover.
pub fn text(buffer: &Buffer) -> String {
    let mut out = String::new();
    for row in buffer.content.chunks(usize::from(buffer.area.width.max(1))) {
        let mut line = String::new();
        let mut cells = row.iter();
        while let Some(cell) = cells.next() {
            line.push_str(cell.symbol());
            for _ in 1..cell.symbol().width() {
                cells.next();
            }
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

/// What is said in passing; empty if nothing is.
pub fn said(state: &ScreenState) -> &str {
    state.toasts.shown().map_or("", |toast| &toast.text)
}

/// The worker says something, at the time of the message before.
pub fn say(state: &mut ScreenState, event: Event) -> Vec<Effect> {
    let now = state.now;
    update(state, ScreenEvent::Worker(event), now)
}

/// The worker says all this.
pub fn say_all(state: &mut ScreenState, events: impl IntoIterator<Item = Event>) {
    for event in events {
        say(state, event);
    }
}

/// Keys as a person types them: characters as they are, names in angle brackets, e.g. `hi<enter>`.
pub fn type_keys(state: &mut ScreenState, keys: &str) -> Vec<Effect> {
    let mut effects = Vec::new();
    let mut rest = keys;
    while let Some(c) = rest.chars().next() {
        let named = rest.strip_prefix('<').and_then(|tail| tail.split_once('>'));
        let (event, after) = match named {
            Some((name, after)) => (named_key(name), after),
            None => (KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE), &rest[c.len_utf8()..]),
        };
        rest = after;
        let now = state.now;
        effects.extend(update(state, ScreenEvent::Key(event), now));
    }
    effects
}

fn named_key(name: &str) -> KeyEvent {
    let name = match (name, name.split_once('-')) {
        ("bs", _) => "backspace".to_string(),
        ("backtab", _) => "shift+tab".to_string(),
        (_, Some(("c", key))) => format!("ctrl+{key}"),
        (_, Some(("a", key))) => format!("alt+{key}"),
        (name, _) => name.to_string(),
    };
    KeyPress::parse(&name).unwrap().event()
}

/// The events of an answer that says `text`: rounds of up to three accepted words and one chosen
/// by the target, each round's tree of `nodes` nodes at most.
pub fn answer(generation: u64, text: &str, nodes: usize) -> Vec<Event> {
    // Tokens begin with their space, as most vocabularies have it.
    let begins = text.match_indices(' ').map(|(at, _)| at).filter(|at| *at > 0);
    let begins: Vec<usize> = [0].into_iter().chain(begins).chain([text.len()]).collect();
    let words: Vec<&str> = begins.windows(2).map(|ends| &text[ends[0]..ends[1]]).collect();
    let mut summary =
        Summary { prompt_tokens: 24, tokens: 1, prefill_ms: 120.0, ..Summary::default() };
    let mut events = vec![
        Event::Prefill { generation, done: 24, total: 24 },
        Event::First {
            generation,
            token: committed(7, words[0], Origin::Target),
            summary: Box::new(summary.clone()),
        },
    ];
    let mut at = 1;
    let mut index = 0;
    while at < words.len() {
        let accepted = [2, 3, 0, 1, 3, 2][index % 6].min(words.len() - at - 1);
        let mut tree: Vec<(&str, usize, f32)> = vec![(words[at - 1], 0, 1.0)];
        let mut path = Vec::new();
        let mut parent = 0;
        for step in 0..4 {
            let word = if step < accepted { words[at + step] } else { FILL[step] };
            if tree.len() < nodes {
                tree.push((word, parent, [0.62, 0.55, 0.71, 0.34][(index + step) % 4]));
                parent = tree.len() - 1;
                if step < accepted {
                    path.push(parent);
                }
            }
        }
        let mut fill = 0;
        while tree.len() < nodes {
            let parent = (fill * 7 + index) % tree.len().min(12);
            tree.push((FILL[fill % FILL.len()], parent, [0.21, 0.12, 0.05, 0.002][fill % 4]));
            fill += 1;
        }
        let bonus = words[at + path.len()];
        let mut round = round_of(&tree, &path, bonus);
        round.index = index;
        round.budget.shape.gamma = nodes;
        round.timing.verify_ms = 38.0 + (index * 5 % 11) as f64;
        at += path.len() + 1;
        index += 1;
        summary.count(&round);
        events.push(Event::Round { generation, round: Box::new(round) });
    }
    summary.finish = Some(Finish::Eos);
    events.push(Event::Finished { generation, summary: Box::new(summary) });
    events
}

/// These events with the target's ten likeliest tokens of every position: the one that came, what
/// was drafted, and others. A token with one text has one number.
pub fn minded(mut events: Vec<Event>) -> Vec<Event> {
    let id = |label: &str| label.bytes().fold(7, |id, byte| (id * 31 + u32::from(byte)) % 99_991);
    let wanted = |token: &mut Committed, guesses: &[String]| {
        token.token = id(&token.text);
        let labels = [token.text.as_str()].into_iter().chain(guesses.iter().map(String::as_str));
        let mut labels: Vec<String> = labels.chain(FILL).map(str::to_owned).collect();
        let mut seen = std::collections::BTreeSet::new();
        labels.retain(|label| seen.insert(label.clone()));
        labels.truncate(LIKELIEST);
        let likely = |(at, label): (usize, &String)| Likely {
            token: id(label),
            logprob: (0.41f32 * 0.6f32.powi(at as i32)).ln().into(),
            cut: (at > 6).then_some(Filter::TopK),
            penalised: false,
        };
        let top: Box<[Likely]> = labels.iter().enumerate().map(likely).collect();
        let logprob = top[0].logprob;
        token.logprobs = Some(Box::new(Logprobs { logprob, rank: 1, top, labels }));
    };
    for event in &mut events {
        match event {
            Event::First { token, .. } => wanted(token, &[]),
            Event::Round { round, .. } => {
                let mut tree = Tree::root(id(&round.labels[0]));
                for (node, label) in round.tree.nodes().iter().zip(&round.labels).skip(1) {
                    let node = tree.push(node.parent, id(label), node.log_prob);
                    tree.credit(node, Sources::of(DrafterId::Head));
                }
                round.tree = tree;
                round.bonus = id(&round.bonus_label);
                for at in 0..round.committed.len() {
                    let guesses = round.guesses(at).into_iter();
                    let guesses: Vec<String> = guesses.map(|it| it.1.to_owned()).collect();
                    wanted(&mut round.committed[at], &guesses);
                }
            }
            _ => {}
        }
    }
    events
}

/// While the target verifies round `index` of an answer: one token, followed by two sequences.
pub fn pending(generation: u64, index: usize) -> Event {
    let Round { mut tree, mut labels, .. } = round_of(&[(" the", 0, 1.0)], &[], "");
    tree.push(0, 1, -0.2);
    labels.push(" fox".to_string());
    let token =
        |label: &str, log_prob| SequenceToken { token: 2, label: label.to_string(), log_prob };
    let sequences = vec![
        vec![token(" who", -0.4), token(" lived", -0.1), token(" by", -0.3)],
        vec![token(" and", -1.6), token(" an", -0.9)],
    ];
    let ahead = SequencesRecord { gamma: 12, c: None, sequences, adopted: None };
    let round = Box::new(PendingRound { index, tree, labels, ahead, outcomes: Vec::new() });
    Event::Verifying { generation, round }
}

/// The events of an answer that is thought about first: a token for the thought, then
/// [`answer`]'s.
pub fn thinking(generation: u64, thought: &str, text: &str) -> Vec<Event> {
    let mut events = answer(generation, if text.is_empty() { " " } else { text }, 4);
    let aside = |thought: &str| Committed {
        thought: Some(thought.to_string()),
        ..committed(8, "", Origin::Target)
    };
    let Event::First { token, summary, .. } = &events[1] else { return events };
    let first = token.clone();
    let summary = summary.clone();
    events[1] = Event::First { generation, token: aside(""), summary };
    let mut round = round_of(&[("<think>", 0, 1.0)], &[], thought);
    round.committed = vec![aside(thought), aside("")];
    events.insert(2, Event::Round { generation, round: Box::new(round.clone()) });
    round.committed = vec![first];
    events.insert(3, Event::Round { generation, round: Box::new(round) });
    events
}

const FILL: [&str; 8] = [" a", " the", " was", "\n", " of", ",", " his", " old"];
