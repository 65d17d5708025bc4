//! Templates that write conversations down, and conversations on disk.

mod sessions;
mod templates;
