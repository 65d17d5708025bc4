//! The TOML settings file and the flags, merged once into checked [`Settings`].
//!
//! Precedence: flags, then environment, then the file, then the defaults here. Every source goes
//! through the one table in `table`, so a value is checked in the same way for all of them, and an
//! error names the place, the key and the remedy.

mod check;
mod error;
mod file;
mod head_choice;
mod keys;
mod table;
mod takes;
mod value;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::kernels::KvFormat;
use crate::model::head::DraftPrecision;
use crate::plan::{GpuLayers, Setting, Strategy, TreeOverrides};
use crate::speculate::SamplerSettings;

pub use crate::plan::{DeviceChoice, Prefer};
pub use error::{Problem, SettingsError};
pub use file::{apply_file, default_path};
pub use head_choice::{HeadChoice, LOOKUP, NO_HEAD};
pub use keys::{Flag, Heading, SettingCommand, SettingKey, SettingScope};
pub use table::KEYS;
pub use value::SettingValue;

/// Colours of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThemeName {
    /// What the terminal's background asks for.
    #[default]
    Auto,
    /// For dark terminals.
    Dark,
    /// For light terminals.
    Light,
    /// No colours: marks, bold, underline. Also what a set `NO_COLOR` gives.
    Mono,
}

/// What the terminal does when a long answer ends while its window has no focus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Alert {
    /// Nothing.
    Off,
    /// It rings or flashes, as it does for any bell.
    #[default]
    Bell,
    /// A notification of the desktop (OSC 9).
    Notification,
}

/// What the screen shows next to the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Nothing.
    Chat,
    /// The draft tree.
    Tree,
    /// The draft tree, the meters and the controls.
    Lab,
}

impl Layout {
    /// Its name in settings and commands.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Tree => "tree",
            Self::Lab => "lab",
        }
    }

    /// The one after this.
    pub const fn next(self) -> Self {
        match self {
            Self::Chat => Self::Tree,
            Self::Tree => Self::Lab,
            Self::Lab => Self::Chat,
        }
    }
}

/// The n-gram table that drafts come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NgramChoice {
    /// The one that was made for the target, if there is one.
    #[default]
    Auto,
    /// None.
    None,
    /// This file.
    File(PathBuf),
}

/// Which tokens a draft scores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScoredTokens {
    /// All that a head was trained on, or all of a small model.
    All,
    /// Those that its tokenizer merges first: so many, or a share of them.
    First(Setting),
    /// Those that occur most often in this text file.
    OfText(PathBuf),
}

/// Whether weights whose types are slow as they are in the file are repacked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repack {
    /// If there is room in memory.
    #[default]
    Auto,
    /// In any case.
    Always,
    /// Never.
    Never,
}

/// Where long prompts of a target on the CPU are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrefillDevice {
    /// On a GPU where that is expected to pay, never a software device.
    #[default]
    Auto,
    /// With the rest of the target.
    Cpu,
    /// On the GPU that `device` names, or the best one.
    Gpu,
}

/// Other keys for something that keys do in the chat, which alone knows what there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyChange {
    /// What they do.
    pub action: String,
    /// The keys, as they are written.
    pub keys: Vec<String>,
    /// The file.
    pub path: PathBuf,
    /// Its line, from 1.
    pub line: usize,
    /// Its column, from 1, in characters.
    pub column: usize,
}

impl KeyChange {
    /// `problem` with the place in the file, as of any other setting.
    pub fn wrong(&self, problem: &dyn std::fmt::Display) -> String {
        let Self { path, line, column, .. } = self;
        format!("{}:{line}:{column}: {problem}; correct the line or delete it", path.display())
    }
}

/// Who set a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetBy {
    /// The settings file.
    File,
    /// A flag, or its environment variable.
    Flag(&'static str),
}

/// Everything a user can set, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Target: file, folder or hub id; `None` is the bundled pair's.
    pub target: Option<String>,
    /// The draft head, or several of which the best that fits is taken.
    pub draft: HeadChoice,
    /// Which tokens a draft scores; `None` are those that a head was trained for, or those that a
    /// small model finds in the text and the most frequent ones.
    pub draft_vocab: Option<ScoredTokens>,
    /// Precision of the weights of heads and small models; `None` is what was measured to be the
    /// fastest.
    pub draft_precision: Option<DraftPrecision>,
    /// A small language model to draft with; `None` is the bundled one where there is one.
    pub draft_model: Option<String>,
    /// Folders to search for models, in addition to those of other programs.
    pub model_folders: Vec<String>,
    /// A text file that drafts are looked up in.
    pub rest_text: Option<PathBuf>,
    /// The n-gram table that drafts come from.
    pub ngrams: NgramChoice,
    /// Whether drafts may come from earlier chats that are saved here.
    pub history: bool,
    /// How is drafted; `None` is `auto`.
    pub strategy: Option<&'static Strategy>,
    /// System prompt; `None` sends none.
    pub system: Option<String>,
    /// Most tokens of an answer.
    pub max_tokens: Setting,
    /// Whether the model thinks before it answers; `None` leaves it to the model's template.
    pub thinking: Option<bool>,
    /// Texts that end an answer; not shown.
    pub stop: Vec<String>,
    /// KV capacity in tokens; `None` is the model's own, at most [`Self::AUTO_CONTEXT`].
    pub context: Option<usize>,
    /// Precision of the target's KV cache.
    pub kv: KvFormat,
    /// Compute threads; `None` is one a physical core, of the fast ones where they differ.
    pub threads: Option<usize>,
    /// Threads of a draft that runs during verification; `None` divides the cores.
    pub draft_threads: Option<usize>,
    /// Where the draft runs.
    pub device: DeviceChoice,
    /// Video memory that may be taken, bytes, where neither driver nor kernel tells or less is
    /// meant.
    pub vram: Option<u64>,
    /// Most gigabytes of packed weights to keep on the disk; 0 keeps none.
    pub pack_cache: usize,
    /// Whether weights whose types are slow as they are in the file are repacked.
    pub repack: Repack,
    /// Blocks of the target that run on the GPU: none, a number, as many as fit, or all, streamed;
    /// by default, what pays.
    pub gpu_layers: GpuLayers,
    /// Where long prompts of a target on the CPU are read.
    pub prefill: PrefillDevice,
    /// What automatic control strives for.
    pub prefer: Prefer,
    /// Whether speculation starts switched on.
    pub speculate: bool,
    /// Whether drafting continues while the target verifies, if it can.
    pub overlap: bool,
    /// Whether drafts are ranked with the target's own noise when sampling.
    pub coupled: bool,
    /// Least milliseconds from round to round, for watching; 0 does not wait.
    pub pace: usize,
    /// γ, M, width, depth: automatic or fixed.
    pub controls: TreeOverrides,
    /// Temperature, filters, penalties, seed.
    pub sampler: SamplerSettings,
    /// Colours.
    pub theme: ThemeName,
    /// What is next to the conversation; `None` is what the width has room for.
    pub layout: Option<Layout>,
    /// Whether each token's origin is marked in the chat.
    pub marks: bool,
    /// Whether the message has the keys of vi.
    pub vi: bool,
    /// Whether the mouse is the chat's: wheel, click and selection.
    pub mouse: bool,
    /// How the terminal reports the end of a long answer to a user who looks elsewhere.
    pub alert: Alert,
    /// Whether the chat tells of features that were not used yet.
    pub tips: bool,
    /// Keys of the chat that the file changes, in the order of its table `[keys]`.
    pub keys: Vec<KeyChange>,
    /// Most gigabytes of KV caches of conversations to keep on the disk; 0 keeps none.
    pub kv_disk: usize,
    /// Folder in which they are kept; no key, since only the chat comes back to a conversation.
    pub snapshots: Option<PathBuf>,
    /// Folder in which what is learned of a model's speed is kept for the next start; no key, since
    /// a measurement must not depend on earlier ones: only the chat and `run` set it.
    pub learned: Option<PathBuf>,
    /// Whether the bundled small model is left out; no key: a measurement loads only what it drafts
    /// with.
    pub without_small: bool,
    /// The keys that were set, by whom; the others hold their defaults.
    pub given: BTreeMap<&'static str, SetBy>,
}

impl Settings {
    /// Context that is allocated by default: a long chat, not all of a 128 k window.
    pub const AUTO_CONTEXT: usize = 4096;

    /// Gigabytes of KV caches to keep by default: some conversations.
    pub const KV_DISK: usize = 4;

    /// Gigabytes of packed weights to keep if no number is given: a few models.
    pub const PACK_CACHE: usize = 32;

    /// Sets one value by its dotted key, as file, flags and the screen's `/set` do.
    ///
    /// # Errors
    /// [`Problem`]: the key is unknown, or the value has the wrong type or range.
    pub fn set(&mut self, key: &str, value: &SettingValue) -> Result<(), Problem> {
        let key = keys::set(self, key, value)?;
        self.given.insert(key, SetBy::File);
        Ok(())
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            target: None,
            draft: HeadChoice::Own,
            draft_vocab: None,
            draft_precision: None,
            draft_model: None,
            model_folders: Vec::new(),
            rest_text: None,
            ngrams: NgramChoice::Auto,
            history: false,
            strategy: None,
            system: None,
            max_tokens: Setting::Auto,
            thinking: None,
            stop: Vec::new(),
            context: None,
            kv: KvFormat::F32,
            threads: None,
            draft_threads: None,
            device: DeviceChoice::default(),
            vram: None,
            pack_cache: 0,
            repack: Repack::default(),
            gpu_layers: GpuLayers::Held(Setting::Auto),
            prefill: PrefillDevice::Auto,
            prefer: Prefer::default(),
            speculate: true,
            overlap: false,
            coupled: true,
            pace: 0,
            controls: TreeOverrides::default(),
            sampler: SamplerSettings::default(),
            theme: ThemeName::default(),
            layout: None,
            marks: true,
            vi: false,
            mouse: true,
            alert: Alert::default(),
            tips: true,
            keys: Vec::new(),
            kv_disk: Self::KV_DISK,
            snapshots: None,
            learned: None,
            without_small: false,
            given: BTreeMap::new(),
        }
    }
}

/// One value from the command line, or from the environment variable of a flag.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// The flag, e.g. `--gamma`, or the variable.
    pub flag: &'static str,
    /// The dotted key it sets.
    pub key: &'static str,
    /// The value.
    pub value: SettingValue,
}

/// Merges defaults, the file (if there is one) and the flags. `file`: a named file must exist;
/// `None` reads the default place if there is something. `no_color` is whether `NO_COLOR` is set
/// to anything: it wins over the file, an explicit `--theme` wins over it.
///
/// # Errors
/// [`SettingsError`].
pub fn load(
    file: Option<&Path>,
    overrides: &[Override],
    no_color: bool,
) -> Result<Settings, SettingsError> {
    let mut settings = Settings::default();
    match (file, default_path()) {
        (Some(path), _) => apply_file(&mut settings, path)?,
        (None, Some(path)) if path.exists() => apply_file(&mut settings, &path)?,
        _ => {}
    }
    if no_color {
        settings.theme = ThemeName::Mono;
    }
    for Override { flag, key, value } in overrides {
        settings
            .set(key, value)
            .map_err(|problem| SettingsError::InFlag { flag: (*flag).to_owned(), problem })?;
        settings.given.insert(key, SetBy::Flag(flag));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests;
