//! Opening models: GGUF, safetensors, tokenizer, hub download, the bundled pair; and the text that
//! retrieval drafts from.
//! Must never know decoding.

mod blob;
mod bundled;
mod datastore;
mod error;
mod folder;
mod gguf;
mod hf_names;
mod hub;
mod open;
mod pickle;
mod pickle_check;
mod safetensors;
mod sampling;
mod sizes;
mod spec;
mod tokenizer;

use sizes::Weight;

pub(crate) use blob::Blob;
pub use datastore::Datastore;
pub use error::LibraryError;
pub use hub::{Hub, HubError, HubId, Progress};
pub use open::{
    HeadFiles, TargetFiles, check_fit, open_head, open_small, open_target, shared_vocabulary,
};
pub use sampling::Recommended;
pub use spec::Spec;
pub use tokenizer::{Tokenizer, TokenizerError};
