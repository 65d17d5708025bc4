//! Models are opened as users name them: by folder, file, hub id, or from the binary.

mod architectures;
mod bundled;
mod checkpoints;
mod folder;
mod formats;
mod gguf;
mod gguf_writer;
mod hub;
mod shared;

use dovetail::library::{self, HeadFiles, LibraryError, Spec, TargetFiles};

fn open_target(spec: &Spec) -> Result<TargetFiles, LibraryError> {
    library::open_target(spec, &mut |_| {})
}

fn open_head(spec: &Spec) -> Result<HeadFiles, LibraryError> {
    library::open_head(spec, &mut |_| {})
}
