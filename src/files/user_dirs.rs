//! The user's folders, those for this program and the home folder. It must not depend on what they
//! contain.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use directories::ProjectDirs;

/// The name of this program's folder within the system's folders and within those named by the
/// variables.
const NAME: &str = "dovetail";

/// Where this program's configuration, data, cache and state are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserDirs {
    /// For what the user writes.
    pub config: PathBuf,
    /// For what is stored for the user.
    pub data: PathBuf,
    /// For what can be recreated.
    pub cache: PathBuf,
    /// For logs.
    pub state: PathBuf,
}

impl UserDirs {
    /// The folders named by the variables of the XDG specification, on every system, because errors
    /// and tests name these variables; otherwise the system's own folders. `None` if any folder has
    /// neither.
    fn of(
        variable: impl Fn(&str) -> Option<OsString>,
        system: Option<&ProjectDirs>,
    ) -> Option<Self> {
        let folder = |name, of: fn(&ProjectDirs) -> &Path| {
            // The specification says that relative paths are ignored.
            let named = variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
            let named = named.map(|path| path.join(NAME));
            named.or_else(|| system.map(|dirs| of(dirs).to_owned()))
        };
        Some(Self {
            config: folder("XDG_CONFIG_HOME", ProjectDirs::config_dir)?,
            data: folder("XDG_DATA_HOME", ProjectDirs::data_dir)?,
            cache: folder("XDG_CACHE_HOME", ProjectDirs::cache_dir)?,
            // Only Linux has a folder for state.
            state: folder("XDG_STATE_HOME", |dirs| {
                dirs.state_dir().unwrap_or_else(|| dirs.data_local_dir())
            })?,
        })
    }
}

/// The user's folders for this program; `None` where the system has no such folders.
pub fn user_dirs() -> Option<UserDirs> {
    UserDirs::of(|name| std::env::var_os(name), ProjectDirs::from("", "", NAME).as_ref())
}

/// The user's home folder, found in the same way as the hub's own programs do: from `HOME`, on
/// Windows from `USERPROFILE`, otherwise from the system.
pub fn home_dir() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| !home.as_os_str().is_empty())
}

/// Where the user's programs put downloads: where the system says, otherwise `Downloads` in the
/// home folder.
pub fn download_dir() -> Option<PathBuf> {
    let dirs = directories::UserDirs::new();
    let named = dirs.and_then(|dirs| dirs.download_dir().map(Path::to_owned));
    named.or_else(|| Some(home_dir()?.join("Downloads")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_names_its_folder_on_every_system_unless_it_is_relative() {
        let named = tempfile::tempdir().unwrap();
        let named = named.path();
        let all = |name: &str| Some(named.join(name).into_os_string());
        let dirs = UserDirs::of(all, None).unwrap();
        assert_eq!(dirs.config, named.join("XDG_CONFIG_HOME").join(NAME));
        assert_eq!(dirs.data, named.join("XDG_DATA_HOME").join(NAME));
        assert_eq!(dirs.cache, named.join("XDG_CACHE_HOME").join(NAME));
        assert_eq!(dirs.state, named.join("XDG_STATE_HOME").join(NAME));
        assert_eq!(UserDirs::of(|_| Some("data".into()), None), None);
        let Some(system) = ProjectDirs::from("", "", NAME) else { return };
        let data = |name: &str| (name == "XDG_DATA_HOME").then(|| named.into());
        let dirs = UserDirs::of(data, Some(&system)).unwrap();
        assert_eq!(dirs.data, named.join(NAME));
        assert_eq!(dirs.config, system.config_dir());
        assert_eq!(dirs.cache, system.cache_dir());
    }
}
