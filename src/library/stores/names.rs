//! From what a user types to a model on this machine: by its name, or the beginning of its name.

use std::path::Path;

use super::entry::{Located, Store};
use super::find::locate;
use super::places::ModelPlaces;
use crate::library::{LibraryError, Result, Spec};
use crate::nearest::{likeness_to_part, listed, most_alike};

/// The similarity from which a name is suggested, 0 to 1.
const ALIKE: f64 = 0.5;

/// What `given` names: a file, a folder, `bundled`, a model on this machine by its name or the
/// beginning of one, or a repository on the hub. `folders` are those in the settings.
///
/// # Errors
/// [`LibraryError::Ambiguous`] with the matching models, [`LibraryError::Unknown`] with similar
/// names.
pub fn find_spec(given: &str, folders: &[String]) -> Result<Spec> {
    let located = || locate(&ModelPlaces::of_machine(folders)).0;
    match Spec::parse(given) {
        // Ollama's `someone/model:tag` has the form of a hub id too.
        Ok(Spec::Hub(id)) => {
            let tagged = located().into_iter().find(|model| {
                model.store == Store::Ollama && model.names().any(|name| name == given)
            });
            Ok(tagged.map_or(Spec::Hub(id), |model| model.spec))
        }
        Ok(Spec::Gguf(path))
            if !path.exists() && path.parent().is_some_and(|p| p.as_os_str().is_empty()) =>
        {
            let name = given.strip_suffix(".gguf").unwrap_or(given);
            let found = named(name, &located()).map(|model| model.spec.clone());
            found.map_err(|error| as_typed(error, given))
        }
        Ok(spec) => Ok(spec),
        Err(error) if is_name(given) => match named(given, &located()) {
            // That a file is not a model is more informative than that a name is unknown.
            Err(LibraryError::Unknown { .. }) if matches!(error, LibraryError::Spec { .. }) => {
                Err(error)
            }
            found => Ok(found?.spec.clone()),
        },
        Err(error) => Err(error),
    }
}

/// The error with what the user typed instead of the name that was looked up.
fn as_typed(error: LibraryError, typed: &str) -> LibraryError {
    let given = typed.to_owned();
    match error {
        LibraryError::Unknown { near, .. } => LibraryError::Unknown { given, near },
        LibraryError::Ambiguous { names, .. } => LibraryError::Ambiguous { given, names },
        other => other,
    }
}

/// Whether it may be a name: paths are always paths.
fn is_name(given: &str) -> bool {
    let near = ["./", "../", ".\\", "..\\", "~"];
    // A root with or without a drive (`C:\`) on Windows.
    !given.trim().is_empty()
        && !Path::new(given).has_root()
        && !near.iter().any(|start| given.starts_with(start))
}

/// The model with this name, or the only one whose name begins with it, ignoring case.
///
/// # Errors
/// [`LibraryError::Ambiguous`] with the matching models, [`LibraryError::Unknown`] with similar
/// names.
pub fn named<'a>(given: &str, models: &'a [Located]) -> Result<&'a Located> {
    let wanted = given.to_lowercase();
    let having = |fits: &dyn Fn(&str) -> bool| -> Vec<&'a Located> {
        models.iter().filter(|model| model.names().any(|name| fits(&name.to_lowercase()))).collect()
    };
    let mut fitting: Vec<_> =
        models.iter().filter(|model| model.name.to_lowercase() == wanted).collect();
    if fitting.len() != 1 {
        fitting = having(&|name| name == wanted);
    }
    if fitting.is_empty() {
        fitting = having(&|name| name.starts_with(&wanted));
    }
    match fitting.as_slice() {
        [only] => Ok(only),
        [] => Err(none(given, models)),
        several => Err(LibraryError::Ambiguous {
            given: given.to_owned(),
            names: listed(several.iter().map(|model| model.name.as_str())),
        }),
    }
}

fn none(given: &str, models: &[Located]) -> LibraryError {
    let likeness = |model: &Located| {
        model.names().map(|name| likeness_to_part(given, name)).fold(0.0, f64::max)
    };
    let names = models.iter().map(|model| (likeness(model), model.name.as_str()));
    let near = match most_alike(names, ALIKE).as_slice() {
        [] => String::new(),
        some => format!("; similar names: {}", listed(some.iter().copied())),
    };
    LibraryError::Unknown { given: given.to_owned(), near }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(name: &str, aliases: &[&str]) -> Located {
        Located {
            name: name.to_owned(),
            aliases: aliases.iter().map(|alias| (*alias).to_owned()).collect(),
            store: Store::Ollama,
            spec: Spec::Gguf(name.into()),
            paths: Vec::new(),
            bytes: 0,
        }
    }

    #[test]
    fn a_name_or_its_unique_beginning_is_enough() {
        let models = [
            model("qwen2.5:0.5b", &[]),
            model("qwen2.5:7b", &["best:latest"]),
            model("qwen2.5:7b-instruct", &[]),
            model("Llama-3.2-1B-Instruct-Q4_K_M", &["o/r:Llama-3.2-1B-Instruct-Q4_K_M.gguf"]),
        ];
        let name = |given: &str| named(given, &models).map(|model| model.name.clone());
        for (given, expected) in [
            ("qwen2.5:0.5b", "qwen2.5:0.5b"),
            ("qwen2.5:0", "qwen2.5:0.5b"),
            ("QWEN2.5:7B", "qwen2.5:7b"),
            ("best", "qwen2.5:7b"),
            ("llama", "Llama-3.2-1B-Instruct-Q4_K_M"),
            ("o/r", "Llama-3.2-1B-Instruct-Q4_K_M"),
        ] {
            assert_eq!(name(given).unwrap(), expected, "{given}");
        }
        let error = name("qwen").unwrap_err().to_string();
        assert_eq!(
            error,
            "`qwen` matches several models: qwen2.5:0.5b, qwen2.5:7b, qwen2.5:7b-instruct; type \
             more of the name"
        );
        let error = name("quen2.5:7b").unwrap_err().to_string();
        assert!(error.contains("similar names: qwen2.5:7b, "), "{error}");
        let error = name("instruct").unwrap_err().to_string();
        assert!(error.contains("similar names: qwen2.5:7b-instruct, Llama-3.2"), "{error}");
        let error = name("mistral").unwrap_err().to_string();
        assert!(error.contains("installed model); `dovetail models`"), "{error}");
    }

    #[test]
    fn two_models_that_were_called_alike_are_both_named() {
        let models = [model("a/m", &["m"]), model("b/m", &["m"]), model("m-2", &[])];
        assert_eq!(named("a/m", &models).unwrap().name, "a/m");
        let error = named("m", &models).unwrap_err().to_string();
        assert!(error.starts_with("`m` matches several models: a/m, b/m;"), "{error}");
        let many: Vec<_> = (0..44).map(|i| model(&format!("m{i}"), &[])).collect();
        assert!(named("m", &many).unwrap_err().to_string().contains("m31 and 12 more"));
    }

    #[test]
    fn a_file_that_is_not_a_model_is_named_as_such() {
        let error = find_spec("Cargo.toml", &[]).unwrap_err().to_string();
        assert!(error.contains("not a folder or a .gguf file"), "{error}");
        let error = find_spec("Cargo.tom", &[]).unwrap_err().to_string();
        assert!(error.starts_with("no model named \"Cargo.tom\""), "{error}");
    }

    #[test]
    fn a_path_is_no_name() {
        for path in ["/m", "./m", "../m", ".\\m", "..\\m", "~/m", " "] {
            assert!(!is_name(path), "{path}");
        }
        for rooted in ["C:\\m", "\\m", "\\\\server\\m"] {
            assert_eq!(is_name(rooted), cfg!(unix), "{rooted}");
        }
        for name in ["m", "qwen2.5:7b", "o/r", ".m"] {
            assert!(is_name(name), "{name}");
        }
    }
}
