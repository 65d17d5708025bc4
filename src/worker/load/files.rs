//! The files that the settings name, opened and checked against each other and the machine; no
//! weight is read yet.

use super::error::LoadError;
use crate::hardware::Machine;
use crate::library::{self, HeadFiles, Recommended, Spec, TargetFiles};
use crate::settings::{LOOKUP, Settings};

/// The models of a session on disk.
pub(super) struct ModelFiles {
    pub(super) target: TargetFiles,
    pub(super) head: Option<HeadFiles>,
    /// A small language model that drafts.
    pub(super) small: Option<TargetFiles>,
    /// Whether the target is the bundled one.
    bundled: bool,
}

impl ModelFiles {
    /// Opens what `settings` name, fetching it first where it is on the hub.
    pub(super) fn open(
        settings: &Settings,
        progress: &mut dyn FnMut(&str, Option<f32>),
    ) -> Result<Self, LoadError> {
        progress("opening the target", None);
        let spec = settings.target.as_deref().map_or(Ok(Spec::Bundled), Spec::parse)?;
        let mut fetching =
            |report: &library::Progress| progress(&report.to_string(), Some(report.fraction()));
        let target = library::open_target(&spec, &mut fetching)?;
        let head = match (settings.draft.as_deref(), &spec) {
            (Some(LOOKUP), _) => None,
            (Some(draft), _) => Some(library::open_head(&Spec::parse(draft)?, &mut fetching)?),
            (None, Spec::Bundled) => Some(library::open_head(&Spec::Bundled, &mut fetching)?),
            (None, _) => None,
        };
        if let Some(head) = &head {
            library::check_fit(&target.config, &head.config)?;
        }
        let small = match (settings.draft_model.as_deref(), &spec) {
            (Some(model), _) => Some(Spec::parse(model)?),
            (None, Spec::Bundled) => Some(Spec::Bundled),
            (None, _) => None,
        };
        let small = small.map(|spec| library::open_small(&spec, &mut fetching)).transpose()?;
        Ok(Self { target, head, small, bundled: spec == Spec::Bundled })
    }

    /// What the target's files say about sampling; `None` for the bundled target, which is shown
    /// greedy.
    pub(super) fn recommended(&self) -> Option<&Recommended> {
        (!self.bundled).then_some(&self.target.sampling)
    }

    /// Whether the bundled target runs with its own head.
    pub(super) fn is_bundled_pair(&self, settings: &Settings) -> bool {
        self.bundled && settings.draft.is_none()
    }

    /// Refuses models that can only be run by swapping. Free memory is not asked for: caches are
    /// given back, and mapped weights need not be resident twice.
    pub(super) fn check_memory(&self, machine: &Machine) -> Result<(), LoadError> {
        let total = machine.memory.total;
        for files in self.small.iter().chain([&self.target]) {
            let needed = files.bytes;
            if total > 0 && needed > total {
                return Err(LoadError::Memory { name: files.name.clone(), needed, total });
            }
        }
        Ok(())
    }
}
