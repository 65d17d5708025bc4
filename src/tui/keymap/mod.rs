//! Every key of the program: one table for dispatch, the hints line, the help overlay and the
//! README. Reads the state to know where keys go; must never change it.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::state::{Dial, Focus, Overlay, ScreenState};

mod table;

pub use super::actions::Action;
pub use table::BINDINGS;

use Action as A;
use Scope as S;

/// Where a key works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everywhere.
    Global,
    /// While writing.
    Input,
    /// While commands are suggested.
    Completion,
    /// While an empty chat offers questions.
    Starters,
    /// In any panel.
    Panel,
    /// In the conversation.
    Chat,
    /// In the tree.
    Tree,
    /// In the controls.
    Controls,
    /// In the list of saved conversations.
    Sessions,
    /// In overlays.
    Overlay,
}

impl Scope {
    /// All, in the order of the help.
    pub const ALL: [Self; 10] = [
        Self::Input,
        Self::Starters,
        Self::Global,
        Self::Panel,
        Self::Tree,
        Self::Controls,
        Self::Chat,
        Self::Completion,
        Self::Sessions,
        Self::Overlay,
    ];

    /// Heading in the help.
    pub fn title(self) -> &'static str {
        match self {
            Self::Global => "Everywhere",
            Self::Input => "Message",
            Self::Completion => "Command list",
            Self::Starters => "Empty chat",
            Self::Panel => "In any panel",
            Self::Chat => "Conversation",
            Self::Tree => "Draft tree",
            Self::Controls => "Controls",
            Self::Sessions => "Saved conversations",
            Self::Overlay => "Help and lists",
        }
    }
}

/// A key with its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPress {
    code: KeyCode,
    modifiers: KeyModifiers,
}

impl KeyPress {
    fn matches(self, event: &KeyEvent) -> bool {
        let mut modifiers =
            event.modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SHIFT);
        // Shift is part of a character and of BackTab already.
        if matches!(event.code, KeyCode::Char(_) | KeyCode::BackTab) {
            modifiers -= KeyModifiers::SHIFT;
        }
        self.code == event.code && self.modifiers == modifiers
    }

    /// The event that the terminal sends for it.
    #[cfg(test)]
    pub fn event(self) -> KeyEvent {
        KeyEvent::new(self.code, self.modifiers)
    }

    /// For people.
    pub fn name(self) -> String {
        let code = match self.code {
            KeyCode::Char(' ') => "Space".to_string(),
            KeyCode::Char(c) if self.modifiers.is_empty() => c.to_string(),
            KeyCode::Char(c) => c.to_ascii_uppercase().to_string(),
            KeyCode::F(n) => format!("F{n}"),
            KeyCode::Enter => "Enter".to_string(),
            KeyCode::Esc => "Esc".to_string(),
            KeyCode::Tab => "Tab".to_string(),
            KeyCode::BackTab => "Shift+Tab".to_string(),
            KeyCode::Up => "↑".to_string(),
            KeyCode::Down => "↓".to_string(),
            KeyCode::Left => "←".to_string(),
            KeyCode::Right => "→".to_string(),
            KeyCode::PageUp => "PgUp".to_string(),
            KeyCode::PageDown => "PgDn".to_string(),
            KeyCode::Home => "Home".to_string(),
            KeyCode::End => "End".to_string(),
            other => format!("{other:?}"),
        };
        let mut name = String::new();
        if self.modifiers.contains(KeyModifiers::CONTROL) {
            name.push_str("Ctrl+");
        }
        if self.modifiers.contains(KeyModifiers::ALT) {
            name.push_str("Alt+");
        }
        if self.modifiers.contains(KeyModifiers::SHIFT) {
            name.push_str("Shift+");
        }
        name + &code
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// Any of these.
    pub keys: &'static [KeyPress],
    /// Where.
    pub scope: Scope,
    /// What it does.
    pub action: Action,
    /// What it does, for the help; empty where the row above says it for both.
    pub help: &'static str,
    /// Its place in the hints line (small first) and its one or two words there; rank 0 is left
    /// out.
    pub hint: (u8, &'static str),
}

/// The scopes in which keys are looked up, nearest first.
pub fn scopes(state: &ScreenState) -> Vec<Scope> {
    if let Some(Overlay::Sessions(_)) = state.overlay {
        return vec![S::Sessions, S::Overlay];
    }
    if state.overlay.is_some() {
        return vec![S::Overlay];
    }
    let nearest = match state.focus {
        Focus::Input if state.offers_starters() => &[S::Starters, S::Input][..],
        Focus::Input if !state.input.suggestions().is_empty() => &[S::Completion, S::Input][..],
        Focus::Input => &[S::Input],
        Focus::Chat => &[S::Chat, S::Panel],
        Focus::Tree => &[S::Tree, S::Panel],
        Focus::Controls => &[S::Controls, S::Panel],
        Focus::Meters => &[S::Panel],
    };
    [nearest, &[S::Global]].concat()
}

/// What a key does now; `None` leaves it to the text area.
pub fn lookup(state: &ScreenState, event: &KeyEvent) -> Option<Action> {
    if writes(state, event) {
        return None;
    }
    scopes(state).into_iter().find_map(|scope| {
        BINDINGS
            .iter()
            .find(|row| row.scope == scope && row.keys.iter().any(|key| key.matches(event)))
            .map(|row| row.action)
    })
}

/// Whether the key writes although an overlay is open, whatever it does in other overlays: in the
/// filter of a list, or in the message that a failure has interrupted.
pub fn writes(state: &ScreenState, event: &KeyEvent) -> bool {
    let plain = !event.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
    plain
        && match (&state.overlay, event.code) {
            (
                Some(
                    Overlay::Sessions(_)
                    | Overlay::Models(_)
                    | Overlay::Questions { .. }
                    | Overlay::Help { .. },
                ),
                KeyCode::Char(_) | KeyCode::Backspace,
            ) => true,
            (Some(Overlay::Error { .. }), KeyCode::Char(c)) => !c.is_control(),
            _ => false,
        }
}

/// Keys and words for the hints line, most useful first. A key that would do nothing now is left
/// out.
pub fn hints(state: &ScreenState) -> Vec<(String, &'static str)> {
    let scopes = scopes(state);
    let mut rows: Vec<&Binding> = BINDINGS
        .iter()
        .filter(|row| row.hint.0 > 0 && scopes.contains(&row.scope) && useful(state, row))
        .collect();
    rows.sort_by_key(|row| row.hint.0);
    let mut hints: Vec<(String, &'static str)> = Vec::new();
    for row in rows {
        let word = match row.action {
            A::Pause if state.controls.paused => "go on",
            A::Send if state.input.is_empty() => "continue",
            _ => row.hint.1,
        };
        if hints.iter().any(|hint| hint.1 == word) {
            continue;
        }
        let name = match row.action {
            // Pairs of keys are hinted at together.
            A::Look(_) => "←→".to_string(),
            A::PanelRow(_) | A::OverlayRow(_) | A::Suggestion(_) | A::StarterMove(_) => {
                "↑↓".to_string()
            }
            A::Scroll(_) => "↑↓".to_string(),
            A::Adjust(..) => "g G".to_string(),
            A::Version(_) => "Alt+, .".to_string(),
            _ => row.keys.first().map(|key| key.name()).unwrap_or_default(),
        };
        let word = if row.action == A::Adjust(Dial::Gamma, 1) { "γ" } else { word };
        hints.push((name, word));
    }
    hints
}

fn useful(state: &ScreenState, row: &Binding) -> bool {
    let panels = state.focus != Focus::Input;
    match row.action {
        A::Send => !state.answering() && (!state.input.is_empty() || state.chat.can_go_on()),
        A::Version(_) => {
            let last = state.chat.turns().last();
            !state.answering() && last.is_some_and(|turn| turn.versions.place().1 > 1)
        }
        A::Newline => !state.input.is_empty(),
        A::Escape => state.answering() || state.load.is_some(),
        A::Step => state.controls.paused && (row.scope == S::Panel) == panels,
        A::Pause => state.answering() && (row.scope == S::Panel) == panels,
        A::Auto => {
            let c = &state.controls;
            [c.tree.gamma, c.tree.blocks, c.tree.width, c.tree.depth]
                .iter()
                .any(|choice| choice.is_fixed())
        }
        A::Race => !state.answering() && state.chat.can_regenerate(),
        A::Regenerate => !state.answering() && state.chat.can_regenerate(),
        A::Meters => !state.wide(),
        A::Copy => state.chat.last_answer().is_some(),
        A::Follow => !state.chat.follows(),
        A::Strategies => !state.statuses().is_empty(),
        A::Models(_) => state.ready.is_some(),
        A::LookLive => !state.rounds.live(),
        A::Look(_) => state.rounds.len() > 1,
        A::FocusInput => panels,
        A::OverlayRow(_) => {
            matches!(
                state.overlay,
                Some(
                    Overlay::Help { .. }
                        | Overlay::Sessions(_)
                        | Overlay::Models(_)
                        | Overlay::Questions { .. }
                        | Overlay::Full { .. }
                        | Overlay::Strategies { .. }
                )
            )
        }
        _ => true,
    }
}

/// The keys of one scope, for the help: keys and what they do.
pub fn help(scope: Scope) -> Vec<(String, &'static str)> {
    let mut rows: Vec<(String, &'static str)> = Vec::new();
    for row in BINDINGS.iter().filter(|row| row.scope == scope) {
        let keys: Vec<String> = row.keys.iter().map(|key| key.name()).collect();
        match rows.last_mut() {
            Some(last) if row.help.is_empty() => last.0 = format!("{}  {}", last.0, keys.join(" ")),
            _ => rows.push((keys.join(" "), row.help)),
        }
    }
    rows
}

/// The table of the README.
pub fn markdown_table() -> String {
    let mut table = String::from("| Where | Key | What it does |\n|---|---|---|\n");
    for scope in Scope::ALL {
        for (keys, help) in help(scope) {
            let keys: Vec<String> = keys.split_whitespace().map(|key| format!("`{key}`")).collect();
            table += &format!("| {} | {} | {help} |\n", scope.title(), keys.join(" "));
        }
    }
    table
}

#[cfg(test)]
mod tests;
