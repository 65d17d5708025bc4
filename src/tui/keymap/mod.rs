//! Every key of the program: one table for dispatch, the hints line, the help overlay and the
//! README. Must never know the state that keys change.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::state::{Dial, Focus, Model, Overlay};

mod table;

pub use table::BINDINGS;

use Action as A;
use Scope as S;

/// What a key (or a command) does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends the message.
    Send,
    /// Breaks the line.
    Newline,
    /// Stops the answer; else leaves a panel; else closes it.
    Escape,
    /// Saves and leaves.
    Quit,
    /// Shows keys and commands.
    Help,
    /// Shows what was loaded and chosen, and why.
    Details,
    /// Shows or focuses the tree.
    Tree,
    /// Shows or focuses the meters.
    Meters,
    /// Shows or focuses the controls.
    Controls,
    /// Focuses the next panel.
    FocusNext,
    /// Focuses the panel before.
    FocusBack,
    /// Focuses the input.
    FocusInput,
    /// Pauses after every round, or resumes.
    Pause,
    /// One round.
    Step,
    /// Switches speculation.
    Speculate,
    /// Lists the strategies.
    Strategies,
    /// Returns γ, M, k and D to automatic control.
    Auto,
    /// Shows or hides where tokens came from.
    Marks,
    /// Next theme.
    Theme,
    /// Redraws the whole screen.
    Redraw,
    /// Suspends to the shell.
    Suspend,
    /// Answers the last question again.
    Regenerate,
    /// Copies the last answer.
    Copy,
    /// Moves the chat by rows.
    Scroll(i8),
    /// Moves the chat by a screenful, down if true.
    Page(bool),
    /// To the beginning of the chat.
    Top,
    /// Follows the end of the chat.
    Follow,
    /// Changes a control.
    Turn(Dial, i8),
    /// Moves the cursor of the panel.
    Row(i8),
    /// Changes the control under the cursor.
    TurnHere(i8),
    /// Returns the control under the cursor to automatic.
    ReleaseHere,
    /// Shows a later or earlier round.
    Look(i8),
    /// Shows the first round.
    LookFirst,
    /// Follows the latest round.
    LookLive,
    /// Moves the tree by a screenful, down if true.
    TreePage(bool),
    /// Hides more or less of the tree.
    Fold,
    /// Writes the suggested command.
    Complete,
    /// Moves in the suggested commands.
    Suggestion(i8),
    /// Closes the suggestions.
    Dismiss,
    /// Moves in an overlay.
    OverlayRow(i8),
    /// Takes what is under the cursor of an overlay.
    OverlayTake,
    /// Closes the overlay.
    OverlayClose,
}

/// Where a key works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everywhere.
    Global,
    /// While writing.
    Input,
    /// While commands are suggested.
    Completion,
    /// In any panel.
    Panel,
    /// In the conversation.
    Chat,
    /// In the tree.
    Tree,
    /// In the controls.
    Controls,
    /// In overlays.
    Overlay,
}

impl Scope {
    /// All, in the order of the help.
    pub const ALL: [Self; 8] = [
        Self::Input,
        Self::Global,
        Self::Panel,
        Self::Tree,
        Self::Controls,
        Self::Chat,
        Self::Completion,
        Self::Overlay,
    ];

    /// Heading in the help.
    pub fn title(self) -> &'static str {
        match self {
            Self::Global => "Everywhere",
            Self::Input => "Message",
            Self::Completion => "Command list",
            Self::Panel => "In any panel",
            Self::Chat => "Conversation",
            Self::Tree => "Draft tree",
            Self::Controls => "Controls",
            Self::Overlay => "Help and lists",
        }
    }
}

/// A key with its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    code: KeyCode,
    modifiers: KeyModifiers,
}

impl Key {
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
    pub keys: &'static [Key],
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
pub fn scopes(model: &Model) -> Vec<Scope> {
    if model.overlay.is_some() {
        return vec![S::Overlay];
    }
    let nearest = match model.focus {
        Focus::Input if !model.input.suggestions().is_empty() => &[S::Completion, S::Input][..],
        Focus::Input => &[S::Input],
        Focus::Chat => &[S::Chat, S::Panel],
        Focus::Tree => &[S::Tree, S::Panel],
        Focus::Controls => &[S::Controls, S::Panel],
        Focus::Meters => &[S::Panel],
    };
    [nearest, &[S::Global]].concat()
}

/// What a key does now; `None` leaves it to the text area.
pub fn lookup(model: &Model, event: &KeyEvent) -> Option<Action> {
    if filters(model, event) {
        return None;
    }
    scopes(model).into_iter().find_map(|scope| {
        BINDINGS
            .iter()
            .find(|row| row.scope == scope && row.keys.iter().any(|key| key.matches(event)))
            .map(|row| row.action)
    })
}

/// Whether the key writes in the filter of the saved conversations, whatever it does in other
/// lists.
fn filters(model: &Model, event: &KeyEvent) -> bool {
    let plain = !event.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
    let writes = matches!(event.code, KeyCode::Char(_) | KeyCode::Backspace);
    matches!(model.overlay, Some(Overlay::Sessions(_))) && plain && writes
}

/// Keys and words for the hints line, most useful first. A key that would do nothing now is left
/// out.
pub fn hints(model: &Model) -> Vec<(String, &'static str)> {
    let scopes = scopes(model);
    let mut rows: Vec<&Binding> = BINDINGS
        .iter()
        .filter(|row| row.hint.0 > 0 && scopes.contains(&row.scope) && useful(model, row))
        .collect();
    rows.sort_by_key(|row| row.hint.0);
    let mut hints: Vec<(String, &'static str)> = Vec::new();
    for row in rows {
        let word = match row.action {
            A::Pause if model.controls.paused => "go on",
            _ => row.hint.1,
        };
        if hints.iter().any(|hint| hint.1 == word) {
            continue;
        }
        let name = match row.action {
            // Pairs of keys are hinted at together.
            A::Look(_) => "←→".to_string(),
            A::Row(_) | A::OverlayRow(_) | A::Suggestion(_) => "↑↓".to_string(),
            A::Scroll(_) => "↑↓".to_string(),
            A::Turn(..) => "g G".to_string(),
            _ => row.keys.first().map(|key| key.name()).unwrap_or_default(),
        };
        let word = if row.action == A::Turn(Dial::Gamma, 1) { "γ" } else { word };
        hints.push((name, word));
    }
    hints
}

fn useful(model: &Model, row: &Binding) -> bool {
    let panels = model.focus != Focus::Input;
    match row.action {
        A::Send => !model.answering() && !model.input.is_empty(),
        A::Newline => !model.input.is_empty(),
        A::Escape => model.answering(),
        A::Step => model.controls.paused && (row.scope == S::Panel) == panels,
        A::Pause => model.answering() && (row.scope == S::Panel) == panels,
        A::Auto => {
            let c = &model.controls;
            [c.tree.gamma, c.tree.blocks, c.tree.width, c.tree.depth]
                .iter()
                .any(|choice| choice.is_fixed())
        }
        A::Regenerate => !model.answering() && model.chat.can_regenerate(),
        A::Meters => !model.wide(),
        A::Copy => model.chat.last_answer().is_some(),
        A::Follow => !model.chat.follows(),
        A::Strategies => !model.statuses().is_empty(),
        A::LookLive => !model.rounds.live(),
        A::Look(_) => model.rounds.len() > 1,
        A::FocusInput => panels,
        A::OverlayRow(_) => {
            matches!(
                model.overlay,
                Some(Overlay::Help { .. } | Overlay::Sessions(_) | Overlay::Strategies { .. })
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
