//! Actions of slash commands. The input keeps a command that failed. Must never do IO.

use super::keys::{act, apply, choose, speculate, with_bench};
use super::{Effect, stop};
use crate::plan::Setting;
use crate::settings::{Settings, Value};
use crate::tui::commands::{self, Deed};
use crate::tui::keymap::Action;
use crate::tui::state::{Chat, Dial, Model};
use crate::tui::theme;

/// Runs a command; `line` is what follows the slash.
///
/// # Errors
/// What is wrong with it, with the remedy.
pub fn run(model: &mut Model, line: &str) -> Result<Vec<Effect>, String> {
    let (command, argument) = commands::parse(line)?;
    let effects = match command.deed {
        Deed::Act(action) => {
            model.input.sent();
            return Ok(act(model, action));
        }
        Deed::Dial(dial) => {
            set(model, key_of(dial), argument)?;
            // A head that cannot draft ahead is reported, instead of ignoring the command.
            if dial == Dial::Blocks && argument != "auto" {
                with_bench(model, |bench, controls| bench.turn(dial, 0, controls))?;
            }
            model.say(match model.controls.tree.blocks {
                Setting::Fixed(most)
                    if dial == Dial::Blocks && argument.parse().is_ok_and(|n| most < n) =>
                {
                    format!("{}: {most}, as many as this head has", dial.name())
                }
                _ => format!("{}: {argument}", dial.name()),
            });
            apply(model)
        }
        Deed::Setting(key) => {
            set(model, key, argument)?;
            model.say(format!("{}: {argument}", command.name));
            apply(model)
        }
        Deed::System => {
            model.chat.system = Some(argument.to_string()).filter(|text| !text.is_empty());
            model.say(match model.chat.system {
                Some(_) => "system prompt set; it counts from the next answer",
                None => "no system prompt",
            });
            Vec::new()
        }
        Deed::New => {
            let mut effects = stop(model);
            effects.push(super::save(model));
            effects.push(Effect::Forget);
            model.chat = Chat::new(model.chat.system.take());
            model.forget_answer();
            effects
        }
        Deed::Load if argument.is_empty() => vec![Effect::List],
        Deed::Load => {
            let mut effects = stop(model);
            effects.push(super::save(model));
            effects.push(Effect::Load(argument.to_string()));
            effects
        }
        Deed::Save => vec![Effect::Save { turns: model.chat.saved_turns(), asked: true }],
        Deed::Theme if argument.is_empty() => act(model, Action::Theme),
        Deed::Theme => {
            model.theme = theme::THEMES
                .into_iter()
                .find(|theme| theme::name(*theme) == argument)
                .ok_or("the themes are dark, light and mono")?;
            Vec::new()
        }
        Deed::Speculate => {
            let on = switch(argument, model.controls.speculate)?;
            speculate(model, on)
        }
        Deed::Strategy if argument.is_empty() => act(model, Action::Strategies),
        Deed::Strategy => choose(model, argument)?,
        Deed::Overlap => {
            let on = switch(argument, model.controls.overlap)?;
            model.controls.overlap = on;
            model.say(if on { "drafting goes on while the target verifies" } else { "in turn" });
            apply(model)
        }
        Deed::Coupled => {
            let on = switch(argument, model.controls.coupled)?;
            model.controls.coupled = on;
            model.say(if on { "drafts know the target's noise" } else { "drafts know no noise" });
            apply(model)
        }
        Deed::Mouse => {
            model.mouse = switch(argument, model.mouse)?;
            vec![Effect::Mouse(model.mouse)]
        }
    };
    model.input.sent();
    Ok(effects)
}

/// What `argument` makes of a switch that is at `now`.
fn switch(argument: &str, now: bool) -> Result<bool, String> {
    match argument {
        "" => Ok(!now),
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(format!("say on or off, not {other}")),
    }
}

fn key_of(dial: Dial) -> &'static str {
    match dial {
        Dial::Gamma => "controls.gamma",
        Dial::Blocks => "controls.blocks",
        Dial::Width => "controls.width",
        Dial::Depth => "controls.depth",
        Dial::Temperature => "sampler.temperature",
        Dial::Strategy => "strategy",
        Dial::Pace => "controls.pace",
    }
}

/// Sets a value through the table that the settings file and the flags go through: one place for
/// ranges and their errors.
fn set(model: &mut Model, key: &str, value: &str) -> Result<(), String> {
    let controls = &mut model.controls;
    let mut settings = Settings {
        sampler: controls.sampler,
        max_tokens: model.max_tokens,
        pace: controls.pace,
        controls: controls.tree,
        ..Settings::default()
    };
    settings.set(key, &Value::text(value)).map_err(|problem| problem.to_string())?;
    controls.sampler = settings.sampler;
    controls.pace = settings.pace;
    controls.tree = settings.controls;
    model.max_tokens = settings.max_tokens;
    Ok(())
}
