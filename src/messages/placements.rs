//! Where target and draft run, in words.

use crate::plan::{DrafterId, PlacementForecast};

/// A placement, e.g. `draft head on the GPU, 12 of 32 target blocks on the GPU`.
pub fn placement(placement: &PlacementForecast) -> String {
    let place = if placement.draft_on_gpu { "the GPU" } else { "the CPU" };
    let target = target_place(placement.layers, placement.of);
    let duo = if placement.beside { "duo: " } else { "" };
    match (placement.draft, placement.head) {
        (DrafterId::Head, None) => format!("{duo}draft head on {place}, {target}"),
        (DrafterId::Head, Some(head)) => {
            format!("{duo}draft head {} on {place}, {target}", head + 1)
        }
        (DrafterId::SmallModel, _) => format!("{duo}small model on {place}, {target}"),
        _ => format!("plain, {target}"),
    }
}

/// A target with `layers` of its `of` blocks on the GPU.
fn target_place(layers: usize, of: usize) -> String {
    match layers {
        0 => "target on the CPU".to_owned(),
        all if all == of => "target on the GPU".to_owned(),
        some => format!("{some} of {of} target blocks on the GPU"),
    }
}
