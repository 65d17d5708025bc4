//! What a file is that was named as a model but is not one: each kind with its one remedy. It must
//! never read more of a file than its beginning.

use std::path::Path;

use super::LibraryError;

/// A kind of file, and what to do instead of opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OtherFile {
    what: &'static str,
    remedy: &'static str,
}

const fn other(what: &'static str, remedy: &'static str) -> OtherFile {
    OtherFile { what, remedy }
}

const CONVERT: &str = "convert the original model to GGUF again, or use a newer GGUF file of it";
const PUBLISHED: &str = "use the model in safetensors format or its GGUF file";
const UNPACK: &str = "unpack it, and name the model in it";

pub(super) const ADAPTER: OtherFile =
    other("a LoRA adapter", "merge it into its base model, and use the result");
pub(super) const IMATRIX: OtherFile = other(
    "an importance matrix (imatrix), which serves to quantise a model",
    "use a GGUF file of the model itself",
);
pub(super) const PROJECTOR: OtherFile = other(
    "the projector (mmproj) of a model that sees or hears",
    "use the GGUF file of the language model next to it",
);
pub(super) const VOCABULARY: OtherFile =
    other("a vocabulary without weights", "use a GGUF file of the whole model");
pub(super) const EMBEDDER: OtherFile = other(
    "an embedding model or text encoder, which writes no text",
    "use a language model that was trained to chat",
);
pub(super) const PICTURES: OtherFile =
    other("a model of images, video or sound", "use a language model");
pub(super) const BIG_ENDIAN: OtherFile =
    other("a big-endian GGUF file", "use the little-endian file of the model");
pub(super) const VERSION_1: OtherFile =
    other("a GGUF file of version 1, which is too old", CONVERT);
const EMPTY: OtherFile = other("an empty file", "download the model");
const UNFINISHED: OtherFile =
    other("an unfinished download", "let the program that downloads it continue");
const LFS: OtherFile = other(
    "a Git LFS pointer instead of the file",
    "fetch the file itself with `git lfs pull`, or use `dovetail pull`",
);
const HTML: OtherFile = other(
    "a web page (HTML)",
    "sign in on the hub and accept the model's terms, then download the file",
);
const OLD_GGML: OtherFile = other("a GGML file from before GGUF, an older format", CONVERT);
const SAFETENSORS: OtherFile =
    other("a safetensors file, which needs the files next to it", "name the folder in which it is");
const PYTORCH: OtherFile = other("a PyTorch checkpoint, which can run code", PUBLISHED);
const MANIFEST: OtherFile =
    other("a manifest of Ollama", "name the model by its tag, for example `qwen2.5:0.5b`");
const JSON: OtherFile = other("a JSON file without weights", "name the folder of the model");
const PICTURE_FOLDER: &str = "model_index.json";

/// How files of other kinds begin: at an offset, with these bytes.
const BEGINNINGS: [(usize, &[u8], OtherFile); 23] = [
    (0, b"version https://git-lfs", LFS),
    (0, b"version https://hawser", LFS),
    (0, b"lmgg", OLD_GGML),
    (0, b"fmgg", OLD_GGML),
    (0, b"tjgg", OLD_GGML),
    (0, b"algg", ADAPTER),
    (0, b"\x80\x02", PYTORCH),
    (0, b"\x80\x03", PYTORCH),
    (0, b"\x80\x04", PYTORCH),
    (0, b"PK\x03\x04", other("a zip archive", UNPACK)),
    (0, b"\x1f\x8b", other("a gzip archive", UNPACK)),
    (0, b"7z\xbc\xaf", other("a 7z archive", UNPACK)),
    (0, b"\xfd7zXZ", other("an xz archive", UNPACK)),
    (0, b"\x28\xb5\x2f\xfd", other("a zstd archive", UNPACK)),
    (0, b"BZh", other("a bzip2 archive", UNPACK)),
    (0, b"Rar!", other("a rar archive", UNPACK)),
    (257, b"ustar", other("a tar archive", UNPACK)),
    (0, b"\x89HDF", other("an HDF5 file of Keras", PUBLISHED)),
    (4, b"TFL3", other("a TFLite file", PUBLISHED)),
    (0, b"%PDF", other("a PDF document", PUBLISHED)),
    (0, b"\x7fELF", other("a program (llamafile)", PUBLISHED)),
    (0, b"MZ", other("a program (llamafile)", PUBLISHED)),
    (8, b"{", SAFETENSORS),
];

/// Architectures of files that hold no language model, by how their names begin.
const ARCHITECTURES: [(&[&str], OtherFile); 3] = [
    (&["clip", "mmproj"], PROJECTOR),
    (
        &[
            "bert",
            "nomic-bert",
            "jina-bert",
            "neo-bert",
            "modern-bert",
            "eurobert",
            "gemma-embedding",
            "t5",
            "umt5",
        ],
        EMBEDDER,
    ),
    (
        &[
            "whisper",
            "flux",
            "sd1",
            "sd2",
            "sd3",
            "sdxl",
            "wan",
            "qwen_image",
            "hidream",
            "cosmos",
            "ltxv",
            "hyvid",
            "aura",
            "lumina",
            "pig",
            "wavtokenizer",
            "z_image",
            "omnigen",
        ],
        PICTURES,
    ),
];

impl OtherFile {
    /// What the file at `path` is that begins with these bytes, if that is known.
    pub(super) fn of_bytes(path: &Path, bytes: &[u8]) -> Option<Self> {
        let end = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        if ["part", "incomplete", "crdownload", "download", "aria2", "downloadinprogress"]
            .contains(&end.as_str())
        {
            return Some(UNFINISHED);
        }
        if bytes.is_empty() {
            return Some(EMPTY);
        }
        let begin = &bytes[..bytes.len().min(1024)];
        let holds = |text: &str| begin.windows(text.len()).any(|it| it == text.as_bytes());
        let text = begin.strip_prefix(b"\xef\xbb\xbf").unwrap_or(begin).trim_ascii_start();
        let word = String::from_utf8_lossy(&text[..text.len().min(9)]).to_lowercase();
        if ["<!doctype", "<html", "<head", "<?xml", "<!--"].iter().any(|tag| word.starts_with(tag))
        {
            return Some(HTML);
        }
        if text.starts_with(b"{") {
            return Some(if holds("\"schemaVersion\"") { MANIFEST } else { JSON });
        }
        if end == "onnx" || (begin[0] == 8 && (holds("onnx") || holds("pytorch"))) {
            return Some(other("an ONNX file", PUBLISHED));
        }
        let (_, _, found) = BEGINNINGS
            .iter()
            .find(|(at, mark, _)| begin.get(*at..).is_some_and(|rest| rest.starts_with(mark)))?;
        Some(if holds("data.pkl") { PYTORCH } else { *found })
    }

    /// What a GGUF file with this `general.architecture` is instead of a language model.
    pub(super) fn of_architecture(name: &str) -> Option<Self> {
        let (_, found) = ARCHITECTURES
            .iter()
            .find(|(names, _)| names.iter().any(|begin| name.starts_with(begin)))?;
        Some(*found)
    }

    /// What a folder is that is not a model, by the names of the files in it.
    pub(super) fn of_folder(has: impl Fn(&str) -> bool) -> Option<Self> {
        let any = |names: &[&str]| names.iter().any(|name| has(name));
        if any(&["adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"]) {
            Some(ADAPTER)
        } else if has(PICTURE_FOLDER) {
            Some(PICTURES)
        } else {
            None
        }
    }

    /// As an error about the file or folder `origin`.
    pub(super) fn error(self, origin: &str) -> LibraryError {
        LibraryError::NotAModel { origin: origin.to_owned(), what: self.what, remedy: self.remedy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_by_how_they_begin() {
        let of = |name: &str, bytes: &[u8]| OtherFile::of_bytes(Path::new(name), bytes);
        let mut tar = vec![0; 512];
        tar[257..262].copy_from_slice(b"ustar");
        for (name, bytes, what) in [
            ("m.gguf", &b"version https://git-lfs.github.com/spec/v1\n"[..], "Git LFS"),
            ("m.gguf", b"\n <!DOCTYPE html>", "HTML"),
            ("m.gguf", b"<html><head>", "HTML"),
            ("m.gguf", b"tjgg\x03\0\0\0", "GGML"),
            ("m.gguf", b"lmgg\0\0\0\0", "GGML"),
            ("m.gguf", b"algg\0\0\0\0", "adapter"),
            ("m.gguf", b"", "empty"),
            ("m.gguf.part", b"GGUF", "unfinished"),
            ("ab.incomplete", b"", "unfinished"),
            ("m.gguf", b"\x20\0\0\0\0\0\0\0{\"a\":{}}", "safetensors"),
            ("m.bin", b"PK\x03\x04....archive/data.pkl", "PyTorch"),
            ("m.bin", b"\x80\x02\x8a\x0a", "PyTorch"),
            ("m.zip", b"PK\x03\x04....m.gguf", "zip"),
            ("m.tgz", b"\x1f\x8b\x08", "gzip"),
            ("m.tar", &tar, "tar"),
            ("m", b"\x08\x07\x12\x07pytorch", "ONNX"),
            ("latest", b"{\"schemaVersion\":2}", "Ollama"),
            ("tokenizer.json", b"{\"version\":\"1.0\"}", "JSON"),
        ] {
            let found = of(name, bytes).map_or("", |other| other.what);
            assert!(found.contains(what), "{name}: {found} instead of {what}");
        }
        assert_eq!(of("m.gguf", b"some other bytes"), None);
    }

    #[test]
    fn architectures_without_text_are_told() {
        for (name, what) in [
            ("clip", "projector"),
            ("nomic-bert-moe", "embedding"),
            ("t5encoder", "text encoder"),
            ("whisper", "sound"),
            ("flux", "images"),
        ] {
            let found = OtherFile::of_architecture(name).map_or("", |other| other.what);
            assert!(found.contains(what), "{name}: {found}");
        }
        assert_eq!(OtherFile::of_architecture("llama"), None);
    }
}
