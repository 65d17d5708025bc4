//! The KV caches of recent conversations on the disk, so that a conversation that is opened again
//! is not read again. A file decides how soon an answer begins, and never what it says: it is used
//! only for the very target that made it (files, configuration, precision, context, machine and
//! version), for a prompt that begins with its tokens, and with every byte as it was written.
//! Whatever is wrong, the prompt is read as ever. It goes with the conversation that it belongs to.
//! Must never know conversations but by name: a prompt's own tokens say which file is its.

mod folder;
mod keeper;
mod store;

#[cfg(test)]
pub use folder::kept_kv_name;
pub use folder::{discard_kept, discard_others, kv_folder};
pub use keeper::KvKeeper;
pub use store::KvStore;
