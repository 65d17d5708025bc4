//! What happens to the screen, and what it wants done. Must never know how either is carried out.

use crossterm::event::KeyEvent;

use crate::chat::{Extras, LeftOut, Saved, SavedChat, SavedTurn, SessionHead};
use crate::hardware::Usage;
use crate::tui::actions::ModelPart;
use crate::tui::effects::presets::Preset;
use crate::tui::models::ModelRow;
use crate::tui::pictures::{Graphics, Picture, PictureRequest};
use crate::tui::theme::ThemeName;
use crate::worker::{Command, Controls, Event, ModelChoice};

/// A file by its path in the message: its text, or why there is none.
pub type NamedFile = (String, Result<String, String>);

/// What became of the mouse's left button.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Button {
    /// It was pressed.
    Pressed,
    /// The pointer was moved while it is held.
    Moved,
    /// It was released.
    Released,
}

/// What a replay asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// An answer to this question.
    Question(String),
    /// The rest of the answer that was cut off, or another answer to the last question.
    GoOn,
    /// Another answer to the last question.
    Again,
    /// The same with this token forced in the place of token number `at` of the last answer.
    Forced { at: usize, token: u32 },
}

/// An input of the screen.
#[derive(Clone, Debug)]
pub enum ScreenEvent {
    /// A key was pressed.
    Key(KeyEvent),
    /// Several characters were typed, faster than one by one: by a terminal that sends a paste as
    /// keys.
    Typed(Vec<KeyEvent>),
    /// A whole line was typed where lines are the view: a message, a command, or a number of a
    /// list.
    Line(String),
    /// Ctrl+C was pressed there.
    Interrupt,
    /// Text was pasted.
    Paste(String),
    /// What a replay asks next, while nothing is being answered.
    Ask(Asked),
    /// The wheel was turned; rows, down if positive.
    Wheel(i8),
    /// The mouse's left button, at this column and row.
    Button(Button, u16, u16),
    /// The mouse points at this round of the clock, or at none any more.
    Pointed(Option<usize>),
    /// The terminal's window has the focus, or has lost it.
    Focused(bool),
    /// The terminal's background asks for these colours.
    Background(ThemeName),
    /// The terminal shows images.
    Graphics(Graphics),
    /// The terminal has this many columns and rows.
    Resize(u16, u16),
    /// The worker says something.
    Worker(Event),
    /// The decode thread is gone; why, if it is known.
    WorkerGone(Option<String>),
    /// What the machine is doing.
    Usage(Usage),
    /// Time has passed.
    Tick,
    /// Where the conversation was saved, or why it was not; if the user asked for it, success is
    /// reported too.
    Saved { asked: bool, result: Result<Saved, String> },
    /// Saved conversations.
    Sessions(Vec<SessionHead>),
    /// The models on this machine that can be chosen for this part.
    Models { part: ModelPart, rows: Vec<ModelRow> },
    /// A saved conversation, or why it cannot be read.
    Loaded(Result<SavedChat, String>),
    /// The conversation of this name was deleted.
    SessionDeleted(String),
    /// A conversation of another program's file, and what of the file has no place here.
    Imported(SavedChat, LeftOut),
    /// A file for the message.
    FileRead { name: String, text: String },
    /// The names in a folder, as it is written.
    Folder(String, Vec<String>),
    /// The images that messages name; `None` for each that cannot be read.
    PicturesRead(PictureRequest, Vec<Option<Picture>>),
    /// The files that the words of a message name.
    NamedRead { message: String, files: Vec<NamedFile> },
    /// The message as the editor left it, or why it stays as it was.
    Edited(Result<String, String>),
    /// A preset and its name.
    PresetFound(String, Preset),
    /// The message that was left unsent before the first question.
    Unsent(String),
    /// What came of something that the user wanted.
    Told(String),
    /// Why something that the user wanted was not done.
    Failed(String),
    /// Leaving would lose something, and why.
    NotLeft(String),
    /// A signal wants the process to end.
    Terminate,
}

/// Something to be done outside the state.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send a command to the worker.
    Send(Command),
    /// Put these controls into force. Precedes the `Send` it belongs to.
    Apply(Controls),
    /// Save the conversation, with what there is next to its messages; if the user asked for it,
    /// success is reported too.
    Save { turns: Vec<SavedTurn>, extras: Extras, asked: bool },
    /// Save this message, which belongs to no conversation yet, for the next start; `None` deletes
    /// the one that was saved.
    KeepUnsent(Option<String>),
    /// Keep this text in the note of this name for the next start.
    Remember(&'static str, String),
    /// What is saved from now on is another conversation.
    Forget,
    /// What is saved from now on is a branch of what was saved before; how many messages both have,
    /// the system message counted.
    Branch { messages: usize },
    /// List saved conversations, or the open one and all that have branched off from each other.
    List { branches: bool },
    /// Read the conversation of this name or with this beginning of a title.
    Load(String),
    /// What is saved from now on is the conversation that was read, in the file of this name.
    Adopt(Option<String>),
    /// Give the saved conversation of this name in the store another title.
    RenameSession { id: String, title: String },
    /// Delete the saved conversation of this name.
    DeleteSession(String),
    /// Bring it back; `None` brings back the one that was deleted last.
    RestoreSession(Option<String>),
    /// Write the conversation to a file, as text in the format that the file's name says.
    Export { path: String, text: String },
    /// Read a conversation from such a file.
    Import(String),
    /// Read a text file for the message.
    ReadFile(String),
    /// List a folder, for paths that begin like one.
    ListFolder(String),
    /// Read the files that the words of a message name.
    ReadNamed { message: String, paths: Vec<String> },
    /// Open this message in the user's editor.
    Edit(String),
    /// Look for this preset.
    TakePreset(String),
    /// Save a preset under a name.
    SavePreset(String, Preset),
    /// Say which presets there are.
    ListPresets,
    /// Look for models that can be chosen for this part in the place of those in use. `busy` while
    /// an answer is being made: nothing can be measured then.
    FindModels { part: ModelPart, models: ModelChoice, busy: bool },
    /// Put this on the clipboard.
    Copy(String),
    /// Send the terminal this, which tells the user that an answer has ended.
    Ring(String),
    /// Whether the mouse is the program's.
    Mouse(bool),
    /// Redraw every cell: another program has written on the terminal.
    Redraw,
    /// Send the terminal the data of images.
    Put(String),
    /// Give the terminal back to the shell until the program is resumed.
    Suspend,
    /// Leave, `anyway` even if something could not be saved. Comes last.
    Quit { anyway: bool },
}
