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
    name: &'static str,
    keys: &'static [KeyPress],
    action: Action,
    help: &'static str,
) -> Binding {
    Binding { scope, name, keys, action, help, hint: (0, ""), first: 0 }
}

impl Binding {
    /// The row with its place in the hints line, and its word there.
    const fn hint(self, place: u8, word: &'static str) -> Self {
        Self { hint: (place, word), ..self }
    }

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

use {Action as A, KeyCode as C, Scope as S};

/// Every key of the program.
#[rustfmt::skip] // A row per key.
pub const BINDINGS: &[Binding] = &[
    // writing
    bind(S::Input, "send", &[key(C::Enter)], A::Send, "send the message").hint(10, "send").first(1),
    bind(S::Input, "new_line", &[alt(C::Enter), ctrl('j'), shift(C::Enter)], A::Newline,
        "start a new line").hint(12, "new line").first(2),
    bind(S::Input, "editor", &[alt(C::Char('w'))], A::Editor,
        "write the message in $VISUAL or $EDITOR"),
    bind(S::Input, "delete_or_quit", &[ctrl('d')], A::DeleteOrQuit,
        "delete a character; if there is none, quit"),
    // everywhere
    bind(S::Global, "stop", &[key(C::Esc)], A::Escape,
        "leave a panel; stop the answer or the loading").hint(11, "stop").first(5),
    bind(S::Global, "help", &[f(1)], A::Help, "open this help").hint(13, "help"),
    bind(S::Global, "layout", &[f(2)], A::Layout,
        "next layout: the chat alone, with the draft tree, or the lab")
        .hint(20, "layout").first(10),
    bind(S::Global, "meters", &[f(3)], A::Meters, "show or hide the meters").hint(21, "meters"),
    bind(S::Global, "controls", &[f(4)], A::Controls, "show or hide the controls")
        .hint(22, "controls"),
    bind(S::Global, "pause", &[f(5)], A::Pause, "pause after each round, or resume")
        .hint(23, "pause"),
    bind(S::Global, "step", &[f(6)], A::Step, "run one round, then pause").hint(9, "step"),
    bind(S::Global, "speculate", &[f(7)], A::Speculate,
        "turn speculation on or off; the text is the same").hint(26, "speculation"),
    bind(S::Global, "strategy", &[ctrl('p')], A::Strategies, "choose a strategy")
        .hint(19, "strategy"),
    bind(S::Global, "model", &[ctrl('n')], A::Models(ModelPart::Target),
        "choose a model, choose a draft for it").hint(28, "model").first(8),
    bind(S::Global, "draft", &[ctrl('g')], A::Models(ModelPart::Draft), ""),
    bind(S::Global, "auto", &[f(8)], A::Auto, "reset tree settings to automatic").hint(24, "auto"),
    bind(S::Global, "marks", &[f(9)], A::Marks, "show or hide the marks of accepted tokens")
        .hint(27, "marks"),
    bind(S::Global, "heat", &[f(10)], A::Heat,
        "show or hide how surprising each answer was to the target"),
    bind(S::Global, "gamma_up", &[alt(C::Up)], A::Adjust(Dial::Gamma, 1),
        "raise γ (tree size), lower it"),
    bind(S::Global, "gamma_down", &[alt(C::Down)], A::Adjust(Dial::Gamma, -1), ""),
    bind(S::Global, "blocks_up", &[alt(C::Right)], A::Adjust(Dial::Blocks, 1),
        "raise M (draft blocks), lower it"),
    bind(S::Global, "blocks_down", &[alt(C::Left)], A::Adjust(Dial::Blocks, -1), ""),
    bind(S::Global, "panel_next", &[key(C::Tab)], A::FocusNext,
        "keyboard to the next panel, to the previous one").hint(14, "panels"),
    bind(S::Global, "panel_before", &[key(C::BackTab)], A::FocusBack, ""),
    bind(S::Global, "page_up", &[key(C::PageUp)], A::Page(false), "scroll the conversation")
        .first(6),
    bind(S::Global, "page_down", &[key(C::PageDown)], A::Page(true), ""),
    bind(S::Global, "row_up", &[ctrl_key(C::Up)], A::Scroll(-1), "scroll up one row, down one row"),
    bind(S::Global, "row_down", &[ctrl_key(C::Down)], A::Scroll(1), ""),
    bind(S::Global, "top", &[ctrl_key(C::Home)], A::Top, "first message, end of the conversation"),
    bind(S::Global, "end", &[ctrl_key(C::End)], A::Follow, "").hint(8, "follow"),
    bind(S::Global, "regenerate", &[ctrl('r')], A::Regenerate,
        "write another version of the answer").hint(25, "again").first(7),
    bind(S::Global, "version_before", &[alt(C::Char(','))], A::Version(-1),
        "previous version of the answer, next version").hint(18, "versions"),
    bind(S::Global, "version_after", &[alt(C::Char('.'))], A::Version(1), ""),
    bind(S::Global, "edit", &[alt(C::Char('e'))], A::EditQuestion, "edit an earlier message"),
    bind(S::Global, "copy", &[ctrl('y')], A::Copy, "copy the last answer"),
    bind(S::Global, "copy_message", &[alt(C::Char('y'))], A::CopyMessage,
        "choose a message to copy"),
    bind(S::Global, "thoughts", &[ctrl('o')], A::Thoughts, "show or fold the model's thoughts"),
    bind(S::Global, "race", &[f(12)], A::Race,
        "race: the last question with and without speculation").hint(17, "race"),
    bind(S::Global, "conversations", &[ctrl('s')], A::Sessions, "open a saved conversation")
        .hint(29, "conversations").first(9),
    bind(S::Global, "theme", &[ctrl('t')], A::Theme, "next colour theme"),
    bind(S::Global, "redraw", &[ctrl('l')], A::Redraw, "redraw the screen"),
    bind(S::Global, "suspend", &[ctrl('z')], A::Suspend, "suspend; `fg` in the shell returns here"),
    bind(S::Global, "interrupt", &[ctrl('c')], A::Interrupt,
        "stop, then clear the message, then quit").hint(15, "quit").first(11),
    bind(S::Global, "quit", &[ctrl('q')], A::Quit, "save the conversation and quit")
        .hint(30, "quit"),
    // the questions of an empty chat
    bind(S::Starters, "empty_down", &[key(C::Down)], A::StarterMove(1),
        "choose a question to start with; Enter sends it").hint(10, "choose"),
    bind(S::Starters, "empty_up", &[key(C::Up)], A::StarterMove(-1), ""),
    bind(S::Starters, "empty_question_1", &[char('1')], A::StarterTake(0),
        "put that question into the message"),
    bind(S::Starters, "empty_question_2", &[char('2')], A::StarterTake(1), ""),
    bind(S::Starters, "empty_question_3", &[char('3')], A::StarterTake(2), ""),
    // the command list
    bind(S::Completion, "completion_complete", &[key(C::Tab)], A::Complete,
        "complete the command or path").hint(1, "complete"),
    bind(S::Completion, "completion_down", &[key(C::Down)], A::Suggestion(1),
        "next suggestion, previous suggestion").hint(2, "choose"),
    bind(S::Completion, "completion_up", &[key(C::Up)], A::Suggestion(-1), ""),
    bind(S::Completion, "completion_close", &[key(C::Esc)], A::Dismiss, "close the list")
        .hint(3, "close"),
    // the tree
    bind(S::Tree, "tree_round_before", &[key(C::Left)], A::Look(-1), "previous round, next round")
        .hint(2, "rounds"),
    bind(S::Tree, "tree_round_after", &[key(C::Right)], A::Look(1), ""),
    bind(S::Tree, "tree_word_before", &[shift(C::Left)], A::LookWord(-1),
        "previous word of the answer, next word"),
    bind(S::Tree, "tree_word_after", &[shift(C::Right)], A::LookWord(1), ""),
    bind(S::Tree, "tree_first_round", &[key(C::Home)], A::LookFirst, "first round"),
    bind(S::Tree, "tree_live", &[key(C::End), char('l')], A::LookLive, "follow the latest round")
        .hint(3, "live"),
    bind(S::Tree, "tree_up", &[key(C::Up)], A::PanelRow(-1), "scroll the tree up, down"),
    bind(S::Tree, "tree_down", &[key(C::Down)], A::PanelRow(1), ""),
    bind(S::Tree, "tree_page_up", &[key(C::PageUp)], A::TreePage(false),
        "scroll up one page, down one page"),
    bind(S::Tree, "tree_page_down", &[key(C::PageDown)], A::TreePage(true), ""),
    bind(S::Tree, "tree_fold", &[char('f')], A::Fold,
        "fold rejected branches, then all but the path, then nothing").hint(4, "fold"),
    // the controls
    bind(S::Controls, "controls_up", &[key(C::Up)], A::PanelRow(-1),
        "previous control, next control").hint(2, "choose"),
    bind(S::Controls, "controls_down", &[key(C::Down)], A::PanelRow(1), ""),
    bind(S::Controls, "controls_more", &[key(C::Right), char('+'), char('=')], A::AdjustHere(1),
        "raise the value, lower it").hint(3, "more"),
    bind(S::Controls, "controls_less", &[key(C::Left), char('-')], A::AdjustHere(-1), "")
        .hint(4, "less"),
    bind(S::Controls, "controls_auto", &[char('a')], A::ReleaseHere, "set the control to automatic")
        .hint(5, "auto"),
    // the conversation
    bind(S::Chat, "chat_row_up", &[key(C::Up), char('k')], A::Scroll(-1),
        "scroll up one row, down one row").hint(2, "scroll"),
    bind(S::Chat, "chat_row_down", &[key(C::Down), char('j')], A::Scroll(1), ""),
    bind(S::Chat, "chat_top", &[key(C::Home)], A::Top, "first message, end of the conversation"),
    bind(S::Chat, "chat_end", &[key(C::End)], A::Follow, ""),
    bind(S::Chat, "chat_word_before", &[key(C::Left)], A::LookWord(-1),
        "what target and draft wanted for the previous word, for the next"),
    bind(S::Chat, "chat_word_after", &[key(C::Right)], A::LookWord(1), ""),
    bind(S::Chat, "chat_files", &[key(C::Enter)], A::Files, "open long files in messages, or fold"),
    bind(S::Chat, "chat_copy", &[char('y'), char('c')], A::Copy, "copy the last answer")
        .hint(3, "copy"),
    bind(S::Chat, "chat_edit", &[char('e')], A::EditQuestion,
        "edit the message of the answer looked at, branch off after it"),
    bind(S::Chat, "chat_branch", &[char('b')], A::Branch, ""),
    bind(S::Chat, "chat_regenerate", &[char('r')], A::Regenerate, "answer the last question again")
        .hint(4, "again"),
    // any panel
    bind(S::Panel, "panel_pause", &[char(' ')], A::Pause, "pause, or resume").hint(5, "pause"),
    bind(S::Panel, "panel_step", &[char('n'), key(C::Enter)], A::Step, "run one round")
        .hint(6, "step"),
    bind(S::Panel, "panel_token_1", &[char('1')], A::Force(0),
        "continue from another of the target's ten tokens"),
    bind(S::Panel, "panel_token_2", &[char('2')], A::Force(1), ""),
    bind(S::Panel, "panel_token_3", &[char('3')], A::Force(2), ""),
    bind(S::Panel, "panel_token_4", &[char('4')], A::Force(3), ""),
    bind(S::Panel, "panel_token_5", &[char('5')], A::Force(4), ""),
    bind(S::Panel, "panel_token_6", &[char('6')], A::Force(5), ""),
    bind(S::Panel, "panel_token_7", &[char('7')], A::Force(6), ""),
    bind(S::Panel, "panel_token_8", &[char('8')], A::Force(7), ""),
    bind(S::Panel, "panel_token_9", &[char('9')], A::Force(8), ""),
    bind(S::Panel, "panel_token_10", &[char('0')], A::Force(9), ""),
    bind(S::Panel, "panel_gamma_down", &[char('g')], A::Adjust(Dial::Gamma, -1),
        "lower γ (tree size), raise it"),
    bind(S::Panel, "panel_gamma_up", &[char('G')], A::Adjust(Dial::Gamma, 1), "").hint(7, "γ"),
    bind(S::Panel, "panel_blocks_down", &[char('m')], A::Adjust(Dial::Blocks, -1),
        "lower M (draft blocks), raise it"),
    bind(S::Panel, "panel_blocks_up", &[char('M')], A::Adjust(Dial::Blocks, 1), ""),
    bind(S::Panel, "panel_width_down", &[char('w')], A::Adjust(Dial::Width, -1),
        "lower k (tree width), raise it"),
    bind(S::Panel, "panel_width_up", &[char('W')], A::Adjust(Dial::Width, 1), ""),
    bind(S::Panel, "panel_depth_down", &[char('d')], A::Adjust(Dial::Depth, -1),
        "lower D (tree depth), raise it"),
    bind(S::Panel, "panel_depth_up", &[char('D')], A::Adjust(Dial::Depth, 1), ""),
    bind(S::Panel, "panel_temperature_down", &[char('t')], A::Adjust(Dial::Temperature, -1),
        "lower the temperature, raise it"),
    bind(S::Panel, "panel_temperature_up", &[char('T')], A::Adjust(Dial::Temperature, 1), ""),
    bind(S::Panel, "panel_strategy_up", &[char('x')], A::Adjust(Dial::Strategy, 1),
        "next strategy, previous strategy"),
    bind(S::Panel, "panel_strategy_down", &[char('X')], A::Adjust(Dial::Strategy, -1), ""),
    bind(S::Panel, "panel_pace_down", &[char('p')], A::Adjust(Dial::Pace, -1),
        "shorter wait between rounds, longer wait"),
    bind(S::Panel, "panel_pace_up", &[char('P')], A::Adjust(Dial::Pace, 1), ""),
    bind(S::Panel, "panel_auto", &[char('A')], A::Auto, "reset tree settings to automatic"),
    bind(S::Panel, "panel_speculate", &[char('s')], A::Speculate, "turn speculation on or off"),
    bind(S::Panel, "panel_marks", &[char('o')], A::Marks,
        "show or hide the marks of accepted tokens"),
    bind(S::Panel, "panel_message", &[char('i')], A::FocusInput, "back to the message")
        .hint(1, "write"),
    bind(S::Panel, "panel_command", &[char('/')], A::BeginCommand, "begin a command"),
    bind(S::Panel, "panel_help", &[char('?')], A::Help, "open this help"),
    // saved conversations
    bind(S::Sessions, "conversations_rename", &[f(2)], A::RenameSession, "rename")
        .hint(3, "rename"),
    bind(S::Sessions, "conversations_delete", &[key(C::Delete)], A::DeleteSession,
        "delete; it can be restored for a week").hint(4, "delete"),
    bind(S::Sessions, "conversations_undo", &[ctrl('r')], A::RestoreSession,
        "restore the last one deleted").hint(5, "undo"),
    // overlays
    bind(S::Overlay, "list_up", &[key(C::Up), char('k')], A::OverlayRow(-1),
        "up one row, down one row").hint(2, "move"),
    bind(S::Overlay, "list_down", &[key(C::Down), char('j')], A::OverlayRow(1), ""),
    bind(S::Overlay, "list_page_up", &[key(C::PageUp)], A::OverlayRow(-10),
        "up ten rows, down ten rows"),
    bind(S::Overlay, "list_page_down", &[key(C::PageDown), char(' ')], A::OverlayRow(10), ""),
    bind(S::Overlay, "list_first", &[key(C::Home)], A::OverlayRow(isize::MIN),
        "first row, last row"),
    bind(S::Overlay, "list_last", &[key(C::End)], A::OverlayRow(isize::MAX), ""),
    bind(S::Overlay, "list_clear", &[ctrl('u')], A::OverlayClear, "delete what was typed"),
    bind(S::Overlay, "list_take", &[key(C::Enter)], A::OverlayTake,
        "open the selected row, or close"),
    bind(S::Overlay, "list_close", &[key(C::Esc), char('q'), f(1), ctrl('c')], A::OverlayClose,
        "close, or go back in the help").hint(1, "close"),
    bind(S::Overlay, "list_suspend", &[ctrl('z')], A::Suspend,
        "suspend; `fg` in the shell returns here"),
    bind(S::Overlay, "list_quit", &[ctrl('q')], A::Quit, "save the conversation and quit"),
];
