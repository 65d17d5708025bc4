//! Actions, whichever key or command they come from. Must never know which key it was.

use super::leaving::{put_aside, quit, quit_if_pressed_twice};
use super::slash::{self, CommandOutcome};
use super::{focus, replay, switches};
use crate::plan::TreeOverrides;
use crate::tui::actions::Action;
use crate::tui::chat::answer::{
    STILL_LOADING, ask, go_on, regenerate, return_queued, save, stop, take_back,
};
use crate::tui::chat::conversation;
use crate::tui::controls::update::{adjust, apply, with_dials};
use crate::tui::event::Effect;
use crate::tui::input::{Suggestion, files};
use crate::tui::overlays::models::update as models;
use crate::tui::overlays::sessions::update as sessions;
use crate::tui::overlays::update::{overlay_clear, overlay_row, overlay_take};
use crate::tui::overlays::{Help, Overlay, QuestionPurpose};
use crate::tui::race::update as race;
use crate::tui::state::{Focus, Phase, ScreenState, Side};
use crate::tui::theme;
use crate::tui::toasts::Tone;

/// Does what a key or a command stands for.
pub(crate) fn act(state: &mut ScreenState, action: Action) -> Vec<Effect> {
    if replay::refuses(state, action) {
        return Vec::new();
    }
    match action {
        Action::Send => return send(state),
        Action::Newline => {
            state.input.area_mut().insert_newline();
            state.input.edited();
        }
        Action::Escape => return escape(state),
        Action::Editor => return vec![Effect::Edit(state.input.text())],
        Action::Interrupt => return interrupt(state),
        Action::DeleteOrQuit if !state.input.is_empty() => state.input.delete(),
        Action::DeleteOrQuit | Action::Quit => return quit(state),
        Action::Help => state.overlay = Some(Overlay::Help(Help::default())),
        Action::Details => state.overlay = Some(Overlay::Details { top: 0 }),
        Action::Tree => focus::show(state, Side::Tree),
        Action::Meters => focus::show(state, Side::Meters),
        Action::Controls => focus::show(state, Side::Controls),
        Action::FocusNext => focus::step(state, 1),
        Action::FocusBack => focus::step(state, -1),
        Action::FocusInput => state.focus = Focus::Input,
        Action::BeginCommand => begin_command(state),
        // Paused beforehand, the next answer would stop after one round for no visible reason.
        Action::Pause | Action::Step if !state.answering() => {
            state.refuse("No answer is under way to pause");
        }
        Action::Pause => {
            state.controls.paused = !state.controls.paused;
            return apply(state);
        }
        Action::Step => {
            // The first step in a running answer pauses it.
            if std::mem::replace(&mut state.controls.paused, true) {
                state.controls.steps += 1;
            }
            state.rounds.follow();
            return apply(state);
        }
        Action::Strategies => {
            if state.statuses().is_empty() {
                state.refuse(STILL_LOADING);
            } else {
                state.overlay = Some(Overlay::Strategies { selected: state.chosen() });
            }
        }
        Action::Models(part) => return models::open(state, part, ""),
        Action::Speculate => return switches::toggle(state, "speculate"),
        Action::Auto => {
            state.controls.tree = TreeOverrides::default();
            state.say("γ, M, k and D are automatic again");
            return apply(state);
        }
        Action::Marks => state.marks = !state.marks,
        Action::Thoughts => {
            state.chat.shows_thoughts = !state.chat.shows_thoughts;
            // Else nothing would tell that the key did anything.
            if state.chat.turns().iter().all(|turn| turn.thought.is_none()) {
                state.say(match state.chat.shows_thoughts {
                    true => "Thoughts will be shown",
                    false => "Thoughts will be folded",
                });
            }
        }
        Action::Theme => {
            state.theme = theme::next(state.theme);
            state.say(format!("Theme: {}", theme::name(state.theme)));
        }
        Action::Redraw => return vec![Effect::Redraw],
        Action::Suspend => return vec![Effect::Suspend],
        Action::Regenerate => return regenerate(state),
        Action::GoOn => return go_on(state),
        Action::EditQuestion => conversation::list(state, QuestionPurpose::Edit),
        Action::Branch => conversation::list(state, QuestionPurpose::Branch),
        Action::CopyMessage => conversation::list(state, QuestionPurpose::Copy),
        Action::DeleteExchange => return conversation::delete(state),
        Action::Undelete => return conversation::undelete(state),
        Action::Race => return race::begin(state),
        Action::Sessions => return vec![Effect::List],
        Action::RenameSession => sessions::rename(state),
        Action::DeleteSession => return sessions::delete(state),
        Action::RestoreSession => return sessions::restore(state),
        Action::Version(by) => return conversation::version(state, by),
        Action::Copy => {
            return match state.chat.last_answer() {
                Some(text) => vec![Effect::Copy(text.to_string())],
                None => {
                    state.complain("There is no answer to copy yet");
                    Vec::new()
                }
            };
        }
        Action::Scroll(rows) => state.chat.scroll(i64::from(rows)),
        Action::Page(down) => state.chat.page(down),
        Action::Top => state.chat.to_top(),
        Action::Follow => state.chat.follow(),
        Action::Adjust(dial, steps) => return adjust(state, dial, steps),
        Action::PanelRow(by) => match state.focus {
            Focus::Controls => state.dials.select(i64::from(by)),
            _ => state.rounds.scroll(i64::from(by)),
        },
        Action::AdjustHere(steps) => return adjust(state, state.dials.selected(), steps),
        Action::ReleaseHere => {
            let dial = state.dials.selected();
            with_dials(state, |dials, controls| dials.release(dial, controls));
            return apply(state);
        }
        Action::Look(by) => {
            state.rounds.look(i64::from(by));
            if state.rounds.live() {
                state.chat.follow();
            }
        }
        Action::LookFirst => state.rounds.first(),
        Action::LookLive => state.rounds.follow(),
        Action::TreePage(down) => state.rounds.page(down),
        Action::Fold => state.rounds.fold = state.rounds.fold.next(),
        // The messages of before are nearer than the last question.
        Action::StarterMove(-1)
            if state.begin_with.selected().is_none() && state.input.recalls() =>
        {
            state.input.up();
        }
        Action::StarterMove(by) => state.begin_with.select(i64::from(by)),
        Action::StarterTake(at) => state.take_starter(usize::from(at)),
        Action::Complete => {
            state.input.complete();
        }
        Action::Suggestion(by) => state.input.select(i64::from(by)),
        Action::Dismiss => state.input.dismiss(),
        Action::OverlayRow(by) => overlay_row(state, by),
        Action::OverlayClear => overlay_clear(state),
        Action::OverlayTake => return overlay_take(state),
        Action::OverlayClose if state.renaming.take().is_some() => {}
        Action::OverlayClose => match state.overlay.take() {
            Some(Overlay::Help(help)) if help.open.is_some() => {
                state.overlay = Some(Overlay::Help(Help { open: None, ..help }));
            }
            Some(Overlay::Full { .. }) => take_back(state),
            Some(Overlay::Race) => return race::close(state),
            _ => {}
        },
    }
    Vec::new()
}

fn send(state: &mut ScreenState) -> Vec<Effect> {
    state.take_selected_starter();
    // A path that is begun is written out first, as a command is.
    if matches!(state.input.offered().first(), Some(Suggestion::Path(_))) {
        state.input.complete();
        return Vec::new();
    }
    if let Some(command) = state.input.suggestion()
        && !command.is_written_out(&state.input.text())
    {
        state.input.complete();
        if !command.argument.is_empty() {
            return Vec::new();
        }
    }
    state.toasts.sent(state.now);
    let text = state.input.text();
    if let Some(line) = text.trim_end().strip_prefix('/') {
        let line = line.to_string();
        // Arrow up brings it back, also if it is refused: it is not a message that waits.
        state.input.sent();
        return match slash::run(state, &line) {
            Ok(CommandOutcome::Effects(effects)) => effects,
            Ok(CommandOutcome::Key(action)) => act(state, action),
            Err(error) => {
                state.complain(error);
                Vec::new()
            }
        };
    }
    if state.replay {
        replay::say(state);
        return Vec::new();
    }
    if text.trim().is_empty() {
        if state.chat.can_go_on() || state.chat.is_unanswered() {
            return go_on(state);
        }
        return Vec::new();
    }
    if let Some(read) = files::named(state, &text) {
        return vec![read];
    }
    send_message(state, &text)
}

/// Sends this text as the message that is written.
pub(crate) fn send_message(state: &mut ScreenState, text: &str) -> Vec<Effect> {
    match &state.phase {
        Phase::Idle => {}
        Phase::Answering { .. } | Phase::Loading { .. } => {
            queue(state, text);
            return Vec::new();
        }
        Phase::Broken => {
            let quit = state.keys.name(Action::Quit);
            state.complain(format!("No model is loaded · quit with {quit} and start again"));
            return Vec::new();
        }
    }
    let text = message(text);
    state.input.sent_as(Some(&text));
    let mut effects = conversation::leave_edited(state);
    state.chat.ask(text);
    effects.extend(ask(state));
    // Should the program be killed while the answer comes, the question is safe.
    effects.push(save(state));
    effects
}

/// As it was typed, with the indentation of its first line. The one space before a slash that keeps
/// a message from being a command is not part of it.
fn message(text: &str) -> String {
    let text = text.trim_end().trim_start_matches('\n');
    text.strip_prefix(' ').filter(|rest| rest.starts_with('/')).unwrap_or(text).to_string()
}

/// The message is sent once the answer under way has ended, or once the model is loaded.
fn queue(state: &mut ScreenState, text: &str) {
    let stop = state.keys.name(Action::Escape);
    let answering = state.answering();
    match (state.editing.is_some(), answering) {
        (true, true) => {
            let send = state.keys.name(Action::Send);
            let words = format!("An answer is under way · {stop} stops it, then {send} sends");
            return state.refuse_while_answering(words);
        }
        (true, false) => return state.refuse(STILL_LOADING),
        (false, _) => {}
    }
    let text = message(text);
    state.input.sent_as(Some(&text));
    state.queue.push(text);
    if answering {
        let words =
            format!("Sent when this answer ends · {stop} stops it and brings the message back");
        state.toasts.say_of_answer(&words, Tone::Done, state.now);
    } else {
        state.say(format!("Sent once the model is loaded · {stop} brings the message back"));
    }
}

/// A slash in a panel: the message begins as a command. One that is being written is put aside: a
/// slash after it would be part of it.
fn begin_command(state: &mut ScreenState) {
    state.focus = Focus::Input;
    if !state.input.is_empty() {
        put_aside(state);
    }
    state.input.set("/");
}

/// Ends what the program is working on, if there is something.
fn end_work(state: &mut ScreenState) -> Option<Vec<Effect>> {
    if state.answering() {
        let effects = stop(state);
        take_back(state);
        return Some(effects);
    }
    if state.load.is_some() {
        return Some(models::stop_load(state));
    }
    // What waits for the first model comes back.
    return_queued(state).then(Vec::new)
}

/// Ends the nearest thing: work under way, the message, the program.
fn interrupt(state: &mut ScreenState) -> Vec<Effect> {
    if let Some(effects) = end_work(state) {
        state.quits_until = None;
        return effects;
    }
    if state.input.is_blank() {
        return quit_if_pressed_twice(state);
    }
    state.quits_until = None;
    put_aside(state);
    Vec::new()
}

fn escape(state: &mut ScreenState) -> Vec<Effect> {
    // In a panel the key only leads back: it must not cost an answer.
    if state.focus != Focus::Input {
        state.focus = Focus::Input;
        return Vec::new();
    }
    if let Some(effects) = end_work(state) {
        return effects;
    }
    if state.chat.find.take().is_some() {
        state.chat.follow();
    } else if state.editing.take().is_some() {
        state.input.stash();
    } else if !state.chat.follows() {
        state.chat.follow();
    } else {
        state.side = None;
    }
    Vec::new()
}
