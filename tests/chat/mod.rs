//! Templates that render conversations, and conversations on disk.

mod families;
mod sessions;
mod templates;
