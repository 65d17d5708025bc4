//! The very first answer of the bundled pair, played at a pace that can be watched, with a caption
//! in plain words. Any key gives full speed; it never comes again by itself. Must never know keys.

use crate::decode::Round;

/// Where it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstAnswer {
    /// There was one.
    #[default]
    Past,
    /// The next answer is it.
    ToCome,
    /// It is on its way; the pace before it, milliseconds.
    Playing {
        /// To be restored.
        pace: usize,
    },
}

impl FirstAnswer {
    /// Least milliseconds of a step while it plays.
    pub const PACE: usize = 450;

    /// To come if the program has never answered here.
    pub fn new(first_run: bool) -> Self {
        if first_run { Self::ToCome } else { Self::Past }
    }

    /// Whether it is on its way.
    pub fn plays(self) -> bool {
        matches!(self, Self::Playing { .. })
    }
}

/// What a step did, in plain words.
pub fn caption(round: &Round) -> String {
    let guessed = round.tree.nodes().iter().map(|node| node.depth).max().unwrap_or(0);
    let kept = round.accepted.len();
    let words =
        |count: usize| if count == 1 { "1 word".to_string() } else { format!("{count} words") };
    match guessed {
        0 => "nothing guessed: the big model says one word itself".to_string(),
        _ => format!("{} guessed, {kept} kept", words(guessed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::testing::round_of;

    #[test]
    fn the_caption_counts_what_was_guessed_ahead() {
        let nodes = [("a", 0, 1.0), ("b", 0, 0.5), ("c", 1, 0.5), ("d", 0, 0.1)];
        let round = round_of(&nodes, &[1], "e");
        assert_eq!(caption(&round), "2 words guessed, 1 kept");
        assert!(caption(&round_of(&nodes[..1], &[], "e")).starts_with("nothing guessed"));
    }
}
