//! The pair that is part of the binary: `assets/demo/`.

use super::folder::Folder;

macro_rules! files {
    ($part:literal: $($file:literal),+) => {
        &[$((
            $file,
            include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo/", $part, "/", $file)),
        )),+]
    };
}

/// The target.
pub(super) const TARGET: Folder = Folder::Built(
    "bundled target",
    files!("target": "config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"),
);

/// Its draft head.
pub(super) const HEAD: Folder =
    Folder::Built("bundled draft head", files!("head": "config.json", "model.safetensors"));
