//! The table of keys itself. Must never know how a key is found in it.

use crossterm::event::{KeyCode, KeyModifiers};

use super::{Binding, KeyPress, Scope};
use crate::tui::actions::{Action, Dial, ModelPart};

const fn key(code: KeyCode) -> KeyPress {
    KeyPress { code, modifiers: KeyModifiers::NONE }
}
const fn char(c: char) -> KeyPress {
    key(KeyCode::Char(c))
}
const fn f(n: u8) -> KeyPress {
    key(KeyCode::F(n))
}
const fn ctrl(c: char) -> KeyPress {
    KeyPress { code: KeyCode::Char(c), modifiers: KeyModifiers::CONTROL }
}
const fn ctrl_key(code: KeyCode) -> KeyPress {
    KeyPress { code, modifiers: KeyModifiers::CONTROL }
}
const fn shift(code: KeyCode) -> KeyPress {
    KeyPress { code, modifiers: KeyModifiers::SHIFT }
}
const fn alt(code: KeyCode) -> KeyPress {
    KeyPress { code, modifiers: KeyModifiers::ALT }
}

const fn bind(
    scope: Scope,
    keys: &'static [KeyPress],
    action: Action,
    help: &'static str,
    hint: (u8, &'static str),
) -> Binding {
    Binding { keys, scope, action, help, hint, first: 0 }
}

impl Binding {
    /// The row with its place among those that a beginner needs.
    const fn first(self, place: u8) -> Self {
        Self { first: place, ..self }
    }
}

/// A key of the text field itself, which the settings do not change.
#[derive(Clone, Copy, Debug)]
pub struct EditingKey {
    /// Any of these.
    pub keys: &'static [KeyPress],
    /// What it does, for the help.
    pub help: &'static str,
    /// Its place among those that a beginner needs; 0 is none.
    pub first: u8,
}

const fn edit(keys: &'static [KeyPress], help: &'static str, first: u8) -> EditingKey {
    EditingKey { keys, help, first }
}

/// The keys of the text field.
pub const EDITING: &[EditingKey] = &[
    edit(&[char('/')], "begin a command; Tab completes it", 4),
    edit(&[key(C::Up), key(C::Down)], "earlier messages, later messages", 3),
    edit(&[key(C::Home), key(C::End)], "start of the line, end of the line", 0),
    edit(&[ctrl_key(C::Left), ctrl_key(C::Right)], "one word left, one word right", 0),
    edit(&[ctrl('w'), alt(C::Backspace)], "delete the word before the cursor", 0),
    edit(&[alt(C::Char('d'))], "delete the word after the cursor", 0),
    edit(&[ctrl('u')], "delete to the start of the line", 0),
    edit(&[ctrl('k')], "delete to the end of the line", 0),
    edit(&[ctrl('_')], "undo", 0),
];

const NO: (u8, &str) = (0, "");

use {Action as A, KeyCode as C, Scope as S};

/// Every key of the program.
pub const BINDINGS: &[Binding] = &[
    // writing
    bind(S::Input, &[key(C::Enter)], A::Send, "send the message", (10, "send")).first(1),
    bind(
        S::Input,
        &[alt(C::Enter), ctrl('j'), shift(C::Enter)],
        A::Newline,
        "start a new line",
        (12, "new line"),
    )
    .first(2),
    bind(S::Input, &[alt(C::Char('w'))], A::Editor, "write the message in $VISUAL or $EDITOR", NO),
    bind(S::Input, &[ctrl('d')], A::DeleteOrQuit, "delete a character; if there is none, quit", NO),
    // everywhere
    bind(
        S::Global,
        &[key(C::Esc)],
        A::Escape,
        "leave a panel; stop the answer or the loading",
        (11, "stop"),
    )
    .first(5),
    bind(S::Global, &[f(1)], A::Help, "open this help", (13, "help")),
    bind(S::Global, &[f(2)], A::Tree, "show or hide the draft tree", (20, "tree")).first(10),
    bind(S::Global, &[f(3)], A::Meters, "show or hide the meters", (21, "meters")),
    bind(S::Global, &[f(4)], A::Controls, "show or hide the controls", (22, "controls")),
    bind(S::Global, &[f(5)], A::Pause, "pause after each round, or resume", (23, "pause")),
    bind(S::Global, &[f(6)], A::Step, "run one round, then pause", (9, "step")),
    bind(
        S::Global,
        &[f(7)],
        A::Speculate,
        "turn speculation on or off; the text is the same",
        (26, "speculation"),
    ),
    bind(S::Global, &[ctrl('p')], A::Strategies, "choose a strategy", (19, "strategy")),
    bind(
        S::Global,
        &[ctrl('n')],
        A::Models(ModelPart::Target),
        "choose a model, choose a draft for it",
        (28, "model"),
    )
    .first(8),
    bind(S::Global, &[ctrl('g')], A::Models(ModelPart::Draft), "", NO),
    bind(S::Global, &[f(8)], A::Auto, "reset tree settings to automatic", (24, "auto")),
    bind(S::Global, &[f(9)], A::Marks, "show or hide the marks of accepted tokens", (27, "marks")),
    bind(S::Global, &[alt(C::Up)], A::Adjust(Dial::Gamma, 1), "raise γ (tree size), lower it", NO),
    bind(S::Global, &[alt(C::Down)], A::Adjust(Dial::Gamma, -1), "", NO),
    bind(
        S::Global,
        &[alt(C::Right)],
        A::Adjust(Dial::Blocks, 1),
        "raise M (draft blocks), lower it",
        NO,
    ),
    bind(S::Global, &[alt(C::Left)], A::Adjust(Dial::Blocks, -1), "", NO),
    bind(
        S::Global,
        &[key(C::Tab)],
        A::FocusNext,
        "keyboard to the next panel, to the previous one",
        (14, "panels"),
    ),
    bind(S::Global, &[key(C::BackTab)], A::FocusBack, "", NO),
    bind(S::Global, &[key(C::PageUp)], A::Page(false), "scroll the conversation", NO).first(6),
    bind(S::Global, &[key(C::PageDown)], A::Page(true), "", NO),
    bind(S::Global, &[ctrl_key(C::Up)], A::Scroll(-1), "scroll up one row, down one row", NO),
    bind(S::Global, &[ctrl_key(C::Down)], A::Scroll(1), "", NO),
    bind(S::Global, &[ctrl_key(C::Home)], A::Top, "first message, end of the conversation", NO),
    bind(S::Global, &[ctrl_key(C::End)], A::Follow, "", (8, "follow")),
    bind(
        S::Global,
        &[ctrl('r')],
        A::Regenerate,
        "write another version of the answer",
        (25, "again"),
    )
    .first(7),
    bind(
        S::Global,
        &[alt(C::Char(','))],
        A::Version(-1),
        "previous version of the answer, next version",
        (18, "versions"),
    ),
    bind(S::Global, &[alt(C::Char('.'))], A::Version(1), "", NO),
    bind(S::Global, &[alt(C::Char('e'))], A::EditQuestion, "edit an earlier message", NO),
    bind(S::Global, &[ctrl('y')], A::Copy, "copy the last answer", NO),
    bind(S::Global, &[alt(C::Char('y'))], A::CopyMessage, "choose a message to copy", NO),
    bind(S::Global, &[ctrl('o')], A::Thoughts, "show or fold the model's thoughts", NO),
    bind(
        S::Global,
        &[f(12)],
        A::Race,
        "race: the last question with and without speculation",
        (17, "race"),
    ),
    bind(S::Global, &[ctrl('s')], A::Sessions, "open a saved conversation", (29, "conversations"))
        .first(9),
    bind(S::Global, &[ctrl('t')], A::Theme, "next colour theme", NO),
    bind(S::Global, &[ctrl('l')], A::Redraw, "redraw the screen", NO),
    bind(S::Global, &[ctrl('z')], A::Suspend, "suspend; `fg` in the shell returns here", NO),
    bind(
        S::Global,
        &[ctrl('c')],
        A::Interrupt,
        "stop, then clear the message, then quit",
        (15, "quit"),
    )
    .first(11),
    bind(S::Global, &[ctrl('q')], A::Quit, "save the conversation and quit", (30, "quit")),
    // the questions of an empty chat
    bind(
        S::Starters,
        &[key(C::Down)],
        A::StarterMove(1),
        "choose a question to start with; Enter sends it",
        (10, "choose"),
    ),
    bind(S::Starters, &[key(C::Up)], A::StarterMove(-1), "", NO),
    bind(S::Starters, &[char('1')], A::StarterTake(0), "put that question into the message", NO),
    bind(S::Starters, &[char('2')], A::StarterTake(1), "", NO),
    bind(S::Starters, &[char('3')], A::StarterTake(2), "", NO),
    // the command list
    bind(
        S::Completion,
        &[key(C::Tab)],
        A::Complete,
        "complete the command or path",
        (1, "complete"),
    ),
    bind(
        S::Completion,
        &[key(C::Down)],
        A::Suggestion(1),
        "next suggestion, previous suggestion",
        (2, "choose"),
    ),
    bind(S::Completion, &[key(C::Up)], A::Suggestion(-1), "", NO),
    bind(S::Completion, &[key(C::Esc)], A::Dismiss, "close the list", (3, "close")),
    // the tree
    bind(S::Tree, &[key(C::Left)], A::Look(-1), "previous round, next round", (2, "rounds")),
    bind(S::Tree, &[key(C::Right)], A::Look(1), "", NO),
    bind(S::Tree, &[key(C::Home)], A::LookFirst, "first round", NO),
    bind(S::Tree, &[key(C::End), char('l')], A::LookLive, "follow the latest round", (3, "live")),
    bind(S::Tree, &[key(C::Up)], A::PanelRow(-1), "scroll the tree up, down", NO),
    bind(S::Tree, &[key(C::Down)], A::PanelRow(1), "", NO),
    bind(S::Tree, &[key(C::PageUp)], A::TreePage(false), "scroll up one page, down one page", NO),
    bind(S::Tree, &[key(C::PageDown)], A::TreePage(true), "", NO),
    bind(
        S::Tree,
        &[char('f')],
        A::Fold,
        "fold rejected branches, then all but the path, then nothing",
        (4, "fold"),
    ),
    // the controls
    bind(
        S::Controls,
        &[key(C::Up)],
        A::PanelRow(-1),
        "previous control, next control",
        (2, "choose"),
    ),
    bind(S::Controls, &[key(C::Down)], A::PanelRow(1), "", NO),
    bind(
        S::Controls,
        &[key(C::Right), char('+'), char('=')],
        A::AdjustHere(1),
        "raise the value, lower it",
        (3, "more"),
    ),
    bind(S::Controls, &[key(C::Left), char('-')], A::AdjustHere(-1), "", (4, "less")),
    bind(S::Controls, &[char('a')], A::ReleaseHere, "set the control to automatic", (5, "auto")),
    // the conversation
    bind(
        S::Chat,
        &[key(C::Up), char('k')],
        A::Scroll(-1),
        "scroll up one row, down one row",
        (2, "scroll"),
    ),
    bind(S::Chat, &[key(C::Down), char('j')], A::Scroll(1), "", NO),
    bind(S::Chat, &[key(C::Home)], A::Top, "first message, end of the conversation", NO),
    bind(S::Chat, &[key(C::End)], A::Follow, "", NO),
    bind(
        S::Chat,
        &[key(C::Left)],
        A::Look(-1),
        "light up the words of the previous round, of the next",
        NO,
    ),
    bind(S::Chat, &[key(C::Right)], A::Look(1), "", NO),
    bind(S::Chat, &[char('y'), char('c')], A::Copy, "copy the last answer", (3, "copy")),
    bind(S::Chat, &[char('r')], A::Regenerate, "answer the last question again", (4, "again")),
    // any panel
    bind(S::Panel, &[char(' ')], A::Pause, "pause, or resume", (5, "pause")),
    bind(S::Panel, &[char('n'), key(C::Enter)], A::Step, "run one round", (6, "step")),
    bind(S::Panel, &[char('g')], A::Adjust(Dial::Gamma, -1), "lower γ (tree size), raise it", NO),
    bind(S::Panel, &[char('G')], A::Adjust(Dial::Gamma, 1), "", (7, "γ up")),
    bind(
        S::Panel,
        &[char('m')],
        A::Adjust(Dial::Blocks, -1),
        "lower M (draft blocks), raise it",
        NO,
    ),
    bind(S::Panel, &[char('M')], A::Adjust(Dial::Blocks, 1), "", NO),
    bind(S::Panel, &[char('w')], A::Adjust(Dial::Width, -1), "lower k (tree width), raise it", NO),
    bind(S::Panel, &[char('W')], A::Adjust(Dial::Width, 1), "", NO),
    bind(S::Panel, &[char('d')], A::Adjust(Dial::Depth, -1), "lower D (tree depth), raise it", NO),
    bind(S::Panel, &[char('D')], A::Adjust(Dial::Depth, 1), "", NO),
    bind(
        S::Panel,
        &[char('t')],
        A::Adjust(Dial::Temperature, -1),
        "lower the temperature, raise it",
        NO,
    ),
    bind(S::Panel, &[char('T')], A::Adjust(Dial::Temperature, 1), "", NO),
    bind(
        S::Panel,
        &[char('x')],
        A::Adjust(Dial::Strategy, 1),
        "next strategy, previous strategy",
        NO,
    ),
    bind(S::Panel, &[char('X')], A::Adjust(Dial::Strategy, -1), "", NO),
    bind(
        S::Panel,
        &[char('p')],
        A::Adjust(Dial::Pace, -1),
        "shorter wait between rounds, longer wait",
        NO,
    ),
    bind(S::Panel, &[char('P')], A::Adjust(Dial::Pace, 1), "", NO),
    bind(S::Panel, &[char('A')], A::Auto, "reset tree settings to automatic", NO),
    bind(S::Panel, &[char('s')], A::Speculate, "turn speculation on or off", NO),
    bind(S::Panel, &[char('o')], A::Marks, "show or hide the marks of accepted tokens", NO),
    bind(S::Panel, &[char('i')], A::FocusInput, "back to the message", (1, "write")),
    bind(S::Panel, &[char('/')], A::BeginCommand, "begin a command", NO),
    bind(S::Panel, &[char('?')], A::Help, "open this help", NO),
    // saved conversations
    bind(S::Sessions, &[f(2)], A::RenameSession, "rename", (3, "rename")),
    bind(
        S::Sessions,
        &[key(C::Delete)],
        A::DeleteSession,
        "delete; it can be restored for a week",
        (4, "delete"),
    ),
    bind(S::Sessions, &[ctrl('r')], A::RestoreSession, "restore the last one deleted", (5, "undo")),
    // overlays
    bind(
        S::Overlay,
        &[key(C::Up), char('k')],
        A::OverlayRow(-1),
        "up one row, down one row",
        (2, "move"),
    ),
    bind(S::Overlay, &[key(C::Down), char('j')], A::OverlayRow(1), "", NO),
    bind(S::Overlay, &[key(C::PageUp)], A::OverlayRow(-10), "up ten rows, down ten rows", NO),
    bind(S::Overlay, &[key(C::PageDown), char(' ')], A::OverlayRow(10), "", NO),
    bind(S::Overlay, &[key(C::Home)], A::OverlayRow(i8::MIN), "first row, last row", NO),
    bind(S::Overlay, &[key(C::End)], A::OverlayRow(i8::MAX), "", NO),
    bind(S::Overlay, &[ctrl('u')], A::OverlayClear, "delete what was typed", NO),
    bind(S::Overlay, &[key(C::Enter)], A::OverlayTake, "open the selected row, or close", NO),
    bind(
        S::Overlay,
        &[key(C::Esc), char('q'), f(1), ctrl('c')],
        A::OverlayClose,
        "close, or go back in the help",
        (1, "close"),
    ),
    bind(S::Overlay, &[ctrl('z')], A::Suspend, "suspend; `fg` in the shell returns here", NO),
    bind(S::Overlay, &[ctrl('q')], A::Quit, "save the conversation and quit", NO),
];
