//! The keys in force: the table's, with what the settings change of it. Must never know where a
//! change stands.

use super::{A, BINDINGS, Binding, KeyPress, S, Scope};
use crate::nearest::nearest;
use crate::tui::actions::Action;

/// The keys in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keymap {
    /// Those of each row of [`BINDINGS`].
    keys: Vec<Vec<KeyPress>>,
}

impl Default for Keymap {
    fn default() -> Self {
        Self { keys: BINDINGS.iter().map(|row| row.keys.to_vec()).collect() }
    }
}

/// Scopes in which keys are looked up together.
const TOGETHER: [&[Scope]; 7] = [
    &[S::Starters, S::Input, S::Global],
    &[S::Completion, S::Input, S::Global],
    &[S::Chat, S::Panel, S::Global],
    &[S::Tree, S::Panel, S::Global],
    &[S::Controls, S::Panel, S::Global],
    &[S::Sessions, S::Overlay],
    &[S::Overlay],
];

fn meet(one: Scope, other: Scope) -> bool {
    TOGETHER.iter().any(|scopes| scopes.contains(&one) && scopes.contains(&other))
}

impl Keymap {
    /// The table's keys, except for the actions named: these have the keys given with them.
    ///
    /// # Errors
    /// The place among `changes` of the first one that is wrong, and what is, with the remedy.
    pub fn with(changes: &[(&str, &[String])]) -> Result<Self, (usize, String)> {
        let mut keymap = Self::default();
        let mut changed = Vec::new();
        for (at, (name, keys)) in changes.iter().enumerate() {
            let row = BINDINGS.iter().position(|row| row.name == *name);
            let row = row.ok_or_else(|| (at, unknown(name)))?;
            let unreadable = |why| (at, format!("`{name}`: {why}"));
            let keys: Result<Vec<KeyPress>, String> =
                keys.iter().map(|key| KeyPress::parse(key)).collect();
            let keys = keys.map_err(unreadable)?;
            if keys.is_empty() {
                return Err(unreadable("name at least one key".to_string()));
            }
            keymap.keys[row] = keys;
            changed.push((at, row));
        }
        for (at, row) in changed {
            keymap.check(row).map_err(|problem| (at, problem))?;
        }
        Ok(keymap)
    }

    fn check(&self, at: usize) -> Result<(), String> {
        let row = &BINDINGS[at];
        let action = row.name;
        for &key in &self.keys[at] {
            let writing = matches!(row.scope, S::Input | S::Global | S::Completion);
            let name = key.name();
            if writing && key.writes() {
                return Err(format!(
                    "`{action}`: without ctrl or alt, {name} could no longer be typed; add one"
                ));
            }
            // Where the table itself lets the nearer scope win, it still does.
            let as_ever = |other: &Binding| row.keys.contains(&key) && other.keys.contains(&key);
            let taken = self.rows().find(|(other, keys)| {
                other.action != row.action
                    && meet(row.scope, other.scope)
                    && keys.contains(&key)
                    && !as_ever(other)
            });
            if let Some((Binding { name: other, .. }, _)) = taken {
                return Err(format!(
                    "`{action}`: {name} is already `{other}`; choose another key, or give \
                     `{other}` another"
                ));
            }
        }
        Ok(())
    }

    /// The rows of the table with their keys.
    pub fn rows(&self) -> impl Iterator<Item = (&'static Binding, &[KeyPress])> {
        BINDINGS.iter().zip(self.keys.iter().map(Vec::as_slice))
    }

    /// The name of the first key that does this.
    pub fn name(&self, action: Action) -> String {
        self.first(|row| row.action == action)
    }

    fn first(&self, is_wanted: impl Fn(&Binding) -> bool) -> String {
        let found = self.rows().find(|(row, _)| is_wanted(row));
        found.and_then(|(_, keys)| keys.first()).map(|key| key.name()).unwrap_or_default()
    }

    /// The first keys of two actions of a scope, short.
    pub(crate) fn both(&self, scope: Scope, actions: [Action; 2]) -> String {
        let [back, on] =
            actions.map(|action| self.first(|row| row.scope == scope && row.action == action));
        let arrow = |name: &str| "←→↑↓".contains(name) && !name.is_empty();
        if arrow(&back) && arrow(&on) {
            return back + &on;
        }
        // Modifiers of both are said once.
        let modifiers = back.rfind('+').map_or("", |at| &back[..=at]);
        let rest = on.strip_prefix(modifiers).filter(|rest| !rest.is_empty());
        format!("{back} {}", rest.unwrap_or(&on))
    }

    /// The key that closes a box.
    pub fn close(&self) -> String {
        self.name(A::OverlayClose)
    }

    /// The key that takes what is chosen in a list.
    pub fn take(&self) -> String {
        self.name(A::OverlayTake)
    }
}

/// Names the action most like `name`, by spelling.
fn unknown(name: &str) -> String {
    match nearest(name, BINDINGS.iter().map(|row| row.name), 0.6) {
        Some(near) => format!("unknown action `{name}` (did you mean `{near}`?)"),
        None => format!("unknown action `{name}`; `dovetail help keys` lists the names"),
    }
}
