//! Templates that write conversations down, and conversations on disk.

mod families;
mod sessions;
mod templates;
