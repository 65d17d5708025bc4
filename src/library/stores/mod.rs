//! The models on this machine: in folders that the user names, the hub's cache, LM Studio's folders
//! and Ollama's store. It reads only names and headers, and never writes anything.
//!
//! [`ModelPlaces`] says where to look, [`find`] returns every model once ([`ModelEntry`]) with what
//! its headers say ([`Facts`]) and, if this program cannot open it, why. Anything damaged is left
//! out with a reason ([`Skipped`]) and does not stop the search. [`find_spec`] takes what a user
//! types.
//!
//! ```no_run
//! use dovetail::library::{ModelPlaces, find};
//! let found = find(&ModelPlaces::of_machine(&["~/models".to_owned()]));
//! for model in &found.models {
//!     let size = model.located.bytes / 1_000_000;
//!     println!("{}: {}, {size} MB", model.located.name, model.title());
//! }
//! ```
//!
//! From the bottom up: `entry` and `facts` (what is known), `walk` and `ollama` (what is there),
//! `places`, `find`, `names`.

mod entry;
mod facts;
mod find;
mod names;
mod ollama;
mod places;
mod walk;

pub use entry::{Located, ModelEntry, Skipped, Store};
pub use facts::{Facts, Runs};
pub use find::{Found, bundled_drafts, find, locate, model_at};
pub use names::{find_spec, named};
pub use places::ModelPlaces;
