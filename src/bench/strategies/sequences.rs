//! DuoDecoding's number of sequences, counted over rounds: which k was chosen how often, and
//! whether one sequence would have been enough. It must not depend on what is drawn of it.

use serde::{Deserialize, Serialize};

use crate::decode::Round;

/// Counts of rounds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceCounts {
    /// Rounds that drafted 1, 2, … sequences ahead.
    pub rounds: Vec<usize>,
    /// Rounds after which the target chose among the first tokens, by `[actual][drafted]`, where 0
    /// is k = 1 and 1 is k > 1. Actually one sequence was enough if the target chose the first
    /// token of the draft's favourite.
    pub choices: [[usize; 2]; 2],
}

impl SequenceCounts {
    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.rounds.is_empty()
    }

    /// Counts a round.
    pub fn take(&mut self, round: &Round) {
        let Some(k) = round.ahead.as_ref().map(|ahead| ahead.k()).filter(|k| *k > 0) else {
            return;
        };
        if self.rounds.len() < k {
            self.rounds.resize(k, 0);
        }
        self.rounds[k - 1] += 1;
        if let Some(judged) = round.judged_count() {
            let actual = usize::from(!judged.one_was_enough);
            self.choices[actual][usize::from(judged.drafted > 1)] += 1;
        }
    }

    /// Adds other counts.
    pub fn add(&mut self, other: &Self) {
        if self.rounds.len() < other.rounds.len() {
            self.rounds.resize(other.rounds.len(), 0);
        }
        for (own, more) in self.rounds.iter_mut().zip(&other.rounds) {
            *own += more;
        }
        let own = self.choices.iter_mut().flatten();
        for (own, more) in own.zip(other.choices.iter().flatten()) {
            *own += more;
        }
    }

    /// Share of the rounds that drafted k sequences, from k = 1 on.
    pub fn shares(&self) -> Vec<f64> {
        let all: usize = self.rounds.iter().sum();
        self.rounds.iter().map(|count| *count as f64 / all.max(1) as f64).collect()
    }

    /// [`Self::choices`] as shares of all that were judged; `None` if none was.
    pub fn choice_shares(&self) -> Option<[[f64; 2]; 2]> {
        let all: usize = self.choices.iter().flatten().sum();
        (all > 0).then(|| self.choices.map(|row| row.map(|count| count as f64 / all as f64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_shares_sum_to_one() {
        let mut counts = SequenceCounts { rounds: vec![6, 2], choices: [[3, 1], [2, 2]] };
        assert_eq!(SequenceCounts::default().choice_shares(), None);
        assert!(SequenceCounts::default().is_empty());
        counts.add(&SequenceCounts { rounds: vec![0, 0, 0, 2], choices: [[0, 0], [0, 2]] });
        assert_eq!(counts.rounds, [6, 2, 0, 2]);
        assert_eq!(counts.shares(), [0.6, 0.2, 0.0, 0.2]);
        assert_eq!(counts.choice_shares(), Some([[0.3, 0.1], [0.2, 0.4]]));
    }
}
