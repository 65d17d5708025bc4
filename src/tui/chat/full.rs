//! A full context: how much of a conversation makes room, the choice that is made once, and what it
//! does. As soon as there is room, the question that did not fit is sent again, and the answer that
//! had no room continues; nothing that was typed is lost. Must never do IO.

use super::answer::{ask, save, take_back};
use super::{Chat, ContextUsage};
use crate::chat::{Forgotten, Message, Role, WhenFull};
use crate::tui::actions::Action;
use crate::tui::draw::{Line, Span, Styles, hanging, list_row, wrapped};
use crate::tui::overlays::Overlay;
use crate::tui::overlays::page::Page;
use crate::tui::state::ScreenState;
use crate::worker::{Event, Job};

/// The choices, in the order of the list: each with its title, whose first word names it for
/// `/when-full`, and what it means.
pub const CHOICES: [(WhenFull, &str, &str); 3] = [
    (
        WhenFull::Forget,
        "forget the oldest exchanges",
        "The model no longer sees them; they stay on the screen and in the file.",
    ),
    (
        WhenFull::Summarise,
        "summarise the oldest exchanges",
        "The model writes a short summary of them and continues from that.",
    ),
    (
        WhenFull::Stop,
        "stop here",
        "Your message returns to the input box; /new starts over and keeps this chat saved.",
    ),
];

/// The oldest exchanges being summarised, while their question waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summarising {
    /// Turns that the summary will stand for.
    pub turns: usize,
    /// What there is of it.
    pub text: String,
    /// Tokens of its prompt, if they do not fit either.
    too_long: Option<usize>,
    /// Whether its prompt was shortened, which is done once.
    shortened: bool,
}

impl Chat {
    /// How many turns from the first on must go, so that about half of the context is free again;
    /// `None` if nothing but the last question is left, or that does not fit by itself. `context`
    /// says what was too much.
    pub fn turns_to_forget(&self, context: ContextUsage) -> Option<usize> {
        if context.never_fits() {
            return None;
        }
        let turns = self.turns();
        let begin = self.forgotten.messages;
        let length = |at: usize| -> usize {
            turns[at..].iter().map(|turn| turn.text.len()).sum::<usize>().max(1)
        };
        // Tokens are to characters as they were in the prompt that did not fit.
        let wanted = length(begin) * context.holds / (2 * context.used.max(1));
        let mut starts = (begin + 1..turns.len())
            .filter(|&at| turns[at].role == Role::User && turns[at - 1].role == Role::Assistant);
        let last = starts.clone().next_back();
        starts.find(|&at| length(at) <= wanted).or(last)
    }

    /// The model is not given the first `turns` turns any more, but what `summary` says of them.
    /// [`Self::remember`] takes that back until an answer has begun.
    pub fn forget(&mut self, turns: usize, summary: Option<String>) {
        let messages = turns.min(self.turns().len());
        let before = std::mem::replace(&mut self.forgotten, Forgotten { messages, summary });
        self.remembered.get_or_insert(before);
    }

    /// The model is given again what was forgotten for an answer that never began.
    pub fn remember(&mut self) {
        if let Some(before) = self.remembered.take() {
            self.forgotten = before;
        }
    }

    /// The answer that was refused is open again.
    fn open_refused(&mut self) {
        if self.goes_on { self.go_on() } else { self.reopen() }
    }

    /// The question that has the model summarise the first `turns` turns, with them before it.
    pub fn summary_messages(&self, turns: usize) -> Vec<Message> {
        let mut part = Self::new(None);
        part.forgotten = self.forgotten.clone();
        part.turns = self.turns[..turns.min(self.turns.len())].to_vec();
        let mut messages = part.messages();
        messages.push(Message::new(
            Role::User,
            "Summarise our conversation so far in at most a hundred words: what was asked, what \
             was answered, and every name, number and decision that may be needed later. Give \
             the summary alone.",
        ));
        messages
    }
}

/// Most tokens of a summary.
const SUMMARY: usize = 256;

/// The prompt does not fit; the question is the last turn, or the answer that was to continue.
pub(crate) fn refused(state: &mut ScreenState, context: ContextUsage) {
    state.chat.refused = Some(context);
    if state.chat.turns_to_forget(context).is_none() {
        return give_up(state, context);
    }
    match state.chat.when_full {
        None => {
            state.overlays.open = Some(Overlay::Full { selected: 0 });
            save(state);
        }
        Some(choice) => make_room(state, choice),
    }
}

/// One of [`CHOICES`] was taken; it holds for the conversation.
pub(crate) fn choose(state: &mut ScreenState, selected: usize) {
    let Some((choice, ..)) = CHOICES.get(selected) else { return };
    state.chat.when_full = Some(*choice);
    make_room(state, *choice)
}

/// Sets the choice beforehand, or takes it back; without a name, says which it is.
///
/// # Errors
/// There is no such choice.
pub(crate) fn choose_by_name(state: &mut ScreenState, name: &str) -> Result<(), String> {
    const WAYS: &str = "forget, summarise, stop or ask";
    let choices = CHOICES.map(|(choice, title, _)| (title.split(' ').next(), Some(choice)));
    let mut choices = choices.into_iter().chain([(Some("ask"), None)]);
    if name.is_empty() {
        let now = choices.find(|(_, choice)| *choice == state.chat.when_full);
        let now = now.and_then(|(name, _)| name).unwrap_or_default();
        state.show(format!("A full context: {now} · /when-full takes {WAYS}"));
        return Ok(());
    }
    let known = choices.find(|(known, _)| *known == Some(name));
    let (_, choice) = known.ok_or_else(|| format!("/when-full takes {WAYS}, not {name}"))?;
    state.chat.when_full = choice;
    state.say(format!("A full context: {name}"));
    Ok(())
}

fn make_room(state: &mut ScreenState, choice: WhenFull) {
    let Some(context) = state.chat.refused else { return };
    let turns = state.chat.turns_to_forget(context);
    match (choice, turns) {
        (WhenFull::Stop, _) | (_, None) => give_up(state, context),
        (WhenFull::Forget, Some(turns)) => forget(state, turns, None),
        (WhenFull::Summarise, Some(turns)) => summarise(state, turns, None),
    }
}

/// The question comes back to where it was written. What was forgotten for it in vain is not.
fn give_up(state: &mut ScreenState, context: ContextUsage) {
    state.chat.remember();
    take_back(state);
    let text = context.refusal(state.chat.goes_on.then(|| state.display.keys.name(Action::Send)));
    state.fail("The context is full", text);
    save(state);
}

/// Continues without the first turns.
fn forget(state: &mut ScreenState, turns: usize, summary: Option<String>) {
    state.chat.forget(turns, summary);
    if state.chat.open_answer().is_none() {
        state.chat.open_refused();
    }
    ask(state);
    save(state);
}

/// Has the model summarise the first turns; `too_long`: all of them have so many tokens, which do
/// not fit, so that the middle of each is left out.
fn summarise(state: &mut ScreenState, turns: usize, too_long: Option<usize>) {
    let mut messages = state.chat.summary_messages(turns);
    if let (Some(total), Some(context), [said @ .., _]) =
        (too_long, state.context(), &mut messages[..])
    {
        let room = context.holds.saturating_sub(SUMMARY.min(context.holds / 4)) * 7 / 8;
        for message in said {
            let most = message.content.len() * room / total.max(1);
            message.content = without_middle(&message.content, most);
        }
    }
    if state.chat.open_answer().is_none() {
        state.chat.open_refused();
    }
    let shortened = too_long.is_some();
    state.chat.summarising = Some(Summarising { turns, shortened, ..Summarising::default() });
    let switches = state.models.ready.as_ref().is_some_and(|ready| ready.switches_thinking);
    let thinking = switches.then_some(false);
    state.generate(Job { messages, max_tokens: SUMMARY, thinking, ..Job::default() });
}

/// The beginning and the end of a text, about `most` bytes together.
fn without_middle(text: &str, most: usize) -> String {
    let border = |at: usize| (at..text.len()).find(|&at| text.is_char_boundary(at));
    let [begin, end] = [most / 2, text.len() - most / 2].map(|at| border(at).unwrap_or(text.len()));
    format!("{}\n[…]\n{}", &text[..begin], &text[end..])
}

/// Something of the summary came.
pub(crate) fn summarised(state: &mut ScreenState, event: Event) {
    let Some(summary) = &mut state.chat.summarising else { return };
    summary.text.extend(event.committed().iter().map(|token| token.text.as_str()));
    match event {
        Event::TooLong { total, .. } => summary.too_long = Some(total),
        Event::Finished { .. } => {
            let Summarising { turns, text, .. } = state.chat.summarising.take().unwrap_or_default();
            let text = text.trim().to_string();
            forget(state, turns, Some(text).filter(|text| !text.is_empty()));
        }
        _ => {}
    }
}

/// The summary failed. If one exchange fills the context, its beginning and end are summarised;
/// else the exchanges are forgotten without a summary.
pub(crate) fn not_summarised(state: &mut ScreenState, error: &str) {
    let failed = state.chat.summarising.take().unwrap_or_default();
    let Summarising { turns, too_long, shortened, .. } = failed;
    if too_long.is_some() && !shortened {
        return summarise(state, turns, too_long);
    }
    state.complain(format!("The oldest exchanges are forgotten without a summary: {error}"));
    forget(state, turns, None)
}

/// By how much the context is too small, and what can be done.
pub(crate) fn page(state: &ScreenState, selected: usize, columns: u16, styles: &Styles) -> Page {
    let mut rows = Vec::new();
    if let Some(context) = state.chat.refused {
        let words = context.excess(state.chat.goes_on);
        rows.extend(wrapped(&words, columns, styles.text));
        rows.push(Line::default());
    }
    for (at, (_, title, meaning)) in CHOICES.iter().enumerate() {
        let mark = if at == selected { "❯ " } else { "  " };
        let mark = Span::styled(mark, styles.accent);
        let line = Line::from_iter([mark, Span::styled(*title, styles.strong)]);
        rows.push(list_row(line, at == selected, columns, styles));
        let meaning = wrapped(meaning, columns.saturating_sub(2).max(1), styles.dim);
        rows.extend(hanging(meaning, Span::raw("  ")));
    }
    let keys = &state.display.keys;
    let back = if state.chat.goes_on { "cancel" } else { "take the message back" };
    let foot = vec![
        format!("{} choose", keys.take()),
        "remembered for this chat".to_string(),
        format!("{} {back}", keys.close()),
    ];
    Page { title: "the context is full".to_string(), rows, foot, ..Page::default() }
}
