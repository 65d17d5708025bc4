//! A full context: the choice that is made once, and what it does. The question that did not fit is
//! asked again, and the answer that had no room continues, as soon as there is room; nothing that
//! was typed is lost. Must never do IO.

use super::{CHOICES, Summarising};
use crate::chat::WhenFull;
use crate::tui::actions::Action;
use crate::tui::chat::ContextUsage;
use crate::tui::chat::answer::{ask, save, take_back};
use crate::tui::overlays::Overlay;
use crate::tui::state::ScreenState;
use crate::worker::{Event, Job};

/// What `/when-full` takes.
const WAYS: &str = "forget, summarise, stop or ask";
const NAMES: [(&str, Option<WhenFull>); 4] = [
    ("forget", Some(WhenFull::Forget)),
    ("summarise", Some(WhenFull::Summarise)),
    ("stop", Some(WhenFull::Stop)),
    ("ask", None),
];

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
    if name.is_empty() {
        let now = NAMES.iter().find(|(_, choice)| *choice == state.chat.when_full);
        let now = now.map_or("", |(name, _)| name);
        state.say(format!("A full context: {now} · /when-full takes {WAYS}"));
        return Ok(());
    }
    let known = NAMES.iter().find(|(known, _)| *known == name);
    let (_, choice) = known.ok_or_else(|| format!("/when-full takes {WAYS}, not {name}"))?;
    state.chat.when_full = *choice;
    state.say(format!("A full context: {name}"));
    Ok(())
}

fn make_room(state: &mut ScreenState, choice: WhenFull) {
    let Some(context) = state.chat.refused else { return };
    let turns = state.chat.turns_to_forget(context);
    match (choice, turns) {
        (WhenFull::Stop, _) | (_, None) => give_up(state, context),
        (WhenFull::Forget, Some(turns)) => forget(state, turns, None),
        (WhenFull::Summarise, Some(turns)) => summarise(state, turns),
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
        open(state);
    }
    ask(state);
    save(state);
}

/// The answer that was refused is open again.
fn open(state: &mut ScreenState) {
    if state.chat.goes_on {
        state.chat.go_on();
    } else {
        state.chat.reopen();
    }
}

fn summarise(state: &mut ScreenState, turns: usize) {
    let messages = state.chat.summary_messages(turns);
    open(state);
    state.chat.summarising = Some(Summarising { turns, text: String::new() });
    let switches = state.models.ready.as_ref().is_some_and(|ready| ready.switches_thinking);
    let thinking = switches.then_some(false);
    state.generate(Job { messages, max_tokens: SUMMARY, thinking, ..Job::default() });
}

/// Something of the summary came.
pub(crate) fn summarised(state: &mut ScreenState, event: Event) {
    let Some(summary) = &mut state.chat.summarising else { return };
    match event {
        Event::First { token, .. } => summary.text.push_str(&token.text),
        Event::Round { round, .. } => {
            for token in &round.committed {
                summary.text.push_str(&token.text);
            }
        }
        Event::Finished { .. } => {
            let Summarising { turns, text } = state.chat.summarising.take().unwrap_or_default();
            let text = text.trim().to_string();
            forget(state, turns, Some(text).filter(|text| !text.is_empty()));
        }
        _ => {}
    }
}

/// The summary failed: the exchanges are forgotten without one.
pub(crate) fn not_summarised(state: &mut ScreenState, error: &str) {
    let Summarising { turns, .. } = state.chat.summarising.take().unwrap_or_default();
    state.complain(format!("The oldest exchanges are forgotten without a summary: {error}"));
    forget(state, turns, None)
}
