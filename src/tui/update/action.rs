//! Actions, whichever key or command they come from. Must never know which key it was, nor do IO.

use ratatui_textarea::TextArea;

use super::leaving::{put_aside, quit, quit_if_pressed_twice};
use super::{focus, replay, setting};
use crate::chat::{Exchange, Role};
use crate::page;
use crate::plan::TreeOverrides;
use crate::tui::actions::Action;
use crate::tui::chat::answer::{
    force, go_on, regenerate, return_queued, save, save_as, stop, take_back,
};
use crate::tui::chat::{Chat, Find, conversation, full};
use crate::tui::commands;
use crate::tui::display::{Focus, Marks};
use crate::tui::effects::presets::Preset;
use crate::tui::event::Effect;
use crate::tui::input::Suggestion;
use crate::tui::input::send::{named, send_message};
use crate::tui::models::update as models;
use crate::tui::overlays::update::{overlay_row, overlay_take};
use crate::tui::overlays::{Help, Overlay, QuestionPurpose, sessions};
use crate::tui::race::update as race;
use crate::tui::state::ScreenState;
use crate::tui::theme;

/// Does what a key or a command stands for; a key has no argument.
///
/// # Errors
/// What is wrong with the argument, with the remedy.
pub(crate) fn act(state: &mut ScreenState, action: Action, argument: &str) -> Result<(), String> {
    if replay::refuses(state, action) {
        return Ok(());
    }
    state.no_tip_about(action);
    match action {
        Action::Send => send(state),
        Action::Newline => state.input.edit(TextArea::insert_newline),
        Action::Escape => escape(state),
        Action::Editor => state.emit(Effect::Edit(state.input.text())),
        Action::Interrupt => interrupt(state),
        Action::DeleteOrQuit if !state.input.is_empty() => state.input.delete(),
        Action::DeleteOrQuit | Action::Quit => quit(state),
        Action::Help => state.overlays.open = Some(Overlay::Help(Help::default())),
        Action::Details => state.overlays.open = Some(Overlay::Details { top: 0 }),
        Action::Layout => setting::next_layout(state),
        Action::Meters => focus::show(state, Focus::Meters),
        Action::Controls => focus::show(state, Focus::Controls),
        Action::FocusNext => focus::step(state, 1),
        Action::FocusBack => focus::step(state, -1),
        Action::FocusInput => state.display.focus = Focus::Input,
        Action::BeginCommand => begin_command(state),
        // Paused beforehand, the next answer would stop after one round for no visible reason.
        Action::Pause | Action::Step if !state.answering() => {
            state.refuse("No answer is under way to pause");
        }
        Action::Pause => {
            state.controls.worker.paused = !state.controls.worker.paused;
            state.apply();
        }
        Action::Step => {
            // The first step in a running answer pauses it.
            if std::mem::replace(&mut state.controls.worker.paused, true) {
                state.controls.worker.steps += 1;
            }
            state.tree.follow();
            state.apply();
        }
        Action::Strategies => setting::list_strategies(state),
        Action::Models(part) => models::open(state, part, argument),
        Action::Setting(key) => setting::run(state, key, argument)?,
        Action::Speculate => setting::toggle_speculation(state),
        Action::Auto => {
            state.controls.worker.tree = TreeOverrides::default();
            state.say("γ, M, k and D are automatic again");
            state.apply();
        }
        Action::Marks => {
            let shown = state.marks(state.chat.turns().len().saturating_sub(1));
            state.display.marks = if shown { Marks::Never } else { Marks::Always };
            let not = if shown { "not " } else { "" };
            state.say(format!("Guessed words are {not}marked"));
        }
        Action::Heat => state.display.heat = !state.display.heat,
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
        Action::Files => state.chat.shows_files = !state.chat.shows_files,
        Action::Theme => {
            let (theme, name) = theme::next(state.display.theme);
            state.display.theme = theme;
            state.say(format!("Theme: {name}"));
        }
        Action::Redraw => {
            state.pictures.forget();
            state.emit(Effect::Redraw);
        }
        Action::Suspend => state.emit(Effect::Suspend),
        Action::Regenerate => regenerate(state),
        Action::Force(number) => force(state, usize::from(number)),
        Action::GoOn => go_on(state),
        Action::EditQuestion => conversation::list(state, QuestionPurpose::Edit),
        Action::Branch => conversation::list(state, QuestionPurpose::Branch),
        Action::CopyMessage => conversation::list(state, QuestionPurpose::Copy),
        Action::DeleteExchange => conversation::delete(state),
        Action::Undelete => conversation::undelete(state),
        Action::Race => race::begin(state),
        Action::Compare => race::compare(state, argument),
        Action::New => {
            stop(state);
            save(state);
            state.emit(Effect::Forget);
            state.input.editing = None;
            state.chat = Chat::new(state.chat.system.take());
            state.forget_answer();
        }
        Action::Sessions if argument.is_empty() => sessions::list(state, false),
        Action::Branches => sessions::list(state, true),
        Action::Sessions => state.emit(Effect::Load(argument.to_string())),
        Action::Save => save_as(state, true),
        Action::Export => {
            let turns = state.chat.saved_turns();
            if turns.iter().all(|turn| turn.message.role != Role::User) {
                return Err("There is nothing to export yet".to_string());
            }
            let text = match page::is_page(argument) {
                true => state.page(),
                false => Exchange::of_name(argument)?.write(&turns),
            };
            state.emit(Effect::Export { path: argument.to_string(), text });
        }
        Action::Import => state.emit(Effect::Import(argument.to_string())),
        Action::Preset => {
            let effect = preset(state, argument)?;
            state.emit(effect);
        }
        Action::WhenFull => {
            full::choose_by_name(state, argument)?;
            save(state);
        }
        Action::RenameSession => sessions::rename(state),
        Action::DeleteSession => sessions::delete(state),
        Action::RestoreSession => sessions::restore(state),
        Action::Version(by) => conversation::version(state, by),
        Action::Copy => {
            let text = conversation::copied(state, argument)?;
            state.emit(Effect::Copy(text));
        }
        // Which match it is, the next frame knows.
        Action::Find => match (&mut state.chat.find, argument) {
            (Some(find), "") => find.goes = true,
            (None, "") => return Err("/find needs words to look for: /find fox".to_string()),
            (find, words) => *find = Some(Find::new(words)),
        },
        Action::File => state.emit(Effect::ReadFile(argument.to_string())),
        Action::Scroll(rows) => state.chat.scroll(i64::from(rows)),
        Action::Page(down) => state.chat.page(down),
        Action::Top => state.chat.go_to(0),
        Action::Follow => state.chat.follow(),
        Action::Adjust(dial, steps) => match state.turn(dial, steps) {
            Ok(()) => {
                state.apply();
                if !state.shows(Focus::Controls) {
                    setting::say_dial(state, dial);
                }
            }
            Err(why) => state.refuse(why),
        },
        Action::PanelRow(by) => match state.display.focus {
            Focus::Controls => state.controls.select(i64::from(by)),
            _ => state.tree.scroll(i64::from(by)),
        },
        Action::AdjustHere(steps) => {
            act(state, Action::Adjust(state.controls.selected(), steps), "")?;
        }
        Action::ReleaseHere => {
            state.release(state.controls.selected());
            state.apply();
        }
        Action::Look(by) => {
            state.tree.look(i64::from(by));
            state.look_at_end_of_round();
        }
        Action::LookWord(by) => state.look_at_word(by),
        Action::LookFirst => {
            state.tree.go(0);
            state.look_at_end_of_round();
        }
        Action::LookLive => state.tree.follow(),
        Action::TreePage(down) => state.tree.page(down),
        Action::Fold => state.tree.fold = state.tree.fold.next(),
        // The messages of before are nearer than the last question.
        Action::StarterMove(-1)
            if state.input.starters.selected().is_none() && state.input.recalls() =>
        {
            state.input.up();
        }
        Action::StarterMove(by) => state.input.starters.select(i64::from(by)),
        Action::StarterTake(at) => state.take_starter(usize::from(at)),
        Action::Complete => state.input.complete(),
        Action::Suggestion(by) => state.input.select(i64::from(by)),
        Action::Dismiss => state.input.dismiss(),
        Action::OverlayRow(by) => overlay_row(state, by),
        Action::OverlayClear => {
            state.overlays.edit(String::clear);
        }
        Action::OverlayTake => overlay_take(state),
        Action::OverlayClose if state.overlays.renaming.take().is_some() => {}
        Action::OverlayClose => match state.overlays.open.take() {
            Some(Overlay::Help(help)) if help.open.is_some() => {
                state.overlays.open = Some(Overlay::Help(Help { open: None, ..help }));
            }
            Some(Overlay::Full { .. }) => take_back(state),
            Some(Overlay::Race) => race::close(state),
            _ => {}
        },
    }
    Ok(())
}

/// Applies, saves or lists presets.
fn preset(state: &ScreenState, argument: &str) -> Result<Effect, String> {
    if argument.is_empty() {
        return Ok(Effect::ListPresets);
    }
    match argument.split_once(char::is_whitespace) {
        None if argument == "save" => {
            Err("/preset save needs a name: /preset save NAME".to_string())
        }
        Some(("save", name)) => {
            let preset = Preset {
                system: state.chat.system.clone(),
                sampler: state.controls.worker.sampler,
            };
            Ok(Effect::SavePreset(name.trim().to_string(), preset))
        }
        _ => Ok(Effect::TakePreset(argument.to_string())),
    }
}

fn send(state: &mut ScreenState) {
    state.take_selected_starter();
    // What is begun is written out first; a path, or a command that something has to follow, is not
    // sent yet.
    match state.input.suggestion() {
        Some(Suggestion::Path(_)) => return state.input.complete(),
        Some(Suggestion::Command(command)) if !command.is_written_out(&state.input.text()) => {
            state.input.complete();
            if !command.argument.is_empty() {
                return;
            }
        }
        Some(Suggestion::Command(_)) | None => {}
    }
    state.toasts.sent(state.now);
    let text = state.input.text();
    if let Some(line) = commands::command_in(&text) {
        let line = line.to_string();
        // Arrow up brings it back, also if it is refused: it is not a message that waits.
        state.input.sent();
        let done = commands::parse(&line)
            .and_then(|(command, argument)| act(state, command.action, argument));
        return done.unwrap_or_else(|error| state.complain(error));
    }
    if state.models.replay {
        replay::say(state);
    } else if text.trim().is_empty() {
        if state.chat.can_go_on() || state.chat.is_unanswered() {
            go_on(state);
        }
    } else if let Some(read) = named(state, &text) {
        state.emit(read);
    } else {
        send_message(state, &text);
    }
}

/// A slash in a panel: the message begins as a command. One that is being written is put aside: a
/// slash after it would be part of it.
fn begin_command(state: &mut ScreenState) {
    state.display.focus = Focus::Input;
    if !state.input.is_empty() {
        put_aside(state);
    }
    state.input.set("/");
}

/// Ends what the program is working on; `false` if there is nothing.
fn end_work(state: &mut ScreenState) -> bool {
    if state.answering() {
        stop(state);
        take_back(state);
        return true;
    }
    if state.models.load.is_some() {
        models::stop_load(state);
        return true;
    }
    // What waits for the first model comes back.
    return_queued(state)
}

/// Ends the nearest thing: work under way, the message, the program.
fn interrupt(state: &mut ScreenState) {
    if end_work(state) {
        state.leaving.quits_until = None;
    } else if state.input.is_blank() {
        quit_if_pressed_twice(state);
    } else {
        state.leaving.quits_until = None;
        put_aside(state);
    }
}

fn escape(state: &mut ScreenState) {
    // In a panel the key only leads back: it must not cost an answer.
    if state.display.focus != Focus::Input {
        state.display.focus = Focus::Input;
    } else if end_work(state) {
        // Nothing else ends with it.
    } else if state.chat.find.take().is_some() {
        state.chat.follow();
    } else if state.input.editing.take().is_some() {
        state.input.stash();
    } else if !state.chat.follows() {
        state.chat.follow();
    } else {
        state.display.side = None;
    }
}
