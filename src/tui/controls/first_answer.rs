//! The very first answer of the demo, played at a pace that can be watched, with a caption. Any key
//! gives full speed; no later answer is slowed. Must never know keys.

use crate::decode::Round;
use crate::tui::draw::figures::many;

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstAnswer {
    /// It is over.
    #[default]
    Past,
    /// The next answer is it.
    ToCome,
    /// It is on its way; the milliseconds of the pace before it are to be restored.
    Playing { pace: usize },
}

impl FirstAnswer {
    /// Least milliseconds of a round while it plays: enough to read the caption.
    pub const PACE: usize = 900;

    /// To come if the program has never answered here.
    pub fn new(first_run: bool) -> Self {
        if first_run { Self::ToCome } else { Self::Past }
    }

    /// Whether it is on its way.
    pub fn plays(self) -> bool {
        matches!(self, Self::Playing { .. })
    }
}

/// What a round did: `16 guessed, 3 right → 4 tokens at once`. Guesses are the nodes of the
/// tree below its root, so that they can be counted on the screen.
pub fn caption(round: &Round) -> String {
    let guessed = round.tree.len() - 1;
    let right = round.accepted.len();
    let tokens = many(round.committed.len(), "token");
    match guessed {
        0 => format!("nothing guessed → {tokens} at once"),
        _ => format!("{guessed} guessed, {right} right → {tokens} at once"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::tests::round_of;

    #[test]
    fn the_caption_counts_guesses_and_what_came_of_them() {
        let nodes = [("a", 0, 1.0), ("b", 0, 0.5), ("c", 1, 0.5), ("d", 0, 0.1)];
        let round = round_of(&nodes, &[1], "e");
        assert_eq!(caption(&round), "3 guessed, 1 right → 2 tokens at once");
        let none = round_of(&nodes, &[], "e");
        assert_eq!(caption(&none), "3 guessed, 0 right → 1 token at once");
        let plain = round_of(&nodes[..1], &[], "e");
        assert_eq!(caption(&plain), "nothing guessed → 1 token at once");
    }
}
