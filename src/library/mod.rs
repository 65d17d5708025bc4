//! Getting models: GGUF, safetensors, tokenizer, hub download, the bundled pair.
//! Must never know decoding.

mod tokenizer;

pub use tokenizer::{Tokenizer, TokenizerError};
