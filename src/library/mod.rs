//! Finding and opening models: GGUF, safetensors, tokenizer, hub download, the bundled pair, what
//! is on this machine; and the text from which retrieval drafts. It must not depend on decoding.

mod blob;
mod bundled;
mod catalogue;
mod datastore;
mod drafts;
mod error;
mod fingerprint;
mod folder;
mod gguf;
mod hf_names;
mod hub;
mod mxfp4;
mod ngrams;
mod open;
mod other_file;
mod own_head;
mod packed;
mod pickle;
mod pickle_check;
mod published_dflash;
mod safetensors;
mod sampling;
mod shard_names;
mod sizes;
mod spec;
mod stores;
mod target;
mod titles;
mod tokenizer;
mod transposed;

use error::Result;
use sizes::Weight;

pub(crate) use blob::Blob;
pub use catalogue::{CataloguePair, PairDraft, catalogue, pair};
pub use datastore::{Datastore, text_tokens};
pub use drafts::{DflashFiles, DraftFiles, HeadFiles, check_fit, open_draft, open_head};
pub use error::LibraryError;
pub use fingerprint::{TargetDifference, TargetFingerprint};
pub use hub::{
    DownloadProgress, Downloading, Hub, HubError, HubId, Patience, PinnedFile, PinnedFiles,
};
pub use ngrams::{
    NGRAMS_END, NgramFile, NgramHeader, NgramOwner, find_ngrams, ngrams_folder, open_ngrams,
    write_ngrams,
};
pub use open::{open_reference, open_small, open_target, shared_vocabulary};
pub use own_head::{OwnHead, made_for, made_for_another, own_head, own_head_of};
pub use packed::{PackedWeights, packed_cache};
pub use sampling::Recommended;
pub use spec::Spec;
pub use stores::{
    Facts, Found, Located, ModelEntry, ModelPlaces, Runs, Skipped, Store, bundled_drafts, find,
    find_spec, locate, model_at, named,
};
pub use target::TargetFiles;
pub use tokenizer::{Fingerprint, Tokenizer};
