//! Detects an answer that repeats the same tokens over and over. It must never change a token.
//!
//! Only exact repetition counts: a block of up to [`LONGEST`] tokens that occurs at least
//! [`COPIES`] times in direct succession. Lists, code and tables differ from line to line. Text
//! that does not (rules of dashes, rows of zeros or of empty cells) has few letters and is not
//! counted.

/// The longest block, in tokens.
const LONGEST: usize = 128;
/// The fewest copies of a block.
const COPIES: usize = 4;
/// The fewest tokens of all copies together.
const TOKENS: usize = 96;
/// The same for a block of one or two tokens, which are common in arrays.
const SHORT_TOKENS: usize = 192;
/// The minimum fraction of a block's visible characters that are letters.
const LETTERS: f64 = 0.6;

/// Watches one answer.
#[derive(Clone, Debug)]
pub(super) struct RepetitionDetector {
    /// The last [`LONGEST`] tokens, as a ring.
    recent: Vec<u32>,
    /// Letters and visible characters of each of them.
    shape: Vec<(usize, usize)>,
    /// For each period, starting at 1, how many consecutive tokens equal the token one period
    /// earlier.
    runs: [usize; LONGEST],
    count: usize,
    found: bool,
}

impl RepetitionDetector {
    /// For an answer without tokens.
    pub(super) fn new() -> Self {
        let recent = vec![0; LONGEST];
        let shape = vec![(0, 0); LONGEST];
        Self { recent, shape, runs: [0; LONGEST], count: 0, found: false }
    }

    /// Takes the next token and the text that it added. Returns `true` at the first token at which
    /// the answer repeats itself, and never again.
    pub(super) fn push(&mut self, token: u32, text: &str) -> bool {
        for (i, run) in self.runs.iter_mut().enumerate() {
            let period = i + 1;
            let before = self.count.checked_sub(period).map(|at| self.recent[at % LONGEST]);
            *run = if before == Some(token) { *run + 1 } else { 0 };
        }
        let letters = text.chars().filter(|c| c.is_alphabetic()).count();
        let visible = text.chars().filter(|c| !c.is_whitespace()).count();
        self.recent[self.count % LONGEST] = token;
        self.shape[self.count % LONGEST] = (letters, visible);
        self.count += 1;
        if self.found {
            return false;
        }
        self.found = (1..=LONGEST).any(|period| {
            let copied = self.runs[period - 1] + period;
            let least = if period <= 2 { SHORT_TOKENS } else { TOKENS };
            copied >= least.max(COPIES * period) && self.is_prose(period)
        });
        self.found
    }

    /// Whether the last `period` tokens are mostly letters.
    fn is_prose(&self, period: usize) -> bool {
        let last = (self.count.saturating_sub(period)..self.count).map(|at| at % LONGEST);
        let mut letters = 0;
        let mut visible = 0;
        for at in last {
            letters += self.shape[at].0;
            visible += self.shape[at].1;
        }
        visible > 0 && letters as f64 >= LETTERS * visible as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::{Spec, open_target};
    use proptest::prelude::*;

    /// After how many tokens, of at most `most`, the repetition of `block` after `before` is
    /// detected.
    fn noticed(before: &[u32], block: &[u32], most: usize) -> Option<usize> {
        let mut detector = RepetitionDetector::new();
        for &token in before {
            assert!(!detector.push(token, "word "));
        }
        let mut tokens = block.iter().cycle().take(most);
        tokens.position(|&token| detector.push(token, "word ")).map(|at| at + 1)
    }

    /// Whether the bundled model's tokens of `text` count as repetition.
    fn alarms(text: &str) -> bool {
        let tokenizer = open_target(&Spec::Bundled, &mut |_| {}).unwrap().tokenizer;
        let mut detector = RepetitionDetector::new();
        let tokens = tokenizer.encode(text, false).unwrap();
        tokens.iter().any(|&token| detector.push(token, &tokenizer.text(&[token])))
    }

    proptest! {
        #[test]
        fn a_block_that_is_repeated_is_noticed_once_and_soon(
            before in prop::collection::vec(1000u32..2000, 0..150),
            block in prop::collection::vec(0u32..500, 1..=LONGEST),
        ) {
            let at = noticed(&before, &block, 2 * SHORT_TOKENS + COPIES * LONGEST);
            let most = SHORT_TOKENS.max(COPIES * block.len());
            prop_assert!(at.is_some_and(|at| at <= most), "{at:?} of {most}");

            let mut detector = RepetitionDetector::new();
            let alarms = block.iter().cycle().take(3000);
            let alarms = alarms.filter(|&&token| detector.push(token, "word ")).count();
            prop_assert_eq!(alarms, 1);
        }

        #[test]
        fn fewer_copies_than_four_are_not(
            block in prop::collection::hash_set(0u32..100_000, 8..=LONGEST),
            copies in 1usize..COPIES,
        ) {
            let block: Vec<u32> = block.into_iter().collect();
            prop_assert_eq!(noticed(&[7_000_000], &block, copies * block.len()), None);
        }

        #[test]
        fn lines_that_count_are_not(
            words in prop::collection::vec("[a-z]{2,9}", 1..8),
            lines in 1usize..150,
            marks in 0usize..4,
        ) {
            let words = words.join(" ");
            let line = |i: usize| match marks {
                0 => format!("{i}. {words}\n"),
                1 => format!("| {i} | {words} | {} |\n", i * i),
                2 => format!("    values.push({i}); // {words}\n"),
                _ => format!("- **{words} {i}**\n"),
            };
            prop_assert!(!alarms(&(0..lines).map(line).collect::<String>()));
        }
    }

    #[test]
    fn rules_zeros_and_empty_cells_are_not() {
        for text in [
            "-".repeat(2000),
            "=-".repeat(600),
            format!("|{}", "---|".repeat(300)),
            "0, ".repeat(500),
            "[0, 0, 0, 0],\n".repeat(60),
            "| | | | |\n".repeat(100),
            "}\n".repeat(200),
            "\n".repeat(500),
            "░█".repeat(300),
        ] {
            assert!(!alarms(&text), "{text}");
        }
    }

    #[test]
    fn texts_code_and_tables_of_this_project_are_not() {
        for text in [
            include_str!("../../README.md"),
            include_str!("../method.md"),
            include_str!("../settings/keys.rs"),
            include_str!("../../assets/bench/quality.txt"),
            include_str!("../../assets/bench/humaneval.jsonl"),
            include_str!("../../assets/bench/mt_bench.jsonl"),
        ] {
            assert!(!alarms(text), "{}", &text[..40]);
        }
    }

    #[test]
    fn a_model_in_a_loop_is() {
        assert!(alarms(&"The fox ran over the hill and slept in the sun. ".repeat(12)));
        assert!(alarms(&format!("Once upon a time {}", "I am not sure. ".repeat(40))));
        assert!(alarms(&"very ".repeat(400)));
    }
}
