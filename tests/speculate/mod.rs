//! Growth of the draft tree, its acceptance, the sampler.

mod acceptance;
mod growth;
