//! The names by which the settings know keys: where a key works, except for the message and
//! everywhere, and what it does. Must never know which key it is.

use super::{A, Binding, S, Scope};
use crate::tui::actions::{Action, Dial, ModelPart};

impl Binding {
    /// Its name in the table `[keys]` of the settings, unlike any other.
    pub fn name(&self) -> String {
        format!("{}{}", place(self.scope), action(self.action))
    }
}

fn place(scope: Scope) -> &'static str {
    match scope {
        S::Input | S::Global => "",
        S::Completion => "completion_",
        S::Starters => "empty_",
        S::Panel => "panel_",
        S::Chat => "chat_",
        S::Tree => "tree_",
        S::Controls => "controls_",
        S::Sessions => "conversations_",
        S::Overlay => "list_",
    }
}

/// One of two words, for a step back or forward.
fn way(by: i8, back: &'static str, on: &'static str) -> &'static str {
    if by < 0 { back } else { on }
}

fn dial(dial: Dial) -> &'static str {
    match dial {
        Dial::Strategy => "strategy",
        Dial::Gamma => "gamma",
        Dial::Blocks => "blocks",
        Dial::Width => "width",
        Dial::Depth => "depth",
        Dial::Temperature => "temperature",
        Dial::Pace => "pace",
    }
}

fn action(action: Action) -> String {
    let word = match action {
        A::Send => "send",
        A::Newline => "new_line",
        A::Editor => "editor",
        A::Escape => "stop",
        A::Interrupt => "interrupt",
        A::DeleteOrQuit => "delete_or_quit",
        A::Quit => "quit",
        A::Help => "help",
        A::Details => "details",
        A::Tree => "tree",
        A::Meters => "meters",
        A::Controls => "controls",
        A::FocusNext => "panel_next",
        A::FocusBack => "panel_before",
        A::FocusInput => "message",
        A::BeginCommand => "command",
        A::Pause => "pause",
        A::Step => "step",
        A::Speculate => "speculate",
        A::Strategies => "strategy",
        A::Models(ModelPart::Target) => "model",
        A::Models(ModelPart::Draft) => "draft",
        A::Auto => "auto",
        A::Marks => "marks",
        A::Thoughts => "thoughts",
        A::Theme => "theme",
        A::Redraw => "redraw",
        A::Suspend => "suspend",
        A::Regenerate => "regenerate",
        A::GoOn => "continue",
        A::EditQuestion => "edit",
        A::Branch => "branch",
        A::DeleteExchange => "delete",
        A::Undelete => "undo",
        A::Version(by) => way(by, "version_before", "version_after"),
        A::Race => "race",
        A::Sessions => "conversations",
        A::RenameSession => "rename",
        A::DeleteSession => "delete",
        A::RestoreSession => "undo",
        A::Copy => "copy",
        A::CopyMessage => "copy_message",
        A::Scroll(by) => way(by, "row_up", "row_down"),
        A::Page(false) | A::TreePage(false) => "page_up",
        A::Page(true) | A::TreePage(true) => "page_down",
        A::Top => "top",
        A::Follow => "end",
        A::Adjust(which, by) => return format!("{}_{}", dial(which), way(by, "down", "up")),
        A::PanelRow(by) | A::StarterMove(by) | A::Suggestion(by) => way(by, "up", "down"),
        A::AdjustHere(by) => way(by, "less", "more"),
        A::ReleaseHere => "auto",
        A::Look(by) => way(by, "round_before", "round_after"),
        A::LookFirst => "first_round",
        A::LookLive => "live",
        A::Fold => "fold",
        A::StarterTake(at) => return format!("question_{}", at + 1),
        A::Complete => "complete",
        A::Dismiss | A::OverlayClose => "close",
        A::OverlayRow(by @ (-1 | 1)) => way(by, "up", "down"),
        A::OverlayRow(i8::MIN) => "first",
        A::OverlayRow(i8::MAX) => "last",
        A::OverlayRow(by) => way(by, "page_up", "page_down"),
        A::OverlayClear => "clear",
        A::OverlayTake => "take",
    };
    word.to_string()
}
