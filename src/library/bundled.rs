//! The models that are part of the binary: `assets/demo/`, and heads for other targets. It must not
//! depend on how files are read. They are statics, since a constant's bytes are in the binary once
//! for each unit of code that names it.

use super::folder::Folder;

macro_rules! files {
    ($root:literal, $part:literal: $($file:literal),+) => {
        &[$((
            $file,
            include_bytes!(concat!(
                env!("CARGO_MANIFEST_DIR"), "/assets/", $root, "/", $part, "/", $file
            )),
        )),+]
    };
}

pub(super) static TARGET: Folder = Folder::Built(
    "bundled target",
    files!(
        "demo", "target": "config.json", "generation_config.json", "model.safetensors",
        "tokenizer.json", "tokenizer_config.json"
    ),
);

/// Its draft head.
pub(super) static HEAD: Folder =
    Folder::Built("bundled draft head", files!("demo", "head": "config.json", "model.safetensors"));

/// Heads for targets that are not part of the binary, each in a folder of `assets/heads/` whose
/// `target.json` names the target.
pub(super) static HEADS: &[Folder] = &[
    Folder::Built(
        "bundled: Qwen2.5-Coder-1.5B-Instruct",
        files!(
            "heads", "qwen2.5-coder-1.5b-instruct": "config.json", "model.safetensors",
            "target.json"
        ),
    ),
    Folder::Built(
        "bundled: SmolLM2-135M-Instruct",
        files!("heads", "smollm2-135m-instruct": "config.json", "model.safetensors", "target.json"),
    ),
];

/// A small language model of the target's family, with the target's tokenizer.
pub(super) static SMALL: Folder = Folder::Built(
    "bundled small model",
    &[
        ("config.json", include_bytes!("../../assets/demo/small/config.json")),
        ("model.safetensors", include_bytes!("../../assets/demo/small/model.safetensors")),
        ("tokenizer.json", include_bytes!("../../assets/demo/target/tokenizer.json")),
        ("tokenizer_config.json", include_bytes!("../../assets/demo/target/tokenizer_config.json")),
    ],
);

/// N-gram tables of popular models, by name: `assets/ngrams/`.
pub(super) static NGRAMS: &[(&str, &[u8])] = &[(
    "bundled: SmolLM2-135M-Instruct",
    include_bytes!("../../assets/ngrams/smollm2-135m-instruct.ngrams"),
)];
