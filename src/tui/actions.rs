//! What keys and commands do, and on what: the words that the tables of keys and commands and the
//! screen's state share. Must never know any of them.

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
    /// Lists models to choose from.
    Models(ModelPart),
    /// Returns γ, M, k and D to automatic control.
    Auto,
    /// Shows or hides where tokens came from.
    Marks,
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
    Adjust(Dial, i8),
    /// Moves the cursor of the panel.
    PanelRow(i8),
    /// Changes the control under the cursor.
    AdjustHere(i8),
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

/// One dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dial {
    /// Who drafts, and how.
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
    /// Least time from round to round.
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

    /// Its symbol in the paper, if it has one.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Strategy | Self::Pace => " ",
            Self::Gamma => "γ",
            Self::Blocks => "M",
            Self::Width => "k",
            Self::Depth => "D",
            Self::Temperature => "T",
        }
    }

    /// What it controls, in a word or two.
    pub fn name(self) -> &'static str {
        match self {
            Self::Strategy => "strategy",
            Self::Pace => "slow motion",
            Self::Gamma => "tree size",
            Self::Blocks => "draft blocks",
            Self::Width => "tree width",
            Self::Depth => "tree depth",
            Self::Temperature => "temperature",
        }
    }
}

/// What is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelPart {
    /// The target.
    Target,
    /// What drafts for it.
    Draft,
}
