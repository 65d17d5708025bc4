//! Getting models: GGUF, safetensors, tokenizer, hub download, the bundled pair.
//! Must never know decoding.

mod blob;
mod bundled;
mod error;
mod folder;
mod gguf;
mod hub;
mod open;
mod pickle;
mod safetensors;
mod sizes;
mod spec;
mod tokenizer;

use sizes::Weight;

pub use error::LibraryError;
pub use hub::{Hub, HubError, HubId, Progress};
pub use open::{HeadFiles, TargetFiles, check_fit, open_head, open_target};
pub use spec::Spec;
pub use tokenizer::{Tokenizer, TokenizerError};
