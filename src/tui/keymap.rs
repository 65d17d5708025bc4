//! Every key of the program: one table for dispatch, the hints line, the help overlay and the
//! README.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::state::{Dial, Focus, Model, Overlay};

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
    /// Holds after every round, or goes on.
    Pause,
    /// One round.
    Step,
    /// Switches speculation.
    Speculate,
    /// Gives γ and M back to automatic.
    Auto,
    /// Shows or hides where tokens came from.
    Marks,
    /// Next theme.
    Theme,
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
    /// Turns a dial.
    Turn(Dial, i8),
    /// Moves the cursor of the panel.
    Row(i8),
    /// Turns the dial under the cursor.
    TurnHere(i8),
    /// Gives the dial under the cursor back.
    ReleaseHere,
    /// Looks rounds further or back.
    Look(i8),
    /// Looks at the first round.
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
    /// In whatever lies over the screen.
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

const fn key(code: KeyCode) -> Key {
    Key { code, modifiers: KeyModifiers::NONE }
}
const fn char(c: char) -> Key {
    key(KeyCode::Char(c))
}
const fn f(n: u8) -> Key {
    key(KeyCode::F(n))
}
const fn ctrl(c: char) -> Key {
    Key { code: KeyCode::Char(c), modifiers: KeyModifiers::CONTROL }
}
const fn ctrl_key(code: KeyCode) -> Key {
    Key { code, modifiers: KeyModifiers::CONTROL }
}
const fn alt(code: KeyCode) -> Key {
    Key { code, modifiers: KeyModifiers::ALT }
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
    /// What it does, for the help.
    pub help: &'static str,
    /// Its place in the hints line (small first) and its one or two words there; rank 0 is left
    /// out.
    pub hint: (u8, &'static str),
}

const fn bind(
    scope: Scope,
    keys: &'static [Key],
    action: Action,
    help: &'static str,
    hint: (u8, &'static str),
) -> Binding {
    Binding { keys, scope, action, help, hint }
}

const NO: (u8, &str) = (0, "");

use Action as A;
use KeyCode as C;
use Scope as S;

/// Every key of the program.
pub const BINDINGS: &[Binding] = &[
    // writing
    bind(S::Input, &[key(C::Enter)], A::Send, "send", (10, "send")),
    bind(S::Input, &[alt(C::Enter), ctrl('j')], A::Newline, "new line", (12, "new line")),
    // everywhere
    bind(
        S::Global,
        &[key(C::Esc)],
        A::Escape,
        "stop the answer; else back to the message",
        (11, "stop"),
    ),
    bind(S::Global, &[f(1)], A::Help, "this help", (13, "help")),
    bind(S::Global, &[f(2)], A::Tree, "draft tree", (20, "tree")),
    bind(S::Global, &[f(3)], A::Meters, "meters", (21, "meters")),
    bind(S::Global, &[f(4)], A::Controls, "controls", (22, "controls")),
    bind(S::Global, &[f(5)], A::Pause, "pause after every round, or go on", (23, "pause")),
    bind(S::Global, &[f(6)], A::Step, "one round further, then pause", (9, "step")),
    bind(
        S::Global,
        &[f(7)],
        A::Speculate,
        "speculation on or off: the text is the same",
        (26, "speculation"),
    ),
    bind(S::Global, &[f(8)], A::Auto, "give γ, M, k and D back to automatic", (24, "auto")),
    bind(S::Global, &[f(9)], A::Marks, "show or hide where tokens came from", (27, "marks")),
    bind(S::Global, &[alt(C::Up)], A::Turn(Dial::Gamma, 1), "γ up", NO),
    bind(S::Global, &[alt(C::Down)], A::Turn(Dial::Gamma, -1), "γ down", NO),
    bind(S::Global, &[alt(C::Right)], A::Turn(Dial::Blocks, 1), "M up", NO),
    bind(S::Global, &[alt(C::Left)], A::Turn(Dial::Blocks, -1), "M down", NO),
    bind(S::Global, &[key(C::Tab)], A::FocusNext, "next panel", (14, "panels")),
    bind(S::Global, &[key(C::BackTab)], A::FocusBack, "panel before", NO),
    bind(S::Global, &[key(C::PageUp)], A::Page(false), "scroll the conversation up", NO),
    bind(S::Global, &[key(C::PageDown)], A::Page(true), "scroll the conversation down", NO),
    bind(S::Global, &[ctrl_key(C::Up)], A::Scroll(-1), "scroll one row up", NO),
    bind(S::Global, &[ctrl_key(C::Down)], A::Scroll(1), "scroll one row down", NO),
    bind(S::Global, &[ctrl_key(C::Home)], A::Top, "to the first message", NO),
    bind(S::Global, &[ctrl_key(C::End)], A::Follow, "follow the answer again", (8, "follow")),
    bind(S::Global, &[ctrl('r')], A::Regenerate, "answer the last question again", (25, "again")),
    bind(S::Global, &[ctrl('y')], A::Copy, "copy the last answer", NO),
    bind(S::Global, &[ctrl('t')], A::Theme, "next theme", NO),
    bind(S::Global, &[ctrl('c'), ctrl('q')], A::Quit, "save and quit", (30, "quit")),
    // the command list
    bind(S::Completion, &[key(C::Tab)], A::Complete, "write the command", (1, "complete")),
    bind(S::Completion, &[key(C::Down)], A::Suggestion(1), "next command", (2, "choose")),
    bind(S::Completion, &[key(C::Up)], A::Suggestion(-1), "command before", NO),
    bind(S::Completion, &[key(C::Esc)], A::Dismiss, "close the list", (3, "close")),
    // the tree
    bind(S::Tree, &[key(C::Left)], A::Look(-1), "the round before", (2, "rounds")),
    bind(S::Tree, &[key(C::Right)], A::Look(1), "the round after", NO),
    bind(S::Tree, &[key(C::Home)], A::LookFirst, "the first round", NO),
    bind(S::Tree, &[key(C::End), char('l')], A::LookLive, "follow the latest round", (3, "live")),
    bind(S::Tree, &[key(C::Up)], A::Row(-1), "scroll the tree up", NO),
    bind(S::Tree, &[key(C::Down)], A::Row(1), "scroll the tree down", NO),
    bind(S::Tree, &[key(C::PageUp)], A::TreePage(false), "a screenful up", NO),
    bind(S::Tree, &[key(C::PageDown)], A::TreePage(true), "a screenful down", NO),
    bind(
        S::Tree,
        &[char('f')],
        A::Fold,
        "fold: as much as fits, nothing, dead branches, all but the path",
        (4, "fold"),
    ),
    // the controls
    bind(S::Controls, &[key(C::Up)], A::Row(-1), "control before", (2, "choose")),
    bind(S::Controls, &[key(C::Down)], A::Row(1), "next control", NO),
    bind(S::Controls, &[key(C::Right), char('+'), char('=')], A::TurnHere(1), "up", (3, "more")),
    bind(S::Controls, &[key(C::Left), char('-')], A::TurnHere(-1), "down", (4, "less")),
    bind(S::Controls, &[char('a')], A::ReleaseHere, "automatic again", (5, "auto")),
    // the conversation
    bind(S::Chat, &[key(C::Up), char('k')], A::Scroll(-1), "one row up", (2, "scroll")),
    bind(S::Chat, &[key(C::Down), char('j')], A::Scroll(1), "one row down", NO),
    bind(S::Chat, &[key(C::Home)], A::Top, "to the first message", NO),
    bind(S::Chat, &[key(C::End)], A::Follow, "follow the answer again", NO),
    bind(S::Chat, &[char('y'), char('c')], A::Copy, "copy the last answer", (3, "copy")),
    bind(S::Chat, &[char('r')], A::Regenerate, "answer the last question again", (4, "again")),
    // any panel
    bind(S::Panel, &[char(' ')], A::Pause, "pause, or go on", (5, "pause")),
    bind(S::Panel, &[char('n'), key(C::Enter)], A::Step, "one round further", (6, "step")),
    bind(S::Panel, &[char('g')], A::Turn(Dial::Gamma, -1), "γ down", NO),
    bind(S::Panel, &[char('G')], A::Turn(Dial::Gamma, 1), "γ up", (7, "γ up")),
    bind(S::Panel, &[char('m')], A::Turn(Dial::Blocks, -1), "M down", NO),
    bind(S::Panel, &[char('M')], A::Turn(Dial::Blocks, 1), "M up", NO),
    bind(S::Panel, &[char('w')], A::Turn(Dial::Width, -1), "k down", NO),
    bind(S::Panel, &[char('W')], A::Turn(Dial::Width, 1), "k up", NO),
    bind(S::Panel, &[char('d')], A::Turn(Dial::Depth, -1), "D down", NO),
    bind(S::Panel, &[char('D')], A::Turn(Dial::Depth, 1), "D up", NO),
    bind(S::Panel, &[char('t')], A::Turn(Dial::Temperature, -1), "temperature down", NO),
    bind(S::Panel, &[char('T')], A::Turn(Dial::Temperature, 1), "temperature up", NO),
    bind(S::Panel, &[char('A')], A::Auto, "give γ, M, k and D back to automatic", NO),
    bind(S::Panel, &[char('s')], A::Speculate, "speculation on or off", NO),
    bind(S::Panel, &[char('o')], A::Marks, "show or hide where tokens came from", NO),
    bind(S::Panel, &[char('i')], A::FocusInput, "back to the message", (1, "write")),
    bind(S::Panel, &[char('?')], A::Help, "this help", NO),
    // overlays
    bind(S::Overlay, &[key(C::Up), char('k')], A::OverlayRow(-1), "up", (2, "move")),
    bind(S::Overlay, &[key(C::Down), char('j')], A::OverlayRow(1), "down", NO),
    bind(S::Overlay, &[key(C::PageUp)], A::OverlayRow(-10), "ten rows up", NO),
    bind(S::Overlay, &[key(C::PageDown), char(' ')], A::OverlayRow(10), "ten rows down", NO),
    bind(S::Overlay, &[key(C::Enter)], A::OverlayTake, "open, or close", NO),
    bind(S::Overlay, &[key(C::Esc), char('q'), f(1)], A::OverlayClose, "close", (1, "close")),
    bind(S::Overlay, &[ctrl('c'), ctrl('q')], A::Quit, "save and quit", NO),
];

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
    scopes(model).into_iter().find_map(|scope| {
        BINDINGS
            .iter()
            .find(|row| row.scope == scope && row.keys.iter().any(|key| key.matches(event)))
            .map(|row| row.action)
    })
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
            A::Turn(Dial::Gamma, _) => "g G".to_string(),
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
        A::Pause => {
            (row.scope == S::Panel) == panels && (model.answering() || model.controls.paused)
        }
        A::Auto => {
            let c = &model.controls;
            [c.gamma, c.blocks, c.width, c.depth].iter().any(|choice| choice.is_held())
        }
        A::Regenerate => !model.answering() && model.chat.can_regenerate(),
        A::Copy => model.chat.last_answer().is_some(),
        A::Follow => !model.chat.follows(),
        A::LookLive => !model.rounds.live(),
        A::Look(_) => model.rounds.len() > 1,
        A::FocusInput => panels,
        A::OverlayRow(_) => {
            matches!(model.overlay, Some(Overlay::Help { .. } | Overlay::Sessions(_)))
        }
        _ => true,
    }
}

/// The keys of one scope, for the help: keys and what they do.
pub fn help(scope: Scope) -> impl Iterator<Item = (String, &'static str)> {
    BINDINGS.iter().filter(move |row| row.scope == scope).map(|row| {
        let keys: Vec<String> = row.keys.iter().map(|key| key.name()).collect();
        (keys.join(" "), row.help)
    })
}

/// The table of the README.
pub fn markdown_table() -> String {
    let mut table = String::from("| Where | Key | What it does |\n|---|---|---|\n");
    for scope in Scope::ALL {
        for (keys, help) in help(scope) {
            let keys: Vec<String> = keys.split(' ').map(|key| format!("`{key}`")).collect();
            table += &format!("| {} | {} | {help} |\n", scope.title(), keys.join(" "));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_means_two_things_in_one_place() {
        for scope in Scope::ALL {
            let keys: Vec<Key> = BINDINGS
                .iter()
                .filter(|row| row.scope == scope)
                .flat_map(|row| row.keys.iter().copied())
                .collect();
            for (index, key) in keys.iter().enumerate() {
                assert!(!keys[index + 1..].contains(key), "{scope:?}: {}", key.name());
            }
        }
    }

    #[test]
    fn keys_that_write_are_never_taken_while_writing() {
        for row in BINDINGS {
            if matches!(row.scope, S::Input | S::Global | S::Completion) {
                for key in row.keys {
                    assert!(
                        !matches!(key.code, C::Char(_)) || !key.modifiers.is_empty(),
                        "{} would swallow a character",
                        key.name()
                    );
                }
            }
        }
    }

    #[test]
    fn every_row_is_in_help_and_table() {
        let table = markdown_table();
        assert_eq!(table.lines().count(), BINDINGS.len() + 2);
        let helped: usize = Scope::ALL.into_iter().map(|scope| help(scope).count()).sum();
        assert_eq!(helped, BINDINGS.len());
    }
}
