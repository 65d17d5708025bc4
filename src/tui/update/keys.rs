//! Actions of keys and of the commands that stand for them. Must never do IO.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::{Effect, save, slash, stop};
use crate::plan::TreeOverrides;
use crate::tui::keymap::{self, Action};
use crate::tui::state::{Bench, Dial, Focus, Model, Overlay, Phase, SessionList, Side, strategies};
use crate::tui::theme;
use crate::worker::{Command, Job};

/// A key was pressed.
pub fn key(model: &mut Model, event: KeyEvent) -> Vec<Effect> {
    if event.kind == KeyEventKind::Release {
        return Vec::new();
    }
    match keymap::lookup(model, &event) {
        Some(action) => act(model, action),
        None => {
            match &mut model.overlay {
                Some(Overlay::Sessions(list)) => filter(list, event.code),
                None if model.focus == Focus::Input => write(model, event),
                _ => {}
            }
            Vec::new()
        }
    }
}

/// Several characters at once: into the message in one step, since each insertion costs the length
/// of its line; elsewhere each is a key of its own.
pub fn typed(model: &mut Model, keys: Vec<KeyEvent>) -> Vec<Effect> {
    let text = |key: &KeyEvent| match key.code {
        KeyCode::Char(c) if keymap::lookup(model, key).is_none() => Some(c),
        _ => None,
    };
    let writes = model.overlay.is_none() && model.focus == Focus::Input;
    match keys.iter().map(text).collect::<Option<String>>() {
        Some(text) if writes => {
            model.input.paste(&text);
            Vec::new()
        }
        _ => keys.into_iter().flat_map(|event| key(model, event)).collect(),
    }
}

/// Does what a key or a command stands for.
pub fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    match action {
        Action::Send => return send(model),
        Action::Newline => {
            model.input.area_mut().insert_newline();
            model.input.edited();
        }
        Action::Escape => return escape(model),
        Action::Quit => return quit(model),
        Action::Help => model.overlay = Some(Overlay::Help { top: 0 }),
        Action::Details => model.overlay = Some(Overlay::Details),
        Action::Tree => show(model, Side::Tree),
        Action::Meters => show(model, Side::Meters),
        Action::Controls => show(model, Side::Controls),
        Action::FocusNext => focus(model, 1),
        Action::FocusBack => focus(model, -1),
        Action::FocusInput => model.focus = Focus::Input,
        // Paused beforehand, the next answer would stop after one round for no visible reason.
        Action::Pause | Action::Step if !model.answering() => {
            model.say("there is no answer to pause");
        }
        Action::Pause => {
            model.controls.paused = !model.controls.paused;
            return apply(model);
        }
        Action::Step => {
            // The first step in a running answer pauses it.
            if std::mem::replace(&mut model.controls.paused, true) {
                model.controls.steps += 1;
            }
            model.rounds.follow();
            return apply(model);
        }
        Action::Strategies => {
            if model.statuses().is_empty() {
                model.say("there is no strategy to choose yet");
            } else {
                model.overlay = Some(Overlay::Strategies { selected: model.chosen() });
            }
        }
        Action::Speculate => return speculate(model, !model.controls.speculate),
        Action::Auto => {
            model.controls.tree = TreeOverrides::default();
            model.say("γ, M, k and D are automatic");
            return apply(model);
        }
        Action::Marks => model.marks = !model.marks,
        Action::Theme => {
            model.theme = theme::next(model.theme);
            model.say(format!("theme: {}", theme::name(model.theme)));
        }
        Action::Redraw => return vec![Effect::Redraw],
        Action::Suspend => return vec![Effect::Suspend],
        Action::Regenerate => return regenerate(model),
        Action::Copy => {
            return match model.chat.last_answer() {
                Some(text) => vec![Effect::Copy(text.to_string())],
                None => {
                    model.complain("there is no answer to copy yet");
                    Vec::new()
                }
            };
        }
        Action::Scroll(rows) => model.chat.scroll(i64::from(rows)),
        Action::Page(down) => model.chat.page(down),
        Action::Top => model.chat.to_top(),
        Action::Follow => model.chat.follow(),
        Action::Turn(dial, steps) => return turn(model, dial, steps),
        Action::Row(by) => match model.focus {
            Focus::Controls => model.dials.select(i64::from(by)),
            _ => model.rounds.scroll(i64::from(by)),
        },
        Action::TurnHere(steps) => return turn(model, model.dials.selected(), steps),
        Action::ReleaseHere => {
            let dial = model.dials.selected();
            with_bench(model, |bench, controls| bench.release(dial, controls));
            return apply(model);
        }
        Action::Look(by) => model.rounds.look(i64::from(by)),
        Action::LookFirst => model.rounds.first(),
        Action::LookLive => model.rounds.follow(),
        Action::TreePage(down) => model.rounds.page(down),
        Action::Fold => model.rounds.fold = model.rounds.fold.next(),
        Action::Complete => {
            model.input.complete();
        }
        Action::Suggestion(by) => model.input.select(i64::from(by)),
        Action::Dismiss => model.input.dismiss(),
        Action::OverlayRow(by) => overlay_row(model, by),
        Action::OverlayTake => return overlay_take(model),
        Action::OverlayClose => model.overlay = None,
    }
    Vec::new()
}

/// Puts the controls into force.
pub fn apply(model: &Model) -> Vec<Effect> {
    vec![Effect::Apply(model.controls.clone())]
}

/// Saves and leaves.
pub fn quit(model: &mut Model) -> Vec<Effect> {
    model.quitting = true;
    let mut effects = stop(model);
    effects.push(save(model));
    effects.push(Effect::Quit);
    effects
}

/// Switches speculation.
pub fn speculate(model: &mut Model, on: bool) -> Vec<Effect> {
    model.controls.speculate = on;
    model.say(if on { "speculation on" } else { "speculation off: the text stays the same" });
    apply(model)
}

/// Asks for an answer to the conversation as it stands; the chat already holds its empty answer.
pub fn ask(model: &mut Model) -> Vec<Effect> {
    model.controls.generation += 1;
    model.phase = Phase::Answering { since: model.now };
    model.begin_answer();
    let job = Job {
        generation: model.controls.generation,
        messages: model.chat.messages(),
        max_tokens: model.max_tokens,
    };
    vec![Effect::Apply(model.controls.clone()), Effect::Send(Command::Generate(job))]
}

fn send(model: &mut Model) -> Vec<Effect> {
    if let Some(command) = model.input.suggestion() {
        let typed = model.input.text() == format!("/{}", command.name);
        if !typed {
            model.input.complete();
            if !command.argument.is_empty() {
                return Vec::new();
            }
        }
    }
    let text = model.input.text();
    if let Some(line) = text.trim_end().strip_prefix('/') {
        let line = line.to_string();
        return match slash::run(model, &line) {
            Ok(effects) => effects,
            Err(error) => {
                model.complain(error);
                Vec::new()
            }
        };
    }
    if text.trim().is_empty() {
        return Vec::new();
    }
    match &model.phase {
        Phase::Idle => {}
        Phase::Answering { .. } => {
            model.say("an answer is on its way: Esc stops it, then Enter sends");
            return Vec::new();
        }
        Phase::Loading { .. } => {
            model.say("the models are still being loaded");
            return Vec::new();
        }
        Phase::Broken => {
            model.complain("nothing can answer: quit with Ctrl+C and start again");
            return Vec::new();
        }
    }
    // As it was typed, with the indentation of its first line. The one space before a slash that
    // keeps a message from being a command is no part of it.
    let text = text.trim_end().trim_start_matches('\n');
    let text = text.strip_prefix(' ').filter(|rest| rest.starts_with('/')).unwrap_or(text);
    let text = text.to_string();
    model.input.sent();
    model.chat.ask(text);
    let mut effects = ask(model);
    // Should the program be killed while the answer comes, the question is safe.
    effects.push(save(model));
    effects
}

fn regenerate(model: &mut Model) -> Vec<Effect> {
    if !model.chat.can_regenerate() {
        model.complain("there is no question to answer yet");
        return Vec::new();
    }
    let mut effects = stop(model);
    if model.phase != Phase::Idle {
        model.say("nothing can answer now");
        return effects;
    }
    if model.controls.sampler.temperature > 0.0 {
        // One seed gives one text: another one needs another seed.
        model.controls.sampler.seed = model.controls.sampler.seed.wrapping_add(1);
        model.say(format!("seed {}", model.controls.sampler.seed));
    } else {
        model.say("temperature is 0: the same text again");
    }
    model.chat.reopen();
    effects.extend(ask(model));
    effects
}

fn escape(model: &mut Model) -> Vec<Effect> {
    if model.answering() {
        let effects = stop(model);
        take_back(model);
        return effects;
    }
    if model.focus != Focus::Input {
        model.focus = Focus::Input;
    } else if !model.chat.follows() {
        model.chat.follow();
    } else {
        model.side = None;
    }
    Vec::new()
}

/// Returns a question that got no token to the input, so that it can be edited and sent again.
pub fn take_back(model: &mut Model) {
    if model.input.is_empty()
        && let Some(question) = model.chat.take_question()
    {
        model.input.set(&question);
    }
}

/// Shows a panel and puts the focus there; pressed again, goes back.
fn show(model: &mut Model, side: Side) {
    let there = model.focus == side.focus() && (model.wide() || model.side == Some(side));
    if there {
        model.focus = Focus::Input;
        model.side = None;
    } else {
        model.side = Some(side);
        // Meters have nothing to move: where they are beside the chat, they need no focus.
        if side == Side::Meters {
            model.focus = Focus::Input;
            if !model.wide() {
                model.focus = Focus::Meters;
            }
        } else {
            model.focus = side.focus();
        }
    }
}

fn focus(model: &mut Model, by: i64) {
    let ring: &[Focus] = if model.wide() {
        &[Focus::Input, Focus::Tree, Focus::Controls, Focus::Chat]
    } else {
        &[Focus::Input, Focus::Tree, Focus::Meters, Focus::Controls, Focus::Chat]
    };
    let at = ring.iter().position(|focus| *focus == model.focus).unwrap_or(0) as i64;
    model.focus = ring[(at + by).rem_euclid(ring.len() as i64) as usize];
    model.side = match model.focus {
        Focus::Tree => Some(Side::Tree),
        Focus::Meters => Some(Side::Meters),
        Focus::Controls => Some(Side::Controls),
        Focus::Chat => None,
        Focus::Input => None,
    };
}

fn turn(model: &mut Model, dial: Dial, steps: i8) -> Vec<Effect> {
    let turned = with_bench(model, |bench, controls| bench.turn(dial, i64::from(steps), controls));
    match turned {
        Ok(()) => apply(model),
        Err(why) => {
            model.say(why);
            Vec::new()
        }
    }
}

/// Works on the controls with what the dials need to know.
pub fn with_bench<T>(
    model: &mut Model,
    work: impl FnOnce(&Bench<'_>, &mut crate::worker::Controls) -> T,
) -> T {
    let bench = Bench {
        ready: model.ready.as_deref(),
        latest: model.rounds.latest().map(|round| &round.budget),
    };
    work(&bench, &mut model.controls)
}

/// Moves in an overlay.
pub fn overlay_row(model: &mut Model, by: i8) {
    match &mut model.overlay {
        // The view limits it to the number of rows.
        Some(Overlay::Help { top }) => *top = top.saturating_add_signed(isize::from(by)),
        Some(Overlay::Strategies { selected }) => {
            let last = model.ready.as_ref().map_or(0, |ready| ready.strategies.len());
            let to = selected.saturating_add_signed(isize::from(by));
            *selected = to.min(last.saturating_sub(1));
        }
        Some(Overlay::Sessions(list)) => {
            let last = list.shown().len().saturating_sub(1);
            list.selected = list.selected.saturating_add_signed(isize::from(by)).min(last);
        }
        _ => {}
    }
}

fn overlay_take(model: &mut Model) -> Vec<Effect> {
    match model.overlay.take() {
        Some(Overlay::Sessions(list)) => match list.shown().get(list.selected) {
            Some(session) => {
                let mut effects = stop(model);
                effects.push(save(model));
                effects.push(Effect::Load(session.id.clone()));
                effects
            }
            // No conversation matches the filter: it stays open for editing.
            None => {
                model.overlay = Some(Overlay::Sessions(list));
                Vec::new()
            }
        },
        Some(Overlay::Strategies { selected }) => {
            let name = model.statuses().get(selected).map(|status| status.name.clone());
            match name.map(|name| choose(model, &name)) {
                Some(Ok(effects)) => effects,
                Some(Err(why)) => {
                    model.complain(why);
                    Vec::new()
                }
                None => Vec::new(),
            }
        }
        _ => Vec::new(),
    }
}

/// Puts a strategy into force, from the next round on.
///
/// # Errors
/// Why it cannot run, with the remedy.
pub fn choose(model: &mut Model, name: &str) -> Result<Vec<Effect>, String> {
    strategies::choose(model.ready.as_deref(), &mut model.controls, name)?;
    model.say(format!("strategy: {name}, from the next round on"));
    Ok(apply(model))
}

/// Writes in the words that saved conversations are filtered by.
fn filter(list: &mut SessionList, code: KeyCode) {
    let mut words = list.filter().to_string();
    match code {
        KeyCode::Char(c) if !c.is_control() => words.push(c),
        KeyCode::Backspace => {
            words.pop();
        }
        _ => return,
    }
    list.filter_by(words);
}

/// Editing keys that are not in the table: the usual ones of a text field.
fn write(model: &mut Model, event: KeyEvent) {
    let input = &mut model.input;
    let ctrl = event.modifiers.contains(KeyModifiers::CONTROL);
    let plain = !event.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
    let shift = event.modifiers.contains(KeyModifiers::SHIFT);
    match event.code {
        KeyCode::Up if plain && !shift => input.up(),
        KeyCode::Down if plain && !shift => input.down(),
        KeyCode::Left if plain && !shift => input.step(false),
        KeyCode::Right if plain && !shift => input.step(true),
        KeyCode::Backspace if plain && !input.area().is_selecting() => input.backspace(),
        KeyCode::Delete if plain && !input.area().is_selecting() => input.delete(),
        // As in a shell, rather than the text area's own undo.
        KeyCode::Char('u') if ctrl => {
            input.area_mut().delete_line_by_head();
            input.edited();
        }
        // The second is what terminals send for the first.
        KeyCode::Char('_' | '7') if ctrl => {
            input.area_mut().undo();
            input.edited();
        }
        // A control character that no one asked for is not text.
        KeyCode::Char(c) if plain && c.is_control() => {}
        _ => {
            input.area_mut().input(event);
            input.edited();
        }
    }
}
