//! The user's folders for this program. Must never know what lies in them.

use directories::ProjectDirs;

/// Where configuration, data, cache and state of this program go; `None` where the system has no
/// such folders.
pub fn user_dirs() -> Option<ProjectDirs> {
    ProjectDirs::from("", "", "dovetail")
}
