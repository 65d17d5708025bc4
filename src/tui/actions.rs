//! What keys and commands do, and on what: the words that the tables of keys and commands and the
//! screen's state share. Must never know any of them.

impl Action {
    /// Whether it needs a model, which a replay does not have.
    pub fn wants_model(self) -> bool {
        matches!(
            self,
            Self::Regenerate
                | Self::Force(_)
                | Self::GoOn
                | Self::EditQuestion
                | Self::Branch
                | Self::Race
                | Self::Compare
                | Self::Models(_)
                | Self::Strategies
                | Self::Setting("target" | "draft" | "strategy")
        )
    }
}

/// What a key or a command does. A command may have an argument, which is given when it is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends the message.
    Send,
    /// Breaks the line.
    Newline,
    /// Opens the message in the user's editor.
    Editor,
    /// Leaves a panel; else stops the answer or the load; else closes what is open.
    Escape,
    /// Stops the answer or the load; else clears the message; else saves and leaves, if it is
    /// pressed twice.
    Interrupt,
    /// Saves and leaves if nothing is written; else deletes a character.
    DeleteOrQuit,
    /// Saves and leaves.
    Quit,
    /// Shows keys and commands.
    Help,
    /// Shows what was loaded and chosen, and why.
    Details,
    /// Next layout.
    Layout,
    /// Shows or hides the meters.
    Meters,
    /// Shows or hides the controls.
    Controls,
    /// Focuses the next panel.
    FocusNext,
    /// Focuses the panel before.
    FocusBack,
    /// Focuses the input.
    FocusInput,
    /// Focuses the input and begins a command there.
    BeginCommand,
    /// Pauses after every round, or resumes.
    Pause,
    /// One round.
    Step,
    /// Switches speculation.
    Speculate,
    /// Lists the strategies.
    Strategies,
    /// Lists models to choose from.
    Models(ModelPart),
    /// Shows or sets a key of the settings for this run.
    Setting(&'static str),
    /// Returns γ, M, k and D to automatic control.
    Auto,
    /// Shows or hides where tokens came from.
    Marks,
    /// Shows or hides how surprising the tokens of answers were.
    Heat,
    /// Shows or folds thoughts.
    Thoughts,
    /// Next theme.
    Theme,
    /// Redraws the whole screen.
    Redraw,
    /// Suspends to the shell.
    Suspend,
    /// Answers the last question again.
    Regenerate,
    /// Continues from another of the target's ten likeliest tokens at the one looked at.
    Force(u8),
    /// Continues an answer that was cut off.
    GoOn,
    /// Lists the user's messages, to edit one.
    EditQuestion,
    /// Lists the user's messages, to branch off after one.
    Branch,
    /// Shows long files in messages whole, or folds them.
    Files,
    /// Deletes the last question with its answer.
    DeleteExchange,
    /// Restores what was deleted last.
    Undelete,
    /// Shows another version of the last answer.
    Version(i8),
    /// Answers the last question twice, plain and speculatively.
    Race,
    /// Asks another model the last question, too.
    Compare,
    /// Begins a new conversation.
    New,
    /// Lists saved conversations, or opens the one named.
    Sessions,
    /// Lists the branches of the conversation.
    Branches,
    /// Saves now.
    Save,
    /// Writes the conversation to a file.
    Export,
    /// Reads one from a file.
    Import,
    /// Applies, saves or lists presets.
    Preset,
    /// Shows or sets what is done when the context is full.
    WhenFull,
    /// Begins to write another title for the one under the cursor.
    RenameSession,
    /// Deletes the one under the cursor.
    DeleteSession,
    /// Restores the one that was deleted last.
    RestoreSession,
    /// Copies the last answer, another message, or code of the answer.
    Copy,
    /// Lists all messages, to copy one.
    CopyMessage,
    /// Looks for words in the conversation.
    Find,
    /// Puts a file into the message.
    File,
    /// Moves the chat by rows.
    Scroll(i8),
    /// Moves the chat by a screenful, down if true.
    Page(bool),
    /// To the beginning of the chat.
    Top,
    /// Follows the end of the chat.
    Follow,
    /// Changes a control.
    Adjust(Dial, i8),
    /// Moves the cursor of the panel.
    PanelRow(i8),
    /// Changes the control under the cursor.
    AdjustHere(i8),
    /// Returns the control under the cursor to automatic.
    ReleaseHere,
    /// Shows a later or earlier round.
    Look(i8),
    /// Looks at a later or earlier token of the answers.
    LookWord(i8),
    /// Shows the first round.
    LookFirst,
    /// Follows the latest round.
    LookLive,
    /// Moves the tree by a screenful, down if true.
    TreePage(bool),
    /// Hides more or less of the tree.
    Fold,
    /// Moves in the questions that an empty chat offers.
    StarterMove(i8),
    /// Puts one of those questions into the message.
    StarterTake(u8),
    /// Writes the suggested command.
    Complete,
    /// Moves in the suggested commands.
    Suggestion(i8),
    /// Closes the suggestions.
    Dismiss,
    /// Moves in an overlay.
    OverlayRow(isize),
    /// Deletes what was typed in an overlay.
    OverlayClear,
    /// Takes what is under the cursor of an overlay.
    OverlayTake,
    /// Closes an overlay.
    OverlayClose,
}

/// One dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dial {
    /// How is drafted.
    Strategy,
    /// γ.
    Gamma,
    /// M.
    Blocks,
    /// k.
    Width,
    /// D.
    Depth,
    /// T.
    Temperature,
    /// Shortest time per round.
    Pace,
}

impl Dial {
    /// All, in the order of the panel.
    pub const ALL: [Self; 7] = [
        Self::Strategy,
        Self::Gamma,
        Self::Blocks,
        Self::Width,
        Self::Depth,
        Self::Temperature,
        Self::Pace,
    ];

    /// Those that a narrow screen shows.
    pub const FIGURES: [Self; 5] =
        [Self::Gamma, Self::Blocks, Self::Width, Self::Depth, Self::Temperature];

    /// What the screen says of it.
    pub const fn row(self) -> &'static DialRow {
        &ROWS[self as usize]
    }
}

/// A row per dial, in the order of [`Dial`].
const ROWS: [DialRow; Dial::ALL.len()] = [
    DialRow {
        key: "strategy",
        sign: " ",
        name: "strategy",
        short_name: "strategy",
        meaning: "How tokens are guessed ahead. The text is always the same.",
    },
    DialRow {
        key: "controls.gamma",
        sign: "γ",
        name: "tree size",
        short_name: "tree size",
        meaning: "How many tokens the big model checks at once: more guesses, slower rounds.",
    },
    DialRow {
        key: "controls.blocks",
        sign: "M",
        name: "draft blocks",
        short_name: "blocks",
        meaning: "Layers of the draft head in use: more guess better, fewer guess faster.",
    },
    DialRow {
        key: "controls.width",
        sign: "k",
        name: "tree width",
        short_name: "width",
        meaning: "How many alternatives each level of the tree has at most.",
    },
    DialRow {
        key: "controls.depth",
        sign: "D",
        name: "tree depth",
        short_name: "depth",
        meaning: "How many tokens ahead the draft guesses at most.",
    },
    DialRow {
        key: "sampler.temperature",
        sign: "T",
        name: "temperature",
        short_name: "temperature",
        meaning: "0 always takes the likeliest token; higher varies more.",
    },
    DialRow {
        key: "controls.pace",
        sign: " ",
        name: "slow motion",
        short_name: "pace",
        meaning: "The shortest time per round, so that you can watch a fast model.",
    },
];

/// A dial in words.
#[derive(Clone, Copy, Debug)]
pub struct DialRow {
    /// The key of the settings that it turns.
    pub key: &'static str,
    /// Its symbol in the paper; a space if it has none.
    pub sign: &'static str,
    /// What it controls, in a word or two.
    pub name: &'static str,
    /// The same, where there is little room.
    pub short_name: &'static str,
    /// What turning it does, in a sentence.
    pub meaning: &'static str,
}

/// What is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelPart {
    Target,
    Draft,
}
