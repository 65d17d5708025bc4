//! The table of keys itself. Must never know how a key is found in it.

use crossterm::event::{KeyCode, KeyModifiers};

use super::{Action, Binding, KeyPress, Scope};
use crate::tui::state::{Dial, ModelPart};

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
    bind(
        S::Input,
        &[alt(C::Enter), ctrl('j'), shift(C::Enter)],
        A::Newline,
        "new line",
        (12, "new line"),
    ),
    bind(S::Input, &[alt(C::Char('w'))], A::Editor, "write it in $VISUAL or $EDITOR", NO),
    bind(S::Input, &[ctrl('d')], A::DeleteOrQuit, "delete a character; quit if there is none", NO),
    // everywhere
    bind(
        S::Global,
        &[key(C::Esc)],
        A::Escape,
        "stop answer or load; else to the message",
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
    bind(S::Global, &[ctrl('p')], A::Strategies, "choose a strategy", (19, "strategy")),
    bind(
        S::Global,
        &[ctrl('n')],
        A::Models(ModelPart::Target),
        "choose a model, a draft for it",
        (28, "model"),
    ),
    bind(S::Global, &[ctrl('g')], A::Models(ModelPart::Draft), "", NO),
    bind(S::Global, &[f(8)], A::Auto, "give γ, M, k and D back to automatic", (24, "auto")),
    bind(S::Global, &[f(9)], A::Marks, "show or hide where tokens came from", (27, "marks")),
    bind(S::Global, &[alt(C::Up)], A::Adjust(Dial::Gamma, 1), "γ up, down", NO),
    bind(S::Global, &[alt(C::Down)], A::Adjust(Dial::Gamma, -1), "", NO),
    bind(S::Global, &[alt(C::Right)], A::Adjust(Dial::Blocks, 1), "M up, down", NO),
    bind(S::Global, &[alt(C::Left)], A::Adjust(Dial::Blocks, -1), "", NO),
    bind(S::Global, &[key(C::Tab)], A::FocusNext, "next panel, panel before", (14, "panels")),
    bind(S::Global, &[key(C::BackTab)], A::FocusBack, "", NO),
    bind(S::Global, &[key(C::PageUp)], A::Page(false), "scroll the conversation", NO),
    bind(S::Global, &[key(C::PageDown)], A::Page(true), "", NO),
    bind(S::Global, &[ctrl_key(C::Up)], A::Scroll(-1), "scroll by one row", NO),
    bind(S::Global, &[ctrl_key(C::Down)], A::Scroll(1), "", NO),
    bind(S::Global, &[ctrl_key(C::Home)], A::Top, "to the first message; follow the end again", NO),
    bind(S::Global, &[ctrl_key(C::End)], A::Follow, "", (8, "follow")),
    bind(S::Global, &[ctrl('r')], A::Regenerate, "another version of the answer", (25, "again")),
    bind(
        S::Global,
        &[alt(C::Char(','))],
        A::Version(-1),
        "version of the answer before, after",
        (18, "versions"),
    ),
    bind(S::Global, &[alt(C::Char('.'))], A::Version(1), "", NO),
    bind(S::Global, &[alt(C::Char('e'))], A::EditQuestion, "write one of your messages anew", NO),
    bind(S::Global, &[ctrl('y')], A::Copy, "copy the last answer", NO),
    bind(S::Global, &[alt(C::Char('y'))], A::CopyMessage, "copy any message", NO),
    bind(S::Global, &[ctrl('o')], A::Thoughts, "show or fold what the model thought", NO),
    bind(S::Global, &[f(12)], A::Race, "race: plain against speculative", (17, "race")),
    bind(S::Global, &[ctrl('s')], A::Sessions, "saved conversations", (29, "conversations")),
    bind(S::Global, &[ctrl('t')], A::Theme, "next theme", NO),
    bind(S::Global, &[ctrl('l')], A::Redraw, "draw the screen anew", NO),
    bind(S::Global, &[ctrl('z')], A::Suspend, "suspend to the shell; fg comes back", NO),
    bind(
        S::Global,
        &[ctrl('c')],
        A::Interrupt,
        "stop; else put the message aside; else quit",
        (15, "quit"),
    ),
    bind(S::Global, &[ctrl('q')], A::Quit, "save and quit", (30, "quit")),
    // the questions of an empty chat
    bind(
        S::Starters,
        &[key(C::Down)],
        A::StarterMove(1),
        "choose a question; Enter sends it",
        (10, "choose"),
    ),
    bind(S::Starters, &[key(C::Up)], A::StarterMove(-1), "", NO),
    bind(S::Starters, &[char('1')], A::StarterTake(0), "write that question", NO),
    bind(S::Starters, &[char('2')], A::StarterTake(1), "", NO),
    bind(S::Starters, &[char('3')], A::StarterTake(2), "", NO),
    // the command list
    bind(S::Completion, &[key(C::Tab)], A::Complete, "write the command or path", (1, "complete")),
    bind(
        S::Completion,
        &[key(C::Down)],
        A::Suggestion(1),
        "the next one, the one before",
        (2, "choose"),
    ),
    bind(S::Completion, &[key(C::Up)], A::Suggestion(-1), "", NO),
    bind(S::Completion, &[key(C::Esc)], A::Dismiss, "close the list", (3, "close")),
    // the tree
    bind(S::Tree, &[key(C::Left)], A::Look(-1), "the round before, after", (2, "rounds")),
    bind(S::Tree, &[key(C::Right)], A::Look(1), "", NO),
    bind(S::Tree, &[key(C::Home)], A::LookFirst, "the first round", NO),
    bind(S::Tree, &[key(C::End), char('l')], A::LookLive, "follow the latest round", (3, "live")),
    bind(S::Tree, &[key(C::Up)], A::PanelRow(-1), "scroll the tree", NO),
    bind(S::Tree, &[key(C::Down)], A::PanelRow(1), "", NO),
    bind(S::Tree, &[key(C::PageUp)], A::TreePage(false), "scroll by a screenful", NO),
    bind(S::Tree, &[key(C::PageDown)], A::TreePage(true), "", NO),
    bind(S::Tree, &[char('f')], A::Fold, "fold dead branches, all but the path, none", (4, "fold")),
    // the controls
    bind(S::Controls, &[key(C::Up)], A::PanelRow(-1), "the control before, after", (2, "choose")),
    bind(S::Controls, &[key(C::Down)], A::PanelRow(1), "", NO),
    bind(
        S::Controls,
        &[key(C::Right), char('+'), char('=')],
        A::AdjustHere(1),
        "up, down",
        (3, "more"),
    ),
    bind(S::Controls, &[key(C::Left), char('-')], A::AdjustHere(-1), "", (4, "less")),
    bind(S::Controls, &[char('a')], A::ReleaseHere, "automatic again", (5, "auto")),
    // the conversation
    bind(S::Chat, &[key(C::Up), char('k')], A::Scroll(-1), "scroll by one row", (2, "scroll")),
    bind(S::Chat, &[key(C::Down), char('j')], A::Scroll(1), "", NO),
    bind(S::Chat, &[key(C::Home)], A::Top, "to the first message; follow the end again", NO),
    bind(S::Chat, &[key(C::End)], A::Follow, "", NO),
    bind(S::Chat, &[key(C::Left)], A::Look(-1), "the words of the round before, after", NO),
    bind(S::Chat, &[key(C::Right)], A::Look(1), "", NO),
    bind(S::Chat, &[char('y'), char('c')], A::Copy, "copy the last answer", (3, "copy")),
    bind(S::Chat, &[char('r')], A::Regenerate, "answer the last question again", (4, "again")),
    // any panel
    bind(S::Panel, &[char(' ')], A::Pause, "pause, or go on", (5, "pause")),
    bind(S::Panel, &[char('n'), key(C::Enter)], A::Step, "one round further", (6, "step")),
    bind(S::Panel, &[char('g')], A::Adjust(Dial::Gamma, -1), "γ down, up", NO),
    bind(S::Panel, &[char('G')], A::Adjust(Dial::Gamma, 1), "", (7, "γ up")),
    bind(S::Panel, &[char('m')], A::Adjust(Dial::Blocks, -1), "M down, up", NO),
    bind(S::Panel, &[char('M')], A::Adjust(Dial::Blocks, 1), "", NO),
    bind(S::Panel, &[char('w')], A::Adjust(Dial::Width, -1), "k down, up", NO),
    bind(S::Panel, &[char('W')], A::Adjust(Dial::Width, 1), "", NO),
    bind(S::Panel, &[char('d')], A::Adjust(Dial::Depth, -1), "D down, up", NO),
    bind(S::Panel, &[char('D')], A::Adjust(Dial::Depth, 1), "", NO),
    bind(S::Panel, &[char('t')], A::Adjust(Dial::Temperature, -1), "temperature down, up", NO),
    bind(S::Panel, &[char('T')], A::Adjust(Dial::Temperature, 1), "", NO),
    bind(
        S::Panel,
        &[char('x')],
        A::Adjust(Dial::Strategy, 1),
        "next strategy, strategy before",
        NO,
    ),
    bind(S::Panel, &[char('X')], A::Adjust(Dial::Strategy, -1), "", NO),
    bind(
        S::Panel,
        &[char('p')],
        A::Adjust(Dial::Pace, -1),
        "faster, slower: wait after rounds",
        NO,
    ),
    bind(S::Panel, &[char('P')], A::Adjust(Dial::Pace, 1), "", NO),
    bind(S::Panel, &[char('A')], A::Auto, "give γ, M, k and D back to automatic", NO),
    bind(S::Panel, &[char('s')], A::Speculate, "speculation on or off", NO),
    bind(S::Panel, &[char('o')], A::Marks, "show or hide where tokens came from", NO),
    bind(S::Panel, &[char('i')], A::FocusInput, "back to the message", (1, "write")),
    bind(S::Panel, &[char('/')], A::BeginCommand, "begin a command in the message", NO),
    bind(S::Panel, &[char('?')], A::Help, "this help", NO),
    // saved conversations
    bind(S::Sessions, &[f(2)], A::RenameSession, "give another title", (3, "rename")),
    bind(
        S::Sessions,
        &[key(C::Delete)],
        A::DeleteSession,
        "delete; kept for a week",
        (4, "delete"),
    ),
    bind(S::Sessions, &[ctrl('u')], A::RestoreSession, "bring back what was deleted", (5, "undo")),
    // overlays
    bind(S::Overlay, &[key(C::Up), char('k')], A::OverlayRow(-1), "up, down", (2, "move")),
    bind(S::Overlay, &[key(C::Down), char('j')], A::OverlayRow(1), "", NO),
    bind(S::Overlay, &[key(C::PageUp)], A::OverlayRow(-10), "scroll by ten rows", NO),
    bind(S::Overlay, &[key(C::PageDown), char(' ')], A::OverlayRow(10), "", NO),
    bind(S::Overlay, &[key(C::Enter)], A::OverlayTake, "open, or close", NO),
    bind(
        S::Overlay,
        &[key(C::Esc), char('q'), f(1), ctrl('c')],
        A::OverlayClose,
        "close",
        (1, "close"),
    ),
    bind(S::Overlay, &[ctrl('z')], A::Suspend, "suspend to the shell; fg comes back", NO),
    bind(S::Overlay, &[ctrl('q')], A::Quit, "save and quit", NO),
];
