//! Models are opened as users name them: by folder, file, hub id, or from the binary.

mod bundled;
mod folder;
