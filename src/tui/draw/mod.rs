//! What all views draw with: areas, frames, rows and figures. Must never know the state.

pub(crate) mod areas;
pub(crate) mod figures;
pub(crate) mod frames;
pub(crate) mod rows;
