//! The KV caches of recent conversations on disk, so that a conversation that is opened again need
//! not be read again. A file decides how soon an answer begins, never what it says. It is used only
//! for the target that made it (files, configuration, precision, context, machine and version), for
//! a prompt that begins with its tokens, and if every byte is as it was written. If anything is
//! wrong, the prompt is read as usual. The file is deleted together with its conversation.
//! Conversations are only known by name: a prompt's own tokens decide which file belongs to it.

mod folder;
mod keeper;
mod snapshot;
mod store;

#[cfg(test)]
pub use folder::snapshot_path;
pub use folder::{discard_other_snapshots, discard_snapshots, snapshot_folder};
pub use keeper::SnapshotKeeper;
pub use snapshot::Snapshot;
pub use store::SnapshotStore;
