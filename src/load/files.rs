//! The files that the settings name, opened and checked against each other and the machine. It must
//! never read a weight.

use super::Loading;
use super::error::StartError;
use super::reason::{HeadMismatch, LoadReason, Needs, Notice};
use super::repack::Repacking;
use super::sizes;
use crate::hardware::Machine;
use crate::kernels::{Format, Matrix};
use crate::library::{
    self, DflashFiles, DraftFiles, HeadFiles, LibraryError, Recommended, Spec, TargetFiles,
};
use crate::settings::{HeadChoice, Settings};

/// The models of a session on disk.
pub(super) struct ModelFiles {
    pub(super) target: TargetFiles,
    /// Draft heads that fit the target, one of which will be used.
    pub(super) heads: Vec<NamedHead>,
    /// How many other heads were named that do not fit.
    pub(super) refused_heads: usize,
    /// A DFlash drafter, which is then the only head.
    pub(super) dflash: Option<DflashFiles>,
    /// A small language model that drafts.
    pub(super) small: Option<TargetFiles>,
    /// Whether the target is the bundled one.
    bundled: bool,
    /// Whether the head was not named, but found because it was made for the target.
    pub(super) recognised: bool,
    /// What is wrong with other heads.
    pub(super) notices: Vec<Notice>,
    /// Whether weights are repacked whose formats would be expanded, if there are some.
    repacking: Option<Repacking>,
}

/// A draft head on disk.
pub(super) struct NamedHead {
    /// The name that the user gave; `None` if they gave none.
    pub(super) given: Option<String>,
    pub(super) files: HeadFiles,
}

impl NamedHead {
    /// Its name for the user.
    pub(super) fn called(&self) -> &str {
        self.given.as_deref().unwrap_or(&self.files.name)
    }
}

impl ModelFiles {
    /// Opens what `settings` name, downloading it first if it is on the hub.
    pub(super) fn open(settings: &Settings, progress: Loading<'_>) -> Result<Self, StartError> {
        progress("opening the model", None);
        let named = |given: &str| library::find_spec(given, &settings.model_folders);
        let spec = target_spec(settings)?;
        let mut fetching = |report: &library::DownloadProgress| {
            progress(&report.to_string(), Some(report.fraction()))
        };
        let mut files = Self {
            target: library::open_target(&spec, &mut fetching)?,
            heads: Vec::new(),
            refused_heads: 0,
            dflash: None,
            small: None,
            bundled: spec == Spec::Bundled,
            recognised: false,
            notices: Vec::new(),
            repacking: None,
        };
        let target = &files.target;
        if !target.engine().is_own() {
            // Nothing can draft for it.
            let drafts = matches!(settings.draft, HeadChoice::Named(_));
            if drafts || settings.draft_model.is_some() {
                files.notices.push(Notice::NoDrafts(target.name.clone()));
            }
            return Ok(files);
        }
        let own = |files| NamedHead { given: None, files };
        files.heads = match (&settings.draft, &spec) {
            (HeadChoice::Lookup | HeadChoice::None, _) => Vec::new(),
            (HeadChoice::Named(names), _) => {
                let mut all = Vec::new();
                for name in names {
                    let spec = named(name)?;
                    match library::open_draft(&spec, &mut fetching) {
                        // As the user typed it: a store may call the file by its hash.
                        Err(LibraryError::NotAHead { .. }) => {
                            return Err(LibraryError::NotAHead { given: name.clone() }.into());
                        }
                        Err(error) => return Err(error.into()),
                        Ok(DraftFiles::Dflash(dflash)) => {
                            let origin = dflash.name.clone();
                            let fits = dflash.config.fits_target(&target.config);
                            fits.map_err(|source| LibraryError::Misfit { origin, source })?;
                            files.dflash = Some(dflash);
                        }
                        Ok(DraftFiles::Head(files)) => {
                            all.push((spec, NamedHead { given: Some(name.clone()), files }));
                        }
                    }
                }
                if files.dflash.is_none() {
                    let (heads, refused) = fitting(target, all)?;
                    files.refused_heads = refused.len();
                    files.notices = refused;
                    heads
                } else if names.len() == 1 {
                    Vec::new()
                } else {
                    let reason = "a DFlash drafter drafts without other heads; name only one";
                    let (given, reason) = (names.join(", "), reason.to_owned());
                    return Err(LibraryError::Spec { given, reason }.into());
                }
            }
            (HeadChoice::Own, Spec::Bundled) => {
                vec![own(library::open_head(&Spec::Bundled, &mut fetching)?)]
            }
            (HeadChoice::Own, _) => {
                let found = library::own_head(target);
                files.notices = found.notices.into_iter().map(Notice::Text).collect();
                files.recognised = found.head.is_some();
                let head = found.head.or_else(|| HeadFiles::in_target(target));
                head.into_iter().map(own).collect()
            }
        };
        for head in &files.heads {
            library::check_fit(&target.config, &head.files)?;
        }
        let small = match settings.draft_model.as_deref() {
            Some(model) => Some(named(model)?),
            None => (files.bundled && !settings.without_small).then_some(Spec::Bundled),
        };
        files.small = small.map(|spec| library::open_small(&spec, &mut fetching)).transpose()?;
        Ok(files)
    }

    /// Opens only the target, again.
    pub(super) fn open_target(settings: &Settings) -> Result<TargetFiles, StartError> {
        Ok(library::open_target(&target_spec(settings)?, &mut |_| {})?)
    }

    /// What the target's files say about sampling; `None` for the bundled target, which is shown
    /// greedy.
    pub(super) fn recommended(&self) -> Option<&Recommended> {
        (!self.bundled).then_some(&self.target.sampling)
    }

    /// Whether the bundled target runs with its own head.
    pub(super) fn is_bundled_pair(&self, settings: &Settings) -> bool {
        self.bundled && settings.draft == HeadChoice::Own
    }

    /// Refuses models that do not fit next to those in use, counting their weights and the target's
    /// cache.
    pub(super) fn check_room(
        &self,
        settings: &Settings,
        machine: &Machine,
    ) -> Result<(), StartError> {
        let target = Needs::Model(self.target.name.clone());
        room(target, self.needed(settings), machine)
    }

    /// [`Self::resident`] with the context of the settings.
    fn needed(&self, settings: &Settings) -> u64 {
        let context = settings.context.unwrap_or(Settings::AUTO_CONTEXT);
        self.resident(context, settings)
    }

    /// The bytes that loading and decoding take with a target on the CPU: its weights and those of
    /// the drafts as they are packed, the target's cache once `context` is full and a small
    /// model's, and the program with its buffers.
    pub(super) fn resident(&self, context: usize, settings: &Settings) -> u64 {
        let models = || self.small.iter().chain([&self.target]);
        let growth = |files: &TargetFiles| if files.repack { files.growth() } else { 0 };
        let weights: u64 = models().map(growth).sum::<u64>() + self.target.bytes;
        let cache = |files: &TargetFiles| {
            let positions = context.min(files.config.max_positions);
            sizes::kv_bytes(&files.config, positions, settings.kv)
        };
        let caches: u64 = models().map(cache).sum();
        weights + self.draft_bytes() + caches + sizes::scratch(&self.target.config)
    }

    /// Decides whether weights are repacked whose formats would be expanded in every product. If
    /// the target is in memory already, only the drafters are to be loaded.
    pub(super) fn decide_repacking(
        &mut self,
        settings: &Settings,
        machine: &Machine,
        loaded: bool,
    ) {
        let small = self.small.as_ref().map_or(0, TargetFiles::growth);
        let (needed, growth) = match loaded {
            true => (self.draft_bytes(), small),
            false => (self.needed(settings), self.target.growth() + small),
        };
        self.repacking = Repacking::of(settings.repack, machine.memory, needed, growth);
        let repack = self.repacking.is_some_and(Repacking::is_done);
        for files in self.small.iter_mut().chain([&mut self.target]) {
            files.repack = repack;
        }
    }

    /// Whether the weights of `files`, one of these models, are repacked, if that matters to it.
    pub(super) fn repack_reason(&self, files: &TargetFiles) -> Option<LoadReason> {
        let expanded = |&&(format, bytes): &&(Format, u64)| Matrix::growth(format, bytes) > 0;
        let &(format, _) = files.formats.iter().find(expanded)?;
        self.repacking.map(|repacking| LoadReason::Repack { format, repacking })
    }

    /// Refuses drafters that do not fit next to the models in use.
    pub(super) fn check_room_for_drafts(&self, machine: &Machine) -> Result<(), StartError> {
        let small = self.small.as_ref().map(|small| Needs::Model(small.name.clone()));
        room(small.unwrap_or(Needs::Head), self.draft_bytes(), machine)
    }

    /// Bytes of the drafters' weights; of several heads, the smallest counts.
    fn draft_bytes(&self) -> u64 {
        let small = self.small.as_ref().map_or(0, |small| small.bytes);
        let small = small + self.dflash.as_ref().map_or(0, |files| files.bytes);
        let bytes =
            |head: &NamedHead| sizes::head_on_cpu(&head.files.config, Settings::AUTO_CONTEXT);
        small + self.heads.iter().map(bytes).min().unwrap_or(0)
    }

    /// Refuses models that could only run by swapping. It does not check free memory: the system
    /// can reclaim caches, and mapped weights need not be resident twice.
    pub(super) fn check_memory(&self, machine: &Machine) -> Result<(), StartError> {
        let total = machine.memory.total;
        for files in self.small.iter().chain([&self.target]) {
            let needed = files.bytes;
            if total > 0 && needed > total {
                return Err(StartError::Memory { name: files.name.clone(), needed, total });
            }
        }
        Ok(())
    }
}

/// Where the target is.
fn target_spec(settings: &Settings) -> Result<Spec, LibraryError> {
    let named = |given: &str| library::find_spec(given, &settings.model_folders);
    settings.target.as_deref().map_or(Ok(Spec::Bundled), named)
}

/// The heads that fit the target, with a notice about each of the others. A single head is not
/// checked for its target.
fn fitting(
    target: &TargetFiles,
    all: Vec<(Spec, NamedHead)>,
) -> Result<(Vec<NamedHead>, Vec<Notice>), StartError> {
    let several = all.len() > 1;
    let mut heads = Vec::new();
    let mut refused = Vec::new();
    for (spec, head) in all {
        let made_for = match &spec {
            Spec::Folder(folder) if several => library::made_for_another(folder, target)?,
            _ => None,
        };
        let ignored = |why| Notice::HeadIgnored { name: head.called().to_owned(), why };
        match (library::check_fit(&target.config, &head.files), made_for) {
            (Err(error), _) if !several => return Err(error.into()),
            (Err(LibraryError::Misfit { source, .. }), _) => {
                refused.push(ignored(HeadMismatch::Shape(source.to_string())));
            }
            (Err(error), _) => return Err(error.into()),
            (Ok(()), Some(model)) => {
                let target = target.name.clone();
                refused.push(ignored(HeadMismatch::MadeFor { model, target }));
            }
            (Ok(()), None) => heads.push(head),
        }
    }
    if heads.is_empty() {
        return Err(StartError::NoHead { target: target.name.clone(), refused });
    }
    Ok((heads, refused))
}

/// Refuses what needs more memory than is free. If the machine does not say how much that is, it is
/// assumed to be enough.
fn room(what: Needs, needed: u64, machine: &Machine) -> Result<(), StartError> {
    let free = machine.memory.free;
    if machine.memory.total > 0 && needed > free {
        return Err(StartError::NoRoom { what, needed, free });
    }
    Ok(())
}
